"""Functions of one scalar, whatever the scalar is: a float, a NumPy array, a graph node.

A scalar that brings a method of the function's name is asked first; NumPy answers for the rest.
This is all that the robot half needs in order not to know what it computes with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDING = 1 / 32  # its inverse: rounding errors of a pivot, in last places of its scale
Scalar = Any  # float, numpy.ndarray, or anything with +, -, *, / and the methods below


def _by_method(name: str, fallback: Any) -> Any:
    def function(x: Scalar) -> Scalar:
        method = getattr(x, name, None)
        return fallback(x) if method is None else method()

    function.__name__ = name
    function.__doc__ = f"The {name} of a scalar of any kind."
    return function


sin = _by_method("sin", np.sin)
cos = _by_method("cos", np.cos)
sqrt = _by_method("sqrt", np.sqrt)


def is_zero(x: Scalar) -> bool:
    """Whether x is the number 0, and not something still to be computed."""
    return isinstance(x, int | float) and x == 0


def select(condition: Any, a: Scalar, b: Scalar) -> Scalar:
    """a where the condition (of two scalars, `x < y`) holds, else b; both are computed."""
    if (method := getattr(condition, "select", None)) is not None:
        return method(a, b)
    return (a if condition else b) if np.ndim(condition) == 0 else np.where(condition, a, b)


def unless_lost(value: Scalar, pivot: Scalar, scale: Scalar) -> Scalar:
    """The value that a pivot > 0 divides. NaN where of the pivot, left over of numbers as large as
    `scale`, nothing but their rounding is there: what a singular system gives is not a number.
    """
    return select(scale < scale + pivot * ROUNDING, value, np.nan)


def reciprocal(pivot: Scalar, scale: Scalar) -> Scalar:
    """1 / pivot, `unless_lost`."""
    return unless_lost(1.0 / pivot, pivot, scale)
