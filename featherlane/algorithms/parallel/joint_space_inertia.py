"""Forward dynamics through the mass matrix: the JSIIA of Yang, Wu and Pan, Parallel dynamics
computation using prefix sum operations (2016), section III-D.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, matmul
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches, no_wrenches, rigid_acceleration
from featherlane.algorithms.factor import factor
from featherlane.algorithms.mminv import Rows, add_pair, square
from featherlane.algorithms.parallel.inverse import joint_torques
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    NO_MOTION,
    BiasTerms,
    TreeScans,
    bias_terms,
    ground_of,
    product,
)
from featherlane.algorithms.springs import plus_springs
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import ZERO6, Inertia, Transform, Vector
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, call


def jsiia(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
) -> list[Scalar]:
    """Returns qdd = M^-1 (tau - bias), nv scalars, for every robot (Yang's equations 5, 6, 17).

    The bias and all columns of M are one batch of scanned inverse dynamics, which composes each
    transform once. M is factored serially as L^T D L. method: a method of `path_scan`; raises
    ValueError for any other.
    """
    bias, M = bias_and_mass_matrix(tree, q, qd, f_ext, method)
    return factor(tree, M).acceleration(tau, bias)


BIAS = -1  # the column of the bias; M's are numbered by their degrees of freedom


class BatchMap(NamedTuple):
    """The map x -> X x + y of several motion vectors at once, through joints in series.

    The vectors are numbered by the joints' degrees of freedom; one more is the bias.
    """

    X: Transform
    columns: dict[int, Vector]

    def then(self, b: BatchMap) -> BatchMap:
        columns = {n: b.X.motion(x) for n, x in self.columns.items()}
        columns[BIAS] = columns[BIAS] + b.columns[BIAS]
        return BatchMap(product(self.X, b.X), b.columns | columns)


class SubtreeBias(NamedTuple):
    """The inertia of a body or subtree, and the force on it at qdd = 0."""

    I: Inertia
    f: Vector

    @staticmethod
    def of(inertia: Inertia, w: Vector, a: Vector, wrench: Vector) -> SubtreeBias:
        f = inertia.wrench(rigid_acceleration(w, a[:3]), Vector(a[3:])) - wrench
        return SubtreeBias(inertia, f)

    def __add__(self, other: SubtreeBias) -> SubtreeBias:  # type: ignore[override]
        return SubtreeBias(self.I + other.I, self.f + other.f)

    @staticmethod
    def to_parent(X: Transform, x: SubtreeBias) -> SubtreeBias:
        return SubtreeBias(X.inertia_to_parent(x.I), X.force_to_parent(x.f))


def bias_and_mass_matrix(
    tree: Tree, q: Scalars, qd: Scalars, f_ext: Wrenches | None = None, method: str = METHOD
) -> tuple[list[Scalar], Rows]:
    """Returns tau at qdd = 0, nv scalars, and M, nv x nv.

    Column j of M is inverse dynamics at rest with qdd_j = 1 (equation 17). Beyond joint j the robot
    is then one rigid body, so that all columns share the composite inertias.
    """
    scans = TreeScans(tree.parent, method, {})
    t = bias_terms(tree, q, qd, scans)
    columns = _accelerations(tree, t, scans)
    subtrees = _subtrees(tree, t, [x[BIAS] for x in columns], f_ext or no_wrenches(tree), scans)
    bias = joint_torques(tree, [x.f for x in subtrees], qd, [0.0] * tree.nv)
    bias = plus_springs(tree, q, qd, bias)
    M, owner = square(tree.nv, tree.armature), [k for body in tree.freedoms for k, _ in body]
    for i, freedoms in enumerate(tree.numbered):
        for n, (k, S) in freedoms:
            force = call(matmul, subtrees[i].I, S)
            for j, x in columns[i].items():
                if BIAS < j <= n:
                    add_pair(M, k, owner[j], x, force, same=n == j)
    return bias, M


def _accelerations(tree: Tree, t: BiasTerms, scans: TreeScans) -> list[dict[int, Vector]]:
    """Returns each body's acceleration for a unit qdd of each of its ancestors, and at qdd = 0."""
    maps = []
    for i, p in enumerate(tree.parent):
        start = call(Transform.motion, t.X[i], ground_of(tree)) if p == WORLD else ZERO6
        columns = {n: S for n, (_, S) in tree.numbered[i]} | {BIAS: call(add, start, t.v[i].c)}
        maps.append(BatchMap(NO_MOTION if p == WORLD else t.X[i], columns))
    return [x.columns for x in scans.along_paths(BatchMap.then, maps)]


def _subtrees(
    tree: Tree, t: BiasTerms, a: Sequence[Vector], f_ext: Wrenches, scans: TreeScans
) -> list[SubtreeBias]:
    """Returns the sums over all subtrees, where bodies have the accelerations a at qdd = 0."""
    each = zip(tree.inertias, t.v, a, f_ext, strict=True)
    bodies = [call(SubtreeBias.of, I, v.w, x, f) for I, v, x, f in each]
    return scans.over_subtrees(SubtreeBias.to_parent, product, bodies, t.X)
