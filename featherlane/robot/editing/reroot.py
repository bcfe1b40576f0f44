"""A floating robot seen from another of its bodies.

The free joint carries the new root body, and the joints on the way to the old one are reversed:
where a joint placed its body at P E(q) on the parent, it now places the parent at E(q)^-1 P^-1 on
its body. E(q)^-1 is a joint of the same type. Its frame at q = 0 is on the old parent at P, and
that is where the frame of the old parent, which it now carries, must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from featherlane.robot.editing.names import index
from featherlane.robot.joints import quaternion_turn
from featherlane.robot.loaders.words import quoted
from featherlane.robot.model import IDENTITY, WORLD, Floats, Frame, Joint, Model, Placement, joined

Array = np.ndarray
M = TypeVar("M", bound=Model)


def negative(axis: Floats) -> Floats:
    return tuple(0.0 - x for x in axis)


def _same(q: Array) -> Array:
    return q


def _conjugate(q: Array) -> Array:
    return q * np.array([-1, -1, -1, 1], q.dtype)


def _planar_inverse(q: Array) -> Array:
    x, y, angle = np.moveaxis(q, -1, 0)
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([-c * x - s * y, s * x - c * y, -angle], -1)


def _free_inverse(q: Array) -> Array:
    back = _conjugate(q[..., 3:] / np.linalg.norm(q[..., 3:], axis=-1, keepdims=True))
    return np.concatenate([-quaternion_turn(back, q[..., :3]), back], -1)


def _other_axis(joint: Joint) -> Joint:
    return replace(joint, axis=negative(joint.axis))


def _swapped(joint: Joint) -> Joint:
    pairs = ("lower", "upper", "armature", "damping", "friction")
    turned = {name: getattr(joint, name)[::-1] for name in pairs}
    return replace(joint, axis=negative(joint.axis2), axis2=negative(joint.axis), **turned)


def _mirrored(joint: Joint) -> Joint:
    return replace(joint, lower=negative(joint.upper), upper=negative(joint.lower))


def _unlimited(joint: Joint) -> Joint:
    return replace(joint, lower=(), upper=())


@dataclass(frozen=True)
class Reversal:
    """How a type of joint is reversed: the new joint (but for parent and placement) and its q, the
    same function there and back.

    v: the same; "swapped"; or "moved", -Ad_E v: the motion of the parent as seen from the body.
    keeps: what may resist it, since it is the same in all directions that the motion may take.
    """

    joint: Callable[[Joint], Joint]
    q: Callable[[Array], Array] = _same
    v: str = "same"
    keeps: Callable[[str, Floats], bool] = lambda what, figures: True


def _isotropic(what: str, figures: Floats) -> bool:
    return what != "friction" and len(set(figures)) == 1


def _nothing(what: str, figures: Floats) -> bool:
    return False


ALONG = Reversal(_other_axis)
REVERSALS = {
    "revolute": ALONG,
    "prismatic": ALONG,
    "helical": ALONG,
    "cylindrical": ALONG,
    "universal": Reversal(_swapped, lambda q: q[..., ::-1], "swapped"),
    "translation": Reversal(_mirrored, np.negative, "moved"),
    "spherical": Reversal(_unlimited, _conjugate, "moved", _isotropic),
    "planar": Reversal(_unlimited, _planar_inverse, "moved", _nothing),
    "free": Reversal(_unlimited, _free_inverse, "moved", _nothing),
}


def way_to_root(model: Model, body: int) -> list[int]:
    """The bodies from this one to the root of its tree."""
    way = [body]
    while model.parent[way[-1]] != WORLD:
        way.append(model.parent[way[-1]])
    return way


def turned_round(model: M, new: int) -> M:
    """The same robot with body `new` on the free joint."""
    way = way_to_root(model, new)
    _check_root(model, way)
    if len(way) == 1:
        return model
    for j in way:
        _check_physics(model.joints[j])
    shifts = [IDENTITY] * model.nbodies  # of the new body frames, in the old ones
    for below, above in pairwise(way):
        shifts[above] = model.joints[below].placement
    order, carried, joints = _joints(model, way, shifts)
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
        notes=(*model.notes, *_notes(model, way)),
    )


def _joints(
    model: Model, way: Sequence[int], shifts: Sequence[Placement]
) -> tuple[list[int], list[int], list[Joint]]:
    """The old numbers of the joints in their new order; and by old number the body that each now
    carries, and the joint, whose parent is an old number too.
    """
    joints, carried = list(model.joints), list(range(model.nbodies))
    for j, joint in enumerate(joints):
        if joint.parent != WORLD and shifts[joint.parent] != IDENTITY:
            joints[j] = replace(joint, placement=shifts[joint.parent].inverse() * joint.placement)
    for below, above in pairwise(way):
        turned = REVERSALS[model.joints[below].type].joint(model.joints[below])
        joints[below] = replace(turned, parent=below, placement=shifts[below].inverse())
        carried[below] = above
    joints[way[-1]], carried[way[-1]] = _unlimited(model.joints[way[-1]]), way[0]
    return _depth_first([joint.parent for joint in joints], carried), carried, joints


def _depth_first(parents: Sequence[int], carried: Sequence[int]) -> list[int]:
    below: dict[int, list[int]] = {}
    for j, parent in enumerate(parents):
        below.setdefault(parent, []).append(j)
    order, stack = [], below[WORLD][::-1]
    while stack:
        order.append(stack.pop())
        stack.extend(below.get(carried[order[-1]], [])[::-1])
    return order


# What cannot be turned round


def _check_root(model: Model, way: Sequence[int]) -> None:
    root = model.joints[way[-1]]
    if root.type != "free":
        raise ValueError(
            f"body {quoted(model.bodies[way[0]].name)} is in a tree on the {root.type} joint "
            f'{quoted(root.name)}: rerooted wants one on a free joint, load it with root="free"'
        )


def _check_physics(joint: Joint) -> None:
    for what in ("armature", "damping", "friction"):
        figures = getattr(joint, what)
        if any(figures) and not REVERSALS[joint.type].keeps(what, figures):
            raise ValueError(
                f"joint {quoted(joint.name)} is {joint.type} and has {what} {figures}, which "
                "is not diagonal as seen from the other body: with_physics sets it to zero"
            )


def _notes(model: Model, way: Sequence[int]) -> Iterator[str]:
    names = ", ".join(model.joint_names[j] for j in reversed(way[:-1]))
    yield f"seen from body {model.bodies[way[0]].name}: these joints are reversed: {names}"
    lost = [
        joint.name
        for joint in (model.joints[j] for j in reversed(way))
        if np.any(np.isfinite((*joint.lower, *joint.upper)))
        and REVERSALS[joint.type].joint is _unlimited
    ]
    if lost:
        yield f"limits dropped, which the other body does not see as such: {', '.join(lost)}"


def body_number(model: Model, body: object) -> int:
    """Of a body by name. Raises ValueError, which tells where a frame of that name is."""
    for frame in model.frames:
        if frame.name == body and body not in model.body_names:
            at = "the ground" if frame.body == WORLD else quoted(model.bodies[frame.body].name)
            raise ValueError(f"{quoted(frame.name)} is a frame on {at}: wanted the name of a body")
    return index("body", body, model.body_names)
