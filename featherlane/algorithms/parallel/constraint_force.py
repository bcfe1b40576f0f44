"""Forward dynamics by constraint forces: A. Fijany, I. Sharf, G. M. T. D'Eleuterio, Parallel O(log
N) algorithms for computation of manipulator forward dynamics (1995); Y. Yang, Y. Wu, J. Pan, A
novel GPU-based parallel implementation scheme and performance analysis of robot forward dynamics
algorithms (2016), equations 9 to 17.

The unknowns are forces f on the links through their joints. With J a = f - X^T f_next - p, the rate
at which a joint opens, a - X a_parent - c, must be S qdd. So W^T (that) = 0 for the directions W
that the joint does not allow: a symmetric block-tridiagonal system, one block for each joint,
solved by elimination. In the letters of the paper it is A = W^T (1 - G) J^-1 (1 - G)^T W.

Two things are added. Where a joint has armature, its torque S^T f = tau - armature qdd is not known
beforehand: z = -sqrt(armature) qdd joins the unknowns, along sqrt(armature) T, where T is the dual
of S (T^T S = 1), with the equation sqrt(armature) qdd + z = 0. And a body without mass between
joints, as in a universal joint, has no J^-1: its joints count as one, whose S moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from featherlane.algorithms.elimination import eliminate
from featherlane.algorithms.kinematics import Scalars, Wrenches
from featherlane.algorithms.parallel.dense import (
    IDENTITY,
    ZERO,
    inverse,
    minus,
    motion_matrix,
    outer,
    plus,
)
from featherlane.algorithms.parallel.joint import accelerating, coupling_refusal, refuse
from featherlane.algorithms.parallel.kinematics import (
    HERE,
    METHOD,
    product,
    resting_ground,
    terms,
)
from featherlane.scalar import Scalar, sqrt
from featherlane.spatial import (
    NO_INERTIA,
    ZERO6,
    Articulated,
    Inertia,
    Matrix,
    Transform,
    Vector,
    dot,
    matmul,
    matvec,
    transpose,
)
from featherlane.tree import Freedom, Tree

SINGULAR = 1e-14  # the least eigenvalue of an inertia in the units of its largest


def cfa_refusal(tree: Tree) -> str | None:
    """Why `cfa` does not take a robot, and what does. Inertias given at run time pass."""
    if any(p != i - 1 for i, p in enumerate(tree.parent)):
        return "cfa is for chains, and this robot has branches: use 'dca', 'aba' or 'jsiia'"
    for i, inertia in enumerate(tree.inertias):
        if _inverts(inertia) or (_massless(inertia) and i + 1 < tree.nbodies):
            continue
        return (
            f"cfa inverts the inertia of every body, and that of body {tree.carriers.index(i)} is "
            "singular: use 'dca', 'aba' or 'jsiia'"
        )
    return coupling_refusal(tree, "cfa")


def _massless(inertia: Inertia) -> bool:
    return inertia == NO_INERTIA if _known(inertia) else False


def _known(inertia: Inertia) -> bool:
    m, h, S = inertia
    return all(isinstance(x, int | float) for x in (m, *h, *S))


def _inverts(inertia: Inertia) -> bool:
    if not _known(inertia):
        return True
    values = np.linalg.eigvalsh(np.array(Articulated.of(inertia).rows))
    return bool(values[0] > SINGULAR * values[-1])


def cfa(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
    elimination: str = "odd_even",
    refinements: int = 1,
) -> list[Scalar]:
    """qdd of `aba`, nv scalars, of a chain, in O(log n) rounds.

    The tree has to be one in which no mass rides on a parent (`tree(model, ride=False)`), so that
    each body has its own inertia. method: of the scan of angular velocities, one of `path_scan`;
    elimination: one of `eliminate`. refinements: how often what the equations still lack is solved
    for again; odd-even elimination needs it once where masses differ by orders. The factors are the
    same, so that a graph has them once. ValueError for any other method, and for robots of which
    `cfa_refusal` says why.
    """
    refuse(cfa_refusal(tree))
    links = _links(tree, q, qd, tau, f_ext, method)
    blocks = _system(links)
    f = [_combined(link.basis.T, link.tau) for link in links]
    geared = [[0.0] * link.basis.geared for link in links]
    for _ in range(1 + refinements):
        opening = _openings(tree, links, f)
        right = [link.basis.left(x, s) for link, x, s in zip(links, opening, geared, strict=True)]
        for n, x in enumerate(eliminate(*blocks, right, elimination)):
            f[n] = f[n] + _combined(links[n].basis.unknown, x)
            last = x[len(x) - len(geared[n]) :]
            geared[n] = [s + y for s, y in zip(geared[n], last, strict=True)]
    qdd: list[Scalar] = [None] * tree.nv
    for link, opened in zip(links, _openings(tree, links, f), strict=True):
        for k, T in zip(link.dofs, link.basis.T, strict=True):
            qdd[k] = dot(T, opened)
    return qdd


def _combined(vectors: Sequence[Vector], factors: Scalars) -> Vector:
    total = ZERO6
    for x, s in zip(vectors, factors, strict=True):
        total = total + x * s
    return total


# The links


class Basis(NamedTuple):
    """How the force on a link is made up: T tau + unknown x. The first unknowns may be more than
    needed, then `redundant` is the projector on what of them must vanish; the last `geared` ones
    belong to armatures.
    """

    T: list[Vector]
    unknown: list[Vector]
    redundant: Matrix
    geared: int

    def left(self, opening: Vector, geared: Scalars) -> list[Scalar]:
        """What the equations still lack; geared: the unknowns of armatures."""
        left = [-dot(b, opening) for b in self.unknown]
        first = len(left) - len(geared)
        for i, z in enumerate(geared, first):
            left[i] = left[i] - z
        return left


class Link(NamedTuple):
    """A body of some inertia, and the joints between it and the link before: its acceleration is X
    times that one's + c + S qdd.
    """

    dofs: list[int]
    X: Matrix
    c: Vector
    Jinv: Matrix
    p: Vector
    tau: list[Scalar]
    basis: Basis


class Joints(NamedTuple):
    """Joints in a row, with bodies of no mass between them."""

    dofs: list[int]
    S: list[Vector]
    X: Transform
    c: Vector

    def then(self, own: Sequence[Freedom], X: Transform, c: Vector) -> Joints:
        """With the next joint; all seen from the body that it moves."""
        return Joints(
            [*self.dofs, *[k for k, _ in own]],
            [*[X.motion(S) for S in self.S], *[S for _, S in own]],
            product(self.X, X),
            X.motion(self.c) + c,
        )


NO_JOINTS = Joints([], [], HERE, ZERO6)


def _links(
    tree: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None, method: str
) -> list[Link]:
    t = terms(tree, q, qd, method=method)
    p, torque = _on_masses(tree, t.X, t.own_forces(tree, f_ext), accelerating(tree, qd, tau))
    links, joints = [], NO_JOINTS
    for i, (X, v) in enumerate(zip(t.X, t.v, strict=True)):
        several = bool(joints.dofs)
        joints = joints.then(tree.freedoms[i], X, v.c)
        if not _massless(tree.inertias[i]):
            basis = _basis(joints.S, [tree.armature[k] for k in joints.dofs], several)
            Jinv = inverse(Articulated.of(tree.inertias[i]).rows)
            own = [torque[k] for k in joints.dofs]
            X6 = motion_matrix(joints.X)
            links.append(Link(joints.dofs, X6, joints.c, Jinv, p[i], own, basis))
            joints = NO_JOINTS
    return links


def _on_masses(
    tree: Tree, X: Sequence[Transform], p: list[Vector], tau: list[Scalar]
) -> tuple[list[Vector], list[Scalar]]:
    """Wrenches on bodies of no mass are taken up by their joints and the body before."""
    for i in reversed(range(tree.nbodies)):
        if _massless(tree.inertias[i]):
            for k, S in tree.freedoms[i]:
                tau[k] = tau[k] - dot(S, p[i])
            if i > 0:
                p[i - 1] = p[i - 1] + X[i].force_to_parent(p[i])
    return p, tau


# What a joint allows, and what not


def _basis(S: Sequence[Vector], armature: Sequence[Scalar], moving: bool) -> Basis:
    """Of a joint's S; moving: whether S changes with the state."""
    T = _dual(S)
    redundant: Matrix = ()
    unknown = [] if moving else _complement(S)
    if moving:
        redundant = ZERO
        for s, t in zip(S, T, strict=True):
            redundant = plus(redundant, outer(s, t))
        unknown = list(minus(IDENTITY, redundant))
    geared = [t * sqrt(x) for t, x in zip(T, armature, strict=True) if not _is_zero(x)]
    return Basis(T, unknown + geared, redundant, len(geared))


def _is_zero(x: Scalar) -> bool:
    return isinstance(x, int | float) and x == 0


def _dual(S: Sequence[Vector]) -> list[Vector]:
    """T in the span of S with T^T S = 1."""
    gram = inverse(tuple(Vector([dot(s, t) for t in S]) for s in S))
    return [_combined(S, row) for row in gram]


def _complement(S: Sequence[Vector]) -> list[Vector]:
    """What is orthogonal to a constant S, as orthonormal vectors: unit vectors where S is made of
    such.
    """
    Q = np.linalg.qr(np.array(S, float).T)[0]
    found: list[Vector] = []
    while Q.shape[1] < 6:
        rest = np.eye(6) - Q @ Q.T
        k = int(np.argmax(np.diag(rest).round(12)))
        r = rest[:, k] / np.sqrt(rest[k, k])
        Q = np.column_stack([Q, r])
        found.append(Vector(map(float, r)))
    return found


# The system


def _openings(tree: Tree, links: Sequence[Link], f: Sequence[Vector]) -> list[Vector]:
    """a - X a_parent - c of all links under the forces f through their joints: S qdd, if f is
    right.
    """
    taken = [matvec(transpose(link.X), x) for link, x in zip(links[1:], f[1:], strict=True)]
    a = [
        matvec(link.Jinv, own - passed - link.p)
        for link, own, passed in zip(links, f, [*taken, ZERO6], strict=True)
    ]
    above = [resting_ground(tree), *a[:-1]]
    return [x - matvec(link.X, y) - link.c for link, x, y in zip(links, a, above, strict=True)]


def _system(links: Sequence[Link]) -> tuple[list[Matrix], list[Matrix]]:
    """The diagonal and the off-diagonal blocks."""
    diagonal, off_diagonal = [], []
    for n, link in enumerate(links):
        K = link.Jinv
        if n > 0:
            K = plus(K, matmul(link.X, matmul(links[n - 1].Jinv, transpose(link.X))))
        diagonal.append(_block(link.basis, K))
        if n + 1 < len(links):
            B, after = link.basis.unknown, links[n + 1]
            coupling = [
                -matvec(link.Jinv, matvec(transpose(after.X), b)) for b in after.basis.unknown
            ]
            off_diagonal.append(tuple(Vector([dot(b, x) for x in coupling]) for b in B))
    return diagonal, off_diagonal


def _block(basis: Basis, K: Matrix) -> Matrix:
    """Of the diagonal, where K is the compliance of the two bodies at the joint."""
    moved = [matvec(K, b) for b in basis.unknown]
    D = [[dot(b, x) for x in moved] for b in basis.unknown]
    scale = (1.0 / 6.0) * sum((K[i][i] for i in range(6)), start=0.0)
    for i, row in enumerate(basis.redundant):
        for j, x in enumerate(row):
            D[i][j] = D[i][j] + scale * x
    for i in range(len(D) - basis.geared, len(D)):
        D[i][i] = D[i][i] + 1.0
    return tuple(map(Vector, D))
