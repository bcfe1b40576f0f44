"""Steps and rollouts on the ground with arrays of PyTorch and JAX."""

import importlib

import numpy as np
import pytest
from ground_cases import arrays, cases, keywords, options, policy
from ground_robots import DT, biped
from repetition import repeated
from test_backend import same_bits

F32 = np.float32
STEPS, STATES = 3, 8


class Framework:
    """A framework, its arrays, and the model that it differentiates."""

    def __init__(self, name):
        self.torch = pytest.importorskip("torch") if name == "torch" else None
        self.jax = pytest.importorskip("jax") if name == "jax" else None
        self.wrapped = importlib.import_module(f"featherlane.interop.{name}").wrap(biped())

    def array(self, x):
        return self.jax.numpy.asarray(x) if self.jax else self.torch.from_numpy(x)

    def gradients(self, loss, *values):
        """The gradients of a loss by arrays of NumPy."""
        if self.jax:
            return self.jax.jit(self.jax.grad(loss, range(len(values))))(*values)
        tensors = [self.array(x).requires_grad_() for x in values]
        loss(*tensors).backward()
        return [x.grad for x in tensors]


frameworks = pytest.mark.parametrize("framework", ["torch", "jax"])


@frameworks
@pytest.mark.parametrize("name", repeated([*cases()]))
def test_rollouts_have_the_bits_of_numpy(framework, name):
    """Models and wrapped models; JAX calls the same machine code inside jit."""
    of = Framework(framework)
    shapes = biped().graph("rollout_with", **options(name), policy=policy(), steps=STEPS).inputs
    inputs = arrays(shapes, STATES, F32)

    def run(model, array):
        state, more = (array(inputs["q"]), array(inputs["v"])), keywords(name, inputs, array)
        more["parameters"] = {**more.get("parameters", {}), "gain": array(inputs["gain"])}
        return model.rollout_with(policy(), *state, F32(DT), STEPS, **more)

    expected = run(biped(), np.asarray)
    assert expected.contact_force.any()
    kind = type(of.array(inputs["q"]))
    for model in (biped(), of.wrapped):
        results = run(model, of.array)
        for field in expected._fields:
            assert type(getattr(results, field)) is kind
            same_bits(np.asarray(getattr(results, field)), getattr(expected, field))


@frameworks
@pytest.mark.parametrize("name", repeated(["rigid", "soft"]))
def test_gradients_of_steps_in_a_row(framework, name):
    """By velocities, controls and friction, beside a chain of `step_vjp`."""
    of, model = Framework(framework), biped()
    given = arrays(model.graph("step", **options(name)).inputs, STATES, F32)
    controls = 0.1 * np.stack([given["tau"]] * STEPS)

    def moved(model, array, q, v, tau, mu):
        more = keywords(name, given, array)
        more["ground_params"] = more["ground_params"] | {"friction": mu}
        return model.step(q, v, tau, F32(DT), **more)

    def loss(v, tau, mu):
        q = of.array(given["q"])
        for k in range(STEPS):
            q, v, *_ = moved(of.wrapped, of.array, q, v, tau[k], mu)
        return (v * v).sum()

    by_v, by_tau, by_mu = map(
        np.asarray, of.gradients(loss, given["v"], controls, given["friction"])
    )
    states = [(given["q"], given["v"])]
    for tau in controls:
        states.append(moved(model, np.asarray, *states[-1], tau, given["friction"])[:2])
    gq, gv = np.zeros_like(given["v"]), 2 * states[-1][1]
    for k in reversed(range(STEPS)):
        gradients = gq, gv
        more = of_contacts(name, given)
        gq, gv, gtau = model.step_vjp(*states[k], controls[k], F32(DT), *gradients, **more)
        assert np.abs(gtau - by_tau[k]).max() < 1e-3 * np.abs(gtau).max()
    assert np.abs(gv - by_v).max() < 1e-3 * np.abs(gv).max()
    assert np.isfinite(by_mu).all()
    assert by_mu.any()


@frameworks
@pytest.mark.parametrize("name", repeated(["soft", "rigid", "held"]))
def test_gradients_of_rollouts(framework, name):
    """Of states and rewards, beside `rollout_gradient`; JAX differentiates inside jit."""
    of, model = Framework(framework), biped()
    shapes = model.graph("rollout", **options(name), steps=STEPS).inputs
    given, rng = arrays(shapes, STATES, F32), np.random.default_rng(1)
    tau, weights = 0.1 * given["tau"], rng.normal(size=(STATES, STEPS + 1, model.nv)).astype(F32)

    def moved(model, array, q, v, tau, aim):
        more = keywords(name, given, array)
        if "parameters" in more:
            more["parameters"] = {"aim": aim}
        return model.rollout(q, v, tau, F32(DT), **more)

    def loss(v, tau, aim):
        run = moved(of.wrapped, of.array, of.array(given["q"]), v, tau, aim)
        effort = 1e-4 * (tau * tau).sum()
        rewards = run.cost.sum() - effort if name == "soft" else 0.0 * aim.sum()
        return (of.array(weights) * run.v).sum() + rewards

    aim = given.get("aim", np.zeros(STATES, F32))
    by_v, by_tau, by_aim = map(np.asarray, of.gradients(loss, given["v"], tau, aim))
    run = moved(model, np.asarray, given["q"], given["v"], tau, aim)
    gq = np.zeros_like(run.v)
    if name == "soft":
        miss = run.q[:, 1:, 2] - aim[:, None]
        up = model.frame_placement(run.q[:, 1:], "trunk")[..., 2, :3]  # dz by motions of the trunk
        gq[:, 1:, :3] = 2 * miss[..., None] * up
        assert np.abs(by_aim + 2 * miss.sum(1)).max() < 1e-4 * np.abs(by_aim).max()
    exact = model.rollout_gradient(run, tau, F32(DT), gq, weights, **of_contacts(name, given))
    assert np.abs(exact.v - by_v).max() < 1e-3 * np.abs(by_v).max()
    assert np.abs(exact.tau - by_tau).max() < 1e-3 * np.abs(by_tau).max()


def of_contacts(name, given):
    """Returns the options of a call without sensors."""
    more = keywords(name, given)
    return {x: more[x] for x in more if x not in ("sensors", "parameters")}
