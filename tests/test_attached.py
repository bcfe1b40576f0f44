"""Robots attached to others, payloads, inertias, frames and limits, beside Pinocchio and MuJoCo."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose
from test_editing import close, dynamics_are_pinocchios

import featherlane as fl
from featherlane import convert
from featherlane.robot.named_configurations import NamedConfiguration

ROBOTS = Path(fl.__file__).parent / "robot/bundled"
BATCH = 5


def link(name, mass, com="0 0 0.03"):
    moments = f'ixx="{mass * 2e-3}" iyy="{mass * 3e-3}" izz="{mass * 1e-3}"'
    return f"""<link name="{name}"><inertial><origin xyz="{com}" rpy="0.1 0.2 0"/>
<mass value="{mass}"/><inertia {moments} ixy="1e-5" ixz="0" iyz="2e-5"/></inertial></link>"""


GRIPPER = f"""<robot name="gripper">{link("palm", 0.5)}{link("pad", 0.1)}{link("finger", 0.2)}
{link("thumb", 0.3, "0.01 0 0.02")}
<joint name="glue" type="fixed"><parent link="palm"/><child link="pad"/>
<origin xyz="0 0.01 0.05" rpy="0.3 0 0"/></joint>
<joint name="left" type="prismatic"><parent link="palm"/><child link="finger"/><axis xyz="0 1 0"/>
<origin xyz="0 0 0.06"/><limit lower="0" upper="0.04" velocity="1" effort="20"/></joint>
<joint name="right" type="revolute"><parent link="finger"/><child link="thumb"/><axis xyz="1 0 0"/>
<origin xyz="0 0 0.02" rpy="0 0.1 0"/><limit lower="-1" upper="1" velocity="1" effort="5"/>MIMIC
</joint></robot>"""
FOLLOWS = '<mimic joint="left" multiplier="2" offset="0.1"/>'


def gripper(root="fixed", mimic=False):
    return fl.load(GRIPPER.replace("MIMIC", FOLLOWS if mimic else ""), root=root)


def states(model, seed=0):
    v, a = np.random.default_rng(seed).normal(size=(2, BATCH, model.nv))
    return model.random_configuration(BATCH, seed=seed), v, a


def same(one, other, tolerance=1e-12):
    """Both robots compute the same, whatever they are called."""
    q, v, a = states(one)
    close(textbook.rnea(one, q, v, a), textbook.rnea(other, q, v, a), tolerance)
    close(textbook.mass_matrix(one, q), textbook.mass_matrix(other, q), tolerance)


@pytest.mark.parametrize("root", ["fixed", "free", "free-split"])
@pytest.mark.parametrize(("name", "at"), [("iiwa14", "iiwa_link_7"), ("hyq", "lf_lowerleg")])
def test_pinocchio_appends_robots_alike(name, at, root):
    pin = pytest.importorskip("pinocchio")
    free = [pin.JointModelFreeFlyer()] if name == "hyq" else []
    robot = fl.load(name, root="free" if free else "fixed").with_physics(0.0, 0.0, 0.0)
    peer = pin.buildModelFromUrdf(str(ROBOTS / f"{name}.urdf"), *free)
    tool = pin.buildModelFromXML(GRIPPER.replace("MIMIC", ""))
    whole = pin.appendModel(peer, tool, peer.getFrameId(at), pin.SE3.Identity())
    ours, data = fl.attach(robot, gripper(root), at), whole.createData()
    assert ours.joint_names == (*robot.joint_names, "left", "right")
    q, v, a = states(ours)
    dynamics_are_pinocchios(pin, ours, whole, q, v, a)
    pin.framesForwardKinematics(whole, data, convert.pinocchio(ours, whole).to(q[0]).q)
    for frame in ("palm", "pad", "finger", "thumb"):
        T = data.oMf[whole.getFrameId(frame)].homogeneous
        close(ours.frame_placement(q[0], frame), T, 1e-10)


def test_mimics_fixed_joints_actuators_and_configurations_come_along():
    arm = fl.load("double_pendulum")
    motors = fl.JointActuator("m", "joint1"), fl.JointActuator("m", "left", gear=3.0)
    poses = (
        NamedConfiguration("home", (("joint1", (0.3,)),)),
        NamedConfiguration("home", (("left", (0.02,)),)),
    )
    arm, hand = (
        replace(model, actuators=(motor,), named_configurations=(pose,))
        for model, motor, pose in zip((arm, gripper(mimic=True)), motors, poses, strict=True)
    )
    both = fl.attach(arm, hand, "link2")
    assert (both.nq, both.nv, both.nbodies) == (3, 3, 4)
    assert both.joint("right").mimic == fl.Mimic("left", 2.0, 0.1)
    assert [(x.name, x.joint) for x in both.actuators] == [("m", "joint1"), ("gripper_m", "left")]
    assert_allclose(both.configurations["home"], [0.3, 0.0, 0.02])
    assert both.frame("glue").body == both.frame("pad").body == 1
    assert both.bodies[1].mass == pytest.approx(arm.bodies[1].mass + 0.6)
    assert any("attached at link2" in note for note in both.notes)
    assert pickle.loads(pickle.dumps(both)) == both
    assert both.fingerprint != arm.fingerprint


def test_names_that_clash_get_a_prefix():
    arm, hand = fl.load("double_pendulum"), gripper()
    once = fl.attach(arm, hand, "link2")
    twice = fl.attach(once, hand, "thumb")
    assert twice.joint_names[-2:] == ("gripper_left", "gripper_right")
    assert "gripper_palm" in twice.frame_names
    assert any("got the prefix 'gripper_': 'left'" in note for note in twice.notes)
    named = fl.attach(once, hand, "thumb", prefix="second_")
    assert named.joint_names[-1] == "second_right"
    assert named.fingerprint == twice.fingerprint
    with pytest.raises(ValueError, match=r"the joint 'gripper_left' of 'gripper': .* prefix="):
        fl.attach(twice, hand, "thumb")
    with pytest.raises(ValueError, match="has the joint 'second_left'"):
        fl.attach(named, hand, "thumb", prefix="second_")


def test_robots_on_the_ground_and_on_joints_of_their_own():
    arm = fl.load("double_pendulum")
    side = arm.with_frame("side", on="base_link", xyz=(0, 2, 0))
    two = fl.attach(side, fl.load("double_pendulum"), "side", prefix="other_")
    assert two.joints[2].parent == -1
    q, v, a = states(two)
    tau = textbook.rnea(two, q, v, a)
    close(tau[:, 2:], textbook.rnea(arm, q[:, 2:], v[:, 2:], a[:, 2:]))
    wrist = fl.load(GRIPPER.replace("MIMIC", ""), root=fl.Joint("wrist", "revolute", -1))
    assert fl.attach(arm, wrist, "link2").joint_names[2] == "wrist"


def test_wrong_attachments_are_refused():
    arm, hand = fl.load("double_pendulum"), gripper()
    with pytest.raises(ValueError, match="no frame 'flange'"):
        fl.attach(arm, hand, "flange")
    rough = hand.with_physics(friction=1.0, friction_velocity=0.3)
    with pytest.raises(ValueError, match=r"friction_velocity of 'double_pendulum' is 0.01 and of"):
        fl.attach(arm, rough, "link2")


# Payloads and inertias


def mjcf(payload=""):
    return f"""<mujoco model="lamp"><compiler angle="radian"/><worldbody>
<body name="arm" pos="0 0 1"><joint name="a" axis="0 1 0"/>
<inertial mass="2" pos="0 0.1 0.2" diaginertia="0.1 0.2 0.15"/>
<body name="head" pos="0.3 0 0.1" euler="0.3 0.1 0.2"><joint name="b" axis="1 0 0"/>
<inertial mass="1" pos="0.1 0 0" diaginertia="0.02 0.03 0.04"/>
<site name="tool" pos="0.2 0.1 0" euler="0.4 0 0.3"/>{payload}</body></body></worldbody></mujoco>"""


WELDED = """<body pos="0.2 0.1 0" euler="0.4 0 0.3">
<inertial mass="0.7" pos="0.01 0.02 0.1" fullinertia="0.02 0.02 0.03 0.001 0.002 -0.001"/></body>"""
MOMENTS = [[0.02, 0.001, 0.002], [0.001, 0.02, -0.001], [0.002, -0.001, 0.03]]


def test_a_payload_is_a_body_that_mujoco_welds():
    mujoco = pytest.importorskip("mujoco")
    peer = mujoco.MjModel.from_xml_string(mjcf(WELDED))
    bare = fl.load(mjcf())
    place = fl.load(mjcf(WELDED)).frames[-1].placement
    at = bare.with_frame("grip", on="head", xyz=place.p, R=place.R)
    ours = at.with_payload("grip", mass=0.7, com=(0.01, 0.02, 0.1), inertia=MOMENTS)
    q, v, _ = states(ours)
    M, bias, data = ours.mass_matrix(q), ours.bias_force(q, v), mujoco.MjData(peer)
    assert ours.bodies[0] == bare.bodies[0]
    for k in range(BATCH):
        data.qpos[:], data.qvel[:] = q[k], v[k]
        mujoco.mj_forward(peer, data)
        dense = np.zeros((2, 2))
        mujoco.mj_fullM(peer, data, dense)
        close(M[k], dense, 1e-12)
        close(bias[k], data.qfrc_bias, 1e-12)


def test_a_payload_is_a_robot_of_one_link():
    arm = fl.load("iiwa14")
    builder = fl.ModelBuilder("load")
    builder.link("load", mass=0.7, com=(0.01, 0.02, 0.1), inertia=MOMENTS)
    frame = arm.frame_names[-1]
    loaded = arm.with_payload(frame, mass=0.7, com=(0.01, 0.02, 0.1), inertia=MOMENTS)
    for root in ("fixed", "free"):
        same(loaded, fl.attach(arm, builder.build(root=root), frame))
    assert loaded.fingerprint != arm.fingerprint
    assert any(f"payload of 0.7 kg on {frame}" in note for note in loaded.notes)
    ground = arm.with_payload(arm.frames[0].name, mass=3.0)
    assert ground.ground_mass == pytest.approx(arm.ground_mass + 3)
    q, v, a = states(arm)
    heavy = {"mass": 2 * arm.parameters("mass")["mass"]}
    wanted = arm.inverse_dynamics(q, v, a, params=heavy)
    own = loaded.parameters("mass", "com", "inertia") | arm.parameters("com", "inertia") | heavy
    close(loaded.inverse_dynamics(q, v, a, params=own), wanted)
    assert not np.allclose(loaded.inverse_dynamics(q, v, a, params=heavy), wanted)


def test_inertias_for_good():
    arm = fl.load("iiwa14")
    body = arm.bodies[3]
    heavy = arm.with_inertial(body.name, mass=9.0, com=(0.1, 0, 0), inertia=MOMENTS)
    assert heavy.bodies[3] == fl.Body(body.name, 9.0, (0.1, 0.0, 0.0), tuple(map(tuple, MOMENTS)))
    assert arm.with_inertial(body.name, mass=9.0).bodies[3] == replace(body, mass=9.0)
    assert arm.with_inertial(body.name) is arm
    odd = arm.with_inertial(body.name, inertia=(1, 1, 3))
    assert any("triangle inequality" in note for note in odd.notes)
    weightless = fl.load("double_pendulum").with_inertial("link2", mass=0.0, inertia=(0, 0, 0))
    with pytest.raises(fl.ModelError, match="joint2"):
        weightless.forward_dynamics(*np.zeros((3, 2)))
    again = weightless.with_inertial("link2", mass=1.0, inertia=(1, 1, 1))
    assert again.forward_dynamics(*np.zeros((3, 2))).shape == (2,)


@pytest.mark.parametrize(
    "names",
    [("mass", "com", "inertia"), ("inertial",), ("position", "orientation"), ("gravity",),
     ("armature", "damping", "friction"), ("stiffness", "spring_reference")],
)  # fmt: skip
def test_parameters_for_good_are_those_of_run_time(names):
    sprung = "stiffness" in names  # on joints of one degree of freedom alone
    model = fl.load("iiwa14") if sprung else fl.random_tree(5, 2, seed=1)
    rng = np.random.default_rng(0)
    values = model.parameters(*names)
    params = {name: x * rng.uniform(1, 1.2, x.shape) + 0.1 for name, x in values.items()}
    other = model.with_parameters(params)
    q, v, a = states(model)
    wanted = model.inverse_dynamics(q, v, a, params=params)
    close(other.inverse_dynamics(q, v, a), wanted, 1e-11)
    assert other.fingerprint != model.fingerprint
    for name in {*names} - {"orientation"}:
        assert_allclose(other.parameters(name)[name], params[name], rtol=1e-10, atol=1e-12)


def test_parameters_that_cannot_last():
    arm = fl.load("double_pendulum")
    for params, message in (
        ({"base_velocity": np.zeros(6)}, "a motion of the ground"),
        ({"masses": [1, 1]}, "masses"),
        ({"mass": [1.0]}, r"mass of 'double_pendulum' has shape \(1,\); wanted \(2,\)"),
        ({"mass": [1.0, -1.0]}, "mass of 'double_pendulum'.*zero or more"),
        ({"inertial": np.ones((2, 10)), "com": np.ones((2, 3))}, "'inertial' and 'com'"),
        ({"orientation": np.zeros((2, 4))}, "quaternion of length 0"),
    ):
        with pytest.raises(ValueError, match=message):
            arm.with_parameters(params)
    assert arm.with_parameters({}) is arm


def test_payloads_that_cannot_be():
    arm = fl.load("double_pendulum")
    with pytest.raises(ValueError, match=r"mass of payload on 'link2' is -1; wanted zero or more"):
        arm.with_payload("link2", mass=-1)
    with pytest.raises(ValueError, match=r"inertia of payload on 'link2' has shape \(2,\)"):
        arm.with_payload("link2", mass=1, inertia=(1, 2))
    with pytest.raises(ValueError, match="is not symmetric"):
        arm.with_inertial("link2", inertia=[[1, 2, 0], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match="no body 'link3'"):
        arm.with_inertial("link3", mass=1.0)


# Frames and limits


def test_frames_on_links_frames_and_joints():
    arm = fl.load("iiwa14")
    tool = arm.with_frame("tool", on="iiwa_joint_7", xyz=(0, 0, 0.1), rpy=(0.1, 0.2, 0.3))
    tip = tool.with_frame("tip", on="tool", xyz=(0.1, 0, 0), R=[[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    q = arm.random_configuration(seed=0)
    T = arm.frame_placement(q, "iiwa_joint_7")
    offset = np.eye(4)
    offset[:3, 3] = 0.1, 0, 0
    offset[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    close(tip.frame_placement(q, "tip"), tool.frame_placement(q, "tool") @ offset)
    close(tool.frame_placement(q, "tool")[:3, 3], T[:3, 3] + 0.1 * T[:3, 2])
    assert tool.fingerprint == arm.fingerprint
    assert pickle.loads(pickle.dumps(tip)) == tip
    with pytest.raises(ValueError, match="a frame 'tool' already"):
        tool.with_frame("tool", on="tip")
    with pytest.raises(ValueError, match="both rpy and R"):
        tip.with_frame("x", on="tip", rpy=(0, 0, 0), R=np.eye(3))


def test_names_of_joints_are_frames():
    hand = gripper(mimic=True)
    assert hand.frame("glue").placement == hand.frame("pad").placement
    assert hand.frame("right").body == 1
    q = np.array([0.03])
    for joint, carried in (("glue", "pad"), ("left", "finger"), ("right", "thumb")):
        close(hand.jacobian(q, joint, "world"), hand.jacobian(q, carried, "world"))
    other = hand.renamed(frames={"pad": "rubber"})
    assert other.frame("glue").placement == other.frame("rubber").placement
    stiff = hand.reduced({"left": 0.01})
    assert stiff.frame("left").placement == stiff.frame("finger").placement
    assert stiff.frame("right").placement == stiff.frame("thumb").placement
    same_name = """<robot name="x"><link name="a"/><link name="b"/><link name="c"/>
<joint name="b" type="fixed"><parent link="a"/><child link="c"/><origin xyz="1 0 0"/></joint>
<joint name="d" type="continuous"><parent link="a"/><child link="b"/></joint></robot>"""
    assert fl.load(same_name).frame("b").body == 0  # the link, not the joint
    with pytest.raises(ValueError, match="fixed joint 'x' carries 'nothing'"):
        fl.Model(**hand._fields() | {"fixed_joints": (("x", "nothing"),)})


def test_limits_of_joints():
    arm = fl.load("iiwa14")
    lower, upper = arm.position_limits
    half = arm.with_joint_limits(lower / 2, upper / 2, velocity=1.5, effort={"iiwa_joint_2": 7.0})
    assert_allclose(half.position_limits, (lower / 2, upper / 2))
    assert_allclose(half.velocity_limits, 1.5)
    assert half.effort_limits[1] == 7
    assert_allclose(np.delete(half.effort_limits, 1), np.delete(arm.effort_limits, 1))
    free = arm.with_joint_limits(upper={"iiwa_joint_1": np.inf})
    assert free.position_limits.upper[0] == np.inf
    assert arm.with_joint_limits() is arm
    assert arm.fingerprint == half.fingerprint
    soft = arm.with_soft_limits()
    assert soft.with_joint_limits(lower / 2).fingerprint != soft.fingerprint
    hand = gripper(mimic=True).with_joint_limits(upper={"right": 0.14})
    assert hand.position_limits.upper[0] == pytest.approx(0.02)
    base = fl.load("double_pendulum", root="free")
    assert base.with_joint_limits(-1.0, 1.0).position_limits.upper.tolist() == [
        1, 1, 1, np.inf, np.inf, np.inf, np.inf, 1, 1]  # fmt: skip
    assert_allclose(base.with_joint_limits(velocity=2.0).velocity_limits, 2.0)


def test_limits_that_cannot_be():
    arm = fl.load("double_pendulum", root="free")
    for limits, message in (
        ({"lower": 1.0, "upper": -1.0}, "wanted lower limits below upper ones"),
        ({"lower": {"joint1": 0.5}, "upper": {"joint1": 0.5}}, "limits of joint 'joint1'"),
        ({"velocity": [1.0]}, r"velocity of the joints has shape \(1,\); wanted \(\) or \(8,\)"),
        ({"effort": -1.0}, "wanted zero or more"),
        ({"velocity": [1, 2, 3, 4, 5, 6, 7, 8]}, "wanted one number, the limit of each"),
        ({"upper": {"elbow": 1.0}}, "no joint 'elbow'"),
    ):
        with pytest.raises(ValueError, match=message):
            arm.with_joint_limits(**limits)


def test_the_ground_keeps_its_inertia():
    hand = gripper()
    free = gripper(root="free")
    assert hand.ground.mass == pytest.approx(0.6)
    assert_allclose(hand.ground.com, free.bodies[0].com)
    assert_allclose(hand.ground.inertia, free.bodies[0].inertia)
    resting = free.reduced({free.joint_names[0]: None})
    assert_allclose(resting.ground.inertia, hand.ground.inertia)
    turned = free.reduced({free.joint_names[0]: (0, 0, 0, 0, 0, 1, 0)})
    assert_allclose(turned.ground.com, np.array(hand.ground.com) * [-1, -1, 1])


def test_inertias_of_run_time_may_be_matrices():
    arm, rng = fl.load("iiwa14"), np.random.default_rng(0)
    q, v, a = states(arm)
    root = rng.normal(size=(BATCH, 7, 3, 3))
    matrices = root @ np.swapaxes(root, -1, -2)
    six = matrices[..., [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    wanted = arm.inverse_dynamics(q, v, a, params={"inertia": six})
    close(arm.inverse_dynamics(q, v, a, params={"inertia": matrices}), wanted)
    one = arm.inverse_dynamics(q, v, a, params={"inertia": matrices[0].tolist()})
    close(one[0], wanted[0])
    traced = fl.compile(
        lambda q, I: arm.gravity_torque(q, params={"inertia": I}), {"q": 7, "I": (7, 3, 3)}
    )
    close(traced(q, matrices), arm.gravity_torque(q, params={"inertia": six}))
    with pytest.raises(ValueError, match=r"params\['inertia'\] has a matrix that is not symmetric"):
        arm.inverse_dynamics(q, v, a, params={"inertia": root})
