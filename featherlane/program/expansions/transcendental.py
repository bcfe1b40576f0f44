"""Exponentials, logarithms and inverse trigonometric functions as arithmetic.

As for sine and cosine (`sincos`), each is a reduction to a short interval and a polynomial there,
so that it fills vector lanes like all else and has the same bits on every backend. The
exponent of a number is read by `exponent` and set by `power_of_two`; results are selected, not
branched to. The methods are those of Muller, Elementary Functions, 3rd edition, 2016, chapters 5
and 6; the logarithm's is that of fdlibm. Errors and special values: docs/traces.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from featherlane.program.derivatives.rules import Graph

Form = tuple[np.dtype, bool]  # a floating-point type, and whether a fused multiply-add is one
Coefficients = tuple[float, ...]  # from the lowest


class Numbers(NamedTuple):
    """The numbers of one floating-point type, each of them exact in it. A pair is a rounded number
    and the rest of it.
    """

    log2_e: float
    ln2: tuple[float, float]
    half_pi: tuple[float, float]
    quarter_pi: tuple[float, float]
    exp: Coefficients  # e^r - 1 = r + r r (exp[0] + exp[1] r + ...), |r| <= ln 2 / 2
    log: Coefficients  # log((1 + s) / (1 - s)) = 2 s + s z (log[0] + log[1] z + ...), z = s s
    atan: Coefficients  # atan t = t + t z (atan[0] + atan[1] z + ...), z = t t, |t| <= tan(pi/8)
    asin: Coefficients  # asin s = s + s z (asin[0] + asin[1] z + ...), z = s s, |s| <= 1/2
    bounds: tuple[float, float]  # below and above: e^x rounds to 0, or is infinite
    one: float  # beyond it, tanh x rounds to 1 and 1 - e^-x too
    scale: float  # a power of two: the product with a subnormal number is none
    large: float  # a power of two: half of the largest exponent, about


# Fits of least squares at 40 Chebyshev nodes, in 300 bits, with the error of the function's result
# as weight; coefficients were rounded one by one from the lowest, the others fitted again each
# time. Largest relative errors of the function, float64 and float32: exp 2^-63 and 2^-28, log
# 2^-59 and 2^-35, atan 2^-64 and 2^-30, asin 2^-60 and 2^-31.
FUSED: dict[np.dtype, Numbers] = {
    np.dtype(np.float64): Numbers(
        log2_e=1.4426950408889634,
        ln2=(0.6931471805599453, 2.3190468138462996e-17),
        half_pi=(1.5707963267948966, 6.123233995736766e-17),
        quarter_pi=(0.7853981633974483, 3.061616997868383e-17),
        exp=(
            0.5,
            0.16666666666666685,
            0.04166666666666652,
            0.00833333333331594,
            0.0013888888888971824,
            0.00019841269898740937,
            2.4801587148106544e-05,
            2.7557232748051676e-06,
            2.7557423202042284e-07,
            2.511271282730389e-08,
            2.0869574735277285e-09,
        ),
        log=(
            0.6666666666666737,
            0.3999999999939863,
            0.28571428745551214,
            0.22222198273544116,
            0.1818357906686337,
            0.1531368752092411,
            0.14799487338447104,
        ),
        atan=(
            -0.33333333333333326,
            0.19999999999997248,
            -0.1428571428534593,
            0.11111111085986529,
            -0.09090908076361313,
            0.07692281400148648,
            -0.06666208785559587,
            0.058768621463498434,
            -0.05217462679392563,
            0.04500011832970659,
            -0.03339784948645756,
            0.01512236417602945,
        ),
        asin=(
            0.1666666666666676,
            0.07499999999971095,
            0.044642857174224136,
            0.03038194272950777,
            0.022372214318213676,
            0.017351624732641444,
            0.013980662389073067,
            0.011400238094136402,
            0.01077270078341017,
            0.0037352343200085705,
            0.021636856974466507,
            -0.020898809490814328,
            0.03256583927490458,
        ),
        bounds=(-746.0, 710.0),
        one=40.0,
        scale=2.0**54,
        large=2.0**500,
    ),
    np.dtype(np.float32): Numbers(
        log2_e=1.4426950216293335,
        ln2=(0.6931471824645996, -1.9046542121259336e-09),
        half_pi=(1.5707963705062866, -4.371138828673793e-08),
        quarter_pi=(0.7853981852531433, -2.1855694143368964e-08),
        exp=(
            0.49999988079071045,
            0.16666516661643982,
            0.041669633239507675,
            0.008369115181267262,
            0.0013747054617851973,
        ),
        log=(
            0.6666666269302368,
            0.40000849962234497,
            0.28510144352912903,
            0.2402908056974411,
        ),
        atan=(
            -0.3333331346511841,
            0.1999838799238205,
            -0.1424219310283661,
            0.10585052520036697,
            -0.060580864548683167,
        ),
        asin=(
            0.16666659712791443,
            0.07500515133142471,
            0.04451543092727661,
            0.03181745857000351,
            0.01440940611064434,
            0.03754977136850357,
        ),
        bounds=(-104.0, 89.0),
        one=20.0,
        scale=2.0**25,
        large=2.0**60,
    ),
}

# Without fused multiply-adds: k times the first part of ln 2 is exact, for every exponent k
UNFUSED: dict[np.dtype, Numbers] = {
    np.dtype(np.float64): FUSED[np.dtype(np.float64)]._replace(
        ln2=(0.6931471805598903, 5.497923018708371e-14)
    ),
    np.dtype(np.float32): FUSED[np.dtype(np.float32)]._replace(
        ln2=(0.693145751953125, 1.428606765330187e-06)
    ),
}


NUMBERS: dict[Form, Numbers] = {
    **{(dtype, True): numbers for dtype, numbers in FUSED.items()},
    **{(dtype, False): numbers for dtype, numbers in UNFUSED.items()},
}


# Exponentials: x = k ln 2 + r


def _reduced(g: Graph, form: Form, x: int) -> tuple[int, int]:
    """The integer k next to x / ln 2, and e^r - 1 for r = x - k ln 2."""
    n = NUMBERS[form]
    k = g.round(g.mul(x, g.constant(n.log2_e)))
    r = x
    for part in n.ln2:
        r = g.fma(k, g.constant(-part), r)
    return k, g.fma(g.mul(r, r), polynomial(g, r, n.exp), r)


def exp(g: Graph, form: Form, x: int) -> int:
    """2^k e^r, by two powers of two: one could be too large, or subnormal, for its exponent."""
    low, high = NUMBERS[form].bounds
    k, more = _reduced(g, form, _at_least(g, low, _at_most(g, high, x)))
    half = g.round(g.mul(k, g.constant(0.5)))
    value = g.add(more, g.constant(1.0))
    for part in (half, g.sub(k, half)):
        value = g.mul(value, g.power_of_two(part))
    return value


def expm1(g: Graph, form: Form, x: int) -> int:
    """2^k (e^r - 1) + (2^k - 1); the power is halved where it would be infinite."""
    high = NUMBERS[form].bounds[1]
    k, more = _reduced(g, form, _at_least(g, -NUMBERS[form].one, _at_most(g, high, x)))
    halved = g.less(g.constant(100.0), k)
    one, two = g.constant(1.0), g.constant(2.0)
    power = g.power_of_two(g.sub(k, g.select(halved, one, g.constant(0.0))))
    unit = g.select(halved, g.constant(0.5), one)
    value = g.fma(power, more, g.sub(power, unit))
    return g.copysign(g.mul(value, g.select(halved, two, one)), x)


def tanh(g: Graph, form: Form, x: int) -> int:
    """E / (E + 2) with E = e^2|x| - 1."""
    size = _at_most(g, NUMBERS[form].one / 2, g.abs(x))
    k, more = _reduced(g, form, g.add(size, size))
    power = g.power_of_two(k)
    E = g.fma(power, more, g.sub(power, g.constant(1.0)))
    return g.copysign(g.div(E, g.add(E, g.constant(2.0))), x)


# Logarithms: x = 2^k m with m next to 1, and s = (m - 1) / (m + 1)


def _logarithm(g: Graph, form: Form, x: int, error: int) -> int:
    """log x + error, for 0 < x < infinity."""
    n = NUMBERS[form]
    one, half = g.constant(1.0), g.constant(0.5)
    small = g.less(x, one)
    scaled = g.mul(x, g.select(small, g.constant(n.scale), half))  # a normal number, no largest
    e = g.exponent(scaled)
    m = g.mul(scaled, g.power_of_two(g.neg(e)))  # 1 <= m < 2
    high = g.less(g.constant(math.sqrt(2)), m)
    m = g.select(high, g.mul(m, half), m)
    e = g.add(e, g.select(small, g.constant(-math.log2(n.scale)), one))
    k = g.add(e, g.select(high, one, g.constant(0.0)))
    f = g.sub(m, one)
    s = g.div(f, g.add(f, g.constant(2.0)))
    z, square = g.mul(s, s), g.mul(g.mul(half, f), f)
    rest = g.fma(z, polynomial(g, z, n.log), square)
    low = g.fma(s, rest, g.fma(k, g.constant(n.ln2[1]), error))
    return g.fma(k, g.constant(n.ln2[0]), g.sub(f, g.sub(square, low)))


def _with_ends(g: Graph, form: Form, x: int, value: int) -> int:
    """The logarithm of x, from its value for positive numbers: NaN, -infinity or infinity
    else.
    """
    zero, infinity = g.constant(0.0), g.constant(math.inf)
    below = g.select(g.less(x, zero), g.constant(math.nan), g.constant(-math.inf))
    above = g.select(g.less(x, infinity), value, x)
    return g.select(g.less_equal(x, zero), below, above)


def log(g: Graph, form: Form, x: int) -> int:
    return _with_ends(g, form, x, _logarithm(g, form, x, g.constant(0.0)))


def log1p(g: Graph, form: Form, x: int) -> int:
    """The logarithm of the rounded sum, and the sum's rounding error divided by it."""
    one = g.constant(1.0)
    total = g.add(one, x)
    part = g.sub(total, one)
    error = g.add(g.sub(one, g.sub(total, part)), g.sub(x, part))
    value = _logarithm(g, form, total, g.div(error, total))
    return g.copysign(_with_ends(g, form, total, value), x)


# Arcs


def _arc(g: Graph, form: Form, x: int) -> tuple[int, int, int]:
    """Whether |x| > 1/2; then the root s of (1 - |x|) / 2, else s = |x|; and asin s - s."""
    size, half = g.abs(x), g.constant(0.5)
    outer = g.less(half, size)
    z = g.select(outer, g.fma(g.constant(-0.5), size, half), g.mul(size, size))
    s = g.select(outer, g.sqrt(z), size)
    return outer, s, g.mul(s, g.mul(z, polynomial(g, z, NUMBERS[form].asin)))


def asin(g: Graph, form: Form, x: int) -> int:
    """asin |x| = asin s, or pi/2 - 2 asin s."""
    outer, s, more = _arc(g, form, x)
    high, low = NUMBERS[form].half_pi
    rest = g.fma(g.constant(-2.0), more, g.constant(low))
    far = g.fma(g.constant(-2.0), s, g.constant(high))
    return g.copysign(g.select(outer, g.add(far, rest), g.add(s, more)), x)


def acos(g: Graph, form: Form, x: int) -> int:
    """2 asin s, or pi minus it for a negative x; pi/2 - asin x inside."""
    outer, s, more = _arc(g, form, x)
    two, (high, low) = g.constant(2.0), NUMBERS[form].half_pi
    near = g.mul(two, g.add(s, more))
    rest = g.fma(g.constant(-2.0), more, g.constant(2.0 * low))
    far = g.add(g.fma(g.constant(-2.0), s, g.constant(2.0 * high)), rest)
    inside = g.sub(g.constant(low), g.copysign(more, x))
    inside = g.add(g.sub(g.constant(high), x), inside)
    return g.select(outer, g.select(g.less(x, g.constant(0.0)), far, near), inside)


def atan2(g: Graph, form: Form, y: int, x: int) -> int:
    """n pi/4 + sign atan t, where t is the smaller of |x| and |y| by the larger, rotated by pi/4
    if it is above tan(pi/8).
    """
    zero, one, a, b = g.constant(0.0), g.constant(1.0), g.abs(y), g.abs(x)
    flat = g.less_equal(a, b)
    least, most = _in_range(g, form, g.select(flat, a, b), g.select(flat, b, a))
    turned = g.less(g.mul(most, g.constant(math.sqrt(2) - 1)), least)
    t = g.div(
        g.select(turned, g.sub(least, most), least), g.select(turned, g.add(least, most), most)
    )
    z = g.mul(t, t)
    angle = g.fma(g.mul(t, z), polynomial(g, z, NUMBERS[form].atan), t)
    n = g.select(turned, one, zero)
    steep, back = g.sub(g.constant(2.0), n), g.less(g.copysign(one, x), zero)
    n, angle = g.select(flat, n, steep), g.select(flat, angle, g.neg(angle))
    n = g.select(back, g.sub(g.constant(4.0), n), n)
    angle = g.select(back, g.neg(angle), angle)
    high, low = (g.constant(part) for part in NUMBERS[form].quarter_pi)
    whole = g.copysign(g.fma(n, high, g.fma(n, low, angle)), y)
    ordered = g.less_equal(g.select(flat, a, b), g.select(flat, b, a))
    return g.select(ordered, whole, g.constant(math.nan))  # if one is NaN


def _in_range(g: Graph, form: Form, least: int, most: int) -> tuple[int, int]:
    """Two numbers with the same quotient whose sum is finite and of which the larger is not 0.
    Infinities count as equal and as infinitely larger than others.
    """
    zero, one, large = g.constant(0.0), g.constant(1.0), NUMBERS[form].large
    scale = g.select(g.less(g.constant(large), most), g.constant(1 / large), one)
    infinity = g.constant(math.inf)
    both = g.select(g.less_equal(infinity, least), one, zero)
    endless = g.less_equal(infinity, most)
    least = g.select(endless, both, g.mul(least, scale))
    most = g.select(endless, one, g.mul(most, scale))
    return least, g.select(g.less_equal(most, zero), one, most)


def polynomial(g: Graph, z: int, coefficients: Coefficients) -> int:
    """Horner's scheme, from the lowest coefficient."""
    *rest, value = (g.constant(c) for c in coefficients)
    for c in reversed(rest):
        value = g.fma(z, value, c)
    return value


def _at_most(g: Graph, bound: float, x: int) -> int:
    """The smaller of a bound and x; NaN stays NaN."""
    return g.select(g.less(g.constant(bound), x), g.constant(bound), x)


def _at_least(g: Graph, bound: float, x: int) -> int:
    return g.select(g.less(x, g.constant(bound)), g.constant(bound), x)
