"""Arrays of states: cache lines, strides and overlaps in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

LINE = 64  # bytes of a cache line, and of the widest vectors
SMALL = 4096  # bytes; larger results begin on a cache line, so that no vector straddles two lines


def power_of_two(n: int) -> int:
    """The smallest power of two that is n or more, 1 for n = 0."""
    return 1 << max(n - 1, 0).bit_length()


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array that begins on a cache line, so that non-temporal stores can fill its lines."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def state_stride(array: np.ndarray, core: int, lead: Sequence[int]) -> int | None:
    """The bytes from one state of an array to the next, None if they differ between states.

    core: the trailing dimensions that belong to one state; lead: the shape of the batch, to which
    the other dimensions broadcast, in whose order states are counted.
    """
    leading = array.ndim - core
    strides = [
        stride if n > 1 else 0
        for n, stride in zip(array.shape[:leading], array.strides, strict=False)
    ]
    strides = [0] * (len(lead) - leading) + strides
    axes = [(n, stride) for n, stride in zip(lead, strides, strict=True) if n > 1]
    if any(outer != n * inner for (_, outer), (n, inner) in pairwise(axes)):
        return None
    return axes[-1][1] if axes else 0


def unaliased(inputs: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the inputs, copied if they may share memory with results."""
    shared = any(np.may_share_memory(x, r) for r in results for x in inputs)
    return [x.copy() for x in inputs] if shared else list(inputs)


def overlaps_itself(array: np.ndarray) -> bool:
    """Whether two entries of an array share memory, for instance where a stride is 0."""
    if array.flags.c_contiguous or not array.size:
        return False
    axes = sorted((abs(s), n) for n, s in zip(array.shape, array.strides, strict=True) if n > 1)
    extent = array.itemsize
    for stride, n in axes:
        if stride < extent:
            return stride < array.itemsize or _entries_overlap(axes, array.itemsize)
        extent += stride * (n - 1)
    return False


def _entries_overlap(axes: Sequence[tuple[int, int]], itemsize: int) -> bool:
    """Whether entries overlap in interleaved axes, by the offsets of all entries."""
    offsets = np.zeros(1, np.int64)
    for stride, n in axes:
        offsets = np.add.outer(offsets, stride * np.arange(n)).ravel()
    return bool((np.diff(np.sort(offsets)) < itemsize).any())
