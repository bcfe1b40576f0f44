"""Robots built in Python: the same as from a file, and the same checks."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import featherlane as fl
from featherlane import algorithms
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parts import WORLD, Mimic

MOMENTS = ((1.0, 0.1, 0.0), (0.1, 1.5, 0.2), (0.0, 0.2, 2.0))
URDF = """<robot name="arm">
<link name="base"/>
<link name="upper"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/>
  <inertia ixx="1" ixy="0.1" ixz="0" iyy="1.5" iyz="0.2" izz="2"/></inertial></link>
<link name="fore"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="1"/>
  <inertia ixx="1" ixy="0.1" ixz="0" iyy="1.5" iyz="0.2" izz="2"/></inertial></link>
<link name="tool"/>
<joint name="elbow" type="prismatic"><parent link="upper"/><child link="fore"/>
  <origin xyz="0 1 0" rpy="0.1 0.2 0.3"/><axis xyz="0 0.6 0.8"/>
  <mimic joint="shoulder" multiplier="2" offset="0.1"/></joint>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
  <axis xyz="0 1 0"/><limit lower="-1" upper="2" velocity="3" effort="4"/>
  <dynamics damping="0.1" friction="0.2"/></joint>
<joint name="weld" type="fixed"><parent link="fore"/><child link="tool"/>
  <origin xyz="0 0 1"/></joint>
</robot>"""


def arm():
    b = fl.ModelBuilder("arm")
    b.link("base")
    b.link("upper", mass=2, com=(0.1, 0.2, 0.3), inertia=MOMENTS)
    b.link("fore", mass=1, com=np.array([0.1, 0.2, 0.3]), inertia=np.array(MOMENTS))
    b.link("tool")
    b.joint(
        "elbow",
        "prismatic",
        parent="upper",
        child="fore",
        xyz=(0, 1, 0),
        rpy=(0.1, 0.2, 0.3),
        axis=(0, 3, 4),
        mimic=("shoulder", 2, 0.1),
    )
    limits = {"lower": -1, "upper": 2, "velocity": 3, "effort": 4}
    physics = {"damping": 0.1, "friction": 0.2}
    b.joint("shoulder", "revolute", "base", "upper", axis=(0, 1, 0), **limits, **physics)
    b.joint("weld", "fixed", "fore", "tool", xyz=(0, 0, 1))
    return b


def pendulum(**options):
    b = fl.ModelBuilder()
    b.link("base")
    b.link("rod", mass=1, com=(0, 0, -1))
    b.joint("swing", options.pop("type", "revolute"), "base", "rod", **options)
    return b


@pytest.mark.parametrize("options", [{}, {"root": "free-split"}, {"mimic": "keep"}])
def test_the_same_as_from_a_file(options):
    built, loaded = arm().build(**options), fl.load(URDF, **options)
    same = {"source": "", "notes": ()}
    assert built.nv == loaded.nv
    for mine, theirs in zip(built.joints, loaded.joints, strict=True):
        assert np.allclose(mine.axis, theirs.axis, atol=1e-15)
    built, loaded = (
        replace(m, joints=tuple(replace(j, axis=(0, 0, 1)) for j in m.joints), **same)
        for m in (built, loaded)
    )
    assert built == loaded


def test_a_built_robot_is_a_model_like_any_other():
    model = arm().build(root="free", gravity=(0, 0, -1), joint_order="breadth-first")
    assert type(model) is fl.Model
    assert (model.name, model.gravity, model.root) == ("arm", (0, 0, -1), "free")
    assert pickle.loads(pickle.dumps(model)) == model
    assert "arm, built in Python" in str(model)
    assert np.isfinite(model.mass_matrix(model.neutral())).all()


def test_frames_ride_on_links_behind_fixed_joints():
    b = arm()
    b.frame("tip", on="tool", xyz=(1, 0, 0), rpy=(0, 0, np.pi / 2))
    b.frame("mark", on="base", R=np.diag([-1, -1, 1]))
    model = b.build()
    assert model.frame_names[-2:] == ("tip", "mark")
    tip = model.frame("tip")
    assert (model.bodies[tip.body].name, tip.placement.p) == ("fore", (1, 0, 1))
    assert np.allclose(tip.placement.R, [[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    assert model.frame("mark").body == WORLD


def test_siblings_are_in_the_order_in_which_they_were_added():
    b = fl.ModelBuilder()
    b.joint("z", "revolute", "base", "l1")
    b.joint("a", "revolute", "base", "l2")
    for name in ("l2", "base", "l1"):
        b.link(name, mass=1, inertia=(1, 1, 1))
    assert b.build().joint_names == ("z", "a")


@pytest.mark.parametrize("type", JOINT_TYPES)
def test_every_type_with_all_it_can_have(type):
    kind = JOINT_TYPES[type]
    given = {
        "axis": (0, 3, 4),
        "axis2": (2, 0, 0),
        "pitch": 0.2,
        "lower": [-1] * kind.nq,
        "upper": np.ones(kind.nq),
        "armature": np.arange(1, kind.nv + 1),
        "damping": 0.5,
    }
    model = pendulum(type=type, **given).build()
    joint = model.joints[0]
    assert (joint.type, joint.axis2, joint.pitch) == (type, (1, 0, 0), 0.2)
    assert np.allclose(joint.axis, (0, 0.6, 0.8), atol=1e-15)
    assert (joint.lower, joint.upper) == ((-1,) * kind.nq, (1,) * kind.nq)
    assert list(model.armature) == list(range(1, kind.nv + 1))
    assert list(model.damping) == [0.5] * kind.nv
    assert f"swing  {type}" in str(model)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("a", Mimic("a")), (("a", 2), Mimic("a", 2)), (Mimic("a", 3, 4), Mimic("a", 3, 4))],
)
def test_mimic_in_three_ways(given, wanted):
    b = pendulum(mimic=given)
    b.link("other", mass=1, inertia=(1, 1, 1))
    b.joint("a", "prismatic", "base", "other")
    assert b.build().joints[0].mimic == wanted


# What is refused


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"type": "hinge"}, ValueError, "type of joint 'swing' is 'hinge'; wanted one of 'fixed'"),
        ({"axis": (0, 0, 0)}, ValueError, "axis of joint 'swing' is zero"),
        ({"axis": (0, 0)}, ValueError, r"axis of joint 'swing' has shape \(2,\); wanted \(3,\)"),
        ({"axis": "z"}, TypeError, "axis of joint 'swing' is 'z'; wanted numbers"),
        ({"xyz": (0, np.nan, 0)}, ValueError, "xyz of joint 'swing'.*finite"),
        ({"rpy": (0, 0, 0), "R": np.eye(3)}, ValueError, "both rpy and R"),
        ({"R": np.diag([1, 1, -1])}, ValueError, "not a rotation matrix"),
        ({"R": 2 * np.eye(3)}, ValueError, "not a rotation matrix"),
        ({"lower": (1, 2)}, ValueError, r"lower of joint 'swing' has shape \(2,\)"),
        ({"lower": 1, "upper": 0}, ValueError, "limits of joint 'swing' are crossed"),
        ({"damping": np.inf}, ValueError, "damping of joint 'swing'"),
        ({"velocity": "fast"}, TypeError, "velocity of joint 'swing' is 'fast'"),
        ({"armature": -1}, ValueError, "armature of joint 'swing' is -1; wanted zero or more"),
        ({"damping": [-1]}, ValueError, r"damping of joint 'swing' is \[-1\]; wanted zero or more"),
        ({"friction": -1}, ValueError, "friction of joint 'swing' is -1; wanted zero or more"),
        ({"effort": -1}, ValueError, "effort of joint 'swing' is -1; wanted zero or more"),
        ({"velocity": -np.inf}, ValueError, "velocity of joint 'swing' is -inf; wanted zero"),
        ({"mimic": 3}, TypeError, r"mimic of joint 'swing' is 3; wanted \(joint, multiplier, offs"),
        ({"pitch": None}, (TypeError, ValueError), "pitch of joint 'swing'"),
        ({"mimic": ("a", 1, 2, 3)}, ValueError, "mimic of joint 'swing'"),
        ({"mimic": (1, 2)}, TypeError, "mimic of joint 'swing' is 1; wanted a str"),
        ({"mimic": ("a", "b")}, TypeError, "mimic of joint 'swing'"),
    ],
)
def test_wrong_arguments_of_a_joint(given, error, words):
    with pytest.raises(error, match=words):
        pendulum(**given)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"mass": "heavy"}, TypeError, "mass of link 'a' is 'heavy'; wanted numbers"),
        ({"mass": -1}, ValueError, "mass of link 'a' is -1; wanted zero or more"),
        ({"mass": (1, 2)}, ValueError, "mass of link 'a' has shape"),
        ({"inertia": (1, 2)}, ValueError, r"wanted \(3,\) or \(3, 3\)"),
        ({"inertia": np.triu(np.ones((3, 3)))}, ValueError, "inertia of link 'a' is not symmetric"),
        ({"com": (1, 2, np.inf)}, ValueError, "com of link 'a'"),
    ],
)
def test_wrong_arguments_of_a_link(given, error, words):
    with pytest.raises(error, match=words):
        fl.ModelBuilder().link("a", **given)


def test_names_are_texts():
    with pytest.raises(TypeError, match="name of a link is 3"):
        fl.ModelBuilder().link(3)
    with pytest.raises(ValueError, match="on of frame 'f' is empty"):
        fl.ModelBuilder().frame("f", on=" ")


def unbuildable(build, words):
    b = pendulum()
    build(b)
    with pytest.raises(fl.ModelError, match=words):
        b.build()


def test_what_makes_no_robot_is_told_by_call():
    unbuildable(lambda b: b.link("rod"), r"link 'rod': the name is taken by another link")
    unbuildable(lambda b: b.link("lost"), r"link 'lost': the robot has 2 root links")
    unbuildable(lambda b: b.joint("j", "free", "rod", "no"), "joint 'j': its child link 'no'")
    unbuildable(lambda b: b.joint("swing", "free", "rod", "x"), "joint 'swing': the name is taken")
    unbuildable(lambda b: b.joint("j", "fixed", "rod", "base"), "joint 'j': its links form a loop")
    unbuildable(lambda b: b.frame("f", on="no"), "frame 'f': its link 'no' does not exist")
    unbuildable(lambda b: b.frame("rod", on="rod"), "frame 'rod': the name is taken by a link")
    unbuildable(lambda b: [b.frame("f", on="rod"), b.frame("f", on="rod")], "another frame")
    with pytest.raises(fl.ModelError, match="no links"):
        fl.ModelBuilder().build()
    with pytest.raises(fl.ModelError, match="joint 'swing': its axis and axis2 are parallel"):
        pendulum(type="universal", axis=(0, 0, 1), axis2=(0, 0, -2)).build()
    with pytest.raises(fl.ModelError, match=r"joint 'swing': it mimics 'swong'.*'swing'"):
        pendulum(mimic="swong").build()
    with pytest.raises(ValueError, match="joint_order"):
        pendulum().build(joint_order="by size")


def test_an_armature_is_inertia_enough():
    b = fl.ModelBuilder()
    b.link("base")
    b.link("rotor")
    b.joint("spin", "revolute", "base", "rotor", armature=0.1)
    assert b.build().mass_matrix([0.0]) == [[0.1]]


# Random trees


def test_random_trees_have_every_type_screws_and_skew_axes():
    model = fl.random_tree(200, seed=0)
    assert {joint.type for joint in model.joints} == set(JOINT_TYPES)
    screws = [joint.pitch for joint in model.joints if joint.type == "helical"]
    assert len(set(screws)) == len(screws) > 5
    crosses = [abs(np.dot(j.axis, j.axis2)) for j in model.joints if j.type == "universal"]
    assert 0.1 < max(crosses) < 0.8
    assert not any(joint.armature or joint.mimic for joint in model.joints)


def test_random_trees_with_mimic_joints_and_physics():
    model = fl.random_tree(40, mimic=0.5, physics=True, seed=1)
    followers = [j for j in model.joints if j.mimic]
    assert len(followers) == round(0.5 * sum(j.kind.nv == 1 for j in model.joints))
    leaders = {model.joints[i].name for i in model.independent}
    assert {joint.mimic.joint for joint in followers} <= leaders
    assert (model.armature > 0).all()
    assert (model.damping > 0).all()
    assert (model.friction > 0).all()
    assert model == fl.random_tree(40, mimic=0.5, physics=True, seed=1)
    q = model.random_configuration(seed=0)
    M = np.array(algorithms.mass_matrix(model.tree, q), float)
    assert np.linalg.eigvalsh(M)[0] > 0


def test_a_share_of_mimic_joints_leaves_a_leader():
    model = fl.random_tree(4, joint_types=["revolute"], mimic=1, seed=0)
    assert model.nv == 1
    assert fl.random_tree(1, joint_types=["revolute"], mimic=1, seed=0).nv == 1
    with pytest.raises(ValueError, match="mimic is 2"):
        fl.random_tree(4, mimic=2)
