"""Joints locked: what they carry becomes part of their parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from featherlane.robot.editing.names import index
from featherlane.robot.loaders.words import WARNING, quoted
from featherlane.robot.model import (
    IDENTITY,
    WORLD,
    Body,
    Floats,
    Frame,
    Joint,
    Model,
    Placement,
    joined,
)
from featherlane.robot.spatial import NO_TURN, ZERO3, Transform
from featherlane.robot.tree_of import tree_of

M = TypeVar("M", bound=Model)


class Hang(NamedTuple):
    """The body that an old body is now part of (or WORLD), and its placement there."""

    body: int
    placement: Placement = IDENTITY


def reduced(model: M, lock: Mapping[str, Any]) -> M:
    """See `Editing.reduced`."""
    if not isinstance(lock, Mapping):
        kind = type(lock).__name__
        raise TypeError(
            f"lock is {kind}: wanted a dict of positions by joint, as in {{'elbow': 0}}"
        )
    if not lock:
        return model
    q, still = _locked(model, lock)
    hangs = _hangs(model, q, still)
    kept = [i for i in range(model.nbodies) if i not in still]
    parts: dict[int, list[tuple[Body, Placement]]] = {k: [] for k in range(WORLD, len(kept))}
    for body, hang in zip(model.bodies, hangs, strict=False):
        parts[hang.body].append((body, hang.placement))
    grounded = sum(body.mass for body, _ in parts[WORLD])
    return replace(
        model,
        joints=tuple(_joint(model.joints[i], hangs) for i in kept),
        bodies=tuple(joined(model.bodies[i].name, parts[k]) for k, i in enumerate(kept)),
        frames=tuple(_frame(frame, hangs) for frame in model.frames),
        root=_root(model, still),
        ground_mass=model.ground_mass + grounded,
        notes=(*model.notes, *_notes(model, q, still, grounded)),
    )


# Which joints stand still, and where


def _locked(model: Model, lock: Mapping[str, Any]) -> tuple[np.ndarray, frozenset[int]]:
    """A configuration (nq,) with the locked joints in place, and those joints with their
    followers.
    """
    q = np.concatenate([model.types[i].neutral for i in model.independent])
    for name, value in lock.items():
        i = index("joint", name, model.joint_names)
        joint = model.joints[i]
        if joint.mimic:
            raise ValueError(
                f"joint {quoted(name)} has no position of its own, it is {joint.mimic}: lock "
                f"{quoted(joint.mimic.joint)}, and it stands still with it"
            )
        first = model.first_q[i]
        q[first : first + joint.kind.nq] = _position(joint, value)
    still = {
        i
        for i, joint in enumerate(model.joints)
        if (joint.mimic.joint if joint.mimic else joint.name) in lock
    }
    return q, frozenset(still)


def _position(joint: Joint, value: Any) -> np.ndarray:
    """Where a joint is locked (nq,)."""
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
    if any(not position[k : k + 4].any() for k in joint.kind.quaternions):
        raise ValueError(f"{where} has a quaternion of length 0, which is no orientation")
    return position


def _pose(model: Model, i: int, q: np.ndarray) -> Placement:
    """Of body i on its parent, at q."""
    tree, p = tree_of(model), model.parent[i]
    stop, turn = (
        (WORLD, NO_TURN) if p == WORLD else (tree.carriers[p], tree.turns[tree.carriers[p]])
    )
    X, k = tree.point(Frame("", i)).X, tree.carriers[i]
    while k != stop:
        X, k = X @ tree.joint_transform(k, q.tolist()), tree.parent[k]
    X = X @ Transform(turn, ZERO3)
    return Placement.of(np.array(X.E.rows, float).T, X.r)


def _hangs(model: Model, q: np.ndarray, still: frozenset[int]) -> list[Hang]:
    """Where each old body is; at the end, so that WORLD finds it, the ground."""
    ground = Hang(WORLD)
    hangs: list[Hang] = []
    moving = 0
    for i, parent in enumerate(model.parent):
        if i in still:
            above = hangs[parent] if parent != WORLD else ground
            hangs.append(Hang(above.body, above.placement * _pose(model, i, q)))
        else:
            hangs.append(Hang(moving))
            moving += 1
    return [*hangs, ground]


def _joint(joint: Joint, hangs: Sequence[Hang]) -> Joint:
    body, place = hangs[joint.parent]
    return replace(joint, parent=body, placement=place * joint.placement)


def _frame(frame: Frame, hangs: Sequence[Hang]) -> Frame:
    body, place = hangs[frame.body]
    return Frame(frame.name, body, place * frame.placement)


# What the card tells


def _root(model: Model, still: frozenset[int]) -> str:
    """What is left of the root: a split one may keep one of its two joints."""
    roots = [i for i, parent in enumerate(model.parent) if parent == WORLD]
    if model.root == "fixed" or not still & _root_joints(model, roots):
        return model.root
    left = sorted(_root_joints(model, roots) - still)
    return model.joints[left[0]].type if left else "fixed"


def _root_joints(model: Model, roots: Sequence[int]) -> frozenset[int]:
    split = [i for i, p in enumerate(model.parent) if p in roots and model.root == "free-split"]
    return frozenset({*roots, *split})


def _notes(model: Model, q: np.ndarray, still: frozenset[int], grounded: float) -> Iterator[str]:
    told = []
    for i in sorted(still):
        joint, own = model.joints[i], q[model.first_q[i] :][: model.types[i].nq]
        position = own if not joint.mimic else joint.mimic.multiplier * own + joint.mimic.offset
        told.append(f"{joint.name} at {_told(position)}")
        if _beyond(position, joint.lower, joint.upper):
            yield f"{WARNING}locked beyond its limits: {told[-1]} (rad, m)"
    yield f"joints locked, what they carry is part of their parents: {', '.join(told)}"
    if grounded:
        yield f"{grounded:.6g} kg came to rest on the ground with locked joints"


def _beyond(position: np.ndarray, lower: Floats, upper: Floats) -> bool:
    return bool(np.any(position < (lower or -np.inf)) or np.any(position > (upper or np.inf)))


def _told(position: np.ndarray) -> str:
    figures = [f"{x + 0.0:.6g}" for x in position]
    return figures[0] if len(figures) == 1 else f"({', '.join(figures)})"
