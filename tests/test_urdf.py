"""URDF by its specification: one test per behaviour, on small texts."""

import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from repetition import full, repeated
from robot_files import examples

from featherlane.errors import ModelError
from featherlane.robot.loaders import bundled, load
from featherlane.robot.parts import WORLD

INERTIAL = (
    '<inertial><mass value="{m}"/>'
    '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
)
BODY = INERTIAL.format(m=1)


def link(name, inside=BODY):
    return f'<link name="{name}">{inside}</link>'


def joint(name, parent, child, inside="", type="revolute"):
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{type}">{ends}{inside}</joint>'


def robot(*elements, name="r"):
    return f'<robot name="{name}">' + "\n".join(elements) + "</robot>"


def arm(inside="", type="revolute", body=BODY):
    """One joint, "j", between "base" and "tip"."""
    return robot('<link name="base"/>', link("tip", body), joint("j", "base", "tip", inside, type))


def inertia(xx, yy, zz, m=1.0, xy=0.0):
    moments = f'ixx="{xx}" ixy="{xy}" ixz="0" iyy="{yy}" iyz="0" izz="{zz}"'
    return f'<inertial><mass value="{m}"/><inertia {moments}/></inertial>'


def notes(model, word):
    return [note for note in model.notes if word in note]


def refused(text, *words, **options):
    with pytest.raises(ModelError) as caught:
        load(text, **options)
    for word in words:
        assert word in str(caught.value)


# Sources


def test_bundled_robots_load():
    known = {"iiwa14", "panda", "hyq", "atlas", "g1", "quadruped_arm", "mobile_arm"}
    assert known <= set(bundled())
    for name in bundled():
        for root in ("fixed", "free", "planar"):
            assert load(name, root=root, loops="keep").name == name


def test_sizes_of_bundled_robots():
    assert (load("iiwa14").nq, load("hyq", root="free").nq, load("hyq", root="free").nv) == (
        7,
        19,
        18,
    )
    assert (load("mobile_arm").nq, load("mobile_arm").nv) == (13, 13)


def test_path_text_and_bytes_give_the_same(tmp_path):
    file = tmp_path / "robot.urdf"
    file.write_text(arm())
    told = [
        load(file),
        load(str(file)),
        load(arm()),
        load(arm().encode()),
        load("\ufeff\n " + arm()),
    ]
    assert {model.fingerprint for model in told} == {told[0].fingerprint}
    assert (told[0].source, told[2].source) == (str(file), "<text>")


def test_text_between_triple_quotes_keeps_its_line_numbers():
    text = '\n\n<?xml version="1.0" encoding="latin1"?>\n' + robot(link("é"), "\n", link("é"))
    refused(text, "line 7", "line 4")


def test_encoded_bytes():
    text = f'<?xml version="1.0" encoding="{{}}"?>{robot(link("fuß"))}'
    for encoding in ("utf-8", "utf-16", "iso-8859-1"):
        assert load(text.format(encoding).encode(encoding)).frame_names == ("fuß",)


def test_unknown_name_lists_the_bundled_ones():
    refused("iiwa15", "iiwa15", "no file", "looked for", "iiwa14", "atlas")


def test_what_cannot_be_read(tmp_path):
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)) * 8)
    refused(tmp_path, "directory")
    refused(binary, "binary")
    refused("", "empty")
    refused(b"", "not well-formed")
    refused("a\0b", "cannot be read")


def test_other_formats_are_named():
    refused("<sdf/>", "SDF")
    refused("<html/>", "<html>", "<robot>")


def test_xacro_must_be_expanded(monkeypatch):
    monkeypatch.setitem(sys.modules, "xacrodoc", None)
    declared = '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">{}</robot>'
    refused(declared.format('<xacro:property name="a" value="1"/>'), "xacro", "expanded")
    refused(robot("<xacro:macro/>"), "xacro", "expanded")
    refused(arm('<origin xyz="${x} 0 0"/>'), "xacro", "expanded")
    assert load(declared.format(link("a"))).frame_names == ("a",)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="NoneType"):
        load(None)
    with pytest.raises(ValueError, match=r"'floating'.*'free'"):
        load(arm(), root="floating")
    with pytest.raises(ValueError, match="gravity"):
        load(arm(), gravity=(0, 0))
    with pytest.raises(ValueError, match=r"mimic is 'no'; wanted 'project' or 'keep'"):
        load(arm(), mimic="no")


def test_gravity_is_kept():
    assert load(arm()).gravity == (0.0, 0.0, -9.81)
    assert load(arm(), gravity=(0, 1, 2)).gravity == (0.0, 1.0, 2.0)


# Hostile files


def test_entities_are_refused():
    declared = '<!DOCTYPE robot [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    refused(declared + robot(link("x"), "&a;"), "entities", "'a'")


def test_xml_bomb_is_refused():
    levels = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))
    bomb = f'<!DOCTYPE robot [<!ENTITY e0 "ha">{levels}]>'
    refused(bomb + '<robot name="&e12;"/>')
    refused(bomb + '<robot name="r">&e12;</robot>')


def test_external_dtd_is_not_opened():
    text = '<!DOCTYPE robot SYSTEM "file:///nowhere/robot.dtd">' + robot(link("a"))
    assert load(text).frame_names == ("a",)


def test_malformed_xml_names_the_line():
    refused('<robot name="r">\n<link name="a">\n</robot>', "line 3", "not well-formed")


# Joints


@pytest.mark.parametrize(
    ("given", "kind", "nq", "nv"),
    [
        ("revolute", "revolute", 1, 1),
        ("continuous", "revolute", 1, 1),
        ("prismatic", "prismatic", 1, 1),
        ("planar", "planar", 3, 3),
        ("floating", "free", 7, 6),
    ],
)
def test_types(given, kind, nq, nv):
    model = load(arm(type=given))
    assert (model.joints[0].type, model.nq, model.nv) == (kind, nq, nv)
    assert len(model.joints[0].lower) == len(model.joints[0].upper) == nq


def test_unknown_type_lists_the_known():
    refused(arm(type="ball"), "joint 'j'", "'ball'", "revolute", "floating")


@pytest.mark.parametrize(
    ("given", "axis"),
    [("0 0 -1", (0, 0, -1)), ("0 3 4", (0, 0.6, 0.8)), ("1e-200 0 0", (1, 0, 0))],
)
def test_axis_is_made_a_unit_vector(given, axis):
    model = load(arm(f'<axis xyz="{given}"/>'))
    assert model.joints[0].axis == pytest.approx(axis)
    assert bool(notes(model, "unit")) == (given != "0 0 -1")


def test_missing_axis_is_x():
    assert load(arm()).joints[0].axis == (1, 0, 0)
    assert load(arm("<axis/>")).joints[0].axis == (1, 0, 0)


def test_zero_axis_is_refused():
    refused(arm('<axis xyz="0 0 0"/>'), "joint 'j', <axis>", "zero")


def test_axis_of_a_floating_or_fixed_joint_is_not_read():
    assert load(arm('<axis xyz="0 0 0"/>', type="floating")).nv == 6
    load(robot(link("a"), link("b"), joint("j", "a", "b", '<axis xyz="0 0 0"/>', "fixed")))


def test_planar_normal_other_than_z_is_noted():
    assert not notes(load(arm('<axis xyz="0 0 1"/>', type="planar")), "normal")
    assert notes(load(arm('<axis xyz="0 1 0"/>', type="planar")), "normal")


def test_origin_is_fixed_axis_roll_pitch_yaw():
    r, p, y = 0.3, -0.4, 0.5
    model = load(arm(f'<origin rpy="{r} {p} {y}" xyz="1 2 3"/>'))
    Rx = np.array([[1, 0, 0], [0, math.cos(r), -math.sin(r)], [0, math.sin(r), math.cos(r)]])
    Ry = np.array([[math.cos(p), 0, math.sin(p)], [0, 1, 0], [-math.sin(p), 0, math.cos(p)]])
    Rz = np.array([[math.cos(y), -math.sin(y), 0], [math.sin(y), math.cos(y), 0], [0, 0, 1]])
    assert np.allclose(model.joints[0].placement.R, Rz @ Ry @ Rx, atol=1e-15)
    assert model.joints[0].placement.p == (1, 2, 3)


def test_quaternion_origin():
    turned = load(arm(f'<origin rpy="0 0 {math.pi / 2}"/>')).joints[0].placement
    told = load(arm('<origin quat_xyzw="0 0 2 2"/>')).joints[0].placement
    assert np.allclose(told.R, turned.R, atol=1e-15)
    refused(arm('<origin quat_xyzw="0 0 0 0"/>'), "quat_xyzw is zero")
    refused(arm('<origin quat_xyzw="0 0 0 1" rpy="0 0 0"/>'), "both")


def test_limits():
    j = load(arm('<limit lower="-1" upper="2" velocity="3" effort="4"/>')).joints[0]
    assert (j.lower, j.upper, j.velocity, j.effort) == ((-1,), (2,), 3, 4)


def test_missing_limit_is_unlimited_and_noted():
    model = load(arm())
    assert (model.joints[0].lower, model.joints[0].upper) == ((-math.inf,), (math.inf,))
    assert notes(model, "limit")
    assert not notes(load(arm(type="continuous")), "limit")


def test_limits_of_a_continuous_joint_are_those_of_rates():
    j = load(arm('<limit lower="-1" upper="2" velocity="3" effort="inf"/>', "continuous")).joints[0]
    assert (j.lower, j.upper, j.velocity, j.effort) == ((-math.inf,), (math.inf,), 3, math.inf)


def test_crossed_limits_are_a_warning():
    model = load(arm('<limit lower="1" upper="-1"/>'))
    assert notes(model, "lower limit")[0].startswith("warning: ")


def test_dynamics_are_read():
    model = load(arm('<dynamics damping="0.5" friction="2"/>'))
    assert (model.joints[0].damping, model.joints[0].friction) == ((0.5,), (2,))
    assert (model.damping, model.friction) == ([0.5], [2])
    assert load(arm('<dynamics damping="0"/>')).joints[0].damping == ()
    planar = load(arm('<dynamics damping="0.5"/>', "planar"))
    assert list(planar.damping) == [0.5] * 3
    assert notes(load(arm('<dynamics friction="-1"/>')), "negative friction: j")
    limits = load(arm('<limit lower="-1" upper="1" velocity="-2" effort="-3"/>'))
    assert notes(limits, "warning: negative velocity limits: j")
    assert notes(limits, "warning: negative effort limits: j")
    assert load(arm('<dynamics damping="1"/>', "fixed")).nv == 0


# Links


def test_elements_of_visuals_are_never_taken_for_inertial():
    shape = '<origin xyz="9 9 9"/><geometry><mesh filename="package://no/mesh.stl"/></geometry>'
    looks = f"<visual>{shape}<mass value='9'/></visual><collision>{shape}</collision>"
    body = f'{looks}<inertial><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
    body += '<mass value="2"/><origin xyz="1 2 3"/></inertial>'
    told = load(arm(body=body))
    assert (told.bodies[0].mass, told.bodies[0].com) == (2, (1, 2, 3))
    assert "visual (1)" in notes(told, "ignored")[0]


def test_inertial_axes_turn_the_inertia():
    body = inertia(1, 2, 2.5).replace("<mass", f'<origin rpy="0 0 {math.pi / 2}"/><mass')
    assert np.allclose(load(arm(body=body)).bodies[0].inertia, np.diag([2, 1, 2.5]))


def test_order_of_elements_does_not_matter():
    text = robot(joint("j", "base", "tip"), link("tip"), '<link name="base"/>')
    assert load(text).fingerprint == load(arm()).fingerprint


def test_ignored_elements_are_counted_by_tag():
    text = robot(link("a"), "<gazebo/>", "<gazebo/>", "<ros2_control/>", "<transmission/>")
    (note,) = notes(load(text), "ignored")
    assert "gazebo (2)" in note
    assert "ros2_control (1)" in note


def test_fixed_joints_are_merged_and_links_stay_as_frames():
    tool = joint("weld", "tip", "tool", '<origin xyz="1 0 0" rpy="0 0 1"/>', "fixed")
    elements = link("base", ""), link("tip", inertia(1, 1, 1, 1)), link("tool", inertia(1, 1, 1, 3))
    model = load(robot(*elements, joint("j", "base", "tip"), tool))
    assert model.joint_names == ("j",)
    assert model.frame_names == ("base", "tip", "tool")
    assert (model.bodies[0].mass, model.bodies[0].com) == (4, (0.75, 0, 0))
    assert np.allclose(model.bodies[0].inertia, np.diag([2, 2.75, 2.75]))
    assert (model.frames[2].body, model.frames[2].placement.p) == (0, (1, 0, 0))
    assert notes(model, "1 fixed joint merged")


def test_a_joint_behind_a_fixed_one_hangs_on_the_same_body():
    weld = joint("weld", "a", "b", '<origin xyz="1 0 0"/>', "fixed")
    turn = joint("turn", "b", "c", '<origin xyz="0 1 0"/>')
    model = load(robot(link("a"), link("b"), link("c"), weld, turn), root="free")
    assert model.parent == (WORLD, 0)
    assert model.joints[1].placement.p == (1, 1, 0)


def test_siblings_are_sorted_by_name_depth_first():
    links = [link(name) for name in "pqrs"]
    joints = joint("z", "p", "q"), joint("b", "p", "r"), joint("a", "q", "s")
    assert load(robot(*links, *joints)).joint_names == ("b", "z", "a")


# Roots


def test_fixed_root_is_the_ground():
    model = load(robot(link("a", INERTIAL.format(m=5)), link("b"), joint("j", "a", "b")))
    assert (model.nbodies, model.ground_mass, model.mass) == (1, 5, 1)
    assert model.frames[0].body == WORLD
    assert notes(model, "5 kg")


@pytest.mark.parametrize(("root", "nq", "nv"), [("free", 8, 7), ("planar", 4, 4)])
def test_moving_root(root, nq, nv):
    model = load(robot(link("a"), link("b"), joint("j", "a", "b")), root=root)
    assert model.joint_names == ("root_joint", "j")
    assert (model.joints[0].type, model.bodies[0].name) == (root, "a")
    assert (model.nq, model.nv, model.ground_mass, model.root) == (nq, nv, 0, root)


def test_root_joint_makes_way_for_one_of_that_name():
    text = robot(link("a"), link("b"), joint("root_joint", "a", "b"))
    assert load(text, root="free").joint_names == ("root_joint_", "root_joint")


def test_a_robot_without_joints_is_told():
    assert notes(load(robot(link("a"))), "no moving joint")[0].startswith("warning: ")
    assert load(robot(link("a")), root="free").nv == 6


# Refused trees


def test_no_links():
    refused(robot(), "no links")


def test_duplicate_names_say_where_both_are():
    refused(robot(link("a"), "", link("a")), "line 3", "link 'a'", "line 1")
    twice = joint("j", "a", "b"), joint("j", "b", "c")
    refused(robot(link("a"), link("b"), link("c"), *twice), "joint 'j'", "line 4", "line 5")


def test_unknown_links():
    refused(robot(link("a"), joint("j", "a", "b")), "joint 'j'", "child link 'b'")
    refused(robot(link("a"), joint("j", "b", "a")), "joint 'j'", "parent link 'b'")


def test_two_parents():
    joints = joint("j", "a", "c"), joint("k", "b", "c"), joint("l", "a", "b")
    refused(robot(link("a"), link("b"), link("c"), *joints), "joint 'k'", "'c'", "joint 'j'")


def test_loops():
    ring = joint("j", "a", "b"), joint("k", "b", "a")
    refused(robot(link("a"), link("b"), *ring), "loop", "'a'", "'b'")
    refused(robot(link("a"), joint("j", "a", "a")), "loop", "joint 'j'")
    refused(
        robot(link("a"), link("b"), link("c"), joint("j", "b", "c"), joint("k", "c", "b")), "loop"
    )


def test_several_roots():
    refused(robot(link("a"), link("b"), link("c"), joint("j", "a", "b")), "2 root links", "'c'")


# Refused figures


@pytest.mark.parametrize("number", ["nan", "inf", "1e999", "1,0", "0x10", "1_0", "", "1 2", "٣"])
def test_numbers_that_are_none(number):
    refused(
        arm(body=INERTIAL.format(m=number)), "link 'tip', <inertial>, <mass>", "value", "number"
    )


def test_wrong_count_of_numbers():
    refused(arm('<origin xyz="1 2"/>'), "joint 'j', <origin>", "'1 2'", "3 numbers")


def test_negative_mass():
    refused(arm(body=INERTIAL.format(m=-1)), "line 2", "link 'tip'", "-1 kg")


@pytest.mark.parametrize("tag", ["mass", "inertia"])
def test_inertial_without_its_parts(tag):
    body = BODY.replace(f"<{tag} ", "<other ")
    refused(arm(body=body), "link 'tip', <inertial>", f"<{tag}>")


def test_missing_moment():
    refused(arm(body=BODY.replace('ixy="0"', "")), "<inertia>", "'ixy'", "missing")


def test_missing_names_and_ends():
    refused(robot("<link/>"), "<link>", "'name'", "missing")
    refused(robot(link("a"), '<joint name="j" type="fixed"><child link="a"/></joint>'), "<parent>")
    refused(robot(link("a"), '<joint name="j"/>'), "joint 'j'", "'type'")


def test_two_elements_where_one_is_meant():
    refused(arm(body=BODY + BODY.replace("1", "2")), "link 'tip', <inertial>", "another <inertial>")


def test_figures_too_large_to_compute_with():
    refused(arm(body=BODY.replace("<mass", '<origin xyz="1e200 0 0"/><mass')), "too large")


# Suspicious inertias


def test_negative_moment_is_accepted_with_a_warning():
    model = load(arm(body=inertia(1, 1, -0.5)))
    assert model.bodies[0].inertia[2][2] == -0.5
    assert "tip (-0.5)" in notes(model, "warning: negative principal moment")[0]


def test_triangle_inequality_is_a_warning():
    assert "tip (2 < 3)" in notes(load(arm(body=inertia(1, 1, 3))), "warning: inertias")[0]
    assert not notes(load(arm(body=inertia(1, 1, 2.000001))), "triangle")


def test_massless_leaf_is_a_warning():
    for body in ("", inertia(0, 0, 0, m=0)):
        assert "j (tip)" in notes(load(arm(body=body)), "warning: joints that move no mass")[0]


def test_massless_link_between_two_joints_is_accepted():
    joints = joint("j", "a", "b"), joint("k", "b", "c", '<axis xyz="0 0 1"/>')
    assert load(robot(link("a"), link("b", ""), link("c"), *joints)).bodies[0].mass == 0


def test_point_mass_on_its_axis_makes_a_singular_mass_matrix():
    model = load(arm(body=inertia(0, 0, 0)))
    assert "resists j" in notes(model, "warning: the mass matrix is singular")[0]


def test_point_mass_off_its_axis_is_a_pendulum():
    body = inertia(0, 0, 0).replace("<mass", '<origin xyz="0 0 1"/><mass')
    model = load(arm(body=body))
    assert not notes(model, "singular")
    assert notes(model, "point mass")


def test_two_sliders_that_move_the_same_way_are_singular():
    joints = joint("j", "a", "b", type="prismatic"), joint("k", "b", "c", type="prismatic")
    model = load(robot(link("a"), link("b", ""), link("c"), *joints))
    assert notes(model, "singular")


# Size, and Pinocchio


@full  # test_loading.py has one of them
@pytest.mark.parametrize("parent", [lambda i: i - 1, lambda i: 0])
def test_two_thousand_links(parent):
    links = [link(f"l{i}") for i in range(2000)]
    joints = [joint(f"j{i}", f"l{parent(i)}", f"l{i}") for i in range(1, 2000)]
    assert load(robot(*links, *joints)).nv == 1999


def example_files():
    folder = examples()
    return sorted(folder.rglob("*.urdf") if folder else ()) + [
        Path(__file__).parent.parent / f"featherlane/robot/bundled/{n}.urdf" for n in bundled()
    ]


REFUSED = {"ur3.urdf": "no links"}


@pytest.mark.parametrize("root", repeated(["free", "fixed"]))
@pytest.mark.parametrize("file", example_files(), ids=lambda file: file.name)
def test_same_as_pinocchio(file, root):
    pin = pytest.importorskip("pinocchio")
    if file.name in REFUSED:
        return refused(file, REFUSED[file.name], root=root)
    if file.name == "alex_psyonic_hands.urdf":
        refused(file, "'Left_index_q2'", "mimics 'index_q1'", "'Left_index_q1'", 'mimic="keep"')
    base = [pin.JointModelFreeFlyer()] if root == "free" else []
    theirs = pin.buildModelFromUrdf(os.fspath(file), *base)
    ours = load(file, root=root, mimic="keep", loops="drop")
    assert list(ours.joint_names) == list(theirs.names)[1:]
    assert [i + 1 for i in ours.parent] == list(theirs.parents)[1:]
    assert ours.ground_mass == pytest.approx(theirs.inertias[0].mass, abs=1e-12)
    for k, (j, b) in enumerate(zip(ours.joints, ours.bodies, strict=True), 1):
        I, place = theirs.inertias[k], theirs.jointPlacements[k]
        assert b.mass == pytest.approx(I.mass, rel=1e-13)
        assert np.allclose(np.multiply(b.com, b.mass), I.lever * I.mass, rtol=0, atol=1e-12)
        assert np.allclose(b.inertia, I.inertia, rtol=0, atol=1e-12)
        assert np.allclose(j.placement.R, place.rotation, rtol=0, atol=1e-12)
        assert np.allclose(j.placement.p, place.translation, rtol=0, atol=1e-12)


def test_planar_joint_integrates_as_pinocchio_does():
    pin = pytest.importorskip("pinocchio")
    text = arm('<axis xyz="0 0 1"/>', "planar")
    theirs, v = pin.buildModelFromXML(text), np.array([0.1, 0.2, 0.3])
    q = load(text).types[0].integrate(np.zeros(3), v)
    assert np.allclose(
        [*q[:2], np.cos(q[2]), np.sin(q[2])], pin.integrate(theirs, pin.neutral(theirs), v)
    )
