"""Locking of joints: the bodies that they carry become parts of their parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from featherlane.robot.actuators import on_joints
from featherlane.robot.conditioning import noted
from featherlane.robot.constants import total
from featherlane.robot.loaders.tree import Attachment
from featherlane.robot.loaders.words import WARNING, quoted
from featherlane.robot.loops import with_locked, without_rigid_loops
from featherlane.robot.model import Robot
from featherlane.robot.parts import IDENTITY, WORLD, Body, Floats, Frame, Joint, Placement, joined
from featherlane.robot.quaternions import near_unit
from featherlane.robot.spatial import NO_TURN, ZERO3, Transform
from featherlane.robot.tree_of import tree_of

M = TypeVar("M", bound=Robot)


def reduced(model: M, lock: Mapping[str, Any]) -> M:
    """Implements `Editing.reduced`."""
    if not isinstance(lock, Mapping):
        wanted = "a dict of positions by joint, as in {'elbow': 0}"
        raise TypeError(f"lock is {type(lock).__name__}: wanted {wanted}")
    if not lock:
        return model
    q, locked = _locked(model, lock)
    attached = _attached(model, q, locked)
    moving = [i for i in range(model.nbodies) if i not in locked]
    parts: dict[int, list[tuple[Body, Placement]]] = {k: [] for k in range(WORLD, len(moving))}
    for body, at in zip(model.bodies, attached, strict=False):
        parts[at.body].append((body, at.placement))
    grounded = total(body.mass for body, _ in parts[WORLD])
    names = {name: name for name in (model.joints[i].name for i in moving)}
    smaller = replace(
        model,
        joints=tuple(_joint(model.joints[i], attached) for i in moving),
        bodies=tuple(joined(model.bodies[i].name, parts[k]) for k, i in enumerate(moving)),
        frames=tuple(_frame(frame, attached) for frame in model.frames),
        collision_shapes=tuple(shape.on(*attached[shape.body]) for shape in model.collision_shapes),
        root=_root(model, locked),
        ground=joined("", [(model.ground, IDENTITY), *parts[WORLD]]),
        actuators=on_joints(model.actuators, names),
        named_configurations=tuple(c.of_joints(names) for c in model.named_configurations),
        fixed_joints=(*model.fixed_joints, *_stopped(model, locked)),
        loop_closures=with_locked(model, _positions(model, q, locked)),
    )
    return without_rigid_loops(noted(model, smaller, *_notes(model, q, locked, grounded)))


def _stopped(model: Robot, locked: frozenset[int]) -> Iterator[tuple[str, str]]:
    """Yields locked joints as fixed ones, with the frames that they carry."""
    for i in sorted(locked):
        if model.bodies[i].name in model.frame_names:
            yield model.joints[i].name, model.bodies[i].name


# The locked joints and their positions


def _locked(model: Robot, lock: Mapping[str, Any]) -> tuple[np.ndarray, frozenset[int]]:
    """Returns q (nq,) with the locked joints in place, and these joints with their followers."""
    q = np.concatenate([model.types[i].neutral for i in model.independent])
    for name, value in lock.items():
        joint = model.joint(name)
        if joint.mimic:
            raise ValueError(
                f"joint {quoted(name)} has no position, it is {joint.mimic}: lock "
                f"{quoted(joint.mimic.joint)}, and it stands still with it"
            )
        first = model.first_q[model.joints.index(joint)]
        q[first : first + joint.kind.nq] = _position(joint, value)
    joints = {
        i
        for i, joint in enumerate(model.joints)
        if (joint.mimic.joint if joint.mimic else joint.name) in lock
    }
    return q, frozenset(joints)


def _positions(model: Robot, q: np.ndarray, locked: frozenset[int]) -> dict[str, float]:
    """Returns the positions of locked joints with one coordinate."""
    single = [i for i in locked if model.types[i].nq == 1 and not model.joints[i].mimic]
    return {model.joints[i].name: float(q[model.first_q[i]]) for i in single}


def _position(joint: Joint, value: Any) -> np.ndarray:
    """Returns the position (nq,) that a joint is locked at."""
    if value is None:
        return np.array(joint.kind.neutral)
    where, nq = f"the position of joint {quoted(joint.name)}", joint.kind.nq
    try:
        position = np.array(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{where} is {value!r}: wanted numbers, or None for the neutral") from None
    if position.shape != (nq,) and (position.shape or nq != 1):
        wanted = "a number" if nq == 1 else f"{nq} numbers, {joint.kind.description}"
        raise ValueError(f"{where} has shape {position.shape}: wanted {wanted}")
    if not np.all(np.isfinite(position)):
        raise ValueError(f"{where} is {value!r}: wanted finite numbers")
    for k in joint.kind.quaternions:
        if not position[k : k + 4].any():
            raise ValueError(f"{where} has a quaternion of length 0, which is not an orientation")
        position[k : k + 4] = near_unit(position[k : k + 4])
    return position


def _pose(model: Robot, i: int, q: np.ndarray) -> Placement:
    """Returns the placement of body i on its parent at q."""
    tree, p = tree_of(model), model.parent[i]
    stop, rotation = (
        (WORLD, NO_TURN) if p == WORLD else (tree.carriers[p], tree.turns[tree.carriers[p]])
    )
    X, k = tree.point(Frame("", i)).X, tree.carriers[i]
    while k != stop:
        X, k = X @ tree.joint_transform(k, q.tolist()), tree.parent[k]
    X = X @ Transform(rotation, ZERO3)
    return Placement.of(np.array(X.E.rows, float).T, X.r)


def _attached(model: Robot, q: np.ndarray, locked: frozenset[int]) -> list[Attachment]:
    """Returns the attachment of each old body; the last entry, at index WORLD, is the ground's."""
    ground = Attachment(WORLD)
    attached: list[Attachment] = []
    moving = 0
    for i, parent in enumerate(model.parent):
        if i in locked:
            body, place = attached[parent] if parent != WORLD else ground
            attached.append(Attachment(body, place * _pose(model, i, q)))
        else:
            attached.append(Attachment(moving))
            moving += 1
    return [*attached, ground]


def _joint(joint: Joint, attached: Sequence[Attachment]) -> Joint:
    body, place = attached[joint.parent]
    return replace(joint, parent=body, placement=place * joint.placement)


def _frame(frame: Frame, attached: Sequence[Attachment]) -> Frame:
    body, place = attached[frame.body]
    return Frame(frame.name, body, place * frame.placement)


# The card


def _root(model: Robot, locked: frozenset[int]) -> str:
    """Returns the root of the reduced robot: a split root may keep one of its two joints."""
    roots = [i for i, parent in enumerate(model.parent) if parent == WORLD]
    if model.root == "fixed" or not locked & _root_joints(model, roots):
        return model.root
    remaining = sorted(_root_joints(model, roots) - locked)
    return model.joints[remaining[0]].type if remaining else "fixed"


def _root_joints(model: Robot, roots: Sequence[int]) -> frozenset[int]:
    split = [i for i, p in enumerate(model.parent) if p in roots and model.root == "free-split"]
    return frozenset({*roots, *split})


def _notes(model: Robot, q: np.ndarray, locked: frozenset[int], grounded: float) -> Iterator[str]:
    texts = []
    for i in sorted(locked):
        joint, position = model.joints[i], q[model.first_q[i] :][: model.types[i].nq]
        if joint.mimic:
            position = joint.mimic.multiplier * position + joint.mimic.offset
        texts.append(f"{joint.name} at {_written(position)}")
        if _beyond(position, joint.lower, joint.upper):
            yield f"{WARNING}locked beyond its limits: {texts[-1]} (rad, m)"
    yield f"joints locked, what they carry is part of their parents: {', '.join(texts)}"
    if grounded:
        yield f"{grounded:.6g} kg came to rest on the ground with locked joints"


def _beyond(position: np.ndarray, lower: Floats, upper: Floats) -> bool:
    return bool(np.any(position < (lower or -np.inf)) or np.any(position > (upper or np.inf)))


def _written(position: np.ndarray) -> str:
    figures = [f"{x + 0.0:.6g}" for x in position]
    return figures[0] if len(figures) == 1 else f"({', '.join(figures)})"
