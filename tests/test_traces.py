"""Traced arrays do what NumPy does; models, graphs and derivatives of functions inside traces."""

import math
import pickle
import re
from collections import namedtuple

import numpy as np
import pytest
import textbook
from repetition import repeated

import featherlane as fl
from featherlane.backends import reference
from featherlane.functions.table import DERIVED, TABLE, Variant
from featherlane.functions.variants import input_shapes
from featherlane.program.array import TracedArray
from featherlane.program.graph import graph_key
from featherlane.program.node import Node
from featherlane.program.trace import trace as trace_lists

SHAPES = {"q": 4, "A": (4, 4), "s": ()}
GIVEN = {
    "q": np.array([0.126, -0.632, 0.64, 0.105]),
    "A": np.random.default_rng(8).normal(size=(4, 4)),
    "s": np.float64(0.7),
}
FUNCTIONS = {
    "2q": lambda q, A, s: 2 * q,
    "q+q": lambda q, A, s: q + q,
    "q@q": lambda q, A, s: q @ q,
    "A@q": lambda q, A, s: A @ q,
    "const@": lambda q, A, s: np.arange(16.0).reshape(4, 4) @ q,
    "slice": lambda q, A, s: q[1:3] * s,
    "sin": lambda q, A, s: np.sin(q),
    "sins": lambda q, A, s: np.sin(s) * np.float64(2) * s,
    "where": lambda q, A, s: np.where(q < s, q, A),
    "where2": lambda q, A, s: np.where((q < 0) & (q > -1) | (q > 1), q, 0.0),
    "sum": lambda q, A, s: np.sum(A, axis=0) + A.sum(1) + A.sum(),
    "clip": lambda q, A, s: np.clip(q, -0.5, 0.5),
    "clip2": lambda q, A, s: q.clip(-0.5, s),
    "stack": lambda q, A, s: np.stack([q, q * 2, np.ones(4)]),
    "norm": lambda q, A, s: np.linalg.norm(q) + np.linalg.norm(A) + np.linalg.norm(A, axis=0),
    "norms": lambda q, A, s: np.linalg.norm(q, 1) + np.linalg.norm(q, np.inf),
    "cross": lambda q, A, s: np.cross(q[:3], A[0, :3]),
    "einsum": lambda q, A, s: np.einsum("ij,j->i", A, q),
    "einsum2": lambda q, A, s: np.einsum("ij,ij->", A, A),
    "outer": lambda q, A, s: np.outer(q, q),
    "dot": lambda q, A, s: np.dot(A, q) + A.dot(q) + q.dot(q),
    "inner": lambda q, A, s: np.inner(q, q),
    "kron": lambda q, A, s: np.kron(q, q),
    "tensordot": lambda q, A, s: np.tensordot(A, A),
    "trace": lambda q, A, s: np.trace(A) + A.trace(),
    "mean": lambda q, A, s: q.mean() + np.mean(A, axis=1),
    "var": lambda q, A, s: q.var(),
    "std": lambda q, A, s: np.std(A, axis=0),
    "cumsum": lambda q, A, s: np.cumsum(q) + q.cumsum(),
    "prod": lambda q, A, s: np.prod(A, axis=1) + q.prod(),
    "max": lambda q, A, s: A.max() + np.max(A, axis=0) + q.min(),
    "any": lambda q, A, s: np.any(q < 0) + 0.0,
    "all": lambda q, A, s: np.where((q < 0).all(), 1.0, 2.0),
    "allaxis": lambda q, A, s: (A < 1).all(axis=0) * 1.0,
    "diff": lambda q, A, s: np.diff(q),
    "concat": lambda q, A, s: np.concatenate([q, [1.0, 2.0], A[0]]),
    "hstack": lambda q, A, s: np.hstack([q, s]),
    "vstack": lambda q, A, s: np.vstack([q, q]),
    "block": lambda q, A, s: np.block([[A, A], [A, np.eye(4)]]),
    "diag": lambda q, A, s: np.diag(q) + np.diag(A),
    "roll": lambda q, A, s: np.roll(q, 1),
    "T": lambda q, A, s: A.T,
    "triu": lambda q, A, s: np.triu(A),
    "reshape": lambda q, A, s: q.reshape(2, 2),
    "tile": lambda q, A, s: np.tile(q, 2),
    "repeat": lambda q, A, s: np.repeat(q, 2),
    "mod": lambda q, A, s: np.mod(q * 9 + np.pi, 2 * np.pi) - np.pi,
    "fd": lambda q, A, s: q * 9 // 0.7,
    "modn": lambda q, A, s: 9 * q % -0.7,
    "floor": lambda q, A, s: np.floor(5 * q) + np.ceil(3 * q) + np.trunc(4 * q) + np.rint(3 * q),
    "round": lambda q, A, s: np.round(q, 1),
    "atan2": lambda q, A, s: np.arctan2(q, s) + np.arctan2(s, q) + np.arctan(q),
    "pow": lambda q, A, s: q**2 + np.abs(q) ** 1.5 + np.power(q, 3) + q ** (-1),
    "log": lambda q, A, s: np.log(np.abs(q)),
    "exp": lambda q, A, s: np.exp(q) + np.expm1(q) + np.log1p(np.abs(q)),
    "tanh": lambda q, A, s: np.tanh(q),
    "arc": lambda q, A, s: np.arcsin(np.tanh(q)) + np.arccos(np.tanh(q)),
    "sign": lambda q, A, s: np.sign(q),
    "hyp": lambda q, A, s: np.hypot(q, s),
    "copysign": lambda q, A, s: np.copysign(s, q) + np.copysign(q, -1),
    "min": lambda q, A, s: np.minimum(q, 0.0) + np.maximum(q, s) + np.fmin(q, A) + np.fmax(0.1, q),
    "eq": lambda q, A, s: (q == q) * 1.0 + (q != s) + (q >= s) + (q <= s),
    "logical": lambda q, A, s: (
        np.logical_and(q < 0, True)
        + np.logical_or(q < 0, q > 1) * 2.0
        + np.logical_not(q < 0) * 3.0
        + np.logical_xor(q < 0, q < 1) * 4.0
    ),
    "inv": lambda q, A, s: ~(q < 0) * 1.0,
    "zl": lambda q, A, s: (lambda z: (z.__setitem__(0, q[1]), z)[1])(np.zeros_like(q)),
    "iadd": lambda q, A, s: (lambda z: z.__iadd__(q))(1.0 * q),
    "matrix_power": lambda q, A, s: np.linalg.matrix_power(A, 3),
    "multi": lambda q, A, s: np.linalg.multi_dot([A, A, q]),
    "select": lambda q, A, s: np.select([q < 0, q < 0.5], [q, 2 * q], 7.0),
    "array": lambda q, A, s: np.array([np.sin(s), np.cos(s)]) * 2,
    "array2": lambda q, A, s: A[:2, :2] @ np.array([np.sin(s), np.cos(s)]),
    "deg": lambda q, A, s: np.rad2deg(q) + np.deg2rad(q),
    "isfinite": lambda q, A, s: np.isfinite(q) * 1.0 + np.isnan(q) * 2.0,
    "take": lambda q, A, s: np.take(q, [0, 2]) + q[[0, 1]],
    "pad": lambda q, A, s: np.pad(q, 1),
    "stackn": lambda q, A, s: np.stack([s, q[0], 1.0]),
    "newaxis": lambda q, A, s: q[:, None] * q[None, :] + A,
    "polyval": lambda q, A, s: np.polyval([1.0, 2.0, 3.0], q),
    "einsum3": lambda q, A, s: np.einsum("ij,jk,k->i", A, A, q, optimize=True),
    "square": lambda q, A, s: np.square(q) + np.sqrt(np.abs(q)) + np.reciprocal(q),
    "amap": lambda q, A, s: np.apply_along_axis(np.sum, 0, A),
    "mv": lambda q, A, s: np.vecdot(q, q) if hasattr(np, "vecdot") else q @ q,
    "swap": lambda q, A, s: np.swapaxes(A, 0, 1) + np.moveaxis(A, 0, 1),
    "sum_b": lambda q, A, s: np.sum(q < 0),
    "meshgrid": lambda q, A, s: np.meshgrid(q, q)[0],
    "append": lambda q, A, s: np.append(q, s),
    "average": lambda q, A, s: np.average(q, weights=[1.0, 2.0, 3.0, 4.0]),
    "linspace": lambda q, A, s: np.linspace(0, 1, 4) * s,
    "nan_to": lambda q, A, s: np.broadcast_to(s, (3,)) * 1.0,
    "ptp": lambda q, A, s: np.ptp(q),
    "isclose": lambda q, A, s: np.isclose(q, s) * 1.0,
    "full": lambda q, A, s: np.full_like(q, s),
    "scalararr": lambda q, A, s: s * np.ones(3) + np.ones(3) * s - s / np.ones(3),
    "cmp": lambda q, A, s: (np.zeros(4) < q) * 1.0 + (s < 0.3) * 1.0,
    "gradient": lambda q, A, s: np.gradient(q),
    "trapezoid": lambda q, A, s: np.trapezoid(q) if hasattr(np, "trapezoid") else 0.0,
    "flip": lambda q, A, s: q[::-1] + np.flip(q),
    "split": lambda q, A, s: np.split(q, 2)[1],
    "normalize": lambda q, A, s: q / np.linalg.norm(q),
    "quad": lambda q, A, s: q @ A @ q,
    "sumlist": lambda q, A, s: sum(x * x for x in q),
    "npsumlist": lambda q, A, s: np.sum([q[0], q[1], s]),
    "abs": lambda q, A, s: abs(q) + np.fabs(q),
    "neg": lambda q, A, s: -q + +q * 2,
    "rsub": lambda q, A, s: 1 - q + 1 / q,
    "nlist": lambda q, A, s: [q[0], 2.0 * s],
    "maxinit": lambda q, A, s: np.max(q, initial=0.3),
    "item": lambda q, A, s: q[0].item() if hasattr(q[0], "item") else q[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_arrays_gives_what_numpy_gives(name):
    function = FUNCTIONS[name]
    wanted = np.asarray(function(*GIVEN.values()), float)
    graph = fl.trace(function, SHAPES)
    got = reference.evaluate(graph, GIVEN)["out"]
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted, rtol=1e-12, atol=1e-14)


def test_arrays_stay_arrays():
    def function(q, A, s):
        assert type(s) is Node
        assert type(q[0]) is Node
        values = [q, A, 2 * q, q + q, np.sin(q), A @ q, q[1:], np.where(q < 0, q, 0), q[None] < 1]
        values += [np.ones(3) * s, np.stack([s, 1.0]), np.zeros_like(q), np.eye(4) @ q, q.copy()]
        assert {type(x) for x in values} == {TracedArray}
        assert type(np.sum(q)) is type(q @ q) is type(np.sin(s)) is type(q.max()) is Node
        return (2 * q).shape == (4,) and repr(q) == "<TracedArray of shape (4,)>"

    assert fl.trace(function, SHAPES).outputs["out"].shape == ()


REFUSED = [
    (lambda q, A, s: q if s > 0 else -q, r"`if` asks .*np\.where\(a < b, x, y\) or featherlane\."),
    (lambda q, A, s: q if (q > 0).all() else -q, r"np\.where\(a < b, x, y\)"),
    (lambda q, A, s: q if q == q else -q, r"np\.where\(a < b, x, y\)"),
    (lambda q, A, s: s and q, r"`and`.* asks for the value"),
    (lambda q, A, s: not s, "`not` asks for the value"),
    (lambda q, A, s: [x for x in q if x > 0], "`if` asks for the value"),
    (lambda q, A, s: any(x > 0 for x in q), r"any\(\) asks for the value .*np\.any"),
    (lambda q, A, s: [*range(s)], r"range\(\) asks for the value .*rounds"),
    (lambda q, A, s: f"{s:.3f}", "a formatted text asks for|a value was"),
    (lambda q, A, s: math.sin(s), r"math\.sin\(\) asks for the value .*: write np\.sin \("),
    (lambda q, A, s: math.acos(q[0]), r"math\.acos\(\) asks for the value .*: write np\.arccos \("),
    (lambda q, A, s: math.sin(q), r"math\.sin\(\) asks for the value"),
    (lambda q, A, s: int(s), r"int\(\) asks for the value .*leave it out"),
    (lambda q, A, s: np.take(np.ones(3), s), r"np\.take\(\) asks for the value .*np\.arange\(n\)"),
    (lambda q, A, s: np.take(q, s), r"np\.take\(\) cannot take traced .*NumPy: Cannot cast"),
    (lambda q, A, s: np.ones(3)[s], r"the index of np\.ones\(3\)\[s\] cannot take traced values"),
    (lambda q, A, s: np.ones(4).__setitem__(q > 0, 1.0), "cannot take traced values: "),
    (lambda q, A, s: np.fft.fft(q), r"np\.fft\.fft\(\) cannot take .*docs/traces\.md"),
    (lambda q, A, s: np.polyfit(q, q, 1), r"np\.polyfit\(\) cannot take traced values"),
    (lambda q, A, s: np.random.normal(q), r"np\.random\.normal\(\) cannot take traced values"),
    (lambda q, A, s: float(s), r"float\(\) asks .* is not known while tracing: leave it out"),
    (lambda q, A, s: max(q), "np.maximum"),
    (lambda q, A, s: np.array([s, 1.0], float), r"np\.stack\(\[x, y\]\)"),
    (lambda q, A, s: np.zeros(3).__setitem__(0, s), r"__setitem__\(\) asks for the value"),
    (lambda q, A, s: np.ones(4).__iadd__(q), r"array of float64: write x = x \+ y for x \+= y"),
    (lambda q, A, s: np.minimum(np.array([s, s]), 0.0), r"in place of np\.array\(\[x, y\]\)"),
    (lambda q, A, s: np.linalg.lstsq(A, q), r"np\.linalg\.lstsq .*J\.T @ np\.linalg\.solve"),
    (lambda q, A, s: np.linalg.pinv(A), r"np\.linalg\.pinv .*ranks"),
    (lambda q, A, s: np.linalg.eigvalsh(A), r"np\.linalg\.eigvalsh .*outside the trace"),
    (lambda q, A, s: np.linalg.norm(A, 2), "norm of traced values with ord=2"),
    (lambda q, A, s: np.argmax(q), r"np\.argmax of traced values: .*np\.max"),
    (lambda q, A, s: q.argmin(), r"np\.argmin of traced values"),
    (lambda q, A, s: np.sort(q), r"np\.sort of traced values"),
    (lambda q, A, s: q.sort(), r"np\.sort of traced values"),
    (lambda q, A, s: q[q < 0], r"np\.where\(condition, x, y\) instead of x\[condition\]"),
    (lambda q, A, s: q.__setitem__(q < 0, 0.0), r"an index is a traced value"),
    (lambda q, A, s: [1.0, 2.0][s], "is not known while tracing"),
    (lambda q, A, s: np.where(q < 0), r"np\.nonzero .*np\.where\(condition, x, y\)"),
    (lambda q, A, s: np.nonzero(q), r"np\.nonzero"),
    (lambda q, A, s: np.interp(s, [0, 1], [0, 1]), r"np\.interp .*np\.where\(x < x1"),
    (lambda q, A, s: np.log2(q), r"write np\.log\(x\) / np\.log\(2\.0\)"),
    (lambda q, A, s: np.sinh(s), r"np\.sinh of traced values: write"),
    (lambda q, A, s: np.logaddexp(q, s), r"np\.logaddexp of traced values: write m \+"),
    (lambda q, A, s: np.gcd(q, 2), r"np\.gcd of .*docs/traces\.md .*have absolute, add, .*where"),
    (lambda q, A, s: q.astype("f4"), "dtype=float32|dtype=f4"),
    (lambda q, A, s: np.sum(q, where=[True] * 4), r"where= of np\.add"),
    (lambda q, A, s: np.add.reduceat(q, [0, 2]), r"np\.add\.reduceat of traced values"),
    (lambda q, A, s: np.array_equal(q, q), r"np\.array_equal of traced values"),
    (lambda q, A, s: s**"2", "combined with str '2'"),
    (lambda q, A, s: (q < 0) & q, "a condition was combined with a traced number"),
    (lambda q, A, s: ~q, "~ of a traced number"),
    (lambda q, A, s: s * [1.0, 2.0], r"combined with list .*np\.stack"),
    (lambda q, A, s: (s < 0).select(q, 0.0), r"np\.where instead of select"),
    (lambda q, A, s: np.exp(1j * q), "combined with complex"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "message"), REFUSED)
def test_what_cannot_be_traced_says_what_to_write(function, message):
    with pytest.raises(TypeError, match=message) as told:
        fl.trace(function, SHAPES)
    assert "\n" not in str(told.value)
    line = function.__code__.co_firstlineno
    assert f"(test_traces.py, line {line})" in str(told.value)


def test_statements_that_cannot_be_traced_are_named():
    def grows(q):
        while q[0] < 1:
            q = q + 1
        return q

    def stores(q):
        x = np.zeros(3)
        x[0] = q[0]
        return x

    def picks(q):
        x = np.ones(2)
        x[q > 0] = 0.0
        return x

    first = grows.__code__.co_firstlineno
    for function, line, message in (
        (grows, 1, r"^`while` asks for the value of a traced scalar"),
        (stores, 7, r"^x\[0\] = \.\.\. asks for the value .*np\.zeros_like\(q\)"),
        (picks, 12, r"^x\[q > 0\] = \.\.\. cannot take traced values: write np\.where"),
    ):
        with pytest.raises(
            TypeError, match=rf"{message}.*\(test_traces\.py, line {first + line}\)"
        ):
            fl.compile(function, {"q": 2})


def test_code_without_a_file_is_refused_too():
    """Of a shell, say."""
    with pytest.raises(TypeError, match=r"`if`, `while`, .* asks for the value .*line 1\)"):
        fl.trace(eval("lambda s: s if s > 0 else -s"), {"s": ()})


def test_errors_of_ones_own_pass_through():
    def fails(q):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        fl.trace(fails, {"q": 2})


def test_results_have_names():
    Pair = namedtuple("Pair", "power force")
    f = fl.compile(lambda q, v: Pair(q @ v, 2 * q), {"q": 3, "v": 3})
    q, v = np.arange(3.0), np.ones(3)
    results = f(q, v)
    assert results._fields == ("power", "force")
    assert results.power == 3.0
    assert np.array_equal(results.force, 2 * q)
    again = pickle.loads(pickle.dumps(results))
    assert type(again) is type(results)
    assert again.power == 3.0
    batch = f(v=np.ones((5, 3)), q=q)
    assert batch.force.shape == (5, 3)
    out = np.empty(()), np.empty(3)
    assert np.array_equal(f(q, v, out=out)[1], 2 * q)
    odd = fl.compile(lambda q: {"class": q, "b": q, "c": q}, {"q": 2})
    assert type(odd(np.ones(2))) is tuple
    assert type(fl.compile(lambda q: {"_a": q, "b": q}, {"q": 2})(np.ones(2))) is tuple


SCALARS = ["exp", "log", "tanh", "asin", "acos", "floor", "sin", "cos", "sqrt"]


@pytest.mark.parametrize("name", SCALARS)
def test_functions_of_scalars_of_any_kind(name):
    function = getattr(fl, name)
    numpy = getattr(np, {"asin": "arcsin", "acos": "arccos"}.get(name, name))
    assert np.isclose(function(0.4), numpy(0.4), rtol=1e-15)
    assert np.allclose(function(np.array([0.4, 0.5])), numpy([0.4, 0.5]), rtol=1e-15)
    both = lambda x, y: np.stack([function(x), *function(y)])
    got = reference.evaluate(fl.trace(both, {"x": (), "y": 2}), {"x": 0.4, "y": [0.5, 0.6]})
    assert np.allclose(got["out"], numpy([0.4, 0.5, 0.6]), rtol=1e-15)


@pytest.mark.parametrize("name", ["atan2", "minimum", "maximum"])
def test_functions_of_two_scalars_of_any_kind(name):
    function, numpy = getattr(fl, name), getattr(np, name.replace("atan2", "arctan2"))
    assert function(0.4, -0.3) == numpy(0.4, -0.3)
    assert np.array_equal(function(np.ones(2), 0.3), numpy(np.ones(2), 0.3))

    def each(x, y):
        found = [function(x, y[0]), function(x, 0.2), function(0.3, x), *function(x, y)]
        return np.stack([*found, *function(y, x), *function(np.ones(2), x)])

    x, y = 0.4, np.array([-0.5, 0.6])
    got = reference.evaluate(fl.trace(each, {"x": (), "y": 2}), {"x": x, "y": y})["out"]
    assert np.allclose(got, each(x, y), rtol=1e-15)


def test_nan_is_handed_on_as_by_numpy():
    def function(x, y):
        return np.stack([
            np.minimum(x, y), np.maximum(x, y), np.fmin(x, y), np.fmax(x, y), np.sign(x),
            (x == y) * 1.0, (x != y) * 1.0, (x <= y) * 1.0, ~(x < y) * 1.0, np.isnan(x) * 1.0,
            np.isfinite(x) * 1.0, np.isinf(x) * 1.0, np.clip(x, -1.0, y), np.signbit(x) * 1.0,
            np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.logical_and(x, y) * 1.0,
        ])  # fmt: skip

    values = [0.0, -0.0, 0.3, -0.7, 2.5, np.inf, -np.inf, np.nan]
    x, y = np.stack(np.meshgrid(values, values), -1).reshape(-1, 2).T
    f = fl.compile(function, {"x": len(x), "y": len(x)})
    with np.errstate(invalid="ignore"):
        got, wanted = f(x, y), function(x, y)
    assert np.array_equal(got, wanted, equal_nan=True)
    whole = slice(14, 18)
    assert np.array_equal(np.signbit(got[whole]), np.signbit(wanted[whole]))


def test_rests_have_the_sign_of_the_divisor():
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(size=200) * 20, np.arange(-20, 21) * 0.1, [0.3, 0.9, -1e-18]])
    for y in (0.1, -0.3, 2 * np.pi):
        f = fl.compile(lambda x, y=y: {"rest": x % y, "whole": x // y}, {"x": len(x)})
        got = f(x)
        assert np.allclose(got.rest, np.mod(x, y), rtol=1e-12, atol=1e-15)
        assert np.array_equal(got.whole, x // y)


# Derivatives


def cost(q, w):
    return {"cost": np.sum(w * np.exp(-q * q)) + q @ q, "rest": np.sin(q[:2]) * w[0]}


POINT = {"q": np.array([0.3, -0.4, 0.9]), "w": np.array([1.0, 2.0, -0.5])}
AT = {"q": 3, "w": 3}
H = 1e-20


def complex_step(name, x):
    """The Jacobian of a result by one argument."""
    columns = [
        cost(**{**POINT, x: POINT[x] + 1j * H * e})[name].imag / H for e in np.eye(POINT[x].size)
    ]
    return np.moveaxis(np.array(columns), 0, -1)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_all_derivatives_of_several_results_in_one_kernel(mode):
    graph = fl.jacobian(cost, AT, mode=mode, values=True)
    f = fl.compile(graph)
    results = f(**POINT)
    names = ("dcost_dq", "dcost_dw", "drest_dq", "drest_dw")
    assert results._fields == ("cost", "rest", *names)
    assert np.array_equal(results.rest, fl.compile(cost, AT)(**POINT).rest)
    for name in names:
        wanted = complex_step(*name[1:].split("_d"))
        assert getattr(results, name).shape == wanted.shape
        assert np.allclose(getattr(results, name), wanted, rtol=1e-14, atol=1e-15)
    one = fl.compile(fl.jacobian(cost, AT, of="rest", wrt="w", mode=mode))
    assert np.array_equal(one(**POINT), results.drest_dw)


def test_gradients_and_hessians():
    f = fl.compile(fl.gradient(cost, AT, of="cost", values=True))
    assert f(**POINT)._fields == ("cost", "dcost_dq", "dcost_dw")
    assert np.allclose(f(**POINT).dcost_dq, complex_step("cost", "q"), rtol=1e-14)
    graph = fl.hessian(cost, AT, of="cost", values=True)
    results = fl.compile(graph)(**POINT)
    names = ("d2cost_dqdq", "d2cost_dqdw", "d2cost_dwdw")
    assert results._fields == ("cost", "dcost_dq", "dcost_dw", *names)
    q, w = POINT["q"], POINT["w"]
    bell = np.exp(-q * q)
    assert np.allclose(results.d2cost_dqdq, np.diag(w * bell * (4 * q * q - 2) + 2), atol=1e-14)
    assert np.array_equal(results.d2cost_dqdq, results.d2cost_dqdq.T)
    assert np.allclose(results.d2cost_dqdw, np.diag(-2 * q * bell), atol=1e-14)
    assert not results.d2cost_dwdw.any()
    twice = fl.compile(fl.jacobian(fl.gradient(cost, AT, of="cost", wrt="q"), wrt="q"))
    assert np.allclose(twice(**POINT), results.d2cost_dqdq, atol=1e-14)


def test_a_hessian_with_entries_off_the_diagonal_is_symmetric():
    A = np.random.default_rng(3).normal(size=(3, 3))
    f = fl.compile(fl.hessian(lambda x, y: x @ A @ x + x @ A @ y, {"x": 3, "y": 3}))
    results = f(np.ones(3), np.ones(3))
    assert np.allclose(results.d2out_dxdx, A + A.T)
    assert np.allclose(results.d2out_dxdy, A)


def test_products_with_jacobians():
    forward, reverse = fl.compile(fl.jvp(cost, AT, wrt="q")), fl.compile(fl.vjp(cost, AT))
    along = np.array([0.2, -1.0, 0.7])
    results = forward(**POINT, q_direction=along)
    assert results._fields == ("cost", "rest", "cost_direction", "rest_direction")
    assert np.allclose(results.cost_direction, complex_step("cost", "q") @ along)
    assert np.allclose(results.rest_direction, complex_step("rest", "q") @ along)
    weights = {"cost_weight": 0.3, "rest_weight": np.array([1.0, -2.0])}
    back = reverse(**POINT, **weights)
    assert back._fields == ("cost", "rest", "q_weight", "w_weight")
    for x in "qw":
        wanted = 0.3 * complex_step("cost", x) + weights["rest_weight"] @ complex_step("rest", x)
        assert np.allclose(getattr(back, f"{x}_weight"), wanted)


def test_one_value_in_several_results():
    f = fl.compile(fl.vjp(lambda x: {"a": np.stack([x, x]), "b": x}, {"x": ()}))
    assert f(x=2.0, a_weight=[3.0, 5.0], b_weight=7.0).x_weight == 15.0


def test_derivatives_of_graphs_and_wrong_requests():
    graph = fl.trace(cost, AT)
    assert graph_key(fl.gradient(graph, of="cost")) == graph_key(fl.gradient(cost, AT, of="cost"))
    for wrong, error, message in [
        (lambda: fl.jacobian(cost), TypeError, "inputs is missing"),
        (lambda: fl.jacobian(graph, of="none"), ValueError, "no output 'none': .* cost, rest"),
        (lambda: fl.jacobian(graph, wrt=["q", "x"]), ValueError, "no input 'x': .* q, w"),
        (lambda: fl.jacobian(graph, wrt=["q", "q"]), ValueError, "named twice"),
        (lambda: fl.jacobian(graph, mode="both"), ValueError, "mode is 'both'"),
        (lambda: fl.gradient(graph), ValueError, "of is missing: .* cost, rest"),
        (lambda: fl.gradient(graph, of="rest"), ValueError, r"shape \(2,\): a gradient"),
        (lambda: fl.hessian(graph, of="rest"), ValueError, r"shape \(2,\): a Hessian"),
        (
            lambda: fl.jacobian(lambda y, dy_dx, x: {"y": x, "dy_dx": x},
                                {"y": (), "dy_dx": (), "x": ()}, values=True),
            ValueError,
            "two outputs would be called 'dy_dx'",
        ),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            wrong()


# Robots


def named(function, results):
    """Results by the names of a function's outputs."""
    whole = results if isinstance(results, tuple) else (results,)
    return dict(zip(function.outputs, whole, strict=True))


@pytest.fixture(scope="module")
def robot():
    return fl.random_tree(2, joint_types=("revolute", "spherical"), seed=2)


def inputs_of(robot, name):
    rng, sizes = np.random.default_rng(5), input_shapes(robot, Variant(name))
    given = {x: rng.normal(size=size) for x, size in sizes.items()}
    return given | {x: robot.random_configuration(seed=1) for x in given if x[0] == "q"}


def options_of(robot, name):
    takes = TABLE[name].takes
    frame = {"frame": robot.frame_names[-1]} if "frame" in takes else {}
    return frame | ({"wrt": "mass"} if "wrt" in takes else {})


@pytest.mark.parametrize("name", repeated([*TABLE], len(TABLE)))
def test_every_function_of_a_robot_in_a_trace(robot, name):
    function, options, given = TABLE[name], options_of(robot, name), inputs_of(robot, name)
    sizes = {x: np.shape(value) for x, value in given.items()}
    wanted = named(function, fl.call(robot, name, **given, **options))
    called = lambda *x: named(function, fl.call(robot, name, *x, **options))
    graph = fl.trace(called, sizes)
    got = reference.evaluate(graph, given)
    method = getattr(robot, name, None)
    if method is not None and name not in DERIVED:
        direct = fl.trace(lambda *x: named(function, method(*x, **options)), sizes)
        assert graph_key(direct) == graph_key(graph)
    for output, value in wanted.items():
        assert got[output].shape == value.shape
        assert np.allclose(got[output], value, rtol=1e-9, atol=1e-9)


def test_keywords_options_and_parameters_in_a_trace(robot):
    q, v, a = inputs_of(robot, "inverse_dynamics").values()
    f_ext = np.random.default_rng(6).normal(size=(robot.nbodies, 6))
    mass, frame = np.arange(1.0, 1 + robot.nbodies), robot.frame_names[-1]

    def function(q, v, a, f_ext, mass):
        world, params = {"f_ext_frame": "world"}, {"params": {"mass": mass}}
        return {
            "world": fl.call(robot, "inverse_dynamics", q, v, a=a, f_ext=f_ext, **world),
            "method": robot.inverse_dynamics(q, v, a, f_ext, **world),
            "at": robot.forward_dynamics(q, v, a, {frame: f_ext[0]}, **params),
            "heavy": fl.call(robot, "mass_matrix", q, **params),
            "aba": fl.call(robot, "forward_dynamics", q, v, a, method="aba"),
            "moved": robot.frame_velocity(q, v, frame, "world"),
            "hessian": robot.inverse_dynamics_hessian(q, v, a, v),
            "known": np.stack(robot.forward_dynamics_derivatives(
                q, v, a=a, minv=robot.mass_matrix_inverse(q))),
        }  # fmt: skip

    wanted = function(q, v, a, f_ext, mass)
    given = {"q": q, "v": v, "a": a, "f_ext": f_ext, "mass": mass}
    results = fl.compile(function, {name: np.shape(x) for name, x in given.items()})(**given)
    for name, value in wanted.items():
        assert np.allclose(getattr(results, name), value, rtol=1e-9, atol=1e-9), name


def test_states_in_a_trace_broadcast(robot):
    q = np.stack([robot.random_configuration(seed=n) for n in range(3)])
    v, a = np.random.default_rng(7).normal(size=(2, robot.nv))
    f = fl.compile(robot.inverse_dynamics, {"q": q.shape, "v": v.shape, "a": a.shape})
    assert np.allclose(f(q, v, a), robot.inverse_dynamics(q, v, a), rtol=1e-12)
    energy = fl.compile(
        lambda q, v: np.sum(robot.kinetic_energy(q, v)), {"q": q.shape, "v": v.shape}
    )
    assert np.isclose(energy(q, v), robot.kinetic_energy(q, v).sum(), rtol=1e-12)
    mixed = fl.compile(lambda v: robot.inverse_dynamics(q[0], list(v), a.tolist()), {"v": v.shape})
    assert np.allclose(mixed(v), robot.inverse_dynamics(q[0], v, a), rtol=1e-12)


@pytest.mark.parametrize("joints", [("revolute", "prismatic"), ("free", "revolute")])
def test_the_gradient_of_a_cost_of_a_rollout(joints):
    """Against `rollout_gradient`, in the tangent space, and against differences."""
    robot, steps = textbook.tree(joints, seed=1), 4
    rng = np.random.default_rng(0)
    q, v = robot.random_configuration(seed=0), rng.normal(size=robot.nv)
    tau, dt = rng.normal(size=(steps, robot.nv)), 0.02

    def cost(q, v, tau, dt):
        moved = fl.call(robot, "rollout", q, v, tau, dt=dt, integrator="midpoint")
        return np.sum(moved.q**2) + 0.1 * np.sum(moved.v**2) + np.sum(tau**2)

    shapes = {"q": q.shape, "v": v.shape, "tau": tau.shape, "dt": ()}
    gradient = fl.compile(fl.gradient(cost, shapes))
    found = gradient(q, v, tau, dt)
    moved = robot.rollout(q, v, tau, dt, integrator="midpoint")
    N = textbook.tangent(robot, moved.q).swapaxes(-1, -2)
    by_states = textbook.times(N, 2 * moved.q), 0.2 * moved.v
    wanted = robot.rollout_gradient(moved, tau, dt, *by_states, integrator="midpoint")
    assert np.allclose(N[0] @ found.dout_dq, wanted.q, rtol=1e-11, atol=1e-11)
    assert np.allclose(found.dout_dv, wanted.v, rtol=1e-11, atol=1e-11)
    assert np.allclose(found.dout_dtau, wanted.tau + 2 * tau, rtol=1e-11, atol=1e-11)
    h = 1e-5
    by_dt = (cost(q, v, tau, dt + h) - cost(q, v, tau, dt - h)) / (2 * h)
    assert np.isclose(found.dout_ddt, by_dt, rtol=1e-6)
    d = rng.normal(size=tau.shape)
    along = (cost(q, v, tau + h * d, dt) - cost(q, v, tau - h * d, dt)) / (2 * h)
    assert np.isclose(np.vdot(found.dout_dtau, d), along, rtol=1e-6)


def test_rollouts_in_a_trace_are_those_of_arrays():
    robot, steps = fl.load("double_pendulum"), 6
    actuation = robot.actuation(["joint2"], 2.0)
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=(2, 3, 2))
    f_ext, u = rng.normal(size=(3, steps, 2, 6)), rng.normal(size=(3, steps, 1))
    options = {"actuation": actuation, "every": 2, "f_ext_frame": "world"}
    called = lambda *x: fl.call(robot, "rollout", *x[:3], 0.01, x[3], **options)._asdict()
    own = lambda *x: robot.rollout(*x[:3], 0.01, x[3], **options)._asdict()
    sizes = {"q": 2, "v": 2, "u": (steps, 1), "f_ext": (steps, 2, 6)}
    assert graph_key(fl.trace(called, sizes)) == graph_key(fl.trace(own, sizes))
    found = fl.compile(called, sizes)(q, v, u, f_ext)
    for x, y in zip(found, robot.rollout(q, v, u, 0.01, f_ext, **options), strict=True):
        assert x.shape == (3, 4, 2)
        assert np.allclose(x, y, rtol=1e-12, atol=1e-13)


def test_compiled_functions_and_graphs_in_a_trace():
    twice = fl.compile(lambda x: {"y": 2 * x, "z": x @ x}, {"x": 3})
    graph = fl.trace(lambda x: 2 * x, {"x": 3})

    def function(x):
        assert type(fl.call(graph, x=x)["out"]) is TracedArray
        return twice(x).y + fl.call(graph, x=x)["out"] + twice(x=x).z

    x = np.arange(3.0)
    assert np.array_equal(fl.compile(function, {"x": 3})(x), 4 * x + x @ x)


@pytest.mark.parametrize(
    ("function", "inputs", "error", "told"),
    [
        (abs, [2], TypeError, "inputs is [2]: wanted the shape of each argument by name, as in"),
        (abs, {"q": 2.5}, ValueError, "the shape of 'q' in inputs is 2.5: wanted a whole number"),
        (abs, {"q": -1}, ValueError, "the shape of 'q' in inputs is -1: wanted a whole number"),
        (abs, {"q": (2, -1)}, ValueError, "the shape of 'q' in inputs is (2, -1): wanted"),
        (abs, {"q": (2, 2.0)}, ValueError, "the shape of 'q' in inputs is (2, 2.0): wanted"),
        (abs, {"q": "ab"}, ValueError, "the shape of 'q' in inputs is 'ab': wanted"),
        (abs, {"q": True}, ValueError, "the shape of 'q' in inputs is True: wanted"),
        (abs, {"q": None}, ValueError, "the shape of 'q' in inputs is None: wanted"),
        (abs, {3: 2}, TypeError, "inputs has the name 3: wanted a text"),
        (3, {"q": 2}, TypeError, "function is 3: wanted a function of arrays"),
        (
            lambda *, q: q,
            {"q": 2},
            TypeError,
            "function takes (*, q): wanted one of the inputs, by position, (q)",
        ),
        (
            lambda q: q,
            {"q": 2, "v": 2},
            TypeError,
            "function takes (q): wanted one of the inputs, by position, (q, v)",
        ),
    ],
)
def test_wrong_functions_and_shapes(function, inputs, error, told):
    for make in (fl.trace, fl.compile):
        with pytest.raises(error) as caught:
            make(function, inputs)
        assert str(caught.value).startswith(told)


def test_shapes_are_whole_numbers_of_any_type():
    inputs = {"q": np.int64(2), "A": np.array([2, 3]), "s": ()}
    assert fl.trace(lambda q, A, s: q @ A * s, inputs).inputs == {"q": (2,), "A": (2, 3), "s": ()}


def test_a_constant_divisor_of_zero():
    found = fl.compile(lambda x: {"rest": np.mod(x, 0.0), "whole": x // 0.0}, {"x": 3})
    x = np.array([3.0, -3.0, 0.0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found(x).rest, np.mod(x, 0.0))
        np.testing.assert_array_equal(found(x).whole, x // 0.0)


def test_wrong_calls_name_the_argument(robot):
    q, v, tau = np.zeros(robot.nq), np.zeros(robot.nv), np.zeros((3, robot.nv))
    wrong = [
        (lambda q: fl.call(robot, "inverse_dynamic", q), ValueError, "inverse_dynamics"),
        (lambda q: fl.call(robot, "inverse_dynamics", q), TypeError, "misses v, a: wanted q, v, a"),
        (lambda q: fl.call(robot, "mass_matrix", q, q=q), TypeError, "got a second q"),
        (lambda q: fl.call(robot, "mass_matrix", q, q), TypeError, "got 2 arrays: wanted q"),
        (lambda q: fl.call(robot, "mass_matrix", q, frame="x"), TypeError, "takes no frame"),
        (lambda q: fl.call(robot, "mass_matrix", q[:2]), ValueError, r"q has shape \(2,\), wanted"),
        (lambda q: fl.call(fl.trace(lambda x: x, {"x": 2}), q), TypeError, "by name: wanted x="),
        (lambda q: fl.call("iiwa14", q), TypeError, "call got str: wanted a graph or a model"),
        (lambda q: fl.call(robot, "rollout", q, v, v, 0.1), ValueError, r"wanted \(..., T, n\)"),
        (lambda q: fl.call(robot, "rollout", q, v, tau, 1, every=2), ValueError, "divides 3 steps"),
        (lambda q: fl.call(robot, "step", q, v, v, 0.1, every=2), TypeError, "takes no every"),
        (lambda q: robot.mass_matrix(q, out=np.ones(3)), TypeError, "out= of mass_matrix in"),
        (lambda q: robot.mass_matrix(np.array([q[0], None])), TypeError, "q holds NoneType"),
    ]  # fmt: skip
    for function, error, message in wrong:
        with pytest.raises(error, match=message):
            fl.trace(function, {"q": robot.nq})
    q = robot.neutral()
    assert np.array_equal(fl.call(robot, "mass_matrix", q), robot.mass_matrix(q))


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics_derivatives", "jacobian"])
def test_algorithms_take_arrays_as_they_take_lists(name):
    from featherlane.functions.table import Variant
    from featherlane.functions.tracing import _choices, _traceable
    from featherlane.functions.variants import input_shapes

    robot = fl.random_tree(9, seed=1)  # every joint type
    frame = ("body0", "world") if name == "jacobian" else (None, None)
    wrenches = "world" if "f_ext" in TABLE[name].takes else None
    variant = Variant(name, wrenches, frame=frame[0], reference=frame[1])
    for choice in _choices(robot, variant):
        run, sizes = _traceable(robot, variant, *choice), input_shapes(robot, variant)
        assert graph_key(fl.trace(run, sizes)) == graph_key(trace_lists(run, sizes))


def test_arrays_of_more_than_two_dimensions():
    f = fl.compile(fl.jacobian(lambda A, x: {"B": A * x[:, None]}, {"A": (2, 3), "x": 2}))
    A, x = np.random.default_rng(1).normal(size=(4, 2, 3)), np.array([2.0, -3.0])
    results = f(A, x)
    assert results.dB_dA.shape == (4, 2, 3, 2, 3)
    assert np.array_equal(results.dB_dA[3], np.einsum("ik,jl,i->ijkl", np.eye(2), np.eye(3), x))
    wanted = np.einsum("ik,nij->nijk", np.eye(2), A)
    assert np.array_equal(results.dB_dx, wanted)
    out = np.empty_like(results.dB_dA), np.empty((2, 4, 3, 2)).swapaxes(0, 1)
    f(A, x, out=out)
    assert np.array_equal(out[1], wanted)
    cube = fl.compile(lambda C: np.sum(C, axis=0), {"C": (2, 3, 4)})
    C = np.random.default_rng(2).normal(size=(70, 2, 3, 4)).astype(np.float32)
    assert np.allclose(cube(C, threads=2), C.sum(1))
    assert np.array_equal(pickle.loads(pickle.dumps(cube))(C[5]), cube(C)[5])
    with pytest.raises(ValueError, match=r"'C' has shape \(2, 0\): wanted no dimension of 0"):
        fl.compile(lambda C: 1.0, {"C": (2, 0)})


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.clip(x @ x, 0, 1),
        lambda x: (x @ x).clip(0, 1) + x[0].sum() + x[1].max(),
        lambda x: np.max(x[2]) + np.mean(x[1]) + np.ravel(x[0])[0] + x[0].reshape(1)[0],
        lambda x: x[0] * len((x @ x).shape) + x[1] * x[0].size + x[2].T + x[1].astype(float),
    ],
    ids=["clip", "methods", "functions", "attributes"],
)
def test_scalars_have_what_arrays_without_dimensions_have(function):
    x = np.array([0.3, -0.2, 0.7])
    np.testing.assert_allclose(fl.compile(function, {"x": 3})(x), function(x), rtol=1e-15)
    with pytest.raises(AttributeError, match="a traced scalar has no 'item': leave it out"):
        fl.trace(lambda x: x[0].item(), {"x": 3})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.at[0].set(1.0), "no 'at': x[k] = y writes into it"),
        (lambda x: x.numpy(), "no 'numpy': it is one of NumPy's already"),
        (lambda x: x.unsqueeze(0), "no 'unsqueeze': it has what NumPy's arrays have"),
    ],
)
def test_attributes_of_other_arrays(function, message):
    with pytest.raises(AttributeError, match=re.escape(f"a traced array has {message}")):
        fl.trace(function, {"x": 3})
