"""Functions of models on arrays of JAX, with derivatives of any order, called by XLA."""

import ctypes
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import featherlane as fl

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install '.[jax]'")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

from featherlane.backends import xla_interface  # noqa: E402
from featherlane.backends.cuda import xla as cuda_xla  # noqa: E402
from featherlane.functions.table import TABLE  # noqa: E402
from featherlane.interop import jax as interop  # noqa: E402
from featherlane.interop import xla_calls  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def doubles():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def model():
    return fl.random_tree(2, 1, ("revolute", "spherical"), seed=2)


@pytest.fixture(scope="module")
def wrapped(model):
    return interop.wrap(model)


def states(model, *lead, dtype=np.float64):
    rng = np.random.default_rng(0)
    arrays = [model.random_configuration(lead, seed=0), *rng.normal(size=(2, *lead, model.nv))]
    return [x.astype(dtype) for x in arrays]


def test_every_function_is_there(wrapped):
    assert {*TABLE, "rollout"} <= vars(wrapped).keys()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_are_those_of_arrays(model, wrapped, dtype):
    q, v, a = states(model, 3, 5, dtype=dtype)
    for run in (wrapped.inverse_dynamics, jax.jit(wrapped.inverse_dynamics)):
        tau = run(q, v[0, 0], a[:, :1])
        assert tau.dtype == dtype
        assert np.array_equal(tau, model.inverse_dynamics(q, v[0, 0], a[:, :1]))
    made = jax.jit(wrapped.forward_dynamics_derivatives)(q, v, a)
    assert type(made) is fl.ForwardDynamicsDerivatives
    for x, y in zip(made, model.forward_dynamics_derivatives(q, v, a), strict=True):
        assert np.array_equal(x, y)
    assert np.array_equal(
        wrapped.kinetic_energy(q[0, 0], v[0, 0]), model.kinetic_energy(q, v)[0, 0]
    )
    assert wrapped.mass_matrix(q[0, :0]).shape == (0, model.nv, model.nv)


def test_wrapped_models_and_their_functions_are_pickled(model):
    wrapped = interop.wrap(model)
    q = jnp.asarray(model.random_configuration(3, seed=0))
    other, torque = pickle.loads(pickle.dumps((wrapped, wrapped.gravity_torque)))
    assert other.model == model
    for found in (other.gravity_torque(q), torque(q)):
        assert np.array_equal(np.asarray(found), np.asarray(wrapped.gravity_torque(q)))


def test_xla_calls_machine_code(model, wrapped):
    q, v, a = states(model, 2)
    text = jax.jit(wrapped.inverse_dynamics).lower(q, v, a).as_text()
    assert "callback" not in text
    assert "inverse_dynamics" in text


def test_large_batches_may_share_threads(model, wrapped):
    q, v, a = states(model, 20_000)
    assert np.array_equal(
        jax.jit(wrapped.inverse_dynamics)(q, v, a), model.inverse_dynamics(q, v, a)
    )


def test_another_version_of_the_interface_goes_through_python(model, wrapped, monkeypatch):
    q, v, a = states(model, 2)
    monkeypatch.setattr(xla_interface, "MAJOR", 7)
    xla_calls.target_of.cache_clear()
    jax.clear_caches()
    try:
        run = jax.jit(jax.vmap(wrapped.inverse_dynamics))
        assert "callback" in run.lower(q, v, a).as_text()
        assert np.array_equal(run(q, v, a), model.inverse_dynamics(q, v, a))
    finally:
        xla_calls.target_of.cache_clear()
        jax.clear_caches()


def test_derivatives(model, wrapped):
    q, v, a = states(model, 2)
    q[:, :4] *= 1.4  # quaternions of any length
    check_grads(wrapped.bias_force, (q, v[0]), 2)
    check_grads(wrapped.forward_dynamics, (q, v[0], a), 1)
    d = model.forward_dynamics_derivatives(q, v, a)
    for jacobian in (jax.jacrev, jax.jacfwd):
        made = jax.jit(jax.vmap(jacobian(wrapped.forward_dynamics, (1, 2))))(q, v, a)
        assert np.allclose(made[0], d.da_dv)
        assert np.allclose(made[1], d.da_dtau)
    hessian = jax.hessian(lambda v: wrapped.kinetic_energy(q[0], v))(v[0])
    assert np.allclose(hessian, model.mass_matrix(q[0]))


def test_wrenches_and_parameters_have_gradients(model, wrapped):
    q, v, a = states(model, 2)

    def run(f, mass):
        return wrapped.inverse_dynamics(q, v, a, f, f_ext_frame="world", params={"mass": mass})

    check_grads(run, (np.ones((model.nbodies, 6)), model.parameters("mass")["mass"]), 1)


def test_mapped_functions(model, wrapped):
    q, v, a = states(model, 3)
    made = jax.vmap(wrapped.inverse_dynamics, (0, None, 1))(q, v[0], a.T)
    assert np.array_equal(made, model.inverse_dynamics(q, v[0], a))
    inner = jax.vmap(wrapped.inverse_dynamics, (0, None, None))
    made = jax.vmap(inner, (None, 0, 0))(q, v, a)
    assert np.array_equal(made, model.inverse_dynamics(q, v[:, None], a[:, None]))


def test_a_rollout_by_scan_has_gradients(model, wrapped):
    q, v, _ = states(model, 3)
    forces = np.zeros((4, model.nv))

    def final(forces, q, v):
        def step(state, force):
            q, v = state
            v = v + 0.01 * wrapped.forward_dynamics(q, v, force)
            return (q, v), None

        return jax.lax.scan(step, (q, v), forces)[0][1].sum()

    gradient = jax.jit(jax.vmap(jax.grad(final), (None, 0, 0)))(forces, q, v)
    h = 1e-5 * np.eye(4 * model.nv).reshape(-1, 4, model.nv)
    for k in (0, 9, 15):
        change = (final(h[k], q[0], v[0]) - final(-h[k], q[0], v[0])) / 2e-5
        assert np.allclose(gradient[0].ravel()[k], change, rtol=1e-5, atol=1e-7)


def test_rollouts(model, wrapped):
    q, v, _ = states(model, 3)
    tau, dt = np.random.default_rng(1).normal(size=(3, 4, model.nv)), np.array([0.01, 0.02, 0.03])
    check_grads(wrapped.rollout, (q, v, tau, dt), 1)
    for options in ({}, {"integrator": "rk4", "every": 2}):
        run = jax.jit(lambda *x, options=options: wrapped.rollout(*x, **options))
        for x, y in zip(run(q, v, tau, dt), model.rollout(q, v, tau, dt, **options), strict=True):
            assert np.array_equal(x, y)
    cost = lambda q, v, tau: jnp.sum(wrapped.rollout(q, v, tau, 0.01).q ** 3)
    gradient = jax.grad(cost, (0, 1, 2))
    assert "callback" not in jax.jit(gradient).lower(q, v, tau).as_text()
    mapped = jax.jit(jax.vmap(gradient, (0, None, 0)))(q, v[0], tau)
    for x, y in zip(mapped, gradient(q, np.repeat(v[:1], 3, 0), tau), strict=True):
        assert np.array_equal(x, y)
    with pytest.raises(
        NotImplementedError, match=r"rollout has first derivatives only: .*lax.scan"
    ):
        jax.hessian(cost)(q, v, tau)
    with pytest.raises(ValueError, match=r"tau has shape \(4,\): wanted \(..., T, n\)"):
        wrapped.rollout(q, v, tau[0, 0], 0.01)


def test_rollouts_of_feedback_laws(model, wrapped):
    q, v, _ = states(model, 3)
    law = model.policy(
        lambda q, v, t, gain, goal: gain * (goal - v), {"gain": ()}, references={"goal": model.nv}
    )
    goal = np.random.default_rng(1).normal(size=(3, 4, model.nv))
    run = lambda gain, goal, v: wrapped.rollout_with(
        law, q, v, 0.01, 4, parameters={"gain": gain}, references={"goal": goal}
    )
    wanted = model.rollout_with(
        law, q, v, 0.01, 4, parameters={"gain": 0.3}, references={"goal": goal}
    )
    for x, y in zip(jax.jit(run)(0.3, goal, v), wanted, strict=True):
        assert np.array_equal(x, y)
    check_grads(run, (0.3, goal, v), 1)


def test_actuators_of_the_file(model):
    pytest.importorskip("mujoco")
    motor = fl.load(
        '<mujoco><worldbody><body><joint name="j"/><geom size="0.1"/></body></worldbody>'
        '<actuator><position joint="j" kp="3"/></actuator></mujoco>'
    )
    state = [0.1], [0.2], [0.3], 0.01
    for mine, theirs in zip(
        interop.wrap(motor).step(*map(jnp.asarray, state), actuation="file"),
        motor.step(*state, actuation="file"),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    with pytest.raises(ValueError, match="has no actuators from its file"):
        interop.wrap(model).step(*[np.zeros(model.nv)] * 3, 0.01, actuation="file")


def test_what_is_refused(model, wrapped):
    q, _, a = states(model)
    with pytest.raises(ValueError, match=r"v has shape \(5,\), wanted \(..., 4\)"):
        wrapped.inverse_dynamics(q, q, a)
    with pytest.raises(ValueError, match="reference is 'there'"):
        wrapped.jacobian(q, model.frame_names[-1], "there")
    with pytest.raises(TypeError, match=r"no numbers: inside of jit.*featherlane.interop.jax.wrap"):
        jax.jit(model.mass_matrix)(q)


def test_models_take_arrays_of_jax(model):
    q, v, a = states(model, 3)
    tau = model.inverse_dynamics(jnp.asarray(q), v, jnp.asarray(a))
    assert isinstance(tau, jax.Array)
    assert np.array_equal(tau, model.inverse_dynamics(q, v, a))
    with pytest.raises(ValueError, match="out for tau is read-only"):
        model.inverse_dynamics(q, v, a, out=jnp.zeros((3, model.nv)))


def test_the_handler_refuses_other_arrays(model, wrapped):
    """Calls one function's target with what it does not have."""
    q, v, a = states(model, 2)
    function = wrapped.inverse_dynamics
    jax.block_until_ready(function(q, v, a))
    jax.block_until_ready(function(*(x.astype(np.float32) for x in (q, v, a))))
    op = interop.Operation(model, interop.Variant("inverse_dynamics"))
    target = xla_calls.target_of(op, np.dtype(float), "cpu")
    result = jax.ShapeDtypeStruct((2, model.nv), float)

    def call(*arrays, result=result):
        return jax.block_until_ready(jax.jit(jax.ffi.ffi_call(target, result))(*arrays))

    assert np.array_equal(call(q, v[0], a), model.inverse_dynamics(q, v[0], a))
    assert np.array_equal(call(q, v[:1], a), model.inverse_dynamics(q, v[:1], a))
    for arrays, message in (
        ((q, v), "another number of arrays"),
        ((q, v.astype(np.float32), a), "an array of another type or shape"),
        ((q, q, a), "an array of another type or shape"),
        ((q, np.concatenate([v, v]), a), "an array of another type or shape"),
        ((q, v[0, 0], a), "an array of another type or shape"),
    ):
        with pytest.raises(Exception, match=message):
            call(*arrays)


def test_versions_of_the_header(tmp_path):
    header = tmp_path / "c_api.h"
    assert xla_interface.versions(header) is None
    header.write_text("#define XLA_FFI_API_MAJOR 0\n#define XLA_FFI_API_MINOR 3\n")
    assert xla_interface.versions(header) == (0, 3)
    assert [xla_interface.is_known(x) for x in (None, (0, 0), (0, 1), (0, 9), (1, 1))] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_the_handler_tells_its_version(model):
    """As XLA asks when a handler is registered: a frame with nothing but an extension."""
    handler = model.function("inverse_dynamics").xla_handler(float)
    metadata = (ctypes.c_int64 * 6)(48, 24, 0, -1, -1, -1)
    extension = (ctypes.c_int64 * 4)(32, xla_interface.METADATA, 0, ctypes.addressof(metadata))
    frame = (ctypes.c_int64 * 22)(168, ctypes.addressof(extension))
    run = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(handler.address)
    assert run(ctypes.addressof(frame)) is None
    assert metadata[3] == xla_interface.MAJOR | xla_interface.MINOR << 32
    assert metadata[4] & 0xFFFFFFFF == 0
    assert metadata[5] == 0


def test_functions_on_gpus_are_calls_of_xla_too(model, wrapped, monkeypatch):
    """Lowered for a GPU that is not here: kernels where there are some, else Python on the CPU."""
    q, v, a = states(model, 2)
    in_python = []

    def callback(run, results, *arrays, **options):
        in_python.append(len(arrays))
        return [jnp.zeros(x.shape, x.dtype) for x in results]

    monkeypatch.setattr(jax, "pure_callback", callback)

    def lowered(run, *arrays, platform="cuda"):
        return jax.jit(run).trace(*arrays).lower(lowering_platforms=(platform,)).as_text()

    loss = lambda *x: jnp.sum(wrapped.forward_dynamics(*x) ** 2)
    for run in (wrapped.inverse_dynamics, jax.vmap(wrapped.forward_dynamics), jax.grad(loss)):
        assert "custom_call" in lowered(run, q, v, a)
    rollout = lambda q, v, tau: wrapped.rollout(q, v, tau, 0.01)
    tau = np.zeros((2, 4, model.nv))
    for platform in ("cpu", "cuda"):
        assert "custom_call" in lowered(rollout, q, v, tau, platform=platform)
    assert not in_python
    assert "custom_call" not in lowered(wrapped.inverse_dynamics, q, v, a, platform="rocm")
    assert in_python == [3]


alive = []  # XLA keeps the addresses of handlers for good


class OnHost:
    """Kernels of a function, as a function of arrays of the host that stand at addresses."""

    def __init__(self, function, dtype):
        self.function, self.dtype, self.calls = function, np.dtype(dtype), []

    def call(self, device, stream, arrays, states):
        self.calls.append((device, stream, states))
        shapes = [*self.function.inputs.values(), *self.function.outputs.values()]
        whole = [self.array(x, core, states) for x, core in zip(arrays, shapes, strict=True)]
        n = len(self.function.inputs)
        self.function(*whole[:n], out=whole[n:])

    def array(self, rows, core, states):
        size = (states if rows.stride else 1) * int(np.prod(core))
        raw = (ctypes.c_char * (size * self.dtype.itemsize)).from_address(rows.address)
        return np.frombuffer(raw, self.dtype).reshape(-1, *core)


def test_xla_calls_the_handler_for_gpus(model, monkeypatch):
    """Registered for the CPU: XLA's frames, its errors, and the version that it asks for."""
    function = model.function("inverse_dynamics")
    kernels = OnHost(function, np.float64)
    handler = cuda_xla.DeviceHandler(kernels, function.inputs, function.outputs)
    alive.append(handler)
    jax.ffi.register_ffi_target("for_gpus", jax.ffi.pycapsule(handler.address), platform="cpu")
    q, v, a = states(model, 3)

    def call(*arrays):
        made = jax.ffi.ffi_call("for_gpus", jax.ShapeDtypeStruct((3, model.nv), float))
        return np.asarray(jax.block_until_ready(jax.jit(made)(*arrays)))

    with pytest.raises(Exception, match="UNIMPLEMENTED"):  # XLA's own: a CPU has no stream
        call(q, v, a)
    with pytest.raises(Exception, match=r"v has shape \(3, 3\), wanted \(..., 4\)"):
        call(q, v[:, :3], a)
    assert not kernels.calls
    monkeypatch.setattr(cuda_xla, "_stream", lambda frame: 5)
    monkeypatch.setattr(cuda_xla, "driver", lambda: SimpleNamespace(device_of=lambda address: 1))
    assert np.array_equal(call(q, v[0], a), model.inverse_dynamics(q, v[0], a))
    assert kernels.calls == [(1, 5, 3)]


def test_without_jax_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "featherlane.interop.jax")
    with pytest.raises(ImportError, match=r"needs jax: pip install 'featherlane\[jax\]'"):
        import featherlane.interop.jax  # noqa: F401
