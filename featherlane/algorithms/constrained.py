"""Dynamics with constraints: accelerations and forces, impulses, inverse dynamics.

    M a + h = tau + J^T f,    J a + g = 0

where g is the residual at a = 0. Forces are returned in the axes of `to`, see `robot.constraints`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.constraints import (
    NO_GAINS,
    RowGroup,
    constrained_at,
    flat,
    groups_of,
    item_masks,
    rows_in_axes,
    user_forces,
)
from featherlane.algorithms.delassus import (
    constrained_system,
    delassus,
    rows_inward,
)
from featherlane.algorithms.factor import factor
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.rnea import rnea
from featherlane.robot.constraints import Constraints
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


def residuals(groups: Sequence[Sequence[RowGroup]]) -> list[Scalar]:
    """Returns the residuals of all rows."""
    return [x for group in flat(groups) for x in group.residual]


def constrained_forward_dynamics(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    constraints: Constraints,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
    f_ext: Wrenches | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns the acceleration and the forces of the constraints."""
    still = [0.0] * model.nv
    groups = groups_of(constrained_at(model, constraints, q, qd, still, anchors))
    factored = factor(model, mass_matrix(model, q))
    system = constrained_system(factored, groups, item_masks(constraints, active))
    bias = rnea(model, q, qd, still, f_ext)
    a, f = system.solve([*map(sub, tau, bias)], residuals(groups))
    return a, user_forces(groups, f)


def velocity_residuals(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    constraints: Constraints,
) -> list[list[RowGroup]]:
    """Returns the groups of rows whose residuals are J qd: velocities in the place of
    accelerations, at a state that stands still.
    """
    still = [0.0] * model.nv
    return groups_of(constrained_at(model, constraints, q, still, qd, gains=NO_GAINS))


def impulse(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    restitution: Scalars,
    constraints: Constraints,
    active: Scalars | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """Returns the velocity v' after an impact, M (v' - v) = J^T impulse with J v' = -e J v for the
    restitution e of each constraint, and the impulses of its rows.
    """
    groups = velocity_residuals(model, q, qd, constraints)
    factored = factor(model, mass_matrix(model, q))
    system = constrained_system(factored, groups, item_masks(constraints, active))
    change, f = system.solve([0.0] * model.nv, approach(groups, restitution))
    return [v + d for v, d in zip(qd, change, strict=True)], user_forces(groups, f)


def approach(groups: Sequence[Sequence[RowGroup]], restitution: Scalars) -> list[Scalar]:
    """Returns (1 + e) J v of all rows."""
    return [
        (1.0 + e) * x
        for of_constraint, e in zip(groups, restitution, strict=True)
        for group in of_constraint
        for x in group.residual
    ]


def delassus_matrix(
    model: Tree, q: Scalars, constraints: Constraints, active: Scalars | None = None
) -> Rows:
    """Returns S = J M^-1 J^T, in the axes of `to`, with zeros for inactive constraints."""
    masks = item_masks(constraints, active)
    factored = factor(model, mass_matrix(model, q))
    S, _ = delassus(factored, rows_inward(factored, rows_in_axes(model, q, constraints), masks))
    return [[S[max(i, j)][min(i, j)] for j in range(len(S))] for i in range(len(S))]
