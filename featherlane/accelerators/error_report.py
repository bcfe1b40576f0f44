"""The errors of a function in fixed point over some states, as reports have them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from featherlane.functions.fixed import FixedFunction


def error_report(function: FixedFunction, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns what happened in some states, and for each result the largest number, the median and
    the largest error, and the bound that is proved of all states, None if that is of no use.
    """
    errors = function.errors(**inputs)
    happened, bounds = function.report, function.error_bounds()
    assert happened is not None, "errors have a report"
    results = {}
    for output, magnitude in errors.magnitude.items():
        bound = bounds[output]
        results[output] = {
            "largest_result": _finite(magnitude),
            "median_error": _finite(errors.median[output]),
            "largest_error": _finite(errors.largest[output]),
            "proved_bound": bound if isfinite(bound) and bound <= magnitude else None,
        }
    return {
        "overflows": sum(happened.overflows.values()),  # of signals
        "clamped": sum(happened.clamped.values()),
        "saturated": sum(happened.saturated.values()),  # entries of inputs
        "lost": happened.lost,  # states without results
        "results": results,
    }


def _finite(x: float) -> float | None:
    """A number, None for one that JSON has not."""
    return float(x) if isfinite(x) else None
