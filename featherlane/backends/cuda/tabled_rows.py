"""Entries of matrices from shared memory to the rows of the user's arrays, by tables.

Of matrices that are too large to be laid out in shared memory as they are, entries with the same
value, as those of a symmetric matrix and zeros, are stored once: a table says where each entry is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from featherlane.backends.cuda.ptx import WARP, Text
from featherlane.backends.cuda.rows import (
    FLIGHT,
    PITCH,
    GlobalRows,
    Warp,
    address_of,
    entry_of,
    load,
    store,
)

SHORT = 24  # entries of an array up to which a warp takes several rows at a time


class OutputEntries(NamedTuple):
    """Entries of an array and the slots in shared memory with their values, in pairs."""

    array: GlobalRows
    pairs: Sequence[tuple[int, int]]


class MovedEntry(NamedTuple):
    """Registers of an entry that a thread copies from row to row: whether there is one, "" where
    that is certain; where its value lies in shared memory, and where it goes.
    """

    inside: str
    slot: str
    address: str


def table(name: str, entries: OutputEntries) -> str:
    """The table of a list of entries: entry and slot as the two halves of a number."""
    words = ", ".join(str(entry << 32 | slot) for entry, slot in entries.pairs)
    return f".global .align 8 .u64 {name}[{len(entries.pairs)}] = {{{words}}};"


def copy_out(t: Text, warp: Warp, entries: OutputEntries, name: str, place: str) -> None:
    """Copies values from shared memory to the rows of a user's array. name: of the table.

    A thread has some entries, as many in each of few passes over the rows: neighbouring threads
    write neighbours of a row one after the other, or memory would see parts of its sectors.
    """
    n = len(entries.pairs)
    if n <= SHORT:
        _copy_numbers(t, warp, entries, name, place)
        return
    passes = -(-n // (WARP * FLIGHT))
    each = -(-n // (WARP * passes))  # entries of a thread in a pass
    sure = n - WARP * each * (passes - 1)  # entries that there are in each pass
    end = t.label()
    t.do(f"@{t.set('p', 'setp.eq.u32', warp.states, 0)} bra {end}")
    with t.loop(n, WARP * each) as first:
        lane = t.set("r", "add.u32", first, warp.lane)
        numbers = [t.set("r", "add.u32", lane, WARP * k) for k in range(each)]
        certain = [WARP * (k + 1) <= sure for k in range(each)]
        moved = [
            _entry_moved(t, entries, name, place, *x) for x in zip(numbers, certain, strict=True)
        ]
        _copy_rows(t, warp, entries.array.stride, moved)
    t.lines.append(f"{end}:")


def _entry_moved(
    t: Text, entries: OutputEntries, name: str, place: str, number: str, certain: bool
) -> MovedEntry:
    """An entry at the first row. number: its place in the table; certain: whether there is one."""
    inside, n = "", len(entries.pairs)
    if not certain:
        inside = t.set("p", "setp.lt.u32", number, n)
        number = t.set("r", "min.u32", number, n - 1)
    entry, slot = _looked_up(t, name, number)
    start = t.set("r", "mad.lo.u32", slot, PITCH * t.dtype.itemsize, place)
    address = address_of(t, entries.array, t.set("r", "mov.u32", 0), entry)
    return MovedEntry(inside, start, address)


def _copy_rows(t: Text, warp: Warp, stride: str, moved: Sequence[MovedEntry]) -> None:
    """Copies a thread's entries of all rows, of several rows at a time where they are few."""
    size = t.dtype.itemsize
    count = max(2 * FLIGHT // (1 << (len(moved) - 1).bit_length()), 1)  # of rows, a power of two
    with t.loop(warp.states, count) as row:
        values = [
            [load(t, "shared", 1, f"{x.slot}+{k * size}")[0] for x in moved] for k in range(count)
        ]
        for k in range(count):
            guards = _guards(t, warp, moved, row, k)
            for value, x, guard in zip(values[k], moved, guards, strict=True):
                store(t, "global", [value], x.address, guard)
                t.do(f"add.u64 {x.address}, {x.address}, {stride}")
        for x in moved:
            t.do(f"add.u32 {x.slot}, {x.slot}, {count * size}")


def _guards(t: Text, warp: Warp, moved: Sequence[MovedEntry], row: str, k: int) -> Iterator[str]:
    """The guards of stores to the row k rows after one that there is, "" for none."""
    if not k:
        yield from (f"@{x.inside} " if x.inside else "" for x in moved)
        return
    here = t.set("r", "add.u32", row, k)
    there = t.set("p", "setp.lt.u32", here, warp.states)
    for x in moved:
        both = x.inside and t.set("p", "setp.lt.and.u32", here, warp.states, x.inside)
        yield f"@{both or there} "


def _looked_up(t: Text, name: str, k: str) -> tuple[str, str]:
    """The entry and the slot of number k of a table."""
    at = t.set("w", "mad.wide.u32", k, 8, t.set("w", "mov.u64", name))
    word = t.set("w", "ld.global.u64", f"[{at}]")
    entry = t.set("r", "cvt.u32.u64", t.set("w", "shr.u64", word, 32))
    return entry, t.set("r", "cvt.u32.u64", word)


def _copy_numbers(t: Text, warp: Warp, entries: OutputEntries, name: str, place: str) -> None:
    """Several rows at a time."""
    n = len(entries.pairs)
    for j in range(n):
        row, k = entry_of(t, t.set("r", "add.u32", warp.lane, WARP * j), n)
        guard = f"@{t.set('p', 'setp.lt.u32', row, warp.states)} "
        entry, slot = _looked_up(t, name, k)
        slot_place = t.set("r", "mad.lo.u32", slot, PITCH * t.dtype.itemsize, place)
        at = t.set("r", "mad.lo.u32", row, t.dtype.itemsize, slot_place)
        x = load(t, "shared", 1, at)
        store(t, "global", x, address_of(t, entries.array, row, entry), guard)
