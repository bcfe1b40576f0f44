"""The CPU backend against the interpreter, to the bit; and what a user may do to its functions."""

import os
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import FrozenInstanceError
from itertools import product

import numpy as np
import pytest
from processes import finished, python
from repetition import repeated

import featherlane as fl
from featherlane.backends import reference
from featherlane.backends.cpu import scratch
from featherlane.backends.cpu.compile import compile_program
from featherlane.backends.cpu.graphs import stream
from featherlane.functions import tracing
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.graph import Graph, Output
from featherlane.program.lower import lower
from featherlane.program.op import ARITHMETIC, OPS
from featherlane.program.program import Program

DTYPES = [np.float64, np.float32]
WIDTHS = [1, 4, 8, 16]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
more_dtypes = pytest.mark.parametrize("dtype", repeated(DTYPES), ids=lambda d: d.__name__)
widths = pytest.mark.parametrize("width", repeated([8, 1, 4, 16], 2))


def same_bits(x, y):
    """Equal with the signs of zeros; any NaN is like another."""
    x, y = np.asarray(x), np.asarray(y)
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    bits = np.dtype(f"i{x.dtype.itemsize}")
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    equal = (x.view(bits) == y.view(bits)) | (np.isnan(x) & np.isnan(y))
    assert equal.all(), (x[~equal][:5], y[~equal][:5])


# Operations


def special(dtype):
    info = np.finfo(dtype)
    small = [info.smallest_subnormal, info.tiny, info.eps, 0.5, 1, 1.5, 2, 3, 1e4, info.max]
    return np.array([0, *small, np.inf, np.nan, *(-x for x in small), -0.0, -np.inf], dtype)


def triples(dtype):
    """Three operands for every operation: all pairs of special numbers, and random ones."""
    rng = np.random.default_rng(0)
    x = np.array(list(product(special(dtype), repeat=2)), dtype)
    third = rng.choice(special(dtype), len(x))
    scattered = rng.normal(size=(500, 3)) * np.exp(rng.uniform(-40, 40, (500, 3)))
    near = rng.normal(size=(500, 3))
    return np.concatenate(
        [np.column_stack([x, third]), scattered.astype(dtype), near.astype(dtype)]
    )


def result_of(graph, op, a, b, c):
    """One operation of inputs, and of them the ones it may get."""
    if op == "quarter":
        return graph.quarter(graph.round(a), b, c)
    if op in ("less", "less_equal", "select"):
        compare = graph.less_equal if op == "less_equal" else graph.less
        return graph.select(compare(a, b), c, a)
    return getattr(graph, op)(*(a, b, c)[: OPS[op].arity])


def every_operation(quarter, dtype):
    """A graph with all operations as outputs, and its inputs. A quarter takes no large numbers."""
    x = triples(dtype)
    if quarter:
        x = x[np.abs(x[:, 0]) < 2.0**20]
    graph, chosen = Graph(), ["quarter"] if quarter else sorted(ARITHMETIC - {"quarter"})
    given = graph.declare("x", (3,))
    graph.outputs = {op: Output((), (result_of(graph, op, *given),)) for op in chosen}
    return graph, x


@pytest.mark.parametrize("quarter", [False, True], ids=["", "quarter"])
@dtypes
@widths
def test_every_operation_gives_the_bits_of_its_definition(quarter, dtype, width):
    graph, x = every_operation(quarter, dtype)
    with np.errstate(all="ignore"):
        found = fl.compile(graph, width=width)(x)
    made = lower(Program(graph), "cpu", dtype)
    wanted = reference.evaluate(made, {"x": x}, dtype)
    for op, result in zip(graph.outputs, [found] if quarter else found, strict=True):
        same_bits(result, wanted[op])


STEPS = [
    lambda a, b, last: a + b,
    lambda a, b, last: a - b,
    lambda a, b, last: a * b,
    lambda a, b, last: a * b + last,
    lambda a, b, last: last - a * b,
    lambda a, b, last: a / (b * b + 1.0),
    lambda a, b, last: (a * a).sqrt(),
    lambda a, b, last: a.sin() + b.cos(),
    lambda a, b, last: fl.select(a < b, b, -a),
    lambda a, b, last: fl.exp(-abs(a)) - fl.log(b * b),
    lambda a, b, last: fl.atan2(a, b) + fl.tanh(last),
    lambda a, b, last: fl.asin(fl.tanh(a)) * fl.acos(fl.minimum(abs(b), 0.5)),
    lambda a, b, last: fl.select((a <= b) & (b < 1.0) | (last == a), fl.floor(b), a.copysign(b)),
]


def random_function(seed):
    rng = np.random.default_rng(seed)
    picks = rng.integers(1 << 30, size=(60, 3)).tolist()

    def function(x):
        known = list(x)
        for kind, i, j in picks:
            step = STEPS[kind % len(STEPS)]
            known.append(step(known[i % len(known)], known[j % len(known)], known[-1]))
        return {"y": known[-7:], "z": known[-1], "w": [known[10:13], known[20:23]]}

    return function


@pytest.mark.parametrize("seed", repeated(range(4)))
@dtypes
@widths
def test_functions_of_ones_own_give_the_same_bits(seed, dtype, width):
    made = fl.compile(random_function(seed), {"x": 5}, width=width)
    lowered = lower(Program(fl.trace(random_function(seed), {"x": 5})), "cpu", dtype)
    x = np.random.default_rng(seed).normal(size=(37, 5)).astype(dtype)
    wanted = reference.evaluate(lowered, {"x": x}, dtype)
    for y, name in zip(made(x), made.outputs, strict=True):
        same_bits(y, wanted[name])


# Dynamics


CASES = [(name, None) for name in FUNCTIONS] + [("inverse_dynamics", "body"),
         ("forward_dynamics", "world"), ("inverse_dynamics_derivatives", "world")]  # fmt: skip


def interpreted(model, name, frame, given, dtype):
    program = lower(dynamics_program(model, Variant(name, frame)), "cpu", dtype)
    return tuple(reference.evaluate(program, given, dtype).values())


@pytest.mark.parametrize(("name", "frame"), repeated(CASES, 4))
@more_dtypes
@pytest.mark.parametrize("some", repeated([(1, 8), (2, 4, 16)], spread=False), ids=str)
def test_dynamics_are_the_same_in_every_width(pendulum, states, name, frame, dtype, some):
    given = states(pendulum, name, 23, frame, dtype)
    wanted = interpreted(pendulum, name, frame, given, dtype)
    for width in some:
        with np.errstate(all="ignore"):
            found = outputs(pendulum.function(name, frame, width=width)(*given.values()))
        for x, y in zip(found, wanted, strict=True):
            same_bits(x, y)


@dtypes
@widths
def test_what_is_not_a_number_stays_in_its_state(pendulum, states, dtype, width):
    """And neither it nor the lanes that a small batch leaves over raise a warning."""
    f = pendulum.function("forward_dynamics", width=width)
    q, v, tau = states(pendulum, "forward_dynamics", 21, None, dtype).values()
    wanted = f(q, v, tau)
    q[5], v[11, 0], tau[12] = np.nan, np.inf, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = f(q, v, tau)
        for batch in (1, 3):
            same_bits(f(q[:batch], v[:batch], tau[:batch]), wanted[:batch])
    spoilt = np.isin(np.arange(21), (5, 11, 12))
    assert np.isnan(found[spoilt]).any(axis=1).all()
    same_bits(found[~spoilt], wanted[~spoilt])


@more_dtypes
def test_an_arm_gives_the_interpreters_bits(iiwa, states, dtype):
    for name in ("inverse_dynamics", "forward_dynamics_derivatives"):
        given = states(iiwa, name, 19, None, dtype)
        found = outputs(iiwa.function(name)(*given.values()))
        for x, y in zip(found, interpreted(iiwa, name, None, given, dtype), strict=True):
            same_bits(x, y)


@more_dtypes
def test_functions_have_the_bits_of_their_definition(monkeypatch, pendulum, states, dtype):
    """Large graphs keep what is repeated as functions: here a small one does."""
    name = "forward_dynamics_derivatives"
    monkeypatch.setattr(tracing, "LARGEST_FLAT", 0)
    fresh = fl.load("double_pendulum", root="free")  # without the programs of other tests
    program = dynamics_program(fresh, Variant(name))
    assert program.functions
    key = f"functions of {name}"
    shapes = {k: out.shape for k, out in program.outputs.items()}
    made = Function(
        name,
        program.inputs,
        shapes,
        KernelsByDtype(lambda d: compile_program(lambda: program, key, d)),
    )
    for batch in (1, 16, 21):
        given = states(pendulum, name, batch, None, dtype)
        wanted = reference.evaluate(lower(program, "cpu", dtype), given, dtype)
        for x, y in zip(made(*given.values()), wanted.values(), strict=True):
            same_bits(x, y)


@dtypes
@pytest.mark.parametrize("name", repeated(["inverse_dynamics", "inverse_dynamics_derivatives"]))
def test_batches_of_every_size_and_lanes_in_every_place(pendulum, states, name, dtype):
    f = pendulum.function(name)
    given = states(pendulum, name, 80, None, dtype).values()
    whole = outputs(f(*given))
    for batch in range(1, 41):
        for start in (0, 1, 7, 40 - batch // 2):
            part = outputs(f(*[x[start : start + batch] for x in given]))
            for x, y in zip(part, whole, strict=True):
                same_bits(x, y[start : start + batch])
    for x, y in zip(outputs(f(*[x[5] for x in given])), whole, strict=True):
        same_bits(x, y[5])


def outputs(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 64, 1000])
def test_any_number_of_threads(pendulum, states, threads):
    f = pendulum.function("inverse_dynamics_derivatives")
    for batch in ((1,), (2,), (41,), (3, 50), (50, 3), (1, 1, 2)):
        given = states(pendulum, "inverse_dynamics_derivatives", batch).values()
        for x, y in zip(f(*given, threads=threads), f(*given, threads=1), strict=True):
            same_bits(x, y)


def test_results_larger_than_the_cache(pendulum, states):
    """They may be written past it, wherever they lie."""
    name, batch = "inverse_dynamics_derivatives", 12_003
    f = pendulum.function(name)
    given = states(pendulum, name, batch).values()
    whole = f(*given)
    parts = [f(*[x[k : k + 500] for x in given]) for k in range(0, batch, 500)]
    for k, x in enumerate(whole):
        same_bits(x, np.concatenate([part[k] for part in parts]))
    for shift in (1, 3):
        out = tuple(np.empty(batch * 64 + shift)[shift:].reshape(batch, 8, 8) for _ in range(2))
        f(*given, out=out)
        for x, y in zip(out, whole, strict=True):
            same_bits(x, y)
    for x, y in zip(f(*given, threads=2), whole, strict=True):
        same_bits(x, y)


def odd_function(x):
    """Rows of 7, 49, 1, 16 and 10 numbers."""
    y = [x[k] * x[(k + 1) % 7] + x[(k + 2) % 7] for k in range(7)]
    matrix = [[a * b + x[0] for b in y] for a in y]
    square = [row[:4] for row in matrix[:4]]
    return {"y": y, "matrix": matrix, "z": y[0] + y[1], "square": square, "half": matrix[0] + y[:3]}


def between_guards(shape, dtype, offset, gap=1):
    """An array that begins so many bytes behind a line, and the memory around it; its rows are
    `gap` of them apart.
    """
    size = gap * int(np.prod(shape)) * dtype.itemsize
    memory = np.full(size + 320, 0xA5, np.uint8)
    first = -memory.ctypes.data % 64 + 64 + offset
    rows = memory[first : first + size].view(dtype).reshape(shape[0], gap, *shape[1:])
    return rows[:, 0], memory


def untouched(array, memory):
    """Whether nothing but the array has been written, which then is as it was."""
    array.view(np.dtype(f"u{array.itemsize}"))[...] = int.from_bytes(b"\xa5" * array.itemsize)
    return (memory == 0xA5).all()


@pytest.fixture(params=[None, "one tile", "heap", "strips", "short strips"])
def streaming(request, monkeypatch):
    """Every dense result goes past the caches, from stages of several tiles or of one, on the heap,
    or of strips of rows.
    """
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    monkeypatch.setattr(stream, "STREAM", 0)
    if request.param == "one tile":
        monkeypatch.setattr(stream, "STAGE", 49 * 16 * 4)
    elif request.param in ("strips", "short strips"):
        monkeypatch.setattr(stream, "STAGE", 0)
        if request.param == "short strips":
            monkeypatch.setattr(stream, "STRIP", 128)
    elif request.param == "heap":
        monkeypatch.setattr(scratch, "ON_STACK", 0)


@pytest.mark.parametrize("dtype", repeated(DTYPES), ids=lambda d: d.__name__)
@pytest.mark.parametrize("width", [1, 4, 8])
def test_results_past_the_caches(streaming, dtype, width):
    dtype = np.dtype(dtype)
    f = fl.compile(odd_function, {"x": 7}, width=width)
    made = lower(Program(fl.trace(odd_function, {"x": 7})), "cpu", dtype)
    whole = np.random.default_rng(0).normal(size=(139, 7)).astype(dtype)
    wanted = reference.evaluate(made, {"x": whole}, dtype)
    for batch, offset, gap in product((1, 3, 32, 37, 139), (0, 8, 16, 24, 32, 40, 60), (1, 2)):
        if offset % dtype.itemsize == 0:
            shapes = [(batch, *wanted[name].shape[1:]) for name in f.outputs]
            made = [between_guards(shape, dtype, offset, gap) for shape in shapes]
            f(whole[:batch], out=tuple(array for array, _ in made))
            for name, (array, memory) in zip(f.outputs, made, strict=True):
                same_bits(array, wanted[name][:batch])
                assert untouched(array, memory), (name, batch, offset, gap)


@pytest.mark.parametrize("threads", [1, 3])
def test_results_past_the_caches_in_place_and_by_threads(streaming, threads):
    step = fl.compile(lambda x: [x[k] * x[k - 1] + x[k - 2] for k in range(7)], {"x": 7})
    for batch, shift in product((1, 43, 600), (0, 1, 3)):
        x = np.random.default_rng(0).normal(size=(batch + shift, 7))
        given = x[:batch].copy()
        wanted = np.stack([given[:, k] * given[:, k - 1] + given[:, k - 2] for k in range(7)], 1)
        out = x[shift : shift + batch]
        step(x[:batch], out=out, threads=threads)
        np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-12)


@dtypes
def test_results_around_the_size_that_goes_past_the_caches(monkeypatch, dtype):
    dtype = np.dtype(dtype)
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    monkeypatch.setattr(stream, "STREAM", 40 * 49 * dtype.itemsize)
    f = fl.compile(odd_function, {"x": 7})
    x = np.random.default_rng(0).normal(size=(300, 7)).astype(dtype)
    parts = [f(x[k : k + 10]) for k in range(0, 300, 10)]
    for batch in (39, 40, 41, 299):
        for k, y in enumerate(f(x[:batch])):
            same_bits(y, np.concatenate([part[k] for part in parts])[:batch])


# Arrays


def variants(x):
    """The same numbers in other places of memory."""
    yield "a copy with gaps", np.repeat(x, 2, axis=0)[::2]
    yield "gaps between entries", np.repeat(x, 3, axis=-1)[..., ::3]
    yield "backwards", x[::-1].copy()[::-1]
    yield "entries backwards", x[..., ::-1].copy()[..., ::-1]
    yield "column-major", np.asfortranarray(x)
    yield "transposed", np.ascontiguousarray(np.swapaxes(x, 0, -1)).swapaxes(0, -1)
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    yield "unaligned", odd
    swapped = x.astype(x.dtype.newbyteorder())
    yield "byte-swapped", swapped
    frozen = x.copy()
    frozen.flags.writeable = False
    yield "read-only", frozen


@dtypes
@pytest.mark.parametrize("batch", [1, 5, 33])
def test_arrays_wherever_they_lie(pendulum, states, dtype, batch):
    name = "forward_dynamics_derivatives_from"
    given = list(states(pendulum, name, batch, None, dtype).values())
    f = pendulum.function(name)
    wanted = f(*given)
    for others in zip(*map(variants, given), strict=True):
        before = [x.copy() for _, x in others]
        for x, y in zip(f(*[x for _, x in others]), wanted, strict=True):
            same_bits(x, y)
        for (_, x), y in zip(others, before, strict=True):
            np.testing.assert_array_equal(x, y)
    for made in zip(*(variants(np.zeros_like(x)) for x in wanted), strict=True):
        (kind, _), arrays = made[0], tuple(x for _, x in made)
        if kind in ("read-only", "byte-swapped"):
            continue
        f(*given, out=arrays)
        for x, y in zip(arrays, wanted, strict=True):
            same_bits(x, y)


def test_batches_broadcast(pendulum, states):
    q, v, a = states(pendulum, "inverse_dynamics", (4, 5)).values()
    f = pendulum.inverse_dynamics
    whole = f(np.broadcast_to(q[:, :1], q.shape), np.broadcast_to(v[0], v.shape), a)
    same_bits(f(q[:, :1], v[0], a), whole)
    same_bits(f(q[:, :1], v[0], a, threads=3), whole)
    same_bits(f(q[0, 0], v[0, 0], a)[1], f(q[0, 0], v[0, 0], a[1]))
    stuck = np.broadcast_to(q[0, 0], (6, pendulum.nq))  # stride 0
    same_bits(f(stuck, v[0, 0], a[0, 0]), np.stack([f(q[0, 0], v[0, 0], a[0, 0])] * 6))
    assert f(q[0, 0], v[0, 0], a[0, 0]).shape == (pendulum.nv,)


@pytest.mark.parametrize("batch", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_empty_batches(pendulum, states, batch):
    given = states(pendulum, "inverse_dynamics_derivatives", batch).values()
    for threads in (None, 1, 4):
        for x in pendulum.function("inverse_dynamics_derivatives")(*given, threads=threads):
            assert x.shape == (*batch, pendulum.nv, pendulum.nv)


@pytest.mark.parametrize("threads", [1, 3])
def test_out_may_be_an_input(pendulum, states, threads):
    for shift in (0, 1, 3):
        q, v, a = states(pendulum, "inverse_dynamics", 43).values()
        n = 40
        wanted = pendulum.inverse_dynamics(q[:n], v[:n], a[:n])
        out = a[shift : shift + n]
        result = pendulum.inverse_dynamics(q[:n], v[:n], a[:n], out=out, threads=threads)
        assert result is out
        same_bits(out, wanted)


def test_integers_lists_and_halves(pendulum):
    nq, nv = pendulum.nq, pendulum.nv
    q, v, a = [0, 0, 0, 0, 0, 0, 1, 0, 0], list(range(nv)), (1,) * nv
    wanted = pendulum.inverse_dynamics(*(np.array(x, float) for x in (q, v, a)))
    same_bits(pendulum.inverse_dynamics(q, v, a), wanted)
    kinds = (np.array(q, np.int8), np.array(v, np.uint64), np.array(a, bool))
    same_bits(pendulum.inverse_dynamics(*kinds), wanted)
    same_bits(pendulum.inverse_dynamics(*(np.array(x, np.float16) for x in (q, v, a))), wanted)
    single = pendulum.inverse_dynamics(np.array(q, np.float32), v, a)
    assert single.dtype == np.float32
    assert pendulum.inverse_dynamics([q, q], v, a).shape == (2, nv)
    assert pendulum.mass_matrix(np.ones((2, nq), np.float32)).dtype == np.float32


# Wrong calls


class Torchlike:
    def __dlpack__(self):
        raise AssertionError("never asked")


def wrong_calls():
    q, v = np.zeros(9), np.zeros(8)
    q[6] = 1
    single = v.astype(np.float32)
    yield "q has shape", ValueError, (v, v, v), {}
    yield "the size of v", ValueError, (v, v, v), {}
    yield "v has shape", ValueError, (q, q, v), {}
    yield "a has shape", ValueError, (q, v, np.zeros(3)), {}
    yield "a has shape", ValueError, (q, v, 1.0), {}
    yield (
        "leading dimensions do not broadcast",
        ValueError,
        (q, np.zeros((3, 8)), np.zeros((2, 8))),
        {},
    )
    yield "f_ext has shape", ValueError, (q, v, v, np.zeros((2, 6))), {}
    yield "float32 is not promoted", TypeError, (q, single, v), {}
    yield "complex128", TypeError, (q, v, v + 0j), {}
    yield "dtype object", TypeError, (q, v, np.array([None] * 8)), {}
    yield "dtype <U", TypeError, (q, v, ["x"] * 8), {}
    if np.dtype(np.longdouble) != np.float64:  # as on Windows
        yield "float128|longdouble", TypeError, (q, v, v.astype(np.longdouble)), {}
    yield "not an array of numbers", ValueError, (q, v, [[1], [1, 2]]), {}
    yield r"a is a test_backend.Torchlike on another device", TypeError, (q, v, Torchlike()), {}
    yield "^a is None: wanted real numbers, float32 or float64$", TypeError, (q, v, None), {}
    for threads in (0, -1, 1.5, "2"):
        yield f"threads is {threads!r}", ValueError, (q, v, v), {"threads": threads}
    yield "out for tau is list", TypeError, (q, v, v), {"out": [[0.0] * 8]}
    yield "out for tau has dtype float32", TypeError, (q, v, v), {"out": single}
    yield r"out for tau has shape \(9,\)", ValueError, (q, v, v), {"out": q.copy()}
    yield r"out for tau has shape \(2, 8\)", ValueError, (q, v, v), {"out": np.zeros((2, 8))}
    yield "out has 2 arrays, wanted 1", ValueError, (q, v, v), {"out": (v, v)}
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    yield "out for tau is read-only", ValueError, (q, v, v), {"out": frozen}
    yield "f_ext_frame is 'local'", ValueError, (q, v, v), {"f_ext_frame": "local"}


@pytest.mark.parametrize(("message", "error", "args", "options"), [*wrong_calls()])
def test_wrong_calls_are_explained(pendulum, message, error, args, options):
    with pytest.raises(error, match=message):
        pendulum.inverse_dynamics(*args, **options)


def test_derivatives_want_tau_or_a(pendulum, states):
    q, v, tau = states(pendulum, "forward_dynamics", 2).values()
    minv = pendulum.mass_matrix_inverse(q)
    f = pendulum.forward_dynamics_derivatives
    for options in ({}, {"minv": minv}, {"tau": tau, "a": v}, {"tau": tau, "a": v, "minv": minv}):
        with pytest.raises(TypeError, match="wanted tau, or a, or a and minv"):
            f(q, v, **options)
    out = tuple(np.empty((2, 8, 8)) for _ in range(3))
    wanted = f(q, v, a=v, minv=minv)
    found = f(q, v, a=v, minv=minv, out=out)
    for x, y, z in zip(found, wanted, out, strict=True):
        assert x is z
        same_bits(x, y)
    same_bits(found.da_dtau, minv)


def test_unknown_functions_and_widths(pendulum):
    with pytest.raises(ValueError, match="no function 'dynamics'"):
        pendulum.function("dynamics")
    with pytest.raises(fl.CompileError, match="width is 3"):
        pendulum.function("mass_matrix", width=3)(pendulum.neutral())
    with pytest.raises(TypeError, match="misses v, a: wanted 3: q, v, a"):
        pendulum.function("inverse_dynamics")(np.zeros(9))


# Threads and processes


def test_many_threads_at_once(states):
    """None of what is called has been compiled before."""
    model = fl.load("double_pendulum", root="planar")
    name, start = "inverse_dynamics_derivatives", threading.Barrier(12)
    given = states(model, name, 200).values()

    def call(k):
        start.wait()
        part = [x[k:] for x in given]
        return [model.function(name)(*part, threads=1 + k % 3) for _ in range(20)][-1]

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(call, range(12)))
    whole = model.function(name)(*given)
    for k, parts in enumerate(found):
        for x, y in zip(parts, whole, strict=True):
            same_bits(x, y[k:])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_use_after_a_fork():
    code = """
    import multiprocessing, os
    import numpy as np
    import featherlane as fl

    model = fl.load("double_pendulum")
    q = model.random_configuration(1000, seed=0)
    wanted = model.mass_matrix(q, threads=4)  # the workers run now

    def call(k):
        return np.array_equal(model.mass_matrix(q, threads=4), wanted)

    child = os.fork()
    if not child:
        new = model.forward_dynamics(q, q, q, threads=2)
        os._exit(0 if call(0) and new.shape == q.shape else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert all(pool.map(call, range(9)))
    assert call(0)
    """
    finished(python(code))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_a_thread_is_in_llvm():
    """The process that it makes can compile: the fork waits until the thread is out."""
    code = """
    import os, signal, threading, time
    import llvmlite.binding as llvm
    import numpy as np
    import featherlane as fl

    fl.compile(lambda x: [x[0] * 17.5], {"x": 1})(np.ones(1))
    inside = threading.Event()

    def compiles():
        with llvm.ffi.lib._lock:
            inside.set()
            time.sleep(0.2)

    threading.Thread(target=compiles).start()
    inside.wait()
    child = os.fork()
    if not child:
        signal.alarm(300)
        result = fl.compile(lambda x: [x[0] * 18.5], {"x": 1})(np.ones(1))
        os._exit(0 if result == 18.5 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    finished(python(code))


def test_models_travel(pendulum, iiwa, states):
    for model in (pendulum, iiwa):
        model.inverse_dynamics(*states(model, "inverse_dynamics", 1).values())
        for other in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
            assert other == model
            assert hash(other) == hash(model)
            assert type(other) is fl.Model
            assert str(other) == str(model)
            given = states(model, "inverse_dynamics", 5).values()
            same_bits(other.inverse_dynamics(*given), model.inverse_dynamics(*given))
    assert pendulum != iiwa
    assert len({pendulum, iiwa, deepcopy(iiwa)}) == 2
    assert fl.load("iiwa14", gravity=(0, 0, 0)) != iiwa
    with pytest.raises(FrozenInstanceError):
        iiwa.gravity = (0, 0, 0)


def test_results_in_the_same_memory_are_refused(pendulum):
    q, v = pendulum.neutral(), np.zeros(pendulum.nv)
    A = np.empty((8, 8))
    with pytest.raises(ValueError, match="twice"):
        pendulum.inverse_dynamics_derivatives(q, v, v, out=(A, A))


def test_known_accelerations_with_out(pendulum):
    q, v, a = pendulum.neutral(), np.zeros(8), np.ones(8)
    minv = pendulum.mass_matrix_inverse(q)
    free = pendulum.forward_dynamics_derivatives(q, v, a=a, minv=minv)
    out = (minv.copy(), np.empty((8, 8)), np.empty((8, 8)))
    got = pendulum.forward_dynamics_derivatives(q, v, a=a, minv=out[0], out=out)
    assert all(x is y for x, y in zip(got, out, strict=True))
    assert all(np.array_equal(x, y) for x, y in zip(got, free, strict=True))
    with pytest.raises(ValueError, match="2 arrays"):
        pendulum.forward_dynamics_derivatives(q, v, a=a, minv=minv, out=out[:2])
    wrong = (*out[:2], np.empty((8, 8), np.int32))
    with pytest.raises(TypeError, match="int32"):
        pendulum.forward_dynamics_derivatives(q, v, a=a, minv=minv, out=wrong)
