"""Forward dynamics by the articulated-body algorithm (Featherstone 2008, chapter 7, table 7.1)."""

from __future__ import annotations

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
    Articulated,
    Vector,
    cross,
    dot,
    matvec,
    spatial,
    split,
)
from featherlane.tree import Tree
from featherlane.walk import inward, outward


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
    w, U0 = {WORLD: ZERO3}, {WORLD: NO_MATRIX}
    X, c, IA, pA = {}, {}, {}, {}
    for i in outward(model, "A"):
        p, X[i] = model.parent[i], model.joint_transform(i, q)
        wJ, vJ = split(joint_motion(model, i, qd))
        wp = X[i].E.to_child(w[p])
        w[i] = wp + wJ
        c[i] = spatial(cross(wp, wJ), X[i].E.to_child(matvec(U0[p], X[i].r)) + cross(wp + w[i], vJ))
        U0[i] = rigid_acceleration(w[i], ZERO3)
        IA[i] = Articulated.of(model.inertias[i])
        pA[i] = model.inertias[i].wrench(U0[i], ZERO3) - f_ext[i]
    U, Dinv, u = {}, {}, {}
    for i in inward(model, "A"):
        for k, S in reversed(model.freedoms[i]):
            U[k] = IA[i] @ S
            Dinv[k] = 1.0 / (dot(S, U[k]) + model.armature[k])
            u[k] = tau[k] - resistance(model, k, qd[k]) - dot(S, pA[i])
            IA[i] = IA[i].minus_outer(U[k] * Dinv[k], U[k])
            pA[i] = pA[i] + U[k] * (Dinv[k] * u[k])
        p = model.parent[i]
        if p != WORLD:
            IA[p] = IA[p] + X[i].articulated_to_parent(IA[i])
            pA[p] = pA[p] + X[i].force_to_parent(pA[i] + IA[i] @ c[i])
    a = {WORLD: spatial(ZERO3, -Vector(model.gravity))}
    qdd: list[Scalar] = [None] * model.nv
    for i in outward(model, "A"):
        a[i] = X[i].motion(a[model.parent[i]]) + c[i]
        for k, S in model.freedoms[i]:
            qdd[k] = Dinv[k] * (u[k] - dot(U[k], a[i]))
            a[i] = a[i] + S * qdd[k]
    return qdd
