"""Derivatives of steps and rollouts on the ground by the equations that steps solve."""

import numpy as np
import pytest
from ground_robots import DT, STANCE, ball, biped, standing
from numpy.testing import assert_allclose

import featherlane as fl
from featherlane.functions.differentiated import function_of
from featherlane.functions.operations import Operation, bound

GROUND = fl.Ground(friction=0.8)
H = 1e-6


def coupled(model, **gains):
    """Returns constraints of the knees, twice, so that rows are redundant, and of a foot."""
    same = fl.Coupling("FL_knee", "RR_knee", (0.0, 1.0))
    return model.constraints([same, same, fl.Pin("FL_shank", axes="y")], **gains)


@pytest.mark.parametrize("level", ["velocity", "acceleration"])
def test_linear_steps_with_constraints_are_those_of_differences(level):
    model = biped()
    q, v = standing(60, seed=4, model=model)
    rng = np.random.default_rng(2)
    tau, active = rng.normal(size=v.shape), rng.integers(0, 2, (60, 3)) * 1.0
    gains = {"kd": 5.0} if level == "acceleration" else {}
    options = {"ground": GROUND, "constraints": coupled(model, level=level, **gains)}
    solved = model.step(q, v, tau, DT, active=active, **options).residual < 1e-10
    assert solved.sum() > 20
    q, v, tau = q[solved], v[solved], tau[solved]
    options["active"] = active[solved]
    touching = model.step(q, v, tau, DT, **options).contact_force[..., 2] > 0
    assert touching.mean() > 0.1
    linear = model.linearize_step(q, v, tau, DT, **options)
    n = model.nv
    errors = []
    for _ in range(6):
        dq, dv, du = rng.normal(size=(3, *v.shape))
        ends = [
            model.step(model.integrate(q, s * dq), v + s * dv, tau + s * du, DT, **options)
            for s in (H, -H)
        ]
        change = np.hstack([model.difference(ends[1].q, ends[0].q), ends[0].v - ends[1].v])
        exact = np.einsum("nij,nj->ni", linear.A, np.hstack([dq, dv]))
        exact += np.einsum("nij,nj->ni", linear.B, du)
        errors.append(np.abs(exact - change / (2 * H)).max(1) / np.abs(exact).max(1))
    assert linear.A.shape == (len(q), 2 * n, 2 * n)
    assert np.median(errors) < 1e-7
    assert (np.array(errors) < 1e-4).mean() > 0.9


def test_derivatives_by_all_inputs_are_those_of_differences():
    """Of all results of a solved step, as frameworks ask for them, joints with rows among them."""
    model, law = biped(), fl.Coulomb(limits=True, friction_loss=True, sweeps=100)
    (q, v), rng, n = standing(40, seed=4, model=model), np.random.default_rng(0), 40
    by = {"friction": rng.uniform(0.1, 0.8, n), "height": rng.uniform(-3e-3, 3e-3, n)}
    params = {"mass": model.parameters("mass")["mass"] * rng.uniform(0.8, 1.2, (n, 1))}
    state = q, v, rng.normal(size=v.shape), np.full(n, DT)
    options = {"ground": fl.Ground(), "law": law, "ground_params": by, "params": params}
    op = Operation(model, bound("step", state, options)[0])
    inputs = dict(zip(op.inputs, bound("step", state, options)[1], strict=True))
    names = ("v", "tau", "dt", "friction", "height", "mass")
    size = {"dt": 1e-3, "height": 1e-3}
    moves = {x: size.get(x, 0.1) * rng.normal(size=inputs[x].shape) for x in names}
    step, along = function_of(op), function_of(op.tangents(names))
    solved = step(*inputs.values()).residual < 1e-12
    assert solved.sum() > 30
    total = 0
    for x in names:
        only = {y: (x == y) * d for y, d in moves.items()}
        ends = [step(*[y + s * only.get(z, 0) for z, y in inputs.items()]) for s in (H, -H)]
        exact = along(*inputs.values(), *only.values())
        total = [a + b for a, b in zip(exact, total, strict=True)] if total else exact
        for field, there, back, change in zip(op.outputs, *ends, exact, strict=True):
            if field == "residual":
                continue
            difference = ((there - back) / (2 * H)).reshape(n, -1)[solved]
            errors = np.abs(change.reshape(n, -1)[solved] - difference).max(1)
            assert np.median(errors) < 1e-5 * np.abs(difference).max()
            assert (errors < 1e-3 * np.abs(difference).max()).mean() > 0.75
    weights = {x: rng.normal(size=(n, *shape)) for x, shape in op.outputs.items()}
    gradients = function_of(op.adjoints(names))(*inputs.values(), *weights.values())
    dots = lambda a, b: sum((x * y).reshape(n, -1).sum(1) for x, y in zip(a, b, strict=True))
    assert_allclose(dots(gradients, moves.values()), dots(total, weights.values()), rtol=1e-9)


def trajectory(law, steps, **options):
    """Returns a rollout of a robot that settles on its legs, its controls, and options."""
    model = biped()
    q, v = standing(6, seed=4, model=model)
    q[:, 2] -= 0.004
    legs = STANCE[: model.nq - 7]
    hold = model.policy(lambda q, v, t: np.append(np.zeros(6), 60 * (legs - q[7:]) - v[6:]))
    options = {"ground": GROUND, "law": law, **options}
    start = model.rollout_with(hold, q, 0.1 * v, DT, 60, **options)
    q, v = start.q[:, -1], start.v[:, -1]
    tau = model.rollout_with(hold, q, v, DT, steps, **options).tau
    return model.rollout(q, v, tau, DT, **options), tau, options


@pytest.mark.parametrize("constrained", [False, True])
def test_gradients_of_rollouts_are_those_of_linear_steps(constrained):
    """The sum of products with A and B, step by step, with the impulses at which each is solved."""
    model = biped()
    more = {"constraints": coupled(model)} if constrained else {}
    moved, tau, options = trajectory(fl.Coulomb(sweeps=60), 20, **more)
    assert (moved.contact_force[..., 2] > 0).mean() > 0.5
    rng, n = np.random.default_rng(3), model.nv
    gq, gv = rng.normal(size=(2, *moved.v.shape))
    gradient = model.rollout_gradient(moved, tau, DT, gq, gv, **options)
    back, by_tau = np.concatenate([gq[:, -1], gv[:, -1]], -1), np.zeros_like(tau)
    for k in reversed(range(20)):
        linear = model.linearize_step(moved.q[:, k], moved.v[:, k], tau[:, k], DT, **options)
        by_tau[:, k] = np.einsum("nij,ni->nj", linear.B, back)
        back = np.einsum("nij,ni->nj", linear.A, back)
        back += np.concatenate([gq[:, k], gv[:, k]], -1)
    for exact, expected in ((gradient.q, back[:, :n]), (gradient.v, back[:, n:])):
        assert_allclose(exact, expected, atol=1e-5 * np.abs(expected).max())
    assert_allclose(gradient.tau, by_tau, atol=1e-5 * np.abs(by_tau).max())


@pytest.mark.parametrize("law", [fl.Coulomb(erp=1.0, sweeps=60), fl.SoftContacts(steps=4)])
def test_gradients_of_long_rollouts_are_those_of_differences(law):
    """Of the last state of a hundred steps with contact, in directions of all inputs."""
    model, steps = biped(), 100
    moved, tau, options = trajectory(law, steps)
    assert (moved.contact_force[..., 2] > 0).mean() > 0.5
    rng = np.random.default_rng(3)
    gq, gv = np.zeros((2, *moved.v.shape))
    gq[:, -1], gv[:, -1] = rng.normal(size=(2, 6, model.nv))
    gradient = model.rollout_gradient(moved, tau, DT, gq, gv, **options)
    q, v = moved.q[:, 0], moved.v[:, 0]

    def value(s):
        there = model.rollout(model.integrate(q, s * dq), v + s * dv, tau + s * du, DT, **options)
        motion = model.difference(moved.q[:, -1], there.q[:, -1])
        return (gq[:, -1] * motion + gv[:, -1] * there.v[:, -1]).sum(-1)

    dq, dv, du = (
        rng.normal(size=q[:, 1:].shape),
        rng.normal(size=v.shape),
        rng.normal(size=tau.shape),
    )
    h = 1e-7  # feet that slide slowly curve the function
    difference = (value(h) - value(-h)) / (2 * h)
    exact = (
        (gradient.q * dq).sum(-1) + (gradient.v * dv).sum(-1) + (gradient.tau * du).sum((-1, -2))
    )
    error = np.abs(exact - difference) / np.abs(difference)
    assert np.median(error) < 1e-5


def test_soft_steps_begin_again_with_their_own_forces():
    """The sum of products of steps, in which two Newton steps from no forces are not a solution."""
    model = biped()
    law = fl.SoftContacts(cone="elliptic", impratio=20.0, steps=2)
    moved, tau, options = trajectory(law, 5)
    back = np.random.default_rng(3).normal(size=(2, *moved.v.shape))
    gradient = model.rollout_gradient(moved, tau, DT, *back, **options)
    impulses = [np.zeros_like(moved.impulse)]
    for k in range(5):
        there = moved.q[:, k], moved.v[:, k], tau[:, k], DT
        begun = {"ground_params": {"impulse": impulses[-1]}}
        impulses.append(model.step(*there, **options, **begun).impulse)
    gq, gv = back[:, :, 5]
    for k in reversed(range(5)):
        there = moved.q[:, k], moved.v[:, k], tau[:, k], DT
        begun = {"ground_params": {"impulse": impulses[k + 1]}}
        product = model.step_vjp(*there, gq, gv, **options, **begun)
        assert_allclose(gradient.tau[:, k], product.tau, atol=1e-6 * np.abs(product.tau).max())
        gq, gv = product.q + back[0, :, k], product.v + back[1, :, k]
    assert_allclose(gradient.v, gv, atol=1e-6 * np.abs(gv).max())
    assert_allclose(gradient.q, gq, atol=1e-6 * np.abs(gq).max())


def test_gradients_of_a_ball_that_slides():
    """Its way along x grows by the time for each m/s; forces act from their steps on. Gradients are
    in the axes of the ball, which turns.
    """
    model, v = ball(), np.array([1.0, 0, 0, 0, 0, 0])
    q, tau = np.array([0, 0, 0.1, 0, 0, 0, 1.0]), np.zeros((50, 6))
    options = {"ground": GROUND, "ground_params": {"friction": 0.1, "impulse": np.zeros(3)}}
    moved = model.rollout(q, v, tau, DT, **options)
    axes = model.frame_placement(moved.q, "ball")[:, 0, :3]
    assert axes[-1, 0] < 0.995
    gq, gv = np.zeros((2, 51, 6))
    gq[-1, :3] = axes[-1]
    gradient = model.rollout_gradient(moved, tau, DT, gq, gv, **options)
    assert_allclose(gradient.v[0], 50 * DT, rtol=1e-9)
    along = (gradient.tau[:, :3] * axes[:-1]).sum(-1)
    assert_allclose(along, DT**2 / 2 * (50 - np.arange(50)), rtol=1e-6)


def test_gradients_in_traces():
    model, q, v = ball(), np.array([0, 0, 0.1, 0, 0, 0, 1.0]), np.array([1.0, 0, 0, 0, 0, 0])
    tau, ones = np.zeros((3, 6)), np.ones((4, 6))

    def by_tau(q, v):
        moved = model.rollout(q, v, tau, DT, ground=GROUND)
        return model.rollout_gradient(moved, tau, DT, ones, ones, ground=GROUND).tau

    assert_allclose(fl.compile(by_tau, {"q": 7, "v": 6})(q, v), by_tau(q, v), rtol=1e-9, atol=1e-12)


def test_a_rollout_on_the_ground_has_no_gradient_without_its_ground():
    start, tau = (np.array([0, 0, 0.1, 0, 0, 0, 1.0]), np.zeros(6)), np.zeros((3, 6))
    run = ball().rollout(*start, tau, 0.002, ground=fl.Ground())
    with pytest.raises(TypeError, match="rollout on the ground: wanted the ground="):
        ball().rollout_gradient(run, tau, 0.002, *np.zeros((2, 4, 6)))


@pytest.mark.parametrize("method", ["graph", "function"])
def test_accelerations_on_contacts_by_name_need_a_ground(method):
    with pytest.raises(TypeError, match="contact_forward_dynamics needs a ground"):
        getattr(ball(), method)("contact_forward_dynamics")
