"""Loops of MJCF files against MuJoCo: its rows of J and its residuals of equalities.

MuJoCo writes them in the axes of the world, featherlane in those of `to`. Where a loop is open, the
derivative of the error in turning axes has a further term, and MuJoCo's rotations are those of the
vector of a quaternion (docs/constraints.md).
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import featherlane as fl
from featherlane.algorithms.soft.dynamics import soft_forward_dynamics
from featherlane.algorithms.soft.equalities import soft_equality
from featherlane.algorithms.soft.inverse_weights import inverse_weights
from featherlane.algorithms.soft.softness import Softness
from featherlane.robot.tree_of import tree_of

mujoco = pytest.importorskip("mujoco")

GEOM = '<geom type="box" size=".05 .04 .1" pos=".02 .01 .1"/>'
FOUR_BAR = """
<body name="crank"><joint name="a" axis="0 1 0"/>{g}
  <body name="coupler" pos="0 0 .3" euler="0 90 0"><joint name="b" axis="0 1 0" ref="10"/>{g}</body>
</body>
<body name="rocker" pos=".4 .02 0"><joint name="c" axis="0 1 0" pos="0 0 -.05"/>{g}</body>
"""
FLOATING = """
<body name="base" pos="0 0 1" euler="10 20 30"><freejoint/>{g}
  <site name="hook" pos=".1 -.2 .3" euler="40 10 -20"/>
  <body name="left" pos=".2 0 0"><joint name="l" type="ball" pos="0 .1 0"/>{g}
    <site name="eye" pos="-.1 .2 .1" euler="0 20 70"/></body>
  <body name="right" pos="-.2 .1 0" euler="30 0 0"><joint name="s" type="slide" axis="1 1 0"/>
    <joint name="r" axis="0 0 1"/>{g}</body>
</body>
"""
COUPLED = """
<body name="x"><joint name="x" ref="20" axis="0 1 0"/>{g}
  <body name="y" pos="0 0 .2"><joint name="y" ref="-30" axis="1 0 0"/>{g}
    <body name="z" pos="0 0 .2"><joint name="z" type="slide" ref=".1"/>{g}
      <body name="w" pos="0 .1 0"><joint name="w" axis="1 0 0" ref="5"/>{g}</body></body></body>
</body>
"""
MODELS = {
    "four-bar, connect": (
        FOUR_BAR,
        '<connect name="pin" body1="coupler" body2="rocker" anchor=".3 .1 0"/>',
    ),
    "connects of sites and of the world": (
        FLOATING,
        '<connect site1="hook" site2="eye"/><connect body1="right" anchor=".1 .2 .3"/>',
    ),
    "welds": (
        FLOATING,
        '<weld name="as placed" body1="left" body2="right" torquescale=".7"/>'
        '<weld body1="right" body2="left" relpose=".1 .2 .3 .9 .2 -.1 .3" anchor=".2 .1 .1"/>'
        '<weld site1="eye" site2="hook"/><weld body1="base"/>',
    ),
    "polynomials of joints": (
        COUPLED,
        '<joint joint1="z" joint2="y" polycoef=".1 .2 -.3 .4 .05"/>'
        '<joint joint1="w" joint2="x" polycoef="0 1 .5 0 0"/>',
    ),
}


def text_of(name):
    bodies, equalities = MODELS[name]
    flags = '<option jacobian="dense"><flag contact="disable"/></option>'
    tree = f"<worldbody>{bodies.format(g=GEOM)}</worldbody>"
    return f"<mujoco>{flags}{tree}<equality>{equalities}</equality></mujoco>"


def peer_rows(m, model, q):
    """MuJoCo's rows, for the velocities of featherlane, and residuals of each equality."""
    d = mujoco.MjData(m)
    d.qpos[:] = fl.convert.to_mujoco(model, q).q
    mujoco.mj_forward(m, d)
    unit = fl.convert.to_mujoco(model, q, v=np.eye(model.nv)).v.T
    J = d.efc_J.reshape(-1, m.nv) @ unit
    kind = int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    rows = [(d.efc_type == kind) & (d.efc_id == i) for i in range(m.neq)]
    return [(J[at], d.efc_pos[at]) for at in rows]


def skew(x):
    return np.cross(np.eye(3), x)


def as_mujoco(model, q, i, torquescale):
    """Rows and errors of a loop in MuJoCo's terms."""
    loops, item = model.loops, model.loops.items[i]
    rows = loops.entries(i)
    J = model.constraint_jacobian(q, loops)[rows]
    error = model.constraint_error(q, loops)[rows]
    if isinstance(item, fl.Coupling):
        return J, error
    R = model.frame_placement(q, item.to)[:3, :3]
    turning = model.jacobian(q, item.to, "world")[3:]
    linear, p = R @ J[:3], R @ error[:3]
    linear = linear - skew(p) @ turning  # d(R e)/dt = R de/dt + w x R e
    if isinstance(item, fl.Pin):
        return linear, p
    vector = error[3:] / 2
    cosine = np.sqrt(1 - vector @ vector)
    angular = 0.5 * torquescale * (cosine * np.eye(3) - skew(vector)) @ J[3:]
    return np.vstack([linear, angular]), np.concatenate([p, torquescale * vector])


@pytest.mark.parametrize("name", MODELS)
def test_rows_and_residuals_are_those_of_mujoco(name):
    text = text_of(name)
    m, model = mujoco.MjModel.from_xml_string(text), fl.load(text, loops="keep")
    assert model.loops.count == m.neq
    for q in model.random_configuration(5, seed=2):
        for i, (J, error) in enumerate(peer_rows(m, model, q)):
            scale = m.eq_data[i][10]
            ours = as_mujoco(model, q, i, scale)
            if len(error) == 6 and error[3:] @ ours[1][3:] < 0:  # the other quaternion
                J, error = np.vstack([J[:3], -J[3:]]), np.concatenate([error[:3], -error[3:]])
            assert_allclose(ours[1], error, atol=1e-12)
            assert_allclose(ours[0], J, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_soft_loops_accelerate_as_in_mujoco(name):
    m, model = mujoco.MjModel.from_xml_string(text_of(name)), fl.load(text_of(name), loops="keep")
    rng, q = np.random.default_rng(5), model.random_configuration(20, seed=2)
    v, tau = rng.normal(size=(2, 20, model.nv))
    change = fl.convert.mujoco(model)
    there = change.to(q, v=v, tau=tau)
    d, expected = mujoco.MjData(m), np.empty_like(v)
    for i in range(len(q)):
        d.qpos[:], d.qvel[:], d.qfrc_applied[:] = there.q[i], there.v[i], there.tau[i]
        mujoco.mj_forward(m, d)
        expected[i] = d.qacc
    expected = change.back(there.q, v=there.v, a=expected).a
    weights = inverse_weights(model, change.back(m.qpos0).q.tolist())
    scales = np.where(m.eq_type == int(mujoco.mjtEq.mjEQ_WELD), m.eq_data[:, 10], 1.0)
    tree, state = tree_of(model), ([*q.T], [*v.T], [*tau.T])
    fixed = weights, Softness(), m.opt.timestep
    rows = [
        constraint
        for place, scale in zip(model.loops.places, scales, strict=True)
        for constraint in soft_equality(tree, *state[:2], place, *fixed, float(scale))
    ]
    a, _, residual = soft_forward_dynamics(tree, *state, rows, 1)
    assert_allclose(np.transpose(a), expected, rtol=1e-9, atol=1e-9)
    assert residual.max() < 1e-9


def test_rows_of_closed_loops_are_those_of_mujoco_in_the_axes_of_the_other_frame():
    text = text_of("four-bar, connect")
    m, model = mujoco.MjModel.from_xml_string(text), fl.load(text, loops="keep")
    closed = model.close(model.random_configuration(20, seed=3), model.loops)
    assert closed.converged.sum() > 5
    for q in closed.q[closed.converged]:
        ((J, error),) = peer_rows(m, model, q)
        R = model.frame_placement(q, "pin/rocker")[:3, :3]
        assert_allclose(R @ model.constraint_jacobian(q, model.loops), J, atol=1e-8)
        assert_allclose(error, 0, atol=1e-8)


def test_accelerations_are_those_of_stiff_equalities():
    """MuJoCo's equalities are soft; the stiffer they are, the nearer its accelerations."""
    text = text_of("four-bar, connect")
    model = fl.load(text, loops="keep")
    q = model.close(np.array([0.3, 0.4, 0.1]), model.loops).q
    tau = np.array([1.0, -0.5, 0.2])
    a, _ = model.constrained_forward_dynamics(q, 0 * tau, tau, model.loops)
    errors = []
    for width in (0.9, 0.999, 0.99999):
        soft = text.replace("<connect ", f'<connect solimp="{width} {width} .001" ')
        m = mujoco.MjModel.from_xml_string(soft)
        d = mujoco.MjData(m)
        d.qpos[:], d.qfrc_applied[:] = fl.convert.to_mujoco(model, q).q, tau
        mujoco.mj_forward(m, d)
        errors.append(np.abs(d.qacc - a).max() / np.abs(a).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3
