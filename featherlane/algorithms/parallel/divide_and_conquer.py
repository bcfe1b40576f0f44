"""Forward dynamics by divide and conquer: R. Featherstone, A divide-and-conquer articulated-body
algorithm for parallel O(log(n)) calculation of rigid-body dynamics, parts 1 and 2 (1999).

Featherstone joins articulated bodies by their handles: a1 = Phi1 f1 + Phi12 f2 + b1 at the base, a2
= Phi21 f1 + Phi2 f2 + b2 at the tip. Here these equations are solved for f1 and a2 as functions of
a1 and of f, the force that the tip has to pass on:

    f1 = H a1 + A^T f + pi        a2 = A a1 - Phi f + alpha

The motion of the base is then always given, so that the joint to the ground is one like all others
and no inertia is inverted: a body may be a point mass, or have no mass at all. H and Phi of a whole
are sums of positive semidefinite terms, so that masses of different orders do not cancel.

Chains are joined in a balanced binary tree. A tree is cut into chains of which a path to the root
meets at most log2(n) + 1; those that end on a body are joined before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from featherlane.algorithms.common import Scalars, Wrenches, joint_entries, put_entries
from featherlane.algorithms.parallel.dense import IDENTITY, articulated, motion_matrix, plus, solve
from featherlane.algorithms.parallel.joint import (
    SolvedJoint,
    coupling_refusal,
    link_accelerating,
    refuse,
    solved_joint,
)
from featherlane.algorithms.parallel.kinematics import METHOD, ground_of, terms
from featherlane.algorithms.scan.trees import chains
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import (
    NO_INERTIA,
    ZERO6,
    Articulated,
    Matrix,
    Transform,
    Vector,
    dot,
    matmul,
    matvec,
    transpose,
)
from featherlane.robot.tree import Link, Tree
from featherlane.scalar import Scalar, call

WEIGHTLESS = 1e-12  # of a body's inertia, for what a joint feels of it to count as nothing


def dca_refusal(tree: Tree) -> str | None:
    """Why `dca` does not take a robot, and what does."""
    return coupling_refusal(tree, "dca")


def dca(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
    **options: int,
) -> list[Scalar]:
    """qdd of `aba`, nv scalars, in O(log n) rounds for chains and O(log(n)^2) for trees.

    method: that of the scan of the angular velocities, one of `path_scan`, with its options.
    ValueError for any other, and for robots of which `dca_refusal` says why.
    """
    refuse(dca_refusal(tree))
    bodies = _bodies(tree, q, qd, f_ext, method, **options)
    freed: dict[int, Freed] = {}
    assembled = {}
    for chain in reversed(chains(tree.parent)):
        for i in chain:
            own = joint_entries(tree, i, qd), joint_entries(tree, i, tau)
            freed[i] = call(_freed, tree.links[i], bodies[i], *own)
        whole = assembled[chain[0]] = _assembly([freed[i].span for i in chain], chain)
        if (p := tree.parent[chain[0]]) != WORLD:
            bodies[p] = call(_carrying, bodies[p], whole.span.H, whole.span.pi)
    a = {WORLD: ground_of(tree)}
    qdd: list[Scalar] = [None] * tree.nv
    for chain in chains(tree.parent):
        for i, above, f in assembled[chain[0]].inside(a[tree.parent[chain[0]]], ZERO6):
            own, a[i] = call(_accelerations, bodies[i], freed[i].joint, freed[i].tau, above, f)
            put_entries(tree, i, qdd, own)
    return qdd


class Body(NamedTuple):
    """A body with what chains it carries: seen through its joint by X, it asks for J a + p, and its
    joint adds c to its parent's acceleration.
    """

    X: Transform
    J: Articulated
    p: Vector
    c: Vector


def _carrying(body: Body, H: Matrix, pi: Vector) -> Body:
    """With a chain, whose tip is free, on it."""
    return body._replace(J=body.J + articulated(H), p=body.p + pi)


def _accelerations(
    body: Body, joint: SolvedJoint, tau: Scalars, a: Vector, f: Vector
) -> tuple[list[Scalar], Vector]:
    """qdd and the body's acceleration, from its parent's and the force that it passes on."""
    u, _ = joint.forces(body.p + f, tau)
    return joint.accelerations(body.X.motion(a) + body.c, u)


def _bodies(
    tree: Tree, q: Scalars, qd: Scalars, f_ext: Wrenches | None, method: str, **options: int
) -> list[Body]:
    t = terms(tree, q, qd, method, **options)
    J = [call(Articulated.of, inertia) for inertia in tree.inertias]
    each = zip(t.X, J, t.own_forces(tree, f_ext), t.v, strict=True)
    bodies = [Body(X, Ji, p, v.c) for X, Ji, p, v in each]
    for i, link in reversed([*enumerate(tree.links)]):
        if _weightless(link):
            for c, parent in enumerate(tree.parent):
                if parent == i:
                    bodies[c], bodies[i] = call(_lent, tree.links[c], bodies[c], bodies[i])
    return bodies


def _weightless(link: Link) -> bool:
    """Whether a joint feels no inertia of its own body: a matter of the robot, not of the state."""
    m, h, moments = link.inertia
    if not all(isinstance(x, int | float) for x in (m, *h, *moments, *link.armature)):
        return False
    J = Articulated.of(link.inertia)
    D = [[dot(s, J @ t) for t in link.S] for s in link.S]
    least = np.linalg.eigvalsh(np.array(D) + np.diag(link.armature))[0]
    return bool(least <= WEIGHTLESS * np.abs(J.rows).max())


def _lent(link: Link, child: Body, body: Body) -> tuple[Body, Body]:
    """The two after inertia of the child, whose link is given, was moved to its parent: what the
    joint does not feel, so that no motion changes.
    """
    joint = solved_joint(link, child.J)
    felt = Articulated.of(NO_INERTIA)
    for e in joint.solved:
        felt = felt.minus_outer(e.U * -e.Dinv, e.U)
    J = body.J + child.X.articulated_to_parent(joint.IA)
    p = body.p + child.X.force_to_parent(joint.IA @ child.c)
    return child._replace(J=felt), body._replace(J=J, p=p)


class Span(NamedTuple):
    """Joints and bodies in a row: f1 = H a1 + A^T f + pi, a2 = A a1 - Phi f + alpha."""

    H: Matrix
    A: Matrix
    Phi: Matrix
    pi: Vector
    alpha: Vector


class Freed(NamedTuple):
    """One joint and its body: the joint solved for, its torque without resistance, its span."""

    joint: SolvedJoint
    tau: list[Scalar]
    span: Span


def _freed(link: Link, body: Body, qd: Scalars, tau: Scalars) -> Freed:
    joint, left = solved_joint(link, body.J), link_accelerating(link, qd, tau)
    u, passed = joint.forces(body.p, left)
    _, alpha = joint.accelerations(body.c, u)
    span = Span(
        body.X.articulated_to_parent(joint.IA).rows,
        joint.through(motion_matrix(body.X)),
        joint.compliance(),
        body.X.force_to_parent(passed + joint.IA @ body.c),
        alpha,
    )
    return Freed(joint, left, span)


class Middle(NamedTuple):
    """The acceleration where two spans meet: E A a1 - EPhi f + e."""

    EA: Matrix
    EPhi: Matrix
    e: Vector


class Assembly(NamedTuple):
    """A span and what it was joined from; body: of a span that was not."""

    span: Span
    body: int
    halves: tuple[Assembly, Assembly, Middle] | None = None

    def inside(self, a: Vector, f: Vector) -> list[tuple[int, Vector, Vector]]:
        """For each body of the span the acceleration of its parent and the force that it passes
        on, from those of the whole.
        """
        if self.halves is None:
            return [(self.body, a, f)]
        left, right, between = self.halves
        middle, passed = call(_between, right.span, between, a, f)
        return left.inside(a, passed) + right.inside(middle, f)


def _between(right: Span, between: Middle, a: Vector, f: Vector) -> tuple[Vector, Vector]:
    """The acceleration where two spans meet, and the force that the left one passes on there."""
    H, A, _, pi, _ = right
    EA, EPhi, e = between
    middle = matvec(EA, a) - matvec(EPhi, f) + e
    return middle, matvec(H, middle) + matvec(transpose(A), f) + pi


def _assembly(spans: Sequence[Span], bodies: Sequence[int]) -> Assembly:
    """Joined in a balanced binary tree."""
    if len(spans) == 1:
        return Assembly(spans[0], bodies[0])
    half = len(spans) // 2
    left = _assembly(spans[:half], bodies[:half])
    right = _assembly(spans[half:], bodies[half:])
    span, middle = call(_joined, left.span, right.span)
    return Assembly(span, WORLD, (left, right, middle))


def _joined(left: Span, right: Span) -> tuple[Span, Middle]:
    """The two equations where they meet, (1 + Phi_left H_right) a = ..., solved for a: the matrix
    has no eigenvalue below 1.
    """
    At, AtR = transpose(left.A), transpose(right.A)
    known = zip(
        left.A,
        matmul(left.Phi, AtR),
        left.alpha - matvec(left.Phi, right.pi),
        strict=True,
    )
    rows = tuple(Vector((*a, *b, c)) for a, b, c in known)
    solved = solve(plus(IDENTITY, matmul(left.Phi, right.H)), rows)
    EA, EPhi = tuple(Vector(r[:6]) for r in solved), tuple(Vector(r[6:12]) for r in solved)
    e = Vector([r[12] for r in solved])
    return Span(
        plus(left.H, matmul(At, matmul(right.H, EA))),
        matmul(right.A, EA),
        plus(right.Phi, matmul(right.A, EPhi)),
        left.pi + matvec(At, right.pi + matvec(right.H, e)),
        right.alpha + matvec(right.A, e),
    ), Middle(EA, EPhi, e)
