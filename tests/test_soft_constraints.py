"""Soft constraints against MuJoCo's accelerations, whose solver is converged, and its arrays."""

import numpy as np
import pytest
import soft_scenes
from numpy.testing import assert_allclose
from soft_scenes import Softness, g1, hyq

import featherlane as fl
from featherlane.algorithms.soft import joints, potentials
from featherlane.algorithms.soft.dynamics import soft_forward_dynamics
from featherlane.algorithms.soft.inverse_weights import inverse_weights

mujoco = pytest.importorskip("mujoco")

STIFF = Softness((-4000.0, -60.0), (0.8, 0.97, 0.004, 0.3, 3.0))
OTHER = Softness((0.05, 0.7), (0.5, 0.99, 0.01, 0.6, 2.5))
SCENES = [
    (hyq, {"cone": "elliptic"}),
    (hyq, {"cone": "pyramidal"}),
    (hyq, {"cone": "elliptic", "condim": 6, "softness": OTHER}),
    (hyq, {"cone": "pyramidal", "condim": 6, "impratio": 10.0}),
    (hyq, {"cone": "elliptic", "condim": 4, "impratio": 10.0, "softness": STIFF}),
    (hyq, {"cone": "pyramidal", "condim": 4, "softness": STIFF}),
    (hyq, {"condim": 1}),
    (g1, {"cone": "elliptic"}),
    (g1, {"cone": "pyramidal"}),
]


@pytest.mark.parametrize(("robot", "options"), SCENES)
def test_accelerations_are_those_of_mujoco(robot, options):
    s = soft_scenes.scene(robot(), **options)
    q, v, tau = soft_scenes.states(s, 100)
    a, residual = soft_scenes.solved(s, q, v, tau, 16)
    errors = soft_scenes.relative_errors(a, soft_scenes.accelerations(s, q, v, tau))
    assert np.quantile(errors, 0.99) < 1e-9
    assert (residual[errors < 1e-9] < 1e-3).all()
    assert np.median(residual) < 1e-10
    untouched, _ = soft_scenes.solved(s, q + np.eye(q.shape[1])[2], v, tau, 2)
    assert (soft_scenes.relative_errors(a, untouched) > 1e-3).mean() > 0.8, "most have forces"


def test_margins_count():
    s = soft_scenes.scene(hyq(), margin=0.01)
    q, v, tau = soft_scenes.states(s, 50)
    q[:, 2] += 0.005
    expected = soft_scenes.accelerations(s, q, v, tau)
    a, _ = soft_scenes.solved(s, q, v, tau, 10, margin=0.01)
    assert soft_scenes.relative_errors(a, expected).max() < 1e-9


def test_the_residual_tells_of_states_that_are_not_solved():
    s = soft_scenes.scene(hyq())
    q, v, tau = soft_scenes.states(s, 100)
    expected = soft_scenes.accelerations(s, q, v, tau)
    a, residual = soft_scenes.solved(s, q, v, tau, 2)
    errors = soft_scenes.relative_errors(a, expected)
    assert (errors > 1e-4).any()
    assert residual[errors > 1e-4].min() > 10 * residual[errors < 1e-12].max()


JOINTS = """
<mujoco><option timestep=".004" tolerance="0" iterations="100"/>
<compiler angle="radian" autolimits="true"/>
<default><joint solreflimit=".03 .8" solimplimit=".7 .9 .05 .5 2" solreffriction=".01 1.2"
    solimpfriction=".8 .95 .01 .4 1.5"/></default>
<worldbody><body pos="0 0 1"><joint name="a" axis="0 1 0" range="-.3 .4" frictionloss=".5"/>
  <geom size=".05 .2" type="capsule"/>
  <body pos="0 0 .4"><joint name="b" type="slide" axis="1 0 .2" range="-.1 .1"/>
    <geom size=".05 .1" type="capsule" euler="1 0 0" contype="0" conaffinity="0"/>
    <body pos=".1 0 .2"><joint name="c" axis="1 0 0" frictionloss="2" armature=".01"/>
      <geom size=".05 .2 .1" type="box" pos="0 .1 0" contype="0" conaffinity="0"/>
</body></body></body></worldbody></mujoco>
"""
LIMITS = Softness((0.03, 0.8), (0.7, 0.9, 0.05, 0.5, 2.0))
DRY = Softness((0.01, 1.2), (0.8, 0.95, 0.01, 0.4, 1.5))


def test_limits_and_dry_friction_are_those_of_mujoco():
    peer, model = mujoco.MjModel.from_xml_string(JOINTS), fl.load(JOINTS)
    rng, d = np.random.default_rng(3), mujoco.MjData(peer)
    q, v, tau = rng.normal(size=(3, 200, 3)) * [[[0.3, 0.1, 1]], [[1, 1, 1]], [[5, 5, 5]]]
    v[::2] *= 0.01
    expected = np.empty_like(q)
    for i in range(len(q)):
        d.qpos[:], d.qvel[:], d.qfrc_applied[:] = q[i], v[i], tau[i]
        mujoco.mj_forward(peer, d)
        expected[i] = d.qacc
    weights = inverse_weights(model).freedoms
    assert_allclose(weights, peer.dof_invweight0)
    state = [*q.T], [*v.T], [*tau.T]
    rows = [
        joints.soft_limit(k, q[:, k], v[:, k], ends, weights[k], LIMITS, peer.opt.timestep)
        for k, ends in ((0, (-0.3, 0.4)), (1, (-0.1, 0.1)))
    ] + [
        joints.dry_friction(k, v[:, k], most, weights[k], DRY, peer.opt.timestep)
        for k, most in ((0, 0.5), (2, 2.0))
    ]
    a, forces, _ = soft_forward_dynamics(soft_scenes.smooth(model), *state, rows, 10)
    a = np.transpose(a)
    assert_allclose(a, expected, rtol=1e-9, atol=1e-9)
    kinds = [*forces[0], *forces[1], *forces[2], *forces[3]]
    assert all((np.abs(f) > 0).any() for f in kinds)
    assert 0.05 < (np.abs(forces[3][0]) == 2.0).mean() < 0.95, "some stick"


def test_a_limit_on_one_side():
    lower = joints.soft_limit(0, -0.1, 0.0, (0.0, np.inf), 1.0, Softness(), 0.001)
    upper = joints.soft_limit(0, 0.1, 0.0, (-np.inf, 0.0), 1.0, Softness(), 0.001)
    assert lower.potential.forces([0.5 - lower.reference[0]])[0] > 0
    assert lower.reference[0] == -upper.reference[0] > 0
    assert upper.potential.forces([0.5 - upper.reference[0]])[0] < 0
    away = joints.soft_limit(0, 0.1, 0.0, (0.0, np.inf), 1.0, Softness(), 0.001)
    assert away.potential.forces([-1e6])[0] == 0


POTENTIALS = [
    potentials.TwoSided(3.0),
    potentials.OneSided(3.0),
    potentials.OneSided(3.0, -1.0),
    potentials.DryFriction(3.0, 2.0),
    potentials.EllipticCone(3.0, 0.7),
    potentials.PyramidalCone(3.0, (0.7, 0.7)),
]


@pytest.mark.parametrize("potential", POTENTIALS, ids=lambda x: type(x).__name__)
def test_curvatures_are_those_of_the_forces(potential):
    n = 3 if hasattr(potential, "mu") else 1
    for y, d in np.random.default_rng(0).normal(size=(30, 2, n)) * 2:
        lower = potential.curvature([*y])
        C = np.array([[lower[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)])
        h = 1e-6 * np.eye(n)
        slope = [
            (np.subtract(potential.forces([*y - e]), potential.forces([*y + e]))) / 2e-6 for e in h
        ]
        assert_allclose(C, slope, atol=1e-7)
        along = -np.dot(potential.forces([*y]), d), d @ C @ d
        assert_allclose(potential.along([*y], [*d]), along, atol=1e-12, err_msg=str(y))


def test_the_impedance_is_that_of_the_documentation():
    s = Softness(solimp=(0.2, 0.8, 0.1, 0.3, 4.0))
    assert s.impedance(0.0) == 0.2
    assert s.impedance(-0.1) == s.impedance(7.0) == pytest.approx(0.8)
    assert s.impedance(-0.03) == pytest.approx(0.2 + 0.6 * 0.3)
    assert Softness(solimp=(0.2, 0.8, 0.0, 0.3, 4.0)).impedance(-1.0) == 0.5


@pytest.mark.parametrize("robot", [hyq, g1])
def test_inverse_weights_are_those_of_mujoco(robot):
    s = soft_scenes.scene(robot())
    weights = inverse_weights(s.robot.model)
    assert_allclose(weights.freedoms, s.peer.dof_invweight0, rtol=1e-10)
    assert_allclose(weights.bodies, s.peer.body_invweight0[1:], rtol=1e-10)
