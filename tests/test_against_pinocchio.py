"""A dozen robots of benchmarks/sweep.py: all seven functions against Pinocchio.

Chosen to hold what differs between robots: chains, branches, hands, continuous, prismatic, planar
and mimic joints, joint axes of any direction, and M from well conditioned to singular. Joint types
that URDF does not know are in test_joint_types.py.
"""

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from repetition import full, repeated
from robot_files import robot_file

import featherlane as fl
from featherlane import convert
from featherlane.backends import reference
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.functions.variants import input_shapes
from featherlane.program.lower import lower
from featherlane.robot.loaders import xml_text
from featherlane.tools.check import check, comparable
from featherlane.tools.peers import Pinocchio, module

pytest.importorskip("pinocchio")

BOTH = ("body", "world")  # axes of f_ext; of larger robots one, by turns
ROBOTS = [
    ("double_pendulum", "planar", BOTH),
    ("iiwa14", "fixed", BOTH),
    ("panda", "free", ("world",)),
    ("hyq", "free", ("body",)),
    ("atlas", "fixed", ("body",)),
    ("allegro_hand_description/urdf/allegro_left_hand", "fixed", ("world",)),
    ("double_pendulum_description/urdf/double_pendulum_continuous", "free", BOTH),
    ("hextilt_description/urdf/hextilt_flying_arm_5", "free", ("body",)),
    ("kinova_description/robots/kinova", "fixed", BOTH),
    ("tiago_description/robots/tiago_no_hand", "fixed", ("body",)),
    ("ur_description/urdf/ur5_robot", "free", ("world",)),
    ("xarm_description/urdf/xarm7", "fixed", BOTH),
]
STATES = 40
COMPILED = 500  # operations: what is larger is interpreted, to the same bits
SINGLE = 1e-5  # float32: measured at most 2e-6 over all robots (docs/accuracy.md)


def source(name):
    if "/" not in name:
        return name
    return str(robot_file(name.split("/")[-1] + ".urdf", f"{name}.urdf"))


@lru_cache(maxsize=24)  # those of one robot: they do not depend on the dtype
def traced(model, variant):
    return dynamics_program(model, variant)


def evaluate(model, name, frame, inputs):
    variant, dtype = Variant(name, frame), inputs[0].dtype
    program = traced(model, variant)
    if program.operations <= COMPILED:
        return model.function(name, frame)(*inputs)
    named = dict(zip(input_shapes(model, variant), inputs, strict=True))
    return tuple(reference.evaluate(lower(program, "cpu", dtype), named, dtype).values())


@pytest.fixture(
    scope="module", params=repeated(ROBOTS, 1, spread=False), ids=lambda given: "-".join(given[:2])
)
def robot(request):
    """A file, a root and axes of f_ext. All tests of one robot follow each other, and share what is
    traced.
    """
    return source(request.param[0]), *request.param[1:]


def test_seven_functions_in_float64(robot):
    *which, axes = robot
    report = check(*which, f_ext=(None, *axes), states=STATES, evaluate=evaluate)
    assert report.passed, str(report)
    assert {row.function for row in report.rows} == set(FUNCTIONS)
    assert {row.f_ext for row in report.rows} == {None, *axes}


def test_seven_functions_in_float32(robot):
    *which, _ = robot
    report = check(*which, dtype=np.float32, f_ext=(None,), states=STATES, evaluate=evaluate)
    assert report.passed, str(report)
    for function in ("inverse_dynamics", "mass_matrix", "inverse_dynamics_derivatives"):
        assert report.worst[function] < SINGLE


CART = """<robot name="cart">
  <link name="base"/>
  <link name="cart"><inertial><mass value="2"/>
    <inertia ixx="1" iyy="1.2" izz="1.5" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="drive" type="planar"><parent link="base"/><child link="cart"/>
    <axis xyz="0 0 1"/></joint>
</robot>"""


@full
def test_a_singular_mass_matrix_is_said_to_be_so():
    """A planar joint between ground and planar base: two joints move the same way."""
    report = check(CART, "planar", states=3, f_ext=(None,), evaluate=evaluate)
    assert report.singular == 3
    assert report.passed
    assert "inverse_dynamics" in report.worst
    assert "forward_dynamics" not in report.worst
    assert "M is singular in 3 of 3 states" in str(report)


def test_a_wrong_answer_is_found():
    def wrong(model, name, frame, inputs):
        result = model.function(name, frame)(*inputs)
        if name == "inverse_dynamics":
            result[2, 1] += 1e-6
        return result

    report = check("double_pendulum", states=5, evaluate=wrong)
    assert not report.passed
    failed = [row for row in report.rows if not row.passed]
    assert {row.function for row in failed} == {"inverse_dynamics"}
    assert all(row.state == 2 and row.share > 1 for row in failed)
    assert "TOO LARGE" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["passed"] is False


def test_not_a_number_is_an_error():
    def wrong(model, name, frame, inputs):
        return tuple(
            np.full((len(inputs[0]), *shape), np.nan)
            for shape in model.function(name, frame).outputs.values()
        )

    report = check("double_pendulum", states=2, evaluate=wrong)
    assert not any(row.passed for row in report.rows)


def test_reports_tell_which_state():
    seen = []
    report = check("double_pendulum", states=4, seed=7, progress=seen.append)
    assert seen[:2] == ["inverse_dynamics (1 of 17)", "inverse_dynamics, f_ext body (2 of 17)"]
    assert len(seen) == 17
    told = report.to_dict()
    assert (told["states"], told["seed"], told["passed"]) == (4, 7, True)
    assert str(report).startswith("double_pendulum, fixed root, float64, against pinocchio")


@pytest.mark.parametrize(
    ("name", "root"), repeated([("iiwa14", "planar"), ("iiwa14", "fixed"), ("hyq", "free")])
)
def test_against_mujoco(name, root):
    pytest.importorskip("mujoco")
    report = check(name, root, against="mujoco", evaluate=evaluate, states=20)
    assert report.passed, str(report)
    assert len(report.unavailable) == 3
    assert "not available in mujoco" in str(report)


MJCF = """<mujoco model="mixed"><compiler angle="radian"/><option gravity="0 0 -3"/><worldbody>
  <body name="base"><joint type="free" armature="0.3"/><geom type="box" size=".1 .2 .3"/>
    <body name="arm" pos=".3 0 0">
      <joint name="turn" axis="0 1 0" pos="0.1 0 0" ref="0.4" armature="0.3" damping="1"/>
      <joint name="slide" type="slide" axis="1 0 .2" frictionloss="0.2"/>
      <joint name="roll" axis="0 0 1" pos="0 .1 .1"/><geom type="capsule" size=".05 .2"/>
      <body pos=".3 0 0.4"><joint type="ball" pos="0 .1 .1" armature=".1"/>
        <geom type="capsule" size=".05 .2"/></body></body>
    <body name="other" pos="0 .3 0"><joint name="follower" axis="0 1 0"/>
      <geom type="capsule" size=".05 .2"/></body></body></worldbody>
  <equality><joint joint1="follower" joint2="turn" polycoef="0.1 0.5 0 0 0"/></equality></mujoco>"""


def test_an_mjcf_file_against_mujoco(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "mixed.xml"
    path.write_text(MJCF)
    report = check(path, against="mujoco", evaluate=evaluate, states=10)
    assert report.passed, str(report)
    assert {row.f_ext for row in report.rows} == {None, "body", "world"}
    assert (report.root, len(report.unavailable)) == ("free", 3)
    resisted = "mujoco has no damping and no friction: their torques are added to it"
    for note in ("armature is in both", resisted, "projected", "no f_ext acts on bodies"):
        assert note in str(report)
    with pytest.raises(RuntimeError, match="compared with the root that it has"):
        check(path, "fixed", against="mujoco")
    with pytest.raises(RuntimeError, match="'mixed' is MJCF: compare it with MuJoCo"):
        check(MJCF)


@pytest.mark.parametrize(
    "name", repeated(["ur5e", "franka_panda", "shadow_hand_right", "unitree_go2"])
)
def test_mjcf_files_against_mujoco(name):
    pytest.importorskip("mujoco")
    path = robot_file(f"{name}.xml")
    report = check(path, against="mujoco", evaluate=evaluate, states=5, f_ext=(None, "world"))
    assert report.passed, str(report)


def test_armature_of_a_free_joint_is_compared():
    """MuJoCo's is along the world's axes, and the comparison leaves nothing out."""
    pytest.importorskip("mujoco")
    body = """<mujoco><worldbody><body><joint name="root" type="free" armature="0.04"/>
      <geom type="box" size=".1 .2 .3" mass="1"/></body></worldbody></mujoco>"""
    report = check(body, against="mujoco", evaluate=evaluate, states=3)
    assert (report.passed, "armature is in both" in str(report)) == (True, True)
    assert "w x v" not in str(report)


def test_what_mujoco_refuses_is_told():
    pytest.importorskip("mujoco")
    with pytest.raises(RuntimeError, match="MuJoCo does not load 'mobile_arm'"):
        check("mobile_arm", against="mujoco")


def test_wrong_requests():
    with pytest.raises(ValueError, match="wanted 'pinocchio' or 'mujoco'"):
        check("iiwa14", against="drake")
    with pytest.raises(ValueError, match="wanted float64 or float32"):
        check("iiwa14", dtype=np.float16)
    with pytest.raises(RuntimeError, match=r"pip install 'featherlane\[check\]'"):
        module("no_such_library")


# What peers do not know


LINK = '<inertial><mass value="{}"/><inertia ixx="1" iyy="1.2" izz="1.5" ixy="0" ixz="0" iyz="0"/>'
GRIPPER = f"""<robot name="gripper"><link name="base">{LINK.format(3)}</inertial></link>
  <link name="wrist">{LINK.format(2)}</inertial></link>
  <link name="left">{LINK.format(0.4)}<origin xyz="0.1 0 0.2"/></inertial></link>
  <link name="right">{LINK.format(0.3)}<origin xyz="0 0.1 0.2"/></inertial></link>
  <joint name="wrist" type="revolute"><parent link="base"/><child link="wrist"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>
    <dynamics damping="0.5" friction="0.2"/></joint>
  <joint name="left" type="revolute"><parent link="wrist"/><child link="left"/>
    <origin xyz="0.1 0 0.3" rpy="0.3 0.2 0.1"/><axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/><dynamics damping="0.1"/></joint>
  <joint name="right" type="prismatic"><parent link="wrist"/><child link="right"/>
    <origin xyz="-0.1 0 0.3"/><axis xyz="1 0 0"/>
    <mimic joint="left" multiplier="-0.2" offset="0.1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""


@pytest.mark.parametrize("root", repeated(["fixed", "free", "planar", "spherical", "translation"]))
def test_mimic_joints_damping_and_friction(root):
    report = check(GRIPPER, root, states=10, evaluate=evaluate)
    assert report.passed, str(report)
    assert {row.function for row in report.rows} == set(FUNCTIONS)
    assert report.root == root
    assert "pinocchio has no damping and no friction: their torques are added" in str(report)
    assert "projected from the peer's independent ones" in str(report)


def test_wrong_friction_is_found():
    def wrong(model, name, frame, inputs):
        joints = (replace(model.joints[0], friction=(0.1999,)), *model.joints[1:])
        return evaluate(replace(model, joints=joints), name, frame, inputs)

    report = check(GRIPPER, states=3, evaluate=wrong)
    failed = {(row.function, row.block) for row in report.rows if not row.passed}
    assert ("inverse_dynamics", "tau") in failed
    assert {("inverse_dynamics_derivatives", "dtau_dv"), ("forward_dynamics", "a")} < failed
    assert ("mass_matrix", "M") not in failed


ONE_JOINT = f"""<robot name="one"><link name="base"/>
  <link name="tip">{LINK.format(2)}<origin xyz="0.1 0 0.2"/></inertial></link>
  <joint name="turn" type="continuous"><parent link="base"/><child link="tip"/>
    <axis xyz="0 1 0"/></joint></robot>"""


def test_a_robot_of_one_joint():
    """Pinocchio's matrices of one column are vectors in NumPy."""
    report = check(ONE_JOINT, states=5)
    assert report.passed, str(report)
    assert {row.function for row in report.rows} == set(FUNCTIONS)


def test_dual_numbers_decide_whose_rounding_it_is(monkeypatch):
    right = Pinocchio.inverse_dynamics_derivatives

    def rounded(self, s, frame):
        blocks = right(self, s, frame)
        return {**blocks, "dtau_dv": blocks["dtau_dv"] + 1e-8}

    def wrong(model, name, frame, inputs):
        results = evaluate(model, name, frame, inputs)
        if name == "inverse_dynamics_derivatives":
            results[1][..., 0, 0] += 1e-8
        return results

    monkeypatch.setattr(Pinocchio, "inverse_dynamics_derivatives", rounded)
    report = check(GRIPPER, states=3, evaluate=evaluate)
    rows = [row for row in report.rows if row.share > 1]
    assert {row.function for row in rows} == {
        "inverse_dynamics_derivatives",
        "forward_dynamics_derivatives",
        "forward_dynamics_derivatives_from",
    }
    assert all(row.passed and row.exact < 0.01 for row in rows)
    assert "*: pinocchio rounds" in str(report)
    report = check(GRIPPER, states=3, evaluate=wrong)
    failed = {(row.function, row.block) for row in report.rows if not row.passed}
    assert failed == {("inverse_dynamics_derivatives", "dtau_dv")}


def test_where_m_is_not_positive_definite_nan_is_right(monkeypatch):
    def indefinite(self, s, frame):
        M = right(self, s, frame)["M"]
        return {"M": M * np.where(np.arange(len(M)) == 1, -1.0, 1.0)[:, None, None]}

    right = Pinocchio.mass_matrix
    monkeypatch.setattr(Pinocchio, "mass_matrix", indefinite)
    report = check(ONE_JOINT, states=3, functions=["forward_dynamics"])
    assert (report.passed, report.singular, report.indefinite) == (True, 1, 1)
    assert "M is not positive definite in 1 of these: FD is NaN there" in str(report)


def test_mimic_joints_as_pinocchio_itself_has_them():
    """Where it takes them: in rnea and crba."""
    import pinocchio as pin

    model = comparable(fl.load(GRIPPER, root="free"))[0]
    peer = pin.buildModelFromXML(GRIPPER, pin.JointModelFreeFlyer(), mimic=True)
    change, data = convert.pinocchio(model, peer), peer.createData()
    q = model.random_configuration(4, seed=0)
    v, a = np.random.default_rng(0).normal(size=(2, 4, model.nv))
    there = change.to(q, v=v, a=a)
    assert peer.nv == model.nv == 8
    for k in range(len(q)):
        tau = pin.rnea(peer, data, there.q[k], there.v[k], there.a[k])
        np.testing.assert_allclose(model.inverse_dynamics(q, v, a)[k], tau, rtol=0, atol=1e-12)
        M = np.triu(pin.crba(peer, data, there.q[k]))
        M = change.back(there.q[k], M=M + np.triu(M, 1).T).M
        np.testing.assert_allclose(model.mass_matrix(q)[k], M, rtol=0, atol=1e-12)


def test_roots_that_pinocchios_reader_does_not_know_are_told():
    with pytest.raises(RuntimeError, match="root is 'free-split': wanted fixed, free, planar"):
        check("double_pendulum", "free-split")
    pytest.importorskip("mujoco")
    with pytest.raises(RuntimeError, match="root is 'spherical': wanted fixed, free or planar"):
        check("double_pendulum", "spherical", against="mujoco")


# Conventions


@pytest.mark.parametrize("name", ["mobile_arm", "double_pendulum_description/urdf/"
                                  "double_pendulum_continuous"])  # fmt: skip
def test_configurations_go_to_pinocchio_and_back(name):
    """With its model, or without it as its reader of URDF would make it."""
    model = fl.load(source(name), root="free")
    peer = Pinocchio(xml_text(source(name))[0], model).peer
    q = model.random_configuration((3, 4), seed=0)
    there = convert.to_pinocchio(model, q).q
    np.testing.assert_array_equal(there, convert.to_pinocchio(model, q, peer=peer).q)
    assert there.shape == (3, 4, peer.nq)
    back = convert.from_pinocchio(model, there).q
    np.testing.assert_allclose(model.difference(q, back), 0, atol=1e-14)


def test_a_peer_with_other_joints_is_refused():
    other = Path(fl.__file__).parent / "robot/bundled" / "panda.urdf"
    with pytest.raises(RuntimeError, match="in one of the two models only"):
        Pinocchio(other.read_bytes(), fl.load("iiwa14"))
