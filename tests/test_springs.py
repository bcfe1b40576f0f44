"""Springs of joints, stiffness and springref of MJCF: in all dynamics, beside MuJoCo."""

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
from featherlane.tools.check import check

XML = """<mujoco>{option}<worldbody><body pos="0 0 1">
  <joint name="a" axis="0 1 0" damping="0.3" stiffness="20" springref="0.4" ref="0.2"/>
  <inertial pos="0.1 0 0.2" mass="1.5" diaginertia="0.02 0.03 0.01"/>
  <body pos="0.2 0 0.4"><joint name="b" type="slide" axis="1 0 0" stiffness="300" damping="0.5"/>
    <inertial pos="0 0.1 0" mass="0.7" diaginertia="0.01 0.02 0.015"/>
    <body pos="0 0.3 0"><joint name="c" axis="0 0 1" springref="1"/>
      <inertial pos="0.1 0.05 0" mass="0.4" diaginertia="0.004 0.003 0.005"/></body>
    <body pos="0 -0.3 0"><joint name="d" axis="1 1 0" stiffness="5" springref="-90"/>
      <inertial pos="0.1 0.05 0" mass="0.5" diaginertia="0.004 0.003 0.005"/></body>
  </body></body></worldbody></mujoco>"""


def sprung(model, seed=0):
    """A robot with springs of random figures on all joints that may have one."""
    rng = np.random.default_rng(seed)

    def with_spring(joint):
        figures = rng.uniform(1.0, 20.0), rng.normal()
        spring = {"stiffness": figures[:1], "spring_reference": figures[1:]}
        return replace(joint, **spring) if joint.kind.nv == 1 else joint

    return replace(model, joints=tuple(map(with_spring, model.joints)))


TREES = [
    sprung(textbook.tree(("free", "revolute", "prismatic"), seed=1, physics=True)),
    sprung(textbook.tree(("revolute", "prismatic", "helical", "revolute"), seed=2, physics=True)),
    sprung(textbook.tree(("spherical", "revolute", "revolute"), seed=3, mimic={2: 1})),
    sprung(textbook.tree(("universal", "revolute", "planar", "helical"), (-1, 0, 1, 1), seed=4)),
]
trees = pytest.mark.parametrize(
    "model", repeated(TREES, 3, spread=False), ids=lambda m: "-".join(t.name for t in m.types)
)


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("mujoco")
    return fl.load(XML.format(option=""))


def state(model, batch=4, seed=0):
    rng = np.random.default_rng(seed)
    return model.random_configuration(batch, seed=rng), *rng.normal(size=(2, batch, model.nv))


def spring_torque(model, q):
    """K (q - q0), joint by joint, on each the coordinate of its own."""
    torque = np.zeros((len(q), model.nv))
    for i, joint in enumerate(model.joints):
        if joint.stiffness:
            m, b = joint.mimic[1:] if joint.mimic else (1.0, 0.0)
            own = m * q[:, model.first_q[i]] + b
            stretch = own - joint.spring_reference[0]
            torque[:, model.first_v[i]] += m * joint.stiffness[0] * stretch
    return torque


def peer_of(model, xml):
    import mujoco

    peer = mujoco.MjModel.from_xml_string(xml)
    peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    return mujoco, peer, mujoco.MjData(peer)


def test_a_file_s_springs_are_read(model):
    assert_array_equal(model.stiffness, [20, 300, 0, 5])
    assert_allclose(model.spring_reference, [np.deg2rad(0.4), 0, 0, -np.pi / 2])
    assert not any("spring" in note for note in model.notes)
    assert "stiffness 300" in str(model)
    off = fl.load(XML.format(option='<option><flag spring="disable"/></option>'))
    assert not off.stiffness.any()


def test_springs_of_ball_joints_are_left_out_with_a_warning():
    pytest.importorskip("mujoco")
    ball = XML.format(option="").replace('name="c" axis="0 0 1"', 'name="c" type="ball"')
    model = fl.load(ball.replace('springref="1"', 'stiffness="2"'))
    assert any(note.startswith("warning: springs of ball and free") for note in model.notes)
    assert not model.stiffness[model.dofs[2].start : model.dofs[2].stop].any()


def test_accelerations_and_torques_are_those_of_mujoco(model):
    mujoco, peer, data = peer_of(model, XML.format(option=""))
    q, v, tau = state(model)
    found = model.forward_dynamics(q, v, tau)
    for k in range(len(q)):
        data.qpos, data.qvel, data.qfrc_applied = q[k], v[k], tau[k]
        mujoco.mj_forward(peer, data)
        assert_allclose(found[k], data.qacc, rtol=1e-10, atol=1e-10)
        mujoco.mj_inverse(peer, data)
        torque = model.inverse_dynamics(q[k], v[k], data.qacc)
        assert_allclose(torque, data.qfrc_inverse, rtol=1e-10, atol=1e-10)
        mujoco.mj_energyPos(peer, data)
        energy = model.potential_energy(q[k])
        assert energy == pytest.approx(data.energy[0], rel=1e-10)


@pytest.mark.parametrize(("integrator", "there"), [("implicit_damping", "EULER"), ("rk4", "RK4")])
def test_steps_are_those_of_mujoco(model, integrator, there):
    mujoco, peer, data = peer_of(model, XML.format(option=""))
    peer.opt.timestep, peer.opt.integrator = 0.002, getattr(mujoco.mjtIntegrator, f"mjINT_{there}")
    q, v, tau = (x[0] for x in state(model))
    moved = model.rollout(q, v, np.tile(tau, (50, 1)), 0.002, integrator=integrator)
    data.qpos, data.qvel, data.qfrc_applied = q, v, tau
    for k in range(50):
        mujoco.mj_step(peer, data)
        assert_allclose(moved.q[k + 1], data.qpos, atol=1e-9)
        assert_allclose(moved.v[k + 1], data.qvel, atol=1e-8)


@trees
def test_all_functions_of_the_dynamics_have_the_springs(model):
    plain = model.with_physics(stiffness=0.0)
    q, v, a = state(model)
    torque = spring_torque(model, q)
    tau = plain.inverse_dynamics(q, v, a) + torque
    assert_allclose(model.inverse_dynamics(q, v, a), tau, rtol=1e-12, atol=1e-11)
    assert_allclose(model.gravity_torque(q), plain.gravity_torque(q) + torque, atol=1e-11)
    assert_allclose(model.bias_force(q, v), plain.bias_force(q, v) + torque, atol=1e-11)
    assert_allclose(model.forward_dynamics(q, v, tau), a, rtol=1e-8, atol=1e-8)
    assert_array_equal(model.mass_matrix(q), plain.mass_matrix(q))


@trees
def test_derivatives_are_those_of_dual_numbers(model):
    q, v, tau = state(model)
    moves = np.random.default_rng(5).normal(size=(3, *v.shape))
    changes.assert_derivatives_of_dynamics(model, q, v, tau, moves)


@pytest.mark.parametrize("integrator", repeated([*INTEGRATORS], 1))
def test_a_and_b_are_those_of_dual_numbers(integrator):
    model = TREES[0]
    q, v, tau = state(model)
    moves = np.random.default_rng(5).normal(size=(3, *v.shape))
    _, wanted = changes.of_step(model, q, v, tau, 0.01, moves, integrator=integrator)
    linear = model.linearize_step(q, v, tau, 0.01, integrator=integrator)
    along = changes.by_matrices(linear, moves)
    assert_allclose(along, wanted, atol=1e-11 * np.abs(wanted).max())


def test_all_algorithms_have_the_springs():
    model = TREES[1]
    q, v, tau = state(model)
    changes.assert_methods_agree(model, q, v, tau)


def test_long_robots_have_the_springs():
    model = sprung(fl.random_tree(130, 1.0, ("revolute",), seed=1))
    plain = model.with_physics(stiffness=0.0)
    q, v, a = state(model, 2)
    a = 0.1 * a
    torque = spring_torque(model, q)
    tau = plain.inverse_dynamics(q, v, a) + torque
    assert_allclose(model.inverse_dynamics(q, v, a), tau, atol=1e-9 * np.abs(tau).max())
    found = model.inverse_dynamics_derivatives(q, v, a)
    wanted = plain.inverse_dynamics_derivatives(q, v, a)
    diagonal = wanted.dtau_dq + np.diag(model.stiffness)
    assert_allclose(found.dtau_dq, diagonal, atol=1e-12 * np.abs(diagonal).max())
    assert_array_equal(found.dtau_dv, wanted.dtau_dv)


def test_springs_are_parameters_at_run_time():
    model = TREES[1]
    q, v, tau = state(model)
    rng = np.random.default_rng(3)
    own = {"stiffness": rng.uniform(1, 9, 4), "spring_reference": rng.normal(size=4)}
    other = model.with_physics(**own)
    for name in ("inverse_dynamics", "forward_dynamics", "forward_dynamics_derivatives"):
        found = getattr(model, name)(q, v, tau, params=own)
        wanted = getattr(other, name)(q, v, tau)
        assert_allclose(np.array(found), np.array(wanted), rtol=1e-9, atol=1e-9)
    slopes = model.inverse_dynamics_parameter_derivatives(q, v, tau, "stiffness")
    stretch = q - model.spring_reference
    assert_allclose(slopes, [np.diag(x) for x in stretch], atol=1e-12)


def test_energy_is_kept_by_a_mass_on_a_spring(model):
    q, v, _ = (x[0] for x in state(model))
    free = model.with_physics(damping=0.0)
    moved = free.rollout(q, v, np.zeros((2000, 4)), 1e-3, integrator="rk4")
    energy = free.kinetic_energy(moved.q, moved.v) + free.potential_energy(moved.q)
    assert np.ptp(energy) < 1e-6 * np.ptp(free.potential_energy(moved.q))


def test_robots_without_springs_have_the_same_graphs_and_fingerprints(model):
    plain = model.with_physics(stiffness=0.0, spring_reference=0.0)
    bare = replace(plain, joints=tuple(replace(j, spring_reference=()) for j in plain.joints))
    assert plain.fingerprint == bare.fingerprint != model.fingerprint
    assert copy.copy(model) == model
    operations = lambda m: m.graph("inverse_dynamics").cost().kinds
    more = operations(model)
    more.subtract(operations(plain))
    assert +more == {"add": 5, "mul": 3}  # one of three references is 0


def test_springs_on_other_joints_are_refused():
    builder = fl.ModelBuilder("ball")
    builder.link("base")
    builder.link("bob", mass=1.0, inertia=np.eye(3))
    builder.joint("pivot", "spherical", "base", "bob", stiffness=3.0)
    with pytest.raises(fl.ModelError, match="spherical and has a spring"):
        builder.build()
    free = fl.load("double_pendulum", root="free")
    assert_array_equal(free.with_physics(stiffness=2.0).stiffness, [0] * 6 + [2, 2])
    with pytest.raises(ValueError, match="springs are on joints of one degree of freedom"):
        free.with_physics(stiffness=np.ones(8))
    with pytest.raises(ValueError, match="stiffness has entries that are negative"):
        free.with_physics(stiffness=-1.0)


def test_check_adds_the_springs_to_a_peer_that_has_none():
    pytest.importorskip("mujoco")
    report = check(XML.format(option=""), against="mujoco", states=5)
    assert report.passed
    assert "mujoco has no joint springs: their torques are added to it" in report.notes
