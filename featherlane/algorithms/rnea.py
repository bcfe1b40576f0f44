"""Inverse dynamics by the recursive Newton-Euler algorithm (Featherstone 2008, chapter 5, table
5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    joint_entries,
    joint_state,
    link_motion,
    link_resistance,
    no_wrenches,
    put_entries,
    rigid_acceleration,
)
from featherlane.algorithms.springs import plus_springs
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import ZERO6, Matrix, Transform, Vector, cross, dot, matvec, split
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call


class BodyMotion(NamedTuple):
    """The motion of a body in its axes: its point x accelerates by a + U x."""

    w: Vector  # angular velocity
    dw: Vector  # angular acceleration
    a: Vector  # classical acceleration of the origin
    U: Matrix  # dw x + w x w x


def ground_motion(
    gravity: Vector, velocity: Vector = ZERO6, acceleration: Vector = ZERO6
) -> BodyMotion:
    """Returns the ground's motion, accelerated by -gravity, which gives all bodies their weight."""
    (w, _), (dw, a) = split(velocity), split(acceleration)
    return BodyMotion(w, dw, a - gravity, rigid_acceleration(w, dw))


def carried(X: Transform, parent: BodyMotion, S_qd: Vector, S_qdd: Vector) -> BodyMotion:
    """Returns the motion of a body from its parent's and the joint's S qd and S qdd."""
    (wJ, vJ), (dwJ, dvJ) = split(S_qd), split(S_qdd)
    wp = X.E.to_child(parent.w)
    w = wp + wJ
    dw = X.E.to_child(parent.dw) + dwJ + cross(wp, wJ)
    a = X.E.to_child(parent.a + matvec(parent.U, X.r)) + dvJ + cross(wp + w, vJ)
    return BodyMotion(w, dw, a, rigid_acceleration(w, dw))


def _outward(
    link: Link, parent: BodyMotion, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Sequence[Scalar]
) -> tuple[Transform, BodyMotion, Vector, list[Scalar]]:
    """Returns X, the motion and the net force of a link, and its joint's torques for armature and
    resistance.
    """
    X = joint_transform(link, q)
    m = carried(X, parent, link_motion(link, qd), link_motion(link, qdd))
    f = link.inertia.wrench(m.U, m.a) - f_ext
    resistance = link_resistance(link, qd)
    return X, m, f, [I * a + r for I, a, r in zip(link.armature, qdd, resistance, strict=True)]


def add_torques(link: Link, f: Vector, tau: Scalars) -> list[Scalar]:
    """Returns tau + S^T f, the torques of a joint that carries the force f."""
    return [t + dot(S, f) for t, S in zip(tau, link.S, strict=True)]


def _inward(
    link: Link, X: Transform, f: Vector, tau: Scalars, fp: Vector
) -> tuple[list[Scalar], Vector]:
    """Returns the joint's torques, and the parent's force with the link's added."""
    return add_torques(link, f, tau), fp + X.force_to_parent(f)


def rnea(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """Returns tau = M(q) qdd + C(q, qd) qd + g(q) + K (q - q0) + resistance(qd) - J^T f_ext, nv
    scalars.

    The acceleration a of a body is the classical acceleration of its origin, so that linear
    velocities never enter (Luh, Walker and Paul 1980): its point x accelerates by a + U x.
    """
    f_ext = no_wrenches(model) if f_ext is None else f_ext
    links, parent = model.links, model.parent
    base = model.gravity, model.base_velocity, model.base_acceleration
    m, X, f = {WORLD: call(ground_motion, *base)}, {}, {}
    tau: list[Scalar] = [0.0] * model.nv
    for i in outward(model, "R"):
        state = joint_state(model, i, q, qd, qdd)
        X[i], m[i], f[i], joint_tau = call(_outward, links[i], m[parent[i]], *state, f_ext[i])
        put_entries(model, i, tau, joint_tau)
    for i in inward(model, "R"):
        p, joint_tau = parent[i], joint_entries(model, i, tau)
        if p == WORLD:
            joint_tau = call(add_torques, links[i], f[i], joint_tau)
        else:
            joint_tau, f[p] = call(_inward, links[i], X[i], f[i], joint_tau, f[p])
        put_entries(model, i, tau, joint_tau)
    return plus_springs(model, q, qd, tau)
