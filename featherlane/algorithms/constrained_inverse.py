"""Inverse problems with constraints: least forces for a motion, and the nearest closed posture."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.configurations import integrate
from featherlane.algorithms.constraints import (
    constrained_at,
    constraint_error,
    groups_of,
    item_masks,
    rows_in_axes,
)
from featherlane.algorithms.delassus import RHO, STILL, regularised, with_diagonal
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.sparse_rows import Row, sparse_dot
from featherlane.robot.constraints import Constraints
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


def constrained_inverse_dynamics(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    weights: Scalars,
    constraints: Constraints,
    actuated: Collection[int],
    active: Scalars | None = None,
    f_ext: Wrenches | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns joint forces and forces of constraints with tau + J^T f = ID(q, qd, qdd), of which
    entries that are not `actuated` are zero: the f with the least sum of weights f^2.

    f = W^-1 J_u (J_u^T W^-1 J_u)^-1 b_u, with the columns J_u and entries b_u that have no
    actuator. What no f can reach is left in these entries of tau.
    """
    b = rnea(model, q, qd, qdd, f_ext)
    J, masks = rows_in_axes(model, q, constraints), item_masks(constraints, active)
    if masks is not None:
        J = [{k: m * x for k, x in row.items()} for row, m in zip(J, masks, strict=True)]
    free = [k for k in range(model.nv) if k not in actuated]
    columns: list[Row] = [{r: row[k] for r, row in enumerate(J) if k in row} for k in free]
    light = [{r: x * (1.0 / weights[r]) for r, x in column.items()} for column in columns]
    S = [[sparse_dot(light[i], columns[j]) for j in range(i + 1)] for i in range(len(free))]
    R = [row[i] * RHO + STILL for i, row in enumerate(S)]
    y = with_diagonal(S, R).proximal([b[k] for k in free]) if free else []
    f: list[Scalar] = [0.0] * len(J)
    for column, x in zip(light, y, strict=True):
        for r, entry in column.items():
            f[r] = f[r] + entry * x
    tau = list(b)
    for row, x in zip(J, f, strict=True):
        for k, entry in row.items():
            tau[k] = tau[k] - entry * x
    return tau, f


def closing_step(
    model: Tree,
    q: Scalars,
    constraints: Constraints,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns q after a Gauss-Newton step, the least with J dq = -e, and the errors e before."""
    still = [0.0] * model.nv
    J, masks = rows_in_axes(model, q, constraints), item_masks(constraints, active)
    e = constraint_error(model, q, constraints, anchors)
    if masks is not None:
        J = [{k: m * x for k, x in row.items()} for row, m in zip(J, masks, strict=True)]
        e = [m * x for x, m in zip(e, masks, strict=True)]
    S = [[sparse_dot(J[i], J[j]) for j in range(i + 1)] for i in range(len(J))]
    groups = groups_of(constrained_at(model, constraints, q, still, still, anchors))
    step: list[Scalar] = [0.0] * model.nv
    for row, x in zip(J, regularised(S, groups, masks).solve(e), strict=True):
        for k, entry in row.items():
            step[k] = step[k] - entry * x
    return integrate(model, q, step), e
