"""The inverse of the equations that dynamics with constraints solve, the KKT matrix:

    M da - J^T df = -X,    J da = -A

With M = L^T D L, W = L^-1, Y = J W and S^-1 = T^T E T it is sparse in z = L^-T X, which has entries
only where X has them and at their ancestors:

    N = D^-1 - V^T E V,  V = T Y D^-1,  C = V^T E T,  B = W C
    da = -W N z - B A,   df = C^T z - S^-1 A,   P = W N W^T
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.constraints import RowGroup, flat, user_forces
from featherlane.algorithms.delassus import ConstrainedSystem
from featherlane.algorithms.kkt_columns import (
    ColumnSolver,
    Response,
    Rotations,
    SparseColumn,
    held_entries,
    whole_groups,
)
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.sparse_rows import (
    Row,
    columns,
    combined,
    dense,
    sparse,
    sparse_dot,
    symmetric_product,
)
from featherlane.scalar import Scalar, repeat


class KKTInverse(NamedTuple):
    """The inverse of a system, with constraints in the axes of `to`."""

    system: ConstrainedSystem
    rotations: Rotations
    scaled: list[Row]  # W D^-1
    Q: list[Row]  # N W^T
    C: list[Row]
    P: Rows
    B: list[Row]
    minus_Sinv: Rows

    def matrices(
        self, columns: Sequence[SparseColumn], wanted: tuple[bool, bool]
    ) -> tuple[Rows, Rows]:
        """Returns da and df for many columns; those with entries in the same places are repeats of
        one function. wanted: which of the two are computed; the other one has no rows.
        """
        n, m = (len(M) * x for M, x in zip((self.P, self.minus_Sinv), wanted, strict=True))
        alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for k, column in enumerate(columns):
            alike.setdefault(column.places, []).append(k)
        da, df = ([[0.0] * len(columns) for _ in range(rows)] for rows in (n, m))
        for places, numbers in alike.items():

            def solve(
                solver: ColumnSolver,
                packed: Scalars,
                places: Sequence[Sequence[int]] = places,
            ) -> list[Scalar]:
                a, f = solver.solve(SparseColumn.unpack(places, packed))
                return [*(a.get(i, 0.0) for i in range(n)), *(f.get(r, 0.0) for r in range(m))]

            solver = self.solver(columns[numbers[0]])
            solved = repeat(solve, solver, [columns[k].pack() for k in numbers])
            for k, both in zip(numbers, solved, strict=True):
                for row, x in zip((*da, *df), both, strict=True):
                    row[k] = x
        return da, df

    def solver(self, column: SparseColumn) -> ColumnSolver:
        """Returns what columns with entries where this one has them need."""
        n, m, L = len(self.P), len(self.system.Y), self.system.mass.L
        z = sorted({*column.x}.union(*(L[k] for k in column.x)))
        YD, WD, B = columns(self.system.scaled, n), columns(self.scaled, n), columns(self.B, m)
        moved = {k: whole_groups(self.rotations, YD[k]) for k in z}
        rows = whole_groups(self.rotations, column.y)
        held = held_entries(moved, rows)
        rows = rows.union(*(moved[k] for k in held))
        by_z = {k: Response(WD[k], {}) if k in held else Response(self.Q[k], self.C[k]) for k in z}
        by_A = {
            r: Response(B[r], {s: row[r] for s, row in enumerate(self.minus_Sinv)})
            for r in sorted(rows)
        }
        inward = {i: L[i] for i in reversed(z) if L[i]}
        return ColumnSolver(inward, {k: YD[k] for k in sorted(held)}, self.rotations, by_z, by_A)


def kkt_inverse(system: ConstrainedSystem, groups: Sequence[Sequence[RowGroup]]) -> KKTInverse:
    """Returns the inverse of a system after three proximal iterations."""
    W, Dinv = system.mass.inverted().W, system.mass.Dinv
    T, E = system.S.inverse_factor()
    n, m = len(W), len(T)
    V = [combined(row, system.scaled) for row in T]
    EV = columns([{k: e * x for k, x in row.items()} for row, e in zip(V, E, strict=True)], n)
    T_to = [sparse(user_forces(groups, dense(row, m))) for row in T]
    minus_ET = [{s: -e * x for s, x in row.items()} for row, e in zip(T_to, E, strict=True)]
    N = [[-x for x in row] for row in symmetric_product(EV, columns(V, n))]
    for k, row in enumerate(N):
        row[k] = row[k] + Dinv[k]
    Q = [sparse(sparse_dot(sparse(row), of_joint) for of_joint in W) for row in N]
    C = [combined(column, T_to) for column in EV]
    return KKTInverse(
        system,
        rotations_of(groups),
        [{k: w * Dinv[k] for k, w in row.items()} for row in W],
        Q,
        C,
        symmetric_product(W, columns(Q, n)),
        [combined(row, C) for row in W],
        symmetric_product(columns(minus_ET, m), columns(T_to, m)),
    )


def rotations_of(groups: Sequence[Sequence[RowGroup]]) -> Rotations:
    """Returns the rotations to the axes of `to` of groups that are not in these axes."""
    rotations, first = Rotations(), 0
    for group in flat(groups):
        if group.to_axes is not None:
            rotations[first] = group.to_axes
        first += len(group.rows)
    return rotations
