"""Functions of one scalar, whatever the scalar is: a float, a NumPy array, a graph node.

A scalar that brings a method of the function's name is asked first; NumPy answers for the rest.
This is all that the robot half needs in order not to know what it computes with.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    pass


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


class Stage(NamedTuple):
    """A submodule of Dadu-RBD: one pass ("R", "D", "M" ...), forward or backward, at one joint
    (counted from 0).
    """

    algorithm: str
    direction: str
    joint: int

    def __str__(self) -> str:
        return f"{self.algorithm}{self.direction}{self.joint + 1}"


on_stage: ContextVar[Any] = ContextVar("on_stage", default=None)
"""What a tracer wants called with each Stage that a loop enters, and with None when it ends."""


on_repeat: ContextVar[Any] = ContextVar("on_repeat", default=None)
"""What a tracer wants called instead of the loop of `repeat`."""


def repeat(function: Any, shared: Any, columns: Any) -> list:
    """function(shared, column) for each column: lists of scalars to a list of scalars.

    All columns have one length, and the function uses nothing but its arguments: a compiler may
    keep it once.
    """
    instead = on_repeat.get()
    return instead(function, shared, columns) if instead else [function(shared, c) for c in columns]


on_hand_over: ContextVar[Any] = ContextVar("on_hand_over", default=None)
"""What a tracer wants called with the scalars of `hand_over`."""


def hand_over(scalars: Any) -> None:
    """Tells that these few scalars, and the inputs, are all that columns which are repeated later
    need of what came before: a compiler may compute the rest twice instead of keeping it.
    """
    if listen := on_hand_over.get():
        listen(scalars)


on_call: ContextVar[Any] = ContextVar("on_call", default=None)
"""What a recorder wants called instead of the function of `call`."""


def call(function: Any, *arguments: Any) -> Any:
    """function(*arguments): a step that many links have in common.

    The function is one of a module, uses nothing but its arguments, and neither looks at the
    values of scalars nor changes what it is given: a recorder may keep it once and note what it is
    applied to. Arguments and result are nested tuples, lists, dicts and objects of scalars; whole
    numbers, texts and objects without scalars are part of which step it is.
    """
    instead = on_call.get()
    return instead(function, *arguments) if instead else function(*arguments)
