"""Contacts below a fixed hip, whose straight leg nothing moves along the normal of the ground."""

import numpy as np
import pytest
from ground_robots import DT
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl
from featherlane.algorithms import many_contacts

LENGTH = 0.2
BENT = [[0, 0], [1e-6, 1e-6], [1e-4, -2e-4], [1e-3, -2e-3], [-2e-3, 4e-3]]  # too little


def leg(hip):
    """A leg of two links with a foot of 2 cm, its hip at this height above the ground."""
    bone = f'type="capsule" fromto="0 0 0 0 0 -{LENGTH}" size="0.02" contype="0" conaffinity="0"'
    return fl.load(f"""<mujoco><worldbody><body name="thigh" pos="0 0 {hip}">
<joint name="hip" axis="0 1 0"/><geom {bone} mass="1"/>
<body name="shank" pos="0 0 -{LENGTH}"><joint name="knee" axis="0 1 0"/>
<geom {bone} mass="0.5"/><geom type="sphere" size="0.02" pos="0 0 -{LENGTH}" mass="0.1"/>
</body></body></worldbody></mujoco>""")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("e", [0.0, 0.5])
@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_a_straight_leg_hangs_and_its_residual_says_so(friction, e, dtype):
    q = np.array(BENT, dtype)
    law = fl.Coulomb(restitution=e)
    end = leg(hip=0.3).step(q, 0 * q, 0 * q, DT, ground=fl.Ground(friction=friction), law=law)
    assert_array_equal(end.contact_force, 0)
    assert_allclose(end.residual, 1.0, rtol=1e-5)  # the law's way back from penetration, m/s
    assert np.abs(end.v).max() < 0.02


def test_a_bent_leg_is_pushed_up_and_one_in_the_air_hangs():
    q = np.array([[0.3, -0.6]])
    end = leg(hip=0.3).step(q, 0 * q, 0 * q, DT, ground=fl.Ground())
    assert end.contact_force[0, 0, 2] > 100
    assert end.residual < 1e-9
    straight = np.zeros((1, 2))
    end = leg(hip=0.5).step(straight, straight, straight, DT, ground=fl.Ground())
    assert end.residual == 0


def test_derivatives_of_a_straight_leg_are_those_without_ground():
    model, q = leg(hip=0.3), np.array(BENT)
    slopes = model.linearize_step(q, 0 * q, 0 * q, DT, ground=fl.Ground())
    free = model.linearize_step(q, 0 * q, 0 * q, DT)
    assert_allclose(slopes.A, free.A, atol=1e-9)
    assert_allclose(slopes.B, free.B, atol=1e-9)


def test_sweeps_in_a_loop_are_the_same(monkeypatch):
    law = fl.Coulomb(sweeps=11, restitution=0.5)
    q = np.array([*BENT, [0.3, -0.6]])
    at_once = leg(hip=0.3).step(q, 0 * q, 0 * q, DT, law=law, ground=fl.Ground())
    monkeypatch.setattr(many_contacts, "LONG", 0)
    looped = leg(hip=0.3).step(q, 0 * q, 0 * q, DT, ground=fl.Ground(height=0.0), law=law)
    assert_allclose(looped.v, at_once.v, atol=1e-9)
    assert_allclose(looped.residual, at_once.residual, atol=1e-9)


def test_the_impulse_of_the_step_before_is_let_go():
    """Of a leg that is straightened while it carries."""
    q, zero = np.array(BENT), np.zeros((len(BENT), 2))
    start = np.tile([50.0, 10.0, 0.0], (len(BENT), 1, 1))
    end = leg(hip=0.3).step(q, zero, zero, DT, ground=fl.Ground(), ground_params={"impulse": start})
    assert_array_equal(end.contact_force, 0)
