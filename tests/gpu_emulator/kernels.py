"""Kernels of a function, launched one after the other in the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from featherlane.backends.cuda.ptx import WARP
from gpu_emulator.launch import Launched
from gpu_emulator.memory import EmulationError, Memory

Array = Any


def run(
    kernels: Any,
    inputs: Mapping[str, Array],
    dtype: Any,
    count: int | None = None,
    apart: int = 0,
) -> dict[str, Array]:
    """The outputs that kernels (`stages.GpuKernels`) compute of arrays of shape (B, *core). apart:
    the numbers that lie between the rows of all arrays.
    """
    memory = Memory()
    given = [np.ascontiguousarray(inputs[x], dtype) for x in kernels.inputs]
    count = len(given[0]) if count is None else count
    empty = [np.zeros((count, *shape), dtype) for shape in kernels.outputs.values()]
    spread = [_spread(x, apart) for x in (*given, *empty)]
    places = [memory.place(x) for x in spread]
    strides = [x.nbytes // max(count, 1) for x in spread]
    arguments = [y for pair in zip(places, strides, strict=True) for y in pair]
    groups = -(-count // WARP)
    scratch = memory.place(np.full(groups * WARP * kernels.slots, np.nan, dtype))
    for launch in kernels.launches:
        Launched(
            kernels.texts[launch.text],
            launch.kernel,
            [*arguments, scratch, count, *launch.arguments],
            memory,
            blocks=launch.blocks(count),
            threads=launch.threads,
            shared=launch.shared,
        ).run()
    found = zip(kernels.outputs, places[len(given) :], spread[len(given) :], empty, strict=True)
    return {x: _gathered(memory.read(at, rows), apart, like) for x, at, rows, like in found}


def _spread(rows: Array, apart: int) -> Array:
    """Rows with zeros behind each."""
    flat = rows.reshape(len(rows), -1)
    return np.concatenate([flat, np.zeros((len(rows), apart), rows.dtype)], axis=1)


def _gathered(rows: Array, apart: int, like: Array) -> Array:
    """The rows without what lies between them, which nothing may have touched."""
    end = rows.shape[1] - apart
    if rows[:, end:].any():
        raise EmulationError("a kernel wrote between the rows of an array")
    return rows[:, :end].reshape(like.shape)
