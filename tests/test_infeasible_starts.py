"""Optimal control from trajectories with gaps: `states=` of `featherlane.ilqr`."""

import numpy as np
import pytest
import textbook
from constrained_states import pendulum_with_points
from documents import ROOT
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl
from featherlane.api import ilqr as api
from featherlane.functions import optimal_control
from featherlane.functions.riccati import Quadratic, cross, feedback

T, DT = 20, 0.01
TARGET = np.array([0.5, -0.3])


def residuals(q, v, tau):
    return np.concatenate([0.3 * (q - TARGET), 0.1 * v, 0.5 * tau])


def residuals_of_end(q, v):
    return np.concatenate([10 * (q - TARGET), v])


def held(q0, steps):
    """The initial configurations at all knots, at rest."""
    q = np.repeat(q0[:, None], steps + 1, 1)
    return q, np.zeros_like(q)


def assert_is_a_rollout(model, found, dt, **options):
    """Each step leads to the next state."""
    after = model.step(found.q[:, :-1], found.v[:, :-1], found.tau, dt, **options)
    assert_allclose(after.q, found.q[:, 1:], atol=1e-9)
    assert_allclose(after.v, found.v[:, 1:], atol=1e-8)


def random_problem(rng, nx, nu):
    """Dynamics and a cost of each knot, with gaps behind them; at the end a cost of the state."""
    square = lambda n: (lambda A: A @ A.T + np.eye(n))(rng.normal(size=(n, n)))
    S = 0.5 * rng.normal(size=(T, nx, nx + nu))
    costs = [Quadratic(rng.normal(size=nx + nu), square(nx + nu)) for _ in range(T)]
    return S, costs, Quadratic(rng.normal(size=nx), square(nx)), rng.normal(size=(T, nx))


@pytest.mark.parametrize("length", [1.0, 0.4])
def test_the_change_of_a_quadratic_cost_is_as_expected(length):
    """A step of any length changes the cost of a linear problem as slope and curvature say."""
    nx, nu = 4, 2
    S, costs, end, gaps = random_problem(np.random.default_rng(0), nx, nu)
    value, share, laws = end, np.zeros(nx), []
    for k in reversed(range(T)):
        crossed = cross(value, share, gaps[k])
        law, value = feedback(crossed.value.after(S[k]).plus(costs[k]), nx, np.float64(0.0))
        law, share = crossed.before(law, (S[k],))
        laws.insert(0, law)
    change, dx = 0.0, np.zeros(nx)
    of = lambda cost, z: cost.gradient @ z + z @ cost.hessian @ z / 2
    for k, law in enumerate(laws):
        z = np.r_[dx, length * law.k + law.K @ dx]
        change += of(costs[k], z)
        dx = S[k] @ z + length * gaps[k]
    slope, curvature = sum(x.slope for x in laws), sum(x.curvature for x in laws)
    assert_allclose(change + of(end, dx), length * slope + length**2 / 2 * curvature, rtol=1e-10)


def test_a_linear_problem_takes_one_step_from_any_states():
    model = textbook.tree(("prismatic", "prismatic"), seed=1)
    rng = np.random.default_rng(0)
    q0, v0 = rng.normal(size=(2, 3, 2))
    problem = model, q0, v0, np.zeros((3, T, 2)), DT, residuals, residuals_of_end
    states = rng.normal(size=(2, 3, T + 1, 2))
    found, wanted = fl.ilqr(*problem, states=tuple(states)), fl.ilqr(*problem)
    assert found.converged.all()
    assert (found.iterations == 2).all()
    for x, y in zip(found[:4], wanted[:4], strict=True):
        assert_allclose(x, y, rtol=1e-9, atol=1e-9)
    states[:, :, 0] = q0, v0
    after = model.step(*states[:, :, :-1], np.zeros((3, T, 2)), DT)
    gaps = np.abs(after.q - states[0, :, 1:]) + np.abs(after.v - states[1, :, 1:])
    assert_allclose(found.history.gap[:, 0], gaps.sum((1, 2)), rtol=1e-12)
    assert_array_equal(found.history.gap[:, 1:], 0.0)
    assert_array_equal(wanted.history.gap, 0.0)


ARMS = [9, 20]  # of 32 random ones: the first overflowed after 47 calls
FALL = {"dt": 0.05, "integrator": "semi_implicit"}


@pytest.fixture(scope="module")
def falling():
    """An arm and problems in which it falls for so long, without torques, that rollouts
    overflow.
    """
    model = fl.load("double_pendulum").with_physics(damping=0.0)
    q0 = model.random_configuration(12, seed=1)
    cost = lambda q, v, tau: np.concatenate([0.1 * q, 0.1 * v, 0.1 * tau])
    end = lambda q, v: np.concatenate([30 * q, 0.3 * v])
    return model, q0, 0 * q0, np.zeros((12, 150, 2)), 0.05, cost, end


def test_arms_whose_rollouts_overflow_find_their_way(falling):
    model, q0, *_ = falling
    options = {"integrator": FALL["integrator"]}
    lost = fl.ilqr(*falling, **options)
    overflown = np.isnan(lost.cost)
    assert overflown.sum() > 6
    assert all("first trajectory" in x and "states=" in x for x in lost.status[overflown])
    found = fl.ilqr(*falling, **options, states=held(q0, 150))
    assert found.converged.all(), found.status
    assert_array_equal(found.history.gap[range(12), found.iterations], 0.0)
    assert (np.diff(found.history.gap, axis=1)[found.history.gap[:, 1:] >= 0] <= 0.0).all()
    assert_is_a_rollout(model, found, **FALL)
    again = fl.ilqr(*falling[:3], found.tau, *falling[4:], **options, states=found[:2])
    assert (again.iterations == 1).all()
    assert_allclose(again.cost, found.cost, rtol=1e-9)


def test_a_horizon_that_moves_on_from_shifted_plans_keeps_its_gaps_closed():
    """Two iterations a call, between limits: gaps that stay open would grow from call to call until
    nothing is finite.
    """
    arm, frame, steps, dt = fl.load("iiwa14"), "iiwa_link_7", 30, 0.02
    q = arm.random_configuration(32, seed=0)[ARMS]
    v = 0.5 * np.random.default_rng(0).normal(size=(32, 7))[ARMS]
    place = lambda q: arm.frame_placement(q, frame)[..., :3, 3]
    target = place(arm.random_configuration(32, seed=1)[ARMS])
    effort = np.array([200, 200, 100, 100, 100, 30, 30.0])
    costs = (
        lambda q, v, tau, target: np.concatenate([10 * (place(q) - target), 0.1 * v, 0.003 * tau]),
        lambda q, v, target: np.concatenate([100 * (place(q) - target), v]),
    )  # fmt: skip
    state, target_shape = {"q": 7, "v": 7}, {"target": 3}
    graphs = (
        fl.trace(costs[0], {**state, "tau": 7, **target_shape}),
        fl.trace(costs[1], {**state, **target_shape}),
    )
    tau, states = np.repeat(arm.gravity_torque(q)[:, None], steps, 1), held(q, steps)
    shifted = lambda x: np.concatenate([x[:, 1:], x[:, -1:]], 1)
    for _ in range(50):
        found = fl.ilqr(
            arm, q, v, tau, dt, *graphs, parameters={"target": target}, states=states,
            tau_limits=(-effort, effort), iterations=2, threads=1,
        )  # fmt: skip
        assert np.isfinite(found.cost).all(), found.status
        q, v = arm.step(q, v, found.tau[:, 0], dt)
        tau, states = shifted(found.tau), (shifted(found.q), shifted(found.v))
    assert np.linalg.norm(place(q) - target, axis=1).max() < 0.05


def test_problems_with_gaps_have_the_same_bits_wherever_they_stand(falling, monkeypatch):
    model, q0, v0, tau, *rest = falling
    states = held(q0, 150)
    wanted = fl.ilqr(*falling, states=states, threads=1)
    order = np.random.default_rng(0).permutation(12)[:7]
    monkeypatch.setattr(api, "SLOTS", 3)
    part = model, q0[order], v0[order], tau[order], *rest
    found = fl.ilqr(*part, states=tuple(x[order] for x in states), threads=1)
    for x, y in zip(wanted[:8], found[:8], strict=True):
        assert_array_equal(x[order], y)
    single = [x.astype("f4") if isinstance(x, np.ndarray) else x for x in falling]
    small = fl.ilqr(*single, states=tuple(x.astype("f4") for x in states))
    assert small.q.dtype == np.float32
    assert small.converged.all()
    assert_allclose(small.cost, wanted.cost, rtol=1e-3)


@pytest.mark.parametrize("large", [False, True], ids=["one kernel", "plan"])
def test_gaps_of_a_free_root_in_contact_and_between_limits(large, monkeypatch):
    monkeypatch.setattr(optimal_control, "LARGE", 0 if large else optimal_control.LARGE)
    api._compiled.cache_clear()
    robot = pendulum_with_points(damping=0.01)
    rng = np.random.default_rng(0)
    q0 = robot.random_configuration(3, seed=2)
    wanted = robot.integrate(q0, 0.3 * rng.normal(size=(3, robot.nv)))
    away = rng.normal(size=(3, T + 1, robot.nv))
    q = robot.integrate(np.repeat(q0[:, None], T + 1, 1), 0.2 * away)
    posture = lambda q, wanted: robot.difference(wanted, q)
    active = np.ones((T, 1))
    active[:8] = 0
    options = {
        "actuation": robot.actuation(robot.joint_names[1:], clip=False), "active": active,
        "constraints": robot.constraints([fl.Pin("p0")]),
    }  # fmt: skip
    found = fl.ilqr(
        robot, q0, np.zeros(robot.nv), np.zeros((3, T, 2)), DT,
        lambda q, v, tau, force: np.concatenate([0.3 * v, tau, 0.01 * force]),
        lambda q, v, wanted: np.concatenate([10 * posture(q, wanted), v]),
        parameters={"wanted": wanted}, tau_limits=(-np.full(2, 0.3), np.full(2, 0.3)),
        states=(q, 0.2 * away), iterations=200, **options,
    )  # fmt: skip
    assert found.converged.all(), found.status
    assert np.abs(found.tau).max() == 0.3
    assert_array_equal(found.history.gap[range(3), found.iterations], 0.0)
    for k in range(T):
        options["active"] = active[k]
        after = robot.step(found.q[:, k], found.v[:, k], found.tau[:, k], DT, **options)
        assert_allclose(robot.difference(after.q, found.q[:, k + 1]), 0.0, atol=1e-9)
        assert_allclose(after.v, found.v[:, k + 1], atol=1e-8)
    api._compiled.cache_clear()


def test_wrong_states_are_named(falling):
    q, v = held(falling[1], 150)
    for states, told in (
        (3.0, r"states is 3.0: wanted \(q, v\)"),
        ({"q": q, "v": v}, r"states is .*: wanted \(q, v\)"),
        ((q, v, v), r"states is .*: wanted \(q, v\)"),
        ((q[:, 1:], v), r"states\[0\] has shape \(12, 150, 2\)"),
        ((q, v[..., :1]), r"states\[1\] has shape \(12, 151, 1\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=told):
            fl.ilqr(*falling, states=states)
    q[4, 7] = np.nan
    found = fl.ilqr(*falling, **{"integrator": FALL["integrator"]}, states=(q, v))
    assert found.status[4].startswith("not finite")
    assert found.converged.sum() == 11


def crocoddyl_costs(model, q0, targets, weights, frame, steps, dt):
    """The costs of solutions of crocoddyl's FDDP, from the initial state at all knots."""
    crocoddyl, pin = pytest.importorskip("crocoddyl"), pytest.importorskip("pinocchio")
    bundled = ROOT / "featherlane" / "robot" / "bundled"
    peer = pin.buildModelFromXML((bundled / "iiwa14.urdf").read_text())
    state, n = crocoddyl.StateMultibody(peer), model.nv
    actuation = crocoddyl.ActuationModelFull(state)
    at, still = peer.getFrameId(frame), np.zeros(2 * n)
    reach = crocoddyl.ResidualModelFrameTranslation(state, at, np.zeros(3), n)
    of_state, of_tau = (
        crocoddyl.ResidualModelState(state, still, n), crocoddyl.ResidualModelControl(state, n),
    )  # fmt: skip

    def action(weights, dt):
        costs = crocoddyl.CostModelSum(state, n)
        for name, residual, weight in zip("xup", (of_state, of_tau, reach), weights, strict=True):
            costs.addCost(name, crocoddyl.CostModelResidual(state, residual), weight)
        free = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        return crocoddyl.IntegratedActionModelEuler(free, dt)

    knots = [action(weights[0], dt)] * steps
    problem = crocoddyl.ShootingProblem(still, knots, action(weights[1], 0.0))
    solver = crocoddyl.SolverFDDP(problem)
    solver.th_stop = 1e-9
    for x0, target in zip(np.concatenate([q0, 0 * q0], 1), targets, strict=True):
        problem.x0 = x0
        reach.reference = target
        solver.solve([x0] * (steps + 1), [np.zeros(n)] * steps, 200, False)
        yield solver.cost


def test_the_solutions_of_crocoddyl_from_the_same_gaps():
    """An arm reaches points from zero torques, under which it falls and its rollout overflows."""
    pytest.importorskip("crocoddyl")
    model, frame = fl.load("iiwa14").with_physics(damping=0.0), "iiwa_link_7"
    steps, dt = 100, 0.02
    q0 = 0.5 * model.random_configuration(6, seed=1)
    there = q0 + np.random.default_rng(1).uniform(-0.7, 0.7, q0.shape)
    target = model.frame_placement(there, frame)[:, :3, 3]
    weights = (0.1, 1e-3, 1.0), (0.1, 0.0, 1e3)

    def cost(weights, scale, q, v, tau, target):
        x, u, p = np.sqrt(scale * np.array(weights))
        at = model.frame_placement(q, frame)[:3, 3]
        return np.concatenate([x * q, x * v, u * tau, p * (at - target)])

    found = fl.ilqr(
        model, q0, 0 * q0, np.zeros((6, steps, 7)), dt,
        lambda q, v, tau, target: cost(weights[0], dt, q, v, tau, target),
        lambda q, v, target: cost(weights[1], 1.0, q, v, np.zeros(7), target),
        parameters={"target": target}, integrator="semi_implicit", states=held(q0, steps),
    )  # fmt: skip
    assert found.converged.all()
    costs = [*crocoddyl_costs(model, q0, target, weights, frame, steps, dt)]
    assert_allclose(found.cost, costs, rtol=1e-7)
