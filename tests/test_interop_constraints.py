"""Constraints on tensors of PyTorch, arrays of JAX and expressions of CasADi, with derivatives."""

import numpy as np
import pytest
import textbook
from constrained_states import with_frames

import featherlane as fl

STATES, STEPS, DT = 4, 3, 0.01
NAME = "constrained_forward_dynamics"


@pytest.fixture(scope="module")
def case():
    """A robot in contact, states of it, and masks: each constraint alone, both, and none."""
    model = fl.random_tree(2, 1, ("revolute", "spherical"), seed=2)
    model = with_frames(model, ("foot", 1, np.eye(3), [0.1, 0.05, 0.2]))
    c = model.constraints([fl.Pin("foot", axes="z"), fl.Pin("foot", axes="x")], kd=3.0)
    v, tau = np.random.default_rng(0).normal(size=(2, STATES, model.nv))
    q = model.random_configuration(STATES, seed=0)
    return model, c, (q, v, tau), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])


def close(own, wanted, tolerance=1e-9):
    own, wanted = np.asarray(own), np.asarray(wanted)
    assert np.abs(own - wanted).max() < tolerance * (1 + np.abs(wanted).max())


def by_tangent(model, q, gradient):
    """A gradient by the entries of q, by small motions of the joints."""
    return np.einsum("nqk,nq->nk", textbook.tangent(model, q), np.asarray(gradient))


def check_gradients(model, c, arrays, active, gradients):
    """Those of the sum of all forces, by q, v and tau, against the package's derivatives."""
    d = model.constrained_forward_dynamics_derivatives(*arrays, c, active)
    close(by_tangent(model, arrays[0], gradients[0]), d.dforce_dq.sum(1))
    close(gradients[1], d.dforce_dv.sum(1))
    close(gradients[2], d.dforce_dtau.sum(1))


def of_rollouts(model, c, arrays):
    """Controls and masks of each step, and the gradient of the sum of the last velocities."""
    q, v, _ = arrays
    rng = np.random.default_rng(1)
    tau = 0.1 * rng.normal(size=(STATES, STEPS, model.nv))
    active = rng.integers(0, 2, size=(STATES, STEPS, c.count)).astype(float)
    path = model.rollout(q, v, tau, DT, constraints=c, active=active)
    gq, gv = np.zeros((2, STATES, STEPS + 1, model.nv))
    gv[:, -1] = 1
    held = {"constraints": c, "active": active}
    return tau, active, path, model.rollout_gradient(path, tau, DT, gq, gv, **held)


def test_torch(case):
    torch = pytest.importorskip("torch")
    from featherlane.interop.torch import wrap

    model, c, arrays, active = case
    wrapped = wrap(model)
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    masks = torch.tensor(active)
    a, force = wrapped.constrained_forward_dynamics(*tensors, c, masks)
    wanted = model.constrained_forward_dynamics(*arrays, c, active)
    assert (a.detach().numpy() == wanted.a).all()
    by_name = wrapped.constrained_forward_dynamics(*tensors, constraints=c, active=masks > 0)
    assert (by_name.force == force).all()
    force.sum().backward()
    check_gradients(model, c, arrays, active, [x.grad for x in tensors])
    tau, masks, path, gradient = of_rollouts(model, c, arrays)
    controls = torch.tensor(tau, requires_grad=True)
    given = [x.detach() for x in tensors[:2]]
    made = wrapped.rollout(*given, controls, DT, constraints=c, active=torch.tensor(masks))
    assert (made.q.detach().numpy() == path.q).all()
    made.v[:, -1].sum().backward()
    close(controls.grad, gradient.tau)
    after = wrapped.step(
        *given, controls[:, 0], DT, constraints=c, active=torch.tensor(masks[:, 0])
    )
    close(after.v.detach(), path.v[:, 1])
    impulse = wrapped.impulse(*given, c, restitution=0.5)
    assert (impulse.v.numpy() == model.impulse(*arrays[:2], c, restitution=0.5).v).all()
    least = wrapped.constrained_inverse_dynamics(*given, a.detach(), c)
    wanted = model.constrained_inverse_dynamics(*arrays[:2], wanted.a, c)
    assert (least.force.numpy() == wanted.force).all()


def test_jax(case):
    jax = pytest.importorskip("jax")
    from featherlane.interop.jax import wrap

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        model, c, arrays, active = case
        wrapped = wrap(model)
        forces = lambda *state: wrapped.constrained_forward_dynamics(*state, c, active).force
        wanted = model.constrained_forward_dynamics(*arrays, c, active).force
        assert (np.asarray(jax.jit(forces)(*arrays)) == wanted).all()
        gradients = jax.grad(lambda *state: forces(*state).sum(), argnums=(0, 1, 2))(*arrays)
        check_gradients(model, c, arrays, active, gradients)
        tau, masks, path, gradient = of_rollouts(model, c, arrays)
        held = {"constraints": c, "active": masks}
        ends = lambda tau: wrapped.rollout(*arrays[:2], tau, DT, **held).v[:, -1]
        close(ends(tau), path.v[:, -1], 1e-15)
        close(jax.grad(lambda tau: ends(tau).sum())(tau), gradient.tau)
        mapped = jax.vmap(
            lambda *state: wrapped.step(*state[:3], DT, constraints=c, active=state[3])
        )
        close(mapped(*arrays[:2], tau[:, 0], masks[:, 0]).v, path.v[:, 1])
    finally:
        jax.config.update("jax_enable_x64", before)


def test_casadi(case):
    """The Jacobians of forces, and of a step."""
    casadi = pytest.importorskip("casadi")
    from featherlane.interop.casadi import to_casadi

    model, c, arrays, active = case
    state = [x[0] for x in arrays]
    function = to_casadi(model, NAME, constraints=c, active=True)
    a, force = function(*state, active[0])
    wanted = model.constrained_forward_dynamics(*state, c, active[0])
    close(casadi.DM(a).full()[:, 0], wanted.a)
    close(casadi.DM(force).full()[:, 0], wanted.force)
    d = model.constrained_forward_dynamics_derivatives(*state, c, active[0])
    blocks = dict(
        zip(
            function.jacobian().name_out(),
            function.jacobian()(*state, active[0], a, force),
            strict=True,
        )
    )
    G = textbook.tangent(model, state[0])
    close(casadi.DM(blocks["jac_force_q"]).full() @ G, d.dforce_dq)
    close(casadi.DM(blocks["jac_force_v"]).full(), d.dforce_dv)
    close(casadi.DM(blocks["jac_a_tau"]).full(), d.da_dtau)
    step = to_casadi(model, "step", constraints=c, active=True)
    after = step(*state, DT, active[0])
    wanted = model.step(*state, DT, constraints=c, active=active[0])
    close(casadi.DM(after[1]).full()[:, 0], wanted.v)
