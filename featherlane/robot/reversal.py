"""Reversal of joints: how a robot's tree may hang from another body.

Where a joint places its body at P E(q) on the parent, the reversed joint places the parent at
E(q)^-1 P^-1 on the body. A `Reversal` says by which fields and coordinates E(q)^-1 is a joint of
the same type; each joint type has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from featherlane.robot.quaternions import conjugate, quaternion_turn, unit_quaternion

Array = np.ndarray
Floats = tuple[float, ...]
Joint = Any  # a `robot.parts.Joint`, which has one of these types
Fields = dict[str, Any]


def _same(q: Array) -> Array:
    return q


class Reversal(NamedTuple):
    """The reversal of a type of joint, in both directions."""

    fields: Callable[[Joint], Fields]
    """The reversed joint's fields that differ, but for its parent and placement."""
    q: Callable[[Array], Array] = _same
    """The reversed joint's coordinates (..., nq)."""
    velocity: Literal["same", "swapped", "moved"] = "same"
    """v of the reversed joint: the same, in reversed order, or -Ad_E v, the velocity of the parent
    as seen from the body.
    """
    keeps: Callable[[str, Floats], bool] = lambda name, figures: True
    """keeps(name, figures): whether the reversed joint has the same armature, damping or friction,
    as it does where these are the same in all directions of its motion.
    """
    keeps_limits: bool = True


def _negative(axis: Floats) -> Floats:
    return tuple(0.0 - x for x in axis)


def _swapped(joint: Joint) -> Fields:
    per_axis = ("lower", "upper", "armature", "damping", "friction")
    axes = {"axis": _negative(joint.axis2), "axis2": _negative(joint.axis)}
    return axes | {name: getattr(joint, name)[::-1] for name in per_axis}


def _mirrored(joint: Joint) -> Fields:
    return {"lower": _negative(joint.upper), "upper": _negative(joint.lower)}


def _unlimited(joint: Joint) -> Fields:
    return {"lower": (), "upper": ()}


def _planar_inverse(q: Array) -> Array:
    x, y, angle = np.moveaxis(q, -1, 0)
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([-c * x - s * y, s * x - c * y, -angle], -1)


def _free_inverse(q: Array) -> Array:
    back = conjugate(unit_quaternion(q[..., 3:]))
    return np.concatenate([-quaternion_turn(back, q[..., :3]), back], -1)


def _isotropic(name: str, figures: Floats) -> bool:
    return name != "friction" and len(set(figures)) == 1


def _none(name: str, figures: Floats) -> bool:
    return False


OTHER_AXIS = Reversal(lambda joint: {"axis": _negative(joint.axis)})
"""Of joints that turn about their axis and slide along it: the same q, about the other axis."""
SWAPPED_AXES = Reversal(_swapped, lambda q: q[..., ::-1], "swapped")
MIRRORED = Reversal(_mirrored, np.negative, "moved")
"""Of joints with XJ(q)^-1 = XJ(-q), as all with one degree of freedom: the motion backwards."""
CONJUGATE = Reversal(_unlimited, conjugate, "moved", _isotropic, keeps_limits=False)
IN_THE_PLANE = Reversal(_unlimited, _planar_inverse, "moved", _none, keeps_limits=False)
OF_A_POSE = Reversal(_unlimited, _free_inverse, "moved", _none, keeps_limits=False)
