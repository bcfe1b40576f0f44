"""Restitution under fl.Coulomb: impacts beside friction add no energy."""

from functools import cache

import numpy as np
import pytest
from ground_robots import DT, RADIUS, ball, biped
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane.algorithms import many_contacts
from featherlane.algorithms.frames import placements
from featherlane.functions.ground_inputs import GroundInputs
from featherlane.robot.tree_of import tree_of

H = 1e-6  # of differences
GEOMS = {
    "box": 'type="box" size="0.1 0.2 0.3"',
    "plate": 'type="box" size="0.3 0.2 0.02"',
    "capsule": 'type="capsule" size="0.05 0.2"',
}


@cache
def body(kind):
    return loaded(kind)


def loaded(kind):
    if kind == "go2":
        return fl.load("go2", root="free")
    return fl.load(f"""<mujoco><worldbody><body name="{kind}"><freejoint/>
        <geom {GEOMS[kind]} mass="1"/></body></worldbody></mujoco>""")


def lowest(model, q):
    """The least gap of a state above the plane z = 0."""
    tree, scene = tree_of(model), GroundInputs(fl.Ground(), fl.Coulomb()).scene(model)
    poses = placements(tree, list(q), range(tree.nbodies))
    return min(point.gap for point in scene.contacts(tree, poses))


def impacts(model, n, seed=0):
    """States of bodies that are turned at random, 1 mm above the ground, in motion."""
    rng = np.random.default_rng(seed)
    turn = 0.5 * rng.normal(size=(n, model.nv)) * [0, 0, 0, 3, 3, 3, *[1] * (model.nv - 6)]
    q = model.integrate(np.tile(model.neutral(), (n, 1)), turn)
    q[:, 2] += 1e-3 - np.array([lowest(model, x) for x in q])
    return q, rng.normal(size=(n, model.nv)) * [2, 2, 2, *[5] * (model.nv - 3)]


def contact_work(model, q, v, **options):
    """The work of contacts and constraints in a step, and the energy before it, J."""
    fd = model.contact_forward_dynamics(q, v, 0 * v, DT, **options)
    push = DT * (fd.a - model.forward_dynamics(q, v, 0 * v))  # M^-1 J^T p
    end = v + DT * fd.a
    end[:, :3] += DT * np.cross(v[:, 3:6], v[:, :3])  # in the axes of the beginning
    work = np.einsum("bi,bij,bj->b", push, model.mass_matrix(q), 0.5 * (v + end))
    return work, model.kinetic_energy(q, v)


KINDS = [("box", 500), ("plate", 200), ("capsule", 200), ("go2", 100)]


@pytest.mark.parametrize("e", repeated([1.0, 0.3, 0.7], 1))
@pytest.mark.parametrize(("kind", "n"), [*repeated(KINDS, 1), KINDS[-1]])
def test_impacts_add_no_energy(kind, n, e):
    """Of bodies that touch in several points, with friction."""
    model = body(kind)
    q, v = impacts(model, n)
    law, ground = fl.Coulomb(restitution=e), fl.Ground(friction=0.7)
    work, energy = contact_work(model, q, v, ground=ground, law=law)
    assert (work < 0).mean() > 0.3
    assert (work <= 1e-12 * energy).all()


def test_impacts_whose_sweeps_are_a_loop_are_the_same(monkeypatch):
    model, law = body("box"), fl.Coulomb(sweeps=11, restitution=1.0)
    q, v = impacts(model, 100, seed=1)
    at_once = model.step(q, v, 0 * v, DT, ground=fl.Ground(), law=law)
    monkeypatch.setattr(many_contacts, "LONG", 0)
    looped = loaded("box").step(q, v, 0 * v, DT, ground=fl.Ground(height=0.0), law=law)
    assert_allclose(looped.v, at_once.v, atol=1e-9)


def test_one_contact_without_friction_has_all_of_its_restitution():
    """The normal velocity of a ball, whose weight lets it arrive a little faster; and that of a
    capsule's end, which turns.
    """
    e, v = np.array([0.3, 0.7, 1.0]), np.tile([1.0, 0.5, -2.0, 0, 0, 0], (3, 1))
    options = {"ground": fl.Ground(friction=0.0), "ground_params": {"restitution": e}}
    q = np.tile([0, 0, RADIUS + 0.001, 0, 0, 0, 1.0], (3, 1))
    assert_allclose(ball().step(q, v, 0 * v, DT, **options).v[:, 2], 2.0 * e, rtol=1e-14)
    q[:, 3:7] = [0, np.sin(0.4), 0, np.cos(0.4)]
    q[:, 2] += 0.2 * np.cos(0.8) - 0.05  # the lower end of the capsule is 1 mm above the ground
    sine, cosine = np.sin(0.8), np.cos(0.8)
    v[:, :3] = cosine + 2.0 * sine, 0.5, sine - 2.0 * cosine  # in the axes of the capsule
    moved = body("capsule").step(q, v, 0 * v, DT, **options)
    force = moved.contact_force[..., 2].sum(-1)
    I = np.linalg.inv(body("capsule").mass_matrix(q))[:, 4, 4]
    speed = -2.0 - 9.81 * DT + DT * force * (1.0 + (0.2 * sine) ** 2 * I)
    assert_allclose(speed, 2.0 * e, rtol=1e-12)


def check_slopes(model, q, v, **options):
    """Derivatives of steps are those of differences in q, v and tau, by each of the ways to them;
    some of the states have less than all of their restitution. Returns how far the derivatives are
    from differences.
    """
    state, n, nv = (q, v, 0 * v, DT), len(q), model.nv
    touches = model.step(*state, **options).contact_force[..., 2].max(1) > 0
    work, energy = contact_work(model, q, v, **options)
    assert (touches & (np.abs(work) < 1e-12 * energy)).sum() > 8  # is all that they may do
    directions = np.random.default_rng(3).normal(size=(3, *v.shape)) * 0.1
    linear = model.linearize_step(*state, **options)
    both = np.concatenate([linear.A, linear.B], -1)
    along = np.hstack(model.step_jvp(*state, *directions, **options))
    expected = np.einsum("nij,nj->ni", both, np.hstack(directions))
    assert_allclose(along, expected, atol=1e-10 * np.abs(expected).max())
    weights = np.random.default_rng(4).normal(size=(2, n, nv))
    back = np.hstack(model.step_vjp(*state, *weights, **options))
    expected = np.einsum("nij,ni->nj", both, np.hstack(weights))
    assert_allclose(back, expected, atol=1e-10 * np.abs(expected).max())
    ends = []
    for h in (H, -H):
        moved = (model.integrate(q, h * directions[0]), *(h * directions[1:] + [v, 0 * v]), DT)
        ends.append(model.step(*moved, **options).v)
    slope = (ends[0] - ends[1]) / (2 * H)
    return np.abs(along[:, nv:] - slope).max(1) / (1 + np.abs(slope).max(1))


SHORTENED = [("capsule", 200, 20), ("box", 300, 24), ("go2", 200, 24)]


@pytest.mark.parametrize(("kind", "n", "sweeps"), repeated(SHORTENED, 1))
def test_derivatives_of_impacts_are_those_of_differences(kind, n, sweeps):
    """Of one piece of code, and of loops over eight points or those of a robot."""
    model, law = body(kind), fl.Coulomb(sweeps=sweeps, restitution=1.0)
    error = check_slopes(model, *impacts(model, n, seed=2), ground=fl.Ground(friction=1.0), law=law)
    assert np.median(error) < 1e-8
    assert (error < 1e-6).mean() > 0.97


def test_derivatives_of_impacts_beside_constraints_are_those_of_differences():
    """Of a robot whose knees are coupled to its hips, which the impact stops first."""
    model, law = biped(), fl.Coulomb(sweeps=40, restitution=1.0)
    couplings = [fl.Coupling(f"{x}_knee", f"{x}_hip", (-0.1, -1.5)) for x in ("FL", "RR")]
    q, v = impacts(model, 200, seed=5)
    q[:, [8, 10]] = -0.1 - 1.5 * q[:, [7, 9]]
    q[:, 2] += 1e-3 - np.array([lowest(model, x) for x in q])
    options = {"constraints": model.constraints(couplings), "ground": fl.Ground(friction=1.0)}
    error = check_slopes(model, q, v, law=law, **options)
    assert np.median(error) < 1e-7
    assert (error < 1e-5).mean() > 0.97
