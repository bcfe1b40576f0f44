"""Derivatives of inverse dynamics and the Coriolis matrix as products of matrices, for robots of
many links.

What two freedoms ask of each other are dot products of vectors that belong to each alone, all seen
from the first body of their branch (`derivatives.Columns`). With those as rows of matrices, a
freedom and all that it meets are the entries of a product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.derivatives import Columns, Loads, Motion, columns, motion_and_loads
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.terms import CoriolisColumn, coriolis_columns
from featherlane.robot.spatial import Transform
from featherlane.robot.tree import Tree
from featherlane.robot.walk import outward
from featherlane.scalar import Scalar, call


class ByPosition(NamedTuple):
    """Rows of all freedoms, one behind the other: their widths.

    dtau_i/dq_j is S_i . onto_j of an ancestor i by j, below_i . above_j of j's descendant i, and
    S_i . own_j within a joint.
    """

    S: int = 6
    one: int = 1
    onto: int = 6
    below: int = 12
    above: int = 12
    own: int = 6


class ByVelocity(NamedTuple):
    """dtau_i/dv_j is S_i . onto_j of an ancestor i by j or within a joint, and below_i . above_j of
    j's descendant i, where below is what it is by position, as far as above is wide; slope is what
    the joint's resistance adds to the diagonal, where onto and slope meet S and one.
    """

    onto: int = 6
    slope: int = 1
    above: int = 9


def _derivative_rows(C: Transform, local: Columns, slope: Scalar) -> tuple[list, list]:
    """Of a freedom, seen through C."""
    c = local.seen_by(C)
    below = [*c.IS, *c.BtS[:3], *c.TtS[:3]]
    above = [*c.ddpsi, *c.psi[:3], *c.S[:3]]
    by_position = [*c.S, 1.0, *c.dq, *below, *above, *c.own]
    return by_position, [*c.dv, slope, *c.rate, *c.S[:3]]


class ByCoriolis(NamedTuple):
    """The same of the Coriolis matrix: C_ij is S_i . onto_j of an ancestor i by j or within a
    joint, and below_i . above_j of j's descendant i.
    """

    S: int = 6
    onto: int = 6
    below: int = 9
    above: int = 9


def derivative_rows(model: Tree, m: Motion, load: Loads) -> tuple[Rows, Rows]:
    """Returns the rows of `ByPosition` and `ByVelocity` of all freedoms."""
    slopes, local = dict(enumerate(m.slopes)), columns(model, m, load)
    by_position, by_velocity = [], []
    for i in outward(model, "D"):
        for n, (k, _) in model.numbered[i]:
            q, v = call(_derivative_rows, m.C[i], local[n], slopes.pop(k, 0.0))
            by_position.append(q)
            by_velocity.append(v)
    return by_position, by_velocity


def inverse_dynamics_derivative_rows(model: Tree, *state: Any, **options: Any) -> tuple[Rows, Rows]:
    """Returns `derivative_rows` at a state: the arguments are those of
    `inverse_dynamics_derivatives`.
    """
    return derivative_rows(model, *motion_and_loads(model, *state, **options))


def _coriolis_row(C: Transform, local: CoriolisColumn) -> list:
    c = local.seen_by(C)
    return [*c.S, *c.force, *c.IS, *c.BtS[:3], *c.dS, *c.S[:3]]


def coriolis_rows(model: Tree, q: Scalars, qd: Scalars) -> Rows:
    """Returns the rows of `ByCoriolis` of all freedoms."""
    m, local = coriolis_columns(model, q, qd)
    return [
        call(_coriolis_row, m.C[i], local[n])
        for i in outward(model, "D")
        for n, _ in model.numbered[i]
    ]
