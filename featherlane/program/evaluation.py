"""The operations on NumPy arrays of one dtype that no function of NumPy computes."""

from __future__ import annotations

import math
from typing import Any

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


def _bits(a: Array) -> tuple[Array, type[Any], int, int]:
    """The bits of numbers as integers, the type of those, and the type's fraction bits and bias."""
    a = np.asarray(a)
    integer, fraction, bias = (
        (np.uint32, 23, 127) if a.dtype == np.float32 else (np.uint64, 52, 1023)
    )
    return a.view(integer), integer, fraction, bias


def power_of_two(k: Array) -> Array:
    """2^k for an integer k of a normal number, -1022 to 1023 (-126 to 127 in float32).

    Adding 1.5 2^52 (1.5 2^23) and the bias puts k and the bias into the last bits of the number;
    shifted to the exponent's place they are 2^k. Any other k is legal only where nothing reads the
    result, or where NaN follows anyway.
    """
    number = np.asarray(k).dtype.type
    fraction, bias = (23, 127) if number is np.float32 else (52, 1023)
    bits, integer, *_ = _bits(k + number(1.5 * 2.0**fraction + bias))
    return (bits << integer(fraction)).view(number)[()]


def exponent(a: Array) -> Array:
    """The exponent of a number that is not subnormal: 2^exponent <= |a| < 2^(exponent + 1).

    -1023 (-127 in float32) for zeros and subnormal numbers, 1024 (128) for infinities and NaN.
    """
    bits, integer, fraction, bias = _bits(a)
    number = np.asarray(a).dtype.type
    biased = bits >> integer(fraction) & integer(2 * bias + 1)
    return (biased.astype(number) - number(bias))[()]
