"""What an accelerator computes between two stages of a step in time, as circuits: the state of the
next stage with the maps by which changes move there, and the Jacobians of the feet.

The graphs are those of the package's integrators and derivatives; where they choose between a
series and a closed form, a circuit has the series. The end of a step goes through the same circuit
as a stage does: its motion is the sum over stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from circuit import ACCELERATION, ANGLE, DEVICE, GUARD, SAMPLES, SPEED
from robot import FEET, Quadruped

from featherlane.accelerators.choices import DesignSpec
from featherlane.accelerators.designers import Designer
from featherlane.algorithms.configurations import integrate
from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.algorithms.lie_group_joints import local_rate, stage_maps
from featherlane.api.model import Model
from featherlane.backends.fixed.assign import fitted
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fpga.cost import DesignCost
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.derivatives.graphs import jacobian
from featherlane.program.graph import Graph, Output
from featherlane.program.rewrite import simplify
from featherlane.program.trace import trace
from featherlane.robot.exponential import NEAR
from featherlane.robot.tree_of import tree_of
from featherlane.scalar import Tag

DT = 0.015  # s
LEAST = 2.0**-9  # of coefficients of series: up to 0.25 rad, the terms of less are below 2^-26
NEXT_STATE, FEET_JACOBIANS = "next_state", "feet"
Given = dict[str, np.ndarray]


class PieceTimes(NamedTuple):
    """Of a circuit: cycles from one task to the next, and of a task through it."""

    interval: int
    latency: int


def next_state(model: Model) -> Graph:
    """The graph of the next stage. Its inputs: q and v of the step's beginning, rate and a of the
    stage; h, the part of the step up to the next stage, and share, the weight of the stage, in s;
    the sums over earlier stages, and as `end_r` and `end_a` these sums again at the end of the
    step, with h = share, and else zeros. Its outputs: the next state and rate, the sums, the maps.
    """
    tree, n, series = tree_of(model), model.nv, INTEGRATORS["rk4"].series

    def run(q: Any, v: Any, rate: Any, a: Any, h: Any, share: Any, *sums: Any) -> dict[str, Any]:
        sum_r, sum_a, end_r, end_a = sums
        u = _plus(end_r, h, rate)
        v_next = [x + y for x, y in zip(_plus(v, h, a), end_a, strict=True)]
        maps = stage_maps(tree, u, v_next, series)
        named = zip(("by_q", "by_u", "rate_by_u", "rate_by_v"), maps, strict=True)
        return {
            "q_next": integrate(tree, q, u), "v_next": v_next,
            "rate_next": local_rate(tree, u, v_next, series),
            "sum_r_next": _plus(sum_r, share, rate), "sum_a_next": _plus(sum_a, share, a),
            **dict(named),
        }  # fmt: skip

    own = dict.fromkeys(("rate", "a"), n)
    sums = dict.fromkeys(("sum_r", "sum_a", "end_r", "end_a"), n)
    return trace(run, {"q": model.nq, "v": n, **own, "h": (), "share": (), **sums})


def _plus(a: Sequence[Any], s: Any, b: Sequence[Any]) -> list[Any]:
    return [x + s * y for x, y in zip(a, b, strict=True)]


def feet_jacobians(model: Model) -> Graph:
    """The graph of the torques that forces at the feet, in the world's axes, add: -J^T."""
    base = dynamics_graph(model, Variant("inverse_dynamics", "world", at=FEET))
    found = jacobian(base, "tau", "f_ext")
    ((shape, nodes),) = found.outputs.values()
    linear = np.reshape(nodes, shape)[..., :3].reshape(model.nv, -1)
    outputs = {"forces": Output(linear.shape, tuple(linear.ravel().tolist()))}
    return simplify(found.replaced(outputs=outputs))


def circuit_of(graph: Graph, zeros: Sequence[str] = ()) -> Graph:
    """A graph for circuits. zeros: inputs that are 0. Of functions of x^2 their series are left, as
    they are for x below 1, and of the length of a quaternion its series about 1.
    """
    made, place = Graph(), list[int]()
    made.current_tag = Tag("S", "f", 0, 1)
    for name, shape in graph.inputs.items():
        if name not in zeros:
            made.declare(name, shape)
    for op, args, value in zip(graph.op, graph.args, graph.value, strict=True):
        own = [place[a] for a in args]
        if op == "input":
            known = made.constant(0.0) if value[0] in zeros else made.node("input", value=value)
        elif op == "constant":
            known = made.constant(value if value == "nan" or abs(value) >= LEAST else 0.0)
        elif op == "less" and made.number(own[1]) == NEAR:
            known = made.less(made.constant(0.0), own[1])
        elif op == "sqrt" and made.number(own[0]) is None:
            known = _inverse_length(made, own[0])
        else:
            known = getattr(made, op)(*own)
        place.append(known)
    for name, (shape, nodes) in graph.outputs.items():
        made.outputs[name] = Output(shape, tuple(place[k] for k in nodes))
    return prepared(simplify(made))


def _inverse_length(made: Graph, k: int) -> int:
    """1 / |x| as 3/2 - |x|^2 / 2, a step of Newton's method from 1. k: 1 / |x|^2, guarded."""
    while made.op[k] == "select":
        k = made.args[k][1]
    assert made.op[k] == "div", "the root is of 1 / |x|^2"
    one, square = made.args[k]
    assert made.number(one) == 1.0, "the root is of 1 / |x|^2"
    return made.sub(made.constant(1.5), made.mul(made.constant(0.5), square))


def sampled_stages(robot: Quadruped, count: int, seed: int) -> Given:
    """Stages of steps about standing, and ends of steps."""
    rng, n = np.random.default_rng(seed), robot.model.nv
    drawn = lambda: rng.uniform(-1, 1, (count, n))
    q = robot.model.integrate(np.tile(robot.stance, (count, 1)), ANGLE * drawn())
    kind = rng.integers(0, 3, count)  # of the part up to the next stage; 2: the end
    ends = (kind == 2)[:, None]
    sum_r, sum_a = (DT * most * drawn() for most in (SPEED, np.array(ACCELERATION)))
    return {
        "q": q, "v": SPEED * drawn(), "rate": SPEED * drawn(), "a": ACCELERATION * drawn(),
        "h": DT * np.choose(kind, [1 / 2, 1.0, 1 / 6]),
        "share": DT * np.choose(kind, [1 / 3, 1 / 3, 1 / 6]),
        "sum_r": sum_r, "sum_a": sum_a, "end_r": ends * sum_r, "end_a": ends * sum_a,
    }  # fmt: skip


def piece_datapath(graph: Graph, states: Mapping[str, np.ndarray]) -> Datapath:
    """A graph of `circuit_of` in the formats of the dynamics, fitted to states."""
    return narrowed(fitted(graph, {name: states[name] for name in graph.inputs}, guard=GUARD))


def scheduled(name: str, datapath: Datapath, interval: int) -> tuple[PieceTimes, DesignCost]:
    """The schedule of a circuit at an interval, and what it needs of the device."""
    designer = Designer(name, DesignSpec(device=DEVICE, sharing="whole"))
    made, needed = designer.design(datapath, interval)
    return PieceTimes(interval, made.latency), needed


def stage_pieces(robot: Quadruped, interval: int) -> dict[str, tuple[PieceTimes, DesignCost]]:
    """The circuits between stages, each with a task every `interval` cycles."""
    states = sampled_stages(robot, SAMPLES, 0)
    graphs = {
        NEXT_STATE: circuit_of(next_state(robot.model)),
        FEET_JACOBIANS: circuit_of(feet_jacobians(robot.model), ("v", "a", "f_ext")),
    }
    return {
        name: scheduled(name, piece_datapath(graph, states), interval)
        for name, graph in graphs.items()
    }
