"""What one state asks of the machine: arithmetic, and bytes of the user's arrays."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.backends.cpu.compile import lowered
from featherlane.backends.cpu.steps.run import Recorded
from featherlane.functions.compile import dynamics_program
from featherlane.functions.long.choose import FastestMethod
from featherlane.functions.table import Variant
from featherlane.program.analysis.counts import Kinds, of_graph, of_program, slots, times
from featherlane.program.routine import Program


class Work(NamedTuple):
    """Of one function of one robot in one dtype, for one state.

    slots: arithmetic instructions of a lane as the processor runs it: each addition,
    multiplication, fused multiply-add, division and square root is one. fused: those that are
    multiply-adds. Both are None where several programs and products of matrices compute it, as for
    the derivatives of long robots. read, written: bytes of the inputs and outputs.
    """

    slots: int | None
    fused: int | None
    read: int
    written: int

    @property
    def moved(self) -> int:
        return self.read + self.written


def operations(model: Model, name: str) -> int | None:
    """Additions + multiplications of one state, before they are fused; None as for `Work`."""
    compiled = model.function(name).compiled or (np.dtype(np.float64),)
    evaluator = _evaluator(model, name, compiled[0])
    if isinstance(evaluator, np.ufunc):
        return model.graph(name).cost().operations
    if isinstance(evaluator, Recorded):
        kinds = _of_calls(evaluator)
        return kinds["add"] + kinds["mul"] + 2 * kinds["fma"]
    return None


def work(model: Model, name: str, dtype: Any) -> Work:
    """Counted once. dtype: float32 or float64."""
    return _counted(model, name, np.dtype(dtype))


@lru_cache(maxsize=64)
def _counted(model: Model, name: str, dtype: np.dtype) -> Work:
    evaluator = _evaluator(model, name, dtype)
    moved = read_and_written(model, name, dtype)
    if isinstance(evaluator, np.ufunc):
        kinds = of_program(lowered(dynamics_program(model, Variant(name)), dtype))
    elif isinstance(evaluator, Recorded):
        kinds = _of_calls(evaluator, dtype)
    else:
        return Work(None, None, *moved)
    return Work(slots(kinds), kinds["fma"], *moved)


def _evaluator(model: Model, name: str, dtype: np.dtype) -> Any:
    """What computes a batch that fills vectors."""
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
    """Bytes of the inputs and outputs of one state. Ordinary stores to memory move outputs twice: a
    line is read before it is written.
    """
    return sum(read_and_written(model, name, dtype))


def _of_calls(evaluator: Recorded, dtype: np.dtype | None = None) -> Kinds:
    """Of recorded calls: each piece as often as it is called, as recorded or as run in a dtype."""
    total: Kinds = Counter()
    for piece in evaluator.pieces.pieces:
        graph = piece.graph
        if dtype is not None:
            graph = lowered(Program(graph, []), dtype).main
        total += times(of_graph(graph), len(piece.gives))
    return total
