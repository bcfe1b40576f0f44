"""Rows of the user's arrays to values of states, and back, through shared memory.

A warp computes 32 states, whose rows it reads and writes together: neighbouring threads take
neighbouring numbers, 16 bytes at a time where the rows of the array follow each other. Matrices too
large for that leave by tables (`tabled_rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from featherlane.backends.cuda.ptx import WARP, Text

PITCH = WARP + 1  # places from one value to the next, where values lie by slot and state
CHUNK = 16  # bytes that a thread moves at once
TOGETHER = 8  # numbers of float32 in a sector of memory; two sectors of float64
FLIGHT = 8  # chunks that a thread asks memory for before it waits


class GlobalRows(NamedTuple):
    """A user's array as a kernel sees it. entries: numbers of one state. base, stride: registers
    with the address of the first state of the warp and the bytes from state to state.
    """

    entries: int
    base: str
    stride: str


class Warp(NamedTuple):
    """Registers: the thread's lane, the number of states that the warp has, of at most 32."""

    lane: str
    states: str


def reciprocal(n: int, most: int) -> tuple[int, int]:
    """A factor and a shift: (i factor) >> shift is i // n for 0 <= i < most."""
    shift = 16
    factor = -(-(1 << shift) // n)
    while any(i * factor >> shift != i // n for i in range(most)):
        shift += 1
        factor = -(-(1 << shift) // n)
    return factor, shift


def _row(t: Text, i: str, n: int, most: int) -> str:
    """The register i // n."""
    factor, shift = reciprocal(n, most)
    return t.set("r", "shr.u32", t.set("r", "mul.lo.u32", i, factor), shift)


def entry_of(t: Text, i: str, n: int) -> tuple[str, str]:
    """The row and the column of number i of the warp's rows of n numbers."""
    row = _row(t, i, n, WARP * n)
    return row, t.set("r", "sub.u32", i, t.set("r", "mul.lo.u32", row, n))


def address_of(t: Text, array: GlobalRows, row: str, column: str) -> str:
    """The address of a number of the user's array."""
    start = t.set("w", "mad.wide.u32", column, t.dtype.itemsize, array.base)
    wide = t.set("w", "cvt.u64.u32", row)
    return t.set("w", "mad.lo.u64", wide, array.stride, start)


def together(n: int, size: int) -> int:
    """The most numbers of `size` bytes that one access moves and that never cross a row of n."""
    return next(w for w in (4, 2, 1) if w * size <= CHUNK and n % w == 0)


def odd(n: int) -> int:
    """The pitch of a row of n results in shared memory: rows of neighbouring threads begin in
    different banks.
    """
    return n | 1


def _vector(t: Text, registers: Sequence[str]) -> tuple[str, str]:
    """The suffix of an access to so many numbers, and its operand."""
    if len(registers) == 1:
        return t.type, registers[0]
    return f"v{len(registers)}.{t.type}", f"{{{', '.join(registers)}}}"


def load(t: Text, space: str, count: int, at: str, guard: str = "") -> list[str]:
    """Loads so many numbers that lie beside each other into new registers."""
    registers = [t.new("f") for _ in range(count)]
    suffix, operand = _vector(t, registers)
    t.do(f"{guard}ld.{space}.{suffix} {operand}, [{at}]")
    return registers


def store(t: Text, space: str, registers: Sequence[str], at: str, guard: str = "") -> None:
    """Stores numbers beside each other."""
    suffix, operand = _vector(t, registers)
    t.do(f"{guard}st.{space}.{suffix} [{at}], {operand}")


Share = tuple[int, int]  # of a warp in work of several: its number, and how many there are
ALL: Share = (0, 1)


def _own(count: int, share: Share) -> range:
    """The share of a warp in so many things."""
    return range(count * share[0] // share[1], count * (share[0] + 1) // share[1])


def _number_by_number(
    t: Text, warp: Warp, array: GlobalRows, place: str, pitch: int, out: bool, share: Share = ALL
) -> None:
    """Moves rows of any stride between shared memory and the user's array, in a loop."""
    n, size = array.entries, t.dtype.itemsize
    chunks = _own(n, share)
    if not chunks:
        return
    i = t.set("r", "add.u32", warp.lane, WARP * chunks.start)
    again = t.label()
    t.lines.append(f"{again}:")
    row, column = entry_of(t, i, n)
    guard = f"@{t.set('p', 'setp.lt.u32', row, warp.states)} "
    address = address_of(t, array, row, column)
    at = t.set("r", "mad.lo.u32", row, pitch, column)
    at = t.set("r", "mad.lo.u32", at, size, place)
    if out:
        store(t, "global", load(t, "shared", 1, at), address, guard)
    else:
        x = t.set("f", f"mov.{t.type}", t.number(0.0))
        t.do(f"{guard}ld.global.{t.type} {x}, [{address}]")
        store(t, "shared", [x], at)
    t.do(f"add.u32 {i}, {i}, {WARP}")
    t.do(f"@{t.set('p', 'setp.lt.u32', i, WARP * chunks.stop)} bra {again}")


def _if_dense(
    t: Text, array: GlobalRows, dense: Callable[[], None], other: Callable[[], None]
) -> None:
    """Two ways to move rows: where those of the array follow each other from a multiple of 16 bytes
    on, and any others. All warps of a launch go the same way.
    """
    elsewhere, end = t.label(), t.label()
    loose = t.set("w", "sub.u64", array.stride, array.entries * t.dtype.itemsize)
    low = t.set("w", "and.b64", array.base, CHUNK - 1)
    both = t.set("w", "or.b64", loose, low)
    t.do(f"@{t.set('p', 'setp.ne.u64', both, 0)} bra {elsewhere}")
    dense()
    t.do(f"bra {end}")
    t.lines.append(f"{elsewhere}:")
    other()
    t.lines.append(f"{end}:")


def _by_chunks(
    t: Text, warp: Warp, n: int, one: Callable[..., Callable[[], None]], share: Share = ALL
) -> None:
    """Moves 32 rows of n numbers that follow each other. one: begins to move so many numbers at an
    offset of bytes from the thread's first ones, under a guard, and returns what ends it.
    """
    size = t.dtype.itemsize
    wide = CHUNK // size
    limit = t.set("r", "mul.lo.u32", warp.states, n)  # the numbers that the warp has
    start_of_lane = t.set("r", "mul.lo.u32", warp.lane, wide)
    chunks = _own(-(-n // wide), share)
    for first in range(chunks.start, chunks.stop, FLIGHT):
        ends = []
        for j in range(first, min(first + FLIGHT, chunks.stop)):
            last = t.set("r", "add.u32", start_of_lane, WARP * wide * j + wide)
            guard = f"@{t.set('p', 'setp.le.u32', last, limit)} "
            ends.append(one(start_of_lane, wide, WARP * wide * j, guard))
        for end in ends:
            end()
    if n % wide and share[0] + 1 == share[1]:  # the last numbers of an odd number of states
        start = t.set("r", "and.b32", limit, -wide & 0xFFFFFFFF)
        index = t.set("r", "add.u32", start, warp.lane)
        guard = f"@{t.set('p', 'setp.lt.u32', index, limit)} "
        one(index, 1, 0, guard)()


def load_rows(t: Text, warp: Warp, array: GlobalRows, place: str, share: Share = ALL) -> None:
    """Copies the rows of a warp's states to shared memory, one behind the other, from the address
    in `place` on, a multiple of 16. What threads beyond the last state find there means nothing.
    share: what this warp copies, if others copy the rest.
    """
    n, size = array.entries, t.dtype.itemsize

    def one(index: str, count: int, offset: int, guard: str) -> Callable[[], None]:
        source = t.set("w", "mad.wide.u32", index, size, array.base)
        target = t.set("r", "mad.lo.u32", index, size, place)
        x = load(t, "global", count, f"{source}+{offset * size}", guard)
        return lambda: store(t, "shared", x, f"{target}+{offset * size}", guard)

    _if_dense(
        t,
        array,
        lambda: _by_chunks(t, warp, n, one, share),
        lambda: _number_by_number(t, warp, array, place, n, False, share),
    )


def store_rows(t: Text, warp: Warp, array: GlobalRows, place: str) -> None:
    """Copies rows from shared memory, `odd(n)` places each, to those of a user's array."""
    n, size = array.entries, t.dtype.itemsize

    def one(index: str, count: int, offset: int, guard: str) -> Callable[[], None]:
        source = t.set("r", "mad.lo.u32", index, size, place)
        target = t.set("w", "mad.wide.u32", index, size, array.base)
        x = load(t, "shared", count, f"{source}+{offset * size}", guard)
        return lambda: store(t, "global", x, f"{target}+{offset * size}", guard)

    _if_dense(
        t,
        array,
        lambda: _by_chunks(t, warp, n, one) if n == odd(n) else _by_rows(t, warp, array, place),
        lambda: _number_by_number(t, warp, array, place, odd(n), out=True),
    )


def _by_rows(t: Text, warp: Warp, array: GlobalRows, place: str) -> None:
    """Rows of an even number of results, with a place between them in shared memory."""
    n, size = array.entries, t.dtype.itemsize
    wide = together(n, size)
    lane_base = t.set("w", "mad.wide.u32", warp.lane, wide * size, array.base)
    for first in range(0, n // wide, FLIGHT):
        loaded = []
        for j in range(first, min(first + FLIGHT, n // wide)):
            chunk = t.set("r", "add.u32", warp.lane, WARP * j)
            row = _row(t, chunk, n // wide, WARP * (n // wide))
            guard = f"@{t.set('p', 'setp.lt.u32', row, warp.states)} "
            at = t.set("r", "mad.lo.u32", chunk, wide, row)
            at = t.set("r", "mad.lo.u32", at, size, place)
            x = [load(t, "shared", 1, f"{at}+{k * size}")[0] for k in range(wide)]
            loaded.append((x, f"{lane_base}+{WARP * j * wide * size}", guard))
        for x, to, guard in loaded:
            store(t, "global", x, to, guard)


def flushes(nodes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Cuts the values of outputs, in the order in which they are computed, into as few parts
    as possible of at most `most`, of the same size but for one: of whole sectors of memory, where
    values are entries in their order.
    """
    parts = -(-len(nodes) // most)
    size = -(-len(nodes) // parts) if parts else 1
    if -size % TOGETHER + size <= most:
        size += -size % TOGETHER
    for first in range(0, len(nodes), size):
        yield list(nodes[first : first + size])
