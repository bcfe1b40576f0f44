"""Restitution under fl.Coulomb: impacts beside friction add no energy."""

from functools import cache

import numpy as np
import pytest
from ground_robots import DT, RADIUS, ball
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane.algorithms import many_contacts
from featherlane.algorithms.frames import placements
from featherlane.functions.ground_inputs import GroundInputs
from featherlane.robot.tree_of import tree_of

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


def contact_work(model, q, v, law, friction):
    """The work of the contacts in a step, and the energy before it, J."""
    ground = fl.Ground(friction=friction)
    fd = model.contact_forward_dynamics(q, v, 0 * v, DT, ground=ground, law=law)
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
    work, energy = contact_work(model, q, v, fl.Coulomb(restitution=e), friction=0.7)
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


def test_derivatives_of_impacts_are_those_of_differences():
    """In states most of which have less than all of their restitution."""
    model, law = body("capsule"), fl.Coulomb(restitution=1.0)
    q, v = impacts(model, 200, seed=2)
    direction = np.random.default_rng(3).normal(size=v.shape)
    options = {"ground": fl.Ground(friction=0.7), "law": law}
    _, dv = model.step_jvp(q, v, 0 * v, DT, 0 * v, direction, 0 * v, **options)
    h = 1e-6
    ends = [model.step(q, v + s * direction, 0 * v, DT, **options).v for s in (h, -h)]
    slope = (ends[0] - ends[1]) / (2 * h)
    error = np.abs(dv - slope).max(1) / (1 + np.abs(slope).max(1))
    assert np.median(error) < 1e-8
    assert (error < 1e-4).mean() > 0.95
