"""Forward dynamics by the articulated-body algorithm (Featherstone 2008, chapter 7, table 7.1)."""

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
from featherlane.robot.spatial import (
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
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call, unless_lost


class Bias(NamedTuple):
    """What velocities alone do to a body: the points x of one that turns with w accelerate by U0 x;
    c is what its joint adds to its parent's acceleration.
    """

    w: Vector
    U0: Matrix
    c: Vector


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


def resisted(
    IA: Articulated, S: Vector, armature: Scalar, load: Scalar
) -> tuple[Vector, Scalar, Scalar]:
    """U = IA S, S^T IA S with the armature, and the size of what that is left over of: eliminations
    further out take from the inertia and from the mass beyond the joint.
    """
    U, (turn, slide) = IA @ S, split(S)
    size = dot(turn, turn) * IA.I.trace + dot(slide, slide) * (3.0 * load) + armature
    return U, dot(S, U) + armature, size


def eliminate(
    IA: Articulated, pA: Vector, S: Vector, tau: Scalar, armature: Scalar, load: Scalar
) -> tuple[Eliminated, Articulated, Vector]:
    """One degree of freedom, and the articulated body without it. u is NaN where no inertia resists
    the joint; Dinv is not, so that what cancels in IA does so in a graph.
    """
    U, D, size = resisted(IA, S, armature, load)
    Dinv = 1.0 / D
    u = unless_lost(tau - dot(S, pA), D, size)
    return Eliminated(U, Dinv, u), IA.minus_outer(U * Dinv, U), pA + U * (Dinv * u)


def moving(
    link: Link, parent: Bias, q: Scalars, qd: Scalars, f_ext: Sequence[Scalar]
) -> tuple[Transform, Bias, Vector]:
    """Outward: X and v of a link, and its own pA."""
    X = joint_transform(link, q)
    v = carried_bias(X, parent, link_motion(link, qd))
    return X, v, link.inertia.wrench(v.U0, ZERO3) - f_ext


def freed(
    link: Link, IA: Articulated, pA: Vector, qd: Scalars, tau: Scalars
) -> tuple[list[Eliminated], Articulated, Vector]:
    """A link's joint solved for, the last degree of freedom first, and the body without them."""
    solved: list[Eliminated] = []
    left = [t - r for t, r in zip(tau, link_resistance(link, qd), strict=True)]
    for n in reversed(range(len(left))):
        one, IA, pA = eliminate(IA, pA, link.S[n], left[n], link.armature[n], link.load)
        solved.insert(0, one)
    return solved, IA, pA


def only_freed(
    link: Link, IA: Articulated, pA: Vector, qd: Scalars, tau: Scalars
) -> list[Eliminated]:
    """Inward, where the parent is the ground, which does not move: the joint alone."""
    return freed(link, IA, pA, qd, tau)[0]


def handed_on(
    link: Link,
    X: Transform,
    c: Vector,
    IA: Articulated,
    pA: Vector,
    qd: Scalars,
    tau: Scalars,
    IAp: Articulated,
    pAp: Vector,
) -> tuple[list[Eliminated], Articulated, Vector]:
    """Inward: the same, and the parent's IA and pA with what it feels of the link."""
    solved, IA, pA = freed(link, IA, pA, qd, tau)
    IAp = IAp + X.articulated_to_parent(IA)
    pAp = pAp + X.force_to_parent(pA + IA @ c)
    return solved, IAp, pAp


def accelerated(
    link: Link, X: Transform, c: Vector, solved: Sequence[Eliminated], parent: Vector
) -> tuple[Vector, list[Scalar]]:
    """Outward: a of a link, and its joint's qdd."""
    a, qdd = X.motion(parent) + c, []
    for S, (U, Dinv, u) in zip(link.S, solved, strict=True):
        qdd.append(Dinv * (u - dot(U, a)))
        a = a + S * qdd[-1]
    return a, qdd


def ground_bias(velocity: Vector) -> Bias:
    """What the ground's velocity does to the bodies on it."""
    return parent_bias(split(velocity)[0])


def parent_bias(wp: Vector) -> Bias:
    """Of a parent that turns with wp: what its children's `carried_bias` asks of it."""
    return Bias(wp, rigid_acceleration(wp, ZERO3), ZERO6)


def ground_acceleration(gravity: Vector, acceleration: Vector = ZERO6) -> Vector:
    """Gravity is an acceleration of the ground, which may have one of its own."""
    return acceleration - spatial(ZERO3, gravity)


def aba(
    model: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """qdd from M(q) qdd + C(q, qd) qd + g(q) = tau + J^T f_ext, nv scalars.

    A joint of several degrees of freedom is eliminated one of them after the other, the last first:
    no block is inverted. Bodies that share coordinates (`Tree.coupled`) are not for it.
    Accelerations are those of `rnea`: of a body's origin as a point in space.
    """
    f_ext = no_wrenches(model) if f_ext is None else f_ext
    links, parent = model.links, model.parent
    v, X, IA, pA, solved = {WORLD: call(ground_bias, model.base_velocity)}, {}, {}, {}, {}
    own_qd = [joint_entries(model, i, qd) for i in range(model.nbodies)]
    for i in outward(model, "A"):
        at = joint_coordinates(model, i, q)
        X[i], v[i], pA[i] = call(moving, links[i], v[parent[i]], at, own_qd[i], f_ext[i])
        IA[i] = call(Articulated.of, links[i].inertia)
    for i in inward(model, "A"):
        p, body = parent[i], (IA[i], pA[i], own_qd[i], joint_entries(model, i, tau))
        if p == WORLD:
            solved[i] = call(only_freed, links[i], *body)
        else:
            above = IA[p], pA[p]
            solved[i], IA[p], pA[p] = call(handed_on, links[i], X[i], v[i].c, *body, *above)
    a = {WORLD: call(ground_acceleration, model.gravity, model.base_acceleration)}
    qdd: list[Scalar] = [None] * model.nv
    for i in outward(model, "A"):
        a[i], own = call(accelerated, links[i], X[i], v[i].c, solved[i], a[parent[i]])
        put_entries(model, i, qdd, own)
    return qdd
