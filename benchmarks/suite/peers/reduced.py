"""The robot of a case as a file of its own: moving joints only, every figure in full precision.

Fixed joints are merged, so that a peer has no work with them; nothing follows, rubs or is seen.
URDF for all, SDF for JaxSim, which reads URDF only through Gazebo's program.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

import numpy as np

from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Body

from .base import Case, Unsupported

TYPES = ("revolute", "prismatic")
BASE = "base_of_the_robot"  # the link that is the ground under a fixed root
SOME_MASS = (1.0, (0.0, 0.0, 0.0), ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
Moments = Sequence[Sequence[float]]


def refused(case: Case) -> Unsupported | None:
    """Why the robot cannot be written here, None if it can."""
    model = case.model
    if model.armature.any():
        return Unsupported("the robot has armature, of which a URDF knows nothing")
    if model.root not in ("fixed", "free"):
        return Unsupported(f"a {model.root} root")
    others = {model.types[i].name for i in moving(model)} - set(TYPES)
    if others:
        return Unsupported(f"joints that are {', '.join(sorted(others))}")
    if {joint.parent for joint in model.joints[1:]} & {WORLD} and model.root == "free":
        return Unsupported("more than the root hangs on the ground")
    return None


def moving(model: Robot) -> range:
    """The joints but for a free root."""
    return range(int(model.root == "free"), model.nbodies)


def urdf(model: Robot) -> str:
    """Of a tree of revolute and prismatic joints, its root fixed or free."""
    robot = ET.Element("robot", name="robot")
    ground = [Body(BASE, *SOME_MASS)] if model.root == "fixed" else []
    for body in (*ground, *model.bodies):
        inertial = ET.SubElement(ET.SubElement(robot, "link", name=body.name), "inertial")
        ET.SubElement(inertial, "origin", xyz=_text(body.com), rpy="0 0 0")
        ET.SubElement(inertial, "mass", value=repr(body.mass))
        ET.SubElement(inertial, "inertia", _moments(body.inertia))
    for i in moving(model):
        joint = model.joints[i]
        made = ET.SubElement(robot, "joint", name=joint.name, type=model.types[i].name)
        ET.SubElement(made, "parent", link=_parent(model, i))
        ET.SubElement(made, "child", link=model.bodies[i].name)
        rpy = _rpy(np.array(joint.placement.R))
        ET.SubElement(made, "origin", xyz=_text(joint.placement.p), rpy=_text(rpy))
        ET.SubElement(made, "axis", xyz=_text(joint.axis))
        ET.SubElement(made, "limit", lower="-1000", upper="1000", effort="1e6", velocity="1e6")
    return ET.tostring(robot, encoding="unicode")


def sdf(model: Robot) -> str:
    """The same robot; with a fixed root its base is joined to the world."""
    root = ET.Element("sdf", version="1.10")
    robot = ET.SubElement(root, "model", name="robot")
    if model.root == "fixed":
        _link(robot, BASE, "", *SOME_MASS)
        _joint(robot, "ground", "fixed", "world", BASE)
    for i, body in enumerate(model.bodies):
        at = model.joints[i].name if i in moving(model) else ""
        _link(robot, body.name, at, body.mass, body.com, body.inertia)
    for i in moving(model):
        joint, parent = model.joints[i], _parent(model, i)
        made = _joint(robot, joint.name, model.types[i].name, parent, model.bodies[i].name)
        pose = ET.SubElement(made, "pose", relative_to=parent)
        pose.text = _text([*joint.placement.p, *_rpy(np.array(joint.placement.R))])
        axis = ET.SubElement(made, "axis")
        ET.SubElement(axis, "xyz").text = _text(joint.axis)
        limit = ET.SubElement(axis, "limit")
        for name, value in (("lower", "-1000"), ("upper", "1000")):
            ET.SubElement(limit, name).text = value
    return ET.tostring(root, encoding="unicode")


def _link(
    robot: ET.Element, name: str, at: str, mass: float, com: Sequence[float], inertia: Moments
) -> None:
    link = ET.SubElement(robot, "link", name=name)
    ET.SubElement(link, "pose", {"relative_to": at} if at else {}).text = _text([0.0] * 6)
    inertial = ET.SubElement(link, "inertial")
    ET.SubElement(inertial, "pose").text = _text([*com, 0.0, 0.0, 0.0])
    ET.SubElement(inertial, "mass").text = repr(float(mass))
    moments = ET.SubElement(inertial, "inertia")
    for key, value in _moments(inertia).items():
        ET.SubElement(moments, key).text = value


def _joint(robot: ET.Element, name: str, kind: str, parent: str, child: str) -> ET.Element:
    made = ET.SubElement(robot, "joint", name=name, type=kind)
    ET.SubElement(made, "parent").text = parent
    ET.SubElement(made, "child").text = child
    return made


def _parent(model: Robot, i: int) -> str:
    parent = model.joints[i].parent
    return BASE if parent == WORLD else model.bodies[parent].name


def _moments(inertia: Moments) -> dict[str, str]:
    letters = "xyz"
    pairs = [(i, k) for i in range(3) for k in range(i, 3)]
    return {f"i{letters[i]}{letters[k]}": repr(float(inertia[i][k])) for i, k in pairs}


def _rpy(R: np.ndarray) -> tuple[float, float, float]:
    """Roll, pitch and yaw of R = Rz(yaw) Ry(pitch) Rx(roll), exact at pitches of 90 degrees too:
    the roll is what the yaw that was chosen leaves.
    """
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    yaw = np.arctan2(R[1, 0], R[0, 0])
    s, c = np.sin(yaw), np.cos(yaw)
    roll = np.arctan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return float(roll), float(pitch), float(yaw)


def _text(numbers: Sequence[float]) -> str:
    return " ".join(repr(float(x)) for x in numbers)
