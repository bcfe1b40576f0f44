"""Forward dynamics by the articulated-body algorithm (Featherstone 2008, chapter 7, table 7.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    ground_acceleration,
    joint_coordinates,
    joint_entries,
    link_motion,
    net_torques,
    no_wrenches,
    put_entries,
    rigid_acceleration,
)
from featherlane.algorithms.springs import less_springs
from featherlane.robot.parts import WORLD
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
    """The velocity-dependent part of a body's motion."""

    w: Vector  # angular velocity
    U0: Matrix  # w x w x: the body's point x accelerates by U0 x more than its origin
    c: Vector  # what the joint adds to the parent's acceleration at qdd = 0


def carried_bias(X: Transform, parent: Bias, motion: Vector) -> Bias:
    """Returns the bias of a body from its parent's, where the joint's motion is S qd."""
    wJ, vJ = split(motion)
    wp = X.E.to_child(parent.w)
    w = wp + wJ
    c = X.E.to_child(matvec(parent.U0, X.r)) + cross(wp + w, vJ)
    return Bias(w, rigid_acceleration(w, ZERO3), spatial(cross(wp, wJ), c))


class Eliminated(NamedTuple):
    """A degree of freedom solved for, qdd = Dinv (u - U . a): U, D^-1 and u of table 7.1."""

    U: Vector
    Dinv: Scalar
    u: Scalar


def resisted(
    IA: Articulated, S: Vector, armature: Scalar, load: Scalar
) -> tuple[Vector, Scalar, Scalar]:
    """Returns U = IA S, D = S^T U + armature, and the scale of the numbers whose difference D is.

    D is what earlier eliminations have left of the subtree's inertia and of its mass, `load`.
    """
    U, (angular, linear) = IA @ S, split(S)
    scale = dot(angular, angular) * IA.I.trace + dot(linear, linear) * (3.0 * load) + armature
    return U, dot(S, U) + armature, scale


def eliminate_freedom(
    IA: Articulated, pA: Vector, S: Vector, tau: Scalar, armature: Scalar, load: Scalar
) -> tuple[Eliminated, Articulated, Vector]:
    """Eliminates one degree of freedom from an articulated body: U, D^-1, u, then IA and pA.

    Where no inertia resists the joint u is NaN. D^-1 is not, so that a graph can still fold what
    cancels in IA.
    """
    U, D, scale = resisted(IA, S, armature, load)
    Dinv = 1.0 / D
    u = unless_lost(tau - dot(S, pA), D, scale)
    return Eliminated(U, Dinv, u), IA.minus_outer(U * Dinv, U), pA + U * (Dinv * u)


def _first_outward(
    link: Link, parent: Bias, q: Scalars, qd: Scalars, f_ext: Sequence[Scalar]
) -> tuple[Transform, Bias, Vector]:
    """Returns X, the bias and the body's pA (table 7.1, first pass)."""
    X = joint_transform(link, q)
    v = carried_bias(X, parent, link_motion(link, qd))
    return X, v, link.inertia.wrench(v.U0, ZERO3) - f_ext


def _inward_to_ground(
    link: Link, IA: Articulated, pA: Vector, qd: Scalars, tau: Scalars
) -> list[Eliminated]:
    """Eliminates a link's joint, the last degree of freedom first (table 7.1, second pass)."""
    return _eliminate_joint(link, IA, pA, qd, tau)[0]


def _eliminate_joint(
    link: Link, IA: Articulated, pA: Vector, qd: Scalars, tau: Scalars
) -> tuple[list[Eliminated], Articulated, Vector]:
    freedoms: list[Eliminated] = []
    net_tau = net_torques(link, qd, tau)
    for n in reversed(range(len(net_tau))):
        freedom, IA, pA = eliminate_freedom(
            IA, pA, link.S[n], net_tau[n], link.armature[n], link.load
        )
        freedoms.insert(0, freedom)
    return freedoms, IA, pA


def _inward(
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
    """Eliminates a link's joint and adds Ia and pa to the parent's (table 7.1, second pass)."""
    freedoms, IA, pA = _eliminate_joint(link, IA, pA, qd, tau)
    IAp = IAp + X.articulated_to_parent(IA)
    pAp = pAp + X.force_to_parent(pA + IA @ c)
    return freedoms, IAp, pAp


def _second_outward(
    link: Link, X: Transform, c: Vector, freedoms: Sequence[Eliminated], parent: Vector
) -> tuple[Vector, list[Scalar]]:
    """Returns a link's acceleration and its joint's qdd (table 7.1, third pass)."""
    a, qdd = X.motion(parent) + c, []
    for S, (U, Dinv, u) in zip(link.S, freedoms, strict=True):
        qdd.append(Dinv * (u - dot(U, a)))
        a = a + S * qdd[-1]
    return a, qdd


def ground_bias(velocity: Vector) -> Bias:
    """Returns the bias of a ground that moves at a spatial velocity."""
    return parent_bias(split(velocity)[0])


def parent_bias(w: Vector) -> Bias:
    """Returns, of a parent with angular velocity w, the bias that `carried_bias` reads."""
    return Bias(w, rigid_acceleration(w, ZERO3), ZERO6)


def aba(
    model: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """Returns qdd of M(q) qdd + C(q, qd) qd + g(q) + K (q - q0) = tau + J^T f_ext, nv scalars.

    The degrees of freedom of a joint are eliminated one after the other, the last first, so that no
    block is inverted. Joints that share entries of v (`Tree.coupled`) cannot be eliminated so. The
    acceleration of a body is its origin's classical acceleration, as in `rnea`.
    """
    f_ext = no_wrenches(model) if f_ext is None else f_ext
    links, parent = model.links, model.parent
    v, X, IA, pA, freedoms = {WORLD: call(ground_bias, model.base_velocity)}, {}, {}, {}, {}
    qd_of = [joint_entries(model, i, qd) for i in range(model.nbodies)]
    tau = less_springs(model, q, qd, tau)
    for i in outward(model, "A"):
        state = joint_coordinates(model, i, q), qd_of[i]
        X[i], v[i], pA[i] = call(_first_outward, links[i], v[parent[i]], *state, f_ext[i])
        IA[i] = call(Articulated.of, links[i].inertia)
    for i in inward(model, "A"):
        p, joint = parent[i], (IA[i], pA[i], qd_of[i], joint_entries(model, i, tau))
        if p == WORLD:
            freedoms[i] = call(_inward_to_ground, links[i], *joint)
        else:
            arguments = links[i], X[i], v[i].c, *joint, IA[p], pA[p]
            freedoms[i], IA[p], pA[p] = call(_inward, *arguments)
    a = {WORLD: call(ground_acceleration, model.gravity, model.base_acceleration)}
    qdd: list[Scalar] = [None] * model.nv
    for i in outward(model, "A"):
        body = X[i], v[i].c, freedoms[i]
        a[i], joint_qdd = call(_second_outward, links[i], *body, a[parent[i]])
        put_entries(model, i, qdd, joint_qdd)
    return qdd
