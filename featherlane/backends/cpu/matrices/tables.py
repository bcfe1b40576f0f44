"""Programs for the kernels of `backends.matrices`, made once for each robot.

Of each state, matrices are (size, size) with contiguous rows, numbers of freedoms (numbers, size).
A matrix may be smaller than a tile; `size` then counts what is beyond it, which is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.matrices.gemm import ROWS, VECTORS
from featherlane.backends.cpu.matrices.sweeps import HEADER, OPERATIONS, RECORD
from featherlane.backends.llvm import jit


class Program(NamedTuple):
    """What a kernel does, in whole numbers; `alive` is what they point to."""

    kernel: str
    numbers: np.ndarray
    records: int
    alive: object = None


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def size(n: int, dtype: np.dtype) -> int:
    """That of matrices of n freedoms: a tile at least."""
    return max(n, VECTORS * jit.widest(dtype))


# Products


class Meeting(NamedTuple):
    """Where the entries of a product are the sums of `length` products of numbers of two freedoms:
    those of the row from `left` on, those of the column from `right` on. where: (n, n) mask.
    """

    where: np.ndarray
    left: int
    right: int
    length: int


def _starts(n: int, step: int) -> np.ndarray:
    """Of parts of n that may overlap."""
    return np.minimum(np.arange(0, n, step), n - step)


def _counts(where: np.ndarray, rows: np.ndarray, columns: np.ndarray, wide: int) -> np.ndarray:
    """How many entries of each tile are there."""
    total = np.zeros((len(where) + 1, len(where) + 1), int)
    total[1:, 1:] = where.cumsum(0).cumsum(1)
    r, c = rows[:, None], columns
    low = total[r, c] - total[r, c + wide]
    return low - total[r + ROWS, c] + total[r + ROWS, c + wide]


def products(meetings: Sequence[Meeting], n: int, dtype: np.dtype) -> Program:
    """c, n x n, of numbers a of the rows and b of the columns. Where no two meet is zero."""
    wide = VECTORS * jit.widest(dtype)
    rows, columns = _starts(n, ROWS), _starts(n, wide)
    meetings = [m._replace(where=np.pad(m.where, (0, n - len(m.where)))) for m in meetings]
    counts = np.array([_counts(m.where, rows, columns, wide) for m in meetings])
    whole, some = counts == ROWS * wide, counts > 0
    masks: dict[bytes, int] = {}
    records: list[tuple[int, ...]] = []
    for i, j in np.ndindex(counts.shape[1:]):
        r, c = int(rows[i]), int(columns[j])
        at = r * n + c
        if whole[:, i, j].any():
            m = meetings[int(whole[:, i, j].argmax())]
            records.append((m.left * n + r, m.right * n + c, m.length, at, -1))
            continue
        records.append((0, 0, 0, at, -1))
        for k in np.flatnonzero(some[:, i, j]):
            m = meetings[k]
            mask = masks.setdefault(m.where[r : r + ROWS, c : c + wide].tobytes(), len(masks))
            records.append((m.left * n + r, m.right * n + c, m.length, at, mask))
    kept = np.frombuffer(b"".join(masks), bool).astype(f"i{dtype.itemsize}")
    header = (1, n, n, n, address(kept))
    return Program("tiles", _numbers(header, records), len(records), kept)


def product(n: int, length: int, dtype: np.dtype) -> Program:
    """c = a b of square matrices, of which only the first `length` rows of b count."""
    wide = VECTORS * jit.widest(dtype)
    places = [(r, c) for c in _starts(n, wide).tolist() for r in _starts(n, ROWS).tolist()]
    records = [(r * n, c, length, r * n + c, -1) for r, c in places]
    return Program("tiles", _numbers((n, 1, n, n, 0), records), len(records))


def _numbers(header: Iterable[int], records: Sequence[tuple[int, ...]]) -> np.ndarray:
    return np.concatenate([np.array([*header], np.int64), np.array(records, np.int64).reshape(-1)])


# Sweeps


ZEROS, FIRST = 0, 1  # slots


class Order(NamedTuple):
    """A tree of freedoms, each of which comes before all beyond it and these before all else:
    parents (-1: none), and where each subtree ends.
    """

    parent: Sequence[int]
    end: Sequence[int]

    @property
    def last(self) -> list[bool]:
        """Whether a freedom is the last that hangs on its parent."""
        return [p >= 0 and self.end[i] == self.end[p] for i, p in enumerate(self.parent)]

    @property
    def slots(self) -> list[int]:
        """Where what goes along is kept: the last branch takes the place of what it hangs on."""
        slots: list[int] = []
        for p, last in zip(self.parent, self.last, strict=True):
            above = slots[p] if p >= 0 else ZEROS
            slots.append(above if last else above + 1)
        return slots


class _Sweep:
    """Records of a sweep over rows of n columns, as they are written."""

    def __init__(self, n: int, dtype: np.dtype) -> None:
        self.n, self.width = n, jit.widest(dtype)
        self.vectors = -(-n // self.width)
        self.records: list[tuple[int, ...]] = []

    def add(
        self,
        operation: str,
        i: int = 0,
        slots: tuple[int, int] = (FIRST, FIRST),
        vectors: tuple[int, int] = (0, 0),
        end: int = 0,
    ) -> None:
        self.records.append((OPERATIONS.index(operation), i, *slots, *vectors, end))

    def outward(self, order: Order, first: Callable[[int], int]) -> None:
        """first: the vector that a row begins with."""
        slots = order.slots
        for i, p in enumerate(order.parent):
            between = slots[p] if p >= 0 else ZEROS, slots[i]
            self.add("outward", i, between, (first(i), self.vectors - 1))

    def program(self, along: int, d: int) -> Program:
        assert len(self.records[0]) == len(RECORD)
        header = dict(zip(HEADER, (along, d, self.n, self.n, self.vectors), strict=True))
        return Program("sweep", _numbers(header.values(), self.records), len(self.records))


def solving(order: Order, n: int, d: int, dtype: np.dtype) -> Program:
    """c = M^-1 c, in place. a has the numbers of `ByArticulation`; d: where its Dinv or minus is;
    b: `room`.
    """
    sweep, slots = _Sweep(n, dtype), order.slots
    inner = set(order.parent)
    for i in reversed(range(len(slots))):
        p, branch = order.parent[i], slots[i]
        read = branch if i in inner else ZEROS
        sweep.add("inward", i, (read, branch), (0, sweep.vectors - 1))
        if p >= 0 and not order.last[i]:
            sweep.add("merge", i, (branch, slots[p]), (0, sweep.vectors))
    sweep.outward(order, lambda i: 0)
    return sweep.program(n, d)


def inverting(order: Order, n: int, d: int, dtype: np.dtype) -> Program:
    """c = M^-1 from the diagonal on. A column is a unit torque, which moves nobody beyond it before
    it has come to the ground, so that one slot does inward.
    """
    sweep = _Sweep(n, dtype)
    sweep.add("clear", vectors=(0, sweep.vectors))
    for i in reversed(range(len(order.parent))):
        end = order.end[i]
        until = sweep.vectors if end > n - sweep.width else -(-end // sweep.width)
        sweep.add("unit", i, vectors=(i // sweep.width, until), end=end)
        if until < sweep.vectors:
            sweep.add("zero", i, vectors=(until, sweep.vectors))
    sweep.outward(order, lambda i: i // sweep.width)
    return sweep.program(n, d)


def room(order: Order, n: int, dtype: np.dtype) -> int:
    """How many numbers b of a sweep has, all of them zeros."""
    width = jit.widest(dtype)
    return (max(order.slots) + 1) * 6 * width * -(-n // width)


def mirroring(n: int, dtype: np.dtype) -> Program:
    """What is above the diagonal of c, below it."""
    width = jit.widest(dtype)
    starts = _starts(n, width).tolist()
    pairs = [(i, j) for k, j in enumerate(starts) for i in starts[: k + 1]]
    records = [(i * n + j, j * n + i, j - i) for i, j in pairs]
    return Program("mirror", _numbers((n,), records), len(records))
