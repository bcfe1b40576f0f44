"""Costs of iterative LQR with memory: against states of the robot that say the same, and sums of
costs along rollouts.
"""

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl
from featherlane.api import ilqr as api
from featherlane.functions import optimal_control

DT, T, BATCH = 0.01, 12, 3
Q0 = np.random.default_rng(0).normal(size=(BATCH, 2))
STILL = Q0, np.zeros(2), np.zeros((BATCH, T, 2)), DT
AT = np.array([0.3, -0.2])


@pytest.fixture(scope="module")
def pendulum():
    return fl.load("double_pendulum")


@pytest.fixture(params=[False, True], ids=["one kernel", "plan"])
def large(request, monkeypatch):
    monkeypatch.setattr(optimal_control, "LARGE", 0 if request.param else 10**9)
    api._compiled.cache_clear()
    yield request.param
    api._compiled.cache_clear()


def cost_of_q(q, v, tau):
    return np.concatenate([q - AT, 0.1 * v * np.sin(q), 0.1 * tau])


def end_of_q(q, v):
    return np.concatenate([5.0 * (q - AT), v])


def cost_of_copy(q, v, tau, copy):
    return cost_of_q(copy, v, tau), {"copy": copy + DT * v}  # as Euler's step moves q


def end_of_copy(q, v, copy):
    return end_of_q(copy, v)


def alike(found, wanted, rtol=1e-9):
    assert_allclose(found.cost, wanted.cost, rtol=rtol)
    assert_allclose(found.tau, wanted.tau, atol=1e-6)
    assert_array_equal(found.status, wanted.status)


@pytest.mark.parametrize(
    "options",
    [{}, {"hessian": "exact"}, {"tau_limits": (-np.full(2, 2.0), np.full(2, 2.0))}],
    ids=["gauss_newton", "exact", "limits"],
)
def test_memory_that_copies_positions_is_as_good_as_they_are(pendulum, large, options):
    options = {"integrator": "euler", "tolerance": 1e-12, **options}
    wanted = fl.ilqr(pendulum, *STILL, cost_of_q, end_of_q, **options)
    found = fl.ilqr(pendulum, *STILL, cost_of_copy, end_of_copy, memory={"copy": Q0}, **options)
    alike(found, wanted)
    assert wanted.converged.all()
    assert_allclose(found.memory["copy"], found.q, atol=1e-12)
    by_q, by_v, by_copy = np.split(found.gains, 3, -1)
    assert_allclose(np.concatenate([by_q + by_copy, by_v], -1), wanted.gains, atol=1e-5)
    assert np.abs(by_copy).max() > 0.1


def test_memory_starts_and_guesses_of_states(pendulum, large):
    rng, q = np.random.default_rng(1), np.repeat(Q0[:, None], T + 1, 1)
    guess = q + 0.1 * rng.normal(size=q.shape), 0.1 * rng.normal(size=q.shape)
    options = {"integrator": "euler", "tolerance": 1e-12, "states": guess}
    wanted = fl.ilqr(pendulum, *STILL, cost_of_q, end_of_q, **options)
    found = fl.ilqr(pendulum, *STILL, cost_of_copy, end_of_copy, memory={"copy": Q0}, **options)
    assert_allclose(found.cost, wanted.cost, rtol=1e-7)
    assert_allclose(found.memory["copy"], found.q, atol=1e-12)


def total(robot, tau, memory, cost, end, **options):
    """The sum of the costs along a rollout, and the memory at its end."""
    q, v, sum_of = Q0[0], np.zeros(2), 0.0
    for u in tau:
        r, renewed = cost(q, v, u, **memory)
        q, v = robot.step(q, v, u, DT, **options)
        sum_of, memory = sum_of + 0.5 * r @ r, renewed
    r = end(q, v, **memory)
    return sum_of + 0.5 * r @ r, memory


def turning(q, v, tau, last, sums):
    out = np.concatenate([q - AT, 0.1 * (tau - last), 0.05 * np.ravel(sums)])
    return out, {"last": tau, "sums": sums + DT * np.outer(q - AT, v) + DT * sums * last[0]}


def stop(q, v, sums):
    return np.concatenate([v, np.ravel(sums)])


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_solutions_are_least_costs_of_rollouts(pendulum, large, integrator):
    memory = {"last": 2, "sums": (2, 2)}
    options = {"integrator": integrator, "tolerance": 1e-13}
    found = fl.ilqr(pendulum, *STILL, turning, stop, memory=memory, **options)
    assert found.converged.all()
    assert found.memory["sums"].shape == (BATCH, T + 1, 2, 2)
    assert_allclose(found.memory["last"][:, 1:], found.tau)
    zeros = {"last": np.zeros(2), "sums": np.zeros((2, 2))}
    end = lambda q, v, last, sums: stop(q, v, sums)
    of = lambda tau: total(pendulum, tau, zeros, turning, end, integrator=integrator)
    least, last = of(found.tau[0])
    assert_allclose(found.cost[0], least, rtol=1e-12)
    assert_allclose(found.memory["sums"][0, -1], last["sums"], atol=1e-12)
    for k in np.ndindex(T, 2):
        away = np.zeros((T, 2))
        away[k] = 1e-4
        slope = (of(found.tau[0] + away)[0] - of(found.tau[0] - away)[0]) / 2e-4
        assert abs(slope) < 1e-5 * least


def test_memory_of_forces(large):
    arm = textbook.tree(("revolute",) * 3, seed=2)
    held = arm.constraints([fl.Pin(arm.frame_names[-1], axes="x")], level="acceleration")
    q0, steps = 0.3 * np.ones(3), 6

    def cost(q, v, tau, force, pressed):
        return np.concatenate([v, 0.1 * tau, pressed - 2.0]), {"pressed": 0.5 * pressed + force}

    options = {"constraints": held, "tolerance": 1e-12, "memory": {"pressed": 1}}
    found = fl.ilqr(arm, q0, np.zeros(3), np.zeros((steps, 3)), DT, cost, **options)
    assert found.converged
    pressed = np.zeros((steps + 1, 1))
    for k in range(steps):
        pressed[k + 1] = 0.5 * pressed[k] + found.force[k]
    assert_allclose(found.memory["pressed"], pressed, atol=1e-12)

    def of(tau):
        q, v, memory, cost_of = q0, np.zeros(3), np.zeros(1), 0.0
        for u in tau:
            force = arm.constrained_forward_dynamics(q, v, u, constraints=held).force
            r, renewed = cost(q, v, u, force, memory)
            q, v = arm.step(q, v, u, DT, constraints=held)[:2]
            memory, cost_of = renewed["pressed"], cost_of + 0.5 * r @ r
        return cost_of

    assert_allclose(found.cost, of(found.tau), rtol=1e-10)
    for k in np.ndindex(steps, 3):
        away = np.zeros((steps, 3))
        away[k] = 1e-4
        slope = (of(found.tau + away) - of(found.tau - away)) / 2e-4
        assert abs(slope) < 1e-4 * found.cost


def test_graphs_and_float32(pendulum):
    shapes = {"q": 2, "v": 2, "tau": 2, "copy": 2}
    traced = lambda q, v, tau, copy: {
        "out": cost_of_q(copy, v, tau), "copy_next": copy + DT * v
    }  # fmt: skip
    graphs = fl.trace(traced, shapes), fl.trace(end_of_copy, {"q": 2, "v": 2, "copy": 2})
    memory, single = {"copy": Q0}, [x.astype("float32") for x in STILL[:3]]
    wanted = fl.ilqr(pendulum, *STILL, cost_of_copy, end_of_copy, memory=memory)
    found = fl.ilqr(pendulum, *STILL, *graphs, memory=memory)
    assert_array_equal(found.tau, wanted.tau)
    short = {"copy": Q0.astype("float32")}
    narrow = fl.ilqr(pendulum, *single, DT, cost_of_copy, end_of_copy, memory=short)
    assert narrow.memory["copy"].dtype == np.float32
    assert_allclose(narrow.cost, wanted.cost, rtol=1e-3)


@pytest.mark.parametrize(
    ("cost", "memory", "error", "text"),
    [
        (cost_of_q, {"copy": 2}, TypeError, r"the cost has memory and returns .*'copy': ..."),
        (lambda q, v, tau, a: (q, {"b": a}), {"a": 2}, ValueError, "returns memory b: wanted"),
        (lambda q, v, tau, a: (q, {}), {"a": 2}, ValueError, "returns memory without names: want"),
        (lambda q, v, tau, a: (q, {"a": a[:1]}), {"a": 2}, ValueError, r"'a' of shape \(1,\)"),
        (lambda q, v, tau, a: (q, {"a": tau}), {"a": 7}, ValueError, "whole number .* is a shape"),
        (cost_of_copy, {"copy": True}, ValueError, "memory 'copy' is True: wanted its shape"),
        (cost_of_copy, {"copy": (2, 0)}, ValueError, r"memory .copy. is \(2, 0\): wanted"),
        (cost_of_copy, {"copy": -2}, ValueError, "memory 'copy' is -2: wanted its shape"),
        (cost_of_copy, {"copy": np.zeros((5, 2))}, ValueError, r"memory 'copy' has shape \(5, 2\)"),
        (cost_of_copy, {"copy": 2, "q": 2}, ValueError, "called 'q' in memory and in the arg"),
        (cost_of_copy, [2], TypeError, "memory is .*wanted arrays or their shapes by name"),
        (lambda q, v, tau, coppy: q, {"copy": 2}, TypeError, "memory is called 'coppy'.*are copy"),
    ],
)
def test_what_is_wrong_is_named(pendulum, cost, memory, error, text):
    with pytest.raises(error, match=text):
        fl.ilqr(pendulum, *STILL, cost, memory=memory)


def test_shapes_of_numpy_and_no_problems(pendulum):
    still = fl.ilqr(pendulum, *STILL, turning, stop, memory={"last": 2, "sums": (2, 2)})
    memory = {"last": np.int64(2), "sums": (np.int32(2), 2)}
    found = fl.ilqr(pendulum, *STILL, turning, stop, memory=memory)
    assert_array_equal(found.tau, still.tau)
    none = fl.ilqr(pendulum, Q0[:0], *STILL[1:2], STILL[2][:0], DT, turning, stop, memory=memory)
    assert none.status.shape == (0,)
    assert none.memory["sums"].shape == (0, T + 1, 2, 2)


def test_costs_that_take_all_arrays_by_name_get_memory(pendulum):
    everything = lambda q, v, tau, **arrays: cost_of_copy(q, v, tau, arrays["copy"])
    end = lambda q, v, **arrays: end_of_copy(q, v, **arrays)
    wanted = fl.ilqr(pendulum, *STILL, cost_of_copy, end_of_copy, memory={"copy": Q0})
    found = fl.ilqr(pendulum, *STILL, everything, end, memory={"copy": Q0})
    assert_array_equal(found.tau, wanted.tau)


def test_pairs_where_no_memory_is_renewed(pendulum):
    with pytest.raises(TypeError, match=r"terminal_cost returns .* reads memory only"):
        fl.ilqr(pendulum, *STILL, cost_of_copy, lambda q, v: (q, {"copy": q}), memory={"copy": 2})
    with pytest.raises(TypeError, match=r"cost returns .* memory= names none"):
        fl.ilqr(pendulum, *STILL, lambda q, v, tau: (q, {"copy": q}))


def test_names_in_two_places(pendulum):
    twice = {"memory": {"copy": 2}, "parameters": {"copy": Q0}}
    with pytest.raises(ValueError, match="'copy' in parameters and in memory: wanted"):
        fl.ilqr(pendulum, *STILL, cost_of_copy, **twice)


def test_memory_of_a_solution_at_all_knots(pendulum):
    begin = [x[0] for x in STILL[:1]] + [np.zeros(2), np.zeros((T, 2)), DT]
    cost = lambda q, v, tau, last: (np.concatenate([q, tau - last]), {"last": tau})
    solution = fl.ilqr(pendulum, *begin, cost, memory={"last": 2})
    with pytest.raises((TypeError, ValueError)) as error:
        fl.ilqr(pendulum, *begin, cost, memory=solution.memory)
    (note,) = error.value.__notes__
    assert "solution.memory['last'][..., 1, :]" in note
    again = {"last": solution.memory["last"][..., 1, :]}
    assert fl.ilqr(pendulum, *begin, cost, memory=again).converged
