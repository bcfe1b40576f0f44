"""Inverse kinematics compiled: steps of Gauss-Newton for blocks of targets, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.clearance import Push, push
from featherlane.algorithms.common import Scalars
from featherlane.algorithms.inverse_kinematics import inverse_kinematics_step
from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.cpu.sequence.kernel import compile_plan
from featherlane.backends.progress import compiling
from featherlane.functions.clearance import Surroundings, shapes_of_placements
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.program.lower import traced
from featherlane.program.plan import Copy, KernelRun, Loop, Plan, Use
from featherlane.program.program import Program
from featherlane.robot.model import Robot
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import build_tree, tree_of

STEPS = 4  # of a call: targets that are reached leave the batch between two calls
POSE, POSITION = (3, 4), (3,)  # shapes of targets: the first rows of a placement, or a point


class Problem(NamedTuple):
    """The options that the code of a solver depends on, besides the robot."""

    frames: tuple[str, ...]
    targets: tuple[tuple[int, ...], ...]  # POSE or POSITION, of each frame
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    has_posture: bool
    surroundings: Surroundings | None
    parameters: tuple[str, ...]

    @property
    def errors(self) -> int:
        """Returns the numbers of `error`: of positions, of rotations if there are any, the missing
        clearance if there are obstacles, and the step.
        """
        return 2 + (POSE in self.targets) + (self.surroundings is not None)

    def inputs(self, model: Robot) -> dict[str, dict[str, tuple[int, ...]]]:
        """Returns the shapes of the arrays that stay the same from step to step, in groups."""
        around = {} if self.surroundings is None else {"margin": (), **self.surroundings.inputs}
        return {
            "targets": {f"target{n}": shape for n, shape in enumerate(self.targets)},
            "posture": {"posture": (model.nq,)} if self.has_posture else {},
            "around": around,
            "parameters": shapes_of_placements(model, self.parameters),
        }


def solver(model: Robot, problem: Problem) -> Function:
    """Returns f(q, step, gain, target0, ..., posture, margin, obstacles ..., parameters ...) -> (q,
    step, error), `STEPS` steps of `inverse_kinematics_step`.
    """
    groups = problem.inputs(model)
    state = {"q": (model.nq,), "step": (model.nv,)}
    inputs: dict[str, tuple[int, ...]] = {**state, "gain": ()}
    for group in groups.values():
        inputs |= group
    outputs = {"q_next": (model.nq,), "step_next": (model.nv,), "error": (problem.errors,)}
    key = _key(model, problem)

    def one_step() -> Program:
        def run(q: Any, step: Any, gain: Any, *rest: Any) -> dict[str, Any]:
            arrays = dict(zip([*inputs][3:], rest, strict=True))
            targets, posture, around, parameters = (
                {name: arrays[name] for name in group} for group in groups.values()
            )
            tree = build_tree(model, parameters) if parameters else tree_of(model)
            frames = [tree.point(model.frame(name)) for name in problem.frames]
            limits, wanted = (problem.lower, problem.upper), posture.get("posture")
            away = _push_at(tree, problem.surroundings, around)
            places = [*targets.values()]
            moved = inverse_kinematics_step(
                tree, frames, limits, q, step, gain, places, wanted, away
            )
            return dict(zip(outputs, moved, strict=True))

        return traced(run, inputs, "cpu")

    def kernel(dtype: np.dtype) -> Kernel:
        with compiling(f"inverse_kinematics of {model.name} ({dtype})"):
            part = compile_program(one_step, key, dtype)
            plan = _plan(inputs, outputs)
            return compile_plan(plan, [part], f"{key} plan", dtype, single=False)

    return Function("inverse_kinematics", inputs, outputs, KernelsByDtype(kernel))


def _push_at(
    tree: Tree, surroundings: Surroundings | None, around: dict[str, Any]
) -> Callable[[Scalars], Push] | None:
    """Returns the push out of obstacles as a function of q, None without obstacles."""
    if surroundings is None:
        return None
    margin, *arrays = around.values()
    cover, obstacles = surroundings.cover(tree), surroundings.obstacles(arrays)
    return lambda q: push(tree, q, cover, obstacles, margin)


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
