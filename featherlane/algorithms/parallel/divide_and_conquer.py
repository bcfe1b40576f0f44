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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from featherlane.algorithms.kinematics import Scalars, Wrenches
from featherlane.algorithms.parallel.dense import (
    IDENTITY,
    articulated,
    motion_matrix,
    plus,
    solve,
)
from featherlane.algorithms.parallel.joint import (
    SolvedJoint,
    accelerating,
    coupling_refusal,
    refuse,
    solved_joint,
    torques_of,
)
from featherlane.algorithms.parallel.kinematics import METHOD, resting_ground, terms
from featherlane.algorithms.scan.trees import chains
from featherlane.model import WORLD
from featherlane.scalar import Scalar
from featherlane.spatial import (
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
from featherlane.tree import Tree

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
) -> list[Scalar]:
    """qdd of `aba`, nv scalars, in O(log n) rounds for chains and O(log(n)^2) for trees.

    method: that of the scan of the angular velocities, one of `path_scan`. ValueError for any
    other, and for robots of which `dca_refusal` says why.
    """
    refuse(dca_refusal(tree))
    bodies = _bodies(tree, q, qd, tau, f_ext, method)
    assembled = {}
    for chain in reversed(chains(tree.parent)):
        assembled[chain[0]] = whole = _assembly([_span(bodies[i]) for i in chain], chain)
        if (p := tree.parent[chain[0]]) != WORLD:
            bodies[p] = bodies[p].carrying(whole.span)
    a = {WORLD: resting_ground(tree)}
    qdd: list[Scalar] = [None] * tree.nv
    for chain in chains(tree.parent):
        for i, above, f in assembled[chain[0]].inside(a[tree.parent[chain[0]]], ZERO6):
            own, a[i] = bodies[i].accelerations(above, f)
            for (k, _), x in zip(tree.freedoms[i], own, strict=True):
                qdd[k] = x
    return qdd


@dataclass(frozen=True, eq=False)
class Body:
    """A body with its joint, and with what chains it carries."""

    tree: Tree
    i: int
    X: Transform
    J: Articulated
    p: Vector
    c: Vector
    tau: list[Scalar]

    def carrying(self, span: Span) -> Body:
        """With a chain, whose tip is free, on it."""
        return replace(self, J=self.J + articulated(span.H), p=self.p + span.pi)

    @cached_property
    def joint(self) -> SolvedJoint:
        return solved_joint(self.tree, self.i, self.J)

    def accelerations(self, a: Vector, f: Vector) -> tuple[list[Scalar], Vector]:
        """qdd and the body's acceleration, from its parent's and the force that it passes on."""
        joint = self.joint
        u, _ = joint.forces(self.p + f, self.tau)
        return joint.accelerations(self.X.motion(a) + self.c, u)


def _bodies(
    tree: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None, method: str
) -> list[Body]:
    t = terms(tree, q, qd, method=method)
    p, left = t.own_forces(tree, f_ext), accelerating(tree, qd, tau)
    bodies = [
        Body(tree, i, X, Articulated.of(tree.inertias[i]), p[i], v.c, torques_of(tree, i, left))
        for i, (X, v) in enumerate(zip(t.X, t.v, strict=True))
    ]
    for i in reversed(range(tree.nbodies)):
        if _weightless(bodies[i]):
            _lend(bodies, i)
    return bodies


def _weightless(body: Body) -> bool:
    """Whether a joint feels no inertia of its own body: a matter of the robot, not of the state."""
    S = [S for _, S in body.tree.freedoms[body.i]]
    D = [[dot(s, body.J @ t) for t in S] for s in S]
    armature = [body.tree.armature[k] for k, _ in body.tree.freedoms[body.i]]
    known = [*(x for row in (*D, *body.J.rows) for x in row), *armature]
    if not all(isinstance(x, int | float) for x in known):
        return False
    least = np.linalg.eigvalsh(np.array(D) + np.diag(armature))[0]
    return bool(least <= WEIGHTLESS * np.abs(body.J.rows).max())


def _lend(bodies: list[Body], i: int) -> None:
    """Moves inertia from the children of body i to it: what their joints do not feel, so that no
    motion changes.
    """
    for c, child in enumerate(bodies):
        if child.tree.parent[c] != i:
            continue
        joint = child.joint
        felt = Articulated.of(NO_INERTIA)
        for e in joint.solved:
            felt = felt.minus_outer(e.U * -e.Dinv, e.U)
        bodies[c] = replace(child, J=felt)
        J = bodies[i].J + child.X.articulated_to_parent(joint.IA)
        p = bodies[i].p + child.X.force_to_parent(joint.IA @ child.c)
        bodies[i] = replace(bodies[i], J=J, p=p)


class Span(NamedTuple):
    """Joints and bodies in a row: f1 = H a1 + A^T f + pi, a2 = A a1 - Phi f + alpha."""

    H: Matrix
    A: Matrix
    Phi: Matrix
    pi: Vector
    alpha: Vector


def _span(body: Body) -> Span:
    """Of one joint and its body."""
    joint = body.joint
    u, passed = joint.forces(body.p, body.tau)
    _, alpha = joint.accelerations(body.c, u)
    return Span(
        body.X.articulated_to_parent(joint.IA).rows,
        joint.through(motion_matrix(body.X)),
        joint.compliance(),
        body.X.force_to_parent(passed + joint.IA @ body.c),
        alpha,
    )


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
        left, right, (EA, EPhi, e) = self.halves
        H, A, _, pi, _ = right.span
        middle = matvec(EA, a) - matvec(EPhi, f) + e
        passed = matvec(H, middle) + matvec(transpose(A), f) + pi
        return left.inside(a, passed) + right.inside(middle, f)


def _assembly(spans: Sequence[Span], bodies: Sequence[int]) -> Assembly:
    """Joined in a balanced binary tree."""
    if len(spans) == 1:
        return Assembly(spans[0], bodies[0])
    half = len(spans) // 2
    left = _assembly(spans[:half], bodies[:half])
    right = _assembly(spans[half:], bodies[half:])
    span, middle = _joined(left.span, right.span)
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
