"""THE table of targets: for each, the policy that says which calls are retained when an algorithm
is traced, the passes that its programs go through, and the module that compiles the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from featherlane.errors import CompileError
from featherlane.program.nested import Shape
from featherlane.program.op import EXPANDED, OPS
from featherlane.program.passes.calls_only import calls_only
from featherlane.program.passes.dead_results import dead_results
from featherlane.program.passes.expand import expand
from featherlane.program.passes.fma import fuse, unfuse
from featherlane.program.passes.order import by_columns
from featherlane.program.passes.outline import joints
from featherlane.program.passes.propagate import propagate
from featherlane.program.passes.recompute import recompute
from featherlane.program.passes.specialise import specialise
from featherlane.program.program import GraphFunction, Program
from featherlane.program.trace import COLUMNS, FLAT, STEPS, Policy, no_garbage, program_of
from featherlane.program.verify import verify_program

Pass = Callable[[Program, Any], Program]  # (program, dtype)


def _whole(change: Callable[[Program], Program]) -> Pass:
    """The pass of a transformation that does not depend on the dtype."""
    return lambda program, dtype: change(program)


def _arithmetic(program: Program, dtype: Any) -> Program:
    """Lowers arithmetic for processors that have fused multiply-adds and no
    transcendental functions."""
    return program.map(lambda graph: by_columns(fuse(expand(graph, np.dtype(dtype)))))


def _in_order(program: Program, dtype: Any) -> Program:
    """Lowers arithmetic as `_arithmetic` does, in the order in which it was traced."""
    return program.map(lambda graph: fuse(expand(graph, np.dtype(dtype))))


def _unfused(program: Program, dtype: Any) -> Program:
    """Lowers arithmetic for processors without fused multiply-adds and transcendental functions."""
    lowered = lambda graph: by_columns(unfuse(expand(graph, np.dtype(dtype), fused=False)))
    return program.map(lowered)


class Target(NamedTuple):
    """A target. policy: the calls that large functions retain; small functions are traced flat."""

    policy: Policy
    passes: tuple[Pass, ...]
    refused: frozenset[str]  # operations that its programs do not have
    consumer: str  # the module below `featherlane`


UNFUSED = EXPANDED | {"fma"}
CALLS = tuple(map(_whole, (calls_only, specialise, propagate, dead_results)))
TARGETS = {
    "reference": Target(FLAT, (), frozenset(), "backends.reference"),
    "cpu": Target(COLUMNS, (_whole(recompute), _arithmetic), EXPANDED, "backends.cpu.graphs"),
    "c": Target(COLUMNS, (_whole(recompute), _arithmetic), EXPANDED, "backends.c"),
    "cuda": Target(COLUMNS, (_whole(recompute), _arithmetic), EXPANDED, "backends.cuda.stages"),
    # Programs in which loops are looked for, before their nodes have the order of "cuda"
    "cuda in order": Target(
        COLUMNS, (_whole(recompute), _in_order), EXPANDED, "backends.cuda.rolled"
    ),
    # One function for the work of each joint: what a hardware pipeline is cut from
    "joints": Target(FLAT, (_whole(joints),), frozenset(), "program.analysis.modules"),
    # Each function of these programs goes through the passes of "cpu" or "cuda" by itself
    "cpu steps": Target(STEPS, CALLS, frozenset(), "backends.cpu.steps"),
    "cuda steps": Target(STEPS, CALLS, frozenset(), "backends.cuda.links"),
    "c steps": Target(STEPS, (*CALLS, _arithmetic), EXPANDED, "backends.c"),
    "wasm": Target(COLUMNS, (_whole(recompute), _unfused), UNFUSED, "backends.wasm"),
    "wasm steps": Target(STEPS, (*CALLS, _unfused), UNFUSED, "backends.wasm"),
}


def checked_dtype(dtype: Any) -> np.dtype:
    """The dtype, if there is code for it. Raises CompileError."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind not in (np.float32, np.float64):
        raise CompileError(f"dtype is {dtype}: code is made for float32 and float64")
    return kind


def traced(function: Callable[..., Any], inputs: Mapping[str, Shape], target: str) -> Program:
    """The program of a function of scalars, with the calls that the target retains."""
    return program_of(function, inputs, TARGETS[target].policy)


def lower(program: Program, target: str, dtype: Any) -> Program:
    """The program as the target runs it in this dtype, checked before and after."""
    with no_garbage():
        verify_program(program)
        for change in TARGETS[target].passes:
            program = change(program, dtype)
        _check_operations(program, target)
        verify_program(program, allowed=OPS.keys() - TARGETS[target].refused)
    return program


def _check_operations(program: Program, target: str) -> None:
    """Raises CompileError, with the name of the operation, for one that the target lacks."""
    for function in (*program.functions, GraphFunction("main", program.main)):
        for op in sorted(TARGETS[target].refused):
            if op in function.graph.op:
                place = f"node {function.graph.op.index(op)} of {function.name}"
                raise CompileError(f"the target {target!r} has no {op} ({place})")
