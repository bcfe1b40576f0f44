"""The team of threads: parts of a call, who computes them, and what can go wrong."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.testing import assert_array_equal
from processes import HUNG, several_cores

import featherlane as fl
from featherlane.backends.cpu.call import cpython
from featherlane.backends.cpu.strides import overlaps_itself, state_stride
from featherlane.backends.cpu.threads import pool as pools
from featherlane.backends.cpu.threads.pool import ThreadPool, thread_pool
from featherlane.backends.cpu.threads.pool_ir import LINE_WORDS, WORKERS, WorkerWords, pool_word
from featherlane.backends.llvm.records import field
from featherlane.functions.fast_path import machine_code_call

on_linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")


@pytest.fixture
def team():
    made = ThreadPool()
    yield made
    made.stop()


def covered(team, count, part, threads):
    """How often each of `range(count)` was in a part, and the sizes of the parts."""
    times, sizes = np.zeros(count, int), []

    def run(first, size):
        times[first : first + size] += 1
        sizes.append((first, size))
        time.sleep(0)

    team.grow(threads)
    team.share_calls(run, count, part, threads)
    return times, [size for _, size in sorted(sizes)]


# Parts


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 7, 64, 1000, 12345])
@pytest.mark.parametrize("part", [1, 16, 100])
def test_every_state_is_in_one_part(team, threads, count, part):
    if count // part < 2000:
        times, sizes = covered(team, count, part, threads)
        assert (times == 1).all()
        least = min(part, -(-count // threads))
        assert all(size % least == 0 for size in sizes[:-1])


def test_parts_become_smaller(team):
    _, sizes = covered(team, 100_000, 16, 4)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 100_000 // (4 * 4 * 16) * 16
    assert sizes[-2] == 16


def test_nobody_is_late(team):
    """A worker that never comes is not waited for."""
    team.grow(2)
    asleep = team._words[WORKERS:]
    until(lambda: asleep[0])
    asleep[0] = 0  # nobody wakes it any more
    for _ in range(3):
        assert (covered(team, 100, 1, 2)[0] == 1).all()
    asleep[0] = 1
    until(lambda: helpers(team, 2) > {threading.get_ident()})  # now it comes


def until(happened):
    """Waits for what happens on any machine, sooner or later."""
    hung = time.monotonic() + HUNG
    while not happened():
        assert time.monotonic() < hung
        time.sleep(0.001)


def helpers(team, threads):
    """The threads that compute parts of a call, which take a while each."""
    who = set()

    def run(first, size):
        who.add(threading.get_ident())
        time.sleep(0.002)

    team.grow(threads)
    team.share_calls(run, 20, 1, threads)
    return who


def test_workers_come_whether_they_watch_or_sleep(team):
    for pause in (0, 0.02, 0, 0.02):
        time.sleep(pause)
        until(lambda: len(helpers(team, 3)) == 3)
    assert all(len(helpers(team, 2)) <= 2 for _ in range(5))  # though there are more
    assert len(team) == 2


# Several callers, errors


def test_callers_at_once(team):
    """Who finds the team busy works alone: nobody waits, and nothing is lost."""
    start = threading.Barrier(6)

    def call(k):
        start.wait()
        return [covered(team, 200 + k, 1 + k, 1 + k % 3)[0] for _ in range(30)]

    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(call, range(6)):
            assert all((times == 1).all() for times in found)


def test_a_call_within_a_part(team):
    inside = []
    team.grow(3)
    team.share_calls(lambda *_: inside.append(covered(team, 50, 1, 3)[0]), 20, 1, 3)
    assert len(inside) == 20
    assert all((times == 1).all() for times in inside)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("threads", [1, 3])
def test_errors_come_back(team, error, threads):
    calls = []

    def run(first, size):
        calls.append(first)
        if first <= 500 < first + size:
            raise error("from a part")

    team.grow(threads)
    with pytest.raises(error, match="from a part"):
        team.share_calls(run, 1000, 1, threads)
    assert sorted(calls) == sorted(set(calls))
    assert (covered(team, 100, 1, threads)[0] == 1).all()


def test_no_more_threads_to_be_had(team, monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert helpers(team, 4) == {threading.get_ident()}
    assert len(team) == 0


def test_a_team_that_has_stopped(team):
    assert len(helpers(team, 3)) >= 1
    team.stop()
    assert not any(worker.is_alive() for worker in team._workers)
    assert helpers(team, 3) == {threading.get_ident()}


@on_linux
def test_one_core_is_not_watched_on(monkeypatch):
    monkeypatch.setattr(pools, "physical_cores", lambda: 1)
    made = ThreadPool()
    assert (covered(made, 100, 1, 3)[0] == 1).all()
    watch = made._words[WORKERS + field(WorkerWords, "watch") :: LINE_WORDS][: len(made)]
    assert len(made) == 2
    assert not watch.any()
    assert made.get("spins") == 0
    made.stop()


# Functions


@pytest.fixture(scope="module")
def arm():
    """A robot whose functions are compiled, and states."""
    model = fl.load("iiwa14")
    return model, np.random.default_rng(0).normal(size=(3, 20_000, 7))


@pytest.fixture
def cores(monkeypatch):
    for module in ("backends.cpu.threads.pool", "backends.cpu.threads.share", "functions.function"):
        monkeypatch.setattr(f"featherlane.{module}.physical_cores", lambda: 3)


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("threads", [None, 2, 3, 5])
def test_bits_do_not_depend_on_threads(arm, threads):
    model, (q, v, a) = arm
    function = fl.Model(**model._fields()).function("inverse_dynamics")
    whole = function(q, v, a, threads=1)
    for states in (5, 1000, 3999, 20_000):
        out = np.full((states, 7), np.nan)
        for given in ((q, v, a), (q, v[0], a), (q[::-1], v, a)):
            taken = [x[:states] if x.ndim == 2 else x for x in given]
            wanted = function(*taken, threads=1)
            assert_array_equal(function(*taken, threads=threads), wanted)
            assert function(*taken, out=out, threads=threads) is out
            assert_array_equal(out, wanted)
    assert_array_equal(whole[:5], function(q[:5], v[:5], a[:5]))


@pytest.mark.usefixtures("cores")
def test_leading_dimensions_of_any_kind(arm):
    model, (q, v, a) = arm
    function = model.function("inverse_dynamics")
    grid = [x[:600].reshape(20, 30, 7) for x in (q, v, a)]
    wanted = function(*grid, threads=1)
    turned = [x.swapaxes(0, 1).copy().swapaxes(0, 1) for x in grid]
    for given in (grid, turned, [x[::2] for x in grid], [x.tolist() for x in grid]):
        lead = np.shape(given[0])[:2]
        assert_array_equal(function(*given, threads=3), wanted[:: 20 // lead[0]])
    assert_array_equal(
        function(grid[0][:, :1], grid[1][0], grid[2], threads=3),
        function(grid[0][:, :1], grid[1][0], grid[2], threads=1),
    )
    raw = np.zeros(q[:600].nbytes + 4, np.uint8)[4:].view(float).reshape(600, 7)
    raw[:] = q[:600]
    assert_array_equal(function(raw, v[:600], a[:600], threads=3).reshape(20, 30, 7), wanted)


@pytest.mark.parametrize("threads", [2, 3])
def test_a_vector_of_states_comes_first(arm, threads):
    model, given = arm
    for states in (2, 3, 4, 9):
        function = fl.Model(**model._fields()).function("forward_dynamics")
        few = [x[:states] for x in given]
        assert_array_equal(function(*few, threads=threads), function(*few))


@pytest.mark.skipif(not cpython.available(), reason="calls go through Python")
@several_cores
@pytest.mark.usefixtures("cores")
def test_shared_calls_go_straight_to_the_code(arm):
    """Once there are workers for them."""
    model, given = arm
    function = fl.Model(**model._fields()).function("inverse_dynamics")
    wanted = function(*given)  # starts them
    thread_pool().grow(3)
    assert len(thread_pool()) >= 2

    def refuse(*arrays, **options):
        raise AssertionError("handed on to Python")

    call = machine_code_call(function, refuse)
    for threads in (None, 1, 2, 3):
        assert_array_equal(call(*given, threads=threads), wanted)
    with pytest.raises(AssertionError, match="handed on"):
        call(*given, threads=len(thread_pool()) + 2)
    every = thread_pool()._words[pool_word("size") :]
    before = every[0]
    try:
        every[0] = 0  # as in a new process
        with pytest.raises(AssertionError, match="handed on"):
            call(*given)
    finally:
        every[0] = before


def test_many_callers_of_functions(arm):
    model, given = arm
    function = model.function("inverse_dynamics")
    whole = function(*given)

    def call(k):
        return function(*[x[k:] for x in given], threads=None if k % 2 else 2)

    with ThreadPoolExecutor(4) as pool:
        for k, found in enumerate(pool.map(call, range(24))):
            assert_array_equal(found, whole[k:])


# Processes


def run(code, **options):
    code = "import featherlane as fl, numpy as np\n" + textwrap.dedent(code)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG, **options)
    assert done.returncode == 0, done.stderr
    return done


START = """
model = fl.load("double_pendulum")
q = model.random_configuration(50_000, seed=0)
wanted = model.mass_matrix(q, threads=3)
"""


def test_a_process_ends():
    """With workers, a call on its way in a thread that nobody waits for, and one to come when the
    workers have gone.
    """
    first = """
import atexit, threading, time
def last():
    assert np.array_equal(model.mass_matrix(q, threads=3), wanted)
    print("last", threading.active_count() - thread.is_alive())
atexit.register(last)
"""
    then = """
def endless():
    while True:
        model.mass_matrix(q, threads=3)
thread = threading.Thread(target=endless, daemon=True)
thread.start()
time.sleep(0.1)
"""
    done = run(first + START + then)
    assert done.stdout == "last 1\n"
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_has_a_team_of_its_own():
    code = (
        START
        + """
import os, threading
from featherlane.backends.cpu.threads.pool import thread_pool
assert len(thread_pool()) == 2
child = os.fork()
if not child:
    assert len(thread_pool()) == 0
    good = all(np.array_equal(model.mass_matrix(q, threads=n), wanted) for n in (None, 3, 2, 1))
    os._exit(0 if good and len(thread_pool()) == 2 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert np.array_equal(model.mass_matrix(q, threads=3), wanted)
"""
    )
    run(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("who", ["caller", "worker"])
def test_a_fork_within_a_part(who):
    """As a signal handler or a finalizer may do: the child ends its call with an error (a caller),
    or its thread (a worker). A division by zero ended it once.
    """
    code = f"""
    import os, threading, time
    from featherlane.backends.cpu.threads.pool import thread_pool
    pool, parent, caller, children = thread_pool(), os.getpid(), threading.get_ident(), []
    pool.grow(2)

    def part(first, size):
        who = "caller" if threading.get_ident() == caller else "worker"
        if first > 20 and who == {who!r} and not children:
            children.append(os.fork())
        time.sleep(0.001)

    while not children:
        try:
            pool.share_calls(part, 200, 1, 2)
        except RuntimeError as error:
            assert "forked within a call" in str(error)
    if os.getpid() != parent:
        pool.grow(2)
        done = []
        pool.share_calls(lambda first, size: done.append(size), 100, 1, 2)
        assert len(pool) == 1 and sum(done) == 100
        os._exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1])
    assert code == (7 if {who!r} == "caller" else 0), code
    """
    run(code)


def test_workers_that_need_the_interpreters_lock():
    """While tracemalloc counts memory, a worker that asks for a workspace takes that lock: a caller
    that held it waited for ever.
    """
    code = """
    import ctypes, tracemalloc
    from featherlane.backends.cpu import scratch
    from featherlane.backends.cpu.threads.pool import thread_pool
    model = fl.load("iiwa14")
    q, v = model.random_configuration(36, seed=0), np.zeros((36, 7))
    call = lambda: model.forward_dynamics_derivatives(q, v, v, threads=2)
    wanted = call()
    thread_pool().grow(2)
    tracemalloc.start()
    for _ in range(1000):
        ctypes.memset(scratch._waiting, 0, ctypes.sizeof(scratch._waiting))  # no workspace waits
        found = call()
    assert all(np.array_equal(x, y) for x, y in zip(found, wanted))
    """
    run(code)


@on_linux
def test_one_core_starts_nobody():
    code = """
    import threading, os
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    model = fl.load("double_pendulum")
    q = model.random_configuration(200_000, seed=0)
    wanted = model.mass_matrix(q)
    assert threading.active_count() == 1
    assert np.array_equal(model.mass_matrix(q, threads=2), wanted)
    assert threading.active_count() == 2
    """
    run(code)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX")
def test_interrupts_leave_everything_in_order():
    code = (
        START
        + """
import signal
class Stop(BaseException):
    pass
def stop(*_):
    raise Stop
signal.signal(signal.SIGALRM, stop)
grid = q[:40_000].reshape(200, 200, -1).swapaxes(0, 1)
count = 0
for k in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + k))
        while True:
            model.mass_matrix(q, threads=3)
            model.mass_matrix(grid, threads=3)
    except (Stop, KeyboardInterrupt):
        count += 1
assert count == 60
assert np.array_equal(model.mass_matrix(q, threads=3), wanted)
"""
    )
    run(code)


# Arrays that overlap themselves, and steps


def test_results_need_a_place_for_each_number():
    model = fl.load("double_pendulum")
    q = v = np.zeros((4, 2))
    good = np.zeros((9, 3, 2))
    stuck = as_strided(np.zeros(8), (4, 2), (0, 8))
    for threads in (None, 1, 2):
        for wrong in (stuck, as_strided(good, (4, 2), (8, 8)), as_strided(good, (4, 2), (16, 4))):
            with pytest.raises(ValueError, match=r"out for tau has entries that share memory"):
                model.inverse_dynamics(q, v, v, out=wrong, threads=threads)
        for right in (good[:4, 0], good[::2, 1][:4], good[8:4:-1, 2], np.zeros((2, 4)).T):
            assert model.inverse_dynamics(q, v, v, out=right, threads=threads) is right


@pytest.mark.parametrize(
    ("shape", "strides", "wanted"),
    [
        ((4, 2), (16, 8), False),
        ((4, 2), (8, 32), False),
        ((4, 2), (-16, 8), False),
        ((4, 2), (8, 8), True),
        ((4, 2), (0, 8), True),
        ((1, 2), (0, 8), False),
        ((0, 2), (0, 8), False),
        ((3, 2), (16, 24), False),  # 0 16 32 and 24 40 56
        ((4, 2), (16, 24), False),
        ((4, 2), (16, 32), True),
        ((2, 2, 2), (8, 16, 24), True),
        ((), (), False),
    ],
)
def test_overlaps(shape, strides, wanted):
    assert overlaps_itself(as_strided(np.zeros(64)[32:], shape, strides)) is wanted


def test_the_step_between_states():
    x = np.zeros((4, 6, 5))
    assert state_stride(x, 1, (4, 6)) == 40
    assert state_stride(x[:, ::2], 1, (4, 3)) == 80
    assert state_stride(x[::-1, ::-1], 1, (4, 6)) == -40
    assert state_stride(x[:, :3], 1, (4, 3)) is None
    assert state_stride(x[0], 1, (4, 6)) is None
    assert state_stride(x[0], 1, (1, 6)) == 40
    assert state_stride(x[:, :1], 1, (4, 1)) == 240
    assert state_stride(x[0, 0], 1, (4, 6)) == 0
    assert state_stride(x, 3, ()) == 0
