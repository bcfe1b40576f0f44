"""New figures for armature, damping, friction, springs and gravity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from featherlane.robot.conditioning import noted
from featherlane.robot.model import Robot
from featherlane.robot.parts import Joint, floats

M = TypeVar("M", bound=Robot)
SPRING = ("stiffness", "spring_reference")


def with_physics(
    model: M,
    armature: Any = None,
    damping: Any = None,
    friction: Any = None,
    friction_velocity: float | None = None,
    stiffness: Any = None,
    spring_reference: Any = None,
) -> M:
    """Implements `Editing.with_physics`."""
    figures = {"armature": armature, "damping": damping, "friction": friction}
    figures |= {"stiffness": stiffness, "spring_reference": spring_reference}
    values = {name: _per_dof(model, name, x) for name, x in figures.items() if x is not None}
    changed = [*values, *([] if friction_velocity is None else ["friction_velocity"])]
    if not changed:
        return model
    new = replace(
        model,
        joints=tuple(
            replace(joint, **_of_joint(joint, dofs, values))
            for joint, dofs in zip(model.joints, model.dofs, strict=True)
        ),
        friction_velocity=_speed(model, friction_velocity),
    )
    return noted(model, new, f"set by the user: {', '.join(changed)}")


def with_gravity(model: M, gravity: Sequence[float]) -> M:
    """Implements `Editing.with_gravity`."""
    g = _numbers("gravity", gravity)
    if g.shape != (3,):
        raise ValueError(f"gravity has shape {g.shape}: wanted 3 numbers, as in (0, 0, -9.81)")
    if not np.all(np.isfinite(g)):
        raise ValueError(f"gravity is {gravity!r}: wanted finite numbers, in m/s^2")
    return replace(model, gravity=floats(g))


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}: wanted numbers") from None


def _per_dof(model: Robot, name: str, value: Any) -> np.ndarray:
    x = _numbers(name, value)
    if x.shape not in ((), (model.nv,)):
        hint = "" if model.nq == model.nv else f", not per coordinate (nq = {model.nq})"
        raise ValueError(
            f"{name} has shape {x.shape}: wanted one number, or (nv,) = ({model.nv},), one per "
            f"degree of freedom{hint}"
        )
    if name == "spring_reference" and np.all(np.isfinite(x)):
        return np.broadcast_to(x, (model.nv,))
    if not np.all(np.isfinite(x)) or np.any(x < 0):
        raise ValueError(
            f"{name} has entries that are negative or not finite: wanted finite, 0 or more"
        )
    if name == "stiffness" and x.shape:
        _check_springs(model, x)
    return np.broadcast_to(x, (model.nv,))


def _check_springs(model: Robot, stiffness: np.ndarray) -> None:
    """Raises ValueError for springs on joints of several degrees of freedom."""
    for joint, dofs in zip(model.joints, model.dofs, strict=True):
        if len(dofs) > 1 and stiffness[dofs.start : dofs.stop].any():
            raise ValueError(
                f"stiffness is not 0 for joint {joint.name!r}, which is {joint.type}: springs are "
                "on joints of one degree of freedom"
            )


def _of_joint(joint: Joint, dofs: range, values: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the values of a joint. A mimic joint has none: its leader has those of both."""
    entries = {name: x[dofs.start : dofs.stop] for name, x in values.items()}
    if len(dofs) > 1:  # a number for all joints means those that may have a spring
        entries |= {name: np.zeros(0) for name in SPRING if name in entries}
    return {name: floats(x) if x.any() and not joint.mimic else () for name, x in entries.items()}


def _speed(model: Robot, value: Any) -> float:
    if value is None:
        return model.friction_velocity
    x = _numbers("friction_velocity", value)
    if x.shape or not 0 < x < np.inf:
        raise ValueError(f"friction_velocity is {value!r}: wanted one number above 0, rad/s or m/s")
    return float(x)
