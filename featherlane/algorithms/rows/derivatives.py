"""Derivatives of inverse dynamics and the Coriolis matrix as products of matrices, for robots of
many links.

An entry is a sum of dot products of a vector of one freedom with a vector of the other, both seen
from the first body of their branch (`derivatives.DerivativeColumn`). With these vectors as rows of
two matrices, the entries are those of a product of matrices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.derivatives import (
    DerivativeColumn,
    Loads,
    TreeMotion,
    columns,
    motion_and_loads,
)
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.terms import CoriolisColumn, coriolis_columns
from featherlane.algorithms.turned_armature import turning_coriolis
from featherlane.robot.spatial import ZERO6, Transform, Vector
from featherlane.robot.tree import Tree
from featherlane.robot.walk import outward
from featherlane.scalar import Scalar, call


class ByPosition(NamedTuple):
    """The widths of the parts of a freedom's row, in their order, for derivatives by q.

    dtau_i/dq_j is S_i . onto_j for an ancestor i of j, below_i . above_j for a descendant, and
    S_i . within_j within a joint, where springs make the diagonal [S, one] . [within, spring].
    """

    S: int = 6
    one: int = 1
    onto: int = 6
    below: int = 12
    above: int = 12
    within: int = 6
    spring: int = 1


class ByVelocity(NamedTuple):
    """The widths of the parts of a freedom's row, in their order, for derivatives by v.

    dtau_i/dv_j is S_i . onto_j for an ancestor i of j or within a joint, and below_i . above_j for
    a descendant; S, one and below are those of `ByPosition`, below as far as above is wide. slope
    is the joint's resistance slope: the diagonal is [S, one] . [onto, slope]. Where free joints
    turn armature, [within, slope] is in place of [onto, slope] within a joint.
    """

    onto: int = 6
    slope: int = 1
    above: int = 9
    within: int = 0  # 7 where free joints turn armature


def _derivative_rows(
    C: Transform, local: DerivativeColumn, slope: Scalar, spring: Scalar, turning: Vector | None
) -> tuple[list, list]:
    """Returns a freedom's rows in the parent coordinates of C."""
    c = local.in_parent_frame(C)
    below = [*c.IS, *c.BtS[:3], *c.TtS[:3]]
    above = [*c.ddpsi, *c.psi[:3], *c.S[:3]]
    by_position = [*c.S, 1.0, *c.dq, *below, *above, *c.within, spring]
    within = [*(c.dv + C.force_to_parent(turning)), slope] if turning else []
    return by_position, [*c.dv, slope, *c.rate, *c.S[:3], *within]


class ByCoriolis(NamedTuple):
    """The widths of the parts of a freedom's row, in their order, for the Coriolis matrix.

    C_ij is S_i . onto_j for an ancestor i of j or within a joint, and below_i . above_j for a
    descendant. Where free joints turn armature, within_j is in place of onto_j within a joint.
    """

    S: int = 6
    onto: int = 6
    below: int = 9
    above: int = 9
    within: int = 0  # 6 where free joints turn armature


def derivative_rows(model: Tree, m: TreeMotion, load: Loads) -> tuple[Rows, Rows]:
    """Returns the rows of `ByPosition` and `ByVelocity` of all freedoms."""
    slopes, local = dict(enumerate(m.slopes)), columns(model, m, load)
    springs = dict(m.springs)
    by_position, by_velocity = [], []
    for i in outward(model, "D"):
        for n, (k, _) in model.numbered[i]:
            turning = m.turning.get(k, ZERO6) if m.turning else None
            physics = slopes.pop(k, 0.0), springs.pop(k, 0.0), turning
            q, v = call(_derivative_rows, m.C[i], local[n], *physics)
            by_position.append(q)
            by_velocity.append(v)
    return by_position, by_velocity


def inverse_dynamics_derivative_rows(model: Tree, *state: Any, **options: Any) -> tuple[Rows, Rows]:
    """Returns the `derivative_rows` of a state; the arguments are those of
    `motion_and_loads`.
    """
    return derivative_rows(model, *motion_and_loads(model, *state, **options))


def _coriolis_row(C: Transform, local: CoriolisColumn, turning: Vector | None) -> list:
    c = local.in_parent_frame(C)
    within = c.force + C.force_to_parent(turning) if turning else []
    return [*c.S, *c.force, *c.IS, *c.BtS[:3], *c.dS, *c.S[:3], *within]


def coriolis_rows(model: Tree, q: Scalars, qd: Scalars) -> Rows:
    """Returns the rows of `ByCoriolis` of all freedoms."""
    (m, local), turning = coriolis_columns(model, q, qd), turning_coriolis(model, qd)
    return [
        call(_coriolis_row, m.C[i], local[n], turning.get(k, ZERO6) if turning else None)
        for i in outward(model, "D")
        for n, (k, _) in model.numbered[i]
    ]
