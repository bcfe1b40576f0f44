"""Calls and threads with and without machine code of our own, and when it is not used."""

import ctypes
import json
import os
import sys
import threading
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from processes import HUNG, finished, python

import featherlane as fl
from featherlane.backends.cpu import linked, native
from featherlane.backends.cpu.call import cpython, selftest, vectorcall
from featherlane.backends.cpu.threads import pool, pool_ir, standard
from featherlane.backends.cpu.threads.standard import StandardPool
from featherlane.backends.llvm import targets
from featherlane.errors import CompileError
from featherlane.functions import fast_path


@pytest.fixture
def without(monkeypatch):
    monkeypatch.setenv(native.VARIABLE, "numpy")


def results(model, states, threads):
    q = model.random_configuration(states, seed=0)
    v = np.linspace(-1.0, 1.0, q.shape[0] * model.nv).reshape(-1, model.nv) if states else 0 * q
    q, v = (q, v) if states else (q, np.linspace(-1.0, 1.0, model.nv))
    out = tuple(np.empty((*q.shape[:-1], model.nv, model.nv)) for _ in range(3))
    made = model.forward_dynamics_derivatives(q, v, v, out=out, threads=threads)
    assert made[0] is out[0]
    return [*made, model.inverse_dynamics(q, v, v, threads=threads), model.mass_matrix(q)]


@pytest.mark.parametrize("threads", [None, 1, 3])
@pytest.mark.parametrize("states", [(), 1, 7, 3000])
def test_the_same_bits(monkeypatch, states, threads):
    wanted = results(fl.load("iiwa14"), states, threads)
    monkeypatch.setenv(native.VARIABLE, "numpy")
    model = fl.load("iiwa14")
    found = results(model, states, threads)
    assert "inverse_dynamics" not in vars(model)  # it is the method itself
    for a, b in zip(found, wanted, strict=True):
        assert_array_equal(a, b)


@pytest.mark.skipif(bool(fast_path.why_not_native()), reason="calls go through NumPy here")
def test_arrays_of_three_dimensions_are_taken_by_machine_code(monkeypatch):
    """For one state, batches and results of the caller; arrays in other orders go to Python."""
    tensor = fl.compile(lambda A, b: {"C": A * b[0], "d": A[1, 2] + b[1]}, {"A": (2, 3, 4), "b": 2})
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(9, 2, 3, 4)), rng.normal(size=(9, 2))
    wanted = A * b[:, :1, None, None], A[:, 1, 2] + b[:, 1:]
    tensor(A, b)
    (path,), through = tensor.paths, []
    fallback = path.fallback
    monkeypatch.setattr(path, "fallback", lambda *x, **y: through.append(x) or fallback(*x, **y))
    path.renew()
    out = np.empty((9, 2, 3, 4)), np.empty((9, 4))
    single = [np.stack(x) for x in zip(*map(tensor, A, b), strict=True)]
    for found in (tensor(A, b), single, tensor(A, b, out=out)):
        for x, y in zip(found, wanted, strict=True):
            assert_array_equal(x, y)
    assert not through
    assert_array_equal(tensor(np.asfortranarray(A[0]), b[0])[0], wanted[0][0])
    assert len(through) == 1


@pytest.mark.usefixtures("without")
def test_threads_of_python(monkeypatch):
    made = pool.thread_pool()
    assert isinstance(made, StandardPool)
    ran = np.zeros(1000, int)

    def run(first, count):
        ran[first : first + count] += 1

    made.share_calls(run, 1000, 7, 4)
    assert (ran == 1).all()
    assert len(made) >= 3
    with pytest.raises(ZeroDivisionError):
        made.share_calls(lambda first, count: 1 // (first - 14), 100, 7, 4)
    long = fl.chain(120, seed=0)
    q = long.random_configuration(5, seed=0)
    wanted = long.mass_matrix(q, threads=1)
    assert_array_equal(long.mass_matrix(q, threads=3), wanted)


def test_no_part_runs_after_a_call_that_an_exception_ended():
    """Its arrays may be gone: what has begun is waited for, and nothing more begins."""
    made, inside, begun, late = StandardPool(), [], threading.Event(), threading.Event()

    def run(first, count):
        if first == 0:
            assert begun.wait(HUNG)
            raise ZeroDivisionError
        inside.append(first)
        begun.set()
        late.wait(0.2)
        inside.remove(first)

    with pytest.raises(ZeroDivisionError):
        made.share_calls(run, 100, 1, 3)
    assert not inside
    made.stop()


def test_a_gate_waits_whatever_interrupts_it(monkeypatch):
    gate, begun, go = standard._Gate(), threading.Event(), threading.Event()
    part = lambda first, count: (begun.set(), go.wait(HUNG))
    worker = threading.Thread(target=gate.run, args=(part, 0, 1))
    worker.start()
    assert begun.wait(HUNG)
    waits, wait_for = [], gate._changed.wait_for

    def interrupted(condition):
        waits.append(1)
        if len(waits) < 3:
            raise KeyboardInterrupt
        go.set()
        return wait_for(condition)

    monkeypatch.setattr(gate._changed, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gate.close()
    assert len(waits) == 3
    assert gate._inside == 0
    gate.run(lambda first, count: pytest.fail("it is closed"), 0, 1)
    worker.join()


def test_a_call_within_a_call_shares_nothing():
    """As in a signal handler, which may come while the pool's own locks are held."""
    made, threads = StandardPool(), set()
    made._here.is_sharing = True
    made.share_calls(lambda first, count: threads.add(threading.get_ident()), 100, 1, 4)
    assert threads == {threading.get_ident()}


def test_exceptions_anywhere_while_the_pool_is_made():
    """Of a signal handler: a pool whose workers run is never dropped, and the next call works."""
    code = """
    import gc, sys
    import numpy as np
    from featherlane.backends.cpu.threads import pool
    FUNCTIONS = {"_make", "_passes_test", "grow", "_start_worker", "share_calls", "__init__"}
    assert pool.loaded_text(pool.pool_ir.source(), ("share",))
    at = 0
    def interrupted(frame, event, argument):
        global left
        if event == "line":
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return interrupted
    def entered(frame, event, argument):
        ours = frame.f_code.co_filename == pool.__file__ and frame.f_code.co_name in FUNCTIONS
        return interrupted if ours else None
    made = False
    while not made:
        at += 1
        left = at
        pool._pools.clear()
        sys.settrace(entered)
        try:
            pool.thread_pool().grow(3)
            made = True
        except KeyboardInterrupt:
            pass
        sys.settrace(None)
        gc.collect()
        junk = [np.full(1000 + i, -1) for i in range(20)]
        ran = np.zeros(100, int)
        def run(first, count):
            ran[first : first + count] += 1
        pool.thread_pool().share_calls(run, 100, 3, 3)
        assert (ran == 1).all(), at
    print(at)
    """
    assert int(finished(python(code))) > 50


def test_an_unknown_layout(monkeypatch):
    """Objects that lie otherwise in memory are not touched."""
    monkeypatch.setattr(cpython, "available", lambda: False)
    why = fast_path._tested.__wrapped__()
    assert "do not lie in memory as machine code expects" in why


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("call ptr @task_of", "call ptr @task_of"),  # as it is
        ("%count = select i1 %several, i64 %batch, i64 1", "%count = add i64 1, 0"),
    ],
    ids=["right", "one state only"],
)
def test_an_entry_point_that_is_wrong_is_found(right, wrong):
    text = vectorcall.source()
    if right not in text:
        pytest.fail(f"there is no {right!r} any more")
    code = linked.loaded_text(text.replace(right, wrong), vectorcall.ENTRIES)
    assert bool(selftest.mismatch(code)) == (right != wrong)


def test_a_pool_that_is_wrong_is_found(monkeypatch):
    """A pool that claims nothing, and one whose parts come twice."""
    made = pool.ThreadPool()
    assert pool._passes_test(made)
    monkeypatch.setattr(made, "share_calls", lambda run, count, part, threads: None)
    assert not pool._passes_test(made)
    made.stop()
    monkeypatch.setattr(pool, "_pools", {})
    monkeypatch.setattr(native, "_refused", [])
    monkeypatch.setattr(pool, "_passes_test", lambda pool: False)
    assert isinstance(pool.thread_pool(), StandardPool)
    assert "did not run a small task rightly" in native.refusal()


def test_other_processors_spin_without_a_pause(monkeypatch):
    host = targets.host()
    for triple, wanted in (
        ("x86_64-pc-linux-gnu", "llvm.x86.sse2.pause"),
        ("aarch64-apple-darwin", "llvm.aarch64.hint"),
        ("arm64-apple-darwin", "llvm.aarch64.hint"),
        ("riscv64-unknown-linux-gnu", None),
        ("ppc64le-unknown-linux-gnu", None),
    ):
        monkeypatch.setattr(targets, "host", lambda triple=triple: host._replace(triple=triple))
        text = pool_ir.source()
        found = [name for name in ("llvm.x86.sse2.pause", "llvm.aarch64.hint") if name in text]
        assert found == ([wanted] if wanted else [])
        assert "PAUSE" not in text


def test_a_32_bit_python_is_refused(monkeypatch):
    monkeypatch.setattr(ctypes, "sizeof", lambda kind: 4)
    with pytest.raises(CompileError, match="this Python is a 32-bit program"):
        fl.compile(lambda x: [x[0]], {"x": 1})(np.ones(1))


def test_types_of_other_packages_stay_as_they_are():
    """Packages that set types on the shared functions of `ctypes.pythonapi` keep them."""
    code = """
    import ctypes
    functions = ["PyCapsule_GetPointer", "PyType_GenericAlloc", "PyCFunction_NewEx", "Py_IncRef",
                 "PyThread_allocate_lock", "PyThread_acquire_lock"]
    for name in functions:
        function = getattr(ctypes.pythonapi, name)
        function.restype, function.argtypes = ctypes.c_char, [ctypes.c_char] * 7
    import numpy as np
    import featherlane as fl
    model = fl.load("double_pendulum")
    q = model.random_configuration(500, seed=0)
    model.mass_matrix(q[0]), model.mass_matrix(q, threads=3)
    for name in functions:
        function = getattr(ctypes.pythonapi, name)
        assert (function.restype, function.argtypes) == (ctypes.c_char, [ctypes.c_char] * 7), name
    """
    finished(python(code))


@pytest.mark.parametrize("variable", ["", "numpy", "nmupy"])
def test_the_command_says_what_runs_calls(variable):
    code = "from featherlane.tools.cli import main; main()"
    told = json.loads(
        finished(python(code, "info", "--system", "--json", FEATHERLANE_CALLS=variable))
    )
    wanted = f"NumPy: FEATHERLANE_CALLS is {variable}" if variable else "machine code"
    assert told["calls"] == wanted


@pytest.fixture
def free_threaded():
    """As on a build without the interpreter's lock."""
    native.free_threaded.cache_clear()
    with mock.patch("sysconfig.get_config_var", {"Py_GIL_DISABLED": 1}.get):
        yield
    native.free_threaded.cache_clear()


@pytest.mark.usefixtures("free_threaded")
def test_free_threaded_builds_use_numpy_and_threads_of_python():
    model = fl.load("iiwa14")
    assert fast_path.why_not_native() == "this Python is a free-threaded build"
    assert isinstance(pool.thread_pool(), StandardPool)
    results(model, 3000, 3)
    assert "inverse_dynamics" not in vars(model)


SUBINTERPRETER = (
    """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import sys
code = """
    + repr("""
import sys
sys.path[:] = {path!r}
try:
    import featherlane
except ImportError as error:
    print(error)
print("numpy" in sys.modules)
""")
    + """.format(path=sys.path)
for isolated in (False, True):
    try:
        made = interpreters.create("isolated" if isolated else "legacy")  # Python 3.13
    except TypeError:
        made = interpreters.create(isolated=isolated)
    (getattr(interpreters, "run_string", None) or interpreters.exec)(made, code)
    sys.stdout.flush()
    interpreters.destroy(made)
import featherlane
print(featherlane.__name__)
"""
)


def test_subinterpreters_are_refused():
    lines = finished(python(SUBINTERPRETER, PYTHONPATH=os.pathsep.join(sys.path))).split("\n")
    told = "featherlane does not run in subinterpreters, since NumPy and ctypes keep one state"
    assert [line[: len(told)] for line in lines] == [told, "False"] * 2 + ["featherlane", ""]
