"""What the dynamics algorithms need of kinematics."""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.model import Model
from featherlane.scalar import Scalar
from featherlane.spatial import ZERO6, Matrix, Vector, unit

Scalars = Sequence[Scalar]
Wrenches = Sequence[Vector]


def joint_motion(model: Model, i: int, rates: Scalars) -> Vector:
    """S_i times joint i's part of `rates`: vJ from v, or S_i qdd from a."""
    motion = ZERO6
    for k, axis in model.freedoms[i]:
        motion = motion + unit(axis) * rates[k]
    return motion


def rigid_acceleration(w: Vector, dw: Sequence[Scalar]) -> Matrix:
    """U = dw x + w x w x: the point at x of a body accelerates by U x more than its origin."""
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return (
        Vector((-(yy + zz), xy - dw[2], xz + dw[1])),
        Vector((xy + dw[2], -(xx + zz), yz - dw[0])),
        Vector((xz - dw[1], yz + dw[0], -(xx + yy))),
    )


def no_wrenches(model: Model) -> list[Vector]:
    return [ZERO6] * model.nbodies
