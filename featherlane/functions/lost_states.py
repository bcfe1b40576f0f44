"""States that no robot can be in: with parameters of which M is not positive definite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.scalar import Scalar, call, select


def lost_as_a_whole(results: Sequence[Any]) -> list[Any]:
    """Returns the results of a state, all of them NaN if one is: where a pivot of M is lost, only
    what hangs on the same root as its joint is NaN by itself.

    results: scalars in nested lists.
    """
    nothing = call(_zero_or_nan, _flat(results))
    return [_with(x, nothing) for x in results]


def _flat(x: Any) -> list[Scalar]:
    if isinstance(x, list | tuple):
        return [entry for inside in x for entry in _flat(inside)]
    return [x]


def _zero_or_nan(entries: Sequence[Scalar]) -> Scalar:
    """Returns 0, or NaN if the sum of the entries is NaN or overflows."""
    total = sum(entries, 0.0)
    return select(total < np.inf, 0.0, np.nan)


def _with(x: Any, nothing: Scalar) -> Any:
    if isinstance(x, list | tuple):
        return [_with(inside, nothing) for inside in x]
    return call(_sum, x, nothing)


def _sum(x: Scalar, nothing: Scalar) -> Scalar:
    return x + nothing
