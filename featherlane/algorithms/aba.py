"""Forward dynamics by the articulated-body algorithm (Featherstone 2008, chapter 7, table 7.1)."""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.kinematics import (
    Scalars,
    Wrenches,
    joint_motion,
    no_wrenches,
    resistance,
    rigid_acceleration,
)
from featherlane.model import WORLD
from featherlane.scalar import Scalar
from featherlane.spatial import (
    NO_MATRIX,
    ZERO3,
    ZERO6,
    Articulated,
    Matrix,
    Transform,
    Vector,
    cross,
    dot,
    matvec,
    spatial,
    split,
)
from featherlane.tree import Tree
from featherlane.walk import inward, outward


class Bias(NamedTuple):
    """What velocities alone do to a body: the points x of one that turns with w accelerate by U0 x;
    c is what its joint adds to its parent's acceleration.
    """

    w: Vector
    U0: Matrix
    c: Vector


AT_REST = Bias(ZERO3, NO_MATRIX, ZERO6)


def carried_bias(X: Transform, parent: Bias, motion: Vector) -> Bias:
    """That of a body whose joint adds S qd = motion."""
    wJ, vJ = split(motion)
    wp = X.E.to_child(parent.w)
    w = wp + wJ
    moved = X.E.to_child(matvec(parent.U0, X.r)) + cross(wp + w, vJ)
    return Bias(w, rigid_acceleration(w, ZERO3), spatial(cross(wp, wJ), moved))


class Eliminated(NamedTuple):
    """A degree of freedom of an articulated body that is solved for: qdd = Dinv (u - U . a)."""

    U: Vector
    Dinv: Scalar
    u: Scalar


def eliminate(
    IA: Articulated, pA: Vector, S: Vector, tau: Scalar, armature: Scalar
) -> tuple[Eliminated, Articulated, Vector]:
    """One degree of freedom, and the articulated body without it."""
    U = IA @ S
    Dinv = 1.0 / (dot(S, U) + armature)
    u = tau - dot(S, pA)
    return Eliminated(U, Dinv, u), IA.minus_outer(U * Dinv, U), pA + U * (Dinv * u)


def aba(
    model: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """qdd from M(q) qdd + C(q, qd) qd + g(q) = tau + J^T f_ext, nv scalars.

    A joint of several degrees of freedom is eliminated one of them after the other, the last first:
    no block is inverted. Bodies that share coordinates
    (`Tree.coupled`) are not for it. Accelerations are those of `rnea`: of a body's origin as a
    point in space.
    """
    f_ext = no_wrenches(model) if f_ext is None else f_ext
    v, X, IA, pA = {WORLD: AT_REST}, {}, {}, {}
    for i in outward(model, "A"):
        p, X[i] = model.parent[i], model.joint_transform(i, q)
        v[i] = carried_bias(X[i], v[p], joint_motion(model, i, qd))
        IA[i] = Articulated.of(model.inertias[i])
        pA[i] = model.inertias[i].wrench(v[i].U0, ZERO3) - f_ext[i]
    solved: dict[int, Eliminated] = {}
    for i in inward(model, "A"):
        for k, S in reversed(model.freedoms[i]):
            left = tau[k] - resistance(model, k, qd[k])
            solved[k], IA[i], pA[i] = eliminate(IA[i], pA[i], S, left, model.armature[k])
        p = model.parent[i]
        if p != WORLD:
            IA[p] = IA[p] + X[i].articulated_to_parent(IA[i])
            pA[p] = pA[p] + X[i].force_to_parent(pA[i] + IA[i] @ v[i].c)
    a = {WORLD: spatial(ZERO3, -Vector(model.gravity))}
    qdd: list[Scalar] = [None] * model.nv
    for i in outward(model, "A"):
        a[i] = X[i].motion(a[model.parent[i]]) + v[i].c
        for k, S in model.freedoms[i]:
            qdd[k] = solved[k].Dinv * (solved[k].u - dot(solved[k].U, a[i]))
            a[i] = a[i] + S * qdd[k]
    return qdd
