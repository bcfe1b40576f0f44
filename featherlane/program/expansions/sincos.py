"""Sine and cosine as additions and multiplications, so that they fill vector lanes like all else.

x = k pi/2 + r with the integer k next to x 2/pi, then a polynomial in r each for sine and cosine,
and k modulo 4 says which of sin r, cos r, -sin r, -cos r is wanted (Cody and Waite, Software Manual
for the Elementary Functions, 1980, chapter 8). With fused multiply-adds pi/2 need not be cut into
short parts (Muller et al., Handbook of Floating-Point Arithmetic, 2nd edition, 2018, chapter 10):
with P1 = pi/2 rounded, x - k P1 is below 1 and a multiple of an ulp of the least of x and P1, hence
exact, and each further part is subtracted with one rounding.

The largest measured errors, in units in the last place, next to multiples of pi/2 too: float64,
1.53 for |x| < 2^40; float32, of all there are, 1.56 for |x| < 2^15 and 1.60 for |x| < 2^16. Larger
arguments, infinities and NaN give NaN: never a wrong number.

Without fused multiply-adds (`UNFUSED`) pi/2 is cut into parts so short that k times each but the
last is exact, for |x| below 2^20 (float64) or 2^13 (float32). The largest measured errors are 1.59
and 1.68 units in the last place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from featherlane.program.derivatives.rules import Graph
from featherlane.program.expansions.transcendental import Form, polynomial


class Reduction(NamedTuple):
    """The numbers of one floating-point type, each of them exact in it."""

    limit: float  # |x| below it is reduced to full relative accuracy
    two_over_pi: float
    half_pi: tuple[float, ...]  # parts whose sum is pi/2
    sine: tuple[float, ...]  # sin r = r + r z (sine[0] + sine[1] z + ...), z = r r
    cosine: tuple[float, ...]  # cos r = 1 + z (cosine[0] + cosine[1] z + ...)


# Minimax on [-pi/4, pi/4] and a little more (Remez exchange in 60 digits; coefficients were rounded
# one by one from the lowest, the others fitted again each time). The sine's relative error counts
# evenly; the cosine's absolute error counts three times as much at pi/4, where the error of r adds
# to it, as at 0. At pi/4 they are 2^-57.9 and 2^-54.7 in float64, 2^-27.8 and 2^-25.4 in float32.
FUSED: dict[np.dtype, Reduction] = {
    np.dtype(np.float64): Reduction(
        limit=2.0**40,
        two_over_pi=0.6366197723675814,
        half_pi=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        sine=(
            -0.1666666666666663,
            0.00833333333332184,
            -0.0001984126982935853,
            2.755731353851598e-06,
            -2.5050734389611083e-08,
            1.5895433312013386e-10,
        ),
        cosine=(
            -0.4999999999999921,
            0.04166666666644709,
            -0.001388888886781725,
            2.4801577805736246e-05,
            -2.755512417109388e-07,
            2.0624405202773834e-09,
        ),
    ),
    np.dtype(np.float32): Reduction(
        limit=2.0**16,
        two_over_pi=0.6366197466850281,
        half_pi=(1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        sine=(-0.16666653752326965, 0.008332106284797192, -0.00019507882825564593),
        cosine=(-0.4999985992908478, 0.04165460169315338, -0.0013578911311924458),
    ),
}

# pi/2 in parts of 33 bits, and of 11 bits; the last part is rounded
UNFUSED: dict[np.dtype, Reduction] = {
    np.dtype(np.float64): FUSED[np.dtype(np.float64)]._replace(
        limit=2.0**20,
        half_pi=(1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
    ),
    np.dtype(np.float32): FUSED[np.dtype(np.float32)]._replace(
        limit=2.0**13,
        half_pi=(
            1.5703125,
            0.0004837512969970703,
            7.549533620476723e-08,
            2.5632829192545614e-12,
            6.123234262925839e-17,
        ),
    ),
}


REDUCTIONS: dict[Form, Reduction] = {
    **{(dtype, True): numbers for dtype, numbers in FUSED.items()},
    **{(dtype, False): numbers for dtype, numbers in UNFUSED.items()},
}


def _reduce(new: Graph, form: Form, x: int) -> tuple[int, int]:
    """The integer k next to x 2/pi and r = x - k pi/2, both NaN unless |x| is below the limit."""
    numbers = REDUCTIONS[form]
    within = new.less(new.abs(x), new.constant(numbers.limit))
    x = new.select(within, x, new.constant(math.nan))
    k = new.round(new.mul(x, new.constant(numbers.two_over_pi)))
    r = x
    for part in numbers.half_pi:
        r = new.fma(k, new.constant(-part), r)
    return k, r


def _quadrant(new: Graph, form: Form, x: int) -> tuple[int, int, int]:
    """The number k of quarter turns of x, and sin r and cos r of the rest r."""
    numbers = REDUCTIONS[form]
    k, r = _reduce(new, form, x)
    z = new.mul(r, r)
    sine = new.fma(new.mul(r, z), polynomial(new, z, numbers.sine), r)
    cosine = new.fma(z, polynomial(new, z, numbers.cosine), new.constant(1.0))
    return k, sine, cosine


# The sine and the cosine of one argument share all but their last operation


def sin(new: Graph, form: Form, x: int) -> int:
    k, s, c = _quadrant(new, form, x)
    return new.quarter(k, s, c)


def cos(new: Graph, form: Form, x: int) -> int:
    k, s, c = _quadrant(new, form, x)
    return new.quarter(k, c, new.neg(s))  # a quarter turn ahead, without computing k + 1
