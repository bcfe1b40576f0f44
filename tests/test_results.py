"""Memory of results: when it is used again, when not, how much is kept."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends import cores
from featherlane.backends.cpu import results
from featherlane.backends.cpu.strides import LINE, SMALL

pytestmark = pytest.mark.skipif(not results.limit(), reason="no results are kept here")
LARGE = results.SHORT // 8 + 1  # states whose forces of two joints, in float32, are a large result


@pytest.fixture(autouse=True)
def _empty():
    gc.collect()
    with results.limited(1 << 30):
        yield
    fl.empty_cache()


@pytest.fixture(scope="module")
def call():
    """call(): a large result of a function whose calls are machine code, on one thread."""
    function = fl.load("double_pendulum").function("mass_matrix")
    q = np.zeros((LARGE, 2), np.float32)
    function(q, threads=1)
    return lambda **options: function(q, threads=1, **options)


@pytest.fixture(params=["machine code", "Python"])
def make(request, call):
    """make(): a new large result."""
    if request.param == "Python":
        return lambda: results.fresh((LARGE, 2, 2), np.dtype(np.float32))
    return call


def place_of(size):
    """The address of a result of so many bytes, which is dropped."""
    return results.fresh((size,), np.dtype(np.uint8)).ctypes.data


def kept():
    return [block.nbytes for block in results._blocks if block is not None]


def test_memory_of_a_dropped_result_serves_the_next(make):
    first = make()
    place, size = first.ctypes.data, first.nbytes
    assert kept() == [size + LINE]
    assert place % LINE == 0
    assert first.flags.c_contiguous
    assert first.flags.writeable
    del first
    places = [make().ctypes.data for _ in range(3)]  # each is dropped before the next
    assert places == [place] * 3
    assert kept() == [size + LINE]


def test_memory_is_not_used_again_while_any_view_lives(make):
    views = {
        "slice": lambda x: x[5:6, 0],
        "transposed": lambda x: x.T,
        "another dtype": lambda x: x.view(np.int32)[::7],
        "memoryview": lambda x: memoryview(x),
        "base": lambda x: x.base,
        "frombuffer": lambda x: np.frombuffer(x, np.uint8),
        "dlpack": lambda x: np.from_dlpack(x),
    }
    for name, view in views.items():
        result = make()
        result[...] = 7.0
        place, alive = result.ctypes.data, view(result)
        del result
        others = [make() for _ in range(3)]
        assert place not in [x.ctypes.data for x in others], name
        for other in others:
            other[...] = -1.0
        numbers = np.frombuffer(alive, np.float32) if name == "base" else np.asarray(alive)
        assert not np.any(numbers == -1.0), name
        del alive, numbers, others, other
        assert place in [x.ctypes.data for x in [make() for _ in range(4)]], name


def test_results_that_are_alive_share_no_memory(make):
    alive = [make() for _ in range(2 * results.BLOCKS)]
    assert len({x.ctypes.data for x in alive}) == len(alive)
    assert len(kept()) == results.BLOCKS
    del alive
    assert results.empty_cache() == results.BLOCKS * (4 * 4 * LARGE + LINE)


def test_a_block_serves_smaller_results_down_to_four_fifths(make):
    place = make().ctypes.data
    size = 16 * LARGE
    assert place_of(size * 9 // 10) == place
    assert place_of(size * 3 // 5) != place
    assert place_of(size + 1) != place


def test_the_limit_counts_what_is_kept(make):
    size = 16 * LARGE + LINE
    with results.limited(3 * size):
        alive = [make() for _ in range(5)]
        assert kept() == [size] * 3
        del alive
        assert kept() == [size] * 3
        place_of(2 * size)
        assert sum(kept()) <= 3 * size
    with results.limited(size - 1):
        make()
        assert kept() == []
    with results.limited(0):
        assert make().shape == (LARGE, 2, 2)
        assert kept() == []


def test_empty_cache_frees_what_is_not_in_use(make):
    alive = make()
    make()
    make()
    assert len(kept()) == 2
    assert fl.empty_cache() == 16 * LARGE + LINE
    assert kept() == []
    alive[...] = 3.0
    assert make().ctypes.data != alive.ctypes.data
    assert (alive == 3.0).all()


def test_small_blocks_are_kept_by_machine_code_now_and_then():
    function = fl.load("double_pendulum").function("mass_matrix")
    q = np.zeros((2 * SMALL // 16, 2), np.float32)
    function(q, threads=1)
    for _ in range(results.SKIPPED + 1):
        function(q, threads=1)
    assert len(kept()) == 1
    assert len({function(q, threads=1).ctypes.data for _ in range(5)}) == 1
    assert function(q[:4], threads=1).base is None


def test_results_have_the_numbers_of_out(call):
    out = np.empty((LARGE, 2, 2), np.float32)
    call(out=out)
    for _ in range(3):
        assert np.array_equal(call(), out)


def test_methods_of_all_kinds_use_kept_memory():
    model = fl.load("double_pendulum")
    q, v, n = np.zeros((LARGE, 2)), np.zeros((LARGE, 2)), 8 * LARGE
    minv = model.mass_matrix_inverse(q)
    wrench = {"link2": np.ones(6)}
    for run in (
        lambda: model.inverse_dynamics(q, v, v, wrench),
        lambda: model.forward_dynamics_derivatives(q, v, a=v, minv=minv),
        lambda: model.jacobian(q[:, None], "link2"),
    ):
        run()
        before = kept()
        assert max(before) >= n
        run()
        assert kept() == before


def test_threads_never_get_the_same_memory(call):
    """Each writes its number and looks whether it stays."""
    wrong, rounds = [], 150

    def work(number):
        held = []
        for k in range(rounds):
            new = call() if k % 2 else results.fresh((LARGE, 2, 2), np.dtype(np.float32))
            new[::97] = number
            held.append(new)
            if k % 3 == 2:
                if any((x[::97] != number).any() for x in held):
                    wrong.append(number)
                held.clear()
            if k % 50 == number:
                fl.empty_cache()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


@pytest.mark.parametrize("other", ["machine code", "Python"])
def test_a_thread_that_comes_in_between(other, call, monkeypatch):
    """Another one makes a result just after Python has seen that a block is not in use."""
    fresh = lambda: results.fresh((LARGE, 2, 2), np.dtype(np.float32))
    run, count, made, threads = call if other == "machine code" else fresh, results._count, [], []
    fresh()

    def interrupted(address):
        found = count(address)
        if not threads:
            threads.append(threading.Thread(target=lambda: made.append(run())))
            threads[0].start()
            threads[0].join(0.3)  # it waits for the lock if it finds no other block
        return found

    monkeypatch.setattr(results, "_count", interrupted)
    mine = fresh()
    threads[0].join()
    assert made[0].ctypes.data != mine.ctypes.data


def test_memory_that_is_refused(make, monkeypatch):
    """What is kept is freed before an allocation fails."""
    empty, refused = np.empty, []
    place_of(3 << 20)

    def short(*arguments):
        if kept():
            refused.append(arguments)
            raise MemoryError("no memory")
        return empty(*arguments)

    monkeypatch.setattr(results.np, "empty", short)
    assert make().shape == (LARGE, 2, 2)
    assert len(refused) == 1
    del refused[:]

    def none(*arguments):
        raise MemoryError("no memory at all")

    fl.empty_cache()
    monkeypatch.setattr(results.np, "empty", none)
    with pytest.raises(MemoryError, match="no memory at all"):
        make()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_its_own(call):
    alive = call()
    alive[...] = 1.0
    dropped = call().ctypes.data
    child = os.fork()
    if not child:  # in it, another process's lock is never held
        try:
            again = call()
            again[...] = 2.0
            right = again.ctypes.data == dropped and (alive == 1.0).all()
            os._exit(0 if right and fl.empty_cache() == 0 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    again = call()
    assert again.ctypes.data == dropped
    assert not (again == 2.0).all()


@pytest.mark.parametrize(
    ("text", "limit"), [("20M", 2 * 10**7), (" 3GB ", 3 * 10**9), ("off", 0), ("None", 0), ("0", 0)]
)
def test_the_limit_of_the_environment(text, limit, monkeypatch):
    monkeypatch.setenv("FEATHERLANE_RESULTS", text)
    assert results._chosen_limit() == limit


def test_a_wrong_limit_is_refused_where_it_is_needed(call, monkeypatch):
    monkeypatch.setenv("FEATHERLANE_RESULTS", "much")
    with results.limited(results.UNKNOWN):
        for run in (call, lambda: results.fresh((LARGE, 4), np.dtype(np.float32))):
            with pytest.raises(ValueError, match="FEATHERLANE_RESULTS is 'much'; wanted bytes"):
                run()


LATE = """
import atexit, sys
import numpy as np, featherlane as fl

call = fl.load("double_pendulum").function("mass_matrix")
q = np.zeros((200000, 2))
sys.late = [call(q, threads=1)[5:] for _ in range(3)]  # goes after the modules
atexit.register(lambda: print(call(q, threads=1).shape))
"""


def test_results_that_outlive_the_modules():
    found = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "(200000, 2, 2)\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_the_memory_of_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "ROOT", tmp_path)
    monkeypatch.setattr(results, "_physical", lambda: 10**12)
    monkeypatch.setattr(results, "_address_space", lambda: results.UNKNOWN)
    assert results.memory() == 10**12

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    write("proc/self/cgroup", "0::/a/b\n7:memory:/x\n")
    write("sys/fs/cgroup/a/b/memory.max", "max\n")
    assert results.memory() == 10**12
    write("sys/fs/cgroup/a/memory.max", "8000000000\n")
    assert results.memory() == 8 * 10**9
    write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4000000000\n")
    assert results.memory() == 4 * 10**9
    monkeypatch.delenv("FEATHERLANE_RESULTS", raising=False)
    assert results._chosen_limit() == 5 * 10**8
