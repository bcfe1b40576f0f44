"""Chains of revolute links as URDF, since most peers read nothing else."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np

import featherlane as fl
from featherlane.api.model import Model

SEED = 1


def chain_urdf(links: int, seed: int = SEED) -> str:
    """The robot `featherlane.chain(links, seed)` with every figure in full precision."""
    return urdf(fl.chain(links, seed))


def urdf(model: Model) -> str:
    """A tree of revolute joints as URDF, link `base` carrying what hangs on the world."""
    robot = ET.Element("robot", name=model.name)
    ET.SubElement(robot, "link", name="base")
    names = [body.name for body in model.bodies]
    for joint, body in zip(model.joints, model.bodies, strict=True):
        link = ET.SubElement(robot, "link", name=body.name)
        inertial = ET.SubElement(link, "inertial")
        ET.SubElement(inertial, "origin", xyz=_text(body.com), rpy="0 0 0")
        ET.SubElement(inertial, "mass", value=repr(body.mass))
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia
        moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
        ET.SubElement(inertial, "inertia", {name: repr(x) for name, x in moments.items()})
        made = ET.SubElement(robot, "joint", name=joint.name, type="revolute")
        parent = "base" if joint.parent < 0 else names[joint.parent]
        ET.SubElement(made, "parent", link=parent)
        ET.SubElement(made, "child", link=body.name)
        rpy = _rpy(np.array(joint.placement.R))
        ET.SubElement(made, "origin", xyz=_text(joint.placement.p), rpy=_text(rpy))
        ET.SubElement(made, "axis", xyz=_text(joint.axis))
        ET.SubElement(made, "limit", lower="-3.14", upper="3.14", effort="1e3", velocity="1e2")
    return ET.tostring(robot, encoding="unicode")


def _rpy(R: np.ndarray) -> tuple[float, float, float]:
    """Roll, pitch and yaw of R = Rz(yaw) Ry(pitch) Rx(roll)."""
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    return np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])


def _text(xyz: tuple[float, ...]) -> str:
    return " ".join(repr(float(x)) for x in xyz)
