"""THE table of operations: everything that a graph may hold, and what each operation means.

`evaluate` is the definition, on NumPy arrays of one dtype; every backend must give the same bits. Nothing else in
the package may invent an operation, and a transformation is one more table with these names as its keys.
"""

from __future__ import annotations

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
    """a + b rounded to odd: truncated where inexact, with the last bit set (Boldo and Melquiond 2008)."""
    s, error = _two_sum(a, b)
    bits = np.asarray(s).view(np.int64)
    towards = np.where((error > 0) == (s > 0), 1, -1)
    return np.where((error != 0) & (bits & 1 == 0), (bits + towards).view(np.float64), s)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a b + c rounded once, without the hardware's instruction."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        if a.dtype == np.float32:  # the product of two floats is a double
            return _sum_to_odd(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float32)
        high, low = _two_product(a, b)
        t, t_low = _two_sum(c, low)
        v, v_low = _two_sum(high, t)
        exact = v + _sum_to_odd(t_low, v_low)
        return np.where(np.isfinite(exact) & (exact != 0), exact, a * b + c)


def quarter(k: Array, s: Array, c: Array) -> Array:
    """The sine of an angle that is k quarter turns more than the one whose sine and cosine are s and c."""
    k = np.mod(k, 4)
    return np.where(k == 0, s, np.where(k == 1, c, np.where(k == 2, -s, np.where(k == 3, -c, np.nan * k))))


class Op(NamedTuple):
    name: str
    arity: int
    kind: str  # what cost() counts it as
    evaluate: Callable[..., Array] | None
    meaning: str


OPS = {
    op.name: op
    for op in (
        Op("input", 0, "data", None, "one entry of an input array"),
        Op("constant", 0, "data", None, "a number known at compile time"),
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
