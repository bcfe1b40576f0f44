"""The mass matrix and its inverse from one backward sweep: MMinvGen, Algorithm 2 of Dadu-RBD
(2023).

Without the elimination of each joint the sweep is the composite-rigid-body algorithm, with it the
inertia half of the articulated-body algorithm; F[j] is the force that column j of the result asks
of the body at hand.
"""

from __future__ import annotations

from collections.abc import Callable

from featherlane.algorithms.aba import resisted
from featherlane.algorithms.common import Scalars
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import ZERO6, Articulated, Vector, dot
from featherlane.robot.tree import Tree
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, unless_lost

Rows = list[list]
ByFreedom = Callable[[Tree, Scalars], Rows]
Columns = dict[int, dict[int, Vector]]  # by body, then by freedom


def square(n: int, diagonal: Scalars | None = None) -> Rows:
    """A matrix of zeros but for its diagonal."""
    return [[diagonal[i] if diagonal and i == j else 0.0 for j in range(n)] for i in range(n)]


def add_pair(M: Rows, i: int, j: int, entry: Scalar, same: bool) -> None:
    """Adds what two freedoms give to a symmetric matrix; `same`: one freedom with itself."""
    M[i][j] = M[i][j] + entry
    if not same:
        M[j][i] = M[i][j] if i != j else M[i][j] + entry


def mass_matrix(model: Tree, q: Scalars, rows: ByFreedom | None = None) -> Rows:
    """M(q), nv x nv, symmetric. rows: what is wanted of each freedom in place of entries."""
    if rows is not None:
        return rows(model, q)
    M, IC = square(model.nv, model.armature), dict(enumerate(model.inertias))
    F: Columns = {i: {} for i in range(model.nbodies)}
    owner = [freedom.k for own in model.freedoms for freedom in own]
    for i in inward(model, "M"):
        X, p = model.joint_transform(i, q), model.parent[i]
        for n, (k, S) in reversed(model.numbered[i]):
            F[i][n] = IC[i] @ S
            for j, force in F[i].items():
                add_pair(M, k, owner[j], dot(S, force), same=n == j)
        if p != WORLD:
            IC[p] = IC[p] + X.inertia_to_parent(IC[i])
            F[p].update({j: X.force_to_parent(force) for j, force in F[i].items()})
    return M


def mass_matrix_inverse(model: Tree, q: Scalars, rows: ByFreedom | None = None) -> Rows:
    """M(q)^-1, nv x nv, symmetric. Not for bodies that share coordinates (`Tree.coupled`). rows: as
    for `mass_matrix`.
    """
    if rows is not None:
        return rows(model, q)
    Minv, X, U, Dinv = {}, {}, {}, {}
    IA = {i: Articulated.of(inertia) for i, inertia in enumerate(model.inertias)}
    F: Columns = {i: {} for i in range(model.nbodies)}
    for i in inward(model, "M"):
        X[i], p = model.joint_transform(i, q), model.parent[i]
        for k, S in reversed(model.freedoms[i]):
            U[k], D, size = resisted(IA[i], S, model.armature[k], model.loads[i])
            Dinv[k] = 1.0 / D
            Minv[k, k] = unless_lost(Dinv[k], D, size)
            for j, force in F[i].items():
                Minv[k, j] = -(Dinv[k] * dot(S, force))
                F[i][j] = force + U[k] * Minv[k, j]
            F[i][k] = U[k] * Dinv[k]
            IA[i] = IA[i].minus_outer(F[i][k], U[k])
        if p != WORLD:
            IA[p] = IA[p] + X[i].articulated_to_parent(IA[i])
            F[p].update({j: X[i].force_to_parent(force) for j, force in F[i].items()})
    P: dict[tuple[int, int], Vector] = {}
    for i in outward(model, "M"):
        for j in range(model.freedoms[i][0].k, model.nv):
            P[i, j] = X[i].motion(P.get((model.parent[i], j), ZERO6))
            for k, S in model.freedoms[i]:
                if k <= j:
                    Minv[k, j] = Minv.get((k, j), 0.0) - Dinv[k] * dot(U[k], P[i, j])
                P[i, j] = P[i, j] + S * Minv[min(k, j), max(k, j)]
    n = range(model.nv)
    return [[Minv.get((min(i, j), max(i, j)), 0.0) for j in n] for i in n]
