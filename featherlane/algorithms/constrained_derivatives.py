"""Exact derivatives of dynamics with constraints, by differentiating the equations that hold:

    M da + X - J^T df = 0,    J da + A = 0

where X are the derivatives of M a + h - J^T f - tau and A those of J a + g, at fixed a and f.
kkt_inverse.py solves them. X is that of inverse dynamics less H = d(J^T f)/dq (see
`constraint_slopes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

from featherlane.algorithms.common import Scalars, Wrenches, no_wrenches
from featherlane.algorithms.constrained import residuals
from featherlane.algorithms.constraint_slopes import ResidualSlopes, add_entry, residual_slopes
from featherlane.algorithms.constraints import (
    Constrained,
    RowGroup,
    constrained_at,
    flat,
    groups_of,
    item_masks,
    user_forces,
)
from featherlane.algorithms.delassus import ConstrainedSystem, constrained_system
from featherlane.algorithms.derivatives import Fixed, TreeMotion, assembled, loads, motion
from featherlane.algorithms.factor import factor
from featherlane.algorithms.forward_derivatives import (
    Columns,
    by_free_roots,
    mass_matrix_of_pairs,
)
from featherlane.algorithms.kkt_columns import SparseColumn
from featherlane.algorithms.kkt_inverse import KKTInverse, kkt_inverse
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.rnea import rnea
from featherlane.algorithms.sparse_rows import Row, sparse, sparse_dot
from featherlane.robot.constraints import Constraints, FramePair
from featherlane.robot.spatial import Vector, cross, split
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, is_zero


class Differentiated(NamedTuple):
    """Accelerations and forces, and the derivatives of both by q, v and tau."""

    a: list[Scalar]
    force: list[Scalar]
    da_dq: Rows
    da_dv: Rows
    da_dtau: Rows
    df_dq: Rows
    df_dv: Rows
    df_dtau: Rows


Shifts = Callable[[list[Scalar]], tuple[list[Scalar], list[Scalar]]]


class Level(Protocol):
    """The residuals that constraints hold at zero: of accelerations, or of the velocities at the
    end of a step.
    """

    def at(self, model: Tree, q: Scalars, qd: Scalars, qdd: Scalars) -> list[Constrained]:
        """Returns the constraints, whose residuals are zero at the acceleration that solves."""

    def by_v(
        self, constrained: Sequence[Constrained], J: Sequence[Row], slopes: ResidualSlopes
    ) -> list[Row]:
        """Returns the derivatives of the residuals by v. J: the rows, masked."""

    def boosted(
        self, constrained: Sequence[Constrained], J: Sequence[Row], by_v: Sequence[Row], c: Columns
    ) -> dict[int, Row]:
        """Returns the columns of A + J c for changes of a free root's linear velocity."""


class AccelerationLevel(NamedTuple):
    """Constraints of accelerations, with Baumgarte's terms."""

    constraints: Constraints
    anchors: Sequence[Scalars] | None = None

    def at(self, model: Tree, q: Scalars, qd: Scalars, qdd: Scalars) -> list[Constrained]:
        return constrained_at(model, self.constraints, q, qd, qdd, self.anchors)

    def by_v(
        self, constrained: Sequence[Constrained], J: Sequence[Row], slopes: ResidualSlopes
    ) -> list[Row]:
        return slopes.by_v

    def boosted(
        self, constrained: Sequence[Constrained], J: Sequence[Row], by_v: Sequence[Row], c: Columns
    ) -> dict[int, Row]:
        """They are kd J, as accelerations stay the same in the world; but for rods, whose ends
        rotate about each other.
        """
        columns = plus_times_known(J, by_v, c)
        ones = [one for one in constrained for group in one.groups for _ in group.rows]
        for place, one in enumerate(ones):
            if isinstance(one.place, FramePair) and one.place.length is None:
                for k, column in columns.items():
                    column.pop(place, None)
                    if k in J[place] and not is_zero(one.gains.d):
                        column[place] = one.gains.d * J[place][k]
        return columns


class Solved(NamedTuple):
    """Accelerations and forces of constraints, and what their derivatives start from."""

    a: list[Scalar]
    f: list[Scalar]
    groups: list[list[RowGroup]]
    system: ConstrainedSystem
    motion: TreeMotion


def solved(
    model: Tree,
    level: Level,
    state: tuple[Scalars, Scalars, Scalars],
    masks: list[Scalar] | None,
    f_ext: Wrenches,
) -> Solved:
    """Returns the solution at q, qd and tau, with the mass matrix that derivatives need."""
    (q, qd, tau), still = state, [0.0] * model.nv
    m = motion(model, q, qd)
    groups = groups_of(level.at(model, q, qd, still))
    system = constrained_system(factor(model, mass_matrix_of_pairs(model, m)), groups, masks)
    bias = rnea(model, q, qd, still, f_ext)
    a, f = system.solve([t - h for t, h in zip(tau, bias, strict=True)], residuals(groups))
    return Solved(a, f, groups, system, m)


class Linearised(NamedTuple):
    """The solution, and the equations of its derivatives: their inverse, and their columns."""

    a: list[Scalar]
    force: list[Scalar]
    inverse: KKTInverse
    by_q: list[SparseColumn]
    by_v: list[SparseColumn]

    def differentiated(self, wanted: tuple[bool, bool] = (True, True)) -> Differentiated:
        """Returns the acceleration and the forces with the derivatives of both; wanted: whether
        those of each are computed by q and v.
        """
        da_dq, df_dq = self.inverse.matrices(self.by_q, wanted)
        da_dv, df_dv = self.inverse.matrices(self.by_v, wanted)
        df_dtau = [[-row.get(r, 0.0) for row in self.inverse.B] for r in range(len(self.force))]
        P = self.inverse.P
        return Differentiated(self.a, self.force, da_dq, da_dv, P, df_dq, df_dv, df_dtau)

    def of_accelerations(self) -> tuple[list[Scalar], Rows, Rows, Rows]:
        """Returns the acceleration, and its derivatives by q, v and tau."""
        slopes = self.differentiated((True, False))
        return slopes.a, slopes.da_dq, slopes.da_dv, slopes.da_dtau

    def of_forces(self) -> tuple[list[Scalar], Rows, Rows, Rows]:
        """Returns the forces, and their derivatives by q, v and tau."""
        slopes = self.differentiated((False, True))
        return slopes.force, slopes.df_dq, slopes.df_dv, slopes.df_dtau


def linearised(
    model: Tree,
    level: Level,
    state: tuple[Scalars, Scalars, Scalars],
    masks: list[Scalar] | None,
    f_ext: Wrenches | None,
    fixed: Fixed,
    shifts: Shifts | None = None,
) -> Linearised:
    """Returns the solution at q, qd and tau, and the equations of its derivatives.

    shifts(a): what else the diagonals of X by q and by v have.
    """
    f_ext = f_ext or no_wrenches(model)
    a, f, groups, system, m = solved(model, level, state, masks, f_ext)
    constrained = level.at(model, *state[:2], a)
    slopes = all_slopes(constrained, f, system)
    load = loads(model, m, a, f_ext, fixed)
    X_q, X_v = assembled(model, m, load)
    known_q, known_v = by_free_roots(model, m, load, fixed)
    J = masked_rows(groups, system)
    slopes_v = level.by_v(constrained, J, slopes)
    still_v = level.boosted(constrained, J, slopes_v, known_v)
    still_q = plus_times_known(J, slopes.by_q, known_q)
    for X, diagonal in zip((X_q, X_v), shifts(a) if shifts else (), strict=False):
        for k, x in enumerate(diagonal):
            X[k][k] = X[k][k] + x
    rotations = force_rotations(constrained, f, model.nv)
    by_q = columns_of(columns_less(X_q, slopes.H, known_q), slopes.by_q, known_q, still_q)
    by_q = [c._replace(f=by_q_of_f) for c, by_q_of_f in zip(by_q, rotations, strict=True)]
    by_v = columns_of(columns_less(X_v, {}, known_v), slopes_v, known_v, still_v)
    return Linearised(a, user_forces(groups, f), kkt_inverse(system, groups), by_q, by_v)


def linearised_forward_dynamics(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    constraints: Constraints,
    active: Scalars | None = None,
    anchors: Sequence[Scalars] | None = None,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> Linearised:
    """Returns the solution at q, qd and tau, and the equations of its derivatives."""
    level, masks = AccelerationLevel(constraints, anchors), item_masks(constraints, active)
    return linearised(model, level, (q, qd, tau), masks, f_ext, fixed)


def constrained_forward_dynamics_derivatives(
    model: Tree, *state: Any, **options: Any
) -> Differentiated:
    """Returns the acceleration, the forces, and their derivatives in the tangent space of q. The
    arguments are those of `linearised_forward_dynamics`.
    """
    return linearised_forward_dynamics(model, *state, **options).differentiated()


def all_slopes(
    constrained: Sequence[Constrained], f: Scalars, system: ConstrainedSystem
) -> ResidualSlopes:
    """Returns the derivatives of all constraints, those of inactive rows times 0."""
    total, at = ResidualSlopes([], [], {}), count()
    rest = list(f)
    for one in constrained:
        n = sum(len(group.rows) for group in one.groups)
        slopes = residual_slopes(one, rest[:n])
        rest = rest[n:]
        for by_q, by_v, place in zip(slopes.by_q, slopes.by_v, at, strict=False):
            total.by_q.append(_masked(by_q, system, place))
            total.by_v.append(_masked(by_v, system, place))
        for key, x in slopes.H.items():
            total.H[key] = total.H[key] + x if key in total.H else x
    return total


def _masked(row: Row, system: ConstrainedSystem, place: int) -> Row:
    return row if system.masks is None else {k: system.masks[place] * x for k, x in row.items()}


def masked_rows(groups: Sequence[Sequence[RowGroup]], system: ConstrainedSystem) -> list[Row]:
    """Returns the rows of J, those of inactive rows times 0."""
    rows = [row for group in flat(groups) for row in group.rows]
    return [_masked(row, system, place) for place, row in enumerate(rows)]


# Without constraints, the pose and the linear velocity of a free root change accelerations by a
# known c: X = -M c. With constraints da = c - B (A + J c) and df = -S^-1 (A + J c).


def columns_less(X: Rows, H: dict[tuple[int, int], Scalar], known: Columns) -> list[Row]:
    """Returns the columns of X - H, of known columns those of -H, without the number 0."""
    columns: list[Row] = [
        {} if k in known else {i: row[k] for i, row in enumerate(X) if not is_zero(row[k])}
        for k in range(len(X))
    ]
    for (i, k), x in H.items():
        columns[k][i] = columns[k].get(i, 0.0) - x
    return columns


def plus_times_known(J: Sequence[Row], A: Sequence[Row], known: Columns) -> dict[int, Row]:
    """Returns the columns of A + J c."""
    return {
        k: {r: x for r in range(len(J)) if not is_zero(x := _entry_of_known(J[r], A[r], k, c))}
        for k, c in known.items()
    }


def _entry_of_known(row: Row, slopes: Row, k: int, c: Sequence[Scalar]) -> Scalar:
    return slopes.get(k, 0.0) + sparse_dot(row, sparse(c))


def columns_of(
    X: Sequence[Row], A: Sequence[Row], known: Columns, still: dict[int, Row]
) -> list[SparseColumn]:
    """Returns the columns of X and A, those of A that `still` has as they are there, and of known
    columns what is added to da.
    """
    columns = []
    for k, x in enumerate(X):
        y = still[k] if k in still else {r: row[k] for r, row in enumerate(A) if k in row}
        columns.append(SparseColumn(x, y, sparse(known.get(k, ())), {}))
    return columns


def force_rotations(constrained: Sequence[Constrained], f: Scalars, n: int) -> list[Row]:
    """Returns how forces of fixed components in the axes of `frame` change with q in those of `to`,
    in which they are returned: the frame rotates by w, and they change by w x f.
    """
    columns: list[Row] = [{} for _ in range(n)]
    start = 0
    for one in constrained:
        for group in one.groups:
            places = range(start, start + len(group.rows))
            if group.to_axes is not None and one.pair is not None:
                force = Vector([f[r] for r in places])
                for k, J in one.pair.chain.columns:
                    change = group.to_axes.to_parent(cross(split(J)[0], force))
                    for r, x in zip(places, change, strict=True):
                        add_entry(columns[k], r, x)
            start += len(group.rows)
    return columns
