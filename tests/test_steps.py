"""Recorded calls: that they mean what was called, and that machine code gives the same bits in
every layout.
"""

import gc
import operator
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from ctypes import CFUNCTYPE, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from repetition import examples, repeated

import featherlane as fl
from featherlane.algorithms import rnea
from featherlane.algorithms.parallel import scanned_inverse_dynamics
from featherlane.backends.cpu import linked as host
from featherlane.backends.cpu.steps.batching import LaneLayout
from featherlane.backends.cpu.steps.run import LoadedSteps, StepEvaluator, block_length
from featherlane.backends.cpu.steps.scratch import KEPT
from featherlane.backends.llvm import jit
from featherlane.backends.reference import evaluate
from featherlane.program.call_list import call_list
from featherlane.program.lower import lower
from featherlane.program.nested import Fixed, build, flatten
from featherlane.program.node import Node
from featherlane.program.program import GraphFunction, Program
from featherlane.program.trace import STEPS, program_of
from featherlane.robot.spatial import Rotation
from featherlane.scalar import call, cos, sin

few = settings(max_examples=25, deadline=None)
DTYPES = [np.dtype(np.float64), np.dtype(np.float32)]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


# What recordings mean: by the interpreter of graphs


def recorded(function, inputs):
    return program_of(function, inputs, STEPS)


def meaning(program, *arrays, dtype=float):
    """The outputs, by the interpreter."""
    named = dict(zip(program.inputs, arrays, strict=True))
    return list(evaluate(program, named, dtype).values())


def as_compiled(program, dtype=None):
    """What is compiled: the calls that are left, lowered for a dtype."""
    left = lower(program, "cpu steps", dtype)
    if dtype is None:
        return left
    graphs = [lower(Program(f.graph), "cpu", dtype).main for f in left.functions]
    return Program(left.main, tuple(GraphFunction("", graph) for graph in graphs))


def same_bits(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        assert_array_equal(x, y)
        finite = ~np.isnan(x)
        assert_array_equal(np.signbit(x)[finite], np.signbit(y)[finite])


def running(program, layout, dtype):
    calls = call_list(lower(program, "cpu steps", dtype))
    graphs = [lower(Program(f.graph), "cpu", dtype).main for f in calls.functions]
    return LoadedSteps(calls, graphs, layout, dtype)


def run(made, *arrays):
    """A tuple of results."""
    with np.errstate(all="ignore"):
        found = made.ufunc(*arrays)
    return found if isinstance(found, tuple) else (found,)


# Programs of steps


class Body:
    """A plain object, which is taken apart."""

    def __init__(self, a, rest):
        self.a, self.rest = a, rest


def sheared(x, k):
    return x[0] + k * x[1], x[1]


def exchanged(x):
    return x[1], x[0]


def combined(x, y, how):
    return [a + b if how == "sum" else a - b for a, b in zip(x, y, strict=True)]


def packed(x, y):
    return Body(x[0] - y[1], {"c": y[0], "d": 3.0})


def unpacked(body, k):
    return body.a * k, body.rest["c"] - body.rest["d"]


def spread(x, k):
    """Five scalars of which others read some, one that no state changes."""
    return x[0] + x[1], x[0] - x[1], 2.0 * x[0] - k, -x[1], k + 1.0


def total(pairs, count):
    return sum(p[0] for p in pairs[:count]), pairs[0][1] * 2.0


def bent(x, k):
    return sin(x[0]) + k, x[1] / (2.0 + cos(x[0]))


class Toy(NamedTuple):
    """A program: instructions (kind, operands, constant), and which pairs are results.

    Pairs are numbered from the last one back.
    """

    count: int
    instructions: list[tuple[str, tuple[int, int], int]]
    results: list[int]
    scale: float

    @property
    def inputs(self):
        return {"x": (self.count, 2), "y": (2,), "z": ()}

    def __call__(self, x, y, z):
        pairs = [*x, y, (z, 1.0), (0.5, z)]
        for kind, (i, j), n in self.instructions:
            a, b = (pairs[-1 - k % len(pairs)] for k in (i, j))
            pairs.append(self.instruct(kind, a, b, n * self.scale, n, pairs))
        chosen = [pairs[-1 - k % len(pairs)] for k in self.results]
        return {"first": [list(p) for p in chosen], "second": chosen[0][0]}

    @staticmethod
    def instruct(kind, a, b, k, n, pairs):
        if kind == "spread":
            five = call(spread, a, k)
            return five[n % 5], five[(n + 2) % 5]
        kinds = {
            "sheared": lambda: call(sheared, a, k),
            "exchanged": lambda: call(exchanged, tuple(b)),
            "sum": lambda: call(combined, a, b, "sum"),
            "difference": lambda: call(combined, b, a, "difference"),
            "unpacked": lambda: call(unpacked, call(packed, a, b), k),
            "total": lambda: call(total, pairs[-3:], 1 + n % 3),
            "settled": lambda: call(sheared, (1.0, 2.0), k),
            "bare": lambda: (a[0] - b[1], -a[1] * k),
            "bent": lambda: call(bent, a, k),
        }
        return kinds[kind]()

    def arrays(self, batch, dtype=float, whole=False):
        rng = np.random.default_rng(0)
        draw = lambda *shape: rng.integers(-8, 9, shape) if whole else rng.normal(size=shape)
        return [draw(batch, *shape).astype(dtype) for shape in self.inputs.values()]


EXACT = ["sheared", "exchanged", "sum", "difference", "unpacked", "spread", "total", "settled"]


@st.composite
def toys(draw, exact=False):
    """exact: whole numbers stay whole, and small."""
    kind = st.sampled_from([*EXACT, "bare", *([] if exact else ["bent"])])
    back = st.one_of(st.integers(0, 2), st.integers(0, 30))
    instruction = st.tuples(kind, st.tuples(back, back), st.integers(-2, 2))
    most = 12 if exact else 30
    instructions = draw(st.lists(instruction, max_size=most))
    results = draw(st.lists(back, min_size=1, max_size=4))
    return Toy(draw(st.integers(1, 5)), instructions, results, 1.0 if exact else 0.7)


@settings(max_examples=examples(150), deadline=None)
@given(toys(exact=True))
def test_recording_is_calling(toy):
    calls = recorded(toy, toy.inputs)
    arrays = toy.arrays(2, whole=True)
    wanted = [np.array([toy(*(x[n].tolist() for x in arrays))[k] for n in range(2)]) for k in KEYS]
    for found in (meaning(calls, *arrays), meaning(as_compiled(calls), *arrays)):
        for x, y in zip(found, wanted, strict=True):
            assert_array_equal(x, y)


KEYS = ("first", "second")


def layouts(dtype):
    """Widths, and how many states a call has of them."""
    widest = jit.widest(dtype)
    widths = sorted({1, 2, widest})
    return [(w, s) for w in widths for s in (1, 2, 4, 8, 16) if s <= w]


@few
@given(toys(), st.data(), st.sampled_from(DTYPES), st.sampled_from([1, 2, 5]))
def test_machine_code_is_the_interpreter_to_the_bit(toy, data, dtype, span):
    width, states = data.draw(st.sampled_from(layouts(dtype)))
    calls, arrays = recorded(toy, toy.inputs), toy.arrays(2 * states + 1, dtype)
    made = running(calls, LaneLayout(width, states, span), dtype)
    same_bits(run(made, *arrays), meaning(as_compiled(calls, dtype), *arrays, dtype=dtype))


def dynamics(name):
    """Inverse dynamics of a robot: serial on all types of joints, and a scan."""
    if name == "serial":
        model, algorithm = fl.random_tree(9, 1.7, seed=2, roots=2, physics=True), rnea
    else:
        model, algorithm = fl.chain(21, 3), scanned_inverse_dynamics
    calls = recorded(
        lambda q, v, a: algorithm(model.tree, q, v, a),
        {"q": (model.nq,), "v": (model.nv,), "a": (model.nv,)},
    )
    rng = np.random.default_rng(1)
    q = model.random_configuration(2 * 16 + 3, seed=rng)
    return model, calls, [q, *rng.normal(size=(2, len(q), model.nv))]


@pytest.fixture(scope="module")
def scan():
    return dynamics("scan")


@pytest.mark.parametrize("dtype", repeated(DTYPES), ids=str)
@pytest.mark.parametrize("name", repeated(["scan", "serial"]))
def test_dynamics_have_the_same_bits_in_every_layout(name, dtype):
    _, calls, arrays = dynamics(name)
    arrays = [x.astype(dtype) for x in arrays]
    wanted = meaning(as_compiled(calls, dtype), *arrays, dtype=dtype)
    width = jit.widest(dtype)
    for states, span in ((1, 3), (2, 1), (width // 2, 2), (width, 1)):
        made = running(calls, LaneLayout(width, states, span), dtype)
        same_bits(run(made, *arrays), wanted)


# Arrays


@pytest.fixture(scope="module", params=[1, 2, 0], ids=["one", "two", "full"])
def code(scan, request):
    """Of scanned inverse dynamics, with so many states in a vector."""
    width = jit.widest(float)
    states = request.param or width
    return running(scan[1], LaneLayout(width, states, 2), np.dtype(float))


def test_a_state_has_its_bits_in_every_batch_and_place(scan, code):
    arrays = scan[2]
    (wanted,) = run(code, *arrays)
    for rows in (slice(0, 1), slice(5, 6), slice(3, 20), slice(None, None, -1), slice(1, 30, 7)):
        same_bits(run(code, *[x[rows] for x in arrays]), [wanted[rows]])
    same_bits(run(code, *[x[4] for x in arrays]), [wanted[4]])


def test_arrays_of_any_memory_order(scan, code):
    arrays = scan[2]
    wanted = run(code, *arrays)
    padded = [np.pad(x, ((0, 0), (3, 2)))[:, 3:-2] for x in arrays]
    apart = [np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3] for x in arrays]
    swapped = [x.astype(">f8") for x in arrays]
    unaligned = [np.frombuffer(b"\1" + x.tobytes(), np.uint8)[1:] for x in arrays]
    unaligned = [u.view(float).reshape(x.shape) for u, x in zip(unaligned, arrays, strict=True)]
    assert not unaligned[0].flags.aligned
    for given_arrays in (map(np.asfortranarray, arrays), padded, apart, swapped, unaligned):
        same_bits(run(code, *given_arrays), wanted)


def test_results_go_where_they_are_wanted(scan, code):
    arrays = scan[2]
    (wanted,) = run(code, *arrays)
    place = np.full((wanted.shape[1], 3, len(wanted)), 7.0)
    out = place[:, 1].T
    assert code.ufunc(*arrays, out=out) is out
    assert_array_equal(out, wanted)
    assert (place[:, [0, 2]] == 7).all()


def test_leading_dimensions_broadcast(scan, code):
    q, v, a = scan[2]
    (found,) = run(code, q[:5, None], v[None, :3], a[7])
    assert found.shape == (5, 3, v.shape[1])
    for i, j in np.ndindex(5, 3):
        same_bits(run(code, q[i], v[j], a[7]), [found[i, j]])


def test_results_may_overlap_what_is_read(scan, code):
    q, v, a = scan[2]
    (wanted,) = run(code, q, v, a)
    own = a.copy()
    code.ufunc(q, v, own, out=own)
    assert_array_equal(own, wanted)
    line = np.concatenate([a, a[:1]])
    code.ufunc(q, v, line[:-1], out=line[1:])
    assert_array_equal(line[1:], wanted)


def test_no_states(scan, code):
    n = scan[0].nv
    assert run(code, *[np.zeros((0, n))] * 3)[0].shape == (0, n)
    assert run(code, *[np.zeros((4, 0, n))] * 3)[0].shape == (4, 0, n)


def test_what_is_not_finite_stays_in_its_state(scan, code):
    arrays = [x.copy() for x in scan[2]]
    (before,) = run(code, *arrays)
    arrays[0][3, 2], arrays[1][10, 0], arrays[2][17] = np.nan, np.inf, -np.inf
    (after,) = run(code, *arrays)
    spoilt = [3, 10, 17]
    assert (~np.isfinite(after[spoilt])).any(-1).all()
    others = np.delete(np.arange(len(after)), spoilt)
    same_bits([after[others]], [before[others]])
    same_bits(run(code, *scan[2]), [before])  # nor does it stay in the memory


def test_threads_have_memory_of_their_own(scan, code):
    """More at a time than memories are kept."""
    arrays, count = scan[2], KEPT + 4
    (wanted,) = run(code, *arrays)
    together = threading.Barrier(count)

    def work(n):
        own = [np.roll(x, n, 0) for x in arrays]
        together.wait()
        return [run(code, *own)[0] for _ in range(20)]

    with ThreadPoolExecutor(count) as pool:
        for n, found in enumerate(pool.map(work, range(count))):
            for x in found:
                assert_array_equal(x, np.roll(wanted, n, 0))


def test_results_of_any_shape_numbers_and_inputs_among_them():
    def function(x, y):
        return {"T": call(combined, x[0], y, "sum")[0], "both": [x[1], [2.5, y[1]]], "one": [y[0]]}

    calls = recorded(function, {"x": (2, 2), "y": (2,)})
    x, y = np.arange(12.0).reshape(3, 2, 2), np.arange(6.0).reshape(3, 2)
    for states in (1, 2):
        T, both, one = run(running(calls, LaneLayout(2, states), np.dtype(float)), x, y)
        assert_array_equal(T, x[:, 0, 0] + y[:, 0])
        assert_array_equal(both[:, 0], x[:, 1])
        assert_array_equal(both[:, 1], np.stack([np.full(3, 2.5), y[:, 1]], -1))
        assert_array_equal(one, y[:, :1])


# How the batch chooses the layout


def test_states_share_a_vector_as_soon_as_there_are_enough(scan):
    _, calls, arrays = scan
    width = jit.widest(float)
    for wide in (False, True):
        function = StepEvaluator(calls, float, wide)
        assert function.single is None
        wanted = run(function.loop(width), *arrays)[0]
        for batch in (1, 2, 3, width, width + 1):
            found = np.empty((batch, scan[0].nv))
            function(*[x[:batch] for x in arrays], out=[found])
            same_bits([found], [wanted[:batch]])
        for batch, states in ((1, 1), (3, min(4, width)), (width + 1, width)):
            layout = function.loop(batch).program.layout
            assert (layout.width, layout.states) == (width if wide else states, states)
        assert function.loop(width + 1) is function.loop(width)
        assert function.single is function.loop(1)


# Size


def in_blocks(tree, *state):
    block = block_length(tree.nbodies, float)
    return scanned_inverse_dynamics(tree, *state, method="reduce_then_scan", block=block)


@pytest.mark.parametrize("states", repeated([1, jit.widest(float)]))
@pytest.mark.parametrize("algorithm", repeated([in_blocks, rnea]))
def test_code_stays_and_programs_grow_with_the_links(algorithm, states):
    """Of a chain of twice as many links."""

    def sizes(n):
        tree, shapes = fl.chain(n, 1).tree, dict.fromkeys("qva", (n,))
        calls = recorded(lambda q, v, a: algorithm(tree, q, v, a), shapes)
        layout = LaneLayout(jit.widest(float), states, block_length(n, float) * states)
        work = running(calls, layout, np.dtype(float)).program
        return len(work.codes), len(work.words), len(work.constants), work.size

    codes, *grown = np.array([sizes(n) for n in (64, 128, 256)]).T
    assert codes[2] <= codes[0] < 40  # vectors of fewer lanes take a few more
    for first, second, third in grown:
        assert third - second < 2.2 * (second - first)
        assert third < 4.4 * first


def test_memory_is_used_again():
    """A loop over many links keeps no more than what is alive."""

    def function(x):
        for _ in range(300):
            x = call(combined, x, call(exchanged, call(sheared, x, 0.5)), "sum")
        return x

    calls = recorded(function, {"x": (2,)})
    for states in (1, 4):
        made = running(calls, LaneLayout(4, states), np.dtype(float))
        assert sum(calls.times()) == 600
        assert made.program.size <= 40 * 4


def test_memory_is_freed(scan, monkeypatch):
    """Each memory that code takes is kept for the next call, and given back with the code."""
    taken, lock, allocated = [], threading.Lock(), {}
    symbols = host.symbols()
    new = CFUNCTYPE(c_void_p, c_size_t)(symbols["scratch_new"])
    free = CFUNCTYPE(None, c_void_p)(symbols["scratch_free"])

    @CFUNCTYPE(c_void_p, c_size_t)
    def take(size):
        at = new(size)
        with lock:
            taken.append(size)
            allocated[at] = size
        return at

    @CFUNCTYPE(None, c_void_p)
    def give(at):
        with lock:
            del allocated[at]
        free(at)

    address = lambda function: operator.index(c_void_p.from_buffer(function).value)
    counted = symbols | {"scratch_new": address(take), "scratch_free": address(give)}
    monkeypatch.setattr(host, "symbols", lambda: counted)
    _, calls, arrays = scan
    made = running(calls, LaneLayout(4, 4), np.dtype(float))
    for _ in range(3):
        run(made, *arrays)
    assert len(taken) == len(allocated) == 1
    assert taken[0] >= made.program.size * 8
    with ThreadPoolExecutor(KEPT + 5) as pool:
        for future in [pool.submit(run, made, *arrays) for _ in range(100)]:
            future.result()
    del future
    assert 1 <= len(allocated) <= KEPT
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None
    assert not allocated


# Steps


def names(calls):
    """How often each step was called."""
    return dict(zip([f.name for f in calls.functions], calls.times(), strict=True))


def test_a_step_is_traced_once_for_each_form():
    traced = []

    def scaled(x, k, how):
        traced.append(how)
        return [a * k for a in x]

    def function(x, y):
        for k in (2.0, 3.0, 4.0):
            x = call(scaled, x, k, "far")
        x = call(scaled, x, y, "far")  # a number or not: a clone may come later
        x = call(scaled, tuple(x), y, "far")
        return call(scaled, call(scaled, x, 5.0, "near"), 6.0, "near")

    calls = recorded(function, {"x": (2,), "y": ()})
    assert traced == ["far", "far", "near"]
    assert calls.times() == [4, 1, 2]
    (found,) = meaning(calls, np.array([[1.0, -2.0]]), np.array([3.0]))
    assert_array_equal(found, [[24 * 9 * 30, -2 * 24 * 9 * 30]])


def chosen(x, flag):
    return x * 2.0 if flag is True else x * 3.0


def test_what_is_equal_but_not_the_same_is_another_step():
    calls = recorded(lambda x: [call(chosen, x, True), call(chosen, x, 1)], {"x": ()})
    assert meaning(calls, np.array([1.0]))[0].tolist() == [[2, 3]]


def test_lists_may_change_between_calls():
    def function(x):
        inner = list(x)
        outer = (inner, 1)
        before = call(total, [inner], 1)
        first = call(of_pair, outer)
        inner[0] = x[1]
        return [before[0], first, call(of_pair, outer)]

    calls = recorded(function, {"x": (2,)})
    assert meaning(calls, np.array([[3.0, 5.0]]))[0].tolist() == [[3, 4, 6]]


def of_pair(pair):
    return pair[0][0] + 1.0


def test_steps_inside_a_step_belong_to_it():
    def outer(x):
        return call(combined, call(exchanged, x), x, "sum")

    calls = recorded(lambda x: call(outer, x), {"x": (2,)})
    assert names(calls) == {outer.__qualname__: 1}


def test_nothing_is_recorded_when_nothing_is_computed():
    def function(x):
        return [*call(exchanged, x), call(sheared, (1.0, 2.0), 3.0)[0]]

    calls = recorded(function, {"x": (2,)})
    assert not calls.functions
    (x, y, number) = calls.outputs["out"].nodes
    assert (x, y, calls.main.number(number)) == (1, 0, 7.0)


@pytest.mark.parametrize("ask", [bool, float, int, lambda x: x == x, lambda x: [1, 2][x]])
def test_values_are_not_known_while_recording(ask):
    with pytest.raises(TypeError, match="not known while tracing"):
        recorded(lambda x: ask(x) and x, {"x": ()})


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (-x + y) * 2.0 - x / y,
        lambda x, y: 2.0 * x - (3.0 - y) + 1.0 / y + y * 0.5 - 1.0,
        lambda x, y: sin(x) + cos(y),
    ],
)
def test_arithmetic_outside_of_steps_is_steps(function):
    calls = recorded(function, {"x": (), "y": ()})
    x, y = np.array([1.5, -0.25]), np.array([3.0, 4.0])
    np.testing.assert_allclose(meaning(calls, x, y)[0], function(x, y), rtol=1e-15, atol=1e-15)
    found = run(running(calls, LaneLayout(2, 1), np.dtype(float)), x, y)
    np.testing.assert_allclose(found[0], function(x, y), rtol=1e-15, atol=1e-15)


# Pieces


def operations(calls):
    """Of all functions that are left, by name, with the number of their calls."""
    left = lower(calls, "cpu steps", None)
    each = zip(left.functions, left.times(), strict=True)
    return sorted((f.name, f.graph.cost().operations, count) for f, count in each)


def test_what_nobody_reads_is_not_computed():
    def function(x):
        call(combined, x, x, "sum")  # read by nobody
        call(total, [call(sheared, x, 4.0)], 1)  # read by one that nobody reads
        return call(spread, x, 2.0)[1]

    assert operations(recorded(function, {"x": (2,)})) == [("spread", 1, 1)]


def test_calls_that_are_read_alike_are_one_piece():
    def function(x):
        fives = [call(spread, x[k], float(k)) for k in range(40)]
        return [*[five[0] for five in fives[:20]], *[five[2] for five in fives[20:]]]

    assert operations(recorded(function, {"x": (40, 2)})) == [("spread", 1, 20), ("spread", 2, 20)]


def test_calls_that_have_become_equal_are_one():
    """What told them apart is read by nobody."""
    program = recorded(lambda x: [call(spread, x, float(k))[0] for k in range(9)], {"x": (2,)})
    assert operations(program) == [("spread", 1, 1)]


def test_few_calls_do_not_have_a_piece_of_their_own():
    """They compute what others do besides."""

    def function(x):
        fives = [call(spread, x[k], float(k)) for k in range(40)]
        return [*[s for five in fives[1:] for s in five[:2]], fives[0][1]]

    calls = recorded(function, {"x": (40, 2)})
    assert operations(calls) == [("spread", 2, 40)]
    alone = recorded(lambda x: [*function(x), call(spread, x[0], 41.0)[3]], {"x": (40, 2)})
    assert sorted(n for _, _, n in operations(alone)) == [1, 40]
    x = np.tile([0.5, 0.25], (1, 40, 1))
    assert_array_equal(meaning(as_compiled(alone), x)[0], [[0.75, 0.25] * 39 + [0.25, -0.25]])


def test_constants_that_all_calls_share_are_folded():
    def function(k):
        return lambda x: [call(sheared, (y, 3.0 + i * k), 0.5)[0] for i, y in enumerate(x)]

    (own,) = call_list(lower(recorded(function(0.0), {"x": (8,)}), "cpu steps", None)).functions
    assert own.constants.shape == (8, 0)
    assert own.graph.cost().operations == 1
    (own,) = call_list(lower(recorded(function(1.0), {"x": (8,)}), "cpu steps", None)).functions
    assert_array_equal(own.constants, np.arange(3.0, 11.0)[:, None])


# Forms


@dataclass(frozen=True)
class Described:
    size: float = 2.0


SCALARS = st.floats(-1, 1)
STATIC = st.one_of(st.integers(), st.booleans(), st.text(max_size=3), st.none(), st.just(Described))
NESTED = st.recursive(
    SCALARS | STATIC | st.just(Described(3.0)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.builds(Body, inner, inner),
        st.builds(Toy, inner, inner, inner, inner),
    ),
    max_leaves=12,
)


def plain(value: Any) -> Any:
    """Something that can be compared, with all types."""
    if isinstance(value, list | tuple):
        return type(value), [plain(x) for x in value]
    if isinstance(value, dict | Body):
        return type(value), [(k, plain(x)) for k, x in getattr(value, "__dict__", value).items()]
    return type(value), value


@settings(max_examples=examples(100), deadline=None)
@given(NESTED)
def test_values_are_put_together_again(value):
    scalars: list[float] = []
    form = flatten(value, Node, scalars)
    assert plain(build(form, iter(scalars))) == plain(value)
    assert {form: 1}[flatten(value, Node, [])] == 1
    doubled = build(form, iter([2 * x for x in scalars]))
    again: list[float] = []
    assert flatten(doubled, Node, again) == form
    assert again == [2 * x for x in scalars]


def test_objects_are_their_attributes_and_descriptions_stay():
    E = Rotation([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    scalars: list[float] = []
    again = build(flatten(E, Node, scalars), iter(range(9)))
    assert type(again) is Rotation
    assert len(scalars) == 9
    assert [list(row) for row in again.rows] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    kept = Described()
    assert flatten(kept, Node, scalars) == Fixed(kept, Described)
    assert len(scalars) == 9
