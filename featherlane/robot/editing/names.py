"""Renaming of joints, bodies and frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from featherlane.robot.actuators import on_joints
from featherlane.robot.collision_shapes import with_links
from featherlane.robot.loaders.words import near, quoted
from featherlane.robot.loops import renamed_constraint
from featherlane.robot.model import Robot
from featherlane.robot.parts import Mimic

M = TypeVar("M", bound=Robot)
Renaming = Mapping[str, str] | Callable[[str], str] | None
"""{old: new}, or a function from old to new names; None: names stay."""


def renamed(
    model: M, joints: Renaming = None, bodies: Renaming = None, frames: Renaming = None
) -> M:
    """Implements `Editing.renamed`."""
    joint = _new("joint", model.joint_names, joints)
    body = _new("body", model.body_names, bodies)
    frame = _new("frame", model.frame_names, frames)
    followed = {j.name: Mimic(joint[j.mimic.joint], *j.mimic[1:]) for j in model.joints if j.mimic}
    return replace(
        model,
        joints=tuple(
            replace(j, name=joint[j.name], mimic=followed.get(j.name)) for j in model.joints
        ),
        bodies=tuple(replace(b, name=body[b.name]) for b in model.bodies),
        frames=tuple(f._replace(name=frame[f.name]) for f in model.frames),
        collision_shapes=with_links(model.collision_shapes, frame),
        collision_exclusions=tuple((frame[a], frame[b]) for a, b in model.collision_exclusions),
        actuators=on_joints(model.actuators, joint),
        fixed_joints=tuple((name, frame[carried]) for name, carried in model.fixed_joints),
        named_configurations=tuple(c.of_joints(joint) for c in model.named_configurations),
        loop_closures=tuple(
            c._replace(constraint=renamed_constraint(c.constraint, joint, {**joint, **frame}))
            for c in model.loop_closures
        ),
        notes=(*model.notes, *_notes({"joints": joint, "bodies": body, "frames": frame})),
    )


def _new(kind: str, names: Sequence[str], change: Renaming) -> dict[str, str]:
    """Returns the new name of every old one."""
    if isinstance(change, Mapping):
        for name in change:
            index(kind, name, names)
        new = {name: change.get(name, name) for name in names}
    elif change is None or callable(change):
        new = {name: change(name) if change else name for name in names}
    else:
        raise TypeError(
            f"the new names of {kind}s are {type(change).__name__}: wanted a dict of new names by "
            "old ones, or a function from old to new"
        )
    _check(kind, new)
    return new


def _check(kind: str, new: Mapping[str, str]) -> None:
    taken: dict[str, str] = {}
    for old, name in new.items():
        if not isinstance(name, str):
            raise TypeError(f"the new name of {kind} {quoted(old)} is {name!r}: wanted a str")
        if not name.strip():
            raise ValueError(f"the new name of {kind} {quoted(old)} is empty")
        if name in taken:
            raise ValueError(
                f"{kind}s {quoted(taken[name])} and {quoted(old)} would both be named "
                f"{quoted(name)}: names are unique"
            )
        taken[name] = old


def _notes(changes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for kind, new in changes.items():
        changed = [f"{old} -> {name}" for old, name in new.items() if old != name]
        if changed:
            yield f"{kind} renamed: {', '.join(changed)}"


def index(kind: str, name: object, names: Sequence[str]) -> int:
    """Returns the index of a name among a model's joints, bodies or frames."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is not a name of a {kind}: wanted a str")
    if name not in names:
        raise ValueError(f"there is no {kind} {quoted(name)}{near(name, names)}")
    return names.index(name)
