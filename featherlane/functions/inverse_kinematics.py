"""Inverse kinematics compiled: a search by steps of Gauss-Newton from several starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.clearance import Push, push
from featherlane.algorithms.common import Scalars
from featherlane.algorithms.inverse_kinematics import inverse_kinematics_step
from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu import scratch
from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.cpu.cost_model import CallCost
from featherlane.backends.cpu.sequence.kernel import compile_plan
from featherlane.backends.cpu.sequence.search import SearchArrays, compile_search
from featherlane.backends.cpu.threads.share import CallArrays, Evaluator, spread_slices
from featherlane.backends.progress import compiling
from featherlane.functions.array_like import Threads
from featherlane.functions.clearance import Surroundings, shapes_of_placements
from featherlane.program.lower import traced
from featherlane.program.plan import Copy, KernelRun, Loop, Plan, Use
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
        """Returns the number of errors: of positions, of rotations if there are any, and the
        missing clearance if there are obstacles.
        """
        return 1 + (POSE in self.targets) + (self.surroundings is not None)

    def inputs(self, model: Robot) -> dict[str, dict[str, tuple[int, ...]]]:
        """Returns the shapes of the arrays that stay the same from step to step, in groups."""
        around = {} if self.surroundings is None else {"margin": (), **self.surroundings.inputs}
        return {
            "targets": {f"target{n}": shape for n, shape in enumerate(self.targets)},
            "posture": {"posture": (model.nq,)} if self.has_posture else {},
            "around": around,
            "parameters": shapes_of_placements(model, self.parameters),
        }


class Solver:
    """The search for a problem of a robot, compiled for each dtype. Calls of `STEPS` steps of
    `inverse_kinematics_step` follow each other until a target is reached.
    """

    def __init__(self, model: Robot, problem: Problem) -> None:
        self._groups = problem.inputs(model)
        constants = {
            name: shape for group in self._groups.values() for name, shape in group.items()
        }
        state = {"q": (model.nq,), "step": (model.nv,)}
        self.arrays = SearchArrays(state, constants, problem.errors)
        self._model, self._problem = model, problem
        self._kernel = cache(self._compiled)
        self._run = cache(self._evaluator)

    def __call__(
        self,
        first: np.ndarray,
        starts: np.ndarray,
        largest: np.ndarray,
        options: Sequence[float],
        constants: Sequence[np.ndarray],
        threads: Threads,
    ) -> Ends:
        """Returns the ends of the search for targets (n, ...), as in `SearchArrays`."""
        states, dtype, inputs = len(first), first.dtype, self.arrays.inputs(len(starts))
        operands = [first, starts, largest, np.array(options, dtype), *constants]
        arrays = [_dense(x, core) for x, core in zip(operands, inputs.values(), strict=True)]
        outputs = self.arrays.outputs
        ends = Ends(*[np.empty((states, *core), dtype) for core in outputs.values()])
        kernel, run = self._kernel(dtype), self._run(dtype, len(starts))[0]
        numbers = sum(map(prod, chain(inputs.values(), outputs.values())))
        cost = CallCost(kernel.slots, numbers * dtype.itemsize, kernel.width)
        count = min(threads or cost.threads(states, physical_cores()), max(states, 1))
        cores = [*map(len, inputs.values()), *map(len, outputs.values())]
        with scratch.checked("inverse_kinematics"):
            if count > 1:
                spread_slices(CallArrays(arrays, ends, cores, (states,)), run, count)
            else:
                with np.errstate(all="ignore"):
                    run(*arrays, out=tuple(ends))
        return ends

    def _evaluator(self, dtype: np.dtype, starts: int) -> tuple[Evaluator, object]:
        shapes = [*self.arrays.inputs(starts).values()], [*self.arrays.outputs.values()]
        return gufunc("inverse_kinematics", self._kernel(dtype).code.address, dtype, *shapes)

    def _compiled(self, dtype: np.dtype) -> Kernel:
        model, problem, arrays = self._model, self._problem, self.arrays
        inputs = {**arrays.state, "gain": (), **arrays.constants}
        next_state = {f"{name}_next": shape for name, shape in arrays.state.items()}
        outputs = {**next_state, "error": (problem.errors + 1,)}
        key = _key(model, problem)
        with compiling(f"inverse_kinematics of {model.name} ({dtype})"):
            step = lambda: traced(self._step, inputs, "cpu")
            part = compile_program(step, key, dtype)
            steps = compile_plan(_plan(inputs, outputs), [part], f"{key} plan", dtype, single=False)
            return compile_search(arrays, steps, key)

    def _step(self, q: Any, step: Any, gain: Any, *rest: Any) -> dict[str, Any]:
        """Returns the results of a step, on scalars."""
        problem = self._problem
        arrays = dict(zip(self.arrays.constants, rest, strict=True))
        targets, posture, around, parameters = (
            {name: arrays[name] for name in group} for group in self._groups.values()
        )
        tree = build_tree(self._model, parameters) if parameters else tree_of(self._model)
        frames = [tree.point(self._model.frame(name)) for name in problem.frames]
        limits, wanted = (problem.lower, problem.upper), posture.get("posture")
        away = _push_at(tree, problem.surroundings, around)
        places = [*targets.values()]
        moved = inverse_kinematics_step(tree, frames, limits, q, step, gain, places, wanted, away)
        return dict(zip(("q_next", "step_next", "error"), moved, strict=True))


class Ends(NamedTuple):
    """The ends of a search, as in `SearchArrays.outputs`."""

    q: np.ndarray
    error: np.ndarray
    score: np.ndarray
    start: np.ndarray
    call: np.ndarray
    begun: np.ndarray


def _dense(x: np.ndarray, core: tuple[int, ...]) -> np.ndarray:
    """Returns an array in which the entries of one target lie one after another, without a copy for
    each target where all have the same.
    """
    strides = tuple(x.itemsize * prod(core[axis + 1 :]) for axis in range(len(core)))
    if x.flags.aligned and x.strides[x.ndim - len(core) :] == strides:
        return x
    if x.ndim > len(core) and x.strides[0] == 0 and len(x):
        return np.broadcast_to(np.array(x[0], order="C"), x.shape)
    return np.array(x, order="C")


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
