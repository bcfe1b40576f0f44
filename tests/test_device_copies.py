"""NumPy arrays that go to a GPU and back: `device="cuda"`, on an emulated device."""

import pickle

import numpy as np
import pytest
from emulated_gpu import emulated, states
from test_backend import same_bits

import featherlane as fl
from featherlane.backends.cuda import copies


@pytest.fixture
def gpu(monkeypatch):
    return emulated(monkeypatch)


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum")


NAME = "forward_dynamics_derivatives"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lead", [(), (5,), (3, 4), (0,)])
def test_arrays_go_over_and_back(gpu, arm, lead, dtype):
    given = states(arm, *lead, dtype=dtype)
    function = arm.function(NAME, device="cuda")
    found, wanted = function(*given), arm.forward_dynamics_derivatives(*given)
    assert type(found) is type(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert type(x) is np.ndarray
        same_bits(x, y)
    count = int(np.prod(lead))
    assert [x[3] for x in gpu.launched] == [count] * (count > 0)
    assert all(device == 0 for device, *_ in gpu.launched)


def test_large_batches_go_in_chunks_through_the_same_memory(gpu, arm, monkeypatch):
    monkeypatch.setattr(copies, "CHUNK", 5 * 256 + 7 * 100)  # of 6 and 2 numbers of 8 bytes: 6 fit
    function = arm.function("inverse_dynamics", device="cuda:1")
    given = states(arm, 15)
    for _ in range(2):
        same_bits(function(*given), arm.inverse_dynamics(*given))
    counts = [(device, states) for device, _, _, states in gpu.launched]
    chunk = counts[0][1]
    assert 1 < chunk < 15
    assert sum(n for _, n in counts) == 30
    assert {n for _, n in counts} == {chunk, 15 % chunk} - {0}
    assert {device for device, _ in counts} == {1}
    assert len({stream for _, stream, *_ in gpu.launched}) == 2  # in turn
    assert len(gpu.allocated) == len(gpu.host) == 2
    assert all(gpu.device[address] == 1 for address in gpu.device)
    assert fl.empty_cache() >= sum(gpu.allocated)
    assert not gpu.host
    assert len(gpu.freed) == len(gpu.gone) == 2
    same_bits(function(*given), arm.inverse_dynamics(*given))


def test_a_row_longer_than_a_chunk(gpu, monkeypatch):
    monkeypatch.setattr(copies, "CHUNK", 64)
    double = fl.compile(lambda x: 2.0 * x, {"x": (3, 40)}, device="cuda")
    for count in (1, 3):
        x = np.random.default_rng(0).normal(size=(count, 3, 40))
        same_bits(double(x), 2.0 * x)


def test_broadcasting_strides_results_and_names(gpu, arm):
    function = arm.function("inverse_dynamics", device="cuda")
    q, v, a = states(arm, 6)
    same_bits(function(q[0], v[::-1], a=a[:1]), arm.inverse_dynamics(q[0], v[::-1], a[:1]))
    shared = q[:3, None], v[:4], a[0]
    same_bits(function(*shared), arm.inverse_dynamics(*shared))
    same_bits(function(q, v, np.zeros(2)), arm.inverse_dynamics(q, v, np.zeros(2)))
    wide = np.zeros((6, 5))
    out = wide[:, 1:3]
    assert function(q, v, a, out=out) is out
    same_bits(np.ascontiguousarray(out), arm.inverse_dynamics(q, v, a))
    assert not wide[:, [0, 3, 4]].any()
    wanted = arm.inverse_dynamics(q, v, a)
    assert function(q, v, a, out=a, threads=2) is a  # its states are read before
    same_bits(a, wanted)
    step = arm.function("step", device="cuda")
    for x, y in zip(step(q, v, v, 0.01), arm.step(q, v, v, 0.01), strict=True):
        same_bits(x, y)


def test_arrays_that_live_on_a_gpu_stay_there(gpu, arm):
    given = states(arm, 3)
    found = arm.function("inverse_dynamics", device="cuda")(*map(gpu.Array, given))
    same_bits(found.get(), arm.inverse_dynamics(*given))
    assert not gpu.copied


def test_what_is_refused(gpu, arm):
    for device in ("gpu", "cuda:x", "cuda:-1", 0):
        with pytest.raises(ValueError, match="wanted 'cpu', 'cuda' or, of several, 'cuda:1'"):
            arm.function("inverse_dynamics", device=device)
    assert arm.function("mass_matrix", device="cpu") is arm.function("mass_matrix")
    function = arm.function("inverse_dynamics", device="cuda")
    q, v, a = states(arm, 3)
    with pytest.raises(ValueError, match=r"v has shape \(3, 3\), wanted \(\.\.\., 2\)"):
        function(q, np.zeros((3, 3)), a)
    with pytest.raises(ValueError, match="threads is 0"):
        function(q, v, a, threads=0)
    with pytest.raises(TypeError, match="out for tau has dtype float32"):
        function(q, v, a, out=np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("what", ["full", "lost"])
def test_failures_leave_the_inputs_and_later_calls_alone(gpu, arm, monkeypatch, what):
    monkeypatch.setattr(copies, "CHUNK", 2000)
    function, given = arm.function("inverse_dynamics", device="cuda"), states(arm, 15)
    kept, out = [x.copy() for x in given], np.zeros((15, 2))
    setattr(gpu, what, True)
    error, message = {
        "full": (MemoryError, "the GPU has no memory left"),
        "lost": (fl.DeviceError, "CUDA_ERROR_LAUNCH_FAILED"),
    }[what]
    with pytest.raises(error, match=message):
        function(*given, out=out)
    for x, y in zip(given, kept, strict=True):
        same_bits(x, y)
    assert len(gpu.host) == (2 if what == "lost" else 0)
    setattr(gpu, what, False)
    same_bits(function(*given, out=out), arm.inverse_dynamics(*given))


def test_what_is_on_its_way_is_waited_for_after_an_error(gpu, arm, monkeypatch):
    """The third chunk fails: the second one's results must not come into memory used again."""
    monkeypatch.setattr(copies, "CHUNK", 2000)
    function, given = arm.function("inverse_dynamics", device="cuda"), states(arm, 40)
    function(*given)
    launch, waited, count = gpu.launch, [], iter(range(99))

    def failing(*arguments):
        if next(count) == 2:
            raise fl.DeviceError("NVIDIA's driver reports CUDA_ERROR_LAUNCH_FAILED")
        launch(*arguments)

    monkeypatch.setattr(gpu, "launch", failing)
    monkeypatch.setattr(gpu, "wait", lambda device, stream: waited.append(stream))
    with pytest.raises(fl.DeviceError, match="CUDA_ERROR_LAUNCH_FAILED"):
        function(*given)
    assert {*waited[-2:]} == {stream for _, stream, _ in gpu.copied}
    assert len(waited) == 3  # the first chunk's end, then both streams
    same_bits(function(*given), arm.inverse_dynamics(*given))


def test_functions_of_ones_own_and_pickles(gpu):
    cost = fl.compile(lambda x: {"y": x * x, "n": x @ x}, {"x": 3}, device="cuda")
    x = np.random.default_rng(0).normal(size=(4, 3))
    again = pickle.loads(pickle.dumps(cost))
    for found in (cost(x), again(x)):
        same_bits(found.y, x * x)
    assert len(gpu.launched) == 2


def test_without_a_driver_the_error_says_what_is_missing(arm):
    function = arm.function("mass_matrix", device="cuda")
    with pytest.raises(fl.DeviceError, match=r"featherlane\[cuda\]|there is no NVIDIA driver"):
        function(np.zeros(2))
    arm.mass_matrix(np.zeros(2))
