"""The units for sine, cosine and reciprocals, defined in integers, to the bit.

A unit is a small table with a few multiplications. Below, "a at g" is an integer that stands for
a / 2^g, >> is an arithmetic shift, and near(x, s) = (x + 2^(s - 1)) >> s, or x if s is 0. Widths
count the sign where a number has one ("signed").

Sine and cosine of A at f, of w bits, to results at F (`SineCosine` has the numbers in capitals):

    U = near(A TURN, SHIFT)       angle in quarter turns at PHASE; its last PHASE + 2 bits are kept
    k, i, e                       the 2, 9 and PHASE - 9 bits of U, from the top
    S = table[i], C = table[~i]   sine and cosine at the middle of interval i, unsigned, G bits at G
    d = e - 2^(PHASE - 10)        signed, PHASE - 9 bits
    X = near(d ARC, ARC_SHIFT)    d in radians, signed, G - 8 bits at G; ARC has G - 7 bits
    p = near((C >> 8) X, G - 8)   C >> 8: unsigned, G - 8 bits; p signed, G - 8 bits at G
    r = near((S >> 8) X, G - 8)   likewise
    s, c = S + p, C - r           at G, signed, G + 2 bits

and with the second-order term, if SECOND,

    x = X >> 8                    signed, G - 16 bits at G - 8
    Q = near(x x, G - 15)         half of the square, unsigned, G - 19 bits at G
    s = S + p - near((S >> 18) Q, G - 18)    (S >> 18: unsigned, G - 18 bits)
    c = C - r - near((C >> 18) Q, G - 18)

    s, c = near(s, G - F), near(c, G - F)
    sin, cos = (s, c), (c, -s), (-s, -c), (-c, s) for k = 0, 1, 2, 3; 1 is the largest number of
    `out`, if `out` does not hold 1.

Reciprocal of A at f to a result at F, by a table and y0 (1 + e + e^2), where e = 1 - m y0
(`Reciprocal` has H):

    M = |A|                       m at f: its leading one at f is implied
    j = the last f bits of M; all ones if M >= 2^(f + 1)
    m = 2^f + j                   unsigned, f + 1 bits at f
    i = the first 9 bits of j     (with zeros behind, if f < 9)
    Y = table[i]                  unsigned, 17 bits at 17
    E = 2^(f + 17) - m Y          signed, f + 9 bits at f + 17
    e = near(E, f + 17 - H)       signed, H - 8 bits at H
    x = near(e, 8)                signed, H - 16 bits at H - 8
    z = e + near(x x, H - 16)     signed, H - 8 bits at H
    y = near((Y << H) + Y z, H + 17 - F)
    result = y or -y, by the sign of A; 1 is the largest number of `out`, if it does not hold 1.

A rounded down to the power of two below its range (-2 at f) is why M may be 2^(f + 1). For A = 0
the result is 1 (or that largest number). The largest errors, in last places of the result, against
the exact result for the rounded operand: sine and cosine 0.95 for F up to 26, 1.6 for F up to 30,
2.1 for 31; reciprocals 0.75, 1.6 and 2.6.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed.formats import Format
from featherlane.errors import CompileError
from featherlane.scalar import sine_cosine as exact_sine_cosine

INDEX = 9  # bits of the index of both tables
SEED = 17  # bits of the entries of the reciprocals' table, after the point
LINEAR = 17  # up to so many bits after the point a sine needs no second-order term: 2^-19.7
TURN_BITS = 48  # bits of the largest factor that converts radians to quarter turns
Integers = Any  # an array of int64


@cache
def sine_table(fraction: int) -> tuple[int, ...]:
    """sin(pi/2 (i + 1/2) / 512) for i = 0 ... 511, at so many bits after the point; below 1. The
    cosine of entry i is entry 511 - i.
    """
    count, most = 1 << INDEX, (1 << fraction) - 1
    angles = [math.pi / 2 * (i + 0.5) / count for i in range(count)]
    return tuple([min(round(exact_sine_cosine(x)[0] * 2**fraction), most) for x in angles])


@cache
def reciprocal_table() -> tuple[int, ...]:
    """1 / (1 + (i + 1/2) / 512) for i = 0 ... 511, at 17 bits after the point."""
    count = 1 << INDEX
    return tuple([round(2 ** (SEED + 1) * count / (2 * count + 2 * i + 1)) for i in range(count)])


class SineCosine(NamedTuple):
    """The numbers of a unit for sine and cosine, in capitals in the docstring of the module."""

    phase: int
    turn: int
    shift: int
    g: int
    arc: int
    arc_shift: int
    second: bool

    @classmethod
    def of(cls, angle: Format, out: Format) -> SineCosine:
        """Returns the numbers for these formats. Raises CompileError for a result that cannot be
        -1 or almost 1, and for angles too large for their precision.
        """
        _check_result("sine and cosine", out)
        basis = max(out.fraction, 10)
        phase, g = basis + 3, basis + 3
        fraction = max(angle.width - angle.fraction + phase - 1, 2)
        if fraction > TURN_BITS:
            most = 1 << max(TURN_BITS - phase, 0)
            raise CompileError(
                f"sine of {angle} to {out}: 2/pi needs {fraction} bits, wanted {TURN_BITS} at "
                f"most; give joints ranges of angles below {most:,} rad"
            )
        turn = round(2 / math.pi * 2**fraction)
        shift = angle.fraction + fraction - phase
        arc_fraction = g - 8
        arc = round(math.pi / 2 * 2**arc_fraction)
        second = out.fraction > LINEAR
        return cls(phase, turn, shift, g, arc, arc_fraction + phase - g, second)


class Reciprocal(NamedTuple):
    """The number of a unit for reciprocals, H in the docstring of the module."""

    h: int

    @classmethod
    def of(cls, operand: Format, out: Format) -> Reciprocal:
        """Returns the number for these formats. Raises CompileError for an operand that cannot be
        1 to almost 2, and a result that cannot be almost 1.
        """
        _check_result("a reciprocal", out)
        if not 0 <= operand.fraction <= operand.width - 2:
            raise CompileError(
                f"reciprocal of {operand}: the format cannot hold numbers from 1 to 2"
            )
        return cls(min(max(out.fraction, 14) + 3, operand.fraction + SEED))


def _check_result(what: str, out: Format) -> None:
    if out.fraction >= out.width:
        raise CompileError(f"{what} to {out}: the format cannot hold numbers from -1 to 1")


def near(x: Integers, shift: int) -> Integers:
    """x / 2^shift to the nearest integer, halves upwards."""
    return (x + (1 << shift - 1)) >> shift if shift else x


def _near_product(a: Integers, b: int, shift: int) -> Integers:
    """near(a b, shift) for a of 32 bits and b of 48 bits or less: the product has 80 bits, so it is
    computed in two parts of int64.
    """
    if shift < 16:
        return near(a * b, shift)
    low = (a * (b & 0xFFFF) + (1 << shift - 1)) >> 16
    return (a * (b >> 16) + low) >> shift - 16


def sine_cosine(a: Integers, angle: Format, out: Format) -> tuple[Integers, Integers]:
    """The sine and cosine of angles in radians, as integers of the format `out`.

    a: integers of the format `angle`.
    """
    n = SineCosine.of(angle, out)
    u = _near_product(np.asarray(a, np.int64), n.turn, n.shift)
    rest = n.phase - INDEX
    k, i = u >> n.phase & 3, u >> rest & (1 << INDEX) - 1
    d = (u & (1 << rest) - 1) - (1 << rest - 1)
    table = np.array(sine_table(n.g))
    s, c = table[i], table[~i]
    x = near(d * n.arc, n.arc_shift)
    sine = s + near((c >> 8) * x, n.g - 8)
    cosine = c - near((s >> 8) * x, n.g - 8)
    if n.second:
        half = near((x >> 8) ** 2, n.g - 15)
        sine -= near((s >> 18) * half, n.g - 18)
        cosine -= near((c >> 18) * half, n.g - 18)
    sine, cosine = near(sine, n.g - out.fraction), near(cosine, n.g - out.fraction)
    swapped = k & 1 == 1
    first, second = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    first = np.where(k >= 2, -first, first)
    second = np.where((k == 1) | (k == 2), -second, second)
    return np.minimum(first, out.most), np.minimum(second, out.most)


def reciprocal(a: Integers, operand: Format, out: Format) -> Integers:
    """1 / a for normalised a, 1 <= |a| < 2, as integers of the format `out`.

    a: integers of the format `operand`.
    """
    h, f = Reciprocal.of(operand, out).h, operand.fraction
    a = np.asarray(a, np.int64)
    m, ones = np.abs(a), (1 << f) - 1
    j = np.where(m >> f + 1 != 0, ones, m & ones)
    i = j >> f - INDEX if f >= INDEX else j << INDEX - f
    seed = np.array(reciprocal_table())[i]
    error = (1 << f + SEED) - (j + (1 << f)) * seed
    e = near(error, f + SEED - h)
    z = e + near(near(e, 8) ** 2, h - 16)
    y = near((seed << h) + seed * z, h + SEED - out.fraction)
    return np.minimum(np.where(a < 0, -y, y), out.most)
