"""The way from a variant of a robot's function to machine code: the cache is asked for its key;
else its program is traced, lowered and printed, and its code compiled and loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from featherlane.backends.cpu.compile import (
    Kernel,
    batch_text,
    compiled_kernel,
    lanes_of,
    lowered,
    one_text,
    stored_kernel,
)
from featherlane.backends.cpu.sequence.kernel import compile_plan
from featherlane.backends.cpu.threads.share import Evaluator
from featherlane.backends.progress import compiling
from featherlane.errors import CompileError
from featherlane.functions.function import FunctionKernels
from featherlane.functions.gpu import MAPPINGS, OF_PLANS, OnGPU, Source, source_of
from featherlane.functions.lanes import single_text
from featherlane.functions.sequences import is_planned, planned
from featherlane.functions.table import CALLED, Variant
from featherlane.functions.tracing import dynamics_graph, dynamics_program
from featherlane.functions.variants import variant_key
from featherlane.program.graph import Graph
from featherlane.robot.model import Robot
from featherlane.robot.tree import is_chain
from featherlane.robot.tree_of import tree_of

SINGLE = "single"  # the form of a kernel for one state, in place of the lanes of vectors
LONG = 100  # links from which on algorithms are recorded steps, see "Long robots" in docs/links.md
LONG_FOR = dict.fromkeys(("scan", "abia", "cfa", "dca"), 16) | {"jsiia": 32}  # for some methods
NEVER_LONG = ("configurations", "steps", "rollouts", "constrained")  # by joints, or of others
_kernels: WeakValueDictionary[tuple[Any, ...], Kernel] = WeakValueDictionary()
"""Kernels that equal models share, for as long as one of the models lives."""


def variant_kernel(
    model: Robot, variant: Variant, dtype: np.dtype, form: int | str | None = None
) -> Kernel:
    """The kernel of a variant, which equal models share. form: the lanes of vectors, None for the
    widest, or SINGLE for the kernel of one state.
    """
    key = variant_key(model, variant)
    kernel = _kernels.get((key, dtype, form))
    if kernel is None:  # two threads may both come here, and make the same
        make = _planned_kernel if is_planned(model, variant) else _program_kernel
        kernel = _kernels[key, dtype, form] = make(model, variant, key, dtype, form)
    return kernel


def _program_kernel(
    model: Robot, variant: Variant, key: str, dtype: np.dtype, form: int | str | None
) -> Kernel:
    """The kernel of one program: from the cache, else traced, lowered, printed and compiled."""
    width = lanes_of(form, dtype) if not isinstance(form, str) else 1
    key = f"{key} {width if form != SINGLE else SINGLE}"
    if (known := stored_kernel(key, dtype, width)) is not None:
        return known
    if variant.ground is not None and variant.constraints is not None:
        variant.ground.warn_of_unrolled_sweeps(model, "a step", "constraints")
    with compiling(_title(model, variant, dtype, form)):
        with one_text():
            program = lowered(dynamics_program(model, variant), dtype)
            if form == SINGLE:
                text = single_text(model, variant, program, dtype)
            else:
                text = batch_text(program, dtype, width)
        return compiled_kernel(key, dtype, width, text, program)


def _planned_kernel(
    model: Robot, variant: Variant, key: str, dtype: np.dtype, form: int | str | None
) -> Kernel:
    """The kernel of a plan, which calls the kernels of its pieces."""
    with compiling(_title(model, variant, dtype, form)):
        plan, pieces = planned(model, variant)
        parts = [variant_kernel(model, piece, dtype, form) for piece in pieces]
        return compile_plan(plan, parts, f"{key} plan", dtype, form == SINGLE)


def _title(model: Robot, variant: Variant, dtype: np.dtype, form: int | str | None) -> str:
    return f"{variant.name} of {model.name} ({dtype}{', one state' * (form == SINGLE)})"


class RobotKernels(FunctionKernels):
    """The kernels of a variant of a robot's function. width: the lanes of vectors, None for the
    widest. Raises CompileError for a width where recorded steps take the place of kernels.
    """

    def __init__(self, model: Robot, variant: Variant, width: int | None = None) -> None:
        self.model, self.variant, self.width = model, variant, width
        self._steps = _evaluator(model, variant)
        if self._steps is not None and width is not None:
            raise CompileError(
                f"width is {width}: for {model.name!r}, a long robot, the batch size sets it"
            )
        self.has_single = width is None and self._steps is None

    def batch(self, dtype: np.dtype) -> Kernel | Evaluator:
        if self._steps is not None:
            return self._steps(dtype)
        return variant_kernel(self.model, self.variant, dtype, self.width)

    def single(self, dtype: np.dtype) -> Kernel:
        return variant_kernel(self.model, self.variant, dtype, SINGLE)

    def graph(self) -> Graph:
        return dynamics_graph(self.model, self.variant)

    @cached_property
    def gpu(self) -> OnGPU:  # type: ignore[override]
        return on_gpu(self.model, self.variant, self._steps is not None)


def _evaluator(model: Robot, variant: Variant) -> Callable[[np.dtype], Evaluator] | None:
    """A function that returns the evaluator of a long robot for a dtype. Few robots need those
    modules, and the others do not wait for them: a twentieth of the package's import.
    """
    if not is_long(model, variant):
        return None
    from featherlane.functions.long import choose

    return choose.evaluator(model, variant)


def is_long(model: Robot, variant: Variant) -> bool:
    """Whether one piece of code would be too long. Chains are long from half as many links,
    matrices from 1,250 pairs of joints on one path (measured: docs/links.md).
    """
    if CALLED[variant.name].kind in NEVER_LONG:
        return False
    # Few links are never long. A first call from the cache needs no tree, which takes 25 ms.
    links = sum(kind.links for kind in model.types)
    if links < LONG // 2 and variant.method not in LONG_FOR:
        return False
    tree = tree_of(model)
    if variant.method in LONG_FOR:
        return tree.nbodies >= min(LONG, LONG_FOR[variant.method])
    if CALLED[variant.name].by_pairs:
        return sum(map(len, tree.above)) >= LONG**2 // 8
    return tree.nbodies * (2 if is_chain(tree) else 1) >= LONG


def on_gpu(model: Robot, variant: Variant, long: bool) -> OnGPU:
    """A variant on GPUs. long: by the kernels of long robots, whose modules load late."""
    key = variant_key(model, variant)
    if not long:
        mappings = OF_PLANS if is_planned(model, variant) else MAPPINGS
        return OnGPU(key, lambda: _source(model, variant), mappings=mappings)
    from featherlane.functions.long.on_gpu import LongOnGPU

    return LongOnGPU(key, model, variant)


def _source(model: Robot, variant: Variant) -> Source:
    """The program or the plan of a variant. Raises CompileError for steps of long robots."""
    kind, dynamics = CALLED[variant.name].kind, Variant("forward_dynamics")
    if kind in ("steps", "rollouts") and is_long(model, dynamics):
        raise CompileError(
            f"{variant.name} of {model.name!r}: steps of robots of so many links have no kernels "
            "for GPUs"
        )
    return source_of(model, variant)
