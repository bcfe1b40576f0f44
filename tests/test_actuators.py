"""Actuators of MJCF files, as MuJoCo applies them, and configurations with a name."""

import pickle

import changes
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS

BODIES = """
<mujoco><option timestep="0.002"/><worldbody><body pos="0 0 1">
  <joint name="a" axis="0 1 0" damping="0.3" armature="0.02" actuatorfrcrange="-40 30"/>
  <inertial pos="0.1 0 0.2" mass="1.5" diaginertia="0.02 0.03 0.01"/>
  <body pos="0.2 0 0.4">
    <joint name="b" type="slide" axis="1 0 0" damping="0.5"/>
    <inertial pos="0 0.1 0" mass="0.7" diaginertia="0.01 0.02 0.015"/>
    <body pos="0 0.3 0"><joint name="c" axis="0 0 1" damping="0.2"/>
      <inertial pos="0.1 0.05 0" mass="0.4" diaginertia="0.004 0.003 0.005"/></body>
    <body pos="0 -0.3 0"><joint name="d" axis="1 1 0" armature="0.01"/>
      <inertial pos="0.1 0.05 0" mass="0.5" diaginertia="0.004 0.003 0.005"/></body>
  </body></body></worldbody>{}</mujoco>"""
SERVOS = BODIES.format(
    """<actuator>
  <motor name="m" joint="b" gear="3" ctrlrange="-1 2" forcerange="-1.5 1.5"/>
  <position name="p" joint="a" kp="60" kv="1.5" gear="1.5" ctrlrange="-1 1" forcerange="-25 20"/>
  <velocity name="v" joint="c" kv="0.4" gear="-2"/>
  <general name="g" joint="d" gainprm="4" biastype="affine" biasprm="0.3 -2 -0.1"/>
  <motor name="second" joint="d" gear="0.5"/>
</actuator>
<keyframe><key name="home" qpos="0.1 0.2 0.3 0.4"/><key qpos="1 2 3 4"/></keyframe>"""
)


@pytest.fixture(scope="module")
def robot():
    return fl.load(SERVOS)


def states(model, batch=40, seed=0, spread=1.5):
    rng = np.random.default_rng(seed)
    u = rng.normal(scale=spread, size=(batch, len(model.actuators)))
    return *rng.normal(size=(2, batch, model.nv)), u


def peer(xml=SERVOS):
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(xml)
    flags = mujoco.mjtDisableBit
    model.opt.disableflags |= flags.mjDSBL_CONSTRAINT | flags.mjDSBL_EULERDAMP
    return mujoco, model, mujoco.MjData(model)


def test_a_files_actuators_are_read(robot):
    assert [(a.name, a.joint, a.kind) for a in robot.actuators] == [
        ("m", "b", "motor"),
        ("p", "a", "position"),
        ("v", "c", "velocity"),
        ("g", "d", "general"),
        ("second", "d", "motor"),
    ]
    motor, servo, *_ = robot.actuators
    assert (motor.gear, motor.control_range, motor.force_range) == (3.0, (-1.0, 2.0), (-1.5, 1.5))
    assert servo.bias == (0.0, -60.0, -1.5)
    assert servo.force_range == (-25.0, 20.0)  # within those of its joint, -40 / 1.5 and 30 / 1.5
    assert_array_equal(robot.effort_limits, [37.5, 4.5, np.inf, np.inf])
    assert pickle.loads(pickle.dumps(robot)) == robot
    card = str(robot)
    assert '! servos act only where actuation="file" is passed: p, v, g' in card
    assert 'motors act where actuation="file" is passed: m, second' in card


def test_forces_are_mujocos(robot):
    """Also where controls and forces are beyond their ranges."""
    mujoco, there, data = peer()
    q, v, u = states(robot, 200)
    found = robot.actuation()
    ends = set()
    for x in range(len(q)):
        data.qpos, data.qvel, data.ctrl = q[x], v[x], u[x]
        mujoco.mj_forward(there, data)
        assert_allclose(found.forces(4, u[x], q[x], v[x]), data.qfrc_actuator, atol=1e-12)
        ends |= {end for end in (-25.0, 20.0) if data.actuator_force[1] == end}
    assert ends == {-25.0, 20.0}


@pytest.mark.parametrize(
    ("integrator", "there"),
    [("semi_implicit", "EULER"), ("rk4", "RK4"), ("implicit_damping", "IMPLICITFAST")],
)
def test_rollouts_are_mujocos(robot, integrator, there):
    mujoco, model, data = peer()
    model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{there}")
    q, v, u = (x[0] for x in states(robot))
    controls = u + 0.3 * np.sin(np.arange(60))[:, None]
    found = robot.rollout(q, v, controls, 0.002, integrator=integrator, actuation="file")
    data.qpos, data.qvel = q, v
    for k in range(60):
        data.ctrl = controls[k]
        mujoco.mj_step(model, data)
        assert_allclose(found.q[k + 1], data.qpos, atol=1e-9)
        assert_allclose(found.v[k + 1], data.qvel, atol=1e-8)


def test_a_matrix_beside_the_files_actuators_is_mujocos_tendon(robot):
    tendon = """<tendon><fixed name="t"><joint joint="b" coef="0.7"/><joint joint="c" coef="-2"/>
</fixed></tendon>"""
    more = '<motor name="both" tendon="t" gear="1.5" ctrlrange="-0.5 1"/></actuator>'
    xml = SERVOS.replace("</actuator>", more).replace("<actuator>", tendon + "<actuator>")
    mujoco, model, data = peer(xml)
    column = 1.5 * np.array([[0.0], [0.7], [-2.0], [0.0]])
    actuation = robot.actuation("file", matrix=column, limits=(-0.5, 1))
    q, v, u = states(robot)
    u = np.column_stack([u, np.random.default_rng(1).normal(size=len(u))])
    forces = np.array([actuation.forces(4, *x) for x in zip(u, q, v, strict=True)])
    for k in range(len(q)):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q[k], v[k], u[k]
        mujoco.mj_forward(model, data)
        assert_allclose(forces[k], data.qfrc_actuator, rtol=1e-12, atol=1e-12)
    derived = robot.linearize_step(q, v, u, 0.002, actuation=actuation)
    alone = robot.linearize_step(q, v, u[:, :-1], 0.002, actuation="file")
    assert_allclose(derived.B[..., :-1], alone.B, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_derivatives_with_servos_are_those_of_dual_numbers(robot, integrator):
    q, v, u = states(robot)
    options = {"integrator": integrator, "actuation": "file"}
    rng = np.random.default_rng(1)
    moves = *rng.normal(size=(2, *q.shape)), rng.normal(size=u.shape)
    end, wanted = changes.of_step(robot, q, v, u, 0.01, moves, **options)
    linear = robot.linearize_step(q, v, u, 0.01, **options)
    assert_allclose(linear.v, end["v_next"], rtol=1e-12, atol=1e-12)
    assert_allclose(changes.by_matrices(linear, moves), wanted, atol=1e-11 * np.abs(wanted).max())
    along = np.concatenate(robot.step_jvp(q, v, u, 0.01, *moves, **options), -1)
    assert_allclose(along, wanted, atol=1e-11 * np.abs(wanted).max())
    gq, gv = rng.normal(size=(2, *q.shape))
    back = robot.step_vjp(q, v, u, 0.01, gq, gv, **options)
    one = np.sum(np.concatenate([gq, gv], -1) * wanted, -1)
    other = sum(np.sum(g * d, -1) for g, d in zip(back, moves, strict=True))
    assert_allclose(one, other, rtol=1e-11, atol=1e-11 * np.abs(one).max())


@pytest.mark.parametrize("integrator", ["semi_implicit", "euler", "implicit_damping"])
def test_reduced_derivatives_make_a_and_b(robot, integrator):
    q, v, u = states(robot, 5)
    options = {"integrator": integrator, "actuation": "file"}
    whole = robot.linearize_step(q, v, u, 0.01, **options)
    lower = robot.linearize_step_reduced(q, v, u, 0.01, **options)
    assert_allclose(0.01 * lower.da_dq, whole.A[:, 4:, :4], atol=1e-12)
    assert_allclose(np.eye(4) + 0.01 * lower.da_dv, whole.A[:, 4:, 4:], atol=1e-12)
    assert_allclose(0.01 * lower.da_du, whole.B[:, 4:], atol=1e-12)


def test_wrenches_are_controls_beside_servos(robot):
    q, v, u = states(robot, 3)
    f_ext = np.random.default_rng(2).normal(size=(3, 4, 6))
    held = {"f_ext": f_ext, "by_wrenches": True, "integrator": "semi_implicit"}
    found = robot.linearize_step(q, v, u, 0.01, **held, actuation="file")
    plain = robot.linearize_step(q, v, u[:, :4], 0.01, **held)
    assert_allclose(found.B[..., 5:], plain.B[..., 4:], atol=1e-12)
    alone = robot.linearize_step(q, v, u, 0.01, f_ext, integrator="semi_implicit", actuation="file")
    assert_allclose(found.B[..., :5], alone.B, atol=1e-12)


def test_gradients_of_a_rollout_with_servos(robot):
    q, v, u = (x[:2] for x in states(robot))
    controls = np.repeat(u[:, None], 7, 1)
    options = {"actuation": "file"}
    path = robot.rollout(q, v, controls, 0.01, **options)
    gq, gv = np.random.default_rng(3).normal(size=(2, *path.v.shape))
    found = robot.rollout_gradient(path, controls, 0.01, gq, gv, **options)

    def value(controls):
        moved = robot.rollout(q, v, controls, 0.01, **options)
        return np.sum(gq * moved.q + gv * moved.v, (1, 2))

    h = np.zeros_like(controls)
    h[:, 2, 2] = 1e-5
    slope = (value(controls + h) - value(controls - h)) / 2e-5
    assert_allclose(found.tau[:, 2, 2], slope, rtol=1e-6)


def test_optimal_control_through_servos(robot):
    q, v = robot.configurations["home"], np.zeros(4)
    goal = np.array([0.15, 0.2, 0.35, 0.4])
    solution = fl.ilqr(
        robot, q, v, np.zeros((15, 5)), 0.02, actuation="file", iterations=200,
        cost=lambda q, v, tau: np.concatenate([q - goal, 0.1 * v, 0.01 * tau]),
    )  # fmt: skip
    assert solution.converged
    low, high = np.transpose([a.control_range for a in robot.actuators])
    assert (solution.tau >= low).all()
    assert (solution.tau <= high).all()
    again = robot.rollout(q, v, solution.tau, 0.02, actuation="file")
    assert_allclose(again.q, solution.q, atol=1e-9)


def test_actuators_of_joints_that_follow_others():
    xml = BODIES.format(
        """<actuator><position joint="c" kp="5" kv="0.2"/></actuator>
        <equality><joint joint1="c" joint2="d" polycoef="0.1 -2 0 0 0"/></equality>"""
    )
    model = fl.load(xml)
    assert model.nv == 3
    free = fl.load(xml, mimic="keep")
    q, v, u = np.array([0.1, 0.2, 0.3]), np.array([0.3, -0.2, 0.5]), np.array([0.4])
    force = 5 * u - 5 * (0.1 - 2 * q[2]) - 0.2 * (-2 * v[2])
    assert_allclose(model.actuation().forces(3, u, q, v), [0, 0, *(-2 * force)])
    q, v = np.array([0.1, 0.2, -0.5, 0.3]), np.array([0.3, -0.2, -1.0, 0.5])
    assert_allclose(free.actuation().forces(4, u, q, v), [0, 0, *force, 0])


def test_what_is_no_actuator_of_a_joint_is_named():
    xml = BODIES.format(
        """<tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon>
        <actuator><motor name="pull" tendon="t"/><intvelocity name="i" joint="a" kp="2"/>
        <damper name="brake" joint="b" kv="3" ctrlrange="0 1"/><motor joint="c"/></actuator>"""
    )
    model = fl.load(xml)
    assert [a.name for a in model.actuators] == ["actuator3"]
    (note,) = [n for n in model.notes if "not applied" in n]
    assert note.startswith("warning: ")
    assert "pull (on no hinge or slide)" in note
    assert "i (with activation)" in note
    assert "brake (with a gain that depends on the state)" in note
    assert_array_equal(model.effort_limits, [40.0, np.inf, np.inf, np.inf])
    off = fl.load(
        xml.replace("<worldbody>", '<option><flag actuation="disable"/></option><worldbody>')
    )
    assert off.actuators == ()


def test_editing_carries_actuators_and_configurations(robot):
    renamed = robot.renamed(joints={"a": "shoulder"})
    assert renamed.actuators[1].joint == "shoulder"
    assert_array_equal(renamed.configurations["home"], [0.1, 0.2, 0.3, 0.4])
    locked = robot.reduced({"d": 0.0})
    assert [a.name for a in locked.actuators] == ["m", "p", "v"]
    assert_array_equal(locked.configurations["home"], [0.1, 0.2, 0.3])
    q, v, u = states(robot, 3)
    end = locked.step(q[:, :3], v[:, :3], u[:, :3], 0.01, actuation="file")
    assert end.q.shape == (3, 3)
    ordered = fl.load(SERVOS, joint_order=["a", "b", "d", "c"])
    assert_array_equal(ordered.configurations["home"], [0.1, 0.2, 0.4, 0.3])


FREE = """
<mujoco><worldbody><body name="base" pos="0 0 1"><freejoint name="root"/>
  <inertial pos="0 0 0" mass="1.5" diaginertia="0.02 0.03 0.01"/>
  <body pos="0.2 0 0.4"><joint name="b" type="ball"/>
    <inertial pos="0 0.1 0" mass="0.7" diaginertia="0.01 0.02 0.015"/>
    <body pos="0.2 0 0"><joint name="c"/>
      <inertial pos="0 0.1 0" mass="0.7" diaginertia="0.01 0.02 0.015"/></body></body>
</body></worldbody>
<keyframe><key name="home" qpos="1 2 3 0.6 0 0 0.8 0.8 0.6 0 0 0.5"/></keyframe></mujoco>"""


def test_keyframes_of_free_and_ball_joints():
    model = fl.load(FREE)
    home = model.configurations["home"]
    assert_allclose(home, [1, 2, 3, 0, 0, 0.8, 0.6, 0.6, 0, 0, 0.8, 0.5])
    assert not home.flags.writeable
    fixed = fl.load(FREE, root="fixed").configurations["home"]
    assert_allclose(fixed, home[7:])
    split = fl.editing.split_root(model) if hasattr(fl.editing, "split_root") else None
    if split is not None:
        assert_allclose(split.configurations["home"], home)
    rerooted = model.rerooted("body2")
    assert rerooted.configurations["home"][-1] == 0.5
    assert any("without the pose of the free joint" in note for note in rerooted.notes)


def test_wrong_actuations_say_what_is_wanted(robot):
    q, v, u = states(robot, 1)
    with pytest.raises(ValueError, match="actuation is 'files': wanted one from"):
        robot.step(q, v, u, 0.01, actuation="files")
    plain = fl.load("double_pendulum")
    with pytest.raises(ValueError, match="'double_pendulum' has no actuators from its file"):
        plain.step(q[0, :2], v[0, :2], [0.0, 0.0], 0.01, actuation="file")
    with pytest.raises(ValueError, match="actuator 'x' is on 'nothing'"):
        fl.Model(**plain._fields() | {"actuators": (fl.JointActuator("x", "nothing"),)})


SRDF = """<robot name="arm">
  <group name="left"/>
  <group_state name="home" group="left"><joint name="a" value="0.5"/></group_state>
  <group_state name="home" group="right"><joint name="c" value="-0.5"/>
    <joint name="gripper" value="1"/></group_state>
  <group_state name="up" group="left"><joint name="b" value="1"/></group_state>
</robot>"""


def test_group_states_of_an_srdf():
    model = fl.load(SERVOS, srdf=SRDF)
    assert_array_equal(model.configurations["home"], [0.5, 0.0, -0.5, 0.0])
    assert_array_equal(model.configurations["up"], [0.0, 1.0, 0.0, 0.0])
    assert_array_equal(model.configurations["key1"], [1.0, 2.0, 3.0, 4.0])
    assert model.notes[-1].endswith("left out: 'gripper'")
    free = '<robot><group_state name="x" group="g"><joint name="root" value="1 2 3 0 0 0 1"/>'
    free += "</group_state></robot>"
    assert fl.load(FREE, srdf=free).configurations["x"][2] == 3.0


@pytest.mark.parametrize(
    ("srdf", "told"),
    [
        ("<robot/>", "there is no <group_state>"),
        ("<sdf/>", "an SRDF file starts with <robot>"),
        (SRDF.replace('"0.5"', '"0.5 1"'), "value holds '0.5 1'; wanted one number"),
        (SRDF.replace('"gripper"', '"a"'), "joint 'a' is at (0.5,) in another group"),
        (SRDF.replace('name="up"', ""), "its attribute 'name' is missing"),
    ],
)
def test_group_states_that_cannot_be_read(srdf, told):
    with pytest.raises(fl.ModelError) as caught:
        fl.load(SERVOS, srdf=srdf)
    assert told in str(caught.value)
