"""Limits that mean "none": 1e9, 1e16 or the largest float, which exporters write for it."""

from __future__ import annotations

from math import inf

import numpy as np

UNLIMITED = 1e8
"""m, rad, m/s, rad/s, N or N m: limits from here on count as none. No joint turns or slides so far
or so fast, and rockets stay below in N.
"""


def lower_limits(x: np.ndarray) -> np.ndarray:
    """Returns lower limits, -infinity for those that mean none."""
    return np.where(np.abs(x) < UNLIMITED, x, -inf)


def upper_limits(x: np.ndarray) -> np.ndarray:
    """Returns upper limits, infinity for those that mean none."""
    return np.where(np.abs(x) < UNLIMITED, x, inf)


def largest(x: float) -> float:
    """Returns the largest |v| or |tau|, infinity where the figure means none.

    Many exporters write 0, or a negative number, for what they do not know.
    """
    return x if 0 < x < UNLIMITED else inf
