"""Which mapping of the work to the threads of a GPU is chosen, and that all give the same bits."""

import pickle

import numpy as np
import pytest
from emulated_gpu import emulated, states
from test_backend import same_bits

import featherlane as fl
from featherlane.backends.cuda import mappings
from featherlane.backends.cuda.driver import Properties
from featherlane.backends.cuda.mappings import KernelWork, cycles, warps_for

SMALL, LARGE = KernelWork(600, 600, 1), KernelWork(18_000, 18_000, 4)


@pytest.fixture
def gpu(monkeypatch):
    return emulated(monkeypatch)


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum")


def test_small_functions_and_large_batches_take_a_thread_for_a_state():
    assert warps_for(SMALL, 1) == 1
    assert warps_for(LARGE, 1_000_000) == 1


def test_small_batches_of_large_functions_take_teams():
    assert warps_for(LARGE, 1) == 8
    fewer = [warps_for(LARGE, 1 << k) for k in range(21)]
    assert fewer == sorted(fewer, reverse=True)
    assert warps_for(LARGE, 2048, 8) < warps_for(LARGE, 2048, 132)


def test_times_grow_with_the_states():
    times = [cycles(LARGE, n, 1, 132) for n in (1, 32, 100_000, 1_000_000)]
    assert times[0] == times[1] < times[2] < times[3]


@pytest.mark.parametrize("mapping", ["lanes", "team:2", "team:4"])
def test_every_mapping_gives_the_bits_of_the_cpu(gpu, arm, mapping):
    function, given = arm.function("forward_dynamics", mapping=mapping), states(arm, 33)
    same_bits(function(*map(gpu.Array, given)).get(), arm.forward_dynamics(*given))
    (launched,) = gpu.launched
    assert launched[-1] == 33
    again = pickle.loads(pickle.dumps(function))
    same_bits(again(*given), arm.forward_dynamics(*given))
    assert again.gpu.fixed == mapping


def test_calls_take_what_is_expected_to_be_fast(gpu, arm, monkeypatch):
    monkeypatch.setattr(mappings, "LONG", 10)
    function = arm.function("inverse_dynamics").on_gpu(np.dtype(np.float64))
    assert function.mapping(0, 1).startswith("team:")
    assert function.mapping(0, 10**9) == "lanes"
    given = states(arm, 3)
    same_bits(arm.inverse_dynamics(*map(gpu.Array, given)).get(), arm.inverse_dynamics(*given))


def test_robots_of_many_links(gpu):
    chain = fl.chain(101)
    given = states(chain, 2)
    serial = chain.function("inverse_dynamics", method="serial", mapping="links:2")
    same_bits(serial(*map(gpu.Array, given)).get(), serial(*given))
    assert serial.on_gpu(np.dtype(np.float64)).mapping(0, 5) == "links:2"
    spread = chain.function("inverse_dynamics", method="scan", mapping="links:1/4")
    given, before = [x[:1] for x in given], len(gpu.launched)
    found = spread(*map(gpu.Array, given)).get()
    np.testing.assert_allclose(found, serial(*given), rtol=1e-9, atol=1e-9)
    assert len(gpu.launched) - before > 10  # one for each round
    free = chain.function("inverse_dynamics").on_gpu(np.dtype(np.float64))
    assert [free.mapping(0, n) for n in (1, 5, 1000)] == ["links:1", "links:2", "links:32"]


def test_functions_of_ones_own(gpu):
    own = fl.compile(lambda x: {"y": x @ x}, {"x": 3}, mapping="team:2")
    x = np.arange(12.0).reshape(4, 3)
    same_bits(own(gpu.Array(x)).get(), own(x))


def test_mappings_that_there_are_not(arm):
    with pytest.raises(ValueError, match=r"mapping is 'warp': wanted one of 'lanes', 'team:2'"):
        arm.function("mass_matrix", mapping="warp")
    with pytest.raises(ValueError, match="mapping is 'lanes': wanted one of 'links:1', 'lin"):
        fl.chain(101).function("inverse_dynamics", mapping="lanes")
    with pytest.raises(ValueError, match=r"mapping is 'team:4': wanted 'lanes'$"):
        arm.function("rollout", steps=2, mapping="team:4")


def test_devices_with_little_shared_memory_get_no_teams(gpu, arm, monkeypatch):
    monkeypatch.setattr(mappings, "LONG", 10)
    function = arm.function("mass_matrix").on_gpu(np.dtype(np.float32))
    assert function.mapping(0, 1).startswith("team:")
    monkeypatch.setattr(gpu, "properties", lambda device: Properties(40, 64 << 10, 16 << 30))
    assert function.mapping(0, 1) == "lanes"


def test_steps_of_robots_of_many_links_are_refused(gpu):
    chain = fl.chain(101)
    q, v, tau = states(chain, 2)
    with pytest.raises(fl.CompileError, match=r"step of .* steps of robots of so many links have"):
        chain.step(*map(gpu.Array, (q, v, tau)), 0.01)
