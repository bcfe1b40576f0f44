"""The backward step of large robots as a plan, against the one kernel of small ones and NumPy."""

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl
from featherlane.api import ilqr as api
from featherlane.functions import optimal_control
from featherlane.functions.control_pool import Pool
from featherlane.functions.hessian_runs import dense_runs
from featherlane.functions.large_control import riccati_function
from featherlane.functions.riccati import Quadratic, feedback
from featherlane.functions.riccati_plan import RiccatiSizes

T, DT, BATCH = 12, 0.01, 3


def positive(rng, n):
    A = rng.normal(size=(BATCH, n, n))
    return A @ np.swapaxes(A, -1, -2) + np.eye(n)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("states", "controls", "forces"), [(4, 2, 0), (22, 9, 6), (34, 17, 3)])
def test_a_step_against_numpy(states, controls, forces, dtype):
    rng, z = np.random.default_rng(0), states + controls
    size = RiccatiSizes(
        states, controls, forces, limited=False, gaps=False, summed=5, hessian=dense_runs(z)
    )
    V, g = positive(rng, states), rng.normal(size=(BATCH, states))
    H, h = positive(rng, z), rng.normal(size=(BATCH, z))
    S, F, R = (rng.normal(size=(BATCH, k, z)) for k in (states, forces, forces))
    R, damping = positive(rng, forces), rng.uniform(size=BATCH)
    beside = lambda A, x: np.concatenate([A, x[..., None]], -1)
    inputs = {
        "value": beside(V, g), "sums": np.tile([0.0, 0, 0, 0, 1], (BATCH, 1)), "steps": S,
        "cost": size.packed_cost(h, H), "forces": F, "stiffness": R, "damping": damping,
    }  # fmt: skip
    function = riccati_function(size)
    found = function(*[inputs[name].astype(dtype) for name in function.inputs], threads=1)
    first = np.r_[controls:z, :controls]  # [dx; du]
    of_forces = np.swapaxes(F, -1, -2) @ R @ F
    Q = Quadratic(g, V).after(S[..., first])
    Q = Q.plus(Quadratic(h[..., first], (H + of_forces)[:, first[:, None], first]))
    law, value = feedback(Q, states, damping)
    accurate = {"rtol": 0, "atol": 1e-12 if dtype == np.float64 else 1e-3}
    near = lambda x, y: assert_allclose(
        x, y, **accurate | {"atol": accurate["atol"] * np.abs(y).max()}
    )
    near(found.value_before[..., :states], value.hessian)
    near(found.value_before[..., states], value.gradient)
    near(found.k, law.k)
    near(found.K, law.K)
    near(found.sums_before[:, 0], law.slope)
    near(found.sums_before[:, 2], law.size)
    assert_array_equal(found.sums_before[:, 3:], 1.0)


def test_pivots_that_are_not_positive_are_told():
    m = 10  # more than are factored at a time
    entries = dense_runs(m + 2)
    size = RiccatiSizes(2, m, 0, limited=False, gaps=False, summed=5, hessian=entries)
    cost, last = np.zeros((4, m + 2, m + 2)), m - 1
    cost[:, range(m), range(m)] = 2.0
    cost[1, 3, 3], cost[1, last, last], cost[2, 0, last], cost[3, last, last] = (
        -1,
        np.nan,
        2,
        np.nan,
    )
    arrays = {"value": np.zeros((2, 3)), "sums": [0, 0, 0, 0, 1.0], "steps": np.zeros((2, m + 2))}
    function = riccati_function(size)
    arrays |= {"cost": size.packed_cost(np.zeros((4, m + 2)), cost), "damping": 0.0}
    found = function(*[np.asarray(arrays[x]) for x in function.inputs])
    assert_array_equal(found.sums_before[:, -1], [1, 0, 0, -1])


COSTS = {
    "posture": lambda robot, q, v, tau: np.concatenate([robot.difference(0 * q + AT, q), v, tau]),
    "frame": lambda robot, q, v, tau: robot.frame_placement(q, robot.frame_names[2])[:3, 3],
    "power": lambda robot, q, v, tau: np.concatenate([v * tau, tau[:2] - q[-2:], q[:1] * v[:1]]),
    "number": lambda robot, q, v, tau: np.sum(v * v) - q[7] * tau[1] + np.exp(q[0] - v[3] * tau[2]),
}
AT = np.array([0.0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("name", "exact"), [*[(name, True) for name in COSTS], *[(x, False) for x in [*COSTS][:3]]]
)
def test_the_hessian_has_entries_in_its_runs_alone(name, exact):
    tree = textbook.tree(("free", *["revolute"] * 5), seed=1)
    n, z = tree.nv, 3 * tree.nv
    sizes = {"q": tree.nq, "v": n, "tau": n}
    graph = fl.trace(lambda *state: COSTS[name](tree, *state), sizes)
    problem = optimal_control.ControlProblem(
        tree, "semi_implicit", None, False, exact, f"{name} {exact}", graph, graph
    )
    rng, q = np.random.default_rng(0), tree.random_configuration(20, seed=0)
    state = q, rng.normal(size=(20, n)), rng.normal(size=(20, n))
    expansion = problem.function("expansion")(*state).hessian
    first = np.r_[2 * n : z, : 2 * n]  # [du; dx]
    seen = np.abs(expansion[:, first[:, None], first]).max(0) > 0.0
    listed = np.zeros((z, z), bool)
    for row, column, count in problem.sizes.hessian:
        assert column >= row
        assert not listed[row, column : column + count].any()
        listed[row, column : column + count] = True
    assert not (np.triu(seen) & ~listed).any()
    assert listed.sum() < 0.6 * z * (z + 1) / 2


@pytest.fixture(scope="module")
def robot():
    return textbook.tree(("free", "revolute"), seed=3)


def solved(robot, large, fused, monkeypatch, **options):
    monkeypatch.setattr(optimal_control, "LARGE", 0 if large else 10**9)
    monkeypatch.setattr(optimal_control, "FUSED", 40 if fused else 0)
    api._compiled.cache_clear()
    rng = np.random.default_rng(0)
    wanted = robot.random_configuration(1, seed=5)[0]
    q0 = robot.integrate(np.tile(wanted, (BATCH, 1)), 0.5 * rng.normal(size=(BATCH, robot.nv)))
    if options.pop("gaps", False):
        away = 0.2 * rng.normal(size=(BATCH, T + 1, robot.nv))
        options["states"] = robot.integrate(np.repeat(q0[:, None], T + 1, 1), away), away
    residual = lambda q: robot.difference(wanted, q)
    found = fl.ilqr(
        robot, q0, 0.1 * np.ones(robot.nv), np.zeros((BATCH, T, robot.nv)), DT,
        lambda q, v, tau: np.concatenate([0.1 * residual(q), 0.1 * v, 0.01 * tau]),
        lambda q, v: np.concatenate([10 * residual(q), 0.1 * v]), iterations=8, **options,
    )  # fmt: skip
    api._compiled.cache_clear()
    return found


@pytest.mark.parametrize(
    ("fused", "options"),
    [(True, {"gaps": True}), (False, {"gaps": True}), (False, {"integrator": "euler"})],
    ids=["gaps", "gaps, in pieces", "euler, in pieces"],
)
def test_the_plan_solves_as_one_kernel_does(robot, fused, options, monkeypatch):
    wanted = solved(robot, False, True, monkeypatch, **options)
    found = solved(robot, True, fused, monkeypatch, **options)
    assert_allclose(found.cost, wanted.cost, rtol=1e-9)
    assert_array_equal(found.iterations, wanted.iterations)
    assert_allclose(found.gains, wanted.gains, atol=1e-7 * np.abs(wanted.gains).max())
    for name in ("cost", "expected", "gap"):
        x, y = (getattr(each.history, name)[:, :3] for each in (found, wanted))
        assert_allclose(x, y, rtol=1e-7, atol=1e-9)


def test_plans_leave_out_problems_that_have_ended(robot, monkeypatch):
    columns, sweep = [], Pool._sweep

    def counted(pool):
        sweep(pool)
        columns.append((pool.active, pool.swept))

    monkeypatch.setattr(Pool, "_sweep", counted)
    found = solved(robot, True, True, monkeypatch, gaps=True)
    assert len(set(found.iterations)) > 1
    assert {active for active, _ in columns} > {BATCH}
    assert all(swept == active for active, swept in columns)


@pytest.mark.parametrize(
    ("large", "fused", "options"),
    [(False, True, {}), (True, True, {}), (True, False, {"integrator": "rk4"})],
    ids=["one kernel", "plan", "rk4, in pieces"],
)
def test_each_problem_has_its_own_robot(robot, large, fused, options, monkeypatch):
    rng = np.random.default_rng(1)
    mass = robot.parameters("mass")["mass"] * rng.uniform(0.5, 2.0, (BATCH, robot.nbodies))
    own = {"mass": mass, "damping": rng.uniform(0.0, 0.1, (BATCH, robot.nv))}
    own["gravity"] = np.array([0.0, 0.0, -3.7])  # of all
    together = solved(robot, large, fused, monkeypatch, params=own, **options)
    k = 1
    values = {name: np.broadcast_to(x, (BATCH, x.shape[-1]))[k] for name, x in own.items()}
    alone = solved(robot.with_parameters(values), large, fused, monkeypatch, **options)
    assert_allclose(together.cost[k], alone.cost[k], rtol=1e-9)
    assert_allclose(together.tau[k], alone.tau[k], atol=1e-7 * np.abs(alone.tau[k]).max())
    assert np.all(np.abs(together.cost / alone.cost - 1.0)[[0, 2]] > 1e-4)


def test_parameters_of_robots_are_checked():
    pendulum = fl.load("double_pendulum")
    still = pendulum, np.zeros(2), np.zeros(2), np.zeros((3, 2)), DT, lambda q, v, tau: tau
    for params, text in (
        ({"mas": [1.0, 2.0]}, "'mas'; did you mean 'mass'"),
        ({"mass": [1.0, 2.0, 3.0]}, r"params\['mass'\] has shape \(3,\), wanted \(..., 2\)"),
        ({"mass": [1.0, -2.0]}, r"params\['mass'\] is -2.0 for body 'link2'"),
    ):
        with pytest.raises(ValueError, match=text):
            fl.ilqr(*still, params=params)
