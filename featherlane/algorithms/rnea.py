"""Inverse dynamics by the recursive Newton-Euler algorithm (Featherstone 2008, chapter 5, table
5.1).
"""

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
from featherlane.spatial import NO_MATRIX, ZERO3, Vector, cross, dot, matvec, split
from featherlane.tree import Tree
from featherlane.walk import inward, outward


def rnea(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """tau = M(q) qdd + C(q, qd) qd + g(q) + resistance(qd) - J^T f_ext, nv scalars.

    The acceleration a of a body is that of its origin as a point in space, so that linear
    velocities never enter (Luh, Walker and Paul 1980): the points of a body accelerate by a + U x,
    and gravity is the ground's acceleration.
    """
    f_ext = no_wrenches(model) if f_ext is None else f_ext
    w, dw, a = {WORLD: ZERO3}, {WORLD: ZERO3}, {WORLD: -Vector(model.gravity)}
    U, X, f = {WORLD: NO_MATRIX}, {}, {}
    tau: list[Scalar] = [0.0] * model.nv
    for i in outward(model, "R"):
        p, X[i] = model.parent[i], model.joint_transform(i, q)
        wJ, vJ = split(joint_motion(model, i, qd))
        dwJ, dvJ = split(joint_motion(model, i, qdd))
        wp = X[i].E.to_child(w[p])
        w[i] = wp + wJ
        dw[i] = X[i].E.to_child(dw[p]) + dwJ + cross(wp, wJ)
        a[i] = X[i].E.to_child(a[p] + matvec(U[p], X[i].r)) + dvJ + cross(wp + w[i], vJ)
        U[i] = rigid_acceleration(w[i], dw[i])
        f[i] = model.inertias[i].wrench(U[i], a[i]) - f_ext[i]
        for k, _ in model.freedoms[i]:
            tau[k] = model.armature[k] * qdd[k] + resistance(model, k, qd[k])
    for i in inward(model, "R"):
        for k, S in model.freedoms[i]:
            tau[k] = tau[k] + dot(S, f[i])
        p = model.parent[i]
        if p != WORLD:
            f[p] = f[p] + X[i].force_to_parent(f[i])
    return tau
