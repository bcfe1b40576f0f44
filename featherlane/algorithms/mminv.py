"""The mass matrix and its inverse from one backward sweep: MMinvGen, Algorithm 2 of Dadu-RBD
(2023).

Without the elimination of each joint the sweep is the composite-rigid-body algorithm, with it the
inertia half of the articulated-body algorithm; F[j] is the force that column j of the result asks
of the body at hand.
"""

from __future__ import annotations

from featherlane.algorithms.kinematics import Scalars
from featherlane.model import WORLD, Model, inward, outward
from featherlane.spatial import ZERO6, Articulated, Vector, dot, unit

Rows = list[list]
Columns = dict[int, dict[int, Vector]]  # by body, then by entry of v


def _symmetric(upper: dict, n: int) -> Rows:
    return [[upper.get((min(i, j), max(i, j)), 0.0) for j in range(n)] for i in range(n)]


def mass_matrix(model: Model, q: Scalars) -> Rows:
    """M(q), nv x nv, symmetric."""
    M, IC = {}, dict(enumerate(model.inertias))
    F: Columns = {i: {} for i in range(model.nbodies)}
    for i in inward(model, "M"):
        X, p = model.joint_transform(i, q), model.parent[i]
        for k, axis in model.freedoms[i]:
            F[i][k] = IC[i] @ unit(axis)
        for k, axis in model.freedoms[i]:
            for j, force in F[i].items():
                M[min(k, j), max(k, j)] = force[axis]
        if p != WORLD:
            IC[p] = IC[p] + X.inertia_to_parent(IC[i])
            F[p].update({j: X.force_to_parent(force) for j, force in F[i].items()})
    return _symmetric(M, model.nv)


def mass_matrix_inverse(model: Model, q: Scalars) -> Rows:
    """M(q)^-1, nv x nv, symmetric."""
    Minv, X, U, Dinv = {}, {}, {}, {}
    IA = {i: Articulated.of(inertia) for i, inertia in enumerate(model.inertias)}
    F: Columns = {i: {} for i in range(model.nbodies)}
    for i in inward(model, "M"):
        X[i], p = model.joint_transform(i, q), model.parent[i]
        for k, axis in reversed(model.freedoms[i]):
            U[k] = IA[i] @ unit(axis)
            Dinv[k] = Minv[k, k] = 1.0 / U[k][axis]
            for j, force in F[i].items():
                Minv[k, j] = -(Dinv[k] * force[axis])
                F[i][j] = force + U[k] * Minv[k, j]
            F[i][k] = U[k] * Dinv[k]
            IA[i] = IA[i].minus_outer(F[i][k], U[k])
        if p != WORLD:
            IA[p] = IA[p] + X[i].articulated_to_parent(IA[i])
            F[p].update({j: X[i].force_to_parent(force) for j, force in F[i].items()})
    P: dict[tuple[int, int], Vector] = {}
    for i in outward(model, "M"):
        for j in range(model.first_v[i], model.nv):
            P[i, j] = X[i].motion(P.get((model.parent[i], j), ZERO6))
            for k, axis in model.freedoms[i]:
                if k <= j:
                    Minv[k, j] = Minv.get((k, j), 0.0) - Dinv[k] * dot(U[k], P[i, j])
                P[i, j] = P[i, j] + unit(axis) * Minv[min(k, j), max(k, j)]
    return _symmetric(Minv, model.nv)
