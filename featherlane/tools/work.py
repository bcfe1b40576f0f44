"""The work of one state: arithmetic instructions, and bytes of the user's arrays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.cpu.steps.run import StepEvaluator
from featherlane.functions.long.choose import FastestMethod
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.cost import Kinds, kinds_of, slots, times
from featherlane.program.graph import Graph
from featherlane.program.lower import lower


class StateWork(NamedTuple):
    """The work of one function of one robot in one dtype, for one state.

    slots: arithmetic instructions of one lane: each addition, multiplication, fused multiply-add,
    division and square root is one. fused: the fused multiply-adds among them. Both are None for
    functions that consist of several programs and matrix products, such as the derivatives of long
    robots. read, written: bytes of the inputs and outputs.
    """

    slots: int | None
    fused: int | None
    read: int
    written: int

    @property
    def moved(self) -> int:
        return self.read + self.written


def operations(model: Model, name: str) -> int | None:
    """Additions and multiplications of one state, not fused; None where `StateWork.slots` is."""
    compiled = model.function(name).compiled or (np.dtype(np.float64),)
    evaluator = _evaluator(model, name, compiled[0])
    if isinstance(evaluator, np.ufunc):
        return model.graph(name).cost().operations
    if isinstance(evaluator, StepEvaluator):
        kinds = _of_calls(evaluator, [f.graph for f in evaluator.calls.functions])
        return kinds["add"] + kinds["mul"] + 2 * kinds["fma"]
    return None


def work(model: Model, name: str, dtype: Any) -> StateWork:
    """The work of a function, counted once for each dtype: float32 or float64."""
    return _counted(model, name, np.dtype(dtype))


@lru_cache(maxsize=64)
def _counted(model: Model, name: str, dtype: np.dtype) -> StateWork:
    evaluator = _evaluator(model, name, dtype)
    moved = read_and_written(model, name, dtype)
    if isinstance(evaluator, np.ufunc):
        kinds = lower(dynamics_program(model, Variant(name)), "cpu", dtype).kinds
    elif isinstance(evaluator, StepEvaluator):
        kinds = _of_calls(evaluator, evaluator.graphs)
    else:
        return StateWork(None, None, *moved)
    return StateWork(slots(kinds), kinds["fma"], *moved)


def _evaluator(model: Model, name: str, dtype: np.dtype) -> Any:
    """The object that computes batches large enough to fill vectors."""
    evaluator = model.function(name).ufunc(dtype)
    if isinstance(evaluator, FastestMethod):
        return model.function(name, method="serial").ufunc(dtype)
    return evaluator


def read_and_written(model: Model, name: str, dtype: Any) -> tuple[int, int]:
    """Bytes of the inputs and of the outputs of one state."""
    function, size = model.function(name), np.dtype(dtype).itemsize
    shapes = function.inputs, function.outputs
    read, written = (size * sum(map(math.prod, sizes.values())) for sizes in shapes)
    return read, written


def bytes_moved(model: Model, name: str, dtype: Any) -> int:
    """Bytes of the inputs and outputs of one state; ordinary stores read outputs, too."""
    return sum(read_and_written(model, name, dtype))


def _of_calls(evaluator: StepEvaluator, graphs: Sequence[Graph]) -> Kinds:
    """The operations of calls: each function, with its graph, as often as it is called."""
    total: Kinds = Counter()
    for function, graph in zip(evaluator.calls.functions, graphs, strict=True):
        total += times(kinds_of(graph), len(function.results))
    return total
