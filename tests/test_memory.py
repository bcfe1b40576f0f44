"""Memory: calls on short stacks, calls without memory, and what dropped functions leave behind."""

import threading
from concurrent.futures import ThreadPoolExecutor
from ctypes import CFUNCTYPE, c_size_t, c_void_p, cast

import numpy as np
import pytest
from processes import finished, python
from repetition import full, repeated

import featherlane as fl
from featherlane.backends.cpu import linked

resource = pytest.importorskip("resource", reason="limits of processes are those of POSIX")

larger = pytest.mark.parametrize("robot", repeated(["iiwa14", "hyq", "atlas"]))

# Functions of a robot on one state and on many, also by several threads. They are compiled before,
# in a thread with a large stack: Python itself needs more for that than the calls do.
CALLS = """
import sys, threading
import numpy as np
import featherlane as fl

model = fl.load(sys.argv[1], root="free")
NAMES = ["mass_matrix_inverse", "forward_dynamics_derivatives"]
states = [model.random_configuration(*n, seed=0) for n in ((), (64,))]

def calls():
    for q in states:
        v = np.ones((*q.shape[:-1], model.nv))
        for name in NAMES:
            arrays = (q,) if name.startswith("mass") else (q, v, v)
            getattr(model, name)(*arrays)
            getattr(model, name)(*arrays, threads=2)

def in_a_thread(stack):
    threading.stack_size(stack)
    thread = threading.Thread(target=calls)
    thread.start()
    thread.join()
"""


@full
@larger
def test_calls_on_a_short_stack(robot):
    """dFD of Atlas needed 384 KiB once; threads may have 64."""
    small = "for stack in (256, 64): in_a_thread(stack << 10)"
    finished(python(f"{CALLS}\nin_a_thread(16 << 20)\n{small}\nprint('done')", robot))


@larger
def test_a_process_with_a_short_stack(robot):
    def limited():
        _, hard = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, hard))

    finished(python(f"{CALLS}\nin_a_thread(16 << 20)\ncalls()", robot, preexec_fn=limited))


def test_workers_have_a_stack_of_their_own_size():
    """They run Python where evaluators are shared: a user's short stacks are not theirs."""
    code = """
    import threading
    import numpy as np
    import featherlane as fl

    threading.stack_size(48 << 10)
    model = fl.load("double_pendulum")
    model.mass_matrix(model.random_configuration(1000, seed=0), threads=3)
    assert threading.stack_size() == 48 << 10

    def deep(n):
        return n and deep(n - 1) + 1

    from featherlane.backends.cpu.threads.pool import thread_pool
    thread_pool().share_calls(lambda first, count: deep(200), 64, 1, 3)
    """
    finished(python(code))


class Refusing:
    """An allocator that refuses so many calls from now on."""

    def __init__(self, symbols):
        self.new = CFUNCTYPE(c_void_p, c_size_t)(symbols["scratch_new"])
        self.refused, self.left = 0, 0
        self.lock = threading.Lock()
        self.function = CFUNCTYPE(c_void_p, c_size_t)(self._take)

    def _take(self, size):
        with self.lock:
            if self.left:
                self.left -= 1
                self.refused += 1
                return None
        return self.new(size)


@pytest.fixture
def refusing(monkeypatch):
    """Kernels that are loaded now get memory from such an allocator, and no kept workspaces."""
    symbols = linked.symbols()
    allocator = Refusing(symbols)
    empty = (c_void_p * 4096)()
    symbols |= {
        "scratch_new": cast(allocator.function, c_void_p).value,
        "scratch_waiting": cast(empty, c_void_p).value,
    }
    monkeypatch.setattr(linked, "symbols", lambda: symbols)
    monkeypatch.setattr("featherlane.functions.kernels._kernels", {})
    allocator.empty = empty
    return allocator


def forget(refusing):
    """Takes the workspaces that wait for a call, so that the next one needs memory."""
    for k in range(len(refusing.empty)):
        refusing.empty[k] = None


def is_refused(refusing, call, left=1):
    forget(refusing)
    before, refusing.left = refusing.refused, left
    try:
        with pytest.raises(MemoryError):
            call()
    finally:
        refusing.left = 0
    return refusing.refused > before


@larger
def test_no_memory_for_a_workspace(refusing, robot):
    """By the front, through NumPy, on threads: an error, and right results afterwards."""
    model = fl.load(robot, root="free")
    q = model.random_configuration(300, seed=0)
    v = np.ones((300, model.nv))
    wanted = model.forward_dynamics_derivatives(q, v, v)
    one = model.forward_dynamics_derivatives(q[0], v[0], v[0])
    out = tuple(np.empty_like(x) for x in wanted)
    calls = {
        "front": lambda: model.forward_dynamics_derivatives(q[:9], v[:9], v[:9]),
        "front, one": lambda: model.forward_dynamics_derivatives(q[0], v[0], v[0]),
        "front, out": lambda: model.forward_dynamics_derivatives(q, v, v, out=out, threads=1),
        "threads": lambda: model.forward_dynamics_derivatives(q, v, v, threads=2),
        "numpy": lambda: model.forward_dynamics_derivatives(q[::2][None], v[::2][None], v[0]),
        "lists": lambda: model.forward_dynamics_derivatives(q[0].tolist(), v[0], v[0]),
    }
    for name, call in calls.items():
        call()
        assert is_refused(refusing, call), name
        call()
        for result, whole, single in zip(call(), wanted, one, strict=True):
            assert result.ndim == 2 or result.shape[-2:] == whole.shape[-2:]
            if name == "front, one":
                assert np.array_equal(result, single)
    again = model.forward_dynamics_derivatives(q, v, v)
    assert all(np.array_equal(x, y) for x, y in zip(again, wanted, strict=True))


@pytest.mark.parametrize("name", ["inverse_dynamics", "mass_matrix", "mass_matrix_inverse"])
def test_no_memory_for_a_long_robot(refusing, name):
    model = fl.chain(150, seed=0)
    q = model.random_configuration(3, seed=0)
    arrays = (q,) if name.startswith("mass") else (q, q, q)
    call = getattr(model, name)
    refusing.left = 1
    with pytest.raises(MemoryError, match="no memory for the workspace of"):
        call(*arrays)
    assert refusing.refused == 1
    wanted = call(*arrays)
    strided = np.empty((*wanted.shape[:-1], 2 * wanted.shape[-1]))[..., ::2]
    if name != "inverse_dynamics":  # a matrix with gaps needs room of its own
        refusing.left = 1
        with pytest.raises(MemoryError):
            call(*arrays, out=strided)
        assert refusing.refused == 2
    call(*arrays, out=strided)
    assert np.array_equal(strided, wanted)


@larger
def test_threads_that_compute_at_once_share_the_pool_of_workspaces(robot):
    model = fl.load(robot, root="free")
    q = model.random_configuration(40, seed=0)
    v = np.ones((40, model.nv))
    wanted = model.forward_dynamics_derivatives(q, v, v, threads=1)
    call = lambda _: model.forward_dynamics_derivatives(q, v, v, threads=1)
    with ThreadPoolExecutor(8) as pool:
        for results in pool.map(call, range(200)):
            assert all(np.array_equal(x, y) for x, y in zip(results, wanted, strict=True))


@full
@pytest.mark.parametrize(
    "one",
    repeated(
        [
            "f = fl.compile(graph); f(np.ones(3)); f(np.ones((4, 3)))",
            "m = fl.load('double_pendulum'); m.mass_matrix(zeros[0]); m.mass_matrix(zeros)",
        ]
    ),
    ids=["functions", "models"],
)
def test_what_is_dropped_leaves_nothing_behind(one):
    """A function left 10 kB behind once. The heap grows by steps until it has settled: what leaks
    grows in every part of the run.
    """
    code = f"""
    import gc
    import numpy as np
    import featherlane as fl

    graph, zeros = fl.trace(lambda x: [x[0] * x[1] + x[2]], {{"x": 3}}), np.zeros((4, 2))
    resident = []
    for k in range(1201):
        {one}
        if k % 240 == 0:
            gc.collect()
            resident.append(int(open("/proc/self/statm").read().split()[1]) * 4096)
    print(*(b - a for a, b in zip(resident[1:], resident[2:])))
    """
    assert min(map(int, finished(python(code)).split())) / 240 < 400
