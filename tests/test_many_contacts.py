"""Steps with many contacts, whose sweeps go without the Delassus matrix and are a loop."""

from functools import cache

import gpu_emulator
import numpy as np
import pytest
from ground_robots import DT, STANCE, biped, block, quadruped, standing
from numpy.testing import assert_allclose, assert_array_equal
from repetition import full, repeated
from test_backend import same_bits

import featherlane as fl
from featherlane.algorithms import many_contacts
from featherlane.algorithms.ground_steps import damped_ground_step
from featherlane.algorithms.mean_accelerations import mean_acceleration
from featherlane.backends import dual
from featherlane.functions import sequences
from featherlane.functions.gpu import source_of
from featherlane.functions.ground_inputs import GroundInputs
from featherlane.functions.table import Variant
from featherlane.program.plan import Composite
from featherlane.robot.tree_of import tree_of

GROUND = fl.Ground(friction=0.7)
LAW = fl.Coulomb(restitution=0.2)


@cache
def robot(thighs=4):
    """A quadruped with a box as its trunk, and with capsules along its thighs."""
    legs = ("FL", "FR", "RL", "RR")[:thighs]
    at = fl.Placement.of(np.eye(3), (0, 0, -0.1))
    shapes = {f"{x}_thigh": fl.CollisionShape(f"{x}_thigh", "capsule", (0.03, 0.08), placement=at)
              for x in legs}  # fmt: skip
    box = fl.CollisionShape("trunk", "box", (0.25, 0.08, 0.05))
    return quadruped().with_collision_shapes(shapes | {"trunk": box})


def states(n):
    """States in which some feet touch, and others with thighs and trunk in the ground."""
    q, v = standing(n)
    q[::2, 2] -= 0.3
    return q, v


@pytest.mark.parametrize("law", [
    LAW, fl.Coulomb(limits=True, friction_loss=True)
], ids=["contacts", "joints"])  # fmt: skip
def test_steps_are_those_with_the_delassus_matrix(law, monkeypatch):
    q, v = states(4)
    warm = robot().step(q, v, 0 * v, DT, ground=fl.Ground(), law=law)
    parameters = {"impulse": 0.5 * warm.impulse}
    fast = robot().step(q, v, 0 * v, DT, ground=fl.Ground(), law=law, ground_params=parameters)
    assert (fast.contact_force[:, :, 2] > 0).any(1).all()
    monkeypatch.setattr(many_contacts, "LONG", np.inf)
    for k in range(4):
        scene = GroundInputs(fl.Ground(), law).scene(robot(), impulse=parameters["impulse"][k])
        step = damped_ground_step(tree_of(robot()), q[k], v[k], 0 * v[k], DT, scene=scene)
        a = mean_acceleration(tree_of(robot()), v[k], step.a, DT)
        assert_allclose(v[k] + DT * np.array(a), fast.v[k], atol=1e-9)
        assert_allclose(step.impulse, fast.impulse[k], atol=1e-9)
        assert_allclose(step.residual, fast.residual[k], atol=1e-9)


def test_rollouts_repeat_steps():
    """With a feedback law that reads forces of the step before."""
    (q, v), model, ground = states(3), robot(), fl.Ground()
    sensors = model.sensors(lambda s: {"weight": s.contact_force[:, 2].sum()}, ground)
    policy = model.policy(
        lambda q, v, t, weight: np.append(np.zeros(6), 20 * (STANCE - q[7:]) - 0.01 * weight),
        sensors={"weight": ()},
    )
    run = model.rollout_with(policy, q, v, DT, 3, ground=ground, law=LAW, sensors=sensors)
    impulse, weight = np.zeros_like(run.impulse), np.zeros(3)
    for k in range(3):
        tau = np.hstack([np.zeros((3, 6)), 20 * (STANCE - q[:, 7:]) - 0.01 * weight[:, None]])
        step = model.step(q, v, tau, DT, ground=ground, law=LAW, ground_params={"impulse": impulse})
        assert_allclose(run.q[:, k + 1], step.q, atol=1e-12)
        q, v, impulse = step.q, step.v, step.impulse
        weight = step.contact_force[..., 2].sum(-1)
        assert_allclose(run.weight[:, k], weight, rtol=1e-9)
    assert_allclose(run.impulse, impulse, atol=1e-12)
    assert weight.all()


@pytest.mark.parametrize("dtype", repeated([np.float64, np.float32]))
def test_one_state_has_the_bits_of_a_batch(dtype):
    q, v = (x.astype(dtype) for x in states(5))
    many = robot().step(q, v, 0 * v, DT, ground=fl.Ground(), law=LAW)
    for k in range(2):
        one = robot().step(q[k], v[k], 0 * v[k], DT, ground=fl.Ground(), law=LAW)
        assert_array_equal(one.v, many.v[k])
        assert_array_equal(one.contact_force, many.contact_force[k])


def nodes(source):
    """The nodes of all graphs of a program or plan."""
    if isinstance(source, Composite):
        return sum(map(nodes, source.pieces))
    return sum(map(len, source.graphs))


def test_code_grows_with_the_number_of_contacts():
    """And not with its square. 41 is prime: a piece of code has one sweep."""
    ground = GroundInputs(fl.Ground(), fl.Coulomb(sweeps=41))
    step = Variant("step", ground=ground)
    plain, more = robot(thighs=2), robot()
    longer = nodes(source_of(more, step)) - nodes(source_of(plain, step))
    assert 0 < longer < 4 * 1200
    assert nodes(source_of(more, step)) < 16 * 1200


@pytest.mark.parametrize("law", [
    fl.Coulomb(sweeps=30), fl.Coulomb(sweeps=30, limits=True, friction_loss=True),
    fl.Coulomb(sweeps=8, restitution=0.9),
], ids=["contacts", "joints", "restitution"])  # fmt: skip
def test_derivatives_in_loops_are_those_in_one_piece(law, monkeypatch):
    """Of a block on eight points, half of them redundant, and of a robot on two feet."""
    box = fl.CollisionShape("block", "box", (0.2, 0.1, 0.05))
    on_points = block().with_collision_shapes({"block": box})
    model, options = on_points if not law.limits else biped(), {"ground": GROUND, "law": law}
    q, v = standing(8, model=biped())
    if not law.limits:
        q, v = q[:, :7], v[:, :6]
        q[:, 2] = 0.05 - np.linspace(0, 0.004, 8)
    state, moves = (q, 0.2 * v, 0 * v, np.full(8, DT)), (v, 0.5 * v, v)
    values = dict(zip(("q", "v", "tau", "dt"), state, strict=True))
    plain, _ = dual.evaluate(model.graph("linearize_step", **options), values, {})
    monkeypatch.setattr(sequences, "IN_ONE_PIECE", 0)
    monkeypatch.setattr(many_contacts, "LONG", 0)
    step = model.step(*state, **options)
    assert (step.contact_force[..., 2] > 0).any()
    looped = model.linearize_step(*state, **options)
    for x, y in ((looped.A, plain["A"]), (looped.B, plain["B"])):
        assert_allclose(x, y, atol=1e-8 * np.abs(y).max())
    both = np.concatenate([looped.A, looped.B], -1)
    along = np.hstack(model.step_jvp(*state, *moves, **options))
    assert_allclose(along, np.einsum("nij,nj->ni", both, np.hstack(moves)), atol=1e-9)
    back = np.hstack(model.step_vjp(*state, *moves[:2], **options))
    expected = np.einsum("nij,ni->nj", both, np.hstack(moves[:2]))
    assert_allclose(back, expected, atol=1e-9 * np.abs(expected).max())


@full
def test_bits_on_gpus():
    function = robot().function("rollout", ground=fl.Ground(), steps=2)
    kernels = function.gpu.kernels("lanes", "f", np.dtype(np.float32))
    q, v = states(33)
    inputs = {"q": q, "v": v, "tau": np.zeros((33, 2, 14)), "dt": np.full(33, DT)}
    inputs = {name: x.astype(np.float32) for name, x in inputs.items()}
    results = gpu_emulator.run(kernels, inputs, np.dtype(np.float32))
    for x, y in zip(results.values(), function(*inputs.values()), strict=True):
        same_bits(x, y)
