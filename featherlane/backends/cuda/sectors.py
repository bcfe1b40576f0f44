"""Which outputs leave by copies, so that the sectors of their rows are written as a whole.

Memory is written by sectors of 32 bytes: of one that is written in part, the rest is read before,
and it is written again when the other part comes, since the rows of all warps that a GPU computes
at a time are more than its L2 holds. Entries of a matrix leave when they are known, those of a
column before those of the next one, or in another kernel, so that most sectors leave in parts. If
values wait in scratch memory instead, a last kernel can write row after row, for the price of one
more store and load of each value. On an H200 the kernel of M of Atlas moved the bytes that are
counted here, to 1 %; of smaller matrices, some parts met in the L2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from featherlane.backends.cuda.kernel_body import KernelBody
from featherlane.backends.cuda.kernel_stage import KernelStage, Key, Shape
from featherlane.backends.cuda.ptx import WARP

SECTOR = 32  # bytes
OF_ONE_KERNEL = 0.75  # of the bytes of entries that leave one kernel: the others meet in the L2


def copied(stages: Sequence[KernelStage], dtype: np.dtype, arrays: Mapping[Key, Shape]) -> set[str]:
    """The outputs for which fewer bytes move if a last kernel copies them; if that kernel is the
    second one, a quarter fewer.
    """
    size, numbers = dtype.itemsize, {x: math.prod(shape) for x, shape in arrays.items()}
    direct, copying = dict[Key, float](), dict[Key, float]()
    for stage in stages:
        computed = {
            k for k in stage.outputs if stage.graph.args[k]
        }  # others need no scratch memory
        for part in KernelBody(stage, "", dtype, numbers).parts:
            values = {slot for k, slot in part.slots.items() if k in computed}
            for x, pairs in part.outputs.items():
                n = numbers[x]
                more = written(n, size, [e for e, _ in pairs])
                direct[x] = direct.get(x, 0) + more
                kept = len({slot for _, slot in pairs if slot in values})
                copying.setdefault(x, written(n, size, range(n)))
                copying[x] += 2 * size * kept
    share = 1.0 if len(stages) > 1 else OF_ONE_KERNEL
    return {x[1] for x, moved in direct.items() if share * moved > copying[x]}


def written(n: int, size: int, entries: Sequence[int]) -> float:
    """The bytes of memory that a warp moves for a state to write some entries of rows of n numbers
    at one time: sectors, and those that it writes in part twice.
    """
    at = np.arange(WARP)[:, None] * n + np.array(entries)
    counts = np.bincount(at.ravel() * size // SECTOR)
    whole, touched = (counts * size == SECTOR).sum(), (counts > 0).sum()
    return float(SECTOR * (2 * touched - whole)) / WARP
