"""Rows of the user's arrays to values of states, and back, through shared memory.

A warp computes 32 states, whose rows it reads and writes together: neighbouring threads take
neighbouring numbers. In shared memory a row has an odd number of places, so that the threads of a
warp, each at its own row, meet different banks. Entries that show the same value, as those of a
symmetric matrix and zeros do, are kept once: a table says where each entry is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from featherlane.backends.cuda.ptx import WARP, Text

PITCH = WARP + 1  # places from one value to the next, where values lie by slot and state
SHORT = 24  # entries of an array up to which a warp takes several rows at a time
FLIGHT = 8  # numbers that a thread asks memory for before it waits


class Array(NamedTuple):
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


def _entry_of(t: Text, warp: Warp, n: int, j: int) -> tuple[str, str]:
    """The row and the column of number 32 j + lane of the warp's rows of n numbers."""
    i = t.set("r", "add.u32", warp.lane, WARP * j)
    factor, shift = reciprocal(n, WARP * n)
    row = t.set("r", "shr.u32", t.set("r", "mul.lo.u32", i, factor), shift)
    return row, t.set("r", "sub.u32", i, t.set("r", "mul.lo.u32", row, n))


def _address(t: Text, array: Array, row: str, column: str) -> str:
    """The address of a number of the user's array."""
    start = t.set("w", "mad.wide.u32", column, t.dtype.itemsize, array.base)
    wide = t.set("w", "cvt.u64.u32", row)
    return t.set("w", "mad.lo.u64", wide, array.stride, start)


def pitch(n: int) -> int:
    """Places of a row of n numbers in shared memory: odd."""
    return n | 1


def bring(t: Text, warp: Warp, array: Array, place: str, part: range) -> None:
    """Copies the rows of a warp's states to shared memory, from the address in `place` on. Threads
    beyond the last state find zeros. part: which numbers of a thread, of n; other warps take the
    others.
    """
    n, size = array.entries, t.dtype.itemsize
    for first in range(part.start, part.stop, FLIGHT):
        loaded = []
        for j in range(first, min(first + FLIGHT, part.stop)):
            row, column = _entry_of(t, warp, n, j)
            inside = t.set("p", "setp.lt.u32", row, warp.states)
            x = t.set("f", f"mov.{t.type}", t.number(0.0))
            t.do(f"@{inside} ld.global.{t.type} {x}, [{_address(t, array, row, column)}]")
            at = t.set("r", "mad.lo.u32", row, pitch(n), column)
            loaded.append((t.set("r", "mad.lo.u32", at, size, place), x))
        for at, x in loaded:
            t.do(f"st.shared.{t.type} [{at}], {x}")


class Shown(NamedTuple):
    """Entries of an array that show values in shared memory: pairs of an entry and a slot."""

    array: Array
    pairs: Sequence[tuple[int, int]]


def table(name: str, shown: Shown) -> str:
    """The table of a list of entries: entry and slot as the two halves of a number."""
    words = ", ".join(str(entry << 16 | slot) for entry, slot in shown.pairs)
    return f".global .align 4 .u32 {name}[{len(shown.pairs)}] = {{{words}}};"


def _looked_up(t: Text, name: str, k: str) -> tuple[str, str]:
    """The entry and the slot of number k of a table."""
    at = t.set("w", "mad.wide.u32", k, 4, t.set("w", "mov.u64", name))
    word = t.set("r", "ld.global.u32", f"[{at}]")
    return t.set("r", "shr.u32", word, 16), t.set("r", "and.b32", word, 0xFFFF)


def _store(t: Text, shown: Shown, row: str, entry: str, slot_place: str, test: str) -> None:
    """Stores the value of a row, if the test holds. slot_place: where the slot begins."""
    at = t.set("r", "mad.lo.u32", row, t.dtype.itemsize, slot_place)
    x = t.set("f", f"ld.shared.{t.type}", f"[{at}]")
    t.do(f"@{test} st.global.{t.type} [{_address(t, shown.array, row, entry)}], {x}")


def show(t: Text, warp: Warp, shown: Shown, name: str, place: str) -> None:
    """Copies values from shared memory to the rows of a user's array. name: of the table."""
    n = len(shown.pairs)
    if n <= SHORT:
        _show_numbers(t, warp, shown, name, place)
        return
    chunk = t.set("r", "mov.u32", 0)
    again = t.label()
    t.lines.append(f"{again}:")
    k = t.set("r", "add.u32", chunk, warp.lane)
    inside = t.set("p", "setp.lt.u32", k, n)
    known = t.set("r", "min.u32", k, n - 1)
    entry, slot = _looked_up(t, name, known)
    slot_place = t.set("r", "mad.lo.u32", slot, PITCH * t.dtype.itemsize, place)
    address = _address(t, shown.array, t.set("r", "mov.u32", 0), entry)
    for row in range(WARP):
        here = t.set("p", "setp.gt.and.u32", warp.states, row, inside)
        x = t.set("f", f"ld.shared.{t.type}", f"[{slot_place}+{row * t.dtype.itemsize}]")
        t.do(f"@{here} st.global.{t.type} [{address}], {x}")
        address = t.set("w", "add.u64", address, shown.array.stride)
    t.do(f"add.u32 {chunk}, {chunk}, {WARP}")
    more = t.set("p", "setp.lt.u32", chunk, n)
    t.do(f"@{more} bra {again}")


def _show_numbers(t: Text, warp: Warp, shown: Shown, name: str, place: str) -> None:
    """Several rows at a time."""
    n = len(shown.pairs)
    for j in range(n):
        row, k = _entry_of(t, warp, n, j)
        inside = t.set("p", "setp.lt.u32", row, warp.states)
        entry, slot = _looked_up(t, name, k)
        _store(
            t,
            shown,
            row,
            entry,
            t.set("r", "mad.lo.u32", slot, PITCH * t.dtype.itemsize, place),
            inside,
        )


def flushes(nodes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Cuts the values that outputs show, in the order in which they are computed, into as few parts
    as possible of at most `most`, of the same size but for one.
    """
    parts = -(-len(nodes) // most)
    size = -(-len(nodes) // parts) if parts else 1
    for first in range(0, len(nodes), size):
        yield list(nodes[first : first + size])
