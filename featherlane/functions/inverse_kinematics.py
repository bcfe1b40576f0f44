"""Inverse kinematics compiled: steps of Gauss-Newton for blocks of targets, one after another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.inverse_kinematics import inverse_kinematics_step
from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.cpu.sequence.kernel import compile_plan
from featherlane.backends.progress import compiling
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.program.lower import traced
from featherlane.program.plan import Copy, KernelRun, Loop, Plan, Use
from featherlane.program.program import Program
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of

STEPS = 4  # of a call: targets that are reached leave the batch between two calls
POSE, POSITION = (3, 4), (3,)  # shapes of targets: the first rows of a placement, or a point


class Problem(NamedTuple):
    """The options that the code of a solver depends on, besides the robot."""

    frames: tuple[str, ...]
    targets: tuple[tuple[int, ...], ...]  # POSE or POSITION, of each frame
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    has_posture: bool

    @property
    def errors(self) -> int:
        """Returns the numbers of `error`: of positions, of rotations if there are any, and the
        step.
        """
        return 2 + (POSE in self.targets)


def solver(model: Robot, problem: Problem) -> Function:
    """Returns f(q, step, gain, target0, ..., posture) -> (q, step, error), `STEPS` steps of
    `inverse_kinematics_step`.
    """
    goals = {f"target{n}": shape for n, shape in enumerate(problem.targets)}
    posture = {"posture": (model.nq,)} if problem.has_posture else {}
    state = {"q": (model.nq,), "step": (model.nv,)}
    inputs: dict[str, tuple[int, ...]] = {**state, "gain": (), **goals, **posture}
    outputs = {"q_next": (model.nq,), "step_next": (model.nv,), "error": (problem.errors,)}
    key = _key(model, problem)

    def one_step() -> Program:
        tree = tree_of(model)
        frames = [tree.point(model.frame(name)) for name in problem.frames]
        limits = problem.lower, problem.upper

        def run(q: Any, step: Any, gain: Any, *rest: Any) -> dict[str, Any]:
            targets, wanted = rest[: len(goals)], rest[-1] if posture else None
            results = inverse_kinematics_step(tree, frames, limits, q, step, gain, targets, wanted)
            return dict(zip(outputs, results, strict=True))

        return traced(run, inputs, "cpu")

    def kernel(dtype: np.dtype) -> Kernel:
        with compiling(f"inverse_kinematics of {model.name} ({dtype})"):
            part = compile_program(one_step, key, dtype)
            plan = _plan(inputs, outputs)
            return compile_plan(plan, [part], f"{key} plan", dtype, single=False)

    return Function("inverse_kinematics", inputs, outputs, KernelsByDtype(kernel))


def _key(model: Robot, problem: Problem) -> str:
    places = [model.frame(name)[1:] for name in problem.frames]
    return repr(("inverse_kinematics", model.fingerprint, places, problem[1:]))


def _plan(inputs: dict[str, Any], outputs: dict[str, Any]) -> Plan:
    """Two steps at a time, there and back between two places in the workspace."""
    others = [Use(name) for name in [*inputs][2:]]
    here, there = ([Use(f"{x}_{place}") for x in ("q", "step")] for place in ("here", "there"))
    run = lambda source, target: KernelRun(0, (*source, *others, *target, Use("error")))
    body = run(here, there), run(there, here)
    begin = [Copy(Use(x), place) for x, place in zip(("q", "step"), here, strict=True)]
    end = [Copy(place, Use(f"{x}_next")) for x, place in zip(("q", "step"), here, strict=True)]
    temporaries = {f"{x}_{place}": inputs[x] for x in ("q", "step") for place in ("here", "there")}
    return Plan(inputs, outputs, [*begin, Loop("k", STEPS // 2, body), *end], temporaries)
