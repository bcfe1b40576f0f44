"""Samples of the attacks by calls, kills and threads; tests/attack/log.md has all other runs.

The attacks must also see what is wrong: their checks are given what they should complain about.
"""

import ctypes
import faulthandler
import os
import random
import signal
import sys
import threading
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from processes import HUNG, python
from repetition import everything, full

if sys.platform != "linux":
    pytest.skip("protected pages and limits are Linux's", allow_module_level=True)

from attack import calls, kills, memory, threads, wrong

import featherlane as fl
from featherlane.backends import cache
from featherlane.functions.table import TABLE
from featherlane.robot.parameters import PARAMETERS

SAMPLE = range(119 * calls.CALLS, 119 * calls.CALLS + 250)  # of a robot of three bodies


def attack(*words):
    """Runs an attack in a process of its own; its last lines if it finds nothing."""
    folder = Path(__file__).parent
    code = f"import runpy, sys; sys.path.insert(0, {str(folder)!r}); "
    code += f"sys.argv[1:] = {words!r}; runpy.run_module('attack', run_name='__main__')"
    process = python(code)
    out, err = process.communicate(timeout=HUNG)
    assert process.returncode == 0, out + err
    return out


# Samples


def test_a_sample_of_calls():
    assert dict(calls.findings(SAMPLE if everything else SAMPLE[:60])) == {}


@full
def test_a_sample_of_kills():
    assert "| kills | 1 to 1 | 24 | 0 |" in attack("kills", "--seed", "1", "--count", "24")


@full
def test_a_sample_of_threads():
    words = "--seed", "1", "--threads", "6", "--minutes", "0.05", "--functions", "2"
    assert "| threads | 1 | 0.05 min, 6 threads | 0 |" in attack("threads", *words)


# Cases


def test_every_function_with_every_option_is_attacked():
    """Also those that the table will have: blocks of seeds walk it."""
    found = [variant for seed in range(120) for variant, _ in calls.variants(seed)]
    assert {variant.name for variant in found} == set(TABLE)
    assert {p for variant in found for p in variant.parameters} == set(PARAMETERS)
    assert {variant.method for variant in found} > {
        m for function in TABLE.values() for m in function.methods
    }
    assert {variant.wrenches for variant in found} == {None, "body", "world"}
    assert any(variant.at for variant in found)


def test_arrays_have_every_layout():
    rng, kinds = random.Random(0), set()
    for _ in range(300):
        dtype = np.dtype(rng.choice(("f4", "f8", ">f8")))
        steps = memory.strides(rng, dtype, (3, 4, 2), 1, shared=True)
        arena = memory.Arena(memory.extent(dtype, (3, 4, 2), steps))
        view = arena.place(rng, dtype, (3, 4, 2), steps)
        view[...] = 1  # is inside
        kinds |= {
            "dense" if view.flags.c_contiguous else "strided",
            "unaligned" * (not view.flags.aligned),
            "negative" * (min(steps) < 0),
            "repeated" * (0 in steps),
            "transposed" * (abs(steps[0]) < abs(steps[2])),
            "overlapping" * (0 < min(map(abs, steps)) < dtype.itemsize),
        }
    assert len(kinds - {""}) == 7


@pytest.mark.parametrize("seed", range(20))
def test_arrays_for_results_never_overlap(seed):
    rng = random.Random(seed)
    steps = memory.strides(rng, np.dtype("f8"), (5, 3, 2), 2)
    view = memory.Arena(memory.extent(np.dtype("f8"), (5, 3, 2), steps)).place(
        rng, np.dtype("f8"), (5, 3, 2), steps
    )
    view[...] = np.arange(30).reshape(5, 3, 2)
    assert (view == np.arange(30).reshape(5, 3, 2)).all()


# What calls must see


def beyond(place):
    """Touches a byte outside of an arena, or writes into a protected one."""
    arena = memory.Arena(100)
    start, size = arena.bytes.ctypes.data, len(arena.bytes)
    if place == "before":
        ctypes.string_at(start - 1, 1)
    elif place == "behind":
        ctypes.string_at(start + size, 1)
    else:
        arena.only_read()
        ctypes.string_at(start, size)
        ctypes.memset(start, 0, place == "written")


def test_accesses_out_of_bounds_end_the_process():
    ends = []
    for place in ("before", "behind", "written", "read"):
        child = os.fork()
        if not child:
            faulthandler.disable()  # which would tell where
            beyond(place)
            os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert ends == [-signal.SIGSEGV] * 3 + [0]


Named = namedtuple("Named", "tau")


@pytest.fixture
def call():
    """A call of inverse dynamics, and one of its results."""
    function = fl.load("double_pendulum").function("inverse_dynamics")
    arrays = dict.fromkeys(function.inputs, np.ones(2))
    arena = memory.Arena(16)
    out = np.ndarray(2, np.float64, arena.bytes.data)
    made = calls.Call(function, arrays, {"out": out}, [], [*arrays.values()])
    return made._replace(arenas=[memory.Arena(16)] * 3 + [arena]), out


def outcome(call, function):
    return calls.accepted(call, (function, [*call.arrays.values()], call.options))


def test_wrong_results_are_findings(call):
    call, _ = call
    function = call.function

    def nearly(*arrays, out):
        out[...] = np.nextafter(function(*arrays), 9)
        return out

    def elsewhere(*arrays, out):
        return function(*arrays)

    def besides(*arrays, out):
        call.arenas[-1].bytes[100] ^= 1
        return function(*arrays, out=out)

    def fails(*arrays, out):
        raise ZeroDivisionError("x")

    assert outcome(call, function) is None
    assert "differs" in outcome(call, nearly)
    assert "not the arrays of out" in outcome(call, elsewhere)
    assert "1 bytes changed from 100 on" in outcome(call, besides)
    assert outcome(call, fails) == "ZeroDivisionError: x"


def test_wrong_refusals_are_findings(call):
    call, out = call

    def refusing(error, write=False):
        def function(*arrays, **options):
            out[0] += write
            if error is not None:
                raise error

        return calls.refused(random.Random(3), call, (function, [np.ones(2)] * 3, {}))

    assert refusing(ValueError("no")) is None
    assert "is accepted" in refusing(None)
    assert "raises ZeroDivisionError: no" in refusing(ZeroDivisionError("no"))
    assert "not one printable line" in refusing(ValueError("a\nb"))
    assert "3001 characters" in refusing(TypeError("a" * 3001))
    assert "bytes changed" in refusing(ValueError("no"), write=True)


def test_a_difference_from_the_interpreter_is_a_finding(monkeypatch):
    seed = next(s for s in SAMPLE if calls.check(s) is None)
    monkeypatch.setattr(calls.reference, "evaluate", lambda *_: {"x": np.zeros(3)})
    calls.checked.cache_clear()
    assert "differs from the interpreter" in calls.check(seed)
    calls.checked.cache_clear()


def test_same_bits():
    nan, zero = np.array([np.nan, 1]), np.zeros(2)
    assert memory.same(nan, -nan * [1, -1])
    assert not memory.same(zero, -zero)
    assert not memory.same(zero, zero.astype("f4"))
    assert not memory.same(zero, zero[:1])


def test_wrong_arguments_are_many(call):
    rng = random.Random(0)
    made = call[0].function, [np.ones(2)] * 3, {"params": None, "method": "aba"}
    assert len({wrong.broken(rng, call[0], made)[0] for _ in range(1000)}) > 40


# What kills must see


@pytest.fixture
def folder():
    with kills.empty_folder() as path:
        yield path


def test_what_kills_leave_is_a_finding(folder):
    kills.stored(1)
    assert [x for x in kills.left(folder) if x] == []
    (folder / "x.other").touch()
    (entry, *_) = folder.glob("*.code")
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    found = [x for x in kills.left(folder) if x]
    assert found == [f"{entry.name} is not whole", "x.other is left"]


def test_growth_and_unfinished_files_are_findings(folder, monkeypatch):
    monkeypatch.setattr(cache._Folder, "prune", lambda self: None)
    (folder / "x.part").touch()
    kills.stored(1)
    (folder / "y.code").write_bytes(b"\n\n" + bytes(kills.LIMIT))
    found = [x for x in kills.left(folder) if x]
    assert found[0] == "y.code is not whole"
    assert found[1] == "x.part is left"
    assert "bytes" in found[2]


def test_damages_that_are_executed_are_findings(folder, monkeypatch):
    rng = random.Random(0)
    assert [x for x in kills.damaged(rng, folder) if x] == []
    damage = []
    monkeypatch.setattr(kills, "damage", lambda rng, path, others: damage.append(path))
    for number in range(9):
        kills.stored(number)
    found = cache.fetch
    cut = lambda key, make: found(key, make)[: -1 if key.startswith("attack ") else None]
    monkeypatch.setattr(cache, "fetch", cut)
    assert any("has other bytes" in str(x) for x in kills.damaged(rng, folder))
    assert damage


def test_writers_that_end_are_findings():
    child = os.fork()
    if not child:
        os._exit(5)
    assert kills.ended(child) == "a writer ended with 5"


# What threads must see


def test_wrong_results_of_threads_are_findings():
    job = threads.jobs(1, 1)[0]
    rng, away = random.Random(0), job._replace(wanted=tuple(x + 1 for x in job.wanted))
    assert [threads.wrong(rng, job, job.function) for _ in range(5)] == [None] * 5
    assert "other results" in threads.wrong(rng, away, job.function)


def alone(monkeypatch, *actions):
    """What a team of two finds whose threads do nothing but these, once they have done any."""
    monkeypatch.setattr(threads, "ACTIONS", dict.fromkeys(actions, 1))
    team = threads.Team(0, 1)
    while not (team.counts or team.faults):
        team.run(2, 0.3)
    return team


def test_faults_and_exceptions_of_threads_are_findings(monkeypatch):
    def fails(team, rng):
        raise ZeroDivisionError("x")

    assert alone(monkeypatch, lambda team, rng: "fault").faults[0].endswith(": fault")
    assert alone(monkeypatch, fails).faults[0] == "fails: ZeroDivisionError: x"


def test_threads_are_cancelled(monkeypatch):
    def waits(team, rng):
        threading.Event().wait(0.001)

    monkeypatch.setattr(threads, "CANCELLABLE", (waits,))
    team = alone(monkeypatch, waits, threads.cancels)
    while not team.counts["cancelled"]:
        team.run(2, 0.3)
    assert not team.faults


def test_a_thread_that_is_blocked_ends_the_process():
    code = """
    import sys, threading
    sys.path.insert(0, sys.argv[1])
    from attack import threads
    threads.BLOCKED_S = 1
    threads.ACTIONS = {lambda team, rng: threading.Event().wait(): 1}
    threads.Team(0, 0).run(1, 0.1)
    """
    process = python(code, str(Path(__file__).parent))
    out, err = process.communicate(timeout=HUNG)
    assert process.returncode == 3
    assert "a thread is blocked" in out
    assert "wait" in err


def test_more_memory_at_the_end_is_a_finding(monkeypatch, capsys):
    kept = []
    grows = lambda team, rng: kept.append(np.ones(1 << 17)) or threading.Event().wait(0.01)
    monkeypatch.setattr(threads, "ACTIONS", {grows: 1})
    monkeypatch.setattr(threads, "MORE", 1 << 20)
    for hook in (sys, "unraisablehook"), (threading, "excepthook"):
        monkeypatch.setattr(*hook, getattr(*hook))
    arguments = SimpleNamespace(seed=0, threads=2, minutes=0.01, functions=0)
    try:
        assert threads.run(arguments) == 1
    finally:
        threads.gc.enable()
    assert "bytes more than at the beginning" in capsys.readouterr().out
