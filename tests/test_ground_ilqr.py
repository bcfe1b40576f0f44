"""Optimal control of robots on the ground: steps and their derivatives are those of the model."""

import numpy as np
import pytest
from ground_robots import RADIUS, ball
from numpy.testing import assert_allclose

import featherlane as fl

STEPS, GOAL, DT = 20, 0.03, 0.01  # m along x, s
GROUND = fl.Ground()


def effort(q, v, tau):
    return 0.02 * tau


def arrival(q, v):
    return np.append(10 * (q[:2] - [GOAL, 0.0]), 0.1 * v)


@pytest.mark.parametrize("law", [fl.Coulomb(erp=1.0), fl.SoftContacts()], ids=["rigid", "soft"])
def test_a_ball_rolls_to_its_goal(law):
    """At the solution, a rollout on the ground, the gradient by all controls is zero."""
    model, options = ball(), {"ground": GROUND, "law": law}
    q, v = np.array([0, 0, RADIUS - 1e-4, 0, 0, 0, 1.0]), np.zeros(6)
    still = np.zeros((STEPS, 6))
    solution = fl.ilqr(model, q, v, still, DT, effort, arrival, **options)
    assert solution.converged
    assert solution.cost < 0.2 * np.sum(arrival(q, v) ** 2) / 2
    run = model.rollout(q, v, solution.tau, DT, **options)
    assert_allclose(solution.q, run.q, atol=1e-9)
    assert (run.contact_force[:, 0, 2] > 0).all()
    gq, gv = np.zeros((2, STEPS + 1, 6))
    end, gv[-1] = run.q[-1], 0.01 * run.v[-1]
    axes = model.frame_placement(end, "ball")[:3, :3]
    gq[-1, :3] = 100 * np.append(end[:2] - [GOAL, 0.0], 0.0) @ axes
    by_end = model.rollout_gradient(run, solution.tau, DT, gq, gv, **options).tau
    by_effort = 4e-4 * solution.tau
    assert np.abs(by_end + by_effort).max() < 1e-3 * np.abs(by_effort).max()


def test_what_ilqr_refuses_beside_a_ground():
    model = ball()
    held = model.constraints([fl.Pin("ball", axes="y")])
    q, v, tau = model.neutral(), np.zeros(6), np.zeros((2, 6))
    with pytest.raises(ValueError, match="constraints are given beside a ground"):
        fl.ilqr(model, q, v, tau, DT, effort, ground=GROUND, constraints=held)
    with pytest.raises(TypeError, match="law needs a ground"):
        fl.ilqr(model, q, v, tau, DT, effort, law=fl.Coulomb())
