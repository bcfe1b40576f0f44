"""Functions of one scalar, whatever the scalar is: a float, a NumPy array, a graph node.

A scalar that brings a method of the function's name is asked first; NumPy answers for the rest.
This is all that the robot half needs in order not to know what it computes with.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol

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


# What a tracer may be told while an algorithm runs. On floats none of it does anything.


class Tag(NamedTuple):
    """The part of an algorithm that computes something, in the terms of Dadu-RBD (2023), section
    IV: a pass ("R", "D", "M" ...), its direction ("f" outward, "b" inward, "c" over the columns of
    a matrix) and a joint, counted from 0. call: the number of the `call`, where there is one.
    """

    algorithm: str
    direction: str
    joint: int
    call: int = 0

    def __str__(self) -> str:
        return f"{self.algorithm}{self.direction}{self.joint + 1}"


class Tracer(Protocol):
    """The hooks through which an algorithm on traced scalars tells a tracer what it is doing."""

    def enter(self, tag: Any) -> None:
        """Tags what is computed from now on with a place in the algorithm; None ends that."""

    def call(self, function: Any, *arguments: Any) -> Any:
        """Stands for function(*arguments)."""

    def boundary(self, scalars: Sequence[Scalar]) -> None:
        """See the function of this name."""


tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


def call(function: Any, *arguments: Any) -> Any:
    """function(*arguments): a step that many links have in common.

    The function uses nothing but its arguments, and neither looks at the values of scalars nor
    changes what it is given: a tracer may keep it once and note what it is applied to. Arguments
    and result are nested tuples, lists, dicts and objects of scalars; whole numbers, texts and
    objects without scalars are part of which step it is.
    """
    following = tracer.get()
    return function(*arguments) if following is None else following.call(function, *arguments)


def repeat(
    function: Any, shared: Sequence[Scalar], columns: Sequence[Sequence[Scalar]], tags: Any = ()
) -> list:
    """function(shared, column) for each column: lists of scalars to a list of scalars. All columns
    have one length. tags: where each belongs.
    """
    return [
        at(tag, call, function, shared, column)
        for tag, column in zip_longest(tags, columns, fillvalue=COLUMN)
    ]


COLUMN = Tag("", "c", -1)


def at(tag: Any, function: Any, *arguments: Any) -> Any:
    """function(*arguments), computed at the place that the tag says."""
    if (following := tracer.get()) is None:
        return function(*arguments)
    following.enter(tag)
    result = function(*arguments)
    following.enter(None)
    return result


def boundary(scalars: Sequence[Scalar]) -> None:
    """Tells that these few scalars, and the inputs, are all that columns which are repeated later
    need of what came before: a compiler may compute the rest twice instead of keeping it.
    """
    if (following := tracer.get()) is not None:
        following.boundary(scalars)
