"""The armature of a free joint along its lines, as it turns with the body.

A free joint's v and w, relative to the parent, are in the axes of its body. Armatures A = (A1, A2,
A3) along these axes have the momentum A v, as bodies without weight at the joint's origin would
have. The rate of this momentum, as seen from the parent, is that of Kirchhoff's equations of a
solid in an ideal fluid (Lamb, Hydrodynamics, 1932, section 124):

    force  A v' + w x A v        moment  v x A v

A v' is part of M v', the rest is here. Equal armatures a have no moment, and the force
a (v' + w x v), a times the acceleration of the origin: then it is no matter in which axes they are,
and they do the same as those of MuJoCo's free joint, along the axes of the world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from featherlane.robot.spatial import Vector, cross, dot, spatial, split
from featherlane.robot.tree import Link, Tree
from featherlane.scalar import Scalar, call

Scalars = Sequence[Scalar]
Columns = dict[int, Vector]  # a force on a free joint's body for each of the joint's entries of v


def _along(A: Scalars, x: Vector) -> Vector:
    return Vector([a * b for a, b in zip(A, x, strict=True)])


def _crossed(A: Scalars, x: Vector, y: Vector) -> Vector:
    """Returns x x A y + y x A x, which is zero for equal armatures by its form, not by rounding."""
    xyz = [x[i] * y[j] + x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return _along([A[2] - A[1], A[0] - A[2], A[1] - A[0]], Vector(xyz))


def turning_torques(link: Link, rates: Scalars) -> list[Scalar]:
    """Returns the joint's torques of [v x A v; w x A v], in the order of its rates [v; w]."""
    A, v, w = link.turned_armature, Vector(rates[:3]), Vector(rates[3:])
    force = spatial(_crossed(A, v, v) * 0.5, cross(w, _along(A, v)))
    return [dot(S, force) for S in link.S]


def _slopes(link: Link, rates: Scalars) -> list[Vector]:
    """Returns the derivatives of the force [v x A v; w x A v] along the joint's freedoms."""
    A, v, w = link.turned_armature, Vector(rates[:3]), Vector(rates[3:])
    columns = []
    for dw, dv in map(split, link.S):
        force = cross(dw, _along(A, v)) + cross(w, _along(A, dv))
        columns.append(spatial(_crossed(A, v, dv), force))
    return columns


def _coriolis(link: Link, rates: Scalars) -> list[Vector]:
    """Returns the forces that stand in the columns of the Coriolis matrix by Christoffel symbols:
    a skew-symmetric matrix, for A does not depend on q.
    """
    A, v, w = link.turned_armature, Vector(rates[:3]), Vector(rates[3:])
    columns = []
    for dw, dv in map(split, link.S):
        of_slide = cross(w, _along(A, dv)) + _along(A, cross(w, dv))
        of_turn = cross(dw, _along(A, v)) - _along(A, cross(dw, v))
        columns.append(spatial(_crossed(A, v, dv), of_slide + of_turn) * 0.5)
    return columns


def _by_freedom(tree: Tree, qd: Scalars, columns: Callable[[Link, Scalars], list]) -> Columns:
    """Returns the columns of all free joints that have such armature."""
    result: Columns = {}
    for link, freedoms in zip(tree.links, tree.freedoms, strict=True):
        if link.turned_armature:
            k = [freedom.k for freedom in freedoms]
            result.update(zip(k, call(columns, link, [qd[n] for n in k]), strict=True))
    return result


def turning_slopes(tree: Tree, qd: Scalars) -> Columns:
    """Returns, for each entry of v of such joints, the derivative by it of the force on the body:
    a joint's torques have the derivatives S^T times it.
    """
    return _by_freedom(tree, qd, _slopes)


def turning_coriolis(tree: Tree, qd: Scalars) -> Columns:
    """Returns, for each entry of v of such joints, the force in its column of the Coriolis matrix,
    whose entries in the joint's rows are S^T times it.
    """
    return _by_freedom(tree, qd, _coriolis)
