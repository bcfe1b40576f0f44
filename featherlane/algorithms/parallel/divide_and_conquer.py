"""Forward dynamics by divide and conquer: R. Featherstone, A divide-and-conquer articulated-body
algorithm for parallel O(log(n)) calculation of rigid-body dynamics, parts 1 and 2 (1999).

Featherstone's equations of an articulated body relate accelerations and forces at two handles:

    a1 = Phi1 f1 + Phi12 f2 + b1        a2 = Phi21 f1 + Phi2 f2 + b2

Here they are solved for f1 and a2 as functions of a1 and of f, the force that the tip passes on:

    f1 = H a1 + A^T f + pi              a2 = A a1 - Phi f + alpha

The acceleration of the base is then always known, so that the joint to the ground is like all
others, and no inertia is inverted: a body may be a point mass, or have no mass. H and Phi of an
assembly are sums of positive semidefinite terms, so that masses of different orders of magnitude do
not cancel.

A chain is assembled in a balanced binary tree. A branched robot is cut into chains (heavy paths, of
which a path to the root meets at most log2(n) + 1); chains on a body are assembled before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches, joint_entries, net_torques, put_entries
from featherlane.algorithms.parallel.dense import IDENTITY6, motion_matrix, solve
from featherlane.algorithms.parallel.joint import (
    SolvedJoint,
    coupling_refusal,
    refuse,
    solved_joint,
)
from featherlane.algorithms.parallel.kinematics import METHOD, TreeScans, bias_terms, ground_of
from featherlane.algorithms.scan.trees import chains
from featherlane.algorithms.springs import less_springs
from featherlane.robot.constants import eigenvalues
from featherlane.robot.parts import WORLD
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
    plus,
    transpose,
)
from featherlane.robot.tree import Link, Tree, is_number
from featherlane.scalar import Scalar, call

WEIGHTLESS = 1e-12  # relative to a body's inertia: a joint that feels less counts as free of it


def dca(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
    **options: int,
) -> list[Scalar]:
    """Returns qdd of `aba`, nv scalars, in O(log n) rounds for chains, O(log(n)^2) for trees.

    method: a method of `path_scan` for the scan of angular velocities, with its options. Raises
    ValueError for any other, and for robots whose joints share entries of v.
    """
    refuse(coupling_refusal(tree, "dca"))
    bodies = _bodies(tree, q, qd, f_ext, TreeScans(tree.parent, method, options))
    tau = less_springs(tree, q, qd, tau)
    joints: dict[int, JointSpan] = {}
    assemblies = {}
    for chain in reversed(chains(tree.parent)):
        for i in chain:
            rates = joint_entries(tree, i, qd), joint_entries(tree, i, tau)
            joints[i] = call(_joint_span, tree.links[i], bodies[i], *rates)
        whole = assemblies[chain[0]] = _assembly([joints[i].span for i in chain], chain)
        if (p := tree.parent[chain[0]]) != WORLD:
            bodies[p] = call(_add_chain, bodies[p], whole.span.H, whole.span.pi)
    a = {WORLD: ground_of(tree)}
    qdd: list[Scalar] = [None] * tree.nv
    for chain in chains(tree.parent):
        for i, parent_a, f in assemblies[chain[0]].inside(a[tree.parent[chain[0]]], ZERO6):
            joint, tau_i, _ = joints[i]
            joint_qdd, a[i] = call(_acceleration, bodies[i], joint, tau_i, parent_a, f)
            put_entries(tree, i, qdd, joint_qdd)
    return qdd


class JointedBody(NamedTuple):
    """A body, with the chains on it, and its joint's transform X: the body's force is J a + p, and
    its joint adds c to the parent's acceleration.
    """

    X: Transform
    J: Articulated
    p: Vector
    c: Vector


def _add_chain(body: JointedBody, H: Matrix, pi: Vector) -> JointedBody:
    """Adds a chain with a free tip to the body that carries it."""
    return body._replace(J=body.J + Articulated.of_rows(H), p=body.p + pi)


def _acceleration(
    body: JointedBody, joint: SolvedJoint, tau: Scalars, a: Vector, f: Vector
) -> tuple[list[Scalar], Vector]:
    """Returns qdd and the body's acceleration from its parent's and the force it passes on."""
    u, _ = joint.forces(body.p + f, tau)
    return joint.accelerations(body.X.motion(a) + body.c, u)


def _bodies(
    tree: Tree, q: Scalars, qd: Scalars, f_ext: Wrenches | None, scans: TreeScans
) -> list[JointedBody]:
    t = bias_terms(tree, q, qd, scans)
    J = [call(Articulated.of, inertia) for inertia in tree.inertias]
    each = zip(t.X, J, t.net_forces(f_ext), t.v, strict=True)
    bodies = [JointedBody(X, Ji, p, v.c) for X, Ji, p, v in each]
    for i, link in reversed([*enumerate(tree.links)]):
        if _weightless(link):
            for c, parent in enumerate(tree.parent):
                if parent == i:
                    bodies[c], bodies[i] = call(_lend, tree.links[c], bodies[c], bodies[i])
    return bodies


def _weightless(link: Link) -> bool:
    """Tells whether a joint feels no inertia of its body, in no state of the robot."""
    m, h, S = link.inertia
    if not is_number(m, *h, *S, *link.armature):
        return False
    J = Articulated.of(link.inertia)
    D = [[dot(s, J @ t) for t in link.S] for s in link.S]
    for k, armature in enumerate(link.armature):
        D[k][k] += armature
    return eigenvalues(D)[0] <= WEIGHTLESS * max(abs(x) for row in J.rows for x in row)


def _lend(link: Link, child: JointedBody, body: JointedBody) -> tuple[JointedBody, JointedBody]:
    """Moves inertia from a child, by its link, to its parent: the part that the child's joint does
    not feel, so that no motion changes.
    """
    joint = solved_joint(link, child.J)
    felt = Articulated.of(NO_INERTIA)
    for e in joint.freedoms:
        felt = felt.minus_outer(e.U * -e.Dinv, e.U)
    J = body.J + child.X.articulated_to_parent(joint.IA)
    p = body.p + child.X.force_to_parent(joint.IA @ child.c)
    return child._replace(J=felt), body._replace(J=J, p=p)


class BodySpan(NamedTuple):
    """Joints and bodies in series: f1 = H a1 + A^T f + pi, a2 = A a1 - Phi f + alpha."""

    H: Matrix
    A: Matrix
    Phi: Matrix
    pi: Vector
    alpha: Vector


class JointSpan(NamedTuple):
    """A joint, eliminated, its torque less resistance, and the span of it and its body."""

    joint: SolvedJoint
    tau: list[Scalar]
    span: BodySpan


def _joint_span(link: Link, body: JointedBody, qd: Scalars, tau: Scalars) -> JointSpan:
    joint, net_tau = solved_joint(link, body.J), net_torques(link, qd, tau)
    u, passed = joint.forces(body.p, net_tau)
    _, alpha = joint.accelerations(body.c, u)
    span = BodySpan(
        body.X.articulated_to_parent(joint.IA).rows,
        joint.through(motion_matrix(body.X)),
        joint.compliance(),
        body.X.force_to_parent(passed + joint.IA @ body.c),
        alpha,
    )
    return JointSpan(joint, net_tau, span)


class Middle(NamedTuple):
    """The acceleration where two spans meet, EA a1 - EPhi f + e."""

    EA: Matrix
    EPhi: Matrix
    e: Vector


class Assembly(NamedTuple):
    """A span with the two halves it was joined from, or the one body that it consists of."""

    span: BodySpan
    body: int
    halves: tuple[Assembly, Assembly, Middle] | None = None

    def inside(self, a: Vector, f: Vector) -> list[tuple[int, Vector, Vector]]:
        """Returns each body, its parent's acceleration and the force that it passes on, for the
        acceleration at the assembly's base and the force that its tip passes on.
        """
        if self.halves is None:
            return [(self.body, a, f)]
        left, right, middle = self.halves
        a_between, f_between = call(_between, right.span, middle, a, f)
        return left.inside(a, f_between) + right.inside(a_between, f)


def _between(right: BodySpan, middle: Middle, a: Vector, f: Vector) -> tuple[Vector, Vector]:
    """Returns the acceleration and the force where two spans meet."""
    H, A, _, pi, _ = right
    EA, EPhi, e = middle
    a_between = matvec(EA, a) - matvec(EPhi, f) + e
    return a_between, matvec(H, a_between) + matvec(transpose(A), f) + pi


def _assembly(spans: Sequence[BodySpan], bodies: Sequence[int]) -> Assembly:
    """Joins spans in a balanced binary tree."""
    if len(spans) == 1:
        return Assembly(spans[0], bodies[0])
    half = len(spans) // 2
    left = _assembly(spans[:half], bodies[:half])
    right = _assembly(spans[half:], bodies[half:])
    span, middle = call(_joined, left.span, right.span)
    return Assembly(span, WORLD, (left, right, middle))


def _joined(left: BodySpan, right: BodySpan) -> tuple[BodySpan, Middle]:
    """Joins two spans: (1 + Phi_left H_right) a = ... is solved for the acceleration a where they
    meet. The matrix has no eigenvalue below 1.
    """
    At, PhiAt = transpose(left.A), matmul(left.Phi, transpose(right.A))
    column = left.alpha - matvec(left.Phi, right.pi)
    rows = tuple(Vector((*a, *b, c)) for a, b, c in zip(left.A, PhiAt, column, strict=True))
    solved = solve(plus(IDENTITY6, matmul(left.Phi, right.H)), rows)
    EA, EPhi = tuple(Vector(r[:6]) for r in solved), tuple(Vector(r[6:12]) for r in solved)
    e = Vector([r[12] for r in solved])
    return BodySpan(
        plus(left.H, matmul(At, matmul(right.H, EA))),
        matmul(right.A, EA),
        plus(right.Phi, matmul(right.A, EPhi)),
        left.pi + matvec(At, right.pi + matvec(right.H, e)),
        right.alpha + matvec(right.A, e),
    ), Middle(EA, EPhi, e)
