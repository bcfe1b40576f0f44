"""Rerooting: a floating robot whose free joint carries another of its bodies.

The joints on the path to the old root body are reversed (`robot.reversal`): a joint that placed its
body at P E(q) on the parent now places the parent at E(q)^-1 P^-1 on its body. The frame of a body
is that of the joint which carries it, so the frame of the old parent moves to P on that body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from featherlane.robot.editing.names import index
from featherlane.robot.loaders.words import quoted
from featherlane.robot.model import Robot
from featherlane.robot.named_configurations import NamedConfiguration
from featherlane.robot.parts import IDENTITY, WORLD, Frame, Joint, Placement, floats, joined
from featherlane.robot.walk import children, path_to_root

M = TypeVar("M", bound=Robot)


def on_free_joint(model: M, new: int) -> M:
    """Returns the same robot with body `new` on the free joint."""
    path = path_to_root(model.parent, new)
    _check_root(model, path)
    if len(path) == 1:
        return model
    for j in path:
        _check_physics(model.joints[j])
    shifts = [IDENTITY] * model.nbodies  # placements of the new body frames in the old ones
    for below, above in pairwise(path):
        shifts[above] = model.joints[below].placement
    order, carried, joints = _joints(model, path, shifts)
    place = {WORLD: WORLD} | {carried[j]: k for k, j in enumerate(order)}
    back = [shift.inverse() for shift in shifts]
    return replace(
        model,
        joints=tuple(replace(joints[j], parent=place[joints[j].parent]) for j in order),
        bodies=tuple(
            joined(model.bodies[b].name, [(model.bodies[b], back[b])])
            for b in (carried[j] for j in order)
        ),
        frames=tuple(
            f if f.body == WORLD else Frame(f.name, place[f.body], back[f.body] * f.placement)
            for f in model.frames
        ),
        collision_shapes=tuple(
            s if s.body == WORLD else s.on(place[s.body], back[s.body])
            for s in model.collision_shapes
        ),
        named_configurations=tuple(_reversed(c, model, path) for c in model.named_configurations),
        notes=(*model.notes, *_notes(model, path)),
    )


def _reversed(
    configuration: NamedConfiguration, model: Robot, path: Sequence[int]
) -> NamedConfiguration:
    """Returns the configuration with the coordinates of reversed joints, and without the free
    joint's, which carries another body now.
    """
    reversals = {model.joints[j].name: model.types[j].reversal for j in path[:-1]}
    root = model.joints[path[-1]].name
    joints = []
    for name, q in configuration.joints:
        if name in reversals:
            q = floats(reversals[name].q(np.array(q)))
        joints += [(name, q)] if name != root else []
    return configuration._replace(joints=tuple(joints))


def _joints(
    model: Robot, path: Sequence[int], shifts: Sequence[Placement]
) -> tuple[list[int], list[int], list[Joint]]:
    """Returns the joints' new order, and for each joint the body that it then carries and the joint
    itself. All indices, of parents too, are the old ones.
    """
    joints, carried = list(model.joints), list(range(model.nbodies))
    for j, joint in enumerate(joints):
        if joint.parent != WORLD and shifts[joint.parent] != IDENTITY:
            joints[j] = replace(joint, placement=shifts[joint.parent].inverse() * joint.placement)
    for below, above in pairwise(path):
        joint = model.joints[below]
        fields = joint.kind.reversal.fields(joint)
        placement = shifts[below].inverse()
        joints[below] = replace(joint, **fields, parent=below, placement=placement)
        carried[below] = above
    joints[path[-1]] = replace(model.joints[path[-1]], lower=(), upper=())
    carried[path[-1]] = path[0]
    return _depth_first([joint.parent for joint in joints], carried), carried, joints


def _depth_first(parents: Sequence[int], carried: Sequence[int]) -> list[int]:
    below = children(parents)
    order, stack = [], below[WORLD][::-1]
    while stack:
        order.append(stack.pop())
        stack.extend(below[carried[order[-1]]][::-1])
    return order


# What cannot be reversed


def _check_root(model: Robot, path: Sequence[int]) -> None:
    root = model.joints[path[-1]]
    if root.type != "free":
        raise ValueError(
            f"body {quoted(model.bodies[path[0]].name)} is in a tree on the {root.type} joint "
            f'{quoted(root.name)}: rerooted wants one on a free joint, load it with root="free"'
        )


def _check_physics(joint: Joint) -> None:
    for what in ("armature", "damping", "friction"):
        figures = getattr(joint, what)
        if any(figures) and not joint.kind.reversal.keeps(what, figures):
            raise ValueError(
                f"joint {quoted(joint.name)} is {joint.type} and has {what} {figures}, which "
                "is not diagonal as seen from the other body: with_physics sets it to zero"
            )


def _notes(model: Robot, path: Sequence[int]) -> Iterator[str]:
    names = ", ".join(model.joint_names[j] for j in reversed(path[:-1]))
    yield f"seen from body {model.bodies[path[0]].name}: these joints are reversed: {names}"
    lost = [
        joint.name
        for joint in (model.joints[j] for j in reversed(path))
        if np.any(np.isfinite((*joint.lower, *joint.upper)))
        and not joint.kind.reversal.keeps_limits
    ]
    root = model.joints[path[-1]].name
    if any(root in dict(configuration.joints) for configuration in model.named_configurations):
        yield (
            "named configurations are without the pose of the free joint, which carries another "
            "body: featherlane.editing.rerooting(...).to(q) converts whole ones"
        )
    if lost:
        yield f"limits dropped, which are none as seen from the other body: {', '.join(lost)}"


def body_number(model: Robot, body: object) -> int:
    """Returns the index of a body by name. Raises ValueError, with the body of a frame of this
    name.
    """
    for frame in model.frames:
        if frame.name == body and body not in model.body_names:
            at = "the ground" if frame.body == WORLD else quoted(model.bodies[frame.body].name)
            raise ValueError(f"{quoted(frame.name)} is a frame on {at}: wanted the name of a body")
    if isinstance(body, str) and body in model.joint_names:
        moved = quoted(model.body_names[model.joint_names.index(body)])
        raise ValueError(f"{quoted(body)} is a joint, which moves the body {moved}")
    return index("body", body, model.body_names)
