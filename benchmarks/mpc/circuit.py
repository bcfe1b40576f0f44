"""Accelerations and their derivatives of the robot as a circuit: numbers, schedule and cost.

Forces of the feet are inputs, in the world's axes. One pipeline gives a, da/dq, da/dv and M^-1 of a
state; where a alone is wanted, the encoder sends nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from chain_rule import DYNAMICS
from robot import FEET, Quadruped

from featherlane.backends.fixed.assign import fitted, uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, Results, floats, quantised
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.cost import DesignCost, cost
from featherlane.backends.fpga.verilog import Design, design
from featherlane.functions.circuits import circuit_graph
from featherlane.functions.table import Variant
from featherlane.program.analysis.modulo import by_class, pipelined
from featherlane.program.passes.guards import LOST
from featherlane.program.rewrite import simplify

DEVICE, CLOCK = "xcvu9p", 8.0  # ns
INTERVAL = 32  # cycles; the words of results alone take 30
SAMPLES, GUARD = 4000, 4  # with 2 bits beyond what samples need, signals of a trot overflowed
# Of samples: a little more than closed loops of the controller ask for, by freedom: the base's
# translation and rotation, the arm's joints, those of a leg. SI units
ANGLE, FORCE = 1.2, 500.0
SPEED = np.array([2.0] * 3 + [4.0] * 3 + [4, 4, 3, 40, 10, 60, 40] + [5, 8, 10] * 4)
ACCELERATION = (
    [20.0] * 3 + [40.0] * 3 + [200, 80, 100, 1000, 500, 2500, 2000] + [500, 1000, 4000] * 4
)
VARIANT = Variant(DYNAMICS, "world", at=FEET)
INPUTS, RESULTS = ("q", "v", "tau", "f_ext"), ("a", "da_dq", "da_dv", "da_dtau")
Given = dict[str, np.ndarray]


def sampled(robot: Quadruped, count: int, seed: int) -> Given:
    """States about standing, with forces of the feet and the torques that balance them."""
    rng, model = np.random.default_rng(seed), robot.model
    drawn = lambda *shape: rng.uniform(-1, 1, (count, *shape))
    q = model.integrate(np.tile(robot.stance, (count, 1)), ANGLE * drawn(model.nv))
    v, a = (most * drawn(model.nv) for most in (SPEED, np.array(ACCELERATION)))
    f_ext = FORCE * drawn(len(FEET), 6)
    f_ext[..., 3:] = 0.0  # point feet
    wrenches = dict(zip(FEET, f_ext.swapaxes(0, 1), strict=True))
    tau = model.inverse_dynamics(q, v, a, f_ext=wrenches, f_ext_frame="world")
    return {"q": q, "v": v, "tau": tau, "f_ext": f_ext}


@dataclass(frozen=True)
class Circuit:
    """The dynamics in fixed point. format: "fitted" to sampled states, or as "q16.16"."""

    robot: Quadruped
    format: str = "fitted"

    @cached_property
    def datapath(self) -> Datapath:
        graph = prepared(circuit_graph(self.robot.model, VARIANT, None, {}))
        if self.format == "fitted":
            return narrowed(fitted(graph, sampled(self.robot, SAMPLES, 0), guard=GUARD))
        return narrowed(uniform(graph, self.format))

    @cached_property
    def _evaluators(self) -> dict[bool, Evaluator]:
        """With all results, and with the acceleration alone."""
        graph = self.datapath.graph
        rest = graph.replaced(outputs={k: graph.outputs[k] for k in ("a", LOST)})
        formats = [x for x, live in zip(self.datapath.formats, rest.live(), strict=True) if live]
        alone = Datapath(simplify(rest), tuple(formats))
        return {True: Evaluator(self.datapath), False: Evaluator(alone)}

    def __call__(self, derivatives: bool, given: Given) -> tuple[Given, Results]:
        """The numbers that the circuit gives for states, to the bit, and what happened in it."""
        evaluator = self._evaluators[derivatives]
        integers, saturated = quantised(evaluator.datapath, given)
        results = evaluator(integers)
        numbers = floats(evaluator.datapath, results.integers)
        return numbers, results._replace(saturated=saturated)

    def told(self, derivatives: bool, k: int) -> str:
        """The unit that computes node k."""
        graph = self._evaluators[derivatives].datapath.graph
        tag = graph.tag[k]
        return f"{graph.op[k]} of {tag.algorithm}{tag.direction}{tag.joint}" if tag else graph.op[k]

    @cached_property
    def made(self) -> tuple[Design, DesignCost]:
        """The pipeline and what it needs: a minute or two."""
        device = devices.load(DEVICE)
        graph = self.datapath.graph
        own = devices.operators(self.datapath, device)
        pipeline = pipelined(graph, own, CLOCK, INTERVAL, by_class(graph))
        pipeline.verify()
        found = design("dynamics", self.datapath, pipeline, device.tile)
        return found, cost(found, device)

    def free_multipliers(self, share: float) -> float:
        """Of a share of the device's, those that the pipeline leaves."""
        _, needed = self.made
        return needed.total.dsps * (100 * share / needed.shares.dsps - 1)
