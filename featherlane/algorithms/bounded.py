"""M^-1 and what is computed with it, with bounds from mechanics stated of all that is between.

This is `deferred` once more, in which interval arithmetic alone bounds neither pivots nor W = L^-1.
Where formats of circuits are proved, the bounds of `robot.mass_bounds` are what the proof knows:
N_ij = s_i S_ij has s_i times the bound of S_ij, and s_i at most doubles with each entry below i.
M^-1 is made before anything is multiplied by it, since sums by rows of W have larger bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import mul
from typing import Any

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.deferred import Pivot, grown
from featherlane.algorithms.derivatives import motion
from featherlane.algorithms.forward_derivatives import (
    forward_dynamics_derivatives_from,
    mass_matrix_of_pairs,
)
from featherlane.algorithms.mminv import Rows, mass_matrix, square
from featherlane.algorithms.rnea import rnea
from featherlane.robot.mass_bounds import MassBounds
from featherlane.robot.tree import Tree
from featherlane.robot.walk import entries_inward, entries_outward
from featherlane.scalar import Scalar, Tag, at, call, scale_to_one, unless_lost, within

GROWTH = 2.002  # of a row's denominator: a pivot is scaled to below 2, but for its rounding
Ends = Sequence[tuple[float, float]]


def _stated(x: Scalar, most: float, least: float | None = None) -> Scalar:
    """Returns x with the statement that it is from -most, or from least, to most."""
    return x if most == inf else within(x, -most if least is None else least, most)


def _pivot(N: Scalar, s: Scalar, entry: Scalar, most: float, least: float) -> Pivot:
    """entry: M_kk, by whose size a pivot is lost among rounding errors. most, least: of N."""
    N = _stated(N, most, least)
    scale, inverse = scale_to_one(N), 1.0 / N
    return Pivot(N * scale, scale, inverse, unless_lost(s * inverse, N, s * entry))


def _eliminated(
    pivot: Pivot, r: Scalar, entry: Scalar, row: Scalars, pivot_row: Scalars, most: float, each: Any
) -> tuple[Scalar, list[Scalar]]:
    """Returns L_ki = N_ki / N_kk, and row i without entry k. most, each: bounds of L_ki and of the
    entries of row i.
    """
    L = _stated(entry * pivot.inverse, most)
    multiple = r * _stated(entry * pivot.scale, GROWTH * most)
    products = [_stated(multiple * y, b) for y, b in zip(pivot_row, each, strict=True)]
    left = [pivot.d * x - y for x, y in zip(row, products, strict=True)]
    return L, [_stated(x, b) for x, b in zip(left, each, strict=True)]


def _inverted(x: Scalar, a: Scalars, b: Scalars, most: float) -> Scalar:
    """Returns -(x + a . b), where no sum of products is larger."""
    products = [_stated(s * t, most) for s, t in zip(a, b, strict=True)]
    return _stated(-sum(products, start=x), most)


def _scaled(W: Scalars, Dinv: Scalars, each: Scalars) -> list[Scalar]:
    return [_stated(w * d, b) for w, d, b in zip(W, Dinv, each, strict=True)]


def _inverse_entry(a: Scalars, b: Scalars, most: float) -> Scalar:
    """Returns a . b, where no product is larger."""
    return _stated(sum(_stated(s * t, most) for s, t in zip(a, b, strict=True)), most)


def inverse(model: Tree, M: Sequence[Sequence[Scalar]], bounds: MassBounds) -> Rows:
    """Returns M^-1 for a mass matrix of this model; NaN if M is singular."""
    N = [{j: M[i][j] for j in line} for i, line in enumerate(model.ancestors)]
    L: list[dict[int, Scalar]] = [{} for _ in N]
    Dinv: list[Scalar] = [0.0] * model.nv
    s: list[Scalar] = [1.0] * model.nv  # of branches below an entry that are done
    largest = [1.0] * model.nv  # the largest s
    for k in entries_inward(model, "L"):
        ends = largest[k] * bounds.M[k], bounds.D[k]
        pivot, r = call(_pivot, N[k][k], s[k], M[k][k], *ends), 1.0
        Dinv[k] = pivot.Dinv
        for i in model.ancestors[k][1:]:
            largest[i] *= GROWTH
            r = call(mul, r, s[i])
            rows = [N[i][j] for j in N[i]], [N[k][j] for j in N[i]]
            each = [largest[i] * bounds.entry(i, j) for j in N[i]]
            L[k][i], row = call(_eliminated, pivot, r, N[k][i], *rows, bounds.factor(k, i), each)
            N[i] = dict(zip(N[i], row, strict=True))
        for i in model.ancestors[k][1:2]:
            s[i] = call(grown, s[i], s[k], pivot.d)
    W: list[dict[int, Scalar]] = [{i: 1.0} for i in range(model.nv)]
    scaled, Minv = list[dict[int, Scalar]](), square(model.nv)
    for i in entries_outward(model, "W"):
        above = model.ancestors[i][1:]
        for n, k in enumerate(above):
            between = [W[i][j] for j in above[:n]], [L[j][k] for j in above[:n]]
            W[i][k] = call(_inverted, L[i][k], *between, bounds.inverted(i, k))
        pivots, most = [Dinv[k] for k in W[i]], [bounds.scaled(i, k) for k in W[i]]
        scaled.append(dict(zip(W[i], call(_scaled, [*W[i].values()], pivots, most), strict=True)))
        for j in range(i + 1):
            shared = [k for k in model.ancestors[j] if k in W[i]]
            rows = [scaled[i][k] for k in shared], [W[j][k] for k in shared]
            Minv[i][j] = Minv[j][i] = call(_inverse_entry, *rows, bounds.inverse(i, j))
    return Minv


def bounded_inverse(model: Tree, q: Scalars, bounds: MassBounds) -> Rows:
    """Returns M(q)^-1, nv x nv, symmetric."""
    return inverse(model, mass_matrix(model, q), bounds)


def _acceleration(model: Tree, Minv: Rows, tau: Scalars, bias: Scalars) -> list[Scalar]:
    """Returns M^-1 (tau - bias), whose rows have entries between branches that meet alone."""
    forces = [t - b for t, b in zip(tau, bias, strict=True)]
    root = [line[-1] for line in model.ancestors]
    return [
        sum(x * f for k, (x, f) in enumerate(zip(row, forces, strict=True)) if root[k] == root[i])
        for i, row in enumerate(Minv)
    ]


def _solved(
    model: Tree,
    Minv: Rows,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None,
    ends: Ends | None,
) -> list[Scalar]:
    bias = rnea(model, q, qd, [0.0] * model.nv, f_ext)
    qdd = at(Tag("L", "f", 0), call, _acceleration, model, Minv, tau, bias)
    return [within(x, *pair) for x, pair in zip(qdd, ends, strict=True)] if ends else qdd


def bounded_forward_dynamics(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    *,
    bounds: MassBounds,
    ends: Ends | None = None,
) -> list[Scalar]:
    """Returns qdd = M^-1 (tau - bias). ends: the range of each entry of qdd, if it has one."""
    return _solved(model, bounded_inverse(model, q, bounds), q, qd, tau, f_ext, ends)


def bounded_forward_dynamics_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    *,
    bounds: MassBounds,
    ends: Ends | None = None,
) -> tuple[Rows, Rows, Rows]:
    """Returns (da/dq, da/dv, da/dtau) with a = FD(q, qd, tau), as products with M^-1. ends: the
    range of each entry of a, if it has one.
    """
    Minv = inverse(model, mass_matrix_of_pairs(model, motion(model, q, qd)), bounds)
    qdd = _solved(model, Minv, q, qd, tau, f_ext, ends)
    return *forward_dynamics_derivatives_from(model, q, qd, qdd, Minv, f_ext), Minv
