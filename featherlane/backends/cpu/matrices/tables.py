"""Programs for the kernels on matrices, computed once for each robot.

The matrices of a state are (size, size) with contiguous rows, its numbers of freedoms (numbers,
size). A matrix of n rows may be smaller than a tile: entries beyond n are computed and not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.matrices import sweeps
from featherlane.backends.cpu.matrices.gemm import ROWS, VECTORS, TileHeader, TileRecord
from featherlane.backends.cpu.matrices.sweeps import SweepHeader, SweepRecord
from featherlane.backends.llvm import jit


class KernelProgram(NamedTuple):
    """A header and so many records in one array; `alive` is the array that they point to."""

    kernel: str
    numbers: np.ndarray
    records: int
    alive: object = None


def _program(
    kernel: str, header: Sequence[int], records: Sequence[Sequence[int]], alive: object = None
) -> KernelProgram:
    body = np.array(records, np.int64).reshape(-1)
    numbers = np.concatenate([np.array(header, np.int64), body])
    return KernelProgram(kernel, numbers, len(records), alive)


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def padded_size(n: int, dtype: np.dtype) -> int:
    """The rows of a matrix over n freedoms for kernels: at least as wide as a tile."""
    return max(n, VECTORS * jit.widest(dtype))


# Products


class MaskedProduct(NamedTuple):
    """Entries of a matrix that are sums of `length` products: numbers of the row's freedom from
    number `left` on, times numbers of the column's from `right` on. where: the (n, n) mask of these
    entries.
    """

    where: np.ndarray
    left: int
    right: int
    length: int


def _starts(n: int, step: int) -> np.ndarray:
    """Returns the starts of the parts of a row of n; the last part may overlap the one before."""
    return np.minimum(np.arange(0, n, step), n - step)


def _counts(where: np.ndarray, rows: np.ndarray, columns: np.ndarray, wide: int) -> np.ndarray:
    """Returns the count of entries of a mask in each tile, by sums over the rectangle before each
    corner.
    """
    total = np.zeros((len(where) + 1, len(where) + 1), int)
    total[1:, 1:] = where.cumsum(0).cumsum(1)
    r, c = rows[:, None], columns
    above = total[r, c] - total[r, c + wide]
    return above - total[r + ROWS, c] + total[r + ROWS, c + wide]


def products(parts: Sequence[MaskedProduct], n: int, dtype: np.dtype) -> KernelProgram:
    """c, n x n, from numbers a of the rows and b of the columns; zero where no part has an entry.

    A tile that one part fills is stored whole. In any other tile each part stores its entries over
    zeros, by a mask.
    """
    wide = VECTORS * jit.widest(dtype)
    rows, columns = _starts(n, ROWS), _starts(n, wide)
    parts = [p._replace(where=np.pad(p.where, (0, n - len(p.where)))) for p in parts]
    counts = np.array([_counts(p.where, rows, columns, wide) for p in parts])
    masks: dict[bytes, int] = {}
    records: list[TileRecord] = []
    for i, j in np.ndindex(counts.shape[1:]):
        count, r, c = counts[:, i, j], int(rows[i]), int(columns[j])
        whole = (count == ROWS * wide).any()
        if not whole:
            records.append(TileRecord(0, 0, 0, r * n + c, -1))
        for k in [count.argmax()] if whole else np.flatnonzero(count):
            p = parts[k]
            where = p.where[r : r + ROWS, c : c + wide].tobytes()
            mask = -1 if whole else masks.setdefault(where, len(masks))
            records.append(TileRecord(p.left * n + r, p.right * n + c, p.length, r * n + c, mask))
    lanes = np.frombuffer(b"".join(masks), bool).astype(f"i{dtype.itemsize}")
    return _program("tiles", TileHeader(1, n, n, n, address(lanes)), records, lanes)


def dense_product(n: int, length: int, dtype: np.dtype) -> KernelProgram:
    """c = a b of square matrices, of which b has zeros beyond its first `length` rows."""
    wide = VECTORS * jit.widest(dtype)
    corners = [(r, c) for c in _starts(n, wide).tolist() for r in _starts(n, ROWS).tolist()]
    records = [TileRecord(r * n, c, length, r * n + c, -1) for r, c in corners]
    return _program("tiles", TileHeader(n, 1, n, n, 0), records)


# Sweeps


ZEROS, FIRST = 0, 1  # slots


class SweepOrder(NamedTuple):
    """Freedoms in depth-first order: the parent of each (-1: none), the end of its subtree."""

    parent: Sequence[int]
    end: Sequence[int]

    @property
    def last(self) -> list[bool]:
        """Whether a freedom is the last child of its parent."""
        return [p >= 0 and self.end[i] == self.end[p] for i, p in enumerate(self.parent)]

    @property
    def slots(self) -> list[int]:
        """The slot of each freedom's spatial vectors: a last child takes over its parent's."""
        slots: list[int] = []
        for p, last in zip(self.parent, self.last, strict=True):
            above = slots[p] if p >= 0 else ZEROS
            slots.append(above if last else above + 1)
        return slots


def _record(
    operation: str, i: int, slots: tuple[int, int], vectors: tuple[int, int], end: int = 0
) -> SweepRecord:
    """slots: the slots that are read and written; vectors: the first, and the end."""
    return SweepRecord(sweeps.OPERATIONS.index(operation), i, *slots, *vectors, end)


def _outward(order: SweepOrder, vectors: int, first: Callable[[int], int]) -> list[SweepRecord]:
    """The outward sweep over rows of so many vectors; first: the first vector of a row."""
    slots = order.slots
    parents = [slots[p] if p >= 0 else ZEROS for p in order.parent]
    return [
        _record("outward", i, (parents[i], slots[i]), (first(i), vectors - 1))
        for i in range(len(slots))
    ]


def solving(order: SweepOrder, n: int, d: int, dtype: np.dtype) -> KernelProgram:
    """c = M^-1 c, in place. a: the numbers of `ByArticulation`; d: the number of 1/D, or of -1/D
    for -M^-1 c; b: the slots.
    """
    slots, inner, vectors = order.slots, set(order.parent), -(-n // jit.widest(dtype))
    records = []
    for i in reversed(range(len(slots))):
        p, branch = order.parent[i], slots[i]
        read = branch if i in inner else ZEROS
        records.append(_record("inward", i, (read, branch), (0, vectors - 1)))
        if p >= 0 and not order.last[i]:
            records.append(_record("merge", i, (branch, slots[p]), (0, vectors)))
    records += _outward(order, vectors, lambda i: 0)
    return _program("sweep", SweepHeader(n, d, n, n, vectors), records)


def inverting(order: SweepOrder, n: int, d: int, dtype: np.dtype) -> KernelProgram:
    """c = M^-1 on and above the diagonal. Each column is a unit torque, whose force goes inward on
    one path to the root alone, so that one slot serves all branches.
    """
    width, slots = jit.widest(dtype), (FIRST, FIRST)
    vectors = -(-n // width)
    records = [_record("clear", 0, slots, (0, vectors))]
    for i in reversed(range(len(order.parent))):
        end = order.end[i]
        until = vectors if end > n - width else -(-end // width)
        records.append(_record("unit", i, slots, (i // width, until), end))
        if until < vectors:
            records.append(_record("zero", i, slots, (until, vectors)))
    records += _outward(order, vectors, lambda i: i // width)
    return _program("sweep", SweepHeader(n, d, n, n, vectors), records)


def slot_numbers(order: SweepOrder, n: int, dtype: np.dtype) -> int:
    """Returns the size of the slots of a sweep, in numbers; all of them start as zeros."""
    width = jit.widest(dtype)
    return (max(order.slots) + 1) * 6 * width * -(-n // width)


def mirroring(n: int, dtype: np.dtype) -> KernelProgram:
    """Copies the upper triangle of c to the lower one."""
    width = jit.widest(dtype)
    starts = _starts(n, width).tolist()
    pairs = [(i, j) for k, j in enumerate(starts) for i in starts[: k + 1]]
    records = [sweeps.MirrorRecord(i * n + j, j * n + i, j - i) for i, j in pairs]
    return _program("mirror", sweeps.MirrorHeader(n), records)
