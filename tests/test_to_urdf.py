"""Robots written as URDF and read again: the same robot, and a list of what URDF does not say."""

from dataclasses import replace

import numpy as np
import pytest
import textbook
from numpy.testing import assert_allclose

import featherlane as fl

KINDS = ("revolute", "prismatic", "planar", "free", "revolute", "revolute", "prismatic")
FIGURES = ("lower", "upper", "velocity", "effort", "damping", "friction", "mimic", "type")


def again(model, path, **options):
    left_out = model.to_urdf(path)
    options = {"joint_order": "file"} | options
    return fl.load(path, **options), left_out


def same(one, other, tolerance=1e-13):
    assert other.joint_names == one.joint_names
    assert other.body_names == one.body_names
    for joint, read in zip(one.joints, other.joints, strict=True):
        for name in FIGURES:
            if getattr(joint, name):
                assert getattr(read, name) == getattr(joint, name)
        assert not joint.kind.axis or read.axis == joint.axis
        assert_allclose(read.placement.R, joint.placement.R, atol=1e-15)
        assert read.placement.p == joint.placement.p
    for body, read in zip(one.bodies, other.bodies, strict=True):
        assert (read.mass, read.com) == (body.mass, body.com)
        assert_allclose(read.inertia, body.inertia, rtol=0, atol=1e-15)
    assert other.ground_mass == one.ground_mass
    assert {*other.frame_names} >= {*one.frame_names}
    for frame in one.frames:
        read = other.frame(frame.name)
        assert read.body == frame.body
        for x, y in zip(read.placement, frame.placement, strict=True):
            assert_allclose(x, y, rtol=0, atol=1e-14)
    rng = np.random.default_rng(0)
    q, (v, a) = one.random_configuration(4, seed=0), rng.normal(size=(2, 4, one.nv))
    tau = textbook.rnea(one, q, v, a)
    assert_allclose(textbook.rnea(other, q, v, a), tau, rtol=0, atol=tolerance * np.abs(tau).max())


@pytest.mark.parametrize("name", ["iiwa14", "panda", "mobile_arm", "double_pendulum", "hyq"])
def test_bundled_robots(name, tmp_path):
    model = fl.load(name)
    other, left_out = again(model, tmp_path / "robot.urdf")
    same(model, other)
    assert {*other.fixed_joints} >= {*model.fixed_joints}
    assert left_out == ()


def test_a_root_is_made_by_load(tmp_path):
    model = fl.load("hyq", root="free")
    other, left_out = again(model, tmp_path / "robot.urdf", root="free")
    same(model, other)
    assert left_out == ("the root joint: load with root='free'",)


def test_joints_frames_limits_and_followers(tmp_path):
    model = textbook.tree(KINDS, (-1, 0, 1, 2, 0, 4, 5), seed=3, mimic={5: 4})
    limits = {"lower": (-0.1,), "upper": (0.3,), "velocity": 2.5, "effort": 1 / 3}
    joints = [
        replace(joint, **limits, damping=(0.1,), friction=(0.7,)) if joint.kind.nv == 1 else joint
        for joint in model.joints
    ]
    planar = replace(joints[2], axis=(0.0, 0.6, 0.8), lower=(), upper=())
    joints[2:3] = [planar]
    model = replace(model, joints=tuple(joints)).with_frame(
        "tool <1>", on=model.frames[3].name, xyz=(0.1, 1 / 3, 0), rpy=(1, 2, 3)
    )
    other, left_out = again(model, tmp_path / "robot.urdf")
    same(model, other.with_physics(friction_velocity=0.5), 1e-11)
    assert left_out == ("friction_velocity: 0.5 by with_physics",)


def test_what_urdf_does_not_say(tmp_path):
    model = textbook.tree(("revolute", "helical", "revolute"), seed=1, physics=True)
    model = model.with_gravity((0, 0, -1.6))
    model = model.with_joint_limits(lower={"joint0": -1.0}).with_soft_limits(100.0, 0.0)
    other, left_out = again(model, tmp_path / "robot.urdf")
    assert other.joint_names == ("joint0", "joint2")
    assert left_out == (
        "armature of joint 'joint0'",
        "limit_stiffness of joint 'joint0'",
        "joint 'joint1', which is helical: fixed at its neutral position",
        "armature of joint 'joint2'",
        "gravity: load with gravity=(0.0, 0.0, -1.6)",
        "friction_velocity: 0.5 by with_physics",
    )
    locked = model.reduced({"joint1": 0.0})
    q = np.array([0.3, -0.2])
    assert_allclose(
        other.frame_placement(q, "joint2"), locked.frame_placement(q, "joint2"), atol=1e-14
    )
    follower = textbook.tree(("revolute", "helical", "revolute"), mimic={2: 1})
    with pytest.raises(ValueError, match="'joint2' follows 'joint1', which is helical"):
        follower.to_urdf(tmp_path / "other.urdf")


def test_pinocchio_reads_the_same_robot(tmp_path):
    pin = pytest.importorskip("pinocchio")
    arm = fl.load("iiwa14").with_physics(0.0, 0.0, 0.0)
    arm = arm.with_payload("iiwa_link_7", mass=2.0, com=(0, 0, 0.1), inertia=(0.1, 0.1, 0.1))
    arm.to_urdf(tmp_path / "arm.urdf")
    peer = pin.buildModelFromUrdf(str(tmp_path / "arm.urdf"))
    data, (q, v, a) = peer.createData(), np.random.default_rng(0).normal(size=(3, 7))
    assert_allclose(pin.rnea(peer, data, q, v, a), textbook.rnea(arm, q, v, a), atol=1e-10)


def test_collision_shapes(tmp_path):
    place = fl.Placement.of(fl.matrix_from_rpy([0.1, 0.2, 0.3]), (0.1, 1 / 3, -0.2))
    shapes = [
        fl.CollisionShape("ball", "sphere", (0.1,), placement=place),
        fl.CollisionShape("box", "box", (0.1, 0.2, 1 / 3), placement=place),
    ]
    rod = fl.CollisionShape("rod", "capsule", (0.1, 0.2), friction=(0.7, 0.005, 0.0001))
    can = fl.CollisionShape("can", "cylinder", (0.1, 0.2), condim=4)
    egg = fl.CollisionShape("egg", "ellipsoid", (0.1, 0.2, 0.3))
    arm = fl.load("double_pendulum").with_collision_shapes({"link1": shapes, "link2": rod})
    other, left_out = again(arm, tmp_path / "robot.urdf")
    assert left_out == ()
    for shape, read in zip(arm.collision_shapes, other.collision_shapes, strict=True):
        assert_allclose(read.placement.R, shape.placement.R, atol=1e-15)
        assert replace(read, placement=shape.placement) == shape
    more = arm.with_collision_shapes({"link1": [can, egg], "base_link": fl.CollisionShape(
        "floor", "plane")})  # fmt: skip
    other, left_out = again(more, tmp_path / "robot.urdf")
    assert [s.name for s in other.collision_shapes] == ["ball", "box", "can", "rod"]
    assert left_out == (
        "collision shapes: ellipsoid 'egg', plane 'floor'",
        "numbers for contacts, but sliding friction, of: can",
    )
