"""Figures of links, joints and frames that users give, checked; errors name the part."""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.robot.constants import departure
from featherlane.robot.parts import Floats, Placement, Rows3, floats, rows3
from featherlane.robot.rotations import rpy_rotation
from featherlane.robot.spatial import cross, dot

ORTHOGONAL = 1e-6  # by which R R^T may differ from 1, and an inertia from its transpose
NON_NEGATIVE = ("mass", "armature", "damping", "friction", "stiffness", "velocity", "effort")
UNBOUNDED = ("lower", "upper", "velocity", "effort")  # may be infinite


def numbers(value: Any, shapes: tuple[tuple[int, ...], ...], what: str, where: str) -> np.ndarray:
    """Returns finite numbers of one of the shapes; limits may be infinite."""
    try:
        figures = np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{what} of {where} is {value!r}; wanted numbers") from None
    if figures.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"{what} of {where} has shape {figures.shape}; wanted {wanted}")
    if np.any(np.isnan(figures)) or (what not in UNBOUNDED and np.any(np.isinf(figures))):
        raise ValueError(f"{what} of {where} is {value!r}; wanted finite numbers")
    if what in NON_NEGATIVE and np.any(figures < 0):
        raise ValueError(f"{what} of {where} is {value!r}; wanted zero or more")
    return figures


def number(value: Any, what: str, where: str) -> float:
    return float(numbers(value, ((),), what, where))


def inertial(mass: Any, com: Any, inertia: Any, where: str) -> tuple[float, Floats, Rows3]:
    """Returns mass, centre of mass and rotational inertia; inertia: (3, 3), or (3,) for a diagonal
    matrix. Raises ValueError or TypeError that names the part.
    """
    moments = numbers(inertia, ((3,), (3, 3)), "inertia", where)
    if moments.ndim == 1:
        moments = np.diag(moments)
    if np.abs(moments - moments.T).max() > ORTHOGONAL * np.abs(moments).max():
        raise ValueError(f"inertia of {where} is not symmetric")
    centre = floats(numbers(com, ((3,),), "com", where))
    return number(mass, "mass", where), centre, rows3((moments + moments.T) / 2)


def placement_of(xyz: Any, rpy: Any, R: Any, where: str) -> Placement:
    """Returns the pose at xyz, with roll, pitch, yaw about fixed axes, or with the rotation R."""
    p = numbers(xyz, ((3,),), "xyz", where)
    if R is None:
        angles = numbers((0, 0, 0) if rpy is None else rpy, ((3,),), "rpy", where)
        return Placement.of(rpy_rotation(*angles), p)
    if rpy is not None:
        raise ValueError(f"{where} has both rpy and R; wanted one of them")
    turn = numbers(R, ((3, 3),), "R", where)
    if departure(turn.tolist()) > ORTHOGONAL or dot(turn[0], cross(turn[1], turn[2])) < 0:
        raise ValueError(f"R of {where} is not a rotation matrix: R R^T is not 1, or det R is -1")
    return Placement.of(turn, p)
