"""Rollouts that end in NaN: which, from where on, the warning, and stable steps on the card."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import featherlane as fl
from featherlane.api.stable_steps import stable_steps


@pytest.fixture(scope="module")
def arm():
    return fl.load("double_pendulum").with_physics(damping=[0.5, 2.0])


def rollout(model, v, dt=0.05, integrator="semi_implicit", steps=300, **options):
    v = np.asarray(v, float)
    tau = np.zeros((*v.shape[:-1], steps, model.nv))
    return model.rollout(0 * v, v, tau, dt, integrator=integrator, **options)


def test_trajectories_say_which_diverged_and_from_which_row_on(arm):
    with pytest.warns(RuntimeWarning, match="not finite"):
        moved = rollout(arm, [[[0.0, 0.0], [0.0, 1.0]]] * 2)
    assert moved.diverged.shape == (2, 2)
    finite = np.isfinite(moved.q).all(-1) & np.isfinite(moved.v).all(-1)
    for first, rows in zip(moved.diverged.ravel(), finite.reshape(4, -1), strict=True):
        assert rows[:first].all() if first >= 0 else rows.all()
        assert first < 0 or not rows[first]
    assert (moved.diverged[:, 1] > 0).all()
    with pytest.warns(RuntimeWarning):
        kept = rollout(arm, [0.0, 1.0], every=100)
    assert kept.diverged == -(-moved.diverged[0, 1] // 100)
    good = rollout(arm, [[0.0, 1.0]], integrator="implicit_damping")
    assert_array_equal(good.diverged, [-1])


def test_the_warning_names_integrator_dt_and_the_stiffest_joint_once(arm):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            rollout(arm, [0.0, 1.0])
    (warning,) = told
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__
    for part in ("semi_implicit", "dt = 0.05 s", "'joint2'", "trajectory.diverged"):
        assert part in str(warning.message)


def test_the_warning_of_damped_steps_names_the_joint_that_whirls():
    """Their damping is implicit: it is not what diverges."""
    robot = fl.load("double_pendulum").with_physics(damping=1e-6)
    with pytest.warns(RuntimeWarning, match="least inertia.*Coriolis") as told:
        rollout(robot, [300.0, -1000.0], integrator="implicit_damping")
    assert "want dt below" not in str(told[0].message)


def test_a_policy_s_rollout_warns_too(arm):
    law = arm.policy(lambda q, v, t: 0.0 * q)
    with pytest.warns(RuntimeWarning, match="'joint2'"):
        moved = arm.rollout_with(law, [0, 0], [0, 1.0], 0.05, 300, integrator="semi_implicit")
    assert moved.diverged > 0


def test_inputs_that_are_not_finite_are_no_divergence(arm):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = rollout(arm, [[np.nan, 0.0], [0.0, 0.0]], integrator="implicit_damping")
    assert_array_equal(moved.diverged, [0, -1])


@pytest.mark.parametrize("share", [0.8, 1.4])
def test_the_stable_step_is_where_motions_begin_to_grow(arm, share):
    steps = stable_steps(arm)
    M = arm.mass_matrix(arm.neutral())
    assert steps.resistance.joint == "joint2"
    fastest = np.linalg.eigvals(np.linalg.solve(M, np.diag(arm.damping))).real.max()
    assert steps.resistance.dt == pytest.approx(2 / fastest)
    still = arm.with_gravity((0, 0, 0))
    at = np.zeros(2), np.zeros(2), np.zeros(2)
    A = still.linearize_step(*at, share * steps.resistance.dt, integrator="semi_implicit").A
    assert (np.abs(np.linalg.eigvals(A)).max() > 1 + 1e-9) == (share > 1)


@pytest.mark.parametrize("share", [0.95, 1.05])
def test_the_stable_step_of_springs_is_that_of_the_default_integrator(share):
    model = fl.load("double_pendulum").with_gravity((0, 0, 0))
    model = model.with_physics(damping=0, stiffness=[10.0, 30.0])
    dt = share * stable_steps(model).springs.dt
    A = model.linearize_step(np.zeros(2), np.zeros(2), np.zeros(2), dt).A
    assert (np.abs(np.linalg.eigvals(A)).max() > 1 + 1e-6) == (share > 1)


def test_the_card_states_stable_steps(arm):
    line = next(line for line in str(arm).splitlines() if line.startswith("  time"))
    assert f"dt < {1e3 * stable_steps(arm).resistance.dt:.3g} ms" in line
    assert "any dt by default" in line
    sprung = str(arm.with_physics(stiffness=9.0))
    assert "by the spring of joint" in sprung
    assert "nothing is stiff" in str(arm.with_physics(damping=0.0))


def test_the_warning_on_the_ground_names_its_causes():
    text = """<mujoco><worldbody><body name="ball"><freejoint/>
    <geom type="sphere" size="0.1" mass="1"/></body></worldbody></mujoco>"""
    ball, q, v = (
        fl.load(text),
        np.array([0, 0, 1, 0, 0, 0, 1.0]),
        np.array([0, 0, 0, 1e200, 1e200, 0]),
    )
    with pytest.warns(RuntimeWarning, match="fell through.*residual.*shorter dt"):
        ball.rollout(q, v, np.zeros((5, 6)), 0.002, ground=fl.Ground())
