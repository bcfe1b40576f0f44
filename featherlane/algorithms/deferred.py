"""M^-1 with divisions deferred: the elimination multiplies where it would divide, so that no
reciprocal waits for another one.

Eliminating entry k of the symmetric M replaces H_ij by H_ij - H_ki H_kj / H_kk for its ancestors i
and j (Featherstone 2008, table 6.3), and the next pivot waits for that division. Here row i is kept
as N_ij = s_i H_ij, and becomes d N_ij - r (2^-e N_ki) N_kj with d = 2^-e N_kk, 1 <= d < 2: its
denominator s_i grows by d, at most one bit for each entry below it. r is what s_i has of other
branches, which are done as a whole, one after the other. All reciprocals 1 / N_kk are taken beside
the elimination. This costs about two products for one of `factor`, and is for circuits, where a
division takes as long as three products.

Interval arithmetic bounds neither pivots nor W. Where formats of circuits are proved, the bounds of
`robot.mass_bounds` are what the proof knows: N_ij has s_i times the bound of H_ij.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.derivatives import Fixed, motion
from featherlane.algorithms.factor import InvertedFactor
from featherlane.algorithms.forward_derivatives import (
    forward_dynamics_derivatives_from,
    mass_matrix_of_pairs,
)
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.rnea import rnea
from featherlane.robot.mass_bounds import MassBounds, unbounded
from featherlane.robot.tree import Tree
from featherlane.robot.walk import branches_inward, entries_outward
from featherlane.scalar import Scalar, call, scale_to_one, unless_lost, within

GROWTH = 2.002  # of a denominator, at most: d is below 2, but for the rounding of a pivot


class _Pivot(NamedTuple):
    """d = 2^-e N_kk, the scale 2^-e, 1 / N_kk and 1 / D_k = s_k / N_kk."""

    d: Scalar
    scale: Scalar
    inverse: Scalar
    Dinv: Scalar


def _pivot(N: Scalar, s: Scalar, entry: Scalar, least: float, most: float) -> _Pivot:
    """entry: M_kk, by whose size a pivot is lost among rounding errors. least, most: of N."""
    N = within(N, least, most)
    scale, inverse = scale_to_one(N), 1.0 / N
    return _Pivot(N * scale, scale, inverse, unless_lost(s * inverse, N, s * entry))


def _eliminated(
    pivot: _Pivot,
    r: Scalar,
    entry: Scalar,
    row: Scalars,
    pivot_row: Scalars,
    most: float,
    each: Sequence[float],
) -> tuple[Scalar, list[Scalar]]:
    """Returns L_ki = N_ki / N_kk, and row i without entry k. most, each: the largest L_ki and
    entries of row i.
    """
    multiple = r * within(entry * pivot.scale, -GROWTH * most, GROWTH * most)
    products = [within(multiple * y, -b, b) for y, b in zip(pivot_row, each, strict=True)]
    rest = [pivot.d * x - y for x, y in zip(row, products, strict=True)]
    L = within(entry * pivot.inverse, -most, most)
    return L, [within(x, -b, b) for x, b in zip(rest, each, strict=True)]


def _minus_sum(x: Scalar, a: Scalars, b: Scalars, most: float) -> Scalar:
    """Returns -(x + a . b). most: the largest product and result."""
    products = [within(s * t, -most, most) for s, t in zip(a, b, strict=True)]
    return within(-sum(products, start=x), -most, most)


def deferred_factor(
    model: Tree, M: Sequence[Sequence[Scalar]], bounds: MassBounds | None = None
) -> InvertedFactor:
    """Returns W and 1 / D of M^-1 = W diag(1 / D) W^T for a mass matrix of this model; NaN if M is
    singular. bounds: are stated of what is computed.

    W = L^-1 is summed as W_ik = -(L_ik + sum_j W_ij L_jk): of the rows of L, those that come last
    are wanted last.
    """
    bounds = bounds or unbounded(model.nv)
    N = [{j: M[i][j] for j in line} for i, line in enumerate(model.ancestors)]
    L: list[dict[int, Scalar]] = [{} for _ in N]
    Dinv: list[Scalar] = [0.0] * model.nv
    s: list[Scalar] = [1.0] * model.nv  # of branches below an entry that are done
    largest = [1.0] * model.nv  # the largest denominator of each row
    for k in branches_inward(model, "L"):
        ends = bounds.D[k], largest[k] * bounds.M[k]
        pivot = call(_pivot, N[k][k], s[k], M[k][k], *ends)
        Dinv[k], r = pivot.Dinv, 1.0
        for i in model.ancestors[k][1:]:
            r = call(mul, r, s[i])
            largest[i] *= GROWTH
            rows = [N[i][j] for j in N[i]], [N[k][j] for j in N[i]]
            each = [largest[i] * bounds.entry(i, j) for j in N[i]]
            L[k][i], row = call(_eliminated, pivot, r, N[k][i], *rows, bounds.factor(k, i), each)
            N[i] = dict(zip(N[i], row, strict=True))
        for above in model.ancestors[k][1:2]:
            s[above] = call(_grown, s[above], s[k], pivot.d)
    return InvertedFactor(_inverted(model, L, bounds), Dinv, model)


def _grown(s: Scalar, branch: Scalar, d: Scalar) -> Scalar:
    return s * (branch * d)


def _inverted(
    model: Tree, L: list[dict[int, Scalar]], bounds: MassBounds
) -> list[dict[int, Scalar]]:
    W: list[dict[int, Scalar]] = [{i: 1.0} for i in range(model.nv)]
    for i in entries_outward(model, "W"):
        above = model.ancestors[i][1:]
        for n, k in enumerate(above):
            between = [W[i][j] for j in above[:n]], [L[j][k] for j in above[:n]]
            W[i][k] = call(_minus_sum, L[i][k], *between, bounds.inverted(i, k))
    return W


def deferred_inverse(model: Tree, q: Scalars) -> Rows:
    """Returns M(q)^-1, nv x nv, symmetric."""
    return deferred_factor(model, mass_matrix(model, q)).inverse()


def deferred_forward_dynamics(
    model: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None = None
) -> Scalars:
    """Returns qdd = M^-1 (tau - bias)."""
    bias = rnea(model, q, qd, [0.0] * model.nv, f_ext)
    return deferred_factor(model, mass_matrix(model, q)).acceleration(tau, bias)


def deferred_forward_dynamics_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[Rows, Rows, Rows]:
    """Returns (da/dq, da/dv, da/dtau) with a = FD(q, qd, tau), as products with M^-1."""
    inverse = deferred_factor(model, mass_matrix_of_pairs(model, motion(model, q, qd)))
    bias = rnea(model, q, qd, [0.0] * model.nv, f_ext)
    qdd, Minv = inverse.acceleration(tau, bias), inverse.inverse()
    return *forward_dynamics_derivatives_from(model, q, qd, qdd, Minv, f_ext, fixed), Minv
