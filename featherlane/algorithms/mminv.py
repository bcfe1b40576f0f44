"""The mass matrix and its inverse from one backward sweep: MMinvGen, Algorithm 2 of Dadu-RBD
(2023).

Without the elimination of each joint the sweep is the composite-rigid-body algorithm, with it the
inertia half of the articulated-body algorithm. F[i][j] is the force of column j on body i.
"""

from __future__ import annotations

from operator import matmul

from featherlane.algorithms.aba import resisted
from featherlane.algorithms.common import Scalars
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import ZERO6, Articulated, Inertia, Transform, Vector, dot
from featherlane.robot.tree import Tree
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call, unless_lost

Rows = list[list]
Columns = dict[int, dict[int, Vector]]  # by body, then by freedom


def square(n: int, diagonal: Scalars | None = None) -> Rows:
    """Returns an n x n matrix of zeros but for its diagonal."""
    return [[diagonal[i] if diagonal and i == j else 0.0 for j in range(n)] for i in range(n)]


def plus_product(total: Scalar, a: Vector, b: Vector) -> Scalar:
    return total + dot(a, b)


def add_pair(M: Rows, i: int, j: int, a: Vector, b: Vector, same: bool) -> None:
    """Adds a . b to a symmetric matrix, for two freedoms with the entries i and j of v. same:
    whether they are one freedom.
    """
    M[i][j] = M[j][i] = call(plus_product, M[i][j], a, b)
    if i == j and not same:
        M[i][i] = call(plus_product, M[i][i], a, b)


def with_subtree(X: Transform, I: Inertia, parent: Inertia) -> Inertia:
    """Returns the parent's inertia with a child's subtree added."""
    return parent + X.inertia_to_parent(I)


def mass_matrix(model: Tree, q: Scalars) -> Rows:
    """Returns M(q), nv x nv, symmetric."""
    M, IC = square(model.nv, model.armature), dict(enumerate(model.inertias))
    F: Columns = {i: {} for i in range(model.nbodies)}
    entry = [freedom.k for freedoms in model.freedoms for freedom in freedoms]
    for i in inward(model, "M"):
        X, p = model.joint_transform(i, q), model.parent[i]
        for n, (k, S) in reversed(model.numbered[i]):
            F[i][n] = call(matmul, IC[i], S)
            for j, force in F[i].items():
                add_pair(M, k, entry[j], S, force, same=n == j)
        if p != WORLD:
            IC[p] = call(with_subtree, X, IC[i], IC[p])
            F[p].update({j: call(Transform.force_to_parent, X, f) for j, f in F[i].items()})
    return M


def _resisted(
    IA: Articulated, S: Vector, armature: Scalar, load: Scalar
) -> tuple[Vector, Scalar, Scalar]:
    """Returns U, D^-1, and D^-1 again, which is NaN where no inertia resists the joint."""
    U, D, scale = resisted(IA, S, armature, load)
    Dinv = 1.0 / D
    return U, Dinv, unless_lost(Dinv, D, scale)


def _reaction(S: Vector, U: Vector, Dinv: Scalar, force: Vector) -> tuple[Scalar, Vector]:
    """Returns a freedom's entry of a column, and the column's force with the freedom eliminated."""
    entry = -(Dinv * dot(S, force))
    return entry, force + U * entry


def _freed(IA: Articulated, U: Vector, Dinv: Scalar) -> tuple[Vector, Articulated]:
    """Eliminates a freedom: returns U D^-1, the force of its column, and IA without it."""
    V = U * Dinv
    return V, IA.minus_outer(V, U)


def _add_articulated(X: Transform, IA: Articulated, parent: Articulated) -> Articulated:
    return parent + X.articulated_to_parent(IA)


Freed = tuple[Vector, Vector, Scalar]  # S, U and D^-1 of a freedom


def _column(
    X: Transform, above: Vector, freed: list[Freed], entries: Scalars
) -> tuple[list[Scalar], Vector]:
    """Returns a link's entries of a column, and the column's acceleration P of the link; `above` is
    the parent's.
    """
    P, column = X.motion(above), []
    for (S, U, Dinv), entry in zip(freed, entries, strict=True):
        column.append(entry - Dinv * dot(U, P))
        P = P + S * column[-1]
    return column, P


def mass_matrix_inverse(model: Tree, q: Scalars) -> Rows:
    """Returns M(q)^-1, nv x nv, symmetric. Joints that share entries of v (`Tree.coupled`) cannot
    be eliminated so.
    """
    Minv, X, U, Dinv = {}, {}, {}, {}
    IA = {i: call(Articulated.of, model.inertias[i]) for i in outward(model, "M")}
    F: Columns = {i: {} for i in range(model.nbodies)}
    for i in inward(model, "M"):
        X[i], p = model.joint_transform(i, q), model.parent[i]
        for k, S in reversed(model.freedoms[i]):
            physics = model.armature[k], model.loads[i]
            U[k], Dinv[k], Minv[k, k] = call(_resisted, IA[i], S, *physics)
            for j, force in F[i].items():
                Minv[k, j], F[i][j] = call(_reaction, S, U[k], Dinv[k], force)
            F[i][k], IA[i] = call(_freed, IA[i], U[k], Dinv[k])
        if p != WORLD:
            IA[p] = call(_add_articulated, X[i], IA[i], IA[p])
            F[p].update({j: call(Transform.force_to_parent, X[i], f) for j, f in F[i].items()})
    P: dict[tuple[int, int], Vector] = {}
    for i in outward(model, "M"):
        for j in range(model.freedoms[i][0].k, model.nv):
            freedoms = [(k, S) for k, S in model.freedoms[i] if k <= j]
            freed = [(S, U[k], Dinv[k]) for k, S in freedoms]
            entries = [Minv.get((k, j), 0.0) for k, _ in freedoms]
            above = P.get((model.parent[i], j), ZERO6)
            entries, P[i, j] = call(_column, X[i], above, freed, entries)
            Minv.update({(k, j): entry for (k, _), entry in zip(freedoms, entries, strict=True)})
    n = range(model.nv)
    return [[Minv.get((min(i, j), max(i, j)), 0.0) for j in n] for i in n]
