"""What a control loop needs: calls that ask for nothing, and the script that times them."""

import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends import cache
from featherlane.backends.cpu import addresses
from featherlane.backends.cpu import linked as host
from featherlane.backends.cpu.call import cpython, vectorcall
from featherlane.backends.llvm import jit
from featherlane.functions import fast_path

if not cpython.available():
    pytest.skip("arrays are laid out in another way", allow_module_level=True)

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "forward_dynamics_derivatives")

# Every function that machine code may call, as one that counts and jumps there, with whatever
# arguments are in the registers
COUNTING = """
@count_{name} = global i64 0
define void @{name}(ptr %first, ...) {{
  %before = atomicrmw add ptr @count_{name}, i64 1 monotonic
  %real = inttoptr i64 {place} to ptr
  musttail call void (ptr, ...) %real(ptr %first, ...)
  ret void
}}
"""


class Outside:
    """The functions outside of machine code, which are counted in code that is loaded now."""

    def __init__(self, monkeypatch):
        assert not fast_path.why_not_native()  # the front's own test is not counted
        true, data = host.symbols(), {*host.scratch.addresses(), *addresses.OBJECTS}
        self.names = sorted(set(true) - data)
        text = "".join(COUNTING.format(name=name, place=true[name]) for name in self.names)
        names = [*self.names, *(f"count_{name}" for name in self.names)]
        self.code = jit.MachineCode(jit.machine_code(text), names)
        ours = {name: self.code.address_of(name) for name in self.names}
        monkeypatch.setattr(host, "symbols", lambda: true | ours)
        front = host.linked(host.machine_code(vectorcall.source()), vectorcall.ENTRIES)
        monkeypatch.setattr(fast_path, "_entry_points", lambda: front)
        Outside.kept.append((self.code, front))

    kept = []  # noqa: RUF012 (code may be called as long as anything lives that it made)

    def counts(self):
        """How often each function has been called, if it has."""
        places = {name: self.code.address_of(f"count_{name}") for name in self.names}
        found = {name: ctypes.c_int64.from_address(x).value for name, x in places.items()}
        return {name: count for name, count in found.items() if count}

    def of(self, call):
        before = self.counts()
        call()
        return {k: n - before.get(k, 0) for k, n in self.counts().items() if n > before.get(k, 0)}


@pytest.fixture
def outside(monkeypatch):
    return Outside(monkeypatch)


def ready(model, name, dtype):
    """(method, inputs, results) of one state, after a first call."""
    q, rng = model.random_configuration(seed=0), np.random.default_rng(0)
    given = [q.astype(dtype), *rng.normal(size=(2, model.nv)).astype(dtype)]
    out = getattr(model, name)(*given)
    return getattr(model, name), given, out


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_with_out_asks_for_nothing(outside, name, dtype):
    """No memory, no lock, no error and no Python: what is called is a reference more of `out`."""
    method, (q, v, u), out = ready(fl.load("double_pendulum"), name, dtype)
    calls = 100

    def repeated():
        for _ in range(calls):
            method(q, v, u, out=out)

    assert outside.of(repeated) == {"incref": calls}
    assert outside.of(lambda: method(q, v, u))["array_new"] >= 1  # new results are counted
    assert outside.of(lambda: method(q[::-1], v, u))["vectorcall"] >= 1  # and Python


def test_a_large_workspace_is_asked_for_once(monkeypatch):
    """One that does not lie on the stack waits for the next call."""
    monkeypatch.setattr(host.scratch, "ON_STACK", -1)
    monkeypatch.setattr(host.scratch, "_waiting", type(host.scratch._waiting)())
    monkeypatch.setattr(cache, "read", lambda key: None)  # compiled with this ON_STACK
    outside = Outside(monkeypatch)
    Outside.kept.append(host.scratch._waiting)
    method, (q, v, u), out = ready(fl.load("iiwa14"), FUNCTIONS[-1], np.float64)
    assert outside.counts()["scratch_new"] == 1
    assert outside.of(lambda: method(q, v, u, out=out)) == {"incref": 1}


@pytest.fixture
def script():
    pytest.importorskip("pinocchio")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import worst_case
    finally:
        sys.path.remove(str(BENCHMARKS))
    return worst_case


def test_each_call_is_made_and_timed(script):
    given = []
    clocked = script.Clocked(script.Call(lambda *x, **y: given.append((x, y)), (1, 2), {"z": 3}), 5)
    clocked.turn(3)
    assert (clocked.times > 0).tolist() == [True] * 3 + [False] * 2
    clocked.turn(3)
    assert given == [((1, 2), {"z": 3})] * 5
    assert (clocked.times >= 0).all()


def test_times_follow_the_clock(script):
    """Each time is that of its own call: the slow one is found where it was."""
    hours = iter([0.0, 0.0, 0.05, 0.0])
    clocked = script.Clocked(script.Call(lambda: script.time.sleep(next(hours))), 4)
    clocked.turn(4)
    assert clocked.times[2] >= 50e6


def test_a_call_that_fails_is_told(script):
    with pytest.raises(ZeroDivisionError):
        script.Clocked(script.Call(divmod, (1, 0)), 3).turn(3)


def test_references_are_given_back(script):
    result = object()
    before = sys.getrefcount(result)
    script.Clocked(script.Call(lambda: result), 100).turn(100)
    assert sys.getrefcount(result) == before


def test_the_loop_and_our_calls_keep_no_objects(script):
    method, given, out = ready(fl.load("double_pendulum"), FUNCTIONS[0], np.float64)
    clocked = script.Clocked(script.Call(method, tuple(given), {"out": out}), 3000)
    clocked.turn(1000)
    gc.collect()
    before = sys.getallocatedblocks()
    clocked.turn(2000)
    assert abs(sys.getallocatedblocks() - before) < 100


def test_quantiles(script):
    times = np.random.default_rng(0).permutation(np.arange(1, 10_001)) * 1000
    assert script.quantiles(times) == [5000.0, 9990.0, 10_000.0]
    assert script.quantiles(np.array([7000])) == [7.0, 7.0, 7.0]


def test_a_run(tmp_path):
    pytest.importorskip("pinocchio")
    data = tmp_path / "figures.json"
    command = [sys.executable, str(BENCHMARKS / "worst_case.py"), "--robots", "double_pendulum"]
    command += ["--functions", "inverse_dynamics", "--count", "1000", "--lock-memory"]
    env = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent)}
    command += ["--json", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if "needs Linux" in done.stderr:
        pytest.skip("needs Linux")
    assert done.returncode == 0, done.stderr
    figures = json.loads(data.read_text())
    assert [row["who"] for row in figures["results"]] == ["featherlane", "Pinocchio", "nothing"]
    for row in figures["results"]:
        assert 0 < row["p50"] <= row["p999"] <= row["largest"]
    assert figures["setup"][0].startswith("memory is ")
    assert "1,000 calls of each" in done.stdout
