"""Arrays as rows of states: where they begin, and how far apart they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

LINE = 64  # bytes of a cache line, and of the widest vectors
SMALL = 4096  # bytes up to which a result need not begin on a line


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that begins on a cache line, so that its rows may be stored past the caches."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def fresh(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """For a result."""
    small = math.prod(shape) * dtype.itemsize < SMALL
    return np.empty(shape, dtype) if small else aligned(shape, dtype)


def step(array: np.ndarray, core: int, lead: Sequence[int]) -> int | None:
    """The bytes from each state to the next, in the order of the leading dimensions `lead` to which
    those before the `core` last ones broadcast; None if they differ.
    """
    own = array.ndim - core
    strides = [s if n > 1 else 0 for n, s in zip(array.shape[:own], array.strides, strict=False)]
    strides = [0] * (len(lead) - own) + strides
    axes = [(n, s) for n, s in zip(lead, strides, strict=True) if n > 1]
    if any(outer != n * inner for (_, outer), (n, inner) in pairwise(axes)):
        return None
    return axes[-1][1] if axes else 0


def apart(inputs: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The inputs, copied if what is written to results could change them before they are read."""
    shared = any(np.may_share_memory(x, r) for r in results for x in inputs)
    return [x.copy() for x in inputs] if shared else list(inputs)


def overlaps_itself(array: np.ndarray) -> bool:
    """Whether two of its entries share memory, as where a stride is 0."""
    if array.flags.c_contiguous or not array.size:
        return False
    axes = sorted((abs(s), n) for n, s in zip(array.shape, array.strides, strict=True) if n > 1)
    extent = array.itemsize
    for stride, n in axes:
        if stride < extent:
            return stride < array.itemsize or _entries_meet(axes, array.itemsize)
        extent += stride * (n - 1)
    return False


def _entries_meet(axes: Sequence[tuple[int, int]], itemsize: int) -> bool:
    places = np.zeros(1, np.int64)
    for stride, n in axes:
        places = np.add.outer(places, stride * np.arange(n)).ravel()
    return bool((np.diff(np.sort(places)) < itemsize).any())
