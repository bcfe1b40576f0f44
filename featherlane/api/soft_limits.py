"""Soft stops at the limits of a robot's joints: `Model.with_soft_limits`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from featherlane.algorithms import mass_matrix
from featherlane.errors import shown
from featherlane.robot.model import Robot
from featherlane.robot.parts import Joint
from featherlane.robot.tree_of import tree_of

M = TypeVar("M", bound=Robot)
RATE = 100.0  # 1/s: by default a joint alone swings on its stop at this angular frequency
WIDTH = {"m": 1e-3, "rad": 1e-2}  # the default, by the unit of q


def with_soft_limits(
    model: M, q: Sequence[float], stiffness: Any, damping: Any, width: float | None
) -> M:
    """Implements `Limits.with_soft_limits`. q: where the mass matrix is taken that default figures
    are for.
    """
    limited = [_is_limited(joint) for joint in model.joints]
    if not any(limited):
        raise ValueError(
            f"no joint of {model.name!r} with one degree of freedom has limits of its position: "
            "soft limits would stop nothing"
        )
    inertia = np.array([row[k] for k, row in enumerate(mass_matrix(tree_of(model), list(q)))])
    K = inertia * RATE**2 if stiffness is None else _figures(model, "stiffness", stiffness)
    b = 2 * np.sqrt(K * inertia) if damping is None else _figures(model, "damping", damping)
    if width is not None and not (isinstance(width, Real) and 0 < width < np.inf):
        raise ValueError(f"width is {shown(width)}: wanted one number above 0, rad or m")
    for name, figures in (("stiffness", stiffness), ("damping", damping)):
        if np.ndim(figures):
            _check_limited(model, name, np.asarray(figures), limited)
    return replace(model, joints=tuple(_stopped(model, limited, K, b, width)))


def _is_limited(joint: Joint) -> bool:
    if joint.kind.nv != 1 or not joint.lower or (joint.mimic and not joint.mimic.multiplier):
        return False
    lower, upper = joint.lower[0], joint.upper[0]
    return lower < upper and bool(np.isfinite(lower) or np.isfinite(upper))


def _figures(model: Robot, name: str, value: Any) -> np.ndarray:
    try:
        x = np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(value)}: wanted numbers") from None
    if x.shape not in ((), (model.nv,)):
        raise ValueError(
            f"{name} has shape {x.shape}: wanted one number, or (nv,) = ({model.nv},), one per "
            "degree of freedom"
        )
    if not np.all(np.isfinite(x)) or np.any(x < 0):
        raise ValueError(
            f"{name} has entries that are negative or not finite: wanted finite, 0 or more"
        )
    return np.broadcast_to(x, (model.nv,))


def _check_limited(model: Robot, name: str, x: np.ndarray, limited: Sequence[bool]) -> None:
    """Raises ValueError for figures of joints that have no limits."""
    stopped = {model.first_v[i] for i, has in enumerate(limited) if has}
    for i in model.independent:
        if model.first_v[i] not in stopped and np.any(x[model.dofs[i].start : model.dofs[i].stop]):
            raise ValueError(
                f"{name} is not 0 for joint {model.joints[i].name!r}, which has no limits of one "
                "coordinate: wanted 0 there"
            )


def _stopped(
    model: Robot, limited: Sequence[bool], K: np.ndarray, b: np.ndarray, width: float | None
) -> Iterator[Joint]:
    """Yields the joints with their stops; a follower's figures are those of its leader's motion."""
    for joint, has, k in zip(model.joints, limited, model.first_v, strict=True):
        if not has:
            yield joint
            continue
        share = joint.mimic.multiplier**2 if joint.mimic else 1.0
        yield replace(
            joint,
            limit_stiffness=float(K[k] / share),
            limit_damping=float(b[k] / share),
            limit_width=width or WIDTH[joint.kind.unit_of(0)],
        )
