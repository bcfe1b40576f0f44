"""Steps, their derivatives and rollouts with constraints."""

import numpy as np
import pytest
from constrained_states import pendulum_with_points, with_frames
from free_roots import in_axes_of_beginning
from repetition import repeated

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.backends.dual import evaluate
from featherlane.robot.parts import WORLD

DT = 0.01


@pytest.fixture(scope="module")
def robot():
    return pendulum_with_points(damping=0.01)


@pytest.fixture(scope="module")
def states(robot):
    rng = np.random.default_rng(0)
    q = robot.random_configuration(5, seed=0)
    return q, rng.normal(size=(5, robot.nv)), 0.1 * rng.normal(size=(5, robot.nv))


ITEMS = [fl.Pin("p0"), fl.Pin("p2", "p0", axes="y"), fl.Rod("p2", "corner", 0.4)]
ACTIVE = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 1], [1, 0, 1], [0, 0, 0]])


@pytest.mark.parametrize("integrator", ["semi_implicit", "implicit_damping"])
def test_velocities_at_the_end_hold(robot, states, integrator):
    """J v' + 0.2 e / dt = 0 of active rows, to the world without an anchor J v' = 0, where v' has
    the axes of the beginning.
    """
    c = robot.constraints(ITEMS)
    q, v, tau = states
    after = robot.step(q, v, tau, DT, integrator=integrator, constraints=c, active=ACTIVE)
    J = robot.constraint_jacobian(q, c, ACTIVE)
    anchors = np.zeros((3, 7))
    anchors[:, 6] = 1
    e = robot.constraint_error(q, c, anchors=anchors)
    e[:, :3] = 0
    rows = np.repeat(ACTIVE, [3, 1, 1], axis=1)
    left = np.einsum("nrk,nk->nr", J, in_axes_of_beginning(robot, q, after)) + rows * (0.2 / DT) * e
    assert np.abs(left).max() < 1e-7 * np.abs(e / DT).max()
    free = robot.step(q, v, tau, DT, integrator=integrator)
    assert np.allclose(after.v[4], free.v[4], rtol=1e-10)


@pytest.mark.parametrize("integrator", ["euler", "midpoint", "rk4"])
def test_accelerations_hold(robot, states, integrator):
    """Steps of the other integrators are those of their accelerations, and have their order."""
    c = robot.constraints([fl.Pin("p2")], kd=5.0)
    q, v, tau = states
    if integrator == "euler":
        after = robot.step(q, v, tau, DT, integrator=integrator, constraints=c)
        a = robot.constrained_forward_dynamics(q, v, tau, c).a
        assert np.allclose(after.v, v + DT * a, rtol=1e-12)
        return
    ends = [
        robot.rollout(q, v, np.repeat(tau[:, None], n, 1), 0.004 / n, integrator=integrator,
                      constraints=c).q[:, -1]
        for n in (2, 4, 64)
    ]  # fmt: skip
    errors = [np.abs(end - ends[-1]).max() for end in ends[:2]]
    assert errors[0] / errors[1] > {"midpoint": 3, "rk4": 12}[integrator]


@pytest.mark.parametrize("integrator", repeated([*INTEGRATORS], 2, spread=False))
def test_linear_steps_are_those_of_dual_numbers(robot, states, integrator):
    """A and B, with masks, and with an anchor."""
    c = robot.constraints(ITEMS, kp=[20, 30, 40], kd=9)
    q, v, tau = states
    anchors = np.tile([0.1, 0.2, 0.3, 0, 0, 0, 1.0], (5, 3, 1))
    held = {"constraints": c, "active": True, "anchors": True}
    linear = robot.linearize_step(
        q, v, tau, DT, integrator=integrator, constraints=c, active=ACTIVE, anchors=anchors
    )
    graph = robot.graph("step_jvp", integrator=integrator, **held)
    n = robot.nv
    given = {"q": q, "v": v, "tau": tau, "dt": np.full(5, DT), "active": ACTIVE, "anchors": anchors}
    columns = []
    for k in range(3 * n):
        unit = np.tile(np.eye(3 * n)[k], (5, 1))
        along = dict(zip(("dq", "dv", "dtau"), np.split(unit, 3, axis=1), strict=True))
        found, _ = evaluate(graph, {**given, **along}, {})
        columns.append(np.concatenate([found["dq_next"], found["dv_next"]], 1))
    wanted = np.stack(columns, -1)
    own = np.concatenate([linear.A, linear.B], -1)
    assert np.abs(own - wanted).max() < 1e-8 * np.abs(wanted).max()


def test_rollouts_and_their_gradients(robot, states):
    """A rollout is its steps, with masks of each; its gradient is that of the end."""
    c = robot.constraints(ITEMS)
    q, v, _ = (x[0] for x in states)
    steps, n = 6, robot.nv
    rng = np.random.default_rng(3)
    tau, active = 0.1 * rng.normal(size=(steps, n)), rng.integers(0, 2, size=(steps, 3))
    path = robot.rollout(q, v, tau, DT, constraints=c, active=active)
    for k in range(steps):
        end = robot.step(path.q[k], path.v[k], tau[k], DT, constraints=c, active=active[k])
        assert np.allclose(end.q, path.q[k + 1], rtol=1e-12)
        assert np.allclose(end.v, path.v[k + 1], rtol=1e-10)
    gq, gv = np.zeros((steps + 1, n)), np.zeros((steps + 1, n))
    gv[-1] = rng.normal(size=n)
    found = robot.rollout_gradient(path, tau, DT, gq, gv, constraints=c, active=active)
    wanted = gv[-1]
    by_q = np.zeros(n)
    for k in reversed(range(steps)):
        linear = robot.linearize_step(
            path.q[k], path.v[k], tau[k], DT, constraints=c, active=active[k]
        )
        g = np.concatenate([by_q, wanted])
        assert np.allclose(found.tau[k], linear.B.T @ g, rtol=1e-7, atol=1e-9 * np.abs(g).max())
        by_q, wanted = np.split(linear.A.T @ g, 2)
    assert np.allclose(found.v, wanted, rtol=1e-7, atol=1e-9 * np.abs(wanted).max())
    law = robot.policy(lambda q, v, t: 0.0 * v)
    held = robot.rollout_with(law, q, v, DT, steps, constraints=c, active=active)
    still = robot.rollout(q, v, np.zeros((steps, n)), DT, constraints=c, active=active)
    assert np.allclose(held.q, still.q, rtol=1e-12)


def test_loops_do_not_drift():
    """A four-bar of two pendulums and a rod, over two seconds."""
    base = fl.load("double_pendulum")
    tip = base.frame_placement([0.0, 0.0], "link2")[:3, 3]
    model = with_frames(
        base,
        ("tip", 1, np.eye(3), [0.0, 0.0, 0.1]),
        ("ground", WORLD, np.eye(3), tip + np.array([0.0, 0.15, 0.0])),
    )
    q = np.array([0.3, 0.8])
    length = np.linalg.norm(model.frame_placement(q, "tip")[:3, 3] - tip - [0, 0.15, 0])
    c = model.constraints([fl.Rod("tip", "ground", float(length))])
    path = model.rollout(q, np.zeros(2), np.zeros((2000, 2)), 1e-3, constraints=c)
    errors = model.constraint_error(path.q, c)
    assert np.abs(path.v).max() > 1
    assert np.abs(errors).max() < 1e-3


def test_optimal_control_in_contact(robot):
    """Of two problems, one lands halfway: the trajectory is the rollout of its controls with the
    same masks, the cost falls, and a problem alone has the same answer.
    """
    c = robot.constraints([fl.Pin("p0")])
    steps, n = 12, robot.nv
    active = np.ones((2, steps, 1))
    active[1, :6] = 0
    q = np.tile(robot.random_configuration(seed=1), (2, 1))
    start = np.zeros((2, steps, n))
    cost = lambda q, v, tau: np.concatenate([0.1 * tau, v])
    found = fl.ilqr(
        robot, q, np.zeros((2, n)), start, DT, cost, constraints=c, active=active, iterations=30
    )
    assert found.converged.all()
    path = robot.rollout(q, np.zeros((2, n)), found.tau, DT, constraints=c, active=active)
    assert np.allclose(path.q, found.q, atol=1e-9)
    assert (found.cost < 0.9 * found.history.cost[:, 0]).all()
    T = robot.frame_placement(found.q, "p0")[:, :, :3, 3]
    assert np.abs(np.diff(T[0], axis=0)).max() < 1e-4
    assert np.abs(np.diff(T[1], axis=0)).max() > 1e-4
    alone = fl.ilqr(
        robot, q[1], np.zeros(n), start[1], DT, cost, constraints=c, active=active[1], iterations=30
    )
    assert np.allclose(alone.tau, found.tau[1], atol=1e-9)
    with pytest.raises(ValueError, match=r"active has shape \(3, 1\)"):
        fl.ilqr(robot, q[1], np.zeros(n), start[1], DT, cost, constraints=c, active=np.ones((3, 1)))
