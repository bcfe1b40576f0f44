"""Scans of arrays against the same scans of lists, and inverse dynamics of long robots by them."""

import os
from pathlib import Path

import numpy as np
import pytest
import textbook
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl
from featherlane import compiled, linkscan
from featherlane.algorithms.scan import PATHS, SCANS, path_scan, scan, subtree_sum
from featherlane.linkscan import ArrayScan, ArraySubtreeSum, array_scan
from featherlane.linkscan.blocks import BlockedInverseDynamics, is_chain
from featherlane.linkscan.inverse import ScannedInverseDynamics
from featherlane.linkscan.plan import MOVES, path_plan, scan_plan, sum_plan

few = settings(max_examples=15, deadline=None)
ALL = [*PATHS, *(name for name in SCANS if name not in PATHS)]


def matrix_product(A, B):
    """Of 2 x 2 matrices (a, b, c, d) of whole numbers: exact, associative, and does not commute."""
    a, b, c, d = A
    e, f, g, h = B
    return [a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h]


def add(x, y):
    return [x[0] + y[0], x[1] + y[1]]


def act(A, x):
    return [A[0] * x[0] + A[1] * x[1], A[2] * x[0] + A[3] * x[1]]


SCAN = ArrayScan(matrix_product, 4)
SUM = ArraySubtreeSum(add, act, matrix_product, 2, 4)


def matrices(*shape, seed=0):
    """Shears and quarter turns: their products stay whole, and mostly small."""
    kinds = np.array([[1, 1, 0, 1], [1, 0, -1, 1], [0, -1, 1, 0], [1, 0, 0, 1]], float)
    return kinds[np.random.default_rng(seed).integers(0, len(kinds), shape)]


def listed(array):
    """The nodes as lists of scalars, which are arrays of states."""
    return [list(np.moveaxis(x, -1, 0)) for x in array]


def same(found, wanted):
    assert found.shape == (len(wanted), *found.shape[1:])
    for x, y in zip(found, wanted, strict=True):
        assert_array_equal(np.moveaxis(x, -1, 0), np.array(y))


@st.composite
def parents(draw, most=40):
    n, reach = draw(st.integers(1, most)), draw(st.sampled_from([1, 2, 4, most]))
    return [draw(st.integers(max(-1, i - reach), i - 1)) for i in range(n)]


# Scans of arrays


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("method", SCANS)
def test_arrays_are_scanned_as_lists(method, reverse):
    for n in (1, 2, 3, 7, 8, 9, 30):
        array = matrices(n, 3, seed=n)
        wanted = scan(matrix_product, listed(array), method, reverse)
        same(SCAN(array, method, reverse), wanted)


def test_no_elements():
    assert SCAN(np.zeros((0, 3, 4))).shape == (0, 3, 4)
    assert SCAN(np.zeros((5, 0, 4))).shape == (5, 0, 4)
    assert SUM(np.zeros((0, 2)), np.zeros((0, 4)), []).shape == (0, 2)


def test_states_have_any_shape_and_stay_as_they_are():
    array = matrices(20, 2, 3)
    before = array.copy()
    found = SCAN(array, "blocked", block=3)
    assert found.shape == array.shape
    assert_array_equal(array, before)
    for at in np.ndindex(2, 3):
        assert_array_equal(found[(slice(None), *at)], SCAN(array[(slice(None), *at)]))


def test_in_float32():
    array = matrices(9)
    found = array_scan(matrix_product, array.astype(np.float32))
    assert found.dtype == np.float32
    assert_array_equal(found, SCAN(array))


@few
@given(parents(), st.sampled_from(ALL))
def test_paths_are_scanned_as_lists(parent, method):
    array = matrices(len(parent), 2)
    wanted = path_scan(matrix_product, listed(array), parent, method)
    same(SCAN.paths(array, parent, method), wanted)


@few
@given(parents(), st.sampled_from(ALL))
def test_subtrees_are_summed_as_lists(parent, method):
    moves, array = matrices(len(parent), 2), matrices(len(parent), 2, seed=1)[..., :2]
    wanted = subtree_sum(add, act, matrix_product, listed(array), listed(moves), parent, method)
    same(SUM(array, moves, parent, method), wanted)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"elements has shape \(3, 5\), wanted \(n, ..., 4\)"):
        SCAN(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="for 2 parents"):
        SCAN.paths(np.zeros((3, 4)), [-1, 0])
    with pytest.raises(ValueError, match="moves has shape"):
        SUM(np.zeros((3, 2)), np.zeros((3, 1, 4)), [-1, 0, 1])
    with pytest.raises(ValueError, match="method is 'fast'"):
        SCAN(np.zeros((3, 4)), "fast")
    with pytest.raises(ValueError, match="combine returns 3 scalars, wanted 4"):
        ArrayScan(lambda a, b: [x * y for x, y in zip(a[:3], b[:3], strict=True)], 4)


# Plans


def test_kogge_stone_is_a_slice_in_each_round_and_takes_no_more_rows():
    n = 100
    for plan in (
        scan_plan(n, "kogge_stone", False, ()),
        path_plan((*range(-1, n - 1),), "jumping"),
    ):
        assert plan.rows == {"elements": n, MOVES: 0}
        assert len(plan.rounds) == 7  # log2 of 100
        for k, one in enumerate(plan.rounds):
            assert one.results == slice(1 << k, n, 1)
            assert [index for _, index in one.operands] == [
                slice(0, n - (1 << k), 1),
                slice(1 << k, n, 1),
            ]


def test_rounds_are_as_many_as_the_method_is_deep():
    n = 128
    rounds = lambda plan: len(plan.rounds)
    chain, comb = (*range(-1, n - 1),), (-1, *(i - 1 - i % 2 for i in range(n - 1)))
    assert rounds(scan_plan(n, "serial", False, ())) == n - 1
    assert rounds(scan_plan(n, "brent_kung", True, ())) == 12
    assert rounds(scan_plan(n, "blocked", False, (("block", 8),))) == 7 + 4 + 1
    assert rounds(path_plan(chain, "levels")) == n - 1
    assert rounds(sum_plan(chain, "jumping")) == 3 * 7 - 1
    assert rounds(path_plan(comb, "jumping")) == 6


@pytest.mark.parametrize("method", ["jumping", "levels", "blelloch", "blocked"])
def test_rows_grow_with_the_nodes(method):
    """Not with nodes times rounds: places are used again."""
    for parent in ((*range(-1, 299),), (-1, *(i // 2 for i in range(299)))):
        for plan in (path_plan(parent, method), sum_plan(parent, method)):
            assert all(rows <= 3 * len(parent) for rows in plan.rows.values())


# Inverse dynamics

SINGLE = ("revolute", "prismatic", "helical", "universal")
TREES = {
    "chain": fl.chain(30, 1),
    "tree": fl.random_tree(20, 1.7, SINGLE, seed=2, roots=2, physics=True),
    "alike": fl.chain(9, 3, ("prismatic",)),
    "one": fl.chain(1, 3),
}


@pytest.fixture(params=TREES)
def model(request, monkeypatch):
    """Robots that count as long."""
    monkeypatch.setattr(compiled, "LONG", 1)
    return fl.Model(**TREES[request.param]._fields())  # without the functions of other tests


def sample(model, batch, dtype=np.float64):
    rng = np.random.default_rng(0)
    q = model.random_configuration(batch, seed=rng)
    return [x.astype(dtype) for x in (q, *rng.normal(size=(2, *q.shape[:-1], model.nv)))]


def test_scans_are_the_textbook(model):
    q, v, a = sample(model, 7)
    function = model.function("inverse_dynamics", method="scan")
    kind = BlockedInverseDynamics if is_chain(model.tree) else ScannedInverseDynamics
    assert isinstance(function.ufunc(float), kind)
    wanted = textbook.rnea(model, q, v, a)
    tau = model.inverse_dynamics(q, v, a, method="scan")
    assert_allclose(tau, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    single = model.inverse_dynamics(*(x.astype(np.float32) for x in (q, v, a)), method="scan")
    assert single.dtype == np.float32
    assert_allclose(single, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("method", ALL)
def test_every_scan_gives_the_same(method):
    for name in ("chain", "tree"):
        q, v, a = sample(model := TREES[name], 3)
        tau = np.empty_like(v)
        ScannedInverseDynamics(model.tree, float, method)(q, v, a, out=(tau,))
        wanted = textbook.rnea(model, q, v, a)
        assert_allclose(tau, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def test_states_do_not_depend_on_their_place(model, monkeypatch):
    q, v, a = sample(model, 37)
    scanned = lambda *x, **options: model.inverse_dynamics(*x, method="scan", **options)
    tau = scanned(q, v, a)
    assert_array_equal(scanned(q[5], v[5], a[5]), tau[5])
    assert_array_equal(scanned(q[30:], v[30:], a[30:], threads=2), tau[30:])
    out = np.empty((model.nv, 37)).T  # not contiguous
    assert scanned(q, v, a, out=out) is out
    assert_array_equal(out, tau)
    assert_array_equal(scanned(q[:, None], v[:2], a[0])[4, 1], scanned(q[4], v[1], a[0]))
    assert scanned(q[:0], v[:0], a[:0]).shape == (0, model.nv)
    monkeypatch.setattr(linkscan.inverse, "WORKING", 1)
    other = fl.Model(**model._fields())
    assert_array_equal(other.inverse_dynamics(q, v, a, method="scan"), tau)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15, 16, 17, 33, 130])
def test_chains_are_cut_in_blocks_of_any_length(n):
    """Lanes without a block of their own, and a last block that is shorter."""
    model = fl.random_tree(n, 1.0, ("revolute", "prismatic", "helical"), seed=n, physics=True)
    assert is_chain(model.tree)
    q, v, a = sample(model, 2)
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
        tau = np.empty(v.shape, dtype)
        x = [x.astype(dtype) for x in (q, v, a)]
        BlockedInverseDynamics(model.tree, dtype)(*x, out=(tau,))
        wanted = textbook.rnea(model, *(y.astype(float) for y in x))
        assert_allclose(tau, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


def test_code_does_not_grow_with_the_links():
    """A longer chain, or a larger tree, compiles nothing that a shorter one has not."""
    folder = Path(os.environ["FEATHERLANE_CACHE"])

    def compiled_for(n):
        for branching in (1.0, 2.0):
            tree = fl.random_tree(n, branching, ("revolute",), seed=1).tree
            linkscan.FUNCTIONS["inverse_dynamics"](tree, float)
        return {path.name for path in folder.rglob("*") if path.is_file()}

    assert compiled_for(20) == compiled_for(200)


def test_threads_have_memory_of_their_own():
    model = fl.chain(300, 1)
    q, v, a = 0.1 * np.random.default_rng(0).normal(size=(3, 200, 300))
    scanned = lambda *x, **options: model.inverse_dynamics(*x, method="scan", **options)
    assert_array_equal(scanned(q, v, a, threads=4), scanned(q, v, a, threads=1))


def test_what_has_no_steps_is_refused():
    long = fl.chain(130, 1)
    x = np.zeros(130)
    with pytest.raises(ValueError, match=r"'scan' of inverse_dynamics is here .* give 'serial'"):
        long.inverse_dynamics(x, x, x, np.zeros((130, 6)), method="scan")
    with pytest.raises(ValueError, match="one piece of code"):
        long.inverse_dynamics_derivatives(x, x, x, method="scan")
    with pytest.raises(ValueError, match=r"'jsiia' of forward_dynamics .* give 'aba'"):
        long.forward_dynamics(x, x, x, method="jsiia")


@pytest.mark.parametrize(
    ("long", "states"),
    [
        pytest.param(lambda: fl.chain(1000, 1), 3, id="chain"),
        pytest.param(
            lambda: fl.random_tree(400, 1.3, ("revolute", "prismatic"), seed=4), 4, id="tree"
        ),
    ],
)
def test_long_robots(long, states):
    model = long()
    rng = np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, states, model.nv))
    wanted = model.inverse_dynamics(q, v, a)
    tau = model.inverse_dynamics(q, v, a, method="scan")
    assert_allclose(tau, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())
