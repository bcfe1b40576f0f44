"""Rows of the user's arrays to values of states, and back, through shared memory.

A warp computes 32 states, whose rows it reads and writes together: neighbouring threads take
neighbouring numbers, 16 bytes at a time where the rows of the array follow each other. Of matrices
too large for that, entries with the same value, as those of a symmetric matrix and zeros, are
stored once: a table says where each entry is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from featherlane.backends.cuda.ptx import WARP, Text

PITCH = WARP + 1  # places from one value to the next, where values lie by slot and state
SHORT = 24  # entries of an array up to which a warp takes several rows at a time
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


def _entry_of(t: Text, i: str, n: int) -> tuple[str, str]:
    """The row and the column of number i of the warp's rows of n numbers."""
    row = _row(t, i, n, WARP * n)
    return row, t.set("r", "sub.u32", i, t.set("r", "mul.lo.u32", row, n))


def _address(t: Text, array: GlobalRows, row: str, column: str) -> str:
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
    row, column = _entry_of(t, i, n)
    guard = f"@{t.set('p', 'setp.lt.u32', row, warp.states)} "
    address = _address(t, array, row, column)
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


class OutputEntries(NamedTuple):
    """Entries of an array and the slots in shared memory with their values, in pairs."""

    array: GlobalRows
    pairs: Sequence[tuple[int, int]]


def table(name: str, entries: OutputEntries) -> str:
    """The table of a list of entries: entry and slot as the two halves of a number."""
    words = ", ".join(str(entry << 32 | slot) for entry, slot in entries.pairs)
    return f".global .align 8 .u64 {name}[{len(entries.pairs)}] = {{{words}}};"


def _looked_up(t: Text, name: str, k: str) -> tuple[str, str]:
    """The entry and the slot of number k of a table."""
    at = t.set("w", "mad.wide.u32", k, 8, t.set("w", "mov.u64", name))
    word = t.set("w", "ld.global.u64", f"[{at}]")
    entry = t.set("r", "cvt.u32.u64", t.set("w", "shr.u64", word, 32))
    return entry, t.set("r", "cvt.u32.u64", word)


def copy_out(t: Text, warp: Warp, entries: OutputEntries, name: str, place: str) -> None:
    """Copies values from shared memory to the rows of a user's array. name: of the table.

    A thread has some entries, as many in each of few passes over the rows: neighbouring threads
    write neighbours of a row one after the other, or memory would see parts of its sectors. It
    copies several rows at a time where it has few entries.
    """
    n, size = len(entries.pairs), t.dtype.itemsize
    if n <= SHORT:
        _copy_numbers(t, warp, entries, name, place)
        return
    passes = -(-n // (WARP * FLIGHT))
    each = -(-n // (WARP * passes))  # entries of a thread in a pass
    count = max(2 * FLIGHT // (1 << (each - 1).bit_length()), 1)  # rows at a time, a power of two
    first = t.set("r", "mov.u32", 0)
    again, end = t.label(), t.label()
    t.do(f"@{t.set('p', 'setp.eq.u32', warp.states, 0)} bra {end}")
    t.lines.append(f"{again}:")
    last = WARP * each * (passes - 1)  # where the last pass begins
    moved = [
        _entry_moved(t, warp, entries, name, place, first, WARP * k, last + WARP * (k + 1) <= n)
        for k in range(each)
    ]
    row, next_rows = t.set("r", "mov.u32", 0), t.label()
    t.lines.append(f"{next_rows}:")
    values = [
        [load(t, "shared", 1, f"{x.slot}+{k * size}")[0] for x in moved] for k in range(count)
    ]
    for k in range(count):
        guards = _guards(t, warp, [x.inside for x in moved], row, k)
        for value, x, guard in zip(values[k], moved, guards, strict=True):
            store(t, "global", [value], x.address, guard)
            t.do(f"add.u64 {x.address}, {x.address}, {entries.array.stride}")
    for x in moved:
        t.do(f"add.u32 {x.slot}, {x.slot}, {count * size}")
    t.do(f"add.u32 {row}, {row}, {count}")
    t.do(f"@{t.set('p', 'setp.lt.u32', row, warp.states)} bra {next_rows}")
    if passes > 1:
        t.do(f"add.u32 {first}, {first}, {WARP * each}")
        t.do(f"@{t.set('p', 'setp.lt.u32', first, n)} bra {again}")
    t.lines.append(f"{end}:")


def _guards(t: Text, warp: Warp, inside: Sequence[str], row: str, k: int) -> Iterator[str]:
    """The guards of stores to the row k rows after one that there is, "" for none."""
    if not k:
        yield from (f"@{x} " if x else "" for x in inside)
        return
    here = t.set("r", "add.u32", row, k)
    there = t.set("p", "setp.lt.u32", here, warp.states)
    for x in inside:
        guard = t.set("p", "setp.lt.and.u32", here, warp.states, x) if x else there
        yield f"@{guard} "


class MovedEntry(NamedTuple):
    """Registers of an entry that a thread copies from row to row: whether there is one, "" where
    that is certain; where its value lies in shared memory, and where it goes.
    """

    inside: str
    slot: str
    address: str


def _entry_moved(
    t: Text,
    warp: Warp,
    entries: OutputEntries,
    name: str,
    place: str,
    first: str,
    offset: int,
    certain: bool,
) -> MovedEntry:
    """An entry of a thread at the first row, in a pass that begins with the entry `first`. certain:
    whether it is one in each pass.
    """
    number = t.set("r", "add.u32", t.set("r", "add.u32", first, offset), warp.lane)
    inside, n = "", len(entries.pairs)
    if not certain:
        inside = t.set("p", "setp.lt.u32", number, n)
        number = t.set("r", "min.u32", number, n - 1)
    entry, slot = _looked_up(t, name, number)
    start = t.set("r", "mad.lo.u32", slot, PITCH * t.dtype.itemsize, place)
    address = _address(t, entries.array, t.set("r", "mov.u32", 0), entry)
    return MovedEntry(inside, start, address)


def _copy_numbers(t: Text, warp: Warp, entries: OutputEntries, name: str, place: str) -> None:
    """Several rows at a time."""
    n = len(entries.pairs)
    for j in range(n):
        row, k = _entry_of(t, t.set("r", "add.u32", warp.lane, WARP * j), n)
        guard = f"@{t.set('p', 'setp.lt.u32', row, warp.states)} "
        entry, slot = _looked_up(t, name, k)
        slot_place = t.set("r", "mad.lo.u32", slot, PITCH * t.dtype.itemsize, place)
        at = t.set("r", "mad.lo.u32", row, t.dtype.itemsize, slot_place)
        x = load(t, "shared", 1, at)
        store(t, "global", x, _address(t, entries.array, row, entry), guard)


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
