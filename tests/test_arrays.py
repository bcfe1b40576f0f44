"""Scans, subtree sums and block elimination of arrays: as on lists, and as in textbooks."""

import sys
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated

from featherlane.algorithms.elimination import ELIMINATIONS
from featherlane.algorithms.scan import PATHS, SCANS, SUMS, path_scan, scan, subtree_sum
from featherlane.backends.cpu.steps.batching import allocate, assign_lanes

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from array_scans import ArrayElimination, ArrayScan, ArraySubtreeSum

few = settings(max_examples=4, deadline=None)
lengths = st.integers(2, 40)
batches = st.sampled_from([(), (1,), (3,), (2, 3), (11,)])


def add(x, y):
    return [a + b for a, b in zip(x, y, strict=True)]


def shear(m, x):
    """A map of pairs by the matrix [a b; 0 1]: two of them do not commute."""
    return m[0] * x[0] + m[1] * x[1], x[1]


def sheared(a, b):
    return a[0] * b[0], a[0] * b[1] + a[1]


def matrix_product(A, B):
    """Of 2 x 2 matrices (a, b, c, d)."""
    a, b, c, d = A
    return [a * B[0] + b * B[2], a * B[1] + b * B[3], c * B[0] + d * B[2], c * B[1] + d * B[3]]


def then(f, g):
    """The affine map x -> g(f(x)) of maps (a, b): x -> a x + b."""
    return g[0] * f[0], g[0] * f[1] + g[1]


# Of whole numbers that stay small, so that all results are exact: kinds of elements
TURNS = [[1, 1, 0, 1], [1, 0, -1, 1], [0, -1, 1, 0], [1, 0, 0, 1]]
MONOIDS = {
    "integers": (add, [[-2], [0], [1], [3]]),
    "matrices": (matrix_product, TURNS),
    "affine maps": (then, [[1, 3], [-1, 2], [1, -1], [0, 5]]),
}
ARRAY_SCANS = {name: ArrayScan(f, len(kinds[0])) for name, (f, kinds) in MONOIDS.items()}
MATRICES = ARRAY_SCANS["matrices"]
SUM = ArraySubtreeSum(add, shear, sheared, 2, 2)


def some(kinds, *shape, seed=0):
    kinds = np.array(kinds, float)
    return kinds[np.random.default_rng(seed).integers(0, len(kinds), shape)]


def listed(array):
    """The elements as lists of scalars, which are arrays of states."""
    return [list(np.moveaxis(x, -1, 0)) for x in np.moveaxis(array, -2, 0)]


def same(found, wanted):
    assert_array_equal(found, np.moveaxis(np.array([list(x) for x in wanted]), (0, 1), (-2, -1)))


def loop(combine, elements):
    values = elements[:1]
    for x in elements[1:]:
        values = [*values, combine(values[-1], x)]
    return values


@st.composite
def parents(draw):
    n, reach = draw(lengths), draw(st.sampled_from([1, 2, 40]))
    return tuple(draw(st.integers(max(-1, i - reach), i - 1)) for i in range(n))


# Scans


@pytest.mark.parametrize("name", repeated(["affine maps", "matrices", "integers"]))
@pytest.mark.parametrize("method", SCANS)
@few
@given(n=lengths, batch=batches, reverse=st.booleans(), seed=st.integers(0, 99))
def test_scans_are_equal(name, method, n, batch, reverse, seed):
    combine, kinds = MONOIDS[name]
    array = some(kinds, *batch, n, seed=seed)
    found = ARRAY_SCANS[name](array, method, reverse)
    same(found, scan(combine, listed(array), method, reverse))
    backwards = lambda a, b: combine(b, a)
    turned = loop(backwards, listed(array)[::-1])[::-1]
    same(found, turned if reverse else loop(combine, listed(array)))


@pytest.mark.parametrize("method", ["blocked", "reduce_then_scan"])
def test_blocks_of_any_size(method):
    array = some(TURNS, 23)
    for block in (1, 4, 23, 30):
        same(MATRICES(array, method, block=block), loop(matrix_product, listed(array)))


def test_short_lists():
    for scanned in (MATRICES, lambda x: MATRICES.paths(x, range(-1, x.shape[-2] - 1))):
        assert scanned(np.zeros((0, 4))).shape == (0, 4)
        assert scanned(np.zeros((2, 0, 4))).shape == (2, 0, 4)
        assert scanned(np.zeros((0, 5, 4))).shape == (0, 5, 4)
        one = some(TURNS, 3, 1)
        assert_array_equal(scanned(one), one)


def test_code_does_not_grow():
    """One step of a scan of any length is one piece of code."""
    for n in (50, 400):
        made = MATRICES._function("scan", MATRICES._forward, {"elements": (n, 4)}, method="blocked")
        run = made.ufunc(np.float64).recorded.loop(1)
        assert len(run.program.codes) == 1


def test_blocks_fill_the_lanes():
    """One state: few vectors are not full, and few operands come from other lanes."""
    made = MATRICES._function("scan", MATRICES._forward, {"elements": (640, 4)}, method="blocked")
    recorded = made.ufunc(np.float64).recorded
    layout = recorded.loop(1).program.layout
    where = assign_lanes(recorded.calls, layout)
    combines = sum(len(group.present) for group in where.groups)
    assert layout.calls == recorded.width
    assert len(where.groups) < 1.4 * combines / recorded.width
    _, operands = allocate(where, recorded.calls, [])
    aligned = np.concatenate([each.aligned for each in operands])
    assert aligned.mean() > 0.7


def test_other_dtypes_and_strides():
    array = some(TURNS, 9)
    wanted = MATRICES(array)
    found = MATRICES(array.astype(np.float32))
    assert found.dtype == np.float32
    assert_array_equal(found, wanted)
    assert_array_equal(MATRICES(array.astype(int).tolist()), wanted)
    assert_array_equal(MATRICES(np.repeat(array, 2, axis=0)[::2]), wanted)


# Trees


def paths(parent):
    """The nodes from the root to each node."""
    result = []
    for i, p in enumerate(parent):
        result.append([*(result[p] if p >= 0 else []), i])
    return result


@pytest.mark.parametrize("method", PATHS | SCANS)
@few
@given(parent=parents(), batch=batches)
def test_path_scans_are_equal(method, parent, batch):
    array = some(TURNS, *batch, len(parent))
    found, elements = MATRICES.paths(array, parent, method), listed(array)
    same(found, path_scan(matrix_product, elements, parent, method))
    same(found, [reduce(matrix_product, [elements[k] for k in path]) for path in paths(parent)])


@pytest.mark.parametrize("method", SUMS | SCANS)
@few
@given(parent=parents(), batch=batches)
def test_subtree_sums_are_equal(method, parent, batch):
    values = some([[1, 2], [-1, 0], [3, 1]], *batch, len(parent))
    moves = some([[1, 1], [-1, 2], [0, 1]], len(parent), seed=1)
    found = SUM(values, moves, parent, method)
    elements, maps = listed(values), listed(moves)
    same(found, subtree_sum(add, shear, sheared, elements, maps, parent, method))
    wanted = [[0.0, 0.0] for _ in parent]
    for path, x in zip(paths(parent), elements, strict=True):
        for node in reversed(path):
            wanted[node] = add(wanted[node], x)
            x = shear(maps[node], x)
    same(found, wanted)


# Block elimination


def system(n, k, *batch, seed=0):
    """D, U of a positive definite block-tridiagonal matrix, and the matrix."""
    rng = np.random.default_rng(seed)
    L = np.zeros((*batch, n * k, n * k))
    for i in range(n):
        own, before = slice(i * k, i * k + k), slice(max(i - 1, 0) * k, i * k)
        L[..., own, own] = rng.normal(size=(*batch, k, k)) + 4 * np.eye(k)
        L[..., own, before] = rng.normal(size=L[..., own, before].shape)
    A = L @ np.swapaxes(L, -1, -2)
    block = lambda i, j: A[..., i * k : i * k + k, j * k : j * k + k]
    D = np.stack([block(i, i) for i in range(n)], -3)
    U = np.stack([block(i, i + 1) for i in range(n - 1)], -3) if n > 1 else D[..., :0, :, :]
    return D, U, A


@pytest.mark.parametrize("method", ELIMINATIONS)
@pytest.mark.parametrize(("size", "rights"), repeated([(2, 3), (1, 1), (3, 1)]))
def test_eliminations_solve(method, size, rights):
    eliminate = ArrayElimination(size, rights)
    for n, batch in [(1, ()), (2, (3,)), (21, ()), (21, (11,))]:
        D, U, A = system(n, size, *batch, seed=n)
        columns = np.random.default_rng(n).normal(size=(*batch, n * size, rights))
        wanted = np.linalg.solve(A, columns)
        shape = (*batch, n, size) if rights == 1 else (*batch, n, size, rights)
        assert_allclose(
            eliminate(D, U, columns.reshape(shape), method), wanted.reshape(shape), rtol=1e-9
        )


def test_elimination_reads_lower_triangles_and_broadcasts():
    D, U, A = system(7, 2)
    right = np.random.default_rng(1).normal(size=(5, 7, 2))
    found = ArrayElimination(2)(np.tril(D), U, right)
    assert_allclose(found, np.linalg.solve(A, right.reshape(5, 14).T).T.reshape(5, 7, 2), rtol=1e-9)


def test_elimination_in_float32():
    D, U, A = system(30, 2)
    right = np.ones((30, 2), np.float32)
    found = ArrayElimination(2)(D.astype(np.float32), U.astype(np.float32), right)
    assert found.dtype == np.float32
    assert_allclose(found.reshape(-1), np.linalg.solve(A, right.reshape(-1)), rtol=1e-3)


def test_no_rows_and_singular_rows():
    none = np.zeros((0, 2, 2))
    assert ArrayElimination(2)(none, none, np.zeros((0, 2))).shape == (0, 2)
    singular = ArrayElimination(1)(np.zeros((3, 1, 1)), np.zeros((2, 1, 1)), np.ones((3, 1)))
    assert not np.isfinite(singular).any()


# What does not fit


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"elements has shape \(3, 5\), wanted \(..., n, 4\)"):
        MATRICES(np.zeros((3, 5)))
    with pytest.raises(ValueError, match=r"elements has shape \(4,\)"):
        MATRICES(np.zeros(4))
    with pytest.raises(ValueError, match="came with 2 parents"):
        MATRICES.paths(np.zeros((3, 4)), [-1, 0])
    with pytest.raises(ValueError, match=r"moves has shape \(2, 2\), wanted \(..., 3, 2\)"):
        SUM(np.zeros((3, 2)), np.zeros((2, 2)), [-1, 0, 1])
    with pytest.raises(ValueError, match=r"off_diagonal has shape \(3, 2, 2\)"):
        ArrayElimination(2)(np.zeros((3, 2, 2)), np.zeros((3, 2, 2)), np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"diagonal has shape \(3, 3, 3\), wanted \(..., n, 2, 2"):
        ArrayElimination(2)(np.zeros((3, 3, 3)), np.zeros((2, 3, 3)), np.zeros((3, 3)))


@pytest.mark.parametrize("n", [0, 3])
def test_wrong_methods(n):
    with pytest.raises(ValueError, match="method is 'fast'"):
        MATRICES(np.zeros((n, 4)), "fast")
    with pytest.raises(ValueError, match="block is 0"):
        MATRICES(np.zeros((n, 4)), block=0)
    with pytest.raises(TypeError, match="block"):
        MATRICES(np.zeros((n, 4)), "brent_kung", block=3)
    with pytest.raises(ValueError, match="method is 'gauss'"):
        ArrayElimination(1)(
            np.zeros((n, 1, 1)), np.zeros((max(n - 1, 0), 1, 1)), np.zeros((n, 1)), "gauss"
        )


def test_wrong_functions():
    with pytest.raises(ValueError, match="combine returns 3 scalars, wanted 4"):
        ArrayScan(lambda a, b: add(a[:3], b[:3]), 4)(np.zeros((3, 4)))
    wrong = ArraySubtreeSum(add, shear, lambda a, b: a[:1], 2, 2)
    with pytest.raises(ValueError, match="compose returns 1 scalars, wanted 2"):
        wrong(np.zeros((3, 2)), np.zeros((3, 2)), [-1, 0, 1], "jumping")
    with pytest.raises(TypeError, match="not known"):
        ArrayScan(lambda a, b: a if a[0] > b[0] else b, 1)(np.zeros((3, 1)))
