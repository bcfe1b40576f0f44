"""Inverse dynamics by the recursive Newton-Euler algorithm (Featherstone 2008, chapter 5, table
5.1).
"""

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
    Matrix,
    Transform,
    Vector,
    cross,
    dot,
    matvec,
    split,
)
from featherlane.tree import Tree
from featherlane.walk import inward, outward


class Motion(NamedTuple):
    """How a body moves, in its own axes: its points x accelerate by a + U x."""

    w: Vector
    dw: Vector
    a: Vector
    U: Matrix


def ground(gravity: Vector) -> Motion:
    """Gravity is an acceleration of the ground."""
    return Motion(ZERO3, ZERO3, -gravity, NO_MATRIX)


def carried(X: Transform, parent: Motion, motion: Vector, change: Vector) -> Motion:
    """The motion of a body whose joint adds S qd = motion and S qdd = change to its parent's."""
    (wJ, vJ), (dwJ, dvJ) = split(motion), split(change)
    wp = X.E.to_child(parent.w)
    w = wp + wJ
    dw = X.E.to_child(parent.dw) + dwJ + cross(wp, wJ)
    a = X.E.to_child(parent.a + matvec(parent.U, X.r)) + dvJ + cross(wp + w, vJ)
    return Motion(w, dw, a, rigid_acceleration(w, dw))


def rnea(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """tau = M(q) qdd + C(q, qd) qd + g(q) + resistance(qd) - J^T f_ext, nv scalars.

    The acceleration a of a body is that of its origin as a point in space, so that linear
    velocities never enter (Luh, Walker and Paul 1980): the points of a body accelerate by a + U x,
    and gravity is the ground's acceleration.
    """
    f_ext = no_wrenches(model) if f_ext is None else f_ext
    m, X, f = {WORLD: ground(model.gravity)}, {}, {}
    tau: list[Scalar] = [0.0] * model.nv
    for i in outward(model, "R"):
        p, X[i] = model.parent[i], model.joint_transform(i, q)
        m[i] = carried(X[i], m[p], joint_motion(model, i, qd), joint_motion(model, i, qdd))
        f[i] = model.inertias[i].wrench(m[i].U, m[i].a) - f_ext[i]
        for k, _ in model.freedoms[i]:
            tau[k] = model.armature[k] * qdd[k] + resistance(model, k, qd[k])
    for i in inward(model, "R"):
        for k, S in model.freedoms[i]:
            tau[k] = tau[k] + dot(S, f[i])
        p = model.parent[i]
        if p != WORLD:
            f[p] = f[p] + X[i].force_to_parent(f[i])
    return tau
