"""What the dynamics algorithms need of kinematics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from featherlane.robot.spatial import ZERO6, Matrix, Vector
from featherlane.robot.tree import Link, Tree
from featherlane.scalar import Scalar, sqrt

Scalars = Sequence[Scalar]
Wrenches = Sequence[Vector]


def joint_motion(model: Tree, i: int, rates: Scalars) -> Vector:
    """S_i times joint i's part of `rates`: vJ from v, or S_i qdd from a."""
    return link_motion(model.links[i], joint_entries(model, i, rates))


def link_motion(link: Link, rates: Scalars) -> Vector:
    """The same from the joint's own rates, one for each degree of freedom."""
    motion = ZERO6
    for S, rate in zip(link.S, rates, strict=True):
        motion = motion + S * rate
    return motion


def joint_coordinates(model: Tree, i: int, q: Scalars) -> list[Scalar]:
    """The entries of q that joint i reads: all that the steps of its link take of q."""
    return [q[source.k] for source in model.sources[i]]


def joint_entries(model: Tree, i: int, v: Scalars) -> list[Scalar]:
    """Joint i's entries of v, or of other vectors of nv scalars."""
    return [v[k] for k, _ in model.freedoms[i]]


def put_entries(model: Tree, i: int, v: list[Scalar], own: Scalars) -> None:
    """Makes `own` joint i's entries of v."""
    for (k, _), x in zip(model.freedoms[i], own, strict=True):
        v[k] = x


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


def link_resistance(link: Link, velocities: Scalars) -> list[Scalar]:
    """The same of a link, for each of the joint's own velocities."""
    each = zip(link.damping, link.frictions, velocities, strict=True)
    return [joint_resistance(*of_joint) for of_joint in each]


def joint_resistance(
    damping: Scalar, frictions: Iterable[tuple[Scalar, Scalar]], v: Scalar
) -> Scalar:
    """The same of one degree of freedom; frictions as in `Tree.frictions`."""
    total = damping * v
    for f, v0 in frictions:
        total = total + f * (v / sqrt(v * v + v0 * v0))
    return total


def link_resistance_slope(link: Link, velocities: Scalars) -> list[Scalar]:
    """The derivatives of `link_resistance`, each by its own velocity."""
    each = zip(link.damping, link.frictions, velocities, strict=True)
    return [joint_resistance_slope(*of_joint) for of_joint in each]


def joint_resistance_slope(
    damping: Scalar, frictions: Iterable[tuple[Scalar, Scalar]], v: Scalar
) -> Scalar:
    """That of `joint_resistance`."""
    slope = damping
    for f, v0 in frictions:
        square = v * v + v0 * v0
        slope = slope + f * (v0 * v0 / (square * sqrt(square)))
    return slope


def no_wrenches(model: Tree) -> list[Vector]:
    return [ZERO6] * model.nbodies
