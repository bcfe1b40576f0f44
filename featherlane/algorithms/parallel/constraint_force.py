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
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from featherlane.algorithms.common import Scalars, Wrenches, joint_entries
from featherlane.algorithms.elimination import factored
from featherlane.algorithms.parallel.basis import Basis, combined, joint_basis
from featherlane.algorithms.parallel.dense import inverse, motion_matrix, plus
from featherlane.algorithms.parallel.joint import coupling_refusal, link_accelerating, refuse
from featherlane.algorithms.parallel.kinematics import METHOD, ground_of, product, terms
from featherlane.robot.spatial import (
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
from featherlane.robot.tree import Link as TreeLink
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, call

SINGULAR = 1e-14  # the least eigenvalue of an inertia in the units of its largest


def cfa_refusal(tree: Tree) -> str | None:
    """Why `cfa` does not take a robot, and what does. Inertias given at run time pass."""
    if any(p != i - 1 for i, p in enumerate(tree.parent)):
        return "cfa is for chains, and this robot has branches"
    for i, inertia in enumerate(tree.inertias):
        if _inverts(inertia) or (_massless(inertia) and i + 1 < tree.nbodies):
            continue
        return (
            f"cfa inverts the inertia of every body, and that of body {tree.carriers.index(i)} is "
            "singular"
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
    **options: int,
) -> list[Scalar]:
    """qdd of `aba`, nv scalars, of a chain, in O(log n) rounds.

    The tree has to be one in which no mass rides on a parent (`tree(model, ride=False)`), so that
    each body has its own inertia. method: of the scan of angular velocities, one of `path_scan`,
    with its options; elimination: one of `eliminate`. refinements: how often what the equations
    still lack is solved for again, with the same factors; odd-even elimination needs it once where
    masses differ by orders. ValueError for any other method, and for robots of which `cfa_refusal`
    says why.
    """
    refuse(cfa_refusal(tree))
    links, dofs = _links(tree, q, qd, tau, f_ext, method, **options)
    matrix = factored(*_system(links), elimination)
    x = matrix.solve(_lacking(tree, links, [[0.0] * len(link.basis.unknown) for link in links]))
    for _ in range(refinements):
        more = matrix.solve(_lacking(tree, links, x))
        x = [call(_sum, *both) for both in zip(x, more, strict=True)]
    qdd: list[Scalar] = [None] * tree.nv
    for own, link, a in zip(dofs, links, _accelerations(tree, links, x), strict=True):
        for k, rate in zip(own, call(_rates, link, a), strict=True):
            qdd[k] = rate
    return qdd


# The links


class Link(NamedTuple):
    """A body of some inertia, and the joints between it and the link before: its acceleration is X
    times that one's + c + S qdd.
    """

    X: Transform
    c: Vector
    Jinv: Matrix
    p: Vector
    tau: list[Scalar]
    basis: Basis

    def force(self, x: Scalars) -> Vector:
        """That through its joints, for its unknowns x."""
        return combined(self.basis.T, self.tau) + combined(self.basis.unknown, x)


class Joints(NamedTuple):
    """Joints in a row, with bodies of no mass between them, seen from the body that they move."""

    S: Sequence[Vector]
    X: Transform
    c: Vector


def _then(joints: Joints, S: Sequence[Vector], X: Transform, c: Vector) -> Joints:
    """With the next joint."""
    S = [*[X.motion(s) for s in joints.S], *S]
    return Joints(S, product(joints.X, X), X.motion(joints.c) + c)


def _links(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None,
    method: str,
    **options: int,
) -> tuple[list[Link], list[list[int]]]:
    """The links, and the degrees of freedom of each."""
    t = terms(tree, q, qd, method, **options)
    p, torques = _on_masses(tree, t.X, t.own_forces(tree, f_ext), qd, tau)
    links, dofs = [], []
    for row in _rows(tree):
        joints = Joints(tree.links[row[0]].S, t.X[row[0]], t.v[row[0]].c)
        for i in row[1:]:
            joints = call(_then, joints, tree.links[i].S, t.X[i], t.v[i].c)
        own = [k for i in row for k, _ in tree.freedoms[i]]
        basis = joint_basis(joints.S, [tree.armature[k] for k in own], moving=len(row) > 1)
        Jinv = call(_inverse, tree.inertias[row[-1]])
        torque = [x for i in row for x in torques[i]]
        links.append(Link(joints.X, joints.c, Jinv, p[row[-1]], torque, basis))
        dofs.append(own)
    return links, dofs


def _rows(tree: Tree) -> list[list[int]]:
    """The bodies of each link: those of no mass, and the one that has some."""
    rows: list[list[int]] = [[]]
    for i, inertia in enumerate(tree.inertias):
        rows[-1].append(i)
        if not _massless(inertia):
            rows.append([])
    return rows[:-1]


def _inverse(inertia: Inertia) -> Matrix:
    return inverse(Articulated.of(inertia).rows)


def _on_masses(
    tree: Tree, X: Sequence[Transform], p: list[Vector], qd: Scalars, tau: Scalars
) -> tuple[list[Vector], list[Scalars]]:
    """p and the torques of each body: wrenches on bodies of no mass are taken up by their joints
    and the body before.
    """
    torques: list[Scalars] = []
    for i in reversed(range(tree.nbodies)):
        own, light = [joint_entries(tree, i, x) for x in (qd, tau)], _massless(tree.inertias[i])
        torques.append(call(_torques, tree.links[i], *own, p[i] if light else ZERO6))
        if light and i > 0:
            p[i - 1] = call(_handed_on, X[i], p[i], p[i - 1])
    return p, torques[::-1]


def _torques(link: TreeLink, qd: Scalars, tau: Scalars, p: Vector) -> list[Scalar]:
    """What is left of a joint's torques to accelerate, where the body asks for p."""
    left = link_accelerating(link, qd, tau)
    return [t - dot(S, p) for S, t in zip(link.S, left, strict=True)]


def _handed_on(X: Transform, p: Vector, before: Vector) -> Vector:
    return before + X.force_to_parent(p)


# The system


def _system(links: Sequence[Link]) -> tuple[list[Matrix], list[Matrix]]:
    """The diagonal and the off-diagonal blocks."""
    first, _ = call(_blocks, links[0])
    pairs = [call(_blocks, link, before) for before, link in pairwise(links)]
    return [first, *[D for D, _ in pairs]], [U for _, U in pairs]


def _blocks(link: Link, before: Link | None = None) -> tuple[Matrix, Matrix]:
    """Of the diagonal, and between the link before and this one."""
    if before is None:
        return _diagonal(link.basis, link.Jinv), ()
    X, B = motion_matrix(link.X), link.basis.unknown
    K = plus(link.Jinv, matmul(X, matmul(before.Jinv, transpose(X))))
    passed = [-matvec(before.Jinv, matvec(transpose(X), b)) for b in B]
    U = tuple(Vector([dot(b, x) for x in passed]) for b in before.basis.unknown)
    return _diagonal(link.basis, K), U


def _diagonal(basis: Basis, K: Matrix) -> Matrix:
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


# The equations


Motion = tuple[Vector, Vector]  # the accelerations of a link and of the one before


def _lacking(tree: Tree, links: Sequence[Link], x: Sequence[Scalars]) -> list[list[Scalar]]:
    """What the equations of all links lack, for unknowns x."""
    each = zip(links, _accelerations(tree, links, x), x, strict=True)
    return [call(_lack, *own) for own in each]


def _accelerations(tree: Tree, links: Sequence[Link], x: Sequence[Scalars]) -> list[Motion]:
    """Of all links, for unknowns x."""
    each = zip(links, x, links[1:], x[1:], strict=False)
    a = [call(_acceleration, *own) for own in each]
    a.append(call(_acceleration, links[-1], x[-1]))
    return list(zip(a, [ground_of(tree), *a[:-1]], strict=True))


def _acceleration(
    link: Link, x: Scalars, after: Link | None = None, x_after: Scalars = ()
) -> Vector:
    """Under the force through the link's own joint and that through the one after."""
    f = link.force(x) - link.p
    if after is not None:
        f = f - after.X.force_to_parent(after.force(x_after))
    return matvec(link.Jinv, f)


def _opening(link: Link, motion: Motion) -> Vector:
    """a - X a_before - c: S qdd, if the forces are right."""
    a, before = motion
    return a - link.X.motion(before) - link.c


def _lack(link: Link, motion: Motion, x: Scalars) -> list[Scalar]:
    opening = _opening(link, motion)
    lack = [-dot(b, opening) for b in link.basis.unknown]
    for i in range(len(x) - link.basis.geared, len(x)):
        lack[i] = lack[i] - x[i]
    return lack


def _sum(x: Scalars, y: Scalars) -> list[Scalar]:
    return [a + b for a, b in zip(x, y, strict=True)]


def _rates(link: Link, motion: Motion) -> list[Scalar]:
    """qdd of a link's joints."""
    opening = _opening(link, motion)
    return [dot(T, opening) for T in link.basis.T]
