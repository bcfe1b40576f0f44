"""NumPy's operations on traced arrays, row by row of the table in docs/traces.md; systems of linear
equations against NumPy, their derivatives against those of the inverse.
"""

import re

import numpy as np
import pytest
from documents import ROOT

import featherlane as fl
from featherlane.backends import reference

ROW = re.compile(r"^\| [^|]+ \| (`.*`) \| [^|]*\|$", re.MULTILINE)
_RNG = np.random.default_rng(11)
VALUES = {
    "x": np.array([0.126, -0.632, 0.64, -0.105]),
    "y": np.array([0.7, 1.3, 0.2, 2.1]),
    "A": _RNG.normal(size=(4, 4)),
    "B": _RNG.normal(size=(4, 4)),
    "P": (lambda F: F @ F.T + np.eye(4))(_RNG.normal(size=(4, 4))),
    "c": np.float64(0.7),
}
SHAPES = {name: np.shape(x) for name, x in VALUES.items()}


def table():
    """The expressions of the table of operations."""
    text = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
    part = text.partition("| kind | expressions |")[2].partition("\n\n")[0].replace(r"\|", "\0")
    cells = ROW.findall(part)
    return [code.replace("\0", "|") for cell in cells for code in re.findall("`([^`]+)`", cell)]


EXPRESSIONS = table()


def test_the_table_is_read():
    assert len(EXPRESSIONS) > 120
    assert len(set(EXPRESSIONS)) == len(EXPRESSIONS)
    assert "np.linalg.solve(A, x)" in EXPRESSIONS


def value(expression, arrays):
    return eval(expression, {"np": np, **dict(zip(VALUES, arrays, strict=True))})


def test_every_row_of_the_table_gives_what_numpy_gives():
    graph = fl.trace(
        lambda *arrays: {f"_{n}": value(code, arrays) for n, code in enumerate(EXPRESSIONS)},
        SHAPES,
    )
    results = reference.evaluate(graph, VALUES)
    wrong = []
    for n, code in enumerate(EXPRESSIONS):
        wanted = np.asarray(value(code, VALUES.values()), float)
        result = results[f"_{n}"]
        if result.shape != wanted.shape or not np.allclose(result, wanted, rtol=1e-12, atol=1e-15):
            wrong.append(code)
    assert wrong == []


# Systems of equations


def matrices(n, kind, count=200):
    """Matrices of a kind, and their condition numbers."""
    rng = np.random.default_rng([n, len(kind)])
    A = rng.normal(size=(count, n, n))
    if kind == "ill-conditioned":
        U, _, V = np.linalg.svd(A)
        A = (U * np.geomspace(1, 10.0 ** -rng.uniform(2, 12, count), n).T[:, None]) @ V
    elif kind == "graded":  # whose pivots are in other rows than the diagonal's
        A = A * 10.0 ** rng.uniform(-8, 8, (count, n, 1))
    elif kind == "with zeros":
        A = A * (rng.uniform(size=A.shape) < 0.5) + np.eye(n)[:, rng.permutation(n)]
        A = A[np.linalg.cond(A) < 1e6]
    elif kind == "positive":
        A = A @ np.swapaxes(A, 1, 2) + 1e-3 * np.eye(n)
    return A


KINDS = ["random", "ill-conditioned", "graded", "with zeros", "positive"]


def residual(A, x, b):
    """The backward error of a solution, in units of rounding (Higham 2002, theorem 7.1)."""
    size = np.abs(A).max((1, 2)) * np.abs(x).max(1) + np.abs(b).max(1)
    return np.abs(np.einsum("nij,nj->ni", A, x) - b).max(1) / size / np.finfo(float).eps


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_solutions_are_as_exact_as_those_of_numpy(n):
    for kind in KINDS:
        A = matrices(n, kind)
        b = np.random.default_rng(n).normal(size=(len(A), n))
        for assume in ("general", "positive") if kind == "positive" else ("general",):
            error = residual(A, fl.solve(A, b, assume=assume), b)
            lapack = residual(A, np.linalg.solve(A, b[..., None])[..., 0], b)
            assert error.max() < 2 * n + 4 * lapack.max(), (kind, assume)


def test_pivots_are_those_of_lapack():
    """Without exchanges, these would be lost in rounding; so the solutions agree to few units."""
    A = np.array([[[1e-20, 1.0], [1.0, 1.0]], [[0.0, 2.0], [3.0, 1.0]]])
    b = np.array([1.0, 2.0])
    assert np.abs(fl.solve(A, b) - np.linalg.solve(A, b)).max() < 1e-15
    zero_first = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [4.0, 0.0, 0.0]])
    pattern = lambda c: np.linalg.solve(zero_first * c, np.arange(3.0))
    graph = fl.trace(pattern, {"c": ()})
    assert graph.cost().kinds["select"] == 0  # the pattern of zeros leaves no choice
    assert np.allclose(fl.compile(graph)(2.0), np.linalg.solve(2 * zero_first, np.arange(3.0)))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_determinants_inverses_and_factors(n):
    A, P = matrices(n, "random", 50), matrices(n, "positive", 50)
    functions = {
        "det": np.linalg.det,
        "inv": np.linalg.inv,
        "slogdet": lambda A: np.linalg.slogdet(A)[1],
        "sign": lambda A: np.linalg.slogdet(A)[0],
        "cholesky": lambda A: np.linalg.cholesky(A @ A.T + 0.1 * np.eye(n)),
    }
    compiled = fl.compile(
        lambda A: {name: function(A) for name, function in functions.items()}, {"A": (n, n)}
    )
    for M in (A, P):
        condition = np.linalg.cond(M)
        results = compiled(M)._asdict()
        for name, function in functions.items():
            wanted = np.array([function(x) for x in M])
            error = np.abs(results[name] - wanted).reshape(len(M), -1).max(1)
            size = np.abs(wanted).reshape(len(M), -1).max(1) + (name == "slogdet")
            bound = condition**2 if name == "cholesky" else condition
            assert np.all(error <= 1e-14 * bound * size), name


def test_singular_matrices():
    """No error, as no value is known in a trace."""
    A = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0], [0.0, 0, 1, 0], [0, 0, 0, 1.0]])
    assert not np.isfinite(fl.solve(A, np.ones(4))).all()
    assert fl.compile(lambda A: np.linalg.det(A), {"A": (4, 4)})(A) == 0.0
    assert fl.compile(lambda A: np.linalg.det(A), {"A": (4, 4)})(np.zeros((4, 4))) == 0.0
    cholesky = fl.compile(lambda A: np.linalg.cholesky(A), {"A": (2, 2)})
    assert np.isnan(cholesky([[1.0, 2.0], [2.0, 1.0]])).any()


def test_stacks_of_matrices_and_right_sides():
    A = matrices(3, "random", 6).reshape(2, 3, 3, 3)
    B = np.random.default_rng(0).normal(size=(3, 3, 2))
    traced = fl.compile(lambda A, B: np.linalg.solve(A, B), {"A": A.shape, "B": B.shape})
    assert np.allclose(traced(A, B), np.linalg.solve(A, B))
    assert np.allclose(fl.solve(A, B[None]), np.linalg.solve(A, B))
    assert np.allclose(fl.solve(A, B[None, ..., 0]), np.linalg.solve(A, B[..., :1])[..., 0])
    assert np.allclose(fl.solve(A, B[0, :, 0]), np.linalg.solve(A, B[0, :, 0]))
    inverse = fl.compile(lambda A: np.linalg.inv(A), {"A": A.shape})
    assert np.allclose(inverse(A), np.linalg.inv(A))
    upper = fl.compile(lambda A: np.linalg.cholesky(A @ A.T, upper=True), {"A": (3, 3)})(A[0, 0])
    assert np.allclose(upper.T @ upper, A[0, 0] @ A[0, 0].T)
    single = fl.solve(A.astype(np.float32), B[None].astype(np.float32))
    assert single.dtype == np.float32


def test_only_the_lower_triangle_of_positive_matrices_is_read():
    P = matrices(4, "positive", 5)
    b = np.ones(4)
    lower = np.tril(P) + np.triu(np.full((4, 4), np.nan), 1)
    assert np.array_equal(fl.solve(lower, b, assume="positive"), fl.solve(P, b, assume="positive"))


@pytest.mark.parametrize("assume", ["general", "positive"])
def test_derivatives_of_solutions(assume):
    """dx = A^-1 (db - dA x), and the second derivatives by finite differences of the first."""
    n = 4
    A = matrices(n, "positive", 20)
    b = np.random.default_rng(5).normal(size=(20, n))

    def solution(A, b):
        symmetric = 0.5 * (A + A.T) if assume == "positive" else A
        return fl.solve(symmetric, b, assume=assume)

    shapes = {"A": (n, n), "b": n}
    inverse, x = np.linalg.inv(A), fl.solve(A, b)
    by_A = -np.einsum("nij,nk->nijk", inverse, x)
    if assume == "positive":
        by_A = 0.5 * (by_A + np.swapaxes(by_A, -1, -2))
    for mode in ("forward", "reverse"):
        slopes = fl.compile(fl.jacobian(solution, shapes, mode=mode))(A, b)
        size = np.abs(by_A).max((1, 2, 3), keepdims=True)
        assert np.abs((slopes.dout_dA - by_A) / size).max() < 1e-10
        assert np.allclose(slopes.dout_db, inverse, rtol=1e-9)
    weights = np.arange(1.0, n + 1)
    energy = lambda A, b: weights @ solution(A, b) ** 2
    gradient = fl.compile(fl.gradient(energy, shapes, wrt="A"))
    curvature = fl.compile(fl.hessian(energy, shapes, wrt="A"))
    A, b = A[0] + np.eye(n), b[0]
    directions = np.eye(n * n).reshape(-1, n, n)
    steps = 1e-5 * directions
    slopes = (gradient(A + steps, b) - gradient(A - steps, b)) / 2e-5
    second = np.moveaxis(curvature(A, b).reshape(n, n, -1), -1, 0)
    assert np.abs(second - slopes).max() < 1e-7 * np.abs(second).max()


SYSTEMS = {  # functions of A (3, 3), b (3) and c
    "general": lambda A, b, c: np.linalg.solve(A, b),
    "positive": lambda A, b, c: fl.solve(A + A.T + 9 * np.eye(3), b, assume="positive"),
    "inverse": lambda A, b, c: np.linalg.inv(A) @ b,
    "several right sides": lambda A, b, c: np.linalg.solve(A, np.stack([b, c * b], axis=1)),
    "triangular": lambda A, b, c: np.linalg.solve(np.triu(A), b) + A[0, 1] * b[1],
    "its products used again": lambda A, b, c: (
        lambda x: x + np.stack([A[0, 1] * x[1], A[1, 2] * x[2], b[2] / A[2, 2]])
    )(np.linalg.solve(np.triu(A), b)),
    "blocks": lambda A, b, c: np.linalg.solve(
        np.where(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]) > 0, A, 0.0), b
    ),
    "constant matrix": lambda A, b, c: np.linalg.solve(np.arange(9.0).reshape(3, 3) + np.eye(3), b),
    "constant right side": lambda A, b, c: np.linalg.solve(A, np.array([0.0, 1.0, 0.0])),
    "one input": lambda A, b, c: np.linalg.solve(np.eye(3) + c * np.ones((3, 3)), c * b),
    "one after the other": lambda A, b, c: np.linalg.solve(
        A.T, np.linalg.solve(A, c * np.linalg.solve(A.T, b))
    ),
    "a matrix of a solution": lambda A, b, c: (
        lambda x: np.linalg.solve(A + np.outer(x, b), x + c)
    )(np.linalg.solve(A, b)),
    "the identity": lambda A, b, c: np.linalg.solve(np.eye(3), b) * c,
    "a compiled function": lambda A, b, c: COMPILED(A, c * b),
}
COMPILED = fl.compile(lambda A, b: np.linalg.solve(A, b), {"A": (3, 3), "b": 3})


def without_systems(graph):
    return graph.replaced(systems=[])


@pytest.mark.parametrize("name", SYSTEMS)
def test_implicit_derivatives_are_those_of_the_operations(name):
    """First ones in both modes, and second ones, of graphs with and without records of systems."""
    graph = fl.trace(
        lambda A, b, c: np.sum(np.sin(SYSTEMS[name](A, b, c))), {"A": (3, 3), "b": 3, "c": ()}
    )
    values = {"A": matrices(3, "random", 1)[0], "b": np.array([0.3, -0.7, 1.1]), "c": 0.4}
    for derivative in (
        lambda g: fl.jacobian(g, mode="forward"),
        lambda g: fl.jacobian(g, mode="reverse"),
        fl.hessian,
        lambda g: fl.jacobian(fl.jacobian(g, mode="forward"), mode="reverse"),
    ):
        implicit = reference.evaluate(derivative(graph), values)
        direct = reference.evaluate(derivative(without_systems(graph)), values)
        for output, wanted in direct.items():
            error = np.abs(implicit[output] - wanted).max()
            assert error <= 1e-10 * max(1.0, np.abs(wanted).max()), output


def test_implicit_derivatives_take_fewer_operations():
    for assume, share in (("general", 0.25), ("positive", 0.45)):
        graph = fl.trace(lambda A, b, a=assume: fl.solve(A, b, assume=a), {"A": (6, 6), "b": 6})
        assert len(graph.systems) == 1
        for mode in ("forward", "reverse"):
            direct = fl.jacobian(without_systems(graph), mode=mode).cost().operations
            assert fl.jacobian(graph, mode=mode).cost().operations < share * direct


def test_wrong_systems_are_named():
    with pytest.raises(ValueError, match=r"assume is 'positiv': .*did you mean 'positive'"):
        fl.solve(np.eye(2), np.ones(2), assume="positiv")
    with pytest.raises(ValueError, match=r"A has shape \(2, 3\): wanted square matrices"):
        fl.solve(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match=r"A has shape \(9, 9\): wanted .* 1 to 8 rows"):
        fl.solve(np.eye(9), np.ones(9))
    with pytest.raises(ValueError, match=r"b has shape \(3,\), wanted \(\.\.\., 2\) or"):
        fl.solve(np.eye(2), np.ones(3))
    with pytest.raises(TypeError, match=r"np\.linalg\.inv of 9 traced rows: wanted at most 8"):
        fl.trace(lambda A: np.linalg.inv(A), {"A": (9, 9)})
    with pytest.raises(TypeError, match=r"np\.linalg\.det of an array \(3,\): wanted"):
        fl.trace(lambda A: np.linalg.det(A), {"A": 3})
    with pytest.raises(TypeError, match=r"np\.linalg\.solve of A .* and b \(3,\)"):
        fl.trace(lambda A, b: np.linalg.solve(A, b), {"A": (2, 2), "b": 3})


# Powers


def test_powers_by_any_number():
    base = np.array([0.0, 1e-300, 0.3, 1.0, 7.5, 1e10, np.inf, -2.0, np.nan])
    for p in (0.3, 1.2, -0.7, 2.3, -3.1, 7.9):
        with np.errstate(all="ignore"):
            wanted = base**p
        result = fl.compile(lambda x, p=p: x**p, {"x": ()})(base)
        assert np.allclose(result, wanted, rtol=1e-12, equal_nan=True), p
    grid, exponents = np.meshgrid(base[:-1], [-3.0, -2.0, -0.5, 0.0, 0.4, 1.0, 2.0, 3.0])
    with np.errstate(all="ignore"):
        wanted = grid**exponents
    result = fl.compile(lambda x, p: x**p, {"x": (), "p": ()})(grid, exponents)
    assert np.allclose(result, wanted, rtol=1e-11, equal_nan=True)
    x = np.linspace(-5, 5, 11)
    assert np.allclose(fl.compile(lambda x: 1.7**x, {"x": ()})(x), 1.7**x, rtol=1e-14)


def test_derivatives_of_powers():
    slope = fl.compile(fl.gradient(lambda x: x**2.3, {"x": ()}))
    assert np.allclose(slope([0.0, 0.5, 2.0]), 2.3 * np.array([0.0, 0.5, 2.0]) ** 1.3)
    both = fl.compile(fl.gradient(lambda x, p: x**p, {"x": (), "p": ()}))(1.3, 2.7)
    assert np.allclose(both, [2.7 * 1.3**1.7, np.log(1.3) * 1.3**2.7])
