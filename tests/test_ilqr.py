"""Iterative LQR: against Riccati's recursion, finite differences, brute force and itself."""

import runpy
from itertools import product

import numpy as np
import pytest
import textbook
from documents import ROOT
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl
from featherlane.api import ilqr as api
from featherlane.functions import optimal_control
from featherlane.functions.actuation import Actuation, Actuator, Gear
from featherlane.functions.optimal_control import ControlProblem
from featherlane.functions.riccati import Cholesky, Quadratic, feedback, limited_minimum
from featherlane.program.array import trace

T, DT = 20, 0.01


def residuals(q, v, tau, target):
    return np.concatenate([0.3 * (q - target), 0.1 * v, 0.5 * tau])


def residuals_of_end(q, v, target):
    return np.concatenate([10 * (q - target), v])


def number(q, v, tau, target):
    """A cost that is neither convex nor a sum of squares."""
    reach = np.sin(q) - np.sin(target)
    return 0.1 * np.log1p(reach @ reach) + 0.01 * np.sum(np.cos(q)) + 0.1 * (tau @ tau) + v @ v


def number_of_end(q, v, target):
    return 5 * np.sum(1 - np.cos(q - target)) + 0.1 * (v @ v)


COSTS = {"gauss_newton": (residuals, residuals_of_end), "exact": (number, number_of_end)}


@pytest.fixture(scope="module")
def pendulum():
    return fl.load("double_pendulum")


def sample(model, batch, seed=0):
    rng = np.random.default_rng(seed)
    q0, target = 0.5 * rng.normal(size=(2, batch, model.nv))
    return q0, np.zeros_like(q0), np.zeros((batch, T, model.nv)), target


def solved(model, sample, hessian="gauss_newton", **options):
    *state, target = sample
    given = {"parameters": {"target": target}, "hessian": hessian, "threads": 1} | options
    return fl.ilqr(model, *state, DT, *COSTS[hessian], **given)


def total_cost(model, sample, tau, hessian, integrator="implicit_damping"):
    """The costs of problems for controls (..., T, nu), by rollouts and NumPy."""
    q0, v0, _, target = sample
    cost, end = COSTS[hessian]
    moved = model.rollout(q0, v0, tau, DT, integrator=integrator)

    def one(q, v, u, goal):
        values = [cost(*x, goal) for x in zip(q, v, u, strict=False)] + [end(q[-1], v[-1], goal)]
        return sum(value if hessian == "exact" else value @ value / 2 for value in values)

    return np.array([one(*x) for x in zip(moved.q, moved.v, tau, target, strict=True)])


def gradient(model, sample, tau, hessian, integrator="implicit_damping", h=1e-5):
    """The derivatives of the costs by all controls, by central differences."""
    g = np.zeros_like(tau)
    for place in np.ndindex(tau.shape[1:]):
        change = np.zeros(tau.shape[1:])
        change[place] = h
        up, down = (
            total_cost(model, sample, tau + s * change, hessian, integrator) for s in (1, -1)
        )
        g[(slice(None), *place)] = (up - down) / (2 * h)
    return g


def test_a_linear_problem_takes_one_step_to_the_solution_of_riccati():
    model = textbook.tree(("prismatic", "prismatic"), seed=1)
    problems = sample(model, 3)
    q0, v0, _, target = problems
    found = solved(model, problems)
    assert found.converged.all()
    assert (found.iterations == 2).all(), "one step, and one look at what remains"
    assert_allclose(found.history.cost[:, 1], found.cost, rtol=1e-12)
    n = model.nv
    lin = model.linearize_step(np.zeros(n), np.zeros(n), np.zeros(n), DT)
    F = np.block([[lin.A, np.r_[lin.q, lin.v][:, None]], [np.zeros(2 * n), 1.0]])
    G = np.concatenate([lin.B, np.zeros((1, n))])
    for k in range(3):
        Cq = np.concatenate([np.eye(n), np.zeros((n, n)), -target[k][:, None]], 1)
        Cv = np.concatenate([np.zeros((n, n)), np.eye(n), np.zeros((n, 1))], 1)
        P = 100 * Cq.T @ Cq + Cv.T @ Cv
        Q, R = 0.09 * Cq.T @ Cq + 0.01 * Cv.T @ Cv, 0.25 * np.eye(n)
        gains = []
        for _ in range(T):
            K = -np.linalg.solve(R + G.T @ P @ G, G.T @ P @ F)
            P = Q + K.T @ R @ K + (F + G @ K).T @ P @ (F + G @ K)
            gains.insert(0, K)
        x = np.r_[q0[k], v0[k], 1.0]
        assert_allclose(found.cost[k], x @ P @ x / 2, rtol=1e-10)
        for t, K in enumerate(gains):
            assert_allclose(found.tau[k, t], K @ x, rtol=0, atol=1e-8 * np.abs(found.tau).max())
            assert_allclose(found.gains[k, t], K[:, :-1], rtol=1e-8, atol=1e-10)
            x = F @ x + G @ (K @ x)


@pytest.mark.parametrize(
    ("hessian", "integrator"),
    [("gauss_newton", "semi_implicit"), ("exact", "semi_implicit"), ("gauss_newton", "midpoint"),
     ("exact", "euler")],
)  # fmt: skip
def test_the_gradient_vanishes_at_a_solution(pendulum, hessian, integrator):
    problems = sample(pendulum, 4)
    found = solved(pendulum, problems, hessian, integrator=integrator, tolerance=1e-13)
    assert found.converged.all(), found.status
    wanted = total_cost(pendulum, problems, found.tau, hessian, integrator)
    assert_allclose(found.cost, wanted, rtol=1e-10)
    first = gradient(pendulum, problems, problems[2], hessian, integrator)
    g = gradient(pendulum, problems, found.tau, hessian, integrator)
    assert np.abs(g).max() < 1e-5 * np.abs(first).max()
    moved = pendulum.rollout(*problems[:2], found.tau, DT, integrator=integrator)
    assert_allclose(found.q, moved.q, atol=1e-12)
    assert_allclose(found.v, moved.v, atol=1e-10)


def test_limits_hold_with_the_conditions_of_karush_kuhn_and_tucker(pendulum):
    problems, low, high = sample(pendulum, 6), np.array([-0.4, -0.2]), np.array([0.3, 0.25])
    found = solved(pendulum, problems, tau_limits=(low, high), tolerance=1e-12)
    assert found.converged.all(), found.status
    tau, g = found.tau, gradient(pendulum, problems, found.tau, "gauss_newton")
    assert ((low <= tau) & (tau <= high)).all()
    small = 1e-4 * np.abs(gradient(pendulum, problems, 0 * tau, "gauss_newton")).max()
    at_low, at_high = tau == low, tau == high
    assert at_low.any()
    assert at_high.any()
    assert (g[at_low] > -small).all()
    assert (g[at_high] < small).all()
    assert (np.abs(g[~at_low & ~at_high]) < small).all()
    free = solved(pendulum, problems)
    wide = solved(pendulum, problems, tau_limits=(-1e3 * np.ones(2), 1e3 * np.ones(2)))
    assert_allclose(wide.cost, free.cost, rtol=1e-8)
    assert (found.cost > free.cost).all()


def test_a_problem_between_limits_against_all_sets_of_held_entries():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(200, 3, 5))
    g, H = 3 * rng.normal(size=(200, 3)), A @ np.swapaxes(A, -1, -2)
    low, high = -rng.uniform(0, 1, (200, 3)), rng.uniform(0, 1, (200, 3))
    found = limited_minimum(g, H, low, high).x
    value = lambda g, H, x: g @ x + x @ H @ x / 2
    for k in range(200):
        best = np.inf
        for held in product((low[k], high[k], None), repeat=3):
            x = np.array([0.0 if side is None else side[i] for i, side in enumerate(held)])
            free = [i for i, side in enumerate(held) if side is None]
            if free:
                rest = g[k] + H[k] @ x
                x[free] = -np.linalg.solve(H[k][np.ix_(free, free)], rest[free])
            if ((low[k] <= x + 1e-12) & (x <= high[k] + 1e-12)).all():
                best = min(best, value(g[k], H[k], x))
        assert_allclose(value(g[k], H[k], found[k]), best, rtol=1e-9, atol=1e-12)


def test_matrices_that_are_not_positive_are_told():
    A = np.stack(
        [np.diag([2.0, 3.0]), np.diag([1.0, -1.0]), np.diag([0.0, 1.0]), np.eye(2) * np.nan]
    )
    assert_array_equal(Cholesky(A).definite, [1, 0, 0, -1])
    for dtype in (np.float32, np.float64):
        small = np.array([4.0, 64.0]) * np.finfo(dtype).eps
        nearly = np.array([[[1, 1], [1, 1 + x]] for x in small], dtype)
        assert_array_equal(Cholesky(nearly).definite, [0, 1], "a pivot of rounding, and another")
    Q = Quadratic(np.zeros((4, 3)), np.zeros((4, 3, 3)))
    Q.hessian[:, 1:, 1:] = A
    law, _ = feedback(Q, 1, np.array([0.0, 2.0, 2.0, 2.0]))
    assert_array_equal(law.definite, [1, 1, 1, -1])


@pytest.fixture(scope="module")
def flying():
    model = textbook.tree(("free", "revolute", "revolute"), seed=3)
    return model, model.actuation(model.joint_names[1:], clip=False)


def test_costs_expand_in_the_tangent_space(flying):
    model, actuation = flying
    rng = np.random.default_rng(0)
    q, moves = model.random_configuration(1, seed=0)[0], rng.normal(size=(6, model.nv))
    shapes = {"q": model.nq, "v": model.nv, "tau": 2}
    cost = lambda q, v, tau: q @ q[::-1] + q[0] ** 3 + np.sum(v * v) * q[4] + tau @ tau
    graph, end = trace(cost, shapes), trace(lambda q, v: q @ q, {"q": model.nq, "v": model.nv})
    problem = ControlProblem(model, "euler", actuation, False, True, "", graph, end)
    v, tau = rng.normal(size=model.nv), rng.normal(size=2)
    found, h = problem.function("expansion")(q, v, tau), 1e-4
    for d in moves:
        up, now, down = (cost(model.integrate(q, s * h * d), v, tau) for s in (1, 0, -1))
        n = model.nv
        assert_allclose(found.gradient[:n] @ d, (up - down) / (2 * h), rtol=1e-6, atol=1e-6)
        second = (up - 2 * now + down) / h**2
        assert_allclose(d @ found.hessian[:n, :n] @ d, second, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("large", [False, True], ids=["one kernel", "plan"])
def test_a_free_root_turns_to_a_posture(flying, large, monkeypatch):
    model, actuation = flying
    monkeypatch.setattr(optimal_control, "LARGE", 0 if large else optimal_control.LARGE)
    api._compiled.cache_clear()
    wanted = model.random_configuration(1, seed=5)[0]
    q0 = model.integrate(np.repeat(wanted[None], 4, 0), sample(model, 4)[0])
    residual = lambda q: model.difference(wanted, q)
    limits = (np.full(2, -30.0), np.full(2, 30.0))

    def solve(tau):
        return fl.ilqr(
            model, q0, np.zeros(model.nv), tau, DT,
            lambda q, v, tau: np.concatenate([0.1 * residual(q), 0.1 * v, 0.01 * tau]),
            lambda q, v: np.concatenate([10 * residual(q), 0.1 * v]),
            actuation=actuation, tau_limits=limits, tolerance=1e-12,
        )  # fmt: skip

    found = solve(np.zeros((T, 2)))
    assert found.converged.all(), found.status
    assert (found.cost < found.history.cost[:, 0]).all()
    moved = model.rollout(q0, np.zeros(model.nv), found.tau, DT, actuation=actuation)
    assert_allclose(found.q, moved.q, atol=1e-10)
    rng, h = np.random.default_rng(0), 1e-4

    def cost(tau):
        x = model.rollout(q0, np.zeros(model.nv), tau, DT, actuation=actuation)
        dq = model.difference(wanted, x.q)
        running = 0.01 * (dq[:, :-1] ** 2).sum((1, 2)) + 0.01 * (x.v[:, :-1] ** 2).sum((1, 2))
        running += 1e-4 * (tau**2).sum((1, 2))
        return (running + 100 * (dq[:, -1] ** 2).sum(1) + 0.01 * (x.v[:, -1] ** 2).sum(1)) / 2

    assert_allclose(found.cost, cost(found.tau), rtol=1e-9)
    inside = (np.abs(found.tau) < 29.9).astype(float)
    for _ in range(3):
        d = inside * rng.normal(size=found.tau.shape)
        slope = (cost(found.tau + h * d) - cost(found.tau - h * d)) / (2 * h)
        assert np.abs(slope).max() < 1e-5 * found.history.cost[:, 0].max()
    assert (solve(found.tau).iterations == 1).all()
    api._compiled.cache_clear()


def test_problems_that_fail_are_told_and_others_do_not_notice(pendulum):
    problems = sample(pendulum, 6)
    alone = solved(pendulum, problems)
    q0, v0, tau, target = (x.copy() for x in problems)
    q0[1], tau[3], target[4] = np.nan, 1e200, np.inf
    found = solved(pendulum, (q0, v0, tau, target))
    assert_array_equal(found.converged, [True, False, True, False, False, True])
    assert all(word.startswith("not finite") for word in found.status[[1, 3, 4]])
    good = [0, 2, 5]
    for x, y in zip(alone[:8], found[:8], strict=True):
        assert_array_equal(x[good], y[good])
    few = solved(pendulum, problems, iterations=2)
    assert_array_equal(few.status, "iterations used up")
    assert (few.iterations == 2).all()


def test_words_for_costs_without_minimum_or_derivative(pendulum):
    q0, v0, tau, _ = sample(pendulum, 2)

    def status(cost):
        return fl.ilqr(pendulum, q0, v0, tau, DT, cost, hessian="exact").status

    jump = lambda q, v, tau: np.sum(tau + tau**2 + 1e3 * np.where(tau < 0, 1.0, 0.0))
    assert_array_equal(status(jump), "stuck: no step lowers the cost")
    corner = lambda q, v, tau: np.sqrt(tau @ tau) + tau @ tau
    assert_array_equal(status(corner), "not finite: derivatives of the cost or the step")
    valley = lambda q, v, tau: np.sum(np.log1p((tau - 2.0) ** 2))  # its Hessian is negative at 0
    assert_array_equal(status(valley), "converged")


def test_a_history_grows(pendulum):
    q0, v0, tau, _ = sample(pendulum, 2)
    slow = lambda q, v, tau: np.sum((tau - 1.0) ** 4)  # each step takes a third of what is left
    found = fl.ilqr(
        pendulum, q0, v0, tau, DT, slow, hessian="exact", iterations=10**9, tolerance=1e-14
    )
    assert found.converged.all()
    assert (found.iterations > api.COLUMNS // 2).all()
    monotonous = np.diff(found.history.cost[0]) < 0
    assert monotonous[: api.COLUMNS // 2].all()
    assert found.history.cost[0, -1] == found.cost[0]


def test_what_has_converged_does_not_fall_when_it_is_solved_again(pendulum):
    # Of costs with saddles, some of whose Hessians are as good as singular on the way; the numbers
    # of a robot that overflows once in a backward pass
    rng, weights = np.random.default_rng(0), np.array([100.0, 0.01])
    q0, v0 = rng.normal(size=(1000, 2)), 2 * rng.normal(size=(1000, 2))
    which = np.r_[960:990]
    cost = lambda q, v, tau: np.sum(weights * (1 - np.cos(q))) + 1e-4 * np.sum(weights * tau**2)
    end = lambda q, v: 100 * np.sum(weights * (1 - np.cos(q)))

    def solve(tau):
        state = q0[which], v0[which], tau
        options = {"hessian": "exact", "integrator": "implicit_damping"}
        return fl.ilqr(pendulum, *state, 0.02, cost, end, **options)

    found = solve(np.zeros((len(which), 24, 2)))
    again = solve(found.tau)
    assert found.converged.sum() > 10
    assert (again.cost > (1 - 1e-8) * found.cost)[found.converged].all()
    assert found.cost[15] < 420.0, "where less than 502 was not found before"


def test_problems_at_their_optimum_end(pendulum):
    q0, v0, tau, _ = sample(pendulum, 2)
    cost = lambda q, v, tau, square, fourth: square * np.sum(tau**2) + fourth * np.sum(tau**4)

    def solve(square, fourth, tau, limit):
        given, limits = (
            {"square": square, "fourth": fourth},
            (-np.full(2, limit), np.full(2, limit)),
        )
        given = {name: np.full(2, x) for name, x in given.items()}
        options = {"hessian": "exact", "parameters": given, "tau_limits": limits}
        return fl.ilqr(pendulum, q0, v0, tau, DT, cost, **options)

    concave = solve(-1.0, 0.0, tau + 0.1, 1.0)
    assert concave.converged.all()
    assert_array_equal(concave.tau, 1.0)
    top = solve(-2.0, 1.0, tau, 3.0)
    assert top.converged.all(), "a point without slope"
    assert (top.iterations < 20).all()
    assert_allclose(solve(-2.0, 1.0, tau + 0.01, 3.0).tau, 1.0, rtol=1e-3)


def test_steps_that_stay_short_do_not_hide_an_optimum(pendulum):
    rng, goal = np.random.default_rng(0), np.array([1.0, -0.5])
    q0, v0 = rng.normal(size=(600, 2)), 2 * rng.normal(size=(600, 2))
    which = [45, 187, 201, 218, 388, 437, 513]  # whose steps are halved, by limits and rounding
    found = fl.ilqr(
        pendulum, q0[which], v0[which], np.zeros((len(which), 16, 2)), 0.02,
        lambda q, v, tau: np.concatenate([0.1 * (q - goal), 0.05 * v, 0.01 * tau]),
        lambda q, v: np.concatenate([10 * (q - goal), v]),
        tau_limits=(np.full(2, -0.5), np.full(2, 0.5)),
    )  # fmt: skip
    assert found.converged.all()


def test_controls_that_change_nothing_are_no_obstacle(pendulum):
    q0, v0, tau, _ = sample(pendulum, 2)
    cost = lambda q, v, tau: np.concatenate([np.sin(q - 1), 0.1 * v])  # the last tau has no effect
    found = fl.ilqr(pendulum, q0, v0, tau, DT, cost)
    assert found.converged.all()
    assert (found.iterations < 30).all()


def test_parameters_have_any_name(pendulum):
    q0, v0, tau, _ = sample(pendulum, 2)
    names = ["w", "q0", "v0", "dt", "limits", "out", "q_v_tau", "tau_limits[0]", "größe"]
    cost = lambda q, v, tau, **own: np.concatenate([sum(own[x] for x in names) * q, tau])
    limits, ones = (-np.ones(2), np.ones(2)), {x: np.ones(2) for x in names}
    found = fl.ilqr(pendulum, q0, v0, tau, DT, cost, parameters=ones, tau_limits=limits)
    assert found.converged.all()
    squares = (len(names) * found.q[:, :-1]) ** 2 + found.tau**2
    assert_allclose(found.cost, squares.sum((1, 2)) / 2)


def test_an_actuators_limit_is_one_of_its_control(pendulum):
    q0, v0, tau, _ = sample(pendulum, 3)
    motor = Actuation((Actuator((Gear(1, 2.0),), (-0.1, 0.1)),))
    cost = lambda q, v, tau: np.concatenate([q - 1, 0.1 * v])
    options = {"cost": cost, "actuation": motor}
    solve = lambda tau, **more: fl.ilqr(pendulum, q0, v0, tau[..., :1], DT, **options, **more)
    found = solve(tau)
    assert np.abs(found.tau).max() == 0.1
    assert_allclose(solve(tau + 5.0).cost, found.cost, rtol=1e-6)
    tighter = solve(tau, tau_limits=([-0.02], [1.0])).tau
    assert (tighter.min(), tighter.max()) == (-0.02, 0.1)


def test_a_warm_start_takes_fewer_iterations(pendulum):
    problems = sample(pendulum, 8)
    cold = solved(pendulum, problems)
    q0, v0, _, target = problems
    warm = solved(pendulum, (q0 + 1e-3, v0, cold.tau, target))
    assert (warm.iterations < cold.iterations).all()
    assert (solved(pendulum, (q0, v0, cold.tau, target)).iterations == 1).all()


@pytest.mark.parametrize("limited", [False, True])
def test_a_problem_has_the_same_bits_wherever_it_stands(pendulum, monkeypatch, limited):
    problems = sample(pendulum, 37)
    limits = {"tau_limits": (-0.3 * np.ones(2), 0.3 * np.ones(2))} if limited else {}
    wanted = solved(pendulum, problems, **limits)
    order = np.random.default_rng(0).permutation(37)[:20]
    part = [x[order] for x in problems]
    for slots, threads in ((256, 2), (3, 1), (11, 1)):
        monkeypatch.setattr(api, "SLOTS", slots)
        found = solved(pendulum, part, **limits, threads=threads)
        for x, y in zip(wanted[:8], found[:8], strict=True):
            assert_array_equal(x[order], y)
        columns = found.iterations.max() + 1
        for x, y in zip(wanted.history, found.history, strict=True):
            assert_array_equal(x[order, :columns], y)


def test_references_are_parameters_of_each_knot(pendulum):
    q0, v0, tau, target = problems = sample(pendulum, 3)
    along = np.broadcast_to(target[:, None], (3, T + 1, 2))
    same = fl.ilqr(pendulum, q0, v0, tau, DT, *COSTS["gauss_newton"], references={"target": along})
    assert_array_equal(same.cost, solved(pendulum, problems).cost)
    path = target[:, None] * np.linspace(0, 1, T + 1)[:, None]
    found = fl.ilqr(
        pendulum, q0, v0, tau, DT, lambda q, v, tau, path: np.concatenate([q - path, 0.1 * tau]),
        references={"path": path},
    )  # fmt: skip
    errors = found.q[:, :-1] - path[:, :-1]
    wanted = ((errors**2).sum((1, 2)) + 0.01 * (found.tau**2).sum((1, 2))) / 2
    assert_allclose(found.cost, wanted, rtol=1e-12)


def test_costs_that_were_traced_before(pendulum):
    problems = sample(pendulum, 3)
    shapes = dict.fromkeys(("q", "v", "tau", "target"), 2)
    end = {name: 2 for name in shapes if name != "tau"}
    graphs = fl.trace(residuals, shapes), fl.trace(residuals_of_end, end)
    *state, target = problems
    found = fl.ilqr(pendulum, *state, DT, *graphs, parameters={"target": target})
    assert_array_equal(found.cost, solved(pendulum, problems).cost)


def test_one_knot_and_a_time_step_for_each_problem(pendulum):
    q0, v0, tau, target = sample(pendulum, 4)
    dt, costs = np.array([0.01, 0.005, 0.01, 0.002]), COSTS["gauss_newton"]
    found = fl.ilqr(pendulum, q0, v0, tau[:, :1], dt, *costs, parameters={"target": target})
    assert found.converged.all()
    step = pendulum.step(q0, v0, found.tau[:, 0], dt)
    assert_allclose(found.q[:, 1], step.q, rtol=1e-12)
    every = [
        fl.ilqr(pendulum, *x[:3], h, *costs, parameters={"target": x[3]})
        for *x, h in zip(q0, v0, tau[:, :1], target, dt, strict=True)
    ]
    assert_array_equal(found.cost, [one.cost for one in every])


def test_shapes_dtypes_and_progress(pendulum):
    problems, told = sample(pendulum, 6), []
    wanted = solved(pendulum, problems, progress=lambda *x: told.append(x))
    assert told[-1] == (6, 6)
    assert sorted(told) == told
    many = solved(pendulum, [x.reshape(2, 3, *x.shape[1:]) for x in problems])
    assert many.q.shape == (2, 3, T + 1, 2)
    assert many.gains.shape == (2, 3, T, 2, 4)
    assert_array_equal(many.cost.ravel(), wanted.cost)
    one = solved(pendulum, [x[1] for x in problems])
    assert one.tau.shape == (T, 2)
    assert one.status.shape == one.history.cost.shape[:-1] == ()
    assert one.cost == wanted.cost[1]
    single = solved(pendulum, [x.astype("f4") for x in problems])
    assert single.q.dtype == single.cost.dtype == np.float32
    assert single.converged.all()
    assert_allclose(single.cost, wanted.cost, rtol=1e-4)
    assert solved(pendulum, problems, gains=False).gains is None
    none = solved(pendulum, [x[:0] for x in problems])
    assert none.q.shape == (0, T + 1, 2)
    assert wanted.history.cost.shape == (6, wanted.iterations.max() + 1)
    for history, end in zip(wanted.history.cost, wanted.iterations + 1, strict=True):
        assert np.isfinite(history[:end]).all()
        assert np.isnan(history[end:]).all()


WRONG = [
    ({"hessian": "newton"}, "hessian is 'newton'"),
    ({"iterations": 0}, "iterations is 0"),
    ({"tolerance": -1e-3}, "tolerance is -0.001"),
    ({"integrator": "leapfrog"}, "integrator is 'leapfrog'"),
    ({"cost": 3}, "cost is 3"),
    ({"cost": number}, "cost gives a number: hessian='gauss_newton' wants an array of residuals"),
    ({"cost": lambda q, v, tau, target: np.outer(q, v)}, r"cost gives an array of shape \(2, 2\)"),
    ({"cost": lambda q, v: q}, r"cost takes \(q, v\): wanted \(q, v, tau\) by position"),
    ({"cost": lambda q, v, tau, goal: q}, "cost takes .* called 'goal'; there are target"),
    ({"terminal_cost": lambda q, v, *, goal: q}, "terminal_cost takes .* called 'goal'"),
    ({"parameters": {"target": np.zeros((4, 2))}}, r"'target' has shape \(4, 2\), wanted \(3"),
    ({"parameters": {"target": np.zeros(2), "goal": 0.0}}, "parameter 'target' has shape"),
    ({"parameters": [1.0]}, r"parameters is \[1.0\]: wanted arrays by name"),
    ({"references": {3: 1.0}}, "references has the name 3"),
    ({"q0": np.zeros(2), "v0": np.zeros(2), "tau": np.zeros((T, 2)),
      "cost": lambda q, v, tau, target: q - target}, "matrix .* for 3 problems q0 needs"),
    ({"tolerance": np.nan}, "tolerance is nan"),
    ({"tolerance": "a"}, "tolerance is 'a'"),
    ({"progress": 3}, "progress is 3: wanted a function"),
    ({"parameters": {"target": np.ones((3, 2)), "g": np.ones(3)}}, "parameter 'g' is no argument"),
    ({"parameters": {"q": np.zeros((3, 2))}}, "a parameter is called 'q'"),
    ({"references": {"path": np.zeros((3, T, 2))}}, "reference 'path' has shape"),
    ({"tau_limits": 1.0}, r"tau_limits is 1.0: wanted \(low, high\)"),
    ({"tau_limits": (np.ones(2), np.zeros(2))}, "above the largest"),
    ({"tau_limits": (np.full(2, np.inf), np.full(2, np.inf))}, "no number between"),
    ({"dt": -0.1}, "dt is"),
    ({"q0": np.zeros((3, 3))}, r"q0 has shape \(3, 3\)"),
    ({"model": "iiwa14"}, "model is 'iiwa14'"),
    ({"threads": 0}, "threads is 0"),
    ({"cost": fl.trace(lambda q, goal: q - goal, {"q": 2, "goal": 2})}, "cost has the inputs q"),
    ({"terminal_cost": fl.trace(lambda q: q, {"q": 2})}, "terminal_cost has the inputs q"),
    ({"terminal_cost": fl.trace(lambda q, v: {"r": q}, {"q": 2, "v": 2})}, "has the outputs r"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), WRONG)
def test_what_is_wrong_is_named(pendulum, changes, told):
    q0, v0, tau, target = sample(pendulum, 3)
    given = {
        "model": pendulum, "q0": q0, "v0": v0, "tau": tau, "dt": DT, "cost": residuals,
        "terminal_cost": residuals_of_end, "parameters": {"target": target},
    }  # fmt: skip
    with pytest.raises((TypeError, ValueError), match=told):
        fl.ilqr(**given | changes)


def test_the_arm_of_the_example_reaches_its_points_in_spite_of_pushes(tmp_path):
    example = runpy.run_path(str(ROOT / "examples" / "ilqr_arm.py"))
    figure = tmp_path / "figure.svg"
    has_plots = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    solution, target = example["main"](str(figure) if has_plots else None, count=24)
    assert figure.stat().st_size > 10_000
    limit, distance = example["LIMIT"], example["distance"]
    assert solution.converged.mean() > 0.9
    assert (np.abs(solution.tau) <= limit).all()
    assert np.median(distance(solution.q[:, -1], target)) < 5.0
    without, fed_back = example["pushed"](solution)
    assert np.median(distance(fed_back, target)) < 0.1 * np.median(distance(without, target))


def test_rotors_of_a_multicopter_bring_it_to_its_place():
    """Four rotors on a free body: u has four entries, and stays within their limits."""
    b = fl.ModelBuilder("drone")
    b.link("frame", mass=1.0, inertia=(0.01, 0.01, 0.02))
    drone = b.build(root="free")
    x, y = np.array([[0.2, 0.2], [-0.2, 0.2], [-0.2, -0.2], [0.2, -0.2]]).T
    rotors = np.array([0 * x, 0 * x, 1 + 0 * x, y, -x, 0.02 * np.array([1, -1, 1, -1])])
    actuation = drone.actuation(matrix=rotors, limits=(0.0, 5.0))
    goal = np.array([0.3, -0.2, 0.5])

    def stage(q, v, tau):
        return np.concatenate([0.3 * (q[:3] - goal), 0.1 * v, 0.03 * tau])

    def terminal(q, v):
        return np.concatenate([10 * (q[:3] - goal), 3 * v, 3 * q[3:6]])

    hover = np.full((60, 4), 9.81 / 4)
    found = fl.ilqr(
        drone, drone.neutral(), np.zeros(6), hover, 0.02, stage, terminal, actuation=actuation
    )
    assert found.tau.shape == (60, 4)
    assert found.tau.min() >= 0
    assert found.tau.max() <= 5
    assert np.abs(found.q[-1, :3] - goal).max() < 0.05
    run = drone.rollout(drone.neutral(), np.zeros(6), found.tau, 0.02, actuation=actuation)
    np.testing.assert_allclose(run.q, found.q, atol=1e-9)


def test_feedback_that_is_not_finite_at_the_first_knot_is_named():
    """The root of v'v has no derivative at rest, where the first knot begins."""
    model, still = fl.load("double_pendulum"), (np.zeros(2), np.zeros((8, 2)), 0.01)
    root = lambda q, v, tau: np.concatenate([q, v, tau, [np.sqrt(v @ v) + tau[0]]])
    found = fl.ilqr(model, [0.3, -0.2], *still, root)
    assert str(found.status) == "not finite: derivatives of the cost or the step"
