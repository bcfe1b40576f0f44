"""The numbers that inputs take: those of their formats, and where formats were assigned from
ranges, those of them within the ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed.bad_entries import BeyondFormat
from featherlane.backends.fixed.datapath import Datapath

ROUNDED = 2.0**-23  # of a limit: how far a number in float32 may be beyond it by rounding
Ranges = Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]
# The least and the largest number of each entry of inputs, in C order, that formats were assigned
# for; without those of inputs whose formats alone count
NO_RANGES: Ranges = {}


class InputLimits(NamedTuple):
    """Integers of an entry, or arrays of them for the entries of an input. least, most: what it
    takes. first, last: what is taken as `least` and `most`, since only rounding is between them.
    """

    least: Any
    most: Any
    first: Any
    last: Any

    def outside(self, nearest: Any) -> Any:
        """Tells which whole numbers are beyond the limits."""
        return (nearest < self.first) | (nearest > self.last)


def flat_ranges(ends: Mapping[str, tuple[Any, Any]]) -> Ranges:
    """Ranges of arrays (low, high) by the name of an input."""
    return {
        name: (tuple(np.ravel(low).tolist()), tuple(np.ravel(high).tolist()))
        for name, (low, high) in ends.items()
    }


def entry_limits(
    least: int, most: int, step: float, ranges: Ranges, name: str, position: int
) -> InputLimits:
    """The limits of an entry. least, most, step: of its format."""
    if name not in ranges:
        return InputLimits(least, most, least, most)
    low, high = ranges[name]
    return _limits_within(least, most, step, low[position], high[position])


@lru_cache(maxsize=1 << 14)  # drivers ask for those of all fields in each call
def _limits_within(least: int, most: int, step: float, start: float, end: float) -> InputLimits:
    """The limits of an entry of a format and a range."""
    low, high = round(start / step), round(end / step)
    first, last = low - int(abs(low) * ROUNDED), high + int(abs(high) * ROUNDED)
    lowest, highest = (min(max(end, least), most) for end in (low, high))
    return InputLimits(lowest, highest, max(first, least - 1), min(last, most + 1))


def limits_of(datapath: Datapath, ranges: Ranges = NO_RANGES) -> dict[str, InputLimits]:
    """The limits of the entries of each input, arrays (entries,)."""
    limits = {}
    for name, (step, least, most) in datapath.input_codes.items():
        entries = [
            entry_limits(*ends, ranges, name, n)
            for n, ends in enumerate(zip(least.tolist(), most.tolist(), step.tolist(), strict=True))
        ]
        limits[name] = InputLimits(*np.array(entries, np.float64).reshape(-1, 4).T)
    return limits


def beyond_limits(
    ends: tuple[float, float], ranges: Ranges, name: str, state: int, position: int, value: float
) -> BeyondFormat:
    """An entry with a value beyond its range, or beyond the ends of its format without one."""
    if is_range := name in ranges:
        low, high = ranges[name]
        ends = low[position], high[position]
    return BeyondFormat(name, state, position, value, *ends, is_range)
