"""A robot as the text of a URDF file, and what URDF cannot say of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.constraint_types import name_of
from featherlane.robot.loaders.specs import EARTH_GRAVITY
from featherlane.robot.loaders.words import unused
from featherlane.robot.model import Robot
from featherlane.robot.parts import IDENTITY, NO_MOMENT, WORLD, Body, Joint, Placement
from featherlane.robot.rotations import rpy_angles
from featherlane.robot.unlimited import UNLIMITED

KINDS = {"revolute": "revolute", "prismatic": "prismatic", "planar": "planar", "free": "floating"}
NUMBERS = ("margin", "gap", "contype", "conaffinity", "condim", "priority", "solref", "solimp")
ROOTS = {"fixed": 0, "free": 1, "planar": 1}  # joints of a root that `load` adds itself


class UrdfText(NamedTuple):
    """The text of a file, and sentences on what it does not contain."""

    text: str
    left_out: tuple[str, ...]


def urdf_text(model: Robot) -> UrdfText:
    """Implements `Editing.to_urdf`.

    The root link carries what is fixed to the ground; with a root joint that `load` adds, that
    joint's body is the root link instead, and there is nothing on the ground.
    """
    robot = ET.Element("robot", name=model.name)
    _check_leaders(model)
    hidden, names = _hidden_roots(model), _link_names(model)
    if not hidden:
        _link(robot, names[WORLD], model.ground)
    for i, body in enumerate(model.bodies):
        _link(robot, names[i], body)
    for i, joint in enumerate(model.joints[hidden:], hidden):
        _joint(robot, joint, names[joint.parent], names[i])
    carriers = {name: joint for joint, name in model.fixed_joints}
    taken: set[str | None] = {*model.joint_names, *carriers.values()}
    for frame in model.frames:
        if frame.name in names.values():
            continue
        _link(robot, frame.name, Body(frame.name))
        name = carriers.get(frame.name) or unused(f"{frame.name}_joint", taken)
        _connection(robot, name, "fixed", names[frame.body], frame.name, frame.placement)
    for shape in model.collision_shapes:
        _collision(robot, shape, names[shape.body])
    for name, sliding in _frictions(model, names).items():
        _friction(robot, name, sliding)
    ET.indent(robot)
    text = ET.tostring(robot, encoding="unicode", xml_declaration=True) + "\n"
    return UrdfText(text, tuple(_left_out(model, hidden)))


def _check_leaders(model: Robot) -> None:
    """Raises ValueError for joints that follow one which URDF does not have."""
    for joint in model.joints:
        if joint.mimic and model.joint(joint.mimic.joint).type not in KINDS:
            kind = model.joint(joint.mimic.joint).type
            raise ValueError(
                f"joint {joint.name!r} follows {joint.mimic.joint!r}, which is {kind}: URDF has no "
                "such joint to follow; wanted one that is revolute or prismatic"
            )


def _hidden_roots(model: Robot) -> int:
    """Returns the number of root joints that are not written, because `load(root=)` makes them."""
    count = ROOTS.get(model.root, 0)
    on_ground = [frame for frame in model.frames if frame.body == WORLD]
    others = [joint for joint in model.joints[count:] if joint.parent == WORLD]
    if not count or on_ground or others or model.ground_mass:
        return 0
    return count if model.joints[0].placement == IDENTITY else 0


def _link_names(model: Robot) -> dict[int, str]:
    """Returns the link of each body and of the ground. A body whose name belongs to a frame that is
    elsewhere, as after `rerooted`, has a link of another name.
    """
    taken: set[str | None] = {*model.frame_names, *model.body_names}
    names = {}
    for i, body in enumerate(model.bodies):
        own = [f for f in model.frames if f.name == body.name]
        is_link = all(f.body == i and f.placement == IDENTITY for f in own)
        names[i] = body.name if is_link else unused(f"{body.name}_body", taken)
    rest = [f.name for f in model.frames if f.body == WORLD and f.placement == IDENTITY]
    names[WORLD] = rest[0] if rest else unused("world", taken)
    return names


# Elements


def _numbers(*values: float) -> str:
    return " ".join(repr(float(x)) for x in values)


def _origin(element: ET.Element, place: Placement) -> None:
    if place != IDENTITY:
        rpy = rpy_angles(place.R)
        ET.SubElement(element, "origin", xyz=_numbers(*place.p), rpy=_numbers(*rpy))


def _link(robot: ET.Element, name: str, body: Body) -> None:
    link = ET.SubElement(robot, "link", name=name)
    if body.mass or body.inertia != NO_MOMENT:
        inertial = ET.SubElement(link, "inertial")
        _origin(inertial, Placement(IDENTITY.R, body.com))
        ET.SubElement(inertial, "mass", value=_numbers(body.mass))
        entries = {f"i{'xyz'[i]}{'xyz'[k]}": _numbers(body.inertia[i][k])
                   for i in range(3) for k in range(i, 3)}  # fmt: skip
        ET.SubElement(inertial, "inertia", entries)


def _connection(
    robot: ET.Element, name: str, kind: str, parent: str, child: str, place: Placement
) -> ET.Element:
    joint = ET.SubElement(robot, "joint", name=name, type=kind)
    _origin(joint, place)
    ET.SubElement(joint, "parent", link=parent)
    ET.SubElement(joint, "child", link=child)
    return joint


def _joint(robot: ET.Element, joint: Joint, parent: str, child: str) -> None:
    kind = _kind(joint)
    element = _connection(robot, joint.name, kind, parent, child, joint.placement)
    if kind == "fixed":
        return
    if joint.kind.axis:
        ET.SubElement(element, "axis", xyz=_numbers(*joint.axis))
    limits = _limits(joint, kind)
    if limits:
        ET.SubElement(element, "limit", limits)
    physics = {"damping": joint.damping[:1], "friction": joint.friction[:1]}
    if any(map(any, physics.values())):
        figures = {name: _numbers(*x) for name, x in physics.items() if any(x)}
        ET.SubElement(element, "dynamics", figures)
    if joint.mimic:
        leader, multiplier, offset = joint.mimic
        law = {"joint": leader, "multiplier": _numbers(multiplier), "offset": _numbers(offset)}
        ET.SubElement(element, "mimic", law)


def _collision(robot: ET.Element, shape: CollisionShape, link: str) -> None:
    """Adds a shape to the link of its body; URDF has full lengths."""
    size, tag = shape.size, str(shape.kind)
    if tag == "box":
        figures = {"size": _numbers(*(2 * x for x in size))}
    elif tag == "sphere":
        figures = {"radius": _numbers(*size)}
    elif tag in ("cylinder", "capsule"):
        figures = {"radius": _numbers(size[0]), "length": _numbers(2 * size[1])}
    elif tag == "hull" and shape.robot_file and shape.mesh:
        tag, figures = "mesh", {"filename": _url(shape), "scale": _numbers(*shape.mesh.scale)}
    else:
        return
    carrier = next(element for element in robot.findall("link") if element.get("name") == link)
    collision = ET.SubElement(carrier, "collision", name=shape.name)
    _origin(collision, shape.placement)
    ET.SubElement(ET.SubElement(collision, "geometry"), tag, figures)


def _url(shape: CollisionShape) -> str:
    """Returns the name of a mesh that another folder's file may have: a package, or a path."""
    assert shape.mesh is not None
    name = shape.mesh.name
    return name if "://" in name else os.path.join(os.path.dirname(shape.robot_file), name)


def _frictions(model: Robot, names: Mapping[int, str]) -> dict[str, float]:
    """Returns the sliding friction of links all of whose shapes have the same, but not the usual
    one.
    """
    values: dict[str, set[float]] = {}
    for shape in model.collision_shapes:
        values.setdefault(names[shape.body], set()).add(shape.friction[0])
    single = {name: next(iter(x)) for name, x in values.items() if len(x) == 1}
    return {name: x for name, x in single.items() if x != CollisionShape.friction[0]}


def _friction(robot: ET.Element, link: str, sliding: float) -> None:
    gazebo = ET.SubElement(robot, "gazebo", reference=link)
    for tag in ("mu1", "mu2"):
        ET.SubElement(gazebo, tag).text = _numbers(sliding)


def _kind(joint: Joint) -> str:
    """Returns the type of a joint in URDF; joints that it lacks are fixed."""
    if joint.type == "revolute" and not _is_limited(joint):
        return "continuous"
    return KINDS.get(joint.type, "fixed")


def _is_limited(joint: Joint) -> bool:
    return any(map(isfinite, (*joint.lower, *joint.upper)))


def _limits(joint: Joint, kind: str) -> dict[str, str]:
    """Returns the attributes of <limit>; figures that stand for none are UNLIMITED."""
    values: dict[str, float] = {}
    if kind in ("revolute", "prismatic"):
        lower, upper = (x[0] if x else sign * UNLIMITED
                        for x, sign in ((joint.lower, -1), (joint.upper, 1)))  # fmt: skip
        values = {"lower": max(lower, -UNLIMITED), "upper": min(upper, UNLIMITED)}
    rates = {"velocity": joint.velocity, "effort": joint.effort}
    if values or any(map(isfinite, rates.values())):
        values |= {name: min(x, UNLIMITED) for name, x in rates.items()}
    return {name: _numbers(x) for name, x in values.items()}


# What is left out


def _left_out(model: Robot, hidden: int) -> Iterator[str]:
    if hidden:
        yield f"the root joint: load with root={model.root!r}"
    for joint in model.joints:
        yield from _left_out_of(joint)
    if model.gravity != EARTH_GRAVITY:
        yield f"gravity: load with gravity={model.gravity}"
    if model.friction_velocity != Robot.friction_velocity:
        yield f"friction_velocity: {model.friction_velocity:g} by with_physics"
    for what in ("actuators", "named_configurations"):
        if getattr(model, what):
            yield f"{what}: {', '.join(x.name for x in getattr(model, what))}"
    yield from _left_out_of_shapes(model)
    if model.loop_closures:
        yield f"loops: {', '.join(name_of(x.constraint) for x in model.loop_closures)}"


def _left_out_of_shapes(model: Robot) -> Iterator[str]:
    """Yields what is left out of collision shapes."""
    kinds = ("plane", "ellipsoid")
    lost = [s for s in model.collision_shapes if s.kind in kinds or (s.points and not s.robot_file)]
    if lost:
        yield f"collision shapes: {', '.join(s.title for s in lost)}"
    usual = {s.name: CollisionShape(s.name, s.kind, s.size) for s in model.collision_shapes}
    changed = [
        s.name
        for s in model.collision_shapes
        if s not in lost and any(getattr(s, x) != getattr(usual[s.name], x) for x in NUMBERS)
    ]
    if changed:
        yield f"numbers for contacts, but sliding friction, of: {', '.join(changed)}"
    if model.collision_pairs or model.collision_exclusions:
        yield "contact pairs and exclusions"


def _left_out_of(joint: Joint) -> Iterator[str]:
    if joint.type not in KINDS:
        yield f"joint {joint.name!r}, which is {joint.type}: fixed at its neutral position"
        return
    for what in ("armature", "stiffness", "limit_stiffness"):
        if np.any(getattr(joint, what)):
            yield f"{what} of joint {joint.name!r}"
    for what in ("damping", "friction"):
        if len({*getattr(joint, what)}) > 1:
            yield f"{what} of joint {joint.name!r}, except for the first entry"
    if joint.type in ("planar", "free") and _is_limited(joint):
        yield f"position limits of joint {joint.name!r}"
