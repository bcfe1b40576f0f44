"""Functions of one scalar, whatever the scalar is: a float, a NumPy array, a graph node.

A scalar with a method of the function's name computes by that method; NumPy computes the rest.
So the robot half does not depend on the kind of scalars that it computes with.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import zip_longest
from math import factorial, isfinite, nan
from typing import Any, NamedTuple, Protocol

import numpy as np

ROUNDING = 1 / 32  # its inverse: rounding errors of a pivot, in last places of its scale
Scalar = Any  # float, numpy.ndarray, or anything with +, -, *, / and the methods below


BITS = 128  # after the point of the integers that sines are computed with
TINY = 2.0**-27  # below it, sin x and cos x round to x and 1
TERMS = range(34, -1, -2)  # 0.8^35 / 35! is below 2^-140
COSINE = [(-1) ** (n // 2) * (1 << BITS) // factorial(n) for n in TERMS]
SINE = [(-1) ** (n // 2) * (1 << BITS) // factorial(n + 1) for n in TERMS]


@cache
def _pi(bits: int) -> int:
    """pi 2^bits, by Machin's formula pi = 16 arctan(1/5) - 4 arctan(1/239)."""

    def arctan(n: int) -> int:
        term, total, k = (1 << bits + 16) // n, 0, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term, k = term // (n * n), k + 2
        return total

    return 16 * arctan(5) - 4 * arctan(239) >> 16


@lru_cache(maxsize=4096)
def sine_cosine(x: float) -> tuple[float, float]:
    """sin x and cos x of a number, rounded from 100 bits or more: the same on every machine, unlike
    those of C libraries and NumPy, which have code for each processor. NaN for infinities.
    """
    if not isfinite(x):
        return nan, nan
    if abs(x) < TINY:
        return x, 1.0
    numerator, denominator = x.as_integer_ratio()
    more = max(numerator.bit_length() - denominator.bit_length(), 0) + 64  # r may be small
    quarter = _pi(BITS + more) >> 1
    angle = (numerator << BITS + more) // denominator
    k = (angle + (quarter >> 1)) // quarter
    r = angle - k * quarter >> more
    square, sine, cosine = r * r >> BITS, 0, 0
    for a, b in zip(SINE, COSINE, strict=True):
        sine, cosine = (sine * square >> BITS) + a, (cosine * square >> BITS) + b
    s, c = (sine * r >> BITS) / (1 << BITS), cosine / (1 << BITS)
    return ((s, c), (c, -s), (-s, -c), (-c, s))[k % 4]


def _documentation(name: str, what: str, names: str, arguments: str) -> str:
    """The documentation of a function of scalars."""
    listed = "".join(f"\n        {x}: a float, an array or a traced scalar" for x in names)
    return f"""Returns the {what}, for scalars of any kind: floats, arrays and traced scalars.

    Arguments:{listed}

    Examples:
        >>> x = np.array([0.25, 0.5])
        >>> compiled = fl.compile(lambda x: fl.{name}({arguments}), {{"x": ()}})
        >>> np.allclose(compiled(x), fl.{name}({arguments}))
        True
    """


def _by_method(name: str, what: str, of_number: Any, of_array: Any) -> Any:
    def function(x: Scalar) -> Scalar:
        if type(x) is float:
            return of_number(x)
        method = getattr(x, name, None)
        return of_array(x) if method is None else method()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _documentation(name, what, "x", "x")
    return function


sin = _by_method("sin", "sine of an angle in rad", lambda x: sine_cosine(x)[0], np.sin)
cos = _by_method("cos", "cosine of an angle in rad", lambda x: sine_cosine(x)[1], np.cos)
sqrt = _by_method("sqrt", "square root of x", np.sqrt, np.sqrt)
rint = _by_method("rint", "whole number nearest to x, the even one of two", np.rint, np.rint)
exp = _by_method("exp", "exponential of x", np.exp, np.exp)
log = _by_method("log", "natural logarithm of x", np.log, np.log)
tanh = _by_method("tanh", "hyperbolic tangent of x", np.tanh, np.tanh)
asin = _by_method("asin", "angle in rad, -pi/2 to pi/2, of a sine", np.arcsin, np.arcsin)
acos = _by_method("acos", "angle in rad, 0 to pi, of a cosine", np.arccos, np.arccos)
floor = _by_method("floor", "largest whole number that is not above x", np.floor, np.floor)


def _of_two(name: str, what: str, reflected: str, of_arrays: Any) -> Any:
    def function(x: Scalar, y: Scalar) -> Scalar:
        if (method := getattr(x, name, None)) is not None and not isinstance(y, np.ndarray):
            return method(y)
        if (method := getattr(y, reflected, None)) is not None and not isinstance(x, np.ndarray):
            return method(x)
        return of_arrays(x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _documentation(name, what, "xy", "x, 0.25 + x")
    return function


atan2 = _of_two("atan2", "angle in rad, -pi to pi, of the point (y, x)", "ratan2", np.arctan2)
minimum = _of_two("minimum", "smaller of x and y", "minimum", np.minimum)
maximum = _of_two("maximum", "larger of x and y", "maximum", np.maximum)


def scale_to_one(x: Scalar) -> Scalar:
    """The power of two whose product with x is from 1 to 2 in magnitude."""
    if (method := getattr(x, "scale_to_one", None)) is not None:
        return method()
    return np.ldexp(1.0, 1 - np.frexp(x)[1])


def is_zero(x: Scalar) -> bool:
    """Whether x is the number 0, and not a scalar still to be computed."""
    return isinstance(x, int | float) and x == 0


def select(condition: Any, a: Scalar, b: Scalar) -> Scalar:
    """Returns a where the condition (of two scalars, `x < y`) holds, else b; both are computed.

    Arguments:
        condition: a comparison of two scalars
        a: the result where it holds
        b: the result elsewhere

    Examples:
        >>> fl.compile(lambda x: fl.select(x < 0, 0.0, x), {"x": ()})([-1.0, 2.0])
        array([0., 2.])
    """
    if (method := getattr(condition, "select", None)) is not None:
        return method(a, b)
    return (a if condition else b) if np.ndim(condition) == 0 else np.where(condition, a, b)


def unless_lost(value: Scalar, pivot: Scalar, scale: Scalar) -> Scalar:
    """A value that was divided by a pivot > 0; NaN if the pivot, a difference of numbers as large
    as `scale`, consists of rounding errors: then the system is singular.
    """
    return select(scale < scale + pivot * ROUNDING, value, np.nan)


def reciprocal(pivot: Scalar, scale: Scalar) -> Scalar:
    """1 / pivot, `unless_lost`."""
    return unless_lost(1.0 / pivot, pivot, scale)


# Hooks for a tracer of the algorithm that runs. On floats they have no effect.


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
    """The hooks of a tracer, which an algorithm on traced scalars calls."""

    def enter(self, tag: Any) -> None:
        """Tags later operations with a part of the algorithm; None ends that."""

    def call(self, function: Any, *arguments: Any) -> Any:
        """Evaluates function(*arguments), or records a call of it."""

    def boundary(self, scalars: Sequence[Scalar]) -> None:
        """See the function of this name below."""

    def within(self, x: Scalar, low: float, high: float) -> None:
        """See the function of this name below."""


tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


def call(function: Any, *arguments: Any) -> Any:
    """function(*arguments): a step that many links have in common.

    The function uses its arguments alone, and neither reads the values of scalars nor changes its
    arguments: so a tracer may record it once, and then record only its operands. Arguments and
    result are nested tuples, lists, dicts and objects of scalars; steps with different whole
    numbers, texts or objects without scalars are different steps.
    """
    following = tracer.get()
    return function(*arguments) if following is None else following.call(function, *arguments)


def repeat(
    function: Any, shared: Sequence[Scalar], columns: Sequence[Sequence[Scalar]], tags: Any = ()
) -> list:
    """function(shared, column) for each column: lists of scalars to a list of scalars. All columns
    have the same length. tags: of each column.
    """
    return [
        at(tag, call, function, shared, column)
        for tag, column in zip_longest(tags, columns, fillvalue=COLUMN)
    ]


COLUMN = Tag("", "c", -1)


def at(tag: Any, function: Any, *arguments: Any) -> Any:
    """function(*arguments), with its operations tagged."""
    if (following := tracer.get()) is None:
        return function(*arguments)
    following.enter(tag)
    result = function(*arguments)
    following.enter(None)
    return result


def boundary(scalars: Sequence[Scalar]) -> None:
    """States that everything that later columns (`repeat`) read can be computed from these few
    scalars and the inputs: a compiler may recompute it instead of keeping it live.
    """
    if (following := tracer.get()) is not None:
        following.boundary(scalars)


def within(x: Scalar, low: float, high: float) -> Scalar:
    """x, with the statement that it is never below `low` or above `high`: an assumption of proofs
    of ranges where interval arithmetic alone has no bounds, as for the pivots of a positive
    definite matrix. Infinite bounds state nothing. Raises ValueError for bounds in the wrong order.
    """
    if not low <= high:
        raise ValueError(f"within got the bounds {low} and {high}: wanted low <= high")
    if (following := tracer.get()) is not None and (isfinite(low) or isfinite(high)):
        following.within(x, float(low), float(high))
    return x
