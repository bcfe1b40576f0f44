"""Calls with arrays on a GPU: of a package whose arrays are in the memory of a driver that emulates
kernels.
"""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from emulated_gpu import emulated, states
from test_backend import same_bits

import featherlane as fl
from featherlane.backends.cuda import calls, stages
from featherlane.backends.cuda.workspaces import DeviceWorkspaces


@pytest.fixture
def gpu(monkeypatch):
    return emulated(monkeypatch)


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lead", [(), (5,), (3, 4)])
def test_arrays_are_read_and_written_where_they_lie(gpu, arm, lead, dtype):
    given = states(arm, *lead, dtype=dtype)
    result = arm.forward_dynamics_derivatives(*map(gpu.Array, given))
    wanted = arm.forward_dynamics_derivatives(*given)
    assert type(result) is type(wanted)
    for x, y in zip(result, wanted, strict=True):
        assert type(x) is gpu.Array
        same_bits(x.get(), y)
    assert gpu.launched == [(0, 7, "forward_dynamics_derivatives", int(np.prod(lead)))]
    assert not gpu.allocated


def test_results_go_to_the_callers_arrays(gpu, arm):
    given = states(arm, 5)
    out = gpu.Array(np.zeros((5, arm.nv)))
    assert arm.inverse_dynamics(*map(gpu.Array, given), out=out) is out
    same_bits(out.get(), arm.inverse_dynamics(*given))


def test_one_state_for_all_and_rows_apart(gpu, arm):
    q, v, a = states(arm, 6)
    wide = gpu.Array(np.concatenate([v, v], 1))  # its first columns are the velocities
    wide.shape, wide.strides = (6, arm.nv), (2 * arm.nv * 8, 8)
    found = arm.inverse_dynamics(gpu.Array(q[:1]), wide, gpu.Array(a))
    same_bits(found.get(), arm.inverse_dynamics(q[:1], v, a))
    wide.strides = (2 * arm.nv * 8, 16)
    with pytest.raises(ValueError, match="numbers of a state of v do not follow each other"):
        arm.inverse_dynamics(gpu.Array(q), wide, gpu.Array(a))
    with pytest.raises(ValueError, match="broadcast along some of the axes"):
        arm.inverse_dynamics(*map(gpu.Array, (q[:, None], *states(arm, 6, 2)[1:])))


def test_single_numbers_go_over(gpu, arm):
    given = states(arm, 5)
    found = arm.step(*map(gpu.Array, given), 0.01)
    for x, y in zip(found, arm.step(*given, 0.01), strict=True):
        same_bits(x.get(), y)


def test_long_functions_have_a_workspace_made_once(gpu, arm, monkeypatch):
    monkeypatch.setattr("featherlane.backends.cuda.stages.LONGEST", 60)
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")  # whose kernels are longer
    model = fl.load("double_pendulum")  # functions of its own
    given = states(model, 40)
    arrays = [*map(gpu.Array, given)]
    for _ in range(3):
        found = model.forward_dynamics(*arrays)
    same_bits(found.get(), model.forward_dynamics(*given))
    assert len(gpu.allocated) == 1
    launches = len(gpu.launched) // 3
    assert launches > 1
    # A small workspace: the states go in chunks
    slots = gpu.allocated[0] // (64 * 8)
    monkeypatch.setattr(calls, "LARGEST", 32 * slots * 8)
    monkeypatch.setattr(calls, "workspaces", DeviceWorkspaces())
    gpu.launched.clear()
    same_bits(model.forward_dynamics(*arrays).get(), model.forward_dynamics(*given))
    assert [states for *_, states in gpu.launched] == [32] * launches + [8] * launches


def test_captures_allocate_nothing(gpu, monkeypatch):
    monkeypatch.setattr("featherlane.backends.cuda.stages.LONGEST", 60)
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")  # whose kernels are longer
    model = fl.load("double_pendulum")
    arrays, gpu.capturing = [*map(gpu.Array, states(model, 40))], True
    with pytest.raises(fl.DeviceError, match="call the function once for as many states"):
        model.forward_dynamics(*arrays)
    gpu.capturing = False
    model.forward_dynamics(*arrays)
    gpu.capturing = True
    model.forward_dynamics(*arrays)
    assert len(gpu.allocated) == 1


def test_kernels_are_not_loaded_in_a_capture(gpu):
    """Nor those of a function without a workspace."""
    model = fl.load("double_pendulum")
    q, out = gpu.Array(np.zeros((3, 2))), gpu.Array(np.zeros((3, 2, 2)))
    gpu.capturing = True
    with pytest.raises(fl.DeviceError, match="call the function once for as many states"):
        model.mass_matrix(q, out=out)
    assert not gpu.loaded
    gpu.capturing = False
    model.mass_matrix(q, out=out)
    gpu.capturing = True
    model.mass_matrix(q, out=out)
    assert gpu.loaded == [0]
    assert not gpu.allocated


def test_failures_leave_the_inputs_and_the_cpu_alone(gpu, monkeypatch):
    monkeypatch.setattr("featherlane.backends.cuda.stages.LONGEST", 60)
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")  # whose kernels are longer
    model = fl.load("double_pendulum")
    given = states(model, 40)
    arrays = [*map(gpu.Array, given)]
    gpu.full = True
    with pytest.raises(MemoryError, match="the GPU has no memory left"):
        model.forward_dynamics(*arrays)
    gpu.full, gpu.lost = False, True
    with pytest.raises(fl.DeviceError, match="CUDA_ERROR_LAUNCH_FAILED"):
        model.forward_dynamics(*arrays)
    gpu.lost = False
    for x, y in zip(arrays, given, strict=True):
        same_bits(x.get(), y)
    same_bits(model.forward_dynamics(*arrays).get(), model.forward_dynamics(*given))


def test_arrays_that_are_refused(gpu, arm):
    q, v, a = states(arm, 3)
    on = gpu.Array
    with pytest.raises(TypeError, match="q is on a GPU but v is a ndarray on the CPU"):
        arm.inverse_dynamics(on(q), v, on(a))
    with pytest.raises(TypeError, match="q is on GPU 0 but a is on GPU 1"):
        arm.inverse_dynamics(on(q), on(v), on(a, device=1))
    with pytest.raises(TypeError, match="q is float64 but v is float32: wanted one dtype"):
        arm.inverse_dynamics(on(q), on(v.astype(np.float32)), on(a))
    with pytest.raises(TypeError, match="q has dtype int64: wanted float32 or float64"):
        arm.inverse_dynamics(on(q.astype(int)), on(v), on(a))
    with pytest.raises(ValueError, match=r"v has shape \(3, 3\), wanted \(\.\.\., 2\)"):
        arm.inverse_dynamics(on(q), on(np.zeros((3, 3))), on(a))
    with pytest.raises(ValueError, match=r"out for tau has shape \(4, 2\), wanted \(3, 2\)"):
        arm.inverse_dynamics(on(q), on(v), on(a), out=on(np.zeros((4, 2))))
    x = on(a)
    with pytest.raises(ValueError, match="out for tau shares memory with a"):
        arm.inverse_dynamics(on(q), on(v), x, out=x)
    with pytest.raises(ValueError, match="out for da_dq shares memory with out for da_dv"):
        arm.forward_dynamics_derivatives(
            on(q), on(v), on(a), out=(y := on(np.zeros((3, 2, 2))), y, on(np.zeros((3, 2, 2))))
        )


def test_without_a_driver_the_error_says_what_is_missing(arm):
    class Array:
        @property
        def __cuda_array_interface__(self):
            return {"shape": (2,), "typestr": "<f8", "data": (4096, False)}

    with pytest.raises(fl.DeviceError, match=r"featherlane\[cuda\]|there is no NVIDIA driver"):
        arm.mass_matrix(Array())
    arm.mass_matrix(np.zeros(2))


def test_rollouts_stay_on_the_device(gpu, arm):
    q, v, _ = states(arm, 4)
    tau = np.random.default_rng(3).normal(size=(4, 3, arm.nv))
    found = arm.rollout(gpu.Array(q), gpu.Array(v), gpu.Array(tau), 0.01)
    for x, y in zip(found, arm.rollout(q, v, tau, 0.01), strict=True):
        assert x.shape == y.shape
        same_bits(x.get(), y)
    assert len(gpu.launched) == 1


def test_functions_of_ones_own(gpu):
    cost = fl.compile(lambda x, w: {"cost": x @ (w * x), "x": w * x}, {"x": 3, "w": 3})
    x, w = np.random.default_rng(0).normal(size=(2, 4, 3))
    found = cost(gpu.Array(x), gpu.Array(w))
    for name in ("cost", "x"):
        same_bits(getattr(found, name).get(), getattr(cost(x, w), name))


def test_derivatives_from_a_known_inverse(gpu, arm):
    q, v, a = states(arm, 4)
    minv = arm.mass_matrix_inverse(q)
    given = gpu.Array(minv)
    found = arm.forward_dynamics_derivatives(gpu.Array(q), gpu.Array(v), a=gpu.Array(a), minv=given)
    wanted = arm.forward_dynamics_derivatives(q, v, a=a, minv=minv)
    assert found.da_dtau is given
    for x, y in zip(found, wanted, strict=True):
        same_bits(x.get(), y)
    with pytest.raises(TypeError, match="out= and minv= together on a GPU"):
        arm.forward_dynamics_derivatives(
            gpu.Array(q), gpu.Array(v), a=gpu.Array(a), minv=given, out=found
        )


def test_layouts_that_no_kernel_can_write_or_read(gpu, arm):
    given = [gpu.Array(x) for x in states(arm, 4)]
    out = gpu.Array(np.zeros((4, 2)))
    out.strides = (0, 8)
    with pytest.raises(ValueError, match="out for tau: its states share memory"):
        arm.inverse_dynamics(*given, out=out)
    out.strides = (20, 8)
    with pytest.raises(ValueError, match="at addresses that are no multiples of 8"):
        arm.inverse_dynamics(*given, out=out)
    wide = gpu.Array(np.zeros((12, 2)))
    wide.shape, turned = (6, 2), given[0]
    turned.address, turned.shape, turned.strides = wide.address + 7 * 16, (4, 2), (-16, 8)
    gpu.device |= {wide.address + k * 16: 0 for k in range(12)}
    with pytest.raises(ValueError, match="shares memory with q"):
        arm.inverse_dynamics(*given, out=_rows_of(wide, 4))


def _rows_of(array, count):
    array.shape = (count, 2)
    array.address += 4 * 16
    return array


def test_words_that_are_no_names_in_ptx(gpu):
    x = np.arange(6.0).reshape(2, 3)
    for name in ("memory", "WARP_SZ", "_", "größe"):
        function = lambda x: {"y": 2 * x}
        function.__name__ = name
        same_bits(fl.compile(function, {"x": 3})(gpu.Array(x)).get(), 2 * x)


def test_threads_that_share_a_stream_take_turns(gpu, monkeypatch):
    """Kernels of two calls never alternate, since both use the stream's workspace."""
    monkeypatch.setattr(stages, "LONGEST", 100)
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")  # whose kernels are longer
    arm = fl.load("double_pendulum", gravity=(0, 0, -9.0))
    plain, function = states(arm, 3), arm.function("forward_dynamics_derivatives")
    given = [gpu.Array(x) for x in plain]
    function(*given)
    launch, begun = gpu.launch, threading.Event()

    def slow(device, stream, kernel, launched, *rest):
        begun.set()
        time.sleep(0.02)
        launch(device, stream, kernel, launched, *rest)

    monkeypatch.setattr(gpu, "launch", slow)
    gpu.launched.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(function, *given)
        begun.wait()
        second = pool.submit(function, *given)
        for x, y in zip(first.result(), second.result(), strict=True):
            same_bits(x.get(), y.get())
    kernels = [name for *_, name, _ in gpu.launched]
    half = len(kernels) // 2
    assert half > 1
    assert kernels[:half] == kernels[half:]


def test_kernels_of_collected_functions_are_unloaded(gpu):
    """Each robot has functions of its own: in a loop they do not fill the device."""
    q = gpu.Array(np.zeros((3, 2)))
    for k in range(4):
        fl.load("double_pendulum").with_gravity((0.0, 0.0, -k)).mass_matrix(q)
        gc.collect()
    assert len(gpu.loaded) == 4
    assert len(gpu.unloaded) == 3
    fl.empty_cache()
    assert len(gpu.unloaded) == 4
