"""Other figures for what resists the joints, and for gravity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from featherlane.robot.loaders.checks import singular_notes
from featherlane.robot.model import Floats, Joint, Model

M = TypeVar("M", bound=Model)


def with_physics(
    model: M,
    armature: Any = None,
    damping: Any = None,
    friction: Any = None,
    friction_velocity: float | None = None,
) -> M:
    """See `Editing.with_physics`."""
    given = {"armature": armature, "damping": damping, "friction": friction}
    values = {name: _per_dof(model, name, x) for name, x in given.items() if x is not None}
    told = [*values, *([] if friction_velocity is None else ["friction_velocity"])]
    if not told:
        return model
    new = replace(
        model,
        joints=tuple(
            _with(joint, {name: _own(joint, dofs, x) for name, x in values.items()})
            for joint, dofs in zip(model.joints, model.dofs, strict=True)
        ),
        friction_velocity=_speed(model, friction_velocity),
    )
    doubts = set(singular_notes(model))  # about another mass matrix than the new one
    kept = [note for note in model.notes if "armature" not in values or note not in doubts]
    fresh = [note for note in singular_notes(new) if note not in kept]
    return replace(new, notes=(*fresh, *kept, f"set by the user: {', '.join(told)}"))


def with_gravity(model: M, gravity: Sequence[float]) -> M:
    """See `Editing.with_gravity`."""
    g = _numbers("gravity", gravity)
    if g.shape != (3,):
        raise ValueError(f"gravity has shape {g.shape}: wanted 3 numbers, as in (0, 0, -9.81)")
    if not np.all(np.isfinite(g)):
        raise ValueError(f"gravity is {gravity!r}: wanted finite numbers, in m/s^2")
    return replace(model, gravity=_floats(g))


def _numbers(name: str, given: Any) -> np.ndarray:
    try:
        return np.asarray(given, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {given!r}: wanted numbers") from None


def _per_dof(model: Model, name: str, given: Any) -> np.ndarray:
    x = _numbers(name, given)
    if x.shape not in ((), (model.nv,)):
        hint = "" if model.nq == model.nv else f", not per coordinate (nq = {model.nq})"
        raise ValueError(
            f"{name} has shape {x.shape}: wanted one number, or (nv,) = ({model.nv},), one per "
            f"degree of freedom{hint}"
        )
    if not np.all(np.isfinite(x)) or np.any(x < 0):
        raise ValueError(f"{name} has negative or infinite entries: wanted finite, 0 or more")
    return np.broadcast_to(x, (model.nv,))


def _with(joint: Joint, figures: dict[str, Any]) -> Joint:
    return replace(joint, **figures)


def _own(joint: Joint, dofs: range, values: np.ndarray) -> Floats:
    """A joint's share: none for a mimic joint, whose leader has all."""
    own = values[dofs.start : dofs.stop]
    return _floats(own) if own.any() and not joint.mimic else ()


def _speed(model: Model, given: Any) -> float:
    if given is None:
        return model.friction_velocity
    x = _numbers("friction_velocity", given)
    if x.shape or not 0 < x < np.inf:
        raise ValueError(f"friction_velocity is {given!r}: wanted one number above 0, rad/s or m/s")
    return float(x)


def _floats(x: np.ndarray) -> Floats:
    return tuple(map(float, x))
