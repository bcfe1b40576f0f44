"""Rollouts of feedback laws with references, memory and controls that hold over several steps."""

import pickle

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated

import featherlane as fl
from featherlane.functions.constraint_inputs import ConstraintInputs
from featherlane.functions.differentiated import function_of
from featherlane.functions.operations import Operation
from featherlane.functions.table import Variant
from featherlane.functions.variants import check_variant

BATCH, STEPS, DT = 5, 12, 0.01


@pytest.fixture(scope="module")
def model():
    return textbook.tree(("free", "revolute"), seed=2, physics=True)


def law(q, v, t, gain, goal, sum):
    error = goal - v
    return gain * error + 0.3 * sum + t, {"sum": sum + error * (1 + t)}


def policy_of(model, hold):
    shapes = {"references": {"goal": model.nv}, "memory": {"sum": model.nv}}
    return model.policy(law, {"gain": ()}, **shapes, hold=hold)


def arrays_of(model):
    rng = np.random.default_rng(0)
    q, v = model.random_configuration(BATCH, seed=1), rng.normal(size=(BATCH, model.nv))
    goal = rng.normal(size=(BATCH, STEPS, model.nv))
    return q, v, rng.uniform(0.5, 2, BATCH), goal


@pytest.mark.parametrize(("hold", "every"), repeated([(1, 1), (3, 1), (5, 4), (1, 3), (4, 2)], 3))
def test_rollouts_are_steps_with_the_law_between_them(model, hold, every):
    q, v, gain, goal = arrays_of(model)
    found = model.rollout_with(
        policy_of(model, hold),
        *(q, v, DT, STEPS),
        parameters={"gain": gain},
        references={"goal": goal},
        every=every,
    )
    states, sum = [q], np.zeros_like(v)
    for k in range(STEPS):
        if k % hold == 0:
            u, renewed = law(q, v, k * DT, gain[:, None], goal[:, k], sum)
            sum = renewed["sum"]
        assert_allclose(found.tau[:, k], u, rtol=1e-11, atol=1e-12)
        q, v = model.step(q, v, u, DT)
        states.append(q)
    assert_allclose(found.q, np.stack(states, 1)[:, ::every], rtol=1e-11, atol=1e-12)
    assert_allclose(found.sum, sum, rtol=1e-11, atol=1e-12)
    assert_array_equal(found.diverged, -1)


def test_a_rollout_continues_with_its_memory(model):
    q, v, _, goal = arrays_of(model)
    policy = model.policy(
        lambda q, v, t, goal, sum: (goal - v + sum, {"sum": 0.9 * sum - v}),
        references={"goal": model.nv},
        memory={"sum": model.nv},
    )
    whole = model.rollout_with(policy, q, v, DT, STEPS, references={"goal": goal})
    first = model.rollout_with(policy, q, v, DT, 4, references={"goal": goal[:, :4]})
    again = pickle.loads(pickle.dumps(first))
    assert_array_equal(again.sum, first.sum)
    assert_array_equal(again.diverged, first.diverged)
    rest = model.rollout_with(
        policy,
        *(first.q[:, -1], first.v[:, -1], DT, STEPS - 4),
        references={"goal": goal[:, 4:]},
        memory={"sum": first.sum},
    )
    assert_array_equal(rest.q, whole.q[:, 4:])
    assert_array_equal(rest.sum, whole.sum)


def test_one_path_for_all_rollouts_and_float32(model):
    q, v, _, goal = arrays_of(model)
    policy = policy_of(model, 2)
    each = np.broadcast_to(goal[0], goal.shape)
    run = lambda goal, kind: model.rollout_with(
        policy,
        *(q.astype(kind), v.astype(kind), DT, STEPS),
        parameters={"gain": 1.0},
        references={"goal": goal.astype(kind)},
    )
    wanted = run(each, np.float64)
    assert_array_equal(run(goal[0], np.float64).q, wanted.q)
    single = run(goal[0], np.float32)
    assert single.sum.dtype == np.float32
    assert_allclose(single.q, wanted.q, atol=1e-4)


def test_rollouts_of_laws_in_traces(model):
    """On traced scalars, with the same numbers."""
    q, v, _, goal = arrays_of(model)
    policy = policy_of(model, 3)

    def last(v, goal):
        given = {"parameters": {"gain": 0.7}, "references": {"goal": goal}}
        moved = model.rollout_with(policy, q[0], v, DT, 4, **given, every=2)
        return {"v": moved.v[-1], "sum": moved.sum, "tau": moved.tau}

    found = fl.compile(last, {"v": model.nv, "goal": (4, model.nv)})(v[0], goal[0, :4])
    wanted = last(v[0], goal[0, :4])
    for x, y in zip(found, wanted.values(), strict=True):
        assert_allclose(x, y, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("hold", "every"), repeated([(3, 2), (1, 1), (2, 4)]))
@pytest.mark.parametrize("wrt", [("q", "v", "dt", "gain", "goal", "sum"), ("gain", "goal")])
def test_derivatives_by_all_arrays(model, hold, every, wrt):
    """Forwards against differences, backwards as the transpose of forwards."""
    policy, steps = policy_of(model, hold), 4
    variant = Variant(
        "rollout_with", integrator="semi_implicit", steps=steps, every=every, policy=policy
    )
    rollout = Operation(model, variant)
    run, rng = function_of(rollout), np.random.default_rng(4)
    inputs = {x: rng.normal(size=(BATCH, *shape)) for x, shape in run.inputs.items()}
    inputs |= {"q": model.random_configuration(BATCH, seed=1), "dt": np.full(BATCH, 0.02)}
    moves = {x: rng.normal(size=inputs[x].shape) for x in wrt}
    along = function_of(rollout.tangents(wrt))(*inputs.values(), *moves.values())
    h = 1e-5
    ends = [run(*(x + s * h * moves.get(k, 0) for k, x in inputs.items())) for s in (1, -1)]
    for found, high, low in zip(along, *ends, strict=True):
        assert_allclose(found, (high - low) / (2 * h), rtol=1e-6, atol=1e-7)
    weights = [rng.normal(size=x.shape) for x in along]
    back = function_of(rollout.adjoints(wrt))(*inputs.values(), *weights)
    product = lambda xs, ys: sum(np.sum(x * y) for x, y in zip(xs, ys, strict=True))
    assert_allclose(product(along, weights), product(back, moves.values()), rtol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"memory": {"sum": 7}, "hold": 0},
            ValueError,
            "hold is 0: wanted a whole number, 1 or more",
        ),
        ({"memory": {"tau": 2}}, ValueError, "memory has 'tau': wanted a name other than"),
        (
            {"function": lambda q, v, t, sum: (v, {"sum": sum[:3]}), "memory": {"sum": 7}},
            ValueError,
            r"returns 'sum' of shape \(3,\): wanted \(7,\)",
        ),
        (
            {"parameters": {"sum": 7}, "memory": {"sum": 7}},
            ValueError,
            "memory has 'sum', which has another meaning",
        ),
        (
            {"function": lambda q, v, t, sum: v + sum, "memory": {"sum": 7}},
            TypeError,
            r"has memory and returns .*: wanted \(controls, {'sum': ...}\)",
        ),
        (
            {"function": lambda q, v, t, sum: (v, {"total": sum}), "memory": {"sum": 7}},
            ValueError,
            "returns memory total: wanted",
        ),
    ],
)
def test_laws_that_are_refused(model, arguments, error, message):
    run = lambda q, v, t, sum: (v, {"sum": sum + v})
    with pytest.raises(error, match=message):
        model.policy(**{"function": run, **arguments})


def test_arrays_of_a_policy_that_are_refused(model):
    q, v, gain, goal = arrays_of(model)
    policy = policy_of(model, 1)
    given = {"parameters": {"gain": gain}}
    with pytest.raises(TypeError, match="references has goals: wanted goal; did you mean 'goal'"):
        model.rollout_with(policy, q, v, DT, STEPS, **given, references={"goals": goal})
    with pytest.raises(ValueError, match=rf"goal has shape .*, wanted \(..., 3, {model.nv}\)"):
        model.rollout_with(policy, q, v, DT, 3, **given, references={"goal": goal})
    policy = model.policy(lambda q, v, t, gravity: v * gravity, {"gravity": ()})
    moved = lambda **options: model.rollout_with(
        policy, q, v, DT, 3, parameters={"gravity": 0.5}, **options
    )
    assert moved().q.shape == (BATCH, 4, model.nq)
    with pytest.raises(ValueError, match="has an array 'gravity', which is another input"):
        moved(params={"gravity": np.zeros(3)})


def test_arrays_named_like_inputs_of_constraints_are_refused():
    model = fl.load("double_pendulum")
    held = model.constraints([fl.Rod(model.frame_names[-1], model.frame_names[0], 0.3)])
    policy = model.policy(lambda q, v, t, kp: -kp * v, {"kp": ()})
    moved = model.rollout_with(policy, [0.1, 0.2], [0, 0], 1e-3, 3, parameters={"kp": 0.01})
    assert moved.q.shape == (4, 2)
    inputs = ConstraintInputs(held, kp=True)
    variant = Variant("rollout_with", integrator="euler", steps=3, policy=policy)
    with pytest.raises(ValueError, match="has an array 'kp', which is another input"):
        check_variant(model, variant._replace(constraints=inputs))
