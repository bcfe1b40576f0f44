"""URDF, by its specification (wiki.ros.org/urdf/XML, version 1.1, and quat_xyzw of 1.2).

Siblings are sorted by name, as urdfdom and so Pinocchio order them. Only kinematics, inertia,
limits, dynamics, mimic and collision shapes are read; visuals and meshes are never opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from featherlane.robot.collision_shapes import placed_on
from featherlane.robot.constants import rotated_matrix
from featherlane.robot.constraint_types import LoopClosure
from featherlane.robot.geometry import NOT_READ
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.loaders.assemble import assemble
from featherlane.robot.loaders.loops import check_links, loop_frames, refuse
from featherlane.robot.loaders.specs import INF, FrameSpec, JointSpec, LinkSpec
from featherlane.robot.loaders.urdf_loops import closes_loop, loop_specs
from featherlane.robot.loaders.urdf_placements import normalised, origin_of
from featherlane.robot.loaders.urdf_shapes import collision_shapes
from featherlane.robot.loaders.words import WARNING, quoted
from featherlane.robot.loaders.xml import Element, expansion_hint, unexpanded
from featherlane.robot.loops import without_rigid_loops
from featherlane.robot.model import Robot
from featherlane.robot.parts import IDENTITY, Floats, Mimic, floats, rows3
from featherlane.robot.spatial import Matrix, Symmetric

URDF_TYPES = {
    "fixed": "fixed",
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "planar": "planar",
    "floating": "free",
}
READ = {  # the child elements that are read; others are ignored and counted
    "robot": {"link", "joint"},
    "link": {"inertial", "collision"},
    "inertial": {"origin", "mass", "inertia"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic"},
}
UNIT = 1e-4  # files print unit vectors with four digits


@dataclass
class Remarks:
    """The card's notes on the file, collected while it is read."""

    ignored: Counter[str] = field(default_factory=Counter)
    unlimited: list[str] = field(default_factory=list)
    crossed: list[str] = field(default_factory=list)
    equal: list[str] = field(default_factory=list)
    not_unit: list[str] = field(default_factory=list)
    normals: list[str] = field(default_factory=list)
    fixed_mimic: list[str] = field(default_factory=list)
    unexpanded: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    friction: list[str] = field(default_factory=list)

    def notes(self) -> Iterator[str]:
        lists = (
            (f"{WARNING}lower limit above upper limit", self.crossed),
            (f"{WARNING}names of a xacro file that is not expanded", self.unexpanded),
            (f"{WARNING}loop closures are dropped, as asked", self.dropped),
            ("mimic of fixed joints, ignored", self.fixed_mimic),
            ("no <limit>, taken as unlimited", self.unlimited),
            ("lower limit equal to the upper one, taken as unlimited", self.equal),
            ("axes made unit vectors", self.not_unit),
            ("planar joints whose normal is not z (Pinocchio takes z)", self.normals),
            (NOT_READ, self.shapes),
            ("friction of links that is not read (mu1 and mu2 of <gazebo> differ)", self.friction),
            ("ignored", [f"{tag} ({count})" for tag, count in self.ignored.most_common()]),
        )
        return (f"{title}: {', '.join(names)}" for title, names in lists if names)

    def count(self, element: Element) -> None:
        self.ignored.update(c.tag for c in element.children() if c.tag not in READ[element.tag])


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused by assemble
def read_urdf(robot: Element, fallback_name: str, loops: str, options: Mapping[str, Any]) -> Robot:
    """Makes the Model of a <robot> element; a ModelError names the line and element at fault.

    loops: "refuse", "keep" or "drop" them. options: root, gravity, mimic and joint_order of
    `assemble`.
    """
    remarks = Remarks()
    remarks.ignored.update(
        e.tag for e in robot.children() if e.tag not in READ["robot"] and not closes_loop(e)
    )
    links = [_link(e, remarks) for e in robot.children() if e.tag == "link"]
    joints = [_joint(e, remarks) for e in robot.children() if e.tag == "joint"]
    if options["joint_order"] != "file":
        joints.sort(key=lambda joint: joint.name)
    names = [link.name for link in links] + [joint.name for joint in joints]
    remarks.unexpanded += filter(unexpanded, names)
    frames, closures = _loops(robot, links, joints, loops, remarks)
    shapes = [*collision_shapes(robot, remarks.shapes, remarks.friction)]
    name, notes = robot.node.get("name") or fallback_name, remarks.notes()
    tree = assemble(name, links, joints, frames, source=robot.source, notes=notes, **options)
    placed = placed_on(tree.frames, shapes)
    return without_rigid_loops(
        replace(tree, loop_closures=tuple(closures), collision_shapes=placed)
    )


def _loops(
    robot: Element,
    links: Sequence[LinkSpec],
    joints: Sequence[JointSpec],
    loops: str,
    remarks: Remarks,
) -> tuple[list[FrameSpec], list[LoopClosure]]:
    """Returns the frames and the constraints of loops, if they are kept."""
    specs = [*loop_specs(robot, joints)]
    names = {link.name for link in links}
    check_links(specs, names)
    if loops == "refuse":
        refuse(specs)
    if loops == "drop":
        remarks.dropped += [spec.name for spec in specs]
        return [], []
    return loop_frames(specs, {*names})


# Links


def _link(element: Element, remarks: Remarks) -> LinkSpec:
    remarks.count(element)
    name = element.text("name")
    inertial = element.child("inertial")
    if inertial is None:
        return LinkSpec(name, where=element.where)
    remarks.count(inertial)
    mass = inertial.required("mass")
    value = mass.number("value")
    if value < 0:
        raise mass.error(f"value={mass.text('value')} kg; wanted 0 or more")
    frame = origin_of(inertial)
    R, I = frame.R, _moments(inertial.required("inertia"))
    if R != IDENTITY.R:
        I = rotated_matrix(R, I)
    return LinkSpec(name, value, frame.p, rows3(I), element.where)


def _moments(element: Element) -> Matrix:
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    return Symmetric(*[element.number(name) for name in names]).rows


# Joints


def _joint(element: Element, remarks: Remarks) -> JointSpec:
    remarks.count(element)
    name, urdf_type = element.text("name"), element.text("type")
    if urdf_type not in URDF_TYPES:
        known = ", ".join(URDF_TYPES)
        problem = f"its type is {quoted(urdf_type)}; wanted one of {known}"
        raise element.error(problem + expansion_hint(urdf_type))
    kind = URDF_TYPES[urdf_type]
    lower, upper, velocity, effort = _limits(element, name, urdf_type, remarks)
    moving = JOINT_TYPES.get(kind)
    damping, friction = _dynamics(element, moving.nv if moving else 0)
    return JointSpec(
        name,
        kind,
        parent=element.required("parent").text("link"),
        child=element.required("child").text("link"),
        placement=origin_of(element),
        axis=_axis(element, name, kind, remarks) if moving and moving.axis else (0.0, 0.0, 1.0),
        mimic=_mimic(element, name, kind, remarks),
        lower=lower,
        upper=upper,
        velocity=velocity,
        effort=effort,
        damping=damping,
        friction=friction,
        where=element.where,
    )


def _axis(joint: Element, name: str, kind: str, remarks: Remarks) -> Floats:
    element = joint.child("axis")
    numbers = (1.0, 0.0, 0.0) if element is None else element.numbers("xyz", "1 0 0")
    axis = normalised(numbers)
    if axis is None:
        raise (element or joint).error("xyz is zero; wanted a direction")
    if np.abs(axis - numbers).max() > UNIT:
        remarks.not_unit.append(name)
    if kind == "planar" and np.abs(axis - [0, 0, 1]).max() > UNIT:
        remarks.normals.append(name)
    return floats(axis)


Limits = tuple[Floats, Floats, float, float]  # lower, upper (empty: none), velocity, effort


def _limits(joint: Element, name: str, urdf_type: str, remarks: Remarks) -> Limits:
    limit = joint.child("limit")
    bounded = urdf_type in ("revolute", "prismatic")
    if limit is None:
        if bounded:
            remarks.unlimited.append(name)
        return (), (), INF, INF
    rates = limit.limit("velocity", INF), limit.limit("effort", INF)
    lower, upper = limit.limit("lower", 0.0), limit.limit("upper", 0.0)
    if not bounded:
        return (), (), *rates
    if lower > upper:
        remarks.crossed.append(f"{name} ({lower:g} > {upper:g})")
    if lower == upper:
        remarks.equal.append(f"{name} ({lower:g})")
    return (lower,), (upper,), *rates


def _dynamics(joint: Element, nv: int) -> tuple[Floats, Floats]:
    """Returns damping and friction, the same for each degree of freedom."""
    element = joint.child("dynamics")
    if element is None:
        return (), ()
    damping, friction = element.number("damping", "0"), element.number("friction", "0")
    return (damping,) * nv if damping else (), (friction,) * nv if friction else ()


def _mimic(joint: Element, name: str, kind: str, remarks: Remarks) -> Mimic | None:
    element = joint.child("mimic")
    if element is None:
        return None
    multiplier, offset = element.number("multiplier", "1"), element.number("offset", "0")
    if kind == "fixed":
        remarks.fixed_mimic.append(name)
    return Mimic(element.text("joint"), multiplier, offset)
