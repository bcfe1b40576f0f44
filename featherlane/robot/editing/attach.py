"""Two robots as one: a tool is fixed to a frame of a robot."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TypeVar

from featherlane.robot.conditioning import noted
from featherlane.robot.editing.names import renamed
from featherlane.robot.editing.reduce import reduced
from featherlane.robot.loaders.roots import FREE_SPLIT
from featherlane.robot.loaders.words import listed, quoted
from featherlane.robot.model import Robot
from featherlane.robot.named_configurations import NamedConfiguration
from featherlane.robot.parts import IDENTITY, WORLD, Frame, Placement, joined

M = TypeVar("M", bound=Robot)
ROOT_JOINTS = {"free": 1, FREE_SPLIT: 2}  # the joints of roots whose place the mounting takes


def attached(robot: M, tool: Robot, at: str, prefix: str = "") -> M:
    """Implements `featherlane.attach`."""
    mount = robot.frame(at)
    _check_friction(robot, tool)
    roots = tool.joints[: ROOT_JOINTS.get(tool.root, 0)]
    grounded = reduced(tool, {joint.name: None for joint in roots})
    part = _with_free_names(robot, replace(grounded, notes=()), prefix)

    def mounted(body: int, placement: Placement) -> tuple[int, Placement]:
        if body == WORLD:
            return mount.body, mount.placement * placement
        return robot.nbodies + body, placement

    places = [mounted(joint.parent, joint.placement) for joint in part.joints]
    carrier = robot.ground if mount.body == WORLD else robot.bodies[mount.body]
    carrier = joined(carrier.name, [(carrier, IDENTITY), (part.ground, mount.placement)])
    bodies = list(robot.bodies)
    if mount.body != WORLD:
        bodies[mount.body] = carrier
    whole = replace(
        robot,
        joints=(
            *robot.joints,
            *(
                replace(joint, parent=body, placement=place)
                for joint, (body, place) in zip(part.joints, places, strict=True)
            ),
        ),
        bodies=(*bodies, *part.bodies),
        frames=(
            *robot.frames,
            *(Frame(f.name, *mounted(f.body, f.placement)) for f in part.frames),
        ),
        ground=carrier if mount.body == WORLD else robot.ground,
        actuators=(*robot.actuators, *part.actuators),
        named_configurations=_configurations(robot, part),
        fixed_joints=(*robot.fixed_joints, *part.fixed_joints),
        loop_closures=(*robot.loop_closures, *part.loop_closures),
        collision_shapes=(
            *robot.collision_shapes,
            *(
                replace(s, body=body, placement=place)
                for s in part.collision_shapes
                for body, place in [mounted(s.body, s.placement)]
            ),
        ),
        collision_pairs=(*robot.collision_pairs, *part.collision_pairs),
        collision_exclusions=(*robot.collision_exclusions, *part.collision_exclusions),
    )
    return noted(robot, whole, f"{tool.name} attached at {at}", *tool.notes, *part.notes)


def _check_friction(robot: Robot, tool: Robot) -> None:
    """Raises ValueError for robots with friction that is smoothed at different speeds."""
    speeds = robot.friction_velocity, tool.friction_velocity
    if speeds[0] != speeds[1] and any(any(joint.friction) for joint in tool.joints):
        raise ValueError(
            f"friction_velocity of {robot.name!r} is {speeds[0]:g} and of {tool.name!r} "
            f"{speeds[1]:g}: wanted the same, with_physics(friction_velocity=...) sets it"
        )


def _with_free_names(robot: Robot, tool: M, prefix: str) -> M:
    """Puts the prefix before all names of the tool, or, without one, the tool's own name before
    those that the robot has already; a note says which.
    """
    start, changed = prefix or f"{tool.name}_", list[str]()

    def names(kind: str, of_tool: Iterable[str], of_robot: Collection[str]) -> dict[str, str]:
        new = {name: start + name if prefix or name in of_robot else name for name in of_tool}
        for name in new.values():
            if name in of_robot:
                raise ValueError(
                    f"{robot.name!r} has the {kind} {quoted(name)} of {tool.name!r}: wanted "
                    "another prefix for its names, as in prefix='left_'"
                )
        changed.extend(name for name, other in new.items() if name != other)
        return new

    fixed, taken = ([name for name, _ in x.fixed_joints] for x in (tool, robot))
    joint = names("joint", [*tool.joint_names, *fixed], {*robot.joint_names, *taken})
    body, frame = (
        names(kind, of_tool, {*robot.body_names, *robot.frame_names})
        for kind, of_tool in (("body", tool.body_names), ("frame", tool.frame_names))
    )
    actuator, shape = (
        names(what, [x.name for x in of_tool], [x.name for x in of_robot])
        for what, of_tool, of_robot in (
            ("actuator", tool.actuators, robot.actuators),
            ("collision shape", tool.collision_shapes, robot.collision_shapes),
        )
    )
    new = renamed(tool, {name: joint[name] for name in tool.joint_names}, body, frame)
    text = (
        f"names of {tool.name} that got the prefix {start!r}: {listed([*dict.fromkeys(changed)])}"
    )
    return replace(
        new,
        actuators=tuple(replace(a, name=actuator[a.name]) for a in new.actuators),
        fixed_joints=tuple((joint[name], carried) for name, carried in new.fixed_joints),
        collision_shapes=tuple(replace(s, name=shape[s.name]) for s in new.collision_shapes),
        collision_pairs=tuple(
            pair._replace(first=shape[pair.first], second=shape[pair.second])
            for pair in new.collision_pairs
        ),
        notes=(text,) if changed else (),
    )


def _configurations(robot: Robot, tool: Robot) -> tuple[NamedConfiguration, ...]:
    """Returns the configurations of both; one of the same name places the joints of both."""
    joints = dict(robot.named_configurations)
    for name, placed in tool.named_configurations:
        joints[name] = (*joints.get(name, ()), *placed)
    return tuple(NamedConfiguration(*item) for item in joints.items())
