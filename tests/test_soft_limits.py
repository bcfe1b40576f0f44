"""Soft stops at the limits of joints: their law, in all dynamics, and motions that meet them."""

import copy
from dataclasses import replace

import changes
import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose, assert_array_equal
from repetition import repeated

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.backends import dual

PENDULUM = """<robot name="pendulum"><link name="base"/><link name="bob">
  <inertial><origin xyz="0 0 -0.5"/><mass value="2"/>
  <inertia ixx="0.1" iyy="0.1" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="pivot" type="{type}"><parent link="base"/><child link="bob"/><axis xyz="0 1 0"/>
  <limit lower="-0.5" upper="0.8" velocity="9" effort="9"/></joint></robot>"""


def limited(model, seed=0):
    """The robot with limits about 0 and soft stops of random figures on joints of one freedom."""
    rng = np.random.default_rng(seed)

    def with_limits(joint):
        if joint.kind.nv != 1:
            return joint
        return replace(joint, lower=(rng.uniform(-0.6, -0.2),), upper=(rng.uniform(0.2, 0.6),))

    new = replace(model, joints=tuple(map(with_limits, model.joints)))
    stiffness, damping = rng.uniform(20, 60, (2, model.nv))
    for i in new.independent:
        if new.types[i].nv != 1:
            stiffness[new.dofs[i]] = damping[new.dofs[i]] = 0.0
    return new.with_soft_limits(stiffness, damping, width=0.2)


TREES = [
    limited(textbook.tree(("free", "revolute", "prismatic"), seed=1, physics=True)),
    limited(textbook.tree(("revolute", "prismatic", "helical", "revolute"), seed=2)),
    limited(textbook.tree(("spherical", "revolute", "revolute"), seed=3, mimic={2: 1})),
]
trees = pytest.mark.parametrize("model", TREES, ids=lambda m: "-".join(t.name for t in m.types))


@pytest.fixture(scope="module")
def pendulum():
    return fl.load(PENDULUM.format(type="revolute"), limits="soft")


def state(model, batch=12, seed=0):
    """Configurations of which most are beyond limits, some by less than the width."""
    rng = np.random.default_rng(seed)
    q = model.random_configuration(batch, seed=rng)
    for i in model.independent:
        if model.types[i].nv == 1:
            q[:, model.first_q[i]] = rng.uniform(-1.0, 1.0, batch)
    return q, *rng.normal(size=(2, batch, model.nv))


def stop_torque(model, q, v):
    """The torque that pushes the joints into their stops, joint by joint."""
    torque = np.zeros((len(q), model.nv))
    for i, joint in enumerate(model.joints):
        m, b = joint.mimic[1:] if joint.mimic else (1.0, 0.0)
        if not joint.limit_stiffness:
            continue
        K, d, w = joint.limit_stiffness, joint.limit_damping, joint.limit_width
        own, rate = m * q[:, model.first_q[i]] + b, m * v[:, model.first_v[i]]
        for sign, limit in ((-1, joint.lower[0]), (1, joint.upper[0])):
            x = sign * (own - limit)
            u = np.clip(x / w, 0, 1)
            force = np.where(x > w, K * (x - w / 2), K * np.maximum(x, 0) ** 2 / (2 * w))
            torque[:, model.first_v[i]] += m * (sign * force + d * u * u * (3 - 2 * u) * rate)
    return torque


@trees
def test_all_functions_of_the_dynamics_have_the_law(model):
    plain = model.with_soft_limits(stiffness=0, damping=0)
    assert not any(joint.limit_stiffness for joint in plain.joints)
    q, v, a = state(model)
    torque = stop_torque(model, q, v)
    assert (torque != 0).any(0)[-1]
    tau = plain.inverse_dynamics(q, v, a) + torque
    assert_allclose(model.inverse_dynamics(q, v, a), tau, rtol=1e-12, atol=1e-11)
    still = stop_torque(model, q, 0 * v)
    assert_allclose(model.gravity_torque(q), plain.gravity_torque(q) + still, atol=1e-11)
    assert_allclose(model.forward_dynamics(q, v, tau), a, rtol=1e-7, atol=1e-7)


@trees
def test_inside_the_limits_there_is_no_force_at_all(model):
    plain = model.with_soft_limits(stiffness=0, damping=0)
    _, v, a = state(model)
    q = model.random_configuration(len(v), seed=3)
    assert_array_equal(model.inverse_dynamics(q, v, a), plain.inverse_dynamics(q, v, a))
    assert_array_equal(model.potential_energy(q), plain.potential_energy(q))
    for x, y in zip(
        model.linearize_step(q, v, a, 0.002), plain.linearize_step(q, v, a, 0.002), strict=True
    ):
        assert_array_equal(x, y)


@trees
def test_derivatives_are_those_of_dual_numbers(model):
    q, v, tau = state(model)
    moves = np.random.default_rng(5).normal(size=(3, *v.shape))
    changes.assert_derivatives_of_dynamics(model, q, v, tau, moves)
    rate = textbook.times(textbook.tangent(model, q), moves[0])
    _, slope = dual.evaluate(model.graph("potential_energy"), {"q": q}, {"q": rate})
    wanted = np.sum(model.gravity_torque(q) * moves[0], -1)
    assert_allclose(slope["V"], wanted, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("model", "integrator"),
    repeated([*((TREES[n % 3], x) for n, x in enumerate(INTEGRATORS)),
              (TREES[1], "implicit_damping"), (TREES[2], "implicit_damping")], 5),
    ids=lambda x: x if isinstance(x, str) else x.types[0].name,
)  # fmt: skip
def test_a_and_b_are_those_of_dual_numbers(model, integrator):
    q, v, tau = state(model)
    moves = np.random.default_rng(5).normal(size=(3, *v.shape))
    end, wanted = changes.of_step(model, q, v, tau, 0.01, moves, integrator=integrator)
    linear = model.linearize_step(q, v, tau, 0.01, integrator=integrator)
    along = changes.by_matrices(linear, moves)
    assert_allclose(along, wanted, atol=1e-11 * np.abs(wanted).max())
    assert_allclose(linear.v, end["v_next"], atol=1e-12 * np.abs(end["v_next"]).max())


def test_all_algorithms_have_the_stops():
    model = TREES[1]
    q, v, tau = state(model)
    changes.assert_methods_agree(model, q, v, tau)


def test_long_robots_have_the_stops():
    model = limited(fl.random_tree(130, 1.0, ("revolute",), seed=1))
    plain = model.with_soft_limits(stiffness=0, damping=0)
    q, v, a = state(model, 2)
    a = 0.1 * a
    torque = stop_torque(model, q, v)
    tau = plain.inverse_dynamics(q, v, a) + torque
    assert_allclose(model.inverse_dynamics(q, v, a), tau, atol=1e-9 * np.abs(tau).max())
    found = model.inverse_dynamics_derivatives(q, v, a)
    wanted = plain.inverse_dynamics_derivatives(q, v, a)
    h = 1e-6
    for name, shift in (("dtau_dq", (h, 0)), ("dtau_dv", (0, h))):
        ahead, behind = (stop_torque(model, q + s * shift[0], v + s * shift[1]) for s in (1, -1))
        more = getattr(found, name) - getattr(wanted, name)
        slopes = np.diagonal(more, axis1=1, axis2=2)
        assert_allclose(slopes, (ahead - behind) / (2 * h), atol=1e-3)
        assert_allclose(more, [np.diag(x) for x in slopes], atol=1e-7)


@pytest.mark.parametrize("dt", [0.001, 0.005, 0.02])
def test_a_pendulum_stops_at_its_limit_and_rests_there(pendulum, dt):
    """At rest the stop's force is the weight's torque; nothing bounces back by much."""
    side = pendulum.with_gravity((9.81, 0.0, 0.0))  # pulls the bob to -pi / 2, beyond the limit
    moved = side.rollout([0.3], [-2.0], np.zeros((int(3 / dt), 1)), dt)
    lower, joint = side.position_limits.lower[0], side.joints[0]
    assert moved.q.min() > lower - 0.1
    rest = side.with_soft_limits(stiffness=0, damping=0).gravity_torque(moved.q[-1])
    depth = lower - moved.q[-1, 0]
    assert 0 < depth < joint.limit_width
    push = joint.limit_stiffness * depth**2 / (2 * joint.limit_width)
    assert push == pytest.approx(rest[0], rel=1e-6)
    assert abs(moved.v[-1, 0]) < 1e-8
    first = int(np.argmax(moved.q[:, 0] < lower))
    assert moved.v[first:].max() < 0.2 * np.abs(moved.v).max()


def test_a_robot_let_go_stays_within_its_limits():
    """For two seconds in steps of 5 ms; without stops it leaves them by radians."""
    soft, plain = (fl.load("iiwa14", limits=limits) for limits in ("soft", "ignored"))
    q = soft.random_configuration(50, seed=0)
    start = q, np.zeros((50, soft.nv)), np.zeros((50, 400, soft.nv)), 0.005
    lower, upper = soft.position_limits
    beyond = lambda model: np.maximum(lower - (r := model.rollout(*start).q), r - upper).max()
    assert 0 < beyond(soft) < 0.3
    assert beyond(plain) > 1.0


def test_stops_at_load_are_those_of_the_method_and_stay_with_edits():
    soft = fl.load("panda", limits="soft")
    assert soft == fl.load("panda").with_soft_limits()
    assert soft.fingerprint != fl.load("panda").fingerprint
    assert copy.deepcopy(soft) == soft
    name = soft.joint_names[1]
    reduced = soft.reduced({soft.joint_names[0]: 0.0})
    assert reduced.joint(name).limit_stiffness == soft.joint(name).limit_stiffness
    assert "soft stops" in str(soft)
    assert "pass through" in str(fl.load("panda"))
    slide = fl.load(PENDULUM.format(type="prismatic"), limits="soft")
    assert slide.joints[0].limit_width == 1e-3
    assert slide.joints[0].limit_stiffness == pytest.approx(2.0 * 1e4)


def test_what_stops_nothing_is_refused():
    with pytest.raises(ValueError, match="has limits of its position"):
        fl.load("double_pendulum").with_soft_limits()
    with pytest.raises(ValueError, match="limits is 'hard'"):
        fl.load("panda", limits="hard")
    free = fl.load("panda", root="free")
    with pytest.raises(ValueError, match="stiffness is not 0 for joint"):
        free.with_soft_limits(stiffness=np.ones(free.nv))
    with pytest.raises(ValueError, match="width is 0"):
        free.with_soft_limits(width=0.0)
    with pytest.raises(ValueError, match="width is 'wide'"):
        free.with_soft_limits(width="wide")
    with pytest.raises(TypeError, match="stiffness is 'hard': wanted numbers"):
        free.with_soft_limits(stiffness="hard")
    with pytest.raises(ValueError, match="damping has entries that are negative"):
        free.with_soft_limits(damping=-1.0)
    assert free.with_soft_limits(stiffness=3.0).joints[0].limit_stiffness == 0
