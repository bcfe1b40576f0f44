"""M^-1 and what is computed with it, with bounds from mechanics stated of all that is between.

The factor is that of `deferred`. M^-1 itself is computed before anything is multiplied by it:
products with W^T and then with W have larger bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.deferred import deferred_factor
from featherlane.algorithms.derivatives import Fixed, motion
from featherlane.algorithms.forward_derivatives import (
    forward_dynamics_derivatives_from,
    mass_matrix_of_pairs,
)
from featherlane.algorithms.mminv import Rows, mass_matrix, square
from featherlane.algorithms.rnea import rnea
from featherlane.robot.mass_bounds import MassBounds
from featherlane.robot.tree import Tree
from featherlane.robot.walk import entries_outward
from featherlane.scalar import Scalar, Tag, at, call, select, within

Ends = Sequence[tuple[float, float]]


def _scaled(W: Scalars, Dinv: Scalars, each: Sequence[float]) -> list[Scalar]:
    return [within(w * d, -b, b) for w, d, b in zip(W, Dinv, each, strict=True)]


def _entry(a: Scalars, b: Scalars, most: float) -> Scalar:
    """Returns a . b. most: the largest product and result."""
    products = [within(s * t, -most, most) for s, t in zip(a, b, strict=True)]
    return within(sum(products), -most, most)


def inverse(model: Tree, M: Sequence[Sequence[Scalar]], bounds: MassBounds) -> Rows:
    """Returns M^-1 for a mass matrix of this model; NaN if M is singular."""
    W, Dinv, _ = deferred_factor(model, M, bounds)
    scaled, Minv = list[dict[int, Scalar]](), square(model.nv)
    for i in entries_outward(model, "W"):
        pivots, most = [Dinv[k] for k in W[i]], [bounds.scaled(i, k) for k in W[i]]
        scaled.append(dict(zip(W[i], call(_scaled, [*W[i].values()], pivots, most), strict=True)))
        for j in range(i + 1):
            shared = [k for k in model.ancestors[j] if k in W[i]]
            rows = [scaled[i][k] for k in shared], [W[j][k] for k in shared]
            Minv[i][j] = Minv[j][i] = call(_entry, *rows, bounds.inverse(i, j))
    return Minv


def bounded_inverse(model: Tree, q: Scalars, bounds: MassBounds) -> Rows:
    """Returns M(q)^-1, nv x nv, symmetric."""
    return inverse(model, mass_matrix(model, q), bounds)


def bounded_acceleration(
    model: Tree, Minv: Rows, tau: Scalars, bias: Scalars, ends: Ends | None
) -> list[Scalar]:
    """Returns M^-1 (tau - bias), whose rows have entries between branches that meet alone, or the
    nearest within the ends.
    """
    forces = [t - b for t, b in zip(tau, bias, strict=True)]
    root = [line[-1] for line in model.ancestors]
    qdd = [
        sum(x * f for k, (x, f) in enumerate(zip(row, forces, strict=True)) if root[k] == root[i])
        for i, row in enumerate(Minv)
    ]
    return [_saturated(x, *pair) for x, pair in zip(qdd, ends, strict=True)] if ends else qdd


def _saturated(x: Scalar, low: float, high: float) -> Scalar:
    x = select(x < low, low, x)
    return select(high < x, high, x)


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
    return at(Tag("L", "f", 0), call, bounded_acceleration, model, Minv, tau, bias, ends)


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
    """Returns qdd = M^-1 (tau - bias). ends: the range that each entry saturates at, if any."""
    return _solved(model, bounded_inverse(model, q, bounds), q, qd, tau, f_ext, ends)


def bounded_forward_dynamics_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
    *,
    bounds: MassBounds,
    ends: Ends | None = None,
) -> tuple[Rows, Rows, Rows]:
    """Returns (da/dq, da/dv, da/dtau) with a = FD(q, qd, tau), as products with M^-1. ends: the
    range that each entry of a saturates at, if any.
    """
    Minv = inverse(model, mass_matrix_of_pairs(model, motion(model, q, qd)), bounds)
    qdd = _solved(model, Minv, q, qd, tau, f_ext, ends)
    return *forward_dynamics_derivatives_from(model, q, qd, qdd, Minv, f_ext, fixed), Minv
