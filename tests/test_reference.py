"""The interpreter: every operation in both types, exact multiply-adds, wrong inputs."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featherlane.backends.reference import evaluate, values
from featherlane.program.evaluation import fma, quarter
from featherlane.program.graph import Graph, Output
from featherlane.program.op import ARITHMETIC, CONDITIONS
from featherlane.program.trace import trace

DTYPES = [np.float64, np.float32]


def rounded(x, dtype):
    """A fraction rounded to the nearest number of the type, halves to even."""
    info = np.finfo(dtype)
    precision, least = info.nmant + 1, int(info.minexp) - info.nmant
    if not x:
        return dtype(0)
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - precision + 1, least)
    size = round(size / unit) * unit
    size = math.inf if size > Fraction(float(info.max)) else float(size)
    return dtype(size if x > 0 else -size)


def floats(dtype):
    width = 8 * np.dtype(dtype).itemsize
    any_number = st.floats(width=width, allow_nan=False, allow_infinity=False)
    near_one = st.floats(-4, 4, width=width)
    near_least = st.integers(-(2**30), 2**30).map(
        lambda n: float(dtype(n) * np.finfo(dtype).smallest_subnormal)
    )
    return st.one_of(any_number, near_one, near_least)


def same(x, y):
    return x == y and np.signbit(x) == np.signbit(y)


def check_fma(a, b, c, dtype):
    a, b, c = dtype(a), dtype(b), dtype(c)
    got = fma(a, b, c)[()]
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    assert type(got) is dtype
    if exact:
        assert same(got, rounded(exact, dtype))
    else:
        assert same(got, a * b + c)


@given(a=floats(np.float64), b=floats(np.float64), c=floats(np.float64))
@example(1e200, 1e200, -1e308)
@example(1.7e308, 2.0, -1.7e308)
@example(5e-324, 0.5, 0.0)
@example(-5e-324, 0.25, 0.0)
@example(1e-160, 1e-160, 1e-310)
@example(1 + 2**-52, 1 - 2**-52, -1.0)
@example(1 + 2**-52, 1 + 2**-52, 2.0**106)
@example(-0.0, 1.0, -0.0)
def test_fma_is_rounded_once_in_float64(a, b, c):
    check_fma(a, b, c, np.float64)


@given(a=floats(np.float32), b=floats(np.float32), c=floats(np.float32))
@example(1e30, 1e30, -1e38)
@example(1e-30, 1e-30, 1e-45)
@example(1 + 2**-23, 1 + 2**-23, 2.0**-80)
@example(-0.0, 1.0, 0.0)
def test_fma_is_rounded_once_in_float32(a, b, c):
    check_fma(a, b, c, np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_fma_of_nearly_cancelling_terms(dtype, data):
    a, b = (dtype(data.draw(floats(dtype))) for _ in range(2))
    with np.errstate(all="ignore"):
        c = -(a * b)
        c = c + np.spacing(c) * dtype(data.draw(st.integers(-2, 2)))
    if np.isfinite(c):
        check_fma(a, b, c, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fma_of_special_numbers(dtype):
    inf, nan, huge = dtype(np.inf), dtype(np.nan), np.finfo(dtype).max
    assert fma(huge, huge, -inf) == -inf  # the exact product is finite
    assert fma(dtype(1), dtype(1), -inf) == -inf
    assert fma(inf, dtype(-2), huge) == -inf
    for a, b, c in [(inf, dtype(0), dtype(1)), (inf, dtype(1), -inf), (dtype(1), dtype(1), nan)]:
        assert np.isnan(fma(a, b, c))


@pytest.mark.parametrize("dtype", DTYPES)
@given(n=st.integers(-(2**21), 2**21))
def test_quarter_of_every_integer_is_what_two_bits_say(dtype, n):
    s, c = dtype(0.25), dtype(0.75)
    shift = 1.5 * 2.0 ** (52 if dtype is np.float64 else 23)
    k = dtype(n)
    bits = int((k + dtype(shift)).view(np.int64 if dtype is np.float64 else np.int32))
    wanted = (c if bits & 1 else s) * dtype(-1 if bits & 2 else 1)
    got = quarter(k, s, c)[()]
    assert type(got) is dtype
    assert got == wanted == [s, c, -s, -c][n % 4]


@pytest.mark.parametrize("dtype", DTYPES)
def test_quarter_of_zeros_limits_and_what_is_no_number(dtype):
    s, c = dtype(0.25), dtype(0.75)
    most = dtype(2.0 ** (51 if dtype is np.float64 else 22) - 1)
    assert quarter(dtype(-0.0), s, c) == s
    assert quarter(most, s, c) == -c
    assert quarter(-most, s, c) == c
    with np.errstate(invalid="ignore"):
        for k in (np.nan, np.inf, -np.inf):
            assert np.isnan(quarter(dtype(k), s, c))


EXAMPLES = {
    "neg": ([2.5], -2.5),
    "abs": ([-2.5], 2.5),
    "add": ([0.1, 0.2], lambda a, b: a + b),
    "sub": ([0.1, 0.3], lambda a, b: a - b),
    "mul": ([0.1, 0.3], lambda a, b: a * b),
    "fma": ([3.0, 4.0, 5.0], 17.0),
    "div": ([1.0, 3.0], lambda a, b: a / b),
    "sqrt": ([2.0], lambda a: np.sqrt(a)),
    "sin": ([0.5], lambda a: np.sin(a)),
    "cos": ([0.5], lambda a: np.cos(a)),
    "exp": ([0.5], lambda a: np.exp(a)),
    "expm1": ([0.5], lambda a: np.expm1(a)),
    "log": ([0.3], lambda a: np.log(a)),
    "log1p": ([0.3], lambda a: np.log1p(a)),
    "tanh": ([0.3], lambda a: np.tanh(a)),
    "asin": ([0.3], lambda a: np.arcsin(a)),
    "acos": ([0.3], lambda a: np.arccos(a)),
    "atan2": ([0.3, -0.5], lambda a, b: np.arctan2(a, b)),
    "power_of_two": ([-3.0], 0.125),
    "exponent": ([-0.3], -2.0),
    "copysign": ([2.0, -0.0], -2.0),
    "round": ([2.5], 2.0),
    "quarter": ([-1.0, 3.0, 4.0], -4.0),
    "select": ([1.0, 2.0, 3.0, 4.0], 3.0),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", EXAMPLES)
def test_each_operation_stays_in_its_type(op, dtype):
    numbers, wanted = EXAMPLES[op]
    g = Graph()
    k = g.declare("x", (len(numbers),))
    if op == "select":
        k = [g.node("less", k[0], k[1]), *k[2:]]
    g.outputs["out"] = Output((), (g.node(op, *k),))
    got = evaluate(g, {"x": numbers}, dtype)["out"]
    if callable(wanted):
        wanted = wanted(*(dtype(x) for x in numbers))
    assert got.dtype == dtype
    assert got == dtype(wanted)
    assert all(np.asarray(v).dtype in (dtype, bool) for v in values(g, {"x": numbers}, dtype))


def test_every_operation_has_an_example():
    assert EXAMPLES.keys() | CONDITIONS == ARITHMETIC


def body(A, x, s):
    dot = [sum(a * b for a, b in zip(row, x, strict=True)) for row in A]
    return {"y": dot, "one": 1.0, "scaled": [[s * a for a in row] for row in A]}


BODY = trace(body, {"A": (2, 3), "x": 3, "s": ()})


@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_broadcast(dtype):
    rng = np.random.default_rng(0)
    A, x, s = rng.normal(size=(5, 1, 2, 3)), rng.normal(size=(4, 3)), rng.normal()
    A, x, s = (np.asarray(array, dtype) for array in (A, x, s))
    got = evaluate(BODY, {"A": A, "x": x, "s": s}, dtype)
    assert {name: (value.shape, value.dtype) for name, value in got.items()} == {
        "y": ((5, 4, 2), dtype),
        "one": ((5, 4), dtype),
        "scaled": ((5, 4, 2, 3), dtype),
    }
    assert np.allclose(got["y"], (A @ x[..., None])[..., 0], rtol=1e-6)
    assert np.array_equal(got["scaled"], np.broadcast_to(s * A, (5, 4, 2, 3)))
    one = evaluate(BODY, {"A": A[3, 0], "x": x[2], "s": s}, dtype)
    assert np.array_equal(one["y"], got["y"][3, 2])


def test_empty_batches_inputs_and_outputs():
    got = evaluate(BODY, {"A": np.zeros((0, 2, 3)), "x": np.zeros(3), "s": 1})
    assert got["y"].shape == (0, 2)
    g = trace(lambda x, y: {"none": [], "y": y}, {"x": (0, 3), "y": ()})
    got = evaluate(g, {"x": np.zeros((7, 0, 3)), "y": 2.0})
    assert got["none"].shape == (7, 0)
    assert np.array_equal(got["y"], np.full(7, 2.0))
    assert evaluate(trace(lambda: 3.0, {}), {})["out"] == 3.0


def test_values_are_of_every_node():
    g = trace(lambda x: (x + 1.0) * x, {"x": ()})
    assert [float(v) for v in values(g, {"x": 2.0})] == [2.0, 1.0, 3.0, 6.0]


def test_no_warnings_and_no_harm_to_the_inputs():
    g = trace(lambda x: {"a": (x - 2.0).sqrt(), "b": 1.0 / x, "c": x * x}, {"x": ()})
    x = np.array([0.0, 1e300, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = evaluate(g, {"x": x}, np.float32)
    assert np.isnan(got["a"][[0, 2]]).all()
    assert got["b"][0] == np.inf
    assert got["c"][1] == np.inf
    assert x[1] == 1e300


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": None}, ValueError, "input 'x' is missing: the graph takes A, x, s"),
        ({"z": 1.0}, ValueError, "input 'z' is unknown"),
        ({"x": np.zeros(4)}, ValueError, r"input 'x' has shape \(4,\): wanted \(..., 3\)"),
        ({"A": np.zeros(3)}, ValueError, r"input 'A' has shape \(3,\): wanted \(..., 2, 3\)"),
        ({"x": np.zeros((4, 3)), "s": np.zeros(5)}, ValueError, r"do not broadcast: .*'s'"),
        ({"s": 1j}, TypeError, "input 's' holds complex128: wanted real numbers"),
        ({"s": "1"}, TypeError, "wanted real numbers"),
    ],
)
def test_wrong_inputs_are_refused(change, error, message):
    inputs = {"A": np.zeros((2, 3)), "x": np.zeros(3), "s": 1.0} | change
    with pytest.raises(error, match=message):
        evaluate(BODY, {name: x for name, x in inputs.items() if x is not None})


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="dtype is float16: wanted float64 or float32"):
        evaluate(BODY, {}, np.float16)
