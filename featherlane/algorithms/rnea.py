"""Inverse dynamics by the recursive Newton-Euler algorithm (Featherstone 2008, chapter 5, table
5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    joint_coordinates,
    joint_entries,
    link_motion,
    link_resistance,
    no_wrenches,
    put_entries,
    rigid_acceleration,
)
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import ZERO6, Matrix, Transform, Vector, cross, dot, matvec, split
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call


class Motion(NamedTuple):
    """How a body moves, in its own axes: its points x accelerate by a + U x."""

    w: Vector
    dw: Vector
    a: Vector
    U: Matrix


def ground(gravity: Vector, velocity: Vector = ZERO6, acceleration: Vector = ZERO6) -> Motion:
    """Gravity is an acceleration of the ground, which may have one of its own."""
    (w, _), (dw, a) = split(velocity), split(acceleration)
    return Motion(w, dw, a - gravity, rigid_acceleration(w, dw))


def carried(X: Transform, parent: Motion, motion: Vector, change: Vector) -> Motion:
    """The motion of a body whose joint adds S qd = motion and S qdd = change to its parent's."""
    (wJ, vJ), (dwJ, dvJ) = split(motion), split(change)
    wp = X.E.to_child(parent.w)
    w = wp + wJ
    dw = X.E.to_child(parent.dw) + dwJ + cross(wp, wJ)
    a = X.E.to_child(parent.a + matvec(parent.U, X.r)) + dvJ + cross(wp + w, vJ)
    return Motion(w, dw, a, rigid_acceleration(w, dw))


def moved(
    link: Link, parent: Motion, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Sequence[Scalar]
) -> tuple[Transform, Motion, Vector, list[Scalar]]:
    """Outward: X, m and f of a link, and what armature and resistance ask of its joint."""
    X = joint_transform(link, q)
    m = carried(X, parent, link_motion(link, qd), link_motion(link, qdd))
    f = link.inertia.wrench(m.U, m.a) - f_ext
    resistance = link_resistance(link, qd)
    return X, m, f, [I * a + r for I, a, r in zip(link.armature, qdd, resistance, strict=True)]


def torques(link: Link, f: Vector, tau: Scalars) -> list[Scalar]:
    """Inward: tau with what the joint takes of the force f on its link."""
    return [t + dot(S, f) for t, S in zip(tau, link.S, strict=True)]


def handed_on(
    link: Link, X: Transform, f: Vector, tau: Scalars, fp: Vector
) -> tuple[list[Scalar], Vector]:
    """The same, and the parent's force with that of the link."""
    return torques(link, f, tau), fp + X.force_to_parent(f)


def rnea(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """tau = M(q) qdd + C(q, qd) qd + g(q) + resistance(qd) - J^T f_ext, nv scalars.

    The acceleration a of a body is that of its origin as a point in space, so that linear
    velocities never enter (Luh, Walker and Paul 1980): the points of a body accelerate by a + U x,
    and gravity is the ground's acceleration.
    """
    f_ext = no_wrenches(model) if f_ext is None else f_ext
    links, parent = model.links, model.parent
    base = model.gravity, model.base_velocity, model.base_acceleration
    m, X, f = {WORLD: call(ground, *base)}, {}, {}
    tau: list[Scalar] = [0.0] * model.nv
    for i in outward(model, "R"):
        v, a = joint_entries(model, i, qd), joint_entries(model, i, qdd)
        at = joint_coordinates(model, i, q)
        X[i], m[i], f[i], own = call(moved, links[i], m[parent[i]], at, v, a, f_ext[i])
        put_entries(model, i, tau, own)
    for i in inward(model, "R"):
        p, own = parent[i], joint_entries(model, i, tau)
        if p == WORLD:
            own = call(torques, links[i], f[i], own)
        else:
            own, f[p] = call(handed_on, links[i], X[i], f[i], own, f[p])
        put_entries(model, i, tau, own)
    return tau
