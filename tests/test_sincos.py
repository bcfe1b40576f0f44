"""The expanded sine and cosine against numbers of higher precision."""

import math

import mpmath
import numpy as np
import pytest

from featherlane.backends.reference import evaluate
from featherlane.program.expansions.sincos import FUSED, UNFUSED
from featherlane.program.passes.expand import expand
from featherlane.program.passes.fma import unfuse
from featherlane.program.trace import trace

ULP = 1.6  # what the module promises
DTYPES = [np.float64, np.float32]


def graph(dtype, fused=True):
    made = trace(lambda x: {"sin": x.sin(), "cos": x.cos()}, {"x": ()})
    return expand(made, dtype) if fused else unfuse(expand(made, dtype, fused=False))


def compute(x, dtype, fused=True):
    x = np.asarray(x, dtype)
    return evaluate(graph(dtype, fused), {"x": x}, dtype)


def exact(function, x, got):
    """The exact value at each x rounded to float64, and the error of what was got, in mpmath."""
    with mpmath.workprec(140):
        values = [getattr(mpmath, function)(mpmath.mpf(float(a))) for a in x]
        errors = [abs(mpmath.mpf(float(g)) - v) for g, v in zip(got, values, strict=True)]
        return np.array([float(v) for v in values]), np.array([float(e) for e in errors])


def worst(x, dtype, fused=True):
    """The largest error of sine and cosine, in units in the last place."""
    x = np.asarray(x, dtype)
    errors = []
    for function, got in compute(x, dtype, fused).items():
        value, error = exact(function, x, got)
        errors.append(np.max(error / np.spacing(np.abs(value).astype(dtype))))
    return max(errors)


def around(centres, steps, dtype):
    """The floats nearest to each centre and `steps` of them to each side."""
    x = np.asarray(centres, dtype)
    return np.concatenate([x + n * np.spacing(x) for n in range(-steps, steps + 1)]).astype(dtype)


def hardest(bits, limit):
    """Numbers of so many bits, below a limit, very near to a multiple of pi/2.

    By continued fractions: Muller et al., Handbook of Floating-Point Arithmetic, 2018, chapter 10.
    """
    numbers = set()
    for exponent in range(-bits - 2, 0):
        with mpmath.workprec(400):
            rest = mpmath.pi / 2 / mpmath.mpf(2) ** exponent
        (p, q), (p1, q1) = (1, 0), (int(rest), 1)
        while p1 < 2**bits:
            if q1 and p1 * 2.0**exponent < limit:
                numbers.add(p1 * 2.0**exponent)
            with mpmath.workprec(400):
                rest = 1 / (rest - int(rest))
            (p, q), (p1, q1) = (p1, q1), (int(rest) * p1 + p, int(rest) * q1 + q)
    return sorted(x for x in numbers if x > 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_next_to_every_multiple_of_half_pi(dtype):
    with mpmath.workprec(200):
        multiples = [float(k * mpmath.pi / 2) for k in range(1, 6401)]
    assert worst(around(multiples, 1, dtype), dtype) < ULP


@pytest.mark.parametrize("dtype", DTYPES)
def test_next_to_where_the_quadrant_changes(dtype):
    with mpmath.workprec(200):
        changes = [float((2 * k + 1) * mpmath.pi / 4) for k in range(0, 6400, 7)]
    assert worst(around(changes, 2, dtype), dtype) < ULP


@pytest.mark.parametrize("dtype", DTYPES)
def test_hardest_arguments_up_to_the_limit(dtype):
    numbers = FUSED[np.dtype(dtype)]
    bits = np.finfo(dtype).nmant + 1
    x = hardest(bits, numbers.limit)
    assert len(x) > 100
    assert worst(x, dtype) < ULP


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_fused_multiply_adds(dtype):
    """Up to a smaller limit errors are hardly larger; beyond it, the result is NaN."""
    limit, bits = UNFUSED[np.dtype(dtype)].limit, np.finfo(dtype).nmant + 1
    with mpmath.workprec(200):
        quarters = [float(k * mpmath.pi / 4) for k in range(1, 5200, 5)]
    anywhere = np.random.default_rng(5).uniform(-limit, limit, 1000)
    for x in (around(quarters, 1, dtype), hardest(bits, limit), anywhere):
        assert worst(x, dtype, fused=False) < 1.7
    beyond = compute([limit, -2 * limit, np.inf, np.nan], dtype, fused=False)
    assert np.isnan([*beyond.values()]).all()
    assert not {"fma", "sin", "cos"} & {*graph(dtype, fused=False).op}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [math.pi / 4, 1.7, 1e2, 1e4])
def test_anywhere(dtype, largest):
    x = np.random.default_rng(5).uniform(-largest, largest, 2000)
    assert worst(x, dtype) < ULP


def test_many_floats_against_double():
    numbers = np.random.default_rng(6).integers(0, np.float32(2**16).view(np.int32), 200_000)
    x = numbers.astype(np.int32).view(np.float32)
    got = compute(x, np.float32)
    for function in ("sin", "cos"):
        value = getattr(np, function)(x.astype(np.float64))
        assert np.max(np.abs(got[function] - value) / np.spacing(np.abs(value, dtype="f4"))) < ULP


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_arguments_are_their_own_sine(dtype):
    x = np.array([0.0, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny, 1e-20], dtype)
    got = compute(x, dtype)
    assert np.array_equal(got["sin"], x)
    assert np.array_equal(got["cos"], np.ones_like(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetry_to_the_bit(dtype):
    x = np.random.default_rng(7).uniform(0, 1e4, 1000).astype(dtype)
    plus, minus = compute(x, dtype), compute(-x, dtype)
    assert np.array_equal(plus["sin"], -minus["sin"])
    assert np.array_equal(plus["cos"], minus["cos"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_beyond_the_limit_is_nan(dtype):
    limit = dtype(FUSED[np.dtype(dtype)].limit)
    with np.errstate(over="ignore"):
        x = np.array([limit, 2 * limit, np.finfo(dtype).max, np.inf, np.nan], dtype)
    x = np.concatenate([x, -x])
    for got in compute(x, dtype).values():
        assert np.isnan(got).all()
    below = np.nextafter(limit, dtype(0))
    assert worst([below, -below], dtype) < ULP


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_are_exact_in_the_type(dtype):
    g = graph(dtype)
    constants = [v for op, v in zip(g.op, g.value, strict=True) if op == "constant" and v != "nan"]
    assert all(float(dtype(v)) == v for v in constants)


@pytest.mark.parametrize(("dtype", "fma"), [(np.float64, 15), (np.float32, 9)])
def test_sine_and_cosine_share_all_but_the_last_operation(dtype, fma):
    both = graph(dtype).cost().kinds
    assert both == {"mul": 3, "fma": fma, "select": 5}
    alone = expand(trace(lambda x: x.sin(), {"x": ()}), dtype).cost().kinds
    assert both - alone == {"select": 1}


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="float16: wanted float64 or float32"):
        graph(np.float16)
