"""Steps of robots whose joints rub: at rest, sliding, and their derivatives, beside MuJoCo."""

import changes
import numpy as np
import pytest
import textbook
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from repetition import examples

import featherlane as fl

DT = 0.002
JOINT = """<mujoco><worldbody><body>
  <joint name="j" type="hinge" axis="0 0 1" frictionloss="0.3" damping="0.01" {more}/>
  <inertial pos="0 0 0" mass="1" diaginertia="0.001 0.001 0.001"/>
</body></worldbody></mujoco>"""
FINGER = """<mujoco><worldbody><body pos="0 0 1">
  <joint name="spread" axis="1 0 0" frictionloss="0.02" damping="0.01" armature="2e-4" {more}/>
  <inertial pos="0 0 0.02" mass="0.03" diaginertia="1e-5 1e-5 4e-6"/>
  <body pos="0 0 0.05">
    <joint name="knuckle" axis="0 1 0" frictionloss="0.03" damping="0.001" armature="1e-4" {more}/>
    <inertial pos="0.01 0 0.02" mass="0.02" diaginertia="7e-6 8e-6 3e-6"/>
    <body pos="0 0 0.04">
      <joint name="tip" axis="0 1 0" frictionloss="0.01" armature="1e-4" {more}/>
      <inertial pos="0 0 0.015" mass="0.01" diaginertia="2e-6 2e-6 1e-6"/>
    </body></body></body></worldbody></mujoco>"""
RUBBING = [
    textbook.tree(("free", "revolute", "prismatic"), seed=3, physics=True),
    textbook.tree(("revolute",) * 3, seed=2, mimic={2: 1}, physics=True),
]


@pytest.fixture(scope="module")
def joint():
    return fl.load(JOINT.format(more=""))


@pytest.fixture(scope="module")
def finger():
    return fl.load(FINGER.format(more=""))


def still(model, steps, batch=()):
    return np.zeros((*batch, steps, model.nv))


@pytest.mark.parametrize("v", [1e-6, 0.01, 0.3, 5.0, -20.0])
def test_a_joint_that_rubs_comes_to_rest_and_stays(joint, v):
    moved = joint.rollout([0.0], [v], still(joint, 250), DT)
    assert np.abs(moved.v[-1]).max() < 1e-100
    assert_array_equal(moved.q[-100:], np.tile(moved.q[-1], (100, 1)))
    assert (moved.v * v >= 0).all()
    slopes = joint.linearize_step(moved.q, moved.v, np.zeros(1), DT).A[:, 1, 1]
    assert (slopes > 0).all()
    assert (slopes <= 1).all()


@settings(max_examples=examples(30), deadline=None)
@given(dt=st.floats(1e-6, 1e3), v=st.floats(-1e3, 1e3), friction=st.floats(0, 1e4))
def test_friction_never_turns_a_velocity_around(joint, dt, v, friction):
    linear = joint.linearize_step([0.0], [v], [0.0], dt, params={"friction": [friction]})
    assert 0 <= linear.v[0] * np.sign(v) <= abs(v)
    assert 0 <= linear.A[1, 1] <= 1 + 1e-12


def test_the_stopping_distance_is_coulombs(joint):
    """Of I dv/dt = -f - d v: x = I / d (v0 - f / d log(1 + d v0 / f))."""
    I, f, d, v = 0.001, 0.3, 0.01, 5.0
    wanted = I / d * (v - f / d * np.log(1 + d * v / f))
    errors = []
    for dt in (4e-4, 2e-4):
        sharp = joint.with_physics(friction_velocity=1e-4)
        moved = sharp.rollout([0.0], [v], still(sharp, int(0.2 / dt)), dt)
        errors.append(abs(moved.q[-1, 0] / wanted - 1))
    assert errors[1] < 0.013
    assert errors[1] < 0.6 * errors[0]


def mujoco_rollout(xml, dt, q, v, force, steps):
    """States of MuJoCo, whose friction is a constraint of the time constant 2 dt."""
    mujoco = pytest.importorskip("mujoco")
    peer = mujoco.MjModel.from_xml_string(xml.format(more=f'solreffriction="{2 * dt} 1"'))
    peer.opt.timestep = dt
    data, states = mujoco.MjData(peer), []
    data.qpos, data.qvel = q, v
    for _ in range(steps):
        data.qfrc_applied = force
        mujoco.mj_step(peer, data)
        states.append((data.qpos.copy(), data.qvel.copy()))
    return map(np.array, zip(*states, strict=True))


@pytest.mark.parametrize("force", [0.0, 0.2, 0.8], ids=["stopping", "held", "driven"])
def test_a_sliding_joint_moves_as_in_mujoco(joint, force):
    dt, steps = 5e-5, 2000
    q, v = mujoco_rollout(JOINT, dt, [0.0], [5.0], [force], steps)
    sharp = joint.with_physics(friction_velocity=1e-3)
    moved = sharp.rollout([0.0], [5.0], np.full((steps, 1), force), dt)
    assert_allclose(moved.v[1:], v, atol=0.07)
    assert_allclose(moved.q[1:], q, atol=0.0015)


def test_joints_of_a_finger_stop_and_hold_against_gravity_as_in_mujoco(finger):
    dt, steps = 2e-4, 2000
    start = np.array([0.1, 0.4, 0.3]), np.array([2.0, -3.0, 4.0])
    q, v = mujoco_rollout(FINGER, dt, *start, 0.0, steps)
    sharp = finger.with_physics(friction_velocity=1e-3)
    moved = sharp.rollout(*start, still(sharp, steps), dt)
    assert_allclose(moved.q[1:], q, atol=0.02)
    assert np.abs(v[-1]).max() < 2e-3
    assert np.abs(moved.v[-1]).max() < 2e-3
    long_steps = sharp.rollout(*start, still(sharp, 100), 0.02)
    assert np.abs(long_steps.v[-1]).max() < 2e-3


def test_a_load_below_the_friction_creeps_as_the_smooth_law_says(joint):
    """Where f v / sqrt(v^2 + v_f^2) = tau."""
    f, tau, v_f = joint.friction[0], 0.2, joint.friction_velocity
    rest = v_f * tau / np.sqrt(f**2 - tau**2)
    free = joint.with_physics(damping=0.0)
    moved = free.rollout([0.0], [0.0], np.full((200, 1), tau), DT)
    assert_allclose(moved.v[-1], rest, rtol=1e-9)


@pytest.mark.parametrize("model", RUBBING, ids=lambda m: "-".join(t.name for t in m.types))
def test_derivatives_at_slow_motion_are_those_of_dual_numbers(model):
    """Where the friction is steep: at a tenth to ten times the velocity of its smoothing."""
    rng = np.random.default_rng(0)
    q, dt = model.random_configuration(6, seed=rng), np.full(6, 0.01)
    size = model.friction_velocity * np.geomspace(0.1, 10, 6)[:, None]
    v, tau = size * rng.normal(size=(6, model.nv)), rng.normal(size=(6, model.nv))
    moves = rng.normal(size=(3, 6, model.nv))
    _, wanted = changes.of_step(model, q, v, tau, dt, moves)
    linear = model.linearize_step(q, v, tau, dt)
    along = changes.by_matrices(linear, moves)
    assert_allclose(along, wanted, atol=1e-11 * np.abs(wanted).max())
    lower = model.linearize_step_reduced(q, v, tau, dt)
    assert_allclose(dt[0] * lower.da_dv + np.eye(model.nv), linear.A[:, model.nv :, model.nv :])


def test_friction_and_damping_at_run_time_are_those_of_the_robot(finger):
    rng = np.random.default_rng(1)
    q, v, tau = 0.1 * rng.normal(size=(3, 4, 3))
    own = {"friction": rng.uniform(0.01, 0.05, 3), "damping": rng.uniform(0.0, 0.05, 3)}
    found = finger.linearize_step(q, v, tau, DT, params=own)
    wanted = finger.with_physics(**own).linearize_step(q, v, tau, DT)
    for x, y in zip(found, wanted, strict=True):
        assert_allclose(x, y, rtol=1e-10, atol=1e-10)


def test_without_damping_and_friction_the_step_is_the_semi_implicit_one(finger):
    free = finger.with_physics(damping=0.0, friction=0.0)
    first, second = (
        free.graph("linearize_step", integrator=integrator)
        for integrator in ("implicit_damping", "semi_implicit")
    )
    assert len(first) == len(second)
    q, v, tau = np.random.default_rng(2).normal(size=(3, 20, 3))
    for x, y in zip(
        free.step(q, v, tau, DT), free.step(q, v, tau, DT, integrator="semi_implicit"), strict=True
    ):
        assert_array_equal(x, y)
