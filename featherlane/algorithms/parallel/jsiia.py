"""Forward dynamics through the mass matrix: the JSIIA of Yang, Wu and Pan, Parallel dynamics
computation using prefix sum operations (2016), section III-D.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches, no_wrenches, rigid_acceleration
from featherlane.algorithms.factor import factor
from featherlane.algorithms.mminv import Rows, add_pair, square
from featherlane.algorithms.parallel.inverse import torques
from featherlane.algorithms.parallel.kinematics import (
    HERE,
    METHOD,
    Terms,
    ground_of,
    product,
    terms,
)
from featherlane.algorithms.scan import path_scan, subtree_sum
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import ZERO6, Inertia, Transform, Vector
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


def jsiia(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
) -> list[Scalar]:
    """qdd = M^-1 (tau - bias), nv scalars: the bias and all columns of M are one batch of scanned
    inverse dynamics, in which transforms are composed once; M is factored as L^T D L, joint after
    joint. For every robot.

    method: one of `path_scan`; ValueError for any other.
    """
    bias, M = bias_and_mass_matrix(tree, q, qd, f_ext, method)
    return factor(tree, M).acceleration(tau, bias)


BIAS = -1  # the column that is none of M's


class Batch(NamedTuple):
    """x -> X x + own for several motion vectors at once: those of the freedoms that a row of joints
    has, by their numbers, and the bias.
    """

    X: Transform
    columns: dict[int, Vector]


def _batch_on(a: Batch, b: Batch) -> Batch:
    """a, then b."""
    columns = {n: b.X.motion(x) for n, x in a.columns.items()}
    columns[BIAS] = columns[BIAS] + b.columns[BIAS]
    return Batch(product(a.X, b.X), b.columns | columns)


class Load(NamedTuple):
    """A body or a subtree, and the force that the bias asks of it."""

    I: Inertia
    f: Vector

    def __add__(self, other: Load) -> Load:  # type: ignore[override]
        return Load(self.I + other.I, self.f + other.f)


def bias_and_mass_matrix(
    tree: Tree, q: Scalars, qd: Scalars, f_ext: Wrenches | None = None, method: str = METHOD
) -> tuple[list[Scalar], Rows]:
    """(tau at qdd = 0, M): nv scalars, and nv x nv.

    Column j of M is inverse dynamics at rest with qdd_j = 1. Below its joint the robot then is one
    rigid body, and all columns share the sums inwards of these bodies' inertias.
    """
    t = terms(tree, q, qd, method=method)
    columns = _accelerations(tree, t, method)
    loads = _loads(tree, t, [x[BIAS] for x in columns], f_ext or no_wrenches(tree), method)
    still = [0.0] * tree.nv
    bias = torques(tree, [load.f for load in loads], qd, still)
    M, owner = square(tree.nv, tree.armature), [k for own in tree.freedoms for k, _ in own]
    for i, own in enumerate(tree.numbered):
        for n, (k, S) in own:
            force = loads[i].I @ S
            for j, x in columns[i].items():
                if BIAS < j <= n:
                    add_pair(M, k, owner[j], x, force, same=n == j)
    return bias, M


def _accelerations(tree: Tree, t: Terms, method: str) -> list[dict[int, Vector]]:
    """Of each body, for a unit of each qdd that moves it, and for none."""
    elements = []
    for i, p in enumerate(tree.parent):
        start = t.X[i].motion(ground_of(tree)) if p == WORLD else ZERO6
        columns = {n: S for n, (_, S) in tree.numbered[i]}
        elements.append(Batch(HERE if p == WORLD else t.X[i], columns | {BIAS: start + t.v[i].c}))
    return [element.columns for element in path_scan(_batch_on, elements, tree.parent, method)]


def _loads(tree: Tree, t: Terms, a: Sequence[Vector], f_ext: Wrenches, method: str) -> list[Load]:
    """Of the subtrees."""
    bodies = [
        Load(I, I.wrench(rigid_acceleration(v.w, x[:3]), Vector(x[3:])) - f)
        for I, v, x, f in zip(tree.inertias, t.v, a, f_ext, strict=True)
    ]
    act = lambda X, x: Load(X.inertia_to_parent(x.I), X.force_to_parent(x.f))
    return subtree_sum(add, act, product, bodies, t.X, tree.parent, method)
