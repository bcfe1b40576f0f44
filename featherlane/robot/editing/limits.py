"""Other limits of positions, velocities and forces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from featherlane.robot.model import Robot
from featherlane.robot.parts import Joint, floats
from featherlane.robot.values import numbers

M = TypeVar("M", bound=Robot)


def with_joint_limits(model: M, **limits: Any) -> M:
    """Implements `Editing.with_joint_limits`."""
    changed = {name: x for name, x in limits.items() if x is not None}
    if not changed:
        return model
    fields: dict[str, dict[str, Any]] = {joint.name: {} for joint in model.joints}
    for name, values in changed.items():
        for joint, value in _by_joint(model, name, values).items():
            fields[joint][name] = value
    joints = tuple(_limited(joint, fields[joint.name]) for joint in model.joints)
    notes = *model.notes, f"set by the user: limits ({', '.join(changed)})"
    return replace(model, joints=joints, notes=notes)


def _by_joint(model: Robot, name: str, values: Any) -> dict[str, Any]:
    """Returns the new field of each joint that the values are for."""
    of_position = name in ("lower", "upper")
    if isinstance(values, Mapping):
        return {key: _limit(model.joint(key), name, value) for key, value in values.items()}
    count, first = (model.nq, model.first_q) if of_position else (model.nv, model.first_v)
    shapes = ((), (count,))
    entries = np.broadcast_to(numbers(values, shapes, name, "the joints"), count)
    return {
        model.joints[i].name: _limit(
            model.joints[i], name, entries[first[i] :][: _size(kind, name)]
        )
        for i, kind in enumerate(model.types)
        if i in model.independent
    }


def _size(kind: Any, name: str) -> int:
    return int(kind.nq if name in ("lower", "upper") else kind.nv)


def _limit(joint: Joint, name: str, value: Any) -> Any:
    """Returns the field of a joint: a number for each entry of q, or one for velocity and effort,
    which is the same for all entries of v.
    """
    size, where = _size(joint.kind, name), f"joint {joint.name!r}"
    entries = np.broadcast_to(numbers(value, ((), (size,)), name, where), size)
    if name in ("lower", "upper"):
        return floats(entries)
    if len({*entries.tolist()}) > 1:
        raise ValueError(
            f"{name} of {where} is {value}: wanted one number, the limit of each of its entries"
        )
    return float(entries[0])


def _limited(joint: Joint, fields: dict[str, Any]) -> Joint:
    """Returns a joint with other limits, where it has limits on both sides or on none."""
    if not fields.keys() & {"lower", "upper"}:
        return replace(joint, **fields)
    none = (np.inf,) * joint.kind.nq
    ends = {"lower": joint.lower or tuple(-x for x in none), "upper": joint.upper or none}
    new = replace(joint, **(ends | fields))
    _check_room(new)
    return new


def _check_room(joint: Joint) -> None:
    if any(low >= high for low, high in zip(joint.lower, joint.upper, strict=False)):
        raise ValueError(
            f"limits of joint {joint.name!r} are {joint.lower} and {joint.upper}: wanted lower "
            "limits below upper ones, infinite for none"
        )
