"""Scans of lists and trees, and block elimination: equality, order, work and depth."""

import operator
from itertools import accumulate, pairwise, product
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from repetition import examples

import featherlane as fl
from featherlane.algorithms import elimination
from featherlane.algorithms.elimination import ELIMINATIONS, eliminate
from featherlane.algorithms.scan import PATHS, SCANS, SUMS, path_scan, scan, subtree_sum
from featherlane.algorithms.scan.trees import TreeSum, chains, levels
from featherlane.backends.reference import evaluate
from featherlane.program.rewrite import simplify
from featherlane.program.trace import Tracing, following
from featherlane.robot.spatial import crm

few = settings(max_examples=examples(25), deadline=None)
small = st.integers(-3, 3)

# Random monoids: (elements, the operation)


def matrix_product(A, B):
    (a, b), (c, d) = A
    return tuple((a * x + c * y, b * x + d * y) for x, y in B)


def then(f, g):
    """The affine map x -> g(f(x)) of maps (a, b): x -> a x + b."""
    return g[0] * f[0], g[0] * f[1] + g[1]


def raised(f, g):
    """The map g(f(x)) of maps (a, b): x -> max(a, b + x), affine in (max, +)."""
    return max(g[0], g[1] + f[0]), g[1] + f[1]


def moved(a, b):
    """(X, v, a) of b's frame, in which they are relative to a's (Yang, Wu and Pan, section III)."""
    (X, v, c), (Y, w, d) = a, b
    carried = Y @ v
    return Y @ X, carried + w, Y @ c + d + np.array(crm(carried, w))


ROTATIONS = [
    R
    for columns in product(np.vstack([np.eye(3, dtype=int), -np.eye(3, dtype=int)]), repeat=3)
    if round(np.linalg.det(R := np.array(columns))) == 1
]
vectors = st.tuples(*[small] * 6).map(np.array)


@st.composite
def transforms(draw):
    """Plucker transforms of quarter turns and integer shifts: they are exact."""
    x, y, z = draw(st.tuples(small, small, small))
    E, r = draw(st.sampled_from(ROTATIONS)), np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.block([[E, np.zeros((3, 3), int)], [-E @ r, E]])


pairs = st.tuples(small, small)
MONOIDS = {
    "integers": (small, operator.add),
    "strings": (st.text("abcdef", max_size=3), operator.add),
    "matrices": (st.tuples(pairs, pairs), matrix_product),
    "affine maps": (pairs, then),
    "(max, +)": (pairs, raised),
    "motions": (st.tuples(transforms(), vectors, vectors), moved),
}
by_monoid = pytest.mark.parametrize(
    ("elements", "combine"), [pytest.param(*pair, id=name) for name, pair in MONOIDS.items()]
)


def same(result, wanted):
    assert len(result) == len(wanted)
    for x, y in zip(result, wanted, strict=True):
        if isinstance(y, tuple):
            assert all(np.array_equal(a, b) for a, b in zip(x, y, strict=True))
        else:
            assert np.array_equal(x, y)


@st.composite
def parents(draw, most=70):
    """Forests of all shapes: bushy where the parent may be any, long where it is near."""
    n, reach = draw(st.integers(0, most)), draw(st.sampled_from([1, 2, 4, most]))
    return [draw(st.integers(max(-1, i - reach), i - 1)) for i in range(n)]


def word(n):
    """n different letters, so that a product of them shows its order."""
    return [chr(0x4E00 + i) for i in range(n)]


def test_there_are_twenty_four_rotations():
    assert len(ROTATIONS) == 24


# Lists


@by_monoid
@few
@given(st.data())
def test_scans_are_equal(elements, combine, data):
    values = data.draw(st.lists(elements, max_size=70))
    if len(values) > 2:  # else a method could hide behind an operation that is not associative
        a, b, c = values[:3]
        same([combine(combine(a, b), c)], [combine(a, combine(b, c))])
    wanted = list(accumulate(values, combine))
    backwards = list(accumulate(values[::-1], lambda a, b: combine(b, a)))[::-1]
    for method in SCANS:
        same(scan(combine, values, method), wanted)
        same(scan(combine, values, method, reverse=True), backwards)


@pytest.mark.parametrize("method", SCANS)
def test_every_length_in_both_directions(method):
    for n in range(71):
        whole = "".join(letters := word(n))
        assert scan(operator.add, letters, method) == [whole[: i + 1] for i in range(n)]
        assert scan(operator.add, letters, method, reverse=True) == [whole[i:] for i in range(n)]


@pytest.mark.parametrize("method", ["blocked", "reduce_then_scan"])
def test_blocks_of_any_size(method):
    for n, block in product(range(20), range(1, 22)):
        whole = "".join(letters := word(n))
        wanted = [whole[: i + 1] for i in range(n)]
        assert scan(operator.add, letters, method, block=block) == wanted
        assert path_scan(operator.add, letters, range(-1, n - 1), method, block=block) == wanted


class Counted:
    """A string that knows how deep it is, and an operation that counts its calls."""

    calls = 0

    def __init__(self, text, depth=0):
        self.text, self.depth = text, depth

    def __add__(self, other):
        Counted.calls += 1
        return Counted(self.text + other.text, max(self.depth, other.depth) + 1)


def counted(function, n, *args, **options):
    """(combines, depth) of a function of n elements."""
    Counted.calls = 0
    result = function(operator.add, [Counted(x) for x in word(n)], *args, **options)
    return Counted.calls, max((x.depth for x in result), default=0)


def kogge_stone_work(n):
    rounds = ceil(log2(n))
    return n * rounds - 2**rounds + 1


LENGTHS = [*range(1, 34), 63, 64, 65, 70, 127, 128, 1000]


@pytest.mark.parametrize("n", LENGTHS)
def test_work_and_depth_of_scans(n):
    rounds, down = ceil(log2(n)), n.bit_length() - 1
    assert counted(scan, n, "serial") == (n - 1, n - 1)
    assert counted(scan, n, "kogge_stone") == (kogge_stone_work(n), rounds)
    assert counted(scan, n, "brent_kung")[0] == 2 * n - n.bit_count() - down - 1
    assert counted(scan, n, "blelloch")[0] == 2 * (n - 1) - rounds
    for method in ("brent_kung", "blelloch"):
        depth = counted(scan, n, method)[1]
        assert rounds <= depth <= max(2 * rounds - 2, rounds)
        if n == 1 << rounds:
            assert depth == max(2 * rounds - 2, rounds)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("block", [1, 4, 8])
def test_work_and_depth_of_blocks(n, block):
    blocks, block = ceil(n / block), min(n, block)
    work, depth = counted(scan, n, "blocked", block=block)
    assert work == 2 * (n - blocks) - block + 1 + kogge_stone_work(blocks)
    assert depth <= block + ceil(log2(blocks))
    work, depth = counted(scan, n, "reduce_then_scan", block=block)
    blocks = ceil((n - 1) / block)
    if blocks <= 1:
        assert (work, depth) == (n - 1, n - 1)
    else:
        assert work == n - 1 + (blocks - 1) * (block - 1) + kogge_stone_work(blocks)
        assert depth <= 2 * block - 1 + ceil(log2(blocks))


# Trees


def paths(parent):
    """The nodes from the root to each node."""
    result = []
    for i, p in enumerate(parent):
        result.append([*(result[p] if p >= 0 else []), i])
    return result


@by_monoid
@few
@given(st.data(), parents(40))
def test_path_scans_are_equal(elements, combine, data, parent):
    values = [data.draw(elements) for _ in parent]
    wanted = [list(accumulate((values[k] for k in path), combine))[-1] for path in paths(parent)]
    for method in PATHS | SCANS:
        same(path_scan(combine, values, parent, method), wanted)


@few
@given(parents())
def test_path_scans_keep_the_order(parent):
    letters = word(len(parent))
    wanted = ["".join(letters[k] for k in path) for path in paths(parent)]
    for method in PATHS | SCANS:
        assert path_scan(operator.add, letters, parent, method) == wanted


@few
@given(st.data(), parents())
def test_subtree_sums_are_equal(data, parent):
    """Against the definition: what each node of the subtree sends along the path, one by one."""
    values, moves = ([data.draw(pairs) for _ in parent] for _ in range(2))
    wanted = [(0, 0)] * len(parent)
    for path, x in zip(paths(parent), values, strict=True):
        for node in reversed(path):
            wanted[node] = add_pairs(wanted[node], x)
            x = shear(moves[node], x)
    arguments = (add_pairs, shear, sheared, values, moves, parent)
    for method in SUMS | SCANS:
        assert subtree_sum(*arguments, method) == wanted
    for method in ("blocked", "reduce_then_scan"):
        assert subtree_sum(*arguments, method, block=3) == wanted


def add_pairs(x, y):
    return x[0] + y[0], x[1] + y[1]


def shear(m, x):
    """A map of pairs by the matrix [a b; 0 1]: two of them do not commute."""
    return m[0] * x[0] + m[1] * x[1], x[1]


def sheared(a, b):
    return a[0] * b[0], a[0] * b[1] + a[1]


@few
@given(st.data(), parents(25))
def test_forces_of_moving_bodies(data, parent):
    """X^T f inward, where the composites are those that the velocities outward have."""
    X = [data.draw(transforms()) for _ in parent]
    f = [data.draw(vectors) for _ in parent]
    wanted = [np.copy(x) for x in f]
    for i in reversed(range(len(parent))):
        if parent[i] >= 0:
            wanted[parent[i]] += X[i].T @ wanted[i]
    for method in SUMS | SCANS:
        arguments = (operator.add, lambda m, x: m.T @ x, lambda a, b: b @ a, f, X, parent)
        same(subtree_sum(*arguments, method), wanted)


def depths(parent):
    return [len(path) - 1 for path in paths(parent)]


@few
@given(parents())
def test_work_and_depth_on_trees(parent):
    n, d = len(parent), depths(parent)
    work = sum(k > 0 for k in d)
    assert counted(path_scan, n, parent, "serial") == (work, max(d, default=0))
    assert counted(path_scan, n, parent, "levels") == (work, max(d, default=0))
    rounds = ceil(log2(max(d, default=0) + 1))
    assert counted(path_scan, n, parent) == (sum(k.bit_length() for k in d), rounds)


@few
@given(parents())
def test_work_of_subtree_sums(parent):
    d, calls = depths(parent), {"add": 0, "act": 0, "compose": 0}

    def operation(name, function):
        def call(a, b):
            calls[name] += 1
            return function(a, b)

        return call

    operations = [
        operation("add", operator.add),
        operation("act", operator.mul),
        operation("compose", operator.mul),
    ]
    subtree_sum(*operations, d, [1] * len(d), parent)
    jumps = sum(k.bit_length() for k in d)
    assert calls == {
        "add": jumps,
        "act": jumps,
        "compose": jumps - sum(k > 0 for k in d),
    }


@few
@given(parents())
def test_a_path_meets_few_chains(parent):
    pieces = chains(parent)
    assert sorted(k for chain in pieces for k in chain) == list(range(len(parent)))
    for chain in pieces:
        assert [parent[k] for k in chain[1:]] == chain[:-1]
    chain_of = {k: j for j, chain in enumerate(pieces) for k in chain}
    for path in paths(parent):
        assert len({chain_of[k] for k in path}) <= log2(len(parent)) + 1


def test_levels_by_depth():
    assert levels([]) == []
    assert levels([-1, 0, -1, 1, 0]) == [[0, 2], [1, 4], [3]]


def test_a_chain_is_scanned_as_a_list():
    parent = list(range(-1, 69))
    assert counted(path_scan, 70, parent) == counted(scan, 70, "kogge_stone")
    for method in SCANS.keys() - PATHS.keys():
        assert counted(path_scan, 70, parent, method) == counted(scan, 70, method)


@pytest.mark.parametrize(("method", "depth"), [("serial", 64), ("levels", 7), ("jumping", 7)])
def test_many_children_are_summed_in_a_tree(method, depth):
    values = [Counted(x) for x in word(65)]
    first = subtree_sum(
        operator.add,
        lambda m, x: x,
        lambda a, b: None,
        values,
        [None] * 65,
        [-1] + [0] * 64,
        method,
    )[0]
    assert sorted(first.text) == word(65)
    assert first.depth == depth


def test_wrong_calls_of_scans():
    with pytest.raises(ValueError, match=r"'sklansky'; it may be one of serial, kogge_stone"):
        scan(operator.add, [1], "sklansky")
    for method in ("blocked", "reduce_then_scan"):
        with pytest.raises(ValueError, match=r"block is 0"):
            scan(operator.add, [1], method, block=0)
    for method in ("jumping", "brent_kung"):
        with pytest.raises(TypeError, match="block"):
            path_scan(operator.add, [1], [-1], method, block=2)
    with pytest.raises(ValueError, match=r"jumping.*blelloch"):
        path_scan(operator.add, [1], [-1], "euler")
    with pytest.raises(ValueError, match=r"parent\[1\] is 1; it is less than 1, or -1"):
        path_scan(operator.add, [1, 2], [-1, 1])
    with pytest.raises(ValueError, match=r"parent\[0\] is -2"):
        path_scan(operator.add, [1], [-2])
    with pytest.raises(ValueError, match=r"1 elements or moves came with 2 parents"):
        subtree_sum(operator.add, operator.mul, operator.mul, [1, 2], [1], [-1, 0])


# Graphs


def sums(method):
    return fl.trace(lambda x: scan(operator.add, list(x), method), {"x": (64,)})


@pytest.mark.parametrize(
    ("method", "depth"),
    [
        ("serial", 63),
        ("kogge_stone", 6),
        ("brent_kung", 10),
        ("blelloch", 10),
        ("blocked", 11),
        ("reduce_then_scan", 18),
    ],
)
def test_depth_of_a_graph(method, depth):
    graph = sums(method)
    assert graph.cost().depth == depth
    assert_array_equal(evaluate(graph, {"x": np.arange(64.0)})["out"], np.cumsum(np.arange(64)))


@pytest.mark.parametrize("method", ["jumping", "kogge_stone"])
def test_depth_of_subtree_sums_in_a_graph(method):
    """x + m y of a chain: a product and a sum in each round, and as many for the composites."""
    for n in (4, 16, 64):
        parent = range(-1, n - 1)
        graph = fl.trace(
            lambda x, m, parent=parent: subtree_sum(
                operator.add, operator.mul, operator.mul, list(x), list(m), parent, method
            ),
            {"x": (n,), "m": (n,)},
        )
        assert graph.cost().depth == 2 * log2(n)


def test_results_of_maps_need_no_composed_maps():
    """x -> a x + b of 64 places, of which all b are wanted: the first and 8 blocks of up to 8. 63
    products for these; for the totals of 7 blocks 7 of a and 7 of b; 17 of b and 10 of a for the
    scan of totals.
    """
    graph = fl.trace(
        lambda a, b: [x for _, x in scan(then, list(zip(a, b, strict=True)), "reduce_then_scan")],
        {"a": (64,), "b": (64,)},
    )
    assert simplify(graph).op.count("mul") == 63 + 7 * 14 + 27


# Steps


def steps_of(function, *args, **options):
    """What a recorder is told of."""
    told = []

    class Listening(Tracing):
        def call(self, step, *arguments):
            told.append(step)
            return step(*arguments)

    with following(Listening()):
        function(*args, **options)
    return told


@few
@given(parents())
def test_each_combine_is_a_step(parent):
    values = word(len(parent))
    for method in PATHS | SCANS:
        work, _ = counted(path_scan, len(values), parent, method)
        assert steps_of(path_scan, operator.add, values, parent, method) == [operator.add] * work
    for method in SCANS:
        work, _ = counted(scan, len(values), method)
        assert steps_of(scan, operator.add, values, method) == [operator.add] * work


def test_a_move_and_a_sum_are_one_step():
    """On chains; of many children pairs are, and the rest are sums of two."""
    chain, star = range(-1, 63), [-1] + [0] * 9
    arguments = add_pairs, shear, sheared
    values = [(1, 2)] * 64
    steps = steps_of(subtree_sum, *arguments, values, values, chain, "blocked")
    assert steps == [TreeSum.compose_maps] * counted(scan, 64, "blocked")[0]
    steps = steps_of(subtree_sum, *arguments, values, values, chain, "levels")
    assert steps == [TreeSum.add_moved] * 63
    steps = steps_of(subtree_sum, *arguments, values[:10], values[:10], star)
    assert steps == [TreeSum.add_moved] + [TreeSum.add_two_moved] * 4 + [add_pairs] * 4


# Elimination


def system(sizes, seed, right=1):
    """A positive definite block-tridiagonal matrix, its blocks' places and right sides."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum([0, *sizes])
    places = [slice(a, b) for a, b in pairwise(ends)]
    B = np.zeros((ends[-1], ends[-1]))
    for a, b in zip([slice(0, 0), *places], places, strict=False):
        B[b, b] = rng.normal(size=(b.stop - b.start,) * 2)
        B[b, a] = rng.normal(size=(b.stop - b.start, a.stop - a.start))
    return B @ B.T + np.eye(ends[-1]), places, rng.normal(size=(ends[-1], right))


def blocks(A, places):
    D = [A[a, a].tolist() for a in places]
    return D, [A[a, b].tolist() for a, b in pairwise(places)]


methods = pytest.mark.parametrize("method", ELIMINATIONS)


@methods
@few
@given(st.lists(st.integers(1, 6), min_size=1, max_size=33), st.integers(0, 2**32 - 1))
def test_elimination_solves(method, sizes, seed):
    A, places, b = system(sizes, seed)
    x = eliminate(*blocks(A, places), [b[s, 0] for s in places], method)
    assert [len(part) for part in x] == sizes
    assert_allclose(np.concatenate(x), np.linalg.solve(A, b[:, 0]), rtol=0, atol=1e-11)


@methods
@pytest.mark.parametrize("n", range(1, 34))
def test_elimination_of_every_length(method, n):
    A, places, b = system([1 + (5 * i) % 3 for i in range(n)], n)
    x = eliminate(*blocks(A, places), [b[s, 0] for s in places], method)
    assert_allclose(np.concatenate(x), np.linalg.solve(A, b[:, 0]), rtol=0, atol=1e-11)


@methods
@few
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12).filter(any), st.integers(0, 99))
def test_several_right_sides_and_empty_blocks(method, sizes, seed):
    A, places, b = system(sizes, seed, right=3)
    x = eliminate(*blocks(A, places), [b[s].tolist() for s in places], method)
    assert [len(part) for part in x] == sizes
    rows = [row for part in x for row in part]
    assert_allclose(rows, np.linalg.solve(A, b), rtol=0, atol=1e-11)
    x = eliminate(*blocks(A, places), [b[s, 1] for s in places], method)
    assert_allclose(np.concatenate(x), np.array(rows)[:, 1], rtol=0, atol=1e-12)


@methods
def test_elimination_of_nothing(method):
    assert eliminate([], [], [], method) == []
    assert eliminate([[], []], [[]], [[], []], method) == [[], []]


@methods
def test_only_lower_triangles_are_read(method):
    A, places, b = system([3] * 5, 0)
    D, U = blocks(A, places)
    rough = [
        [[x if j <= i else np.nan for j, x in enumerate(row)] for i, row in enumerate(B)] for B in D
    ]
    right = [b[s, 0] for s in places]
    assert eliminate(rough, U, right, method) == eliminate(D, U, right, method)


@methods
def test_arrays_and_graphs_as_scalars(method):
    """A batch of systems is solved at once, and a graph gives the numbers of the floats."""
    A, places, b = zip(*[system([2, 1, 3, 2, 2], seed) for seed in range(4)], strict=True)
    A, b, places = np.moveaxis(A, 0, -1), np.moveaxis(b, 0, -1)[:, 0], places[0]

    def solved(A, b):
        D = [[list(row) for row in A[a, a]] for a in places]
        U = [[list(row) for row in A[a, c]] for a, c in pairwise(places)]
        return [x for part in eliminate(D, U, [b[a] for a in places], method) for x in part]

    x = np.array(solved(A, b))
    for k in range(4):
        assert_allclose(A[..., k] @ x[:, k], b[:, k], rtol=0, atol=1e-12)
    graph = fl.trace(
        lambda A, b: solved(np.reshape(np.array(list(A), object), (10, 10)), list_array(b)),
        {"A": (100,), "b": (10,)},
    )
    result = evaluate(graph, {"A": A[..., 1].ravel(), "b": b[:, 1]})["out"]
    assert_allclose(result, x[:, 1], rtol=1e-12)


def list_array(x):
    return np.array(list(x), object)


def tridiagonal_depth(n, method):
    def solved(d, u, b):
        return [
            x for (x,) in eliminate(*[[[[x]] for x in s] for s in (d, u)], [[x] for x in b], method)
        ]

    return fl.trace(solved, {"d": (n,), "u": (n - 1,), "b": (n,)}).cost().depth


def test_depth_of_elimination():
    """Odd-even: a reciprocal, 4 deep with the test of its pivot, two products and two differences
    for each power of two. Cyclic reduction has the way back besides; the serial method a way for
    each row.
    """
    depths = {m: np.array([tridiagonal_depth(2**k, m) for k in range(2, 7)]) for m in ELIMINATIONS}
    assert set(np.diff(depths["odd_even"])) == {8}
    assert set(np.diff(depths["cyclic_reduction"])) == {12}
    assert depths["serial"][-1] >= 6 * 64 - 6
    assert depths["odd_even"][-1] < depths["cyclic_reduction"][-1] < depths["serial"][-1] / 5


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 33])
def test_work_of_elimination(monkeypatch, n):
    """Blocks eliminated, of each the lower triangle alone."""
    count = []
    whole = elimination.eliminate_row

    def eliminate_row(D, *rest):
        assert [len(row) for row in D] == [1, 2]
        count.append(D)
        return whole(D, *rest)

    monkeypatch.setattr(elimination, "eliminate_row", eliminate_row)
    A, places, b = system([2] * n, 0)
    coupled = [min(n, 2 * (n - 2**k)) for k in range(ceil(log2(n)))]
    wanted = {"serial": n, "odd_even": sum(coupled) + n, "cyclic_reduction": n}
    for method in ELIMINATIONS:
        count.clear()
        eliminate(*blocks(A, places), [b[s, 0] for s in places], method)
        assert len(count) == wanted[method], method


@methods
def test_singular_systems_give_no_numbers(method):
    zero = [[np.zeros(2)]]
    with np.errstate(all="ignore"):
        x = eliminate([zero, zero], [[[np.ones(2)]]], [[np.ones(2)]] * 2, method)
    assert not np.isfinite(x).any()
    with pytest.raises(ZeroDivisionError):
        eliminate([[[0.0]]], [], [[1.0]], method)


@pytest.mark.parametrize(
    ("D", "U", "right", "message"),
    [
        ([[[1.0]]], [[[1.0]]], [[1.0]], "1 diagonal blocks came with 1 off-diagonal"),
        ([[[1.0]]], [], [], "1 block rows came with 0 right sides"),
        ([[[1.0, 2.0]]], [], [[1.0]], r"diagonal\[0\] is not square"),
        ([[[1.0]]], [], [[1.0, 2.0]], r"right\[0\] has 2 rows; wanted 1"),
        ([[[1.0]]] * 2, [[[1.0, 2.0]]], [[1.0]] * 2, r"off_diagonal\[0\] is not 1 x 1"),
    ],
)
def test_wrong_calls_of_elimination(D, U, right, message):
    with pytest.raises(ValueError, match=message):
        eliminate(D, U, right)


def test_an_unknown_elimination():
    with pytest.raises(ValueError, match=r"'thomas'; it may be one of serial, odd_even"):
        eliminate([], [], [], "thomas")
