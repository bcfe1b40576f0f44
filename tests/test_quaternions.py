"""Quaternions of any length: the same bits where |q|^2 is a number of the dtype, NaN elsewhere."""

import re

import numpy as np
import pytest

import featherlane as fl
from featherlane.robot.quaternions import quaternion_rotation

ORDINARY = {np.float64: (-500, -60, 3, 500), np.float32: (-60, -7, 3, 60)}
LOST = {np.float64: (-1060, -560, -540, 513, 1020), np.float32: (-140, -80, -70, 65, 124)}
DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@pytest.fixture(scope="module")
def robot():
    """A free root and a ball joint: quaternions at 3 and 7 of q."""
    builder = fl.ModelBuilder("two quaternions")
    builder.link("world")
    builder.link("trunk", mass=2.0, com=(0.1, 0.2, 0.3), inertia=np.diag([1, 2, 2.5]))
    builder.link("arm", mass=1.0, com=(0.0, 0.1, 0.4), inertia=np.diag([0.2, 0.3, 0.4]))
    builder.joint("root", "free", "world", "trunk")
    builder.joint("ball", "spherical", "trunk", "arm", xyz=(0.0, 0.0, 0.5))
    return builder.build()


def state(robot, dtype, batch=7):
    rng = np.random.default_rng(0)
    q = robot.random_configuration(batch, seed=rng)
    return [x.astype(dtype) for x in (q, *rng.normal(size=(2, batch, robot.nv)))]


def stretched(q, first, power):
    """q with one of its quaternions times a power of two."""
    q = q.copy()
    q[..., first : first + 4] = np.ldexp(q[..., first : first + 4], power)
    return q


def turning(robot, v, a):
    """Functions of q that depend on both orientations."""
    return [
        lambda q: robot.inverse_dynamics(q, v, a),
        lambda q: robot.forward_dynamics(q, v, a),
        lambda q: robot.forward_dynamics(q[0], v[0], a[0]),
        lambda q: robot.frame_placement(q, "arm")[..., :3, :],
        lambda q: robot.forward_dynamics(q, v, a, method="dca"),
    ]


@DTYPES
@pytest.mark.parametrize("first", [3, 7])
def test_dynamics_do_not_depend_on_the_length(robot, dtype, first):
    q, v, a = state(robot, dtype)
    for power in ORDINARY[dtype]:
        for function in turning(robot, v, a):
            assert np.array_equal(function(stretched(q, first, power)), function(q))


@DTYPES
@pytest.mark.parametrize("first", [3, 7])
def test_a_square_that_is_no_number_gives_nan(robot, dtype, first):
    q, v, a = state(robot, dtype)
    for lost in (stretched(q, first, power) for power in LOST[dtype]):
        for function in turning(robot, v, a):
            assert np.isnan(function(lost)).any(-1).all()
        alone = lost.copy()
        alone[1:] = q[1:]  # the first state is lost, the others are what they were
        tau = robot.inverse_dynamics(alone, v, a)
        assert np.isnan(tau[0]).any()
        assert np.array_equal(tau[1:], robot.inverse_dynamics(q, v, a)[1:])


@DTYPES
def test_zeros_in_later_states_give_nan(robot, dtype):
    q, v, a = state(robot, dtype)
    q[2, 3:7] = q[4, 7:11] = 0
    tau = robot.inverse_dynamics(q, v, a)
    assert np.isnan(tau).any(-1).tolist() == [False, False, True, False, True, False, False]


@DTYPES
def test_zeros_in_the_first_state_are_refused(robot, dtype):
    """By machine code as by Python: before a function is compiled and after it."""
    q, v, a = state(robot, dtype)
    zeros, told = np.zeros_like(q), r"quaternion of length 0 in entries 3 to 6, wanted .*neutral"
    tau = np.empty_like(v)
    for _ in range(2):
        for wrong, name in ((zeros, "q[0]"), (zeros[0], "q"), (zeros[None], "q[0, 0]")):
            with pytest.raises(ValueError, match=re.escape(name) + " has a " + told):
                robot.inverse_dynamics(wrong, v[0], a[0])
        for call in (
            lambda: robot.forward_dynamics(zeros, v, a, out=tau),
            lambda: robot.inverse_dynamics(zeros[0].tolist(), v[0], a[0]),
            lambda: robot.inverse_dynamics(v=v, a=a, q=zeros, threads=1),
            lambda: robot.step(zeros, v, a, 0.01),
            lambda: robot.rollout(zeros, v, np.zeros((7, 3, robot.nv), dtype), 0.01),
            lambda: robot.frame_placement(zeros, "arm"),
            lambda: robot.function("mass_matrix")(zeros),
        ):
            with pytest.raises(ValueError, match=told):
                call()
        for right in (robot.neutral(), np.where(zeros == 0, 1e-3, q).astype(dtype)):
            assert np.isfinite(robot.inverse_dynamics(right.astype(dtype), v[0], a[0])).all()
    assert robot.inverse_dynamics(zeros[:0], v[:0], a[:0]).shape == (0, robot.nv)


@DTYPES
def test_the_turn_of_a_lost_quaternion_is_not_a_number(dtype):
    """Of none of its entries: neither one nor infinity."""
    rotation = fl.compile(lambda q: quaternion_rotation(*q).rows, {"q": 4})
    q = np.array([[1, 2, 3, 4], [0, 0, 0, 1], [0, 0, 0, 0]], dtype)
    assert np.isfinite(rotation(q)[:2]).all()
    assert np.isnan(rotation(q)[2]).all()
    for power in LOST[dtype]:
        assert np.isnan(rotation(np.ldexp(q, power))).all()
    assert np.isnan(rotation(np.array([0, 0, np.inf, 1], dtype))).all()


@DTYPES
@pytest.mark.filterwarnings("error")
def test_configurations_take_any_length(robot, dtype):
    q0, v, _ = state(robot, dtype)
    q1 = robot.integrate(q0, v)
    mujoco = fl.convert.mujoco(robot)
    for power in (*ORDINARY[dtype], *LOST[dtype][1:]):
        for first in (3, 7):
            q = stretched(q0, first, power)
            assert np.array_equal(mujoco.to_q(q), mujoco.to_q(q0))
            if power in LOST[dtype]:
                assert np.isnan(robot.integrate(q, v)).any(-1).all()
                assert np.isnan(robot.difference(q, q1)).any(-1).all()
                continue
            assert np.array_equal(robot.integrate(q, v), q1)
            assert np.array_equal(robot.difference(q, q1), robot.difference(q0, q1))
            assert np.array_equal(robot.difference(q1, q), robot.difference(q1, q0))
    q0[1:, 3:7] = 0
    for lost in (robot.integrate(q0, v)[1:, 3:7], robot.difference(q0, q1)[1:, 3:6]):
        assert np.isnan(lost).all()
    assert np.isnan(mujoco.to_q(q0)[1:, 3:7]).all()


def test_a_joint_is_locked_at_any_length(robot):
    turn = np.array([1.0, 2.0, 3.0, 4.0])
    locked = robot.reduced({"ball": turn})
    for power in (-1000, 600, 1020):
        assert robot.reduced({"ball": np.ldexp(turn, power)}) == locked


def test_another_root_takes_any_length(pendulum):
    change = fl.editing.rerooting(pendulum, pendulum.body_names[-1])
    q = pendulum.random_configuration(5, seed=0)
    there = change.to(q).q
    for power in (-600, 600, 1020):
        assert np.array_equal(change.to(stretched(q, 3, power)).q, there)
        longer = stretched(there, 3, power)
        assert np.array_equal(change.back(longer).q, change.back(there).q)
