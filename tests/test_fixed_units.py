"""Units for sine, cosine and reciprocals: their largest errors, and their widths."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.units import (
    Reciprocal,
    SineCosine,
    reciprocal,
    reciprocal_table,
    sine_cosine,
    sine_table,
)
from featherlane.errors import CompileError
from featherlane.scalar import sine_cosine as exact_sine_cosine

ANGLES = [  # formats of angles and of their sines, and the largest error in last places
    (Format(18, 14), Format(18, 17), 0.95),
    (Format(18, 14), Format(18, 16), 0.95),
    (Format(27, 24), Format(18, 17), 0.95),
    (Format(27, 24), Format(27, 25), 0.95),
    (Format(32, 16), Format(32, 16), 0.95),
    (Format(20, 19), Format(20, 18), 0.95),
    (Format(12, 4), Format(8, 4), 0.95),
    (Format(32, 29), Format(32, 30), 1.6),
    (Format(32, 16), Format(32, 30), 1.6),
    (Format(32, 28), Format(32, 31), 2.1),
]
DIVISORS = [
    (Format(18, 16), Format(18, 16), 0.75),
    (Format(18, 16), Format(18, 17), 0.75),
    (Format(27, 25), Format(27, 25), 0.75),
    (Format(27, 25), Format(27, 26), 0.75),
    (Format(32, 16), Format(32, 16), 0.75),
    (Format(8, 4), Format(18, 17), 0.75),
    (Format(18, 16), Format(32, 30), 1.6),
    (Format(32, 30), Format(32, 30), 1.6),
    (Format(32, 30), Format(32, 31), 2.6),
]


def dense(least, end, count=1 << 18):
    """Integers from least to before the end: all, or some in each part of the range."""
    if end - least <= count:
        return np.arange(least, end)
    edges = np.linspace(least, end - 1, count).astype(np.int64)
    inside = np.random.default_rng(0).integers(0, max((end - least) // count, 1), count - 1)
    return np.concatenate([edges, edges[:-1] + inside])


@pytest.mark.parametrize(("given", "out", "most"), ANGLES)
def test_sines_and_cosines(given, out, most):
    a = dense(given.least, given.most + 1)
    x = a * given.step  # exact; NumPy's sine is within 2^-52 of its own
    for found, exact in zip(sine_cosine(a, given, out), (np.sin(x), np.cos(x)), strict=True):
        assert found.min() >= out.least
        assert found.max() <= out.most
        assert np.abs(found - np.minimum(exact / out.step, out.most)).max() <= most


@pytest.mark.parametrize(("given", "out", "most"), DIVISORS)
def test_reciprocals(given, out, most):
    one = 1 << given.fraction
    a = dense(one, 2 * one)
    found = reciprocal(a, given, out)
    exact = np.minimum(2.0 ** (given.fraction + out.fraction) / a, out.most)
    assert np.abs(found - exact).max() <= most
    wanted = np.where(found == out.most, -reciprocal(a, given, Format(33, out.fraction)), -found)
    assert_array_equal(reciprocal(-a, given, out), wanted)


def test_divisors_that_were_rounded_to_two_and_none():
    form = Format(20, 18)
    found = reciprocal(np.array([-(1 << 19), (1 << 19) - 1, 1 << 18, 0]), form, form)
    assert_array_equal(found, [-(1 << 17), 1 << 17, 1 << 18, 1 << 18])
    assert reciprocal(1 << 18, form, Format(20, 19)) == (1 << 19) - 1  # which holds no 1


def near(x, shift):
    return math.floor(x / Fraction(2) ** shift + (Fraction(1, 2) if shift else 0))


def fits(x, bits, signed=True):
    assert -(1 << bits - 1) <= x < 1 << bits - 1 if signed else 0 <= x < 1 << bits
    return x


def sine_of(a, given, out):
    """Sine and cosine of one angle by the module's docstring, in exact arithmetic, with a check of
    each width.
    """
    n = SineCosine.of(given, out)
    g, rest, table = n.g, n.phase - 9, sine_table(n.g)
    u = near(Fraction(a * n.turn), n.shift) % (1 << n.phase + 2)
    k, i, e = u >> n.phase, (u >> rest) % 512, u % (1 << rest)
    s, c = table[i], table[511 - i]
    d = fits(e - (1 << n.phase - 10), n.phase - 9)
    x = fits(near(d * fits(n.arc, g - 7, False), n.arc_shift), g - 8)
    sine = s + fits(near(fits(c >> 8, g - 8, False) * x, g - 8), g - 8)
    cosine = c - fits(near(fits(s >> 8, g - 8, False) * x, g - 8), g - 8)
    if n.second:
        q = fits(near(fits(x >> 8, g - 16) ** 2, g - 15), g - 19, False)
        sine -= near(fits(s >> 18, g - 18, False) * q, g - 18)
        cosine -= near(fits(c >> 18, g - 18, False) * q, g - 18)
    s, c = (near(fits(y, g + 2), g - out.fraction) for y in (sine, cosine))
    both = ((s, c), (c, -s), (-s, -c), (-c, s))[k]
    return [min(y, out.most) for y in both]


def reciprocal_of(a, given, out):
    """The reciprocal of one number by the module's docstring, in exact arithmetic."""
    h, f = Reciprocal.of(given, out).h, given.fraction
    j = (1 << f) - 1 if abs(a) >= 1 << f + 1 else abs(a) % (1 << f)
    y = fits(reciprocal_table()[(j << 9) >> f], 17, False)
    e = fits((1 << f + 17) - ((1 << f) + j) * y, f + 9)
    e = fits(near(e, f + 17 - h), h - 8)
    z = fits(e + near(fits(near(e, 8), h - 16) ** 2, h - 16), h - 8)
    result = near((y << h) + y * z, h + 17 - out.fraction)
    return min(-result if a < 0 else result, out.most)


@pytest.mark.parametrize(("given", "out"), [case[:2] for case in ANGLES])
def test_sines_are_computed_as_the_page_says(given, out):
    a = dense(given.least, given.most + 1, 1 << 8)
    found = np.transpose(sine_cosine(a, given, out))
    assert_array_equal(found, [sine_of(int(x), given, out) for x in a])


@pytest.mark.parametrize(("given", "out"), [case[:2] for case in DIVISORS])
def test_reciprocals_are_computed_as_the_page_says(given, out):
    one = 1 << given.fraction
    a = np.concatenate([dense(one, 2 * one, 1 << 8), -dense(one, 2 * one, 1 << 8), [-2 * one, 0]])
    assert_array_equal(reciprocal(a, given, out), [reciprocal_of(int(x), given, out) for x in a])


def test_tables():
    for i, entry in enumerate(sine_table(30)):
        assert abs(entry - exact_sine_cosine(math.pi / 2 * (i + 0.5) / 512)[0] * 2**30) <= 0.51
    assert max(sine_table(13)) < 1 << 13
    for i, entry in enumerate(reciprocal_table()):
        assert abs(entry - Fraction(2**17) / (1 + (i + Fraction(1, 2)) / 512)) <= Fraction(1, 2)


@pytest.mark.parametrize(
    ("of", "given", "out", "message"),
    [
        (SineCosine.of, Format(32, 0), Format(32, 30), "2/pi needs 64 bits, wanted 48 at most"),
        (SineCosine.of, Format(32, 16), Format(18, 18), "cannot hold numbers from -1 to 1"),
        (Reciprocal.of, Format(18, 17), Format(18, 16), "cannot hold numbers from 1 to 2"),
        (Reciprocal.of, Format(18, 16), Format(18, 18), "cannot hold numbers from -1 to 1"),
    ],
)
def test_formats_without_a_unit(of, given, out, message):
    with pytest.raises(CompileError, match=message):
        of(given, out)
