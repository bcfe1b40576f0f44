"""Loops of a URDF file, which the specification does not know: elements of three dialects.

    <loop_joint name="" type="spherical">          Drake until 2018, and Isaac Sim
      <link1 link="" xyz="" rpy=""/> <link2 link="" xyz="" rpy=""/> <axis xyz=""/>
    <drake:ball_constraint>                        Drake since 2024
    <gazebo><joint name="" type="revolute">        Gazebo, in the elements of SDF

The axis of a `loop_joint` has the same entries in both of its frames. A joint of Gazebo has one
pose, on its child; its place on the parent is that at q = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from featherlane.robot.constants import norm
from featherlane.robot.loaders.loops import LoopEnd, LoopSpec
from featherlane.robot.loaders.specs import JointSpec
from featherlane.robot.loaders.words import quoted
from featherlane.robot.loaders.xml import Element
from featherlane.robot.parts import IDENTITY, Floats, Placement, floats
from featherlane.robot.rotations import rpy_rotation

KINDS = {  # of constraints, by the type of the joint
    "ball": "pin",
    "spherical": "pin",
    "revolute": "hinge",
    "continuous": "hinge",
    "fixed": "weld",
    "weld": "weld",
}
BALL = "drake:ball_constraint"
TAGS = ("loop_joint", BALL)
GROUND = "world"  # of Gazebo; a URDF may have a link of this name


def loop_specs(robot: Element, joints: Sequence[JointSpec]) -> Iterator[LoopSpec]:
    """Yields the loops of a <robot> element. joints: those of its tree."""
    balls = 0
    for element in robot.children():
        if element.tag == "loop_joint":
            yield _loop_joint(element)
        elif element.tag == BALL:
            yield _ball_constraint(element, f"ball_constraint{balls}")
            balls += 1
        else:
            for joint in _gazebo_joints(element):
                yield _gazebo_joint(joint, _placements(joints))


def closes_loop(element: Element) -> bool:
    """Tells whether an element of <robot> is read as a loop."""
    return element.tag in TAGS or bool(_gazebo_joints(element))


def _kind(element: Element) -> str:
    kind = element.text("type")
    if kind not in KINDS:
        wanted = f"wanted one of {', '.join(KINDS)}"
        raise element.error(f"a loop of type {quoted(kind)} is not supported; {wanted}")
    return KINDS[kind]


def _unit(element: Element, axis: Floats) -> Floats:
    """Returns a unit vector along an axis."""
    if not (length := norm(axis)):
        raise element.error("its axis is zero; wanted a direction")
    return floats(np.array(axis) / length)


# Drake and Isaac Sim


def _loop_joint(element: Element) -> LoopSpec:
    first, second = (_end(element.required(tag)) for tag in ("link1", "link2"))
    axis = element.child("axis")
    direction = _unit(element, (1.0, 0.0, 0.0) if axis is None else axis.numbers("xyz"))
    name, kind = element.text("name"), _kind(element)
    return LoopSpec(name, kind, (first, second), direction, element.where)


def _end(element: Element) -> LoopEnd:
    link = element.text("link")
    R = rpy_rotation(*element.numbers("rpy", "0 0 0"))
    return LoopEnd(link, Placement.of(R, element.numbers("xyz", "0 0 0")), link)


def _ball_constraint(element: Element, name: str) -> LoopSpec:
    ends = []
    for body, point in (("body_A", "p_AP"), ("body_B", "p_BQ")):
        link = element.required(f"{BALL}_{body}").text("name")
        p = element.required(f"{BALL}_{point}").numbers("value")
        ends.append(LoopEnd(link, Placement.of(np.eye(3), p), link))
    return LoopSpec(name, "pin", (ends[0], ends[1]), where=element.where)


# Gazebo


def _gazebo_joints(element: Element) -> list[Element]:
    """Returns the joints between links in a <gazebo> element."""
    if element.tag != "gazebo" or element.node.get("reference") is not None:
        return []
    joints = (child for child in element.children() if child.tag == "joint")
    return [joint for joint in joints if not _holds_the_base(joint)]


def _holds_the_base(joint: Element) -> bool:
    """Tells whether a joint of Gazebo fixes the robot to the world, as `root` does here."""
    return joint.node.get("type") == "fixed" and _link(joint, "parent") == GROUND


def _link(joint: Element, tag: str) -> str:
    """Returns the name in <parent> or <child>."""
    return (joint.required(tag).node.text or "").strip()


def _gazebo_joint(joint: Element, placements: dict[str, Placement]) -> LoopSpec:
    """Returns a loop of an SDF joint, where its axis is in its own axes and its pose on its
    child.
    """
    pose, axis = joint.child("pose"), joint.child("axis")
    xyz = None if axis is None else axis.child("xyz")
    elsewhere = [
        f"{e.tag} {a}" for e in (pose, xyz) if e is not None for a in e.node.attrib if e.node.get(a)
    ]
    if axis is not None and axis.child("use_parent_model_frame") is not None:
        elsewhere.append("use_parent_model_frame")
    if elsewhere:
        raise joint.error(
            f"{', '.join(elsewhere)} refers to another frame than that of the joint; wanted a "
            "<loop_joint> with link1 and link2 in its place"
        )
    child, parent = _link(joint, "child"), _link(joint, "parent")
    for link in (child, parent):
        if link not in placements:
            raise joint.error(f"its link {quoted(link)} is in no tree of joints; wanted one")
    x = _numbers(pose, 6) if pose is not None else (0.0,) * 6
    on_child = Placement.of(rpy_rotation(*x[3:]), x[:3])
    on_parent = placements[parent].inverse() * placements[child] * on_child
    direction = _unit(joint, (0.0, 0.0, 1.0) if xyz is None else _numbers(xyz, 3))
    ends = LoopEnd(child, on_child, child), LoopEnd(parent, on_parent, parent)
    return LoopSpec(joint.text("name"), _kind(joint), ends, direction, joint.where)


def _numbers(element: Element, count: int) -> Floats:
    """Returns the numbers in the text of an element."""
    words = (element.node.text or "").split()
    try:
        numbers = tuple(map(float, words))
    except ValueError:
        numbers = ()
    if len(numbers) != count or not np.all(np.isfinite(numbers)):
        raise element.error(f"it holds {quoted(' '.join(words))}; wanted {count} finite numbers")
    return numbers


def _placements(joints: Sequence[JointSpec]) -> dict[str, Placement]:
    """Returns the placement of each link at q = 0, on the root link of its tree."""
    above = {joint.child: joint for joint in joints}
    placements: dict[str, Placement] = {}
    for joint in joints:
        path: list[JointSpec] = []
        link = joint.child
        while link not in placements and link in above and len(path) < len(joints):
            path.append(above[link])
            link = above[link].parent
        place = placements.setdefault(link, IDENTITY)
        for step in reversed(path):
            place = place * step.placement
            placements[step.child] = place
    return placements
