"""THE table of operations: everything that a graph may hold, and what each operation means.

`evaluate` is the definition, on NumPy arrays of one dtype; every backend must give the same bits.
Nothing else in the package may invent an operation, and a transformation is one more table with
these names as its keys. Two rows have no `evaluate`: "call" applies a graph that the program keeps
once (see `program.program`), and "result" is one of the scalars that it gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any


def _split(a: Array) -> tuple[Array, Array]:
    """a as a sum of two numbers of 26 bits (Veltkamp)."""
    c = a * 134217729.0
    high = c - (c - a)
    return high, a - high


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a b as an unevaluated sum (Dekker)."""
    p = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as an unevaluated sum (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _sum_to_odd(a: Array, b: Array) -> Array:
    """a + b rounded to odd: truncated where inexact, with the last bit set (Boldo and Melquiond
    2008).
    """
    s, error = _two_sum(a, b)
    bits = np.asarray(s).view(np.int64)
    towards = np.where((error > 0) == (s > 0), 1, -1)
    return np.where((error != 0) & (bits & 1 == 0), (bits + towards).view(np.float64), s)


def _once(a: float, b: float, c: float) -> float:
    """a b + c rounded once, for finite a and b, by exact arithmetic."""
    if not math.isfinite(c):
        return c
    from fractions import Fraction  # rarely needed, and slow to import

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c  # which gives a zero its sign
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """By Boldo and Melquiond 2008, algorithm 5; exactly where that could overflow or underflow."""
    high, low = _two_product(a, b)
    t, t_low = _two_sum(c, low)
    v, v_low = _two_sum(high, t)
    exact = v + _sum_to_odd(t_low, v_low)
    finite = np.isfinite(a) & np.isfinite(b)
    plain = (np.abs(high) > 2.0**-900) | (a == 0) | (b == 0)
    plain &= np.max(np.abs([a, b, c, high]), axis=0) < 2.0**990
    result = np.where(finite & (exact != 0), exact, a * b + c)
    for index in map(tuple, np.argwhere(finite & ~plain)):
        result[index] = _once(float(a[index]), float(b[index]), float(c[index]))
    return result


def _fma32(a: Array, b: Array, c: Array) -> Array:
    """A product of two floats is a double, and a sum rounded to odd may be rounded once more."""
    product, c = a.astype(np.float64) * b, c.astype(np.float64)
    total = product + c
    return np.where(np.isfinite(total), _sum_to_odd(product, c), total).astype(np.float32)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a b + c rounded once, as IEEE 754 wants it, for all float64 and all float32."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        return _fma32(a, b, c) if a.dtype == np.float32 else _fma64(a, b, c)


def quarter(k: Array, s: Array, c: Array) -> Array:
    """The sine of an angle that is k quarter turns more than the one whose sine and cosine are s
    and c.

    k is an integer below 2^51 (2^22 in float32) in magnitude, so that adding 1.5 2^52 (1.5 2^23)
    puts k modulo 4 into its last two bits. A k that is NaN or infinite gives NaN; it is legal only
    where s and c are NaN too, since a backend that reads those bits gives one of them.
    """
    number = np.asarray(k).dtype.type  # NumPy 1 gives a float64 for a float32 and Python's numbers
    k = np.mod(k, number(4))
    neither = k * number(np.nan)
    return np.where(
        k == 0, s, np.where(k == 1, c, np.where(k == 2, -s, np.where(k == 3, -c, neither)))
    )


class Op(NamedTuple):
    name: str
    arity: int | None  # None: any number of operands
    kind: str  # what cost() counts it as
    evaluate: Callable[..., Array] | None
    meaning: str


OPS = {
    op.name: op
    for op in (
        Op("input", 0, "data", None, "one entry of an input array"),
        Op("constant", 0, "data", None, "a number known at compile time"),
        Op("call", None, "call", None, "a function of the program, by number, of the operands"),
        Op("result", 1, "data", None, "one of the results of a call, by number"),
        Op("neg", 1, "sign", np.negative, "-a"),
        Op("abs", 1, "sign", np.abs, "|a|"),
        Op("add", 2, "add", np.add, "a + b"),
        Op("sub", 2, "add", np.subtract, "a - b"),
        Op("mul", 2, "mul", np.multiply, "a b"),
        Op("fma", 3, "fma", fma, "a b + c, rounded once"),
        Op("div", 2, "div", np.divide, "a / b"),
        Op("sqrt", 1, "sqrt", np.sqrt, "square root"),
        Op("sin", 1, "trig", np.sin, "sine; expanded before any backend sees it"),
        Op("cos", 1, "trig", np.cos, "cosine; expanded before any backend sees it"),
        Op("round", 1, "select", np.rint, "the nearest integer, halves to even"),
        Op("quarter", 3, "select", quarter, "s, c, -s, -c for k = 0, 1, 2, 3 modulo 4"),
        Op("less", 2, "select", np.less, "whether a < b: a condition, for select alone"),
        Op("select", 3, "select", np.where, "b if a holds, else c"),
    )
}
COMMUTES = {"add", "mul"}
ARITHMETIC = {op.name for op in OPS.values() if op.evaluate}  # of scalars, to a scalar
