"""What the dynamics algorithms need of kinematics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from featherlane.scalar import Scalar, sqrt
from featherlane.spatial import ZERO6, Matrix, Vector
from featherlane.tree import Tree

Scalars = Sequence[Scalar]
Wrenches = Sequence[Vector]


def joint_motion(model: Tree, i: int, rates: Scalars) -> Vector:
    """S_i times joint i's part of `rates`: vJ from v, or S_i qdd from a."""
    motion = ZERO6
    for k, S in model.freedoms[i]:
        motion = motion + S * rates[k]
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


def resistance(model: Tree, k: int, v: Scalar) -> Scalar:
    """What damping and smooth Coulomb friction ask of tau[k] at the velocity v."""
    return joint_resistance(model.damping[k], model.frictions[k], v)


def joint_resistance(
    damping: Scalar, frictions: Iterable[tuple[Scalar, Scalar]], v: Scalar
) -> Scalar:
    """The same of figures that stand for one joint; frictions as in `Tree.frictions`."""
    total = damping * v
    for f, v0 in frictions:
        total = total + f * (v / sqrt(v * v + v0 * v0))
    return total


def resistance_slope(model: Tree, k: int, v: Scalar) -> Scalar:
    """Its derivative by v."""
    slope = model.damping[k]
    for f, v0 in model.frictions[k]:
        square = v * v + v0 * v0
        slope = slope + f * (v0 * v0 / (square * sqrt(square)))
    return slope


def no_wrenches(model: Tree) -> list[Vector]:
    return [ZERO6] * model.nbodies
