"""The front in machine code: which calls it takes, what it hands on, and what it leaves behind."""

import ctypes
import gc
import re
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.testing import assert_array_equal

import featherlane as fl
from featherlane.backends.cores import physical_cores
from featherlane.backends.cpu import linked as host
from featherlane.backends.cpu import results
from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.call import cpython, vectorcall
from featherlane.backends.cpu.linked import ARRAY_NEW, c_table, linked, machine_code, numpy_c
from featherlane.backends.llvm import jit
from featherlane.backends.llvm.macros import expanded
from featherlane.functions import fast_path
from featherlane.functions.fast_path import WORTH_UNLOCKING, machine_code_call

pytestmark = pytest.mark.skipif(
    not cpython.available(), reason="arrays are laid out in another way"
)

ONE, SEVERAL = "inverse_dynamics", "forward_dynamics_derivatives"
HANDED_ON = object()


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param


@pytest.fixture
def function(pendulum, dtype):
    """function(name): compiled for one state and for more, of a robot with nq 9, nv 8."""

    def make(name):
        made = pendulum.function(name)
        for states in (1, 2):
            made._form(np.dtype(dtype), states)
        return made

    return make


def alone(function):
    """Its front; a call that this hands on fails."""

    def refuse(*arrays, **options):
        raise AssertionError("handed on to Python")

    return machine_code_call(function, refuse)


def hands_on(function, *arrays, **options):
    """Whether it leaves a call to Python."""
    call = machine_code_call(function, lambda *arrays, **options: HANDED_ON)
    return call(*arrays, **options) is HANDED_ON


def together(result):
    return result if isinstance(result, tuple) else (result,)


def sample(model, function, dtype, batch=()):
    rng = np.random.default_rng(5)
    q = model.random_configuration(batch, seed=rng)
    lead = q.shape[:-1]
    rest = [rng.normal(size=lead + shape) for shape in [*function.inputs.values()][1:]]
    return [x.astype(dtype) for x in (q, *rest)]


def empty(function, dtype, lead=()):
    return tuple(np.empty(lead + shape, dtype) for shape in function.outputs.values())


def assert_same(result, wanted):
    for x, y in zip(together(result), together(wanted), strict=True):
        assert x.dtype == y.dtype
        assert_array_equal(x, y)


# What it takes


@pytest.mark.parametrize("name", [ONE, SEVERAL, "mass_matrix", "kinetic_energy", "center_of_mass"])
@pytest.mark.parametrize("batch", [(), 1, 2, 5, 37])
def test_the_bits_are_those_of_the_ufunc(function, pendulum, dtype, name, batch):
    f = function(name)
    given = sample(pendulum, f, dtype, batch)
    wanted = f._through_numpy(*given)
    fresh = alone(f)(*given)
    assert type(fresh) is type(wanted)
    assert_same(fresh, wanted)
    out = empty(f, dtype, given[0].shape[:-1])
    filled = alone(f)(*given, out=out[0] if len(out) == 1 else out)
    assert type(filled) is type(wanted)
    assert all(x is y for x, y in zip(together(filled), out, strict=True))
    assert_same(out, wanted)


def test_rows_may_lie_anywhere(function, pendulum, dtype):
    f = function(ONE)
    q, v, a = sample(pendulum, f, dtype, 6)
    wanted = f._through_numpy(q, v, a)
    state = np.concatenate([q, v], axis=1)
    wide = np.full((6, 20), np.nan, dtype)
    assert_same(alone(f)(state[:, :9], state[:, 9:], a, out=wide[:, 5:13]), wanted)
    assert np.isnan(np.delete(wide, np.s_[5:13], 1)).all()
    twice = np.repeat(q, 2, axis=0)
    assert_same(alone(f)(twice[::2], v, a), wanted)


def test_inputs_may_stand_still(function, pendulum, dtype):
    f = function(ONE)
    q, v, a = sample(pendulum, f, dtype, 6)
    wanted = f._through_numpy(q, v, a[0])
    assert_same(alone(f)(q, v, a[0]), wanted)
    assert_same(alone(f)(q, v, np.broadcast_to(a[0], a.shape)), wanted)
    assert_same(alone(f)(q[0][None], v[0], a[0]), wanted[:1])


def test_any_input_says_how_many_states_there_are(function, pendulum, dtype):
    f = function(ONE)
    q, v, a = sample(pendulum, f, dtype, 6)
    for given in ((q[0], v, a), (q[0], v[0], a), (q[0], v, a[0])):
        assert_same(alone(f)(*given), f._through_numpy(*given))
    out = np.empty_like(a)
    assert alone(f)(q[0], v[0], a, out=out) is out
    assert_same(out, f._through_numpy(q[0], v[0], a))


def test_options_that_change_nothing(function, pendulum, dtype):
    f = function(SEVERAL)
    given, out = sample(pendulum, f, dtype, 3), empty(f, dtype, (3,))
    wanted = f._through_numpy(*given)
    for options in ({"threads": 1}, {"threads": None, "out": None}, {"out": out, "threads": 1}):
        assert_same(alone(f)(*given, **options), wanted)


def test_inputs_by_name(function, pendulum, dtype):
    f = function(ONE)
    q, v, a = sample(pendulum, f, dtype, 3)
    wanted, out = f._through_numpy(q, v, a), empty(f, dtype, (3,))[0]
    named = alone(f)
    assert_same(named(a=a, q=q, v=v), wanted)
    assert_same(named(q, a=a, out=out, v=v), wanted)
    made_up = "".join(["o", "ut"])  # equal, but another string: Python knows it
    assert hands_on(f, q, v, a, **{made_up: out})
    assert f(q, v, a, **{made_up: out}) is out
    for wrong in ({"q": q, "v": v}, {"v": v, "a": a, "b": a}):
        with pytest.raises(AssertionError, match="handed on"):
            named(q, **wrong)


def test_results_of_an_earlier_call(function, pendulum, dtype):
    """They are filled and returned, as they are."""
    f = function(SEVERAL)
    first = sample(pendulum, f, dtype, 2)
    second = [first[0], first[1] + 1, first[2]]
    d = alone(f)(*first)
    assert alone(f)(*second, out=d) is d
    assert_same(d, f._through_numpy(*second))
    assert f._through_numpy(*first, out=d) is d


def test_functions_of_ones_own():
    f = fl.compile(lambda x, A: {"y": A[0][1] * x, "z": [x, x + 1]}, {"x": (), "A": (2, 2)})
    x, A = np.arange(3.0), np.arange(12.0).reshape(3, 2, 2)
    wanted = f(x, A)
    assert_same(alone(f)(x, A), wanted)
    assert type(f(x, A))._fields == ("y", "z")
    out = np.empty(3), np.empty((3, 2))
    assert all(a is b for a, b in zip(f(x, A, out=out), out, strict=True))
    assert_same(out, wanted)
    assert_same(alone(f)(np.array(x[2]), A[2]), tuple(y[2] for y in wanted))


def test_large_results_begin_on_a_cache_line(function, pendulum, dtype):
    f = function(SEVERAL)
    for r in alone(f)(*sample(pendulum, f, dtype, 50)):
        assert r.ctypes.data % 64 == 0
        assert r.base is not None
        assert r.flags.carray
        assert r.flags.aligned
        r[:] = 0


# What it hands on


def test_arrays_of_another_kind(function, pendulum, dtype):
    f = function(ONE)
    q, v, a = sample(pendulum, f, dtype, 4)
    other = {np.float64: ">f8", np.float32: ">f4"}[dtype]
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:].view(dtype).reshape(a.shape)
    assert not raw.flags.aligned
    kinds = [
        a.tolist(),
        a.astype(other),
        np.ma.array(a),
        raw,
        a[:, ::-1],
        a[::-1],
        np.asfortranarray(a),
        a[:3],
        a[None],
        a[:, :7],
        a[:0],
        None,
    ]
    for x in kinds:
        assert hands_on(f, q, v, x)
    for x in (*kinds[:-5], *kinds[-4:]):  # without a[:3]: three states with q and v of one
        assert hands_on(f, q[0], v[0], x)
    assert not hands_on(f, q, v, a)
    for arguments in ((q, v), (q, v, a, a), (), (q[:0], v[:0], a[:0]), (q[:1], v, a)):
        assert hands_on(f, *arguments)
    many = [{"threads": n} for n in (1000, 2**70, -1, 0, "1", True, 1.0, np.int64(1))]
    for options in (*many, {"wrong": 1}, {"out": 3}, {"q": q}):
        assert hands_on(f, q, v, a, **options)


def test_results_of_another_kind(function, pendulum, dtype):
    f = function(SEVERAL)
    given, good = sample(pendulum, f, dtype, 4), empty(f, dtype, (4,))
    x = good[0]
    fixed = x.copy()
    fixed.flags.writeable = False
    for wrong in (
        np.zeros(x.shape, np.int64),
        x[:3],
        x[0],
        x.transpose(0, 2, 1),
        fixed,
        as_strided(x, strides=(8, *x.strides[1:])),
        np.broadcast_arrays(x[0], x)[0],  # writable, with a warning
        None,
    ):
        assert hands_on(f, *given, out=(wrong, *good[1:]))
    assert not hands_on(f, *given, out=good)
    for out in (x, good[:2], list(good), (*good, x), ()):
        assert hands_on(f, *given, out=out)
    single = sample(pendulum, f, dtype)
    assert hands_on(f, *single, out=good)
    assert hands_on(f, *single, out=empty(f, dtype, (0,)))
    assert hands_on(f, *single[:2], empty(f, dtype, (0,))[0][:, 0])


def test_results_in_the_memory_of_others(function, pendulum, dtype):
    f = function(SEVERAL)
    q, v, tau = sample(pendulum, f, dtype, 8)
    x, y, z = empty(f, dtype, (8,))
    block = np.empty((8, 3, 8, 8), dtype)
    for out in ((x, x, z), (x, y, y), (block[:, 0], block[:, 1], z)):
        assert hands_on(f, q, v, tau, out=out)
    inside = x[0]  # its first row of 64 numbers as velocities
    assert hands_on(f, q, inside, tau, out=(x, y, z))
    assert not hands_on(f, q, inside, tau, out=(y, z, x.copy()))
    one = function(ONE)
    wanted = one._through_numpy(q, v, tau)
    assert_same(one(q, v, tau, out=tau), wanted)


def test_calls_worth_threads(function, pendulum, dtype):
    """Python is asked for those, until one has told the front of its workers."""
    f = function(ONE)
    if physical_cores() == 1:
        pytest.skip("one core: no call is worth threads")
    most = f.load(f.kernel(dtype)).alone()
    q, v, a = sample(pendulum, f, dtype)
    for states, python in ((most, False), (most + 1, np.dtype(dtype) not in f._tasks)):
        given = [np.broadcast_to(x, (states, *x.shape)) for x in (q, v, a)]
        assert hands_on(f, *given) is python


def test_errors_are_those_of_python(pendulum, dtype):
    q, v, a = sample(pendulum, pendulum.function(ONE), dtype, 3)
    pendulum.inverse_dynamics(q, v, a)
    read_only = np.empty_like(a)
    read_only.flags.writeable = False
    for options, error, match in (
        ({"out": np.empty_like(a)[:2]}, ValueError, "out for tau has shape"),
        ({"out": read_only}, ValueError, "read-only"),
        ({"out": [1, 2]}, ValueError, "out has 2 arrays"),
        ({"threads": 0}, ValueError, "threads is 0"),
        ({"q": q}, TypeError, "multiple values"),
        ({"tau": q}, TypeError, "unexpected keyword"),
    ):
        with pytest.raises(error, match=match):
            pendulum.inverse_dynamics(q, v, a, **options)
    with pytest.raises(ValueError, match="v has shape"):
        pendulum.inverse_dynamics(q, v[:, 1:], a)


# Few states


def widths(function):
    """The lanes of what machine code runs for one state and for more."""
    return [[x and x.width for x in (loops.single, loops.batch)] for loops in function.loops()]


@pytest.mark.parametrize("single_first", [True, False])
def test_one_state_has_a_kernel_of_its_own(dtype, single_first):
    """Whatever came before; bits are those of the batch."""
    f, widest = fl.load("iiwa14").function(ONE), jit.widest(dtype)
    given = np.random.default_rng(0).normal(size=(3, 20, 7)).astype(dtype)
    one, many = (lambda: f(*given[:, 0])), (lambda: f(*given))
    first, second = (one, many) if single_first else (many, one)
    first()
    assert widths(f) == [[1, None] if single_first else [None, widest]]
    assert f.compiled == (np.dtype(dtype),)
    second()
    assert widths(f) == [[1, widest]]
    whole = many()
    for states in (1, 2, 20):
        assert_same(alone(f)(*given[:, :states]), whole[:states])
    assert_same(alone(f)(*given[:, 7]), whole[7])


def test_code_takes_the_calls_that_it_has_loops_for(dtype):
    f = fl.load("iiwa14").function(ONE)
    given = np.random.default_rng(0).normal(size=(3, 4, 7)).astype(dtype)
    single, row, empty = given[:, 0], given[:, :1], given[:, :0]
    f(*given)
    assert hands_on(f, *single)
    assert hands_on(f, *row)
    assert not hands_on(f, *given)
    assert not hands_on(f, *given[:, :2])
    f(*single)
    for batch in (single, row, given):
        assert not hands_on(f, *batch)
    other = fl.load("iiwa14").function(ONE)
    assert other(*empty).shape == (0, 7)
    other = fl.load("iiwa14").function(ONE)
    other(*row)
    assert not hands_on(other, *single)
    assert not hands_on(other, *row)
    assert hands_on(other, *given[:, :2])
    assert hands_on(other, *empty)


def test_a_chosen_width_serves_all(dtype):
    f = fl.load("iiwa14").function(ONE, width=1)
    given = np.random.default_rng(0).normal(size=(3, 4, 7)).astype(dtype)
    whole = f(*given)
    assert widths(f) == [[1, 1]]
    assert_same(alone(f)(*given[:, 1]), whole[1])
    assert_same(alone(f)(*given), whole)


# Methods of a model


def test_methods_reach_the_code():
    model = fl.load("double_pendulum")
    q, v, a = np.random.default_rng(0).normal(size=(3, 4, 2))
    f_ext = np.random.default_rng(1).normal(size=(4, 2, 6))
    out = np.empty((4, 2))
    first = model.inverse_dynamics(q, v, a, out=out)  # with out= from the start
    assert first is out
    assert type(model.inverse_dynamics).__name__ == "builtin_function_or_method"
    assert_same(model.inverse_dynamics(v=v, q=q, a=a), first)
    model.inverse_dynamics(q[0], v[0], a[0], f_ext[0])
    wanted = model.inverse_dynamics(q, v, a, f_ext=f_ext)
    model._call = None  # Python would come through here
    for call in (
        lambda m: m.inverse_dynamics(q, v, a, f_ext),
        lambda m: m.inverse_dynamics(q, v, a, f_ext=f_ext, out=out, threads=1),
        lambda m: m.inverse_dynamics(q[0], v[0], a[0], f_ext[0])[None],
    ):
        result = call(model)
        assert_array_equal(result, wanted[: len(result)])


def test_methods_of_other_forms_are_python():
    model = fl.load("double_pendulum")
    q, v, a = np.random.default_rng(0).normal(size=(3, 4, 2))
    f_ext = np.random.default_rng(1).normal(size=(4, 2, 6))
    plain = model.inverse_dynamics(q, v, a)
    for _ in range(2):
        world = model.inverse_dynamics(q, v, a, f_ext, f_ext_frame="world")
        body = model.inverse_dynamics(q, v, a, f_ext)
        heavy = model.inverse_dynamics(q, v, a, params={"mass": [2.0, 3.0]})
        assert_same(model.inverse_dynamics(q, v, a, method="auto"), plain)
        assert not np.allclose(world, body)
        assert not np.allclose(plain, heavy)


def builtin(call):
    return type(call).__name__ == "builtin_function_or_method"


def test_a_method_is_replaced_when_its_function_is_compiled():
    """However that was called; a method of other arguments than the function's stays Python."""
    model = fl.load("double_pendulum")
    q, v, a, w = np.random.default_rng(0).normal(size=(4, 5, 2))
    wanted = model.function("inverse_dynamics")(q, v, a)
    assert builtin(model.inverse_dynamics)
    assert_same(model.inverse_dynamics(q, v, a), wanted)
    along = np.eye(2)[0]
    model.function("inverse_dynamics_second_derivatives")(q, v, a, along)
    assert not builtin(model.inverse_dynamics_second_derivatives)
    model.jacobian(q, "link2")
    assert builtin(model.jacobian)
    along = np.ones(6)
    product = model.forward_dynamics_hessian_product(q, v, a, w, along)
    assert builtin(model.forward_dynamics_hessian_product)
    assert_same(model.forward_dynamics_hessian_product(q, v, a, w, direction=along), product)


def test_known_accelerations_reach_the_code():
    model = fl.load("double_pendulum")
    q, v, a = np.random.default_rng(0).normal(size=(3, 2))
    minv = model.mass_matrix_inverse(q)
    known = {"a": a}, {"a": a, "minv": minv}
    wanted = [model.forward_dynamics_derivatives(q, v, **given) for given in known]
    model._call = None  # Python would come through here
    for given, result in zip(known, wanted, strict=True):
        assert_same(model.forward_dynamics_derivatives(q, v, **given), result)


def test_first_calls_from_many_threads():
    """Of single states and batches of both dtypes: all end in the code, which is put there once."""
    model = fl.load("double_pendulum")
    given = np.random.default_rng(0).normal(size=(3, 5, 2))
    kinds = [(n, dtype) for n in (0, slice(None)) for dtype in (np.float64, np.float32)]
    wanted = [fl.load("double_pendulum").inverse_dynamics(*given[:, n].astype(t)) for n, t in kinds]

    def call(k):
        n, dtype = kinds[k % 4]
        return model.inverse_dynamics(*given[:, n].astype(dtype))

    with ThreadPoolExecutor(8) as pool:
        for k, found in enumerate(pool.map(call, range(64))):
            assert_same(found, wanted[k % 4])
    (function,) = vars(model)["_fast_paths"]["inverse_dynamics"].functions
    for k in range(4):
        call(k)
    assert len(function.loops()) == 2
    model._call = function.kernels = None
    for k in range(4):
        assert_same(call(k), wanted[k])


# What it leaves behind


COUNTED = ("array_new", "object_new", "gil_release", "gil_take")
SPY = """
@counts = global [4 x i64] zeroinitializer
@left = global i64 -1
define i1 @count(i64 %k) {
  %at = getelementptr inbounds [4 x i64], ptr @counts, i64 0, i64 %k
  %n = load i64, ptr %at
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %at
  %made = icmp ult i64 %k, 2
  br i1 %made, label %object, label %no
object:
  %left = load i64, ptr @left
  %less = sub i64 %left, 1
  store i64 %less, ptr @left
  %fails = icmp eq i64 %left, 0
  ret i1 %fails
no:
  ret i1 false
}
define ptr @array_new(ptr %a, i32 %b, ptr %c, i32 %d, ptr %e, ptr %f, i32 %g, i32 %h, ptr %i) {
  %fails = call i1 @count(i64 0)
  br i1 %fails, label %no, label %yes
yes:
  %made = call ptr ADDRESS(array_new)(ptr %a, i32 %b, ptr %c, i32 %d, ptr %e, ptr %f, i32 %g,
                                      i32 %h, ptr %i)
  ret ptr %made
no:
  %error = call ptr ADDRESS(error_no_memory)()
  ret ptr null
}
define ptr @object_new(ptr %a, i64 %b) {
  %fails = call i1 @count(i64 1)
  br i1 %fails, label %no, label %yes
yes:
  %made = call ptr ADDRESS(object_new)(ptr %a, i64 %b)
  ret ptr %made
no:
  %error = call ptr ADDRESS(error_no_memory)()
  ret ptr null
}
define ptr @gil_release() {
  %fails = call i1 @count(i64 2)
  %thread = call ptr ADDRESS(gil_release)()
  ret ptr %thread
}
define void @gil_take(ptr %thread) {
  call void ADDRESS(gil_take)(ptr %thread)
  %fails = call i1 @count(i64 3)
  ret void
}
"""


class Watched:
    """A front whose calls of the interpreter are counted, and fail when they should."""

    kept: ClassVar[list] = []  # fronts that were made meanwhile stay in their models

    def __init__(self, monkeypatch):
        assert not fast_path.why_not_native()  # the front's own test is not watched
        Watched.kept.append(self)
        true = host.symbols()
        spy = re.sub(r"ADDRESS\((\w+)\)", lambda name: address(name[1]), SPY)
        self.spy = linked(machine_code(expanded(spy)), (*COUNTED, "counts", "left"))
        ours = {name: self.spy.address_of(name) for name in COUNTED}
        monkeypatch.setattr(host, "symbols", lambda: true | ours)
        self.code = linked(machine_code(vectorcall.source()), vectorcall.ENTRIES)
        monkeypatch.setattr("featherlane.functions.fast_path._entry_points", lambda: self.code)
        self._counts = (ctypes.c_int64 * len(COUNTED)).from_address(self.spy.address_of("counts"))
        self._left = ctypes.c_int64.from_address(self.spy.address_of("left"))

    def counts(self, call):
        """How often a call asked the interpreter for each thing."""
        self._counts[:] = [0] * len(COUNTED)
        call()
        return dict(zip(COUNTED, self._counts, strict=True))

    def fail_after(self, successes):
        self._left.value = successes


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def test_results_that_are_given_cost_nothing(watched, function, pendulum, dtype):
    nothing = dict.fromkeys(COUNTED, 0)
    for name in (ONE, SEVERAL):
        f = function(name)
        for batch in ((), 4):
            given = sample(pendulum, f, dtype, batch)
            call, out = alone(f), f._through_numpy(*given)
            assert watched.counts(lambda g=given, c=call, o=out: c(*g, out=o)) == nothing
            fresh = watched.counts(lambda g=given, c=call: c(*g))
            several = len(f.outputs) > 1
            assert fresh == nothing | {"array_new": len(f.outputs), "object_new": int(several)}


def test_a_warm_call_with_out_allocates_nothing(pendulum, dtype):
    """Neither arrays nor objects, as the interpreter counts its memory."""
    for name in (ONE, SEVERAL):
        method = getattr(pendulum, name)
        for batch in ((), 4):
            q, v, u = sample(pendulum, pendulum.function(name), dtype, batch)
            out = method(q, v, u)
            method = getattr(pendulum, name)
            assert peak_of(lambda f=method, x=(q, v, u, out): f(x[0], x[1], x[2], out=x[3])) == 0
            assert peak_of(lambda f=method, x=(q, v, u): f(x[0], x[1], x[2])) > 0


def peak_of(call):
    """The most bytes that Python and NumPy hold at one time of a call beyond those before it."""
    tracemalloc.start()
    try:
        call()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_a_plain_tuple_costs_the_tuple_of_the_results(watched, function, pendulum, dtype):
    f = function(SEVERAL)
    given, out = sample(pendulum, f, dtype), empty(f, dtype)
    assert type(alone(f)(*given, out=out)) is f.packed
    counts = watched.counts(lambda: alone(f)(*given, out=out))
    assert counts == dict.fromkeys(COUNTED, 0) | {"object_new": 1}


def test_the_lock_is_given_away_for_long_calls(watched, monkeypatch, function, pendulum, dtype):
    f = function(ONE)
    monkeypatch.setattr(f, "_tasks", {})  # calls that threads share give it away, too
    least = -(-WORTH_UNLOCKING // f.numbers)
    for states, times in ((least - 1, 0), (least, 1)):
        given = sample(pendulum, f, dtype, states)
        counts = watched.counts(lambda g=given: alone(f)(*g))
        assert (counts["gil_release"], counts["gil_take"]) == (times, times)


@pytest.mark.parametrize(("batch", "kept"), [((), 0), (2, 0), (50, 0), (50, 10**9)])
def test_no_memory(watched, function, pendulum, dtype, batch, kept):
    """Every failure is raised, and what was made before is given back."""
    with results.limited(kept):
        no_memory(watched, function(SEVERAL), pendulum, dtype, batch, kept)


def no_memory(watched, f, pendulum, dtype, batch, kept):
    given, call = sample(pendulum, f, dtype, batch), alone(f)
    for _ in range(3 * results.SKIPPED if kept else 0):
        call(*given)
    counts = watched.counts(lambda: call(*given))
    calls = counts["array_new"] + counts["object_new"]
    assert calls == (7 if batch == 50 and not kept else 4)  # large arrays are inside of others
    more = []
    for _ in range(2):  # threads that end meanwhile hold objects too
        before = held(given)
        for _ in range(20):
            for successes in range(calls):
                watched.fail_after(successes)
                with pytest.raises(MemoryError):
                    call(*given)
        watched.fail_after(-1)
        more.append(abs(held(given) - before))
    assert min(more) < 20
    assert_same(call(*given), f._through_numpy(*given))
    watched.fail_after(0)
    out = empty(f, dtype, given[0].shape[:-1])
    with pytest.raises(MemoryError):
        call(*given, out=out)
    watched.fail_after(-1)
    control = np.empty(0), 0
    assert len({sys.getrefcount(x) for x in (*out, control[0])}) == 1


def held(given):
    """Objects that the interpreter has, and the references to the inputs."""
    while gc.collect():  # finalizers of older objects leave more to collect
        pass
    return sys.getallocatedblocks() + sum(map(sys.getrefcount, given))


def test_nothing_leaks(function, pendulum, dtype):
    """A hundred thousand calls of every kind."""
    one, several = function(ONE), function(SEVERAL)
    single, batch = sample(pendulum, one, dtype), sample(pendulum, one, dtype, 3)
    tau, d = alone(one)(*single), alone(several)(*batch)
    pair, numbers = empty(several, dtype, (3,)), np.dtype(dtype)
    watch = [*single, *batch, tau, d, *d, pair, *pair, None, 1, numbers, tuple, type(d), np.ndarray]
    one, several = alone(one), alone(several)
    q, v, a = single

    def calls(count):
        for _ in range(count):
            one(*single)
            one(*single, out=tau)
            one(q, a=a, v=v, threads=1)
            several(*batch)
            several(*batch, out=d)
            several(*batch, out=pair)

    calls(10)
    before, blocks = [sys.getrefcount(x) for x in watch], held([])
    calls(17_000)
    after = [sys.getrefcount(x) for x in watch]
    assert np.abs(np.subtract(after, before)).max() < 1000  # others hold None too
    assert abs(held([]) - blocks) < 200


def test_calls_from_many_threads(function, pendulum, dtype):
    f = function(SEVERAL)
    given = sample(pendulum, f, dtype, 2 * WORTH_UNLOCKING // f.numbers)
    call, wanted = alone(f), f._through_numpy(*given)
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(call, *given) for _ in range(40)]:
            assert_same(future.result(), wanted)


def test_results_in_tuples_are_whole(function, pendulum, dtype):
    """They hash, compare, unpack and are seen by the collector as those that Python makes."""
    f = function(SEVERAL)
    given = sample(pendulum, f, dtype)
    d, own = alone(f)(*given), fl.compile(lambda x: {"y": x, "z": [2 * x[0]]}, {"x": 2})
    pair = alone_of(own)(np.ones(2))
    for made in (d, pair):
        assert gc.is_tracked(made)
        assert type(made)(made) == made if type(made) is tuple else made._replace() == made
        assert made != ()
        assert sys.getsizeof(made) == sys.getsizeof(tuple(made))
    assert d.da_dq is d[0]
    cycle = [None]
    cycle[0] = cycle, d
    assert [len(x) for x in pair] == [2, 1]


def alone_of(function):
    function.ufunc(np.float64)
    return alone(function)


def test_the_table_of_numpy_is_what_it_was():
    assert c_table(numpy_c._ARRAY_API)[ARRAY_NEW] == host.symbols()["array_new"]
