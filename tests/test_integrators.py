"""A Runge-Kutta method is an entry of the table: Ralston's of third order is added here, and has
its order, its derivatives, its rollouts, its code for GPUs and what frameworks differentiate.
"""

import dataclasses

import changes
import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated
from test_cuda_plans import compare

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS, Tableau, combined
from featherlane.algorithms.lie_group_joints import RateMaps, lie_group_joints, local_rate
from featherlane.functions import sequences
from featherlane.functions.differentiated import function_of
from featherlane.functions.operations import Operation
from featherlane.functions.table import Variant
from featherlane.robot.tree_of import tree_of

BATCH = 4
RALSTON = Tableau(3, ((1 / 2,), (0, 3 / 4)), (2 / 9, 1 / 3, 4 / 9))  # Ralston 1962
KUTTA = Tableau(3, ((1 / 2,), (-1.0, 2.0)), (1 / 6, 2 / 3, 1 / 6))  # a row of several weights
FLOATING = textbook.tree(("free", "revolute"), seed=1, physics=True)
ALL_TYPES = textbook.tree(
    ("free", "spherical", "planar", "universal", "cylindrical", "translation", "helical",
     "revolute", "prismatic"),
    (-1, 0, 0, 0, 1, 2, 3, 4, 5), seed=3, physics=True,
)  # fmt: skip
ROBOTS = {"free root": FLOATING, "all joint types": ALL_TYPES}


@pytest.fixture(params=repeated(["ralston3", "kutta3"]))
def method(request, monkeypatch):
    """The name of a method that the table has during a test."""
    table = {"ralston3": RALSTON, "kutta3": KUTTA}
    monkeypatch.setitem(INTEGRATORS, request.param, table[request.param])
    return request.param


ralston = pytest.mark.parametrize("method", ["ralston3"], indirect=True)
robots = pytest.mark.parametrize("name", repeated([*ROBOTS]))


def sample(model):
    rng = np.random.default_rng(0)
    q = model.random_configuration(BATCH, seed=rng)
    v, tau = 0.5 * rng.normal(size=(2, BATCH, model.nv))
    return q, v, tau, rng.uniform(0.005, 0.02, BATCH)


def close(x, wanted, tolerance):
    assert_allclose(x, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()))


@robots
@ralston
def test_the_slope_of_the_error_is_the_order(method, name):
    model = ROBOTS[name]
    q, v, tau, _ = sample(model)
    time = 0.05

    def end(steps, integrator):
        controls = np.repeat(tau[:, None], steps, 1)
        found = model.rollout(q, v, controls, time / steps, integrator=integrator, every=steps)
        return found.q[:, -1], found.v[:, -1]

    best = end(128, "rk4")
    errors = []
    for steps in (8, 16):
        q1, v1 = end(steps, method)
        errors.append(np.abs([model.difference(best[0], q1), v1 - best[1]]).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3, abs=0.35)


def assert_linear(model, method, given, moves):
    """A and B are those of dual numbers and of differences along a direction, which it returns."""
    end, wanted = changes.of_step(model, *given, moves, integrator=method)
    linear = model.linearize_step(*given, integrator=method)
    close(linear.q, end["q_next"], 1e-12)
    close(linear.v, end["v_next"], 1e-12)
    along = changes.by_matrices(linear, moves)
    close(along, wanted, 1e-11)
    close(along, differences(model, method, given, moves), 1e-6)
    return wanted


def assert_derivatives(model, method):
    """A and B, JVP and VJP are those of dual numbers."""
    given, rng = sample(model), np.random.default_rng(1)
    moves = rng.normal(size=(3, BATCH, model.nv))
    wanted = assert_linear(model, method, given, moves)
    forward = model.step_jvp(*given, *moves, integrator=method)
    close(np.concatenate(forward, -1), wanted, 1e-11)
    weights = rng.normal(size=(2, BATCH, model.nv))
    back = model.step_vjp(*given, *weights, integrator=method)
    one = np.sum(np.concatenate(weights, -1) * wanted, -1)
    close(sum(np.sum(g * d, -1) for g, d in zip(back, moves, strict=True)), one, 1e-11)


def differences(model, method, given, moves, h=1e-6):
    """How a step's end changes along moves, by central differences."""
    q, v, tau, dt = given
    dq, dv, dtau = moves

    def end(s):
        moved = model.integrate(q, s * dq), v + s * dv, tau + s * dtau
        return model.step(*moved, dt, integrator=method)

    ahead, behind, here = end(h), end(-h), end(0)
    of_q = model.difference(here.q, ahead.q) - model.difference(here.q, behind.q)
    return np.concatenate([of_q, ahead.v - behind.v], -1) / (2 * h)


def test_derivatives(method):
    assert_derivatives(FLOATING, method)


@pytest.mark.parametrize("matrices", [False, True], ids=["in tiles", "of matrices"])
def test_derivatives_by_plans(method, matrices, monkeypatch):
    """Each call of the step has a kernel, and A and B are one kernel or work on matrices."""
    monkeypatch.setattr(sequences, "FLAT", 0)
    monkeypatch.setattr(sequences, "in_tiles", lambda model: not matrices)
    types = ("spherical", "prismatic") if matrices else ("revolute", "helical")
    assert_derivatives(textbook.tree(types, seed=23, physics=True), method)


@ralston
def test_derivatives_of_all_joint_types_by_a_plan(method):
    assert sequences.is_planned(ALL_TYPES, Variant("linearize_step", integrator=method))
    moves = np.random.default_rng(1).normal(size=(3, BATCH, ALL_TYPES.nv))
    assert_linear(ALL_TYPES, method, sample(ALL_TYPES), moves)


@ralston
def test_a_rollout_is_its_steps_and_its_gradient_theirs(method):
    model, steps, options = FLOATING, 3, {"integrator": method}
    q, v, tau, dt = sample(model)
    tau = np.repeat(tau[:, None], steps, 1)
    found = model.rollout(q, v, tau, dt, **options)
    weights = np.random.default_rng(2).normal(size=(2, BATCH, steps + 1, model.nv))
    back = model.rollout_gradient(found, tau, dt, *weights, **options)
    gq, gv = weights[:, :, steps]
    for k in reversed(range(steps)):
        state = found.q[:, k], found.v[:, k], tau[:, k], dt
        after = model.step(*state, **options)
        assert_array_equal(after.q, found.q[:, k + 1])
        assert_array_equal(after.v, found.v[:, k + 1])
        step = model.step_vjp(*state, gq, gv, **options)
        close(back.tau[:, k], step.tau, 1e-12)
        gq, gv = step.q + weights[0, :, k], step.v + weights[1, :, k]
    close(back.q, gq, 1e-12)
    close(back.v, gv, 1e-12)


@ralston
def test_constraints_hold_accelerations(method):
    chain = textbook.tree(("spherical", "revolute", "revolute"), seed=4, physics=True)
    end = fl.Frame("end", 2, fl.Placement.of(np.eye(3), (0.1, 0.2, 0.3)))
    chain = dataclasses.replace(chain, frames=(*chain.frames, end))
    held = chain.constraints([fl.Pin("end")])
    given = sample(chain)
    moves = np.random.default_rng(1).normal(size=(3, BATCH, chain.nv))
    options = {"integrator": method, "constraints": held}
    linear = chain.linearize_step(*given, **options)
    forward = chain.step_jvp(*given, *moves, **options)
    close(np.concatenate(forward, -1), changes.by_matrices(linear, moves), 1e-11)


@ralston
def test_code_for_gpus_and_derivatives_for_frameworks(method):
    arm = textbook.tree(("revolute", "prismatic"), seed=2, physics=True)
    compare(arm, Variant("rollout", integrator=method, steps=2), np.float64)
    step = Operation(arm, Variant("step", integrator=method))
    q, v, tau, dt = sample(arm)
    dq = np.random.default_rng(3).normal(size=(BATCH, arm.nv))
    given = {"q": q, "v": v, "tau": tau, "dt": dt}
    tangents = step.tangents(("q",))
    moving = next(name for name in tangents.inputs if name not in given)
    found = function_of(tangents)(*[{**given, moving: dq}[name] for name in tangents.inputs])
    still = np.zeros_like(dq)
    for x, wanted in zip(found, arm.step_jvp(*given.values(), dq, still, still, integrator=method),
                         strict=True):  # fmt: skip
        close(x, wanted, 1e-12)


@pytest.mark.parametrize("name", INTEGRATORS)
def test_tableaus_are_consistent(name):
    """b sums to 1; from the second order on, b . c = 1/2 with the sums c of the rows of a."""
    order, a, b, *_ = INTEGRATORS[name]
    assert [len(row) for row in a] == [*range(1, len(b))]
    assert sum(b) == pytest.approx(1)
    if order >= 2:
        assert np.dot(b, [0, *map(sum, a)]) == pytest.approx(1 / 2)


def test_an_unknown_method_is_refused():
    arm = textbook.tree(("revolute",), seed=5)
    with pytest.raises(ValueError, match="integrator is 'ralston3'"):
        arm.step(*sample(arm), integrator="ralston3")


@pytest.mark.parametrize("weights", [(2.0,), (1 / 6, 1 / 3, 1 / 3, 1 / 6), (0.5, -1.5, 0.5)])
def test_combined_vectors_are_weighted_sums(weights):
    vectors = np.random.default_rng(0).normal(size=(len(weights), 3))
    factor, vector = combined(weights, vectors.tolist())
    assert_allclose(factor * np.array(vector), weights @ vectors, atol=1e-15)


@pytest.mark.parametrize("order", [2, 3, 4, 6, 8])
def test_the_series_of_rates_has_the_order_of_the_method(order):
    """Against the inverse of the right Jacobian; terms of odd powers from the third on are 0."""
    tree, series = tree_of(textbook.tree(("free",))), Tableau(order, (), ()).series
    (kind, _), rng = next(lie_group_joints(tree)), np.random.default_rng(0)
    u, v, du, dv = rng.normal(size=(4, 6))
    errors = []
    for s in (0.4, 0.2):
        exact = np.array(kind.jacobian_inverse((s * u).tolist())) @ v
        errors.append(np.abs(local_rate(tree, (s * u).tolist(), v.tolist(), series) - exact).max())
    following = order - 1 if order < 4 else 2 * (order // 2)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(following, abs=0.3)
    if series:
        found = RateMaps(tree, u.tolist(), v.tolist(), series).change(du.tolist(), dv.tolist())
        ends = [
            np.array(local_rate(tree, (u + h * du).tolist(), (v + h * dv).tolist(), series))
            for h in (1e-5, -1e-5)
        ]
        assert_allclose(found, (ends[0] - ends[1]) / 2e-5, atol=1e-7)
