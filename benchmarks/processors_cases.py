"""Kernels whose results must have the same bits on every processor, with states and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache
from typing import NamedTuple

import numpy as np
from processors_run import LAYOUTS, Held, Job, Kernel, held

import featherlane as fl
from featherlane.api.model import Model
from featherlane.backends import reference
from featherlane.backends.cpu.graphs import kernel as cpu
from featherlane.backends.cpu.loaded import LoadedLoop
from featherlane.backends.cpu.steps import interpreter
from featherlane.backends.cpu.steps.run import LoadedSteps, StepEvaluator
from featherlane.functions.long.recording import recording
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.functions.variants import input_shapes, output_shapes
from featherlane.program.lower import lower
from featherlane.program.program import Program
from featherlane.robot.joints import JOINT_TYPES

STATES = 21  # of no width a multiple
Shapes = list[tuple[int, ...]]


class Case(NamedTuple):
    """A function of a robot in one dtype. kernel(width): its code; wanted: the results of the
    interpreter for the given states, or of this processor where nothing interprets them.
    """

    title: str
    name: str
    dtype: np.dtype
    kernel: Callable[[int], Kernel]
    given: list[np.ndarray]
    wanted: list[np.ndarray]

    def job(self, number: int, states: int = STATES, layout: str = "dense") -> Job:
        """Its first states, as a job for the kernel of this number."""
        return Job(
            number,
            states,
            tuple(filled(x[:states], layout) for x in self.given),
            tuple(held((states, *x.shape[1:]), self.dtype, layout) for x in self.wanted),
        )

    def wrong(self, job: Job) -> int:
        """How many entries of a job's results have other bits than wanted."""
        pairs = zip(job.outputs, self.wanted, strict=True)
        return sum(differing(out.view, x[: job.states]) for out, x in pairs)


def filled(x: np.ndarray, layout: str) -> Held:
    made = held(x.shape, x.dtype, layout)
    made.view[...] = x
    return made


def differing(x: np.ndarray, y: np.ndarray) -> int:
    """Entries whose bits differ; one NaN is like another, since processors give them other bits."""
    bits = np.dtype(f"i{x.dtype.itemsize}")
    same = np.ascontiguousarray(x).view(bits) == np.ascontiguousarray(y).view(bits)
    return int((~same & ~(np.isnan(x) & np.isnan(y))).sum())


def jobs(cases: Sequence[Case]) -> Iterator[tuple[Case, Job]]:
    """Each case as job: all states, fewer than a vector holds, and all in every layout."""
    for k, case in enumerate(cases):
        for layout in LAYOUTS:
            yield case, case.job(k, layout=layout)
        yield case, case.job(k, 1)
        yield case, case.job(k, 5)


def states(model: Model, shapes: Shapes, dtype: np.dtype, count: int = STATES) -> list[np.ndarray]:
    """Random inputs, q first; among the states are zeros, numbers too small to be normal and
    numbers that no robot has.
    """
    rng = np.random.default_rng(0)
    result = [model.random_configuration(count, seed=rng)]
    result += [rng.normal(size=(count, *shape)) for shape in shapes[1:]]
    result = [x.astype(dtype) for x in result]
    info = np.finfo(dtype)
    for x in result[1:]:
        rows = x.reshape(count, -1)
        rows[3], rows[7], rows[8] = 0.0, info.smallest_subnormal * 3, info.tiny
        rows[11, 0], rows[12], rows[13, -1] = np.inf, info.max, np.nan
    result[0][14, 0] = np.nan
    return result


def everything() -> Model:
    """A tree with joints of every type."""
    kinds, rng = set(JOINT_TYPES), np.random.default_rng(0)
    trees = (fl.random_tree(len(kinds) + 3, 2, physics=True, seed=rng) for _ in range(10_000))
    return next(tree for tree in trees if {joint.type for joint in tree.joints} == kinds)


ROBOTS: dict[str, Callable[[], Model]] = {
    "iiwa14": lambda: fl.load("iiwa14"),
    "double pendulum, free root": lambda: fl.load("double_pendulum", root="free"),
    "hyq, free root": lambda: fl.load("hyq", root="free"),
    "every joint type": everything,
    "atlas, free root": lambda: fl.load("atlas", root="free"),
}


@cache
def robot(title: str) -> Model:
    return ROBOTS[title]()


def case(title: str, name: str, dtype: np.dtype) -> Case:
    """A function of a robot as one graph."""
    model, dtype, variant = robot(title), np.dtype(dtype), Variant(name)
    program = lower(dynamics_program(model, variant), "cpu", dtype)
    return program_case(model, title, name, program, dtype)


def program_case(model: Model, title: str, name: str, program: Program, dtype: np.dtype) -> Case:
    given = states(model, list(program.inputs.values()), dtype)
    named = dict(zip(program.inputs, given, strict=True))
    wanted = list(reference.evaluate(program, named, dtype).values())
    kernel = lambda width: Kernel(cpu.source(program, dtype, width))
    return Case(title, name, dtype, kernel, given, wanted)


LONG = {"inverse_dynamics": ("scan", 60), "forward_dynamics": ("aba", 120)}  # method, links


def long_case(name: str, dtype: np.dtype) -> Case:
    """A function of a long chain as recorded calls."""
    method, links = LONG[name]
    model, variant = fl.chain(links, 3), Variant(name, method=method)
    dtype, recorded = np.dtype(dtype), recording(model, variant, dtype)
    inputs = list(input_shapes(model, variant).values())
    outputs = list(output_shapes(model, variant).values())
    given = states(model, inputs, dtype)
    wanted = [np.empty((STATES, *shape), dtype) for shape in outputs]
    with np.errstate(all="ignore"):
        recorded(*given, out=wanted)
    kernel = lambda width: _recorded_kernel(_in_lanes(recorded, width), inputs, outputs)
    return Case(f"chain of {links}", f"{name}, {method}", dtype, kernel, given, wanted)


def _in_lanes(recorded: StepEvaluator, width: int) -> LoadedLoop:
    made = copy(recorded)
    made.width, made._loops = width, {}
    return made.loop(2)  # so that links have lanes too where there are more


def _recorded_kernel(loaded: LoadedSteps, inputs: Shapes, outputs: Shapes) -> Kernel:
    text = interpreter.source(loaded.program, inputs, outputs, loaded.dtype)
    return Kernel(text, loaded.program)


def all_cases(titles: Sequence[str], dtypes: Sequence[str]) -> Iterator[Case]:
    for title in titles:
        for name in FUNCTIONS:
            yield from (case(title, name, np.dtype(dtype)) for dtype in dtypes)
