"""Exact derivatives of impulses: of M (v' - v) = J^T f and J (v' + e v) = 0.

With the jump d = v' - v in the place of an acceleration these are the equations of
`constrained_derivatives`, M d = J^T f and J (d + (1 + e) v) = 0, at a robot that stands still
without gravity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from featherlane.algorithms.common import Scalars, no_wrenches
from featherlane.algorithms.constrained import approach, velocity_residuals
from featherlane.algorithms.constrained_derivatives import (
    all_slopes,
    columns_less,
    columns_of,
    force_rotations,
    masked_rows,
)
from featherlane.algorithms.constraints import (
    NO_GAINS,
    Constrained,
    RowGroup,
    constraint_at,
    item_masks,
    user_forces,
)
from featherlane.algorithms.delassus import ConstrainedSystem, constrained_system
from featherlane.algorithms.derivatives import assembled, loads, motion
from featherlane.algorithms.factor import factor
from featherlane.algorithms.forward_derivatives import mass_matrix_of_pairs
from featherlane.algorithms.kkt_inverse import kkt_inverse
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.constraints import Constraints
from featherlane.robot.spatial import ZERO3
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


def impulse_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    restitution: Scalars,
    constraints: Constraints,
    active: Scalars | None = None,
) -> tuple[list[Scalar], list[Scalar], Rows, Rows, Rows, Rows]:
    """Returns v', the impulses, and the derivatives of both by q and by v."""
    still, zero = replace(model, gravity=ZERO3), [0.0] * model.nv
    m = motion(still, q, zero)
    groups = velocity_residuals(model, q, qd, constraints)
    masks = item_masks(constraints, active)
    system = constrained_system(factor(model, mass_matrix_of_pairs(still, m)), groups, masks)
    jump, f = system.solve(zero, approach(groups, restitution))
    constrained = _reflected(model, constraints, q, qd, jump, restitution)
    slopes = all_slopes(constrained, f, system)
    X, _ = assembled(still, m, loads(still, m, jump, no_wrenches(model), None))
    by_v = _approach_rows(groups, system, restitution)
    inverse, n = kkt_inverse(system, groups), model.nv
    columns = columns_of(columns_less(X, slopes.H, {}), slopes.by_q, {}, {})
    rotations = force_rotations(constrained, f, n)
    dv_dq, df_dq = inverse.matrices(
        [c._replace(f=of_forces) for c, of_forces in zip(columns, rotations, strict=True)],
        (True, True),
    )
    nothing: list[Row] = [{} for _ in range(n)]
    columns = columns_of(nothing, by_v, {}, {})
    columns = [c._replace(a={k: 1.0}) for k, c in enumerate(columns)]
    dv_dv, df_dv = inverse.matrices(columns, (True, True))
    v_next = [v + d for v, d in zip(qd, jump, strict=True)]
    return v_next, user_forces(groups, f), dv_dq, dv_dv, df_dq, df_dv


def _approach_rows(
    groups: Sequence[Sequence[RowGroup]], system: ConstrainedSystem, restitution: Scalars
) -> list[Row]:
    """Returns the rows of (1 + e) J."""
    e = [
        x
        for x, of_constraint in zip(restitution, groups, strict=True)
        for group in of_constraint
        for _ in group.rows
    ]
    return [
        {k: (1.0 + r) * x for k, x in row.items()}
        for r, row in zip(e, masked_rows(groups, system), strict=True)
    ]


def _reflected(
    model: Tree,
    constraints: Constraints,
    q: Scalars,
    qd: Scalars,
    jump: Scalars,
    restitution: Scalars,
) -> list[Constrained]:
    """Returns the constraints with residuals J (jump + (1 + e) v), where e is the
    coefficient of restitution of each."""
    zero: Sequence[Scalar] = [0.0] * model.nv
    return [
        constraint_at(
            model,
            place,
            NO_GAINS,
            q,
            zero,
            [d + (1.0 + e) * v for d, v in zip(jump, qd, strict=True)],
        )
        for place, e in zip(constraints.places, restitution, strict=True)
    ]
