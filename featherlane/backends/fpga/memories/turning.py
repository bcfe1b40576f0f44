"""Memories that turn: values keep their cell for as long as something reads them.

A memory whose values wait for several intervals holds several of each. In a ring, each value is
written where a counter of cycles stands, so that the ring is as long as the longest wait. A memory
that turns moves on by one cell an interval (Rau et al., Register allocation for software pipelined
loops, PLDI 1992): a value is written into its cell plus the number of turns, and read later
in the cell that is by so many turns further back. Cells then follow from the waits of all values,
and a memory has hardly more than it holds at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Wait(NamedTuple):
    """The cycle in which a value is written and the one in which it is read last."""

    written: int
    read: int


def cells(waits: Mapping[int, Wait], interval: int, count: int) -> dict[int, int] | None:
    """Returns the cell of each value in a memory of so many cells, None if they are too few.

    The instances of a value that follow each other an interval apart take cells that follow each
    other, so that the cell 0 takes part of each value: value v, in cell c, is there c intervals
    before it is written, on a circle of `count` intervals. The longest wait is placed first, each
    behind the one that leaves the smallest gap.
    """
    circle, taken, chosen = count * interval, 0, dict[int, int]()
    order = sorted(waits, key=lambda k: (waits[k].written - waits[k].read, k))
    for k in order:
        wait = waits[k]
        length = wait.read - wait.written
        if length > circle:
            return None
        places = ((wait.written - cell * interval) % circle for cell in range(count))
        free = [
            (_gap(taken, start, circle), cell, mask)
            for cell, start in enumerate(places)
            if not taken & (mask := _mask(start, length, circle))
        ]
        if not free:
            return None
        _, chosen[k], mask = min(free)
        taken |= mask
    return chosen


def _mask(start: int, length: int, circle: int) -> int:
    """The cycles from one on, as bits of a circle."""
    bits = (1 << length) - 1 << start
    return (bits | bits >> circle) & (1 << circle) - 1


def _gap(taken: int, start: int, circle: int) -> int:
    """The free cycles in front of one."""
    before = (taken | taken << circle) & (1 << start + circle) - 1
    return start + circle - before.bit_length()


def address(cell: int, cycle: int, interval: int, count: int) -> int:
    """The cell in a cycle of the first state, less the number of turns."""
    return (cell - cycle // interval) % count
