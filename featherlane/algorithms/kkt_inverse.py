"""The inverse of the equations that dynamics with constraints solve, the KKT matrix:

    M da - J^T df = -X,    J da = -A
    da = -P X - B A,       df = B^T X - S^-1 A

with S = J M^-1 J^T, U = M^-1 J^T, P = M^-1 - U S^-1 U^T and B = U S^-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.constraints import Row, RowGroup, user_forces
from featherlane.algorithms.delassus import ConstrainedSystem
from featherlane.algorithms.mminv import Rows, square
from featherlane.robot.spatial import dot, matmul, transpose
from featherlane.scalar import Scalar, repeat


class SparseColumn(NamedTuple):
    """A column of X and one of A, and what is added to the columns of da and df that they give. All
    have few entries; those of rows are in the axes of `to`.
    """

    x: Row
    y: Row
    a: Row
    f: Row

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The rows of its entries, part by part."""
        return tuple(tuple(sorted(part)) for part in self)

    def pack(self) -> list[Scalar]:
        """Returns its entries in one list."""
        return [part[k] for part in self for k in sorted(part)]

    @staticmethod
    def unpack(places: Sequence[Sequence[int]], packed: Scalars) -> SparseColumn:
        """Returns the column whose entries are in these places."""
        entries = iter(packed)
        return SparseColumn(*[{k: next(entries) for k in part} for part in places])


class KKTInverse(NamedTuple):
    """The matrices of da = -P X - B A and df = B^T X - S^-1 A; rows of B are entries of v, rows of
    constraints are in the axes of `to`.
    """

    P: Rows
    B: Rows
    Sinv: Rows

    def column(self, c: SparseColumn) -> tuple[list[Scalar], list[Scalar]]:
        """Returns a column of da and one of df."""
        da = [
            c.a.get(i, 0.0)
            - sum((row[k] * b for k, b in c.x.items()), start=0.0)
            - sum((self.B[i][r] * b for r, b in c.y.items()), start=0.0)
            for i, row in enumerate(self.P)
        ]
        df = [
            c.f.get(r, 0.0)
            + sum((self.B[k][r] * b for k, b in c.x.items()), start=0.0)
            - sum((row[s] * b for s, b in c.y.items()), start=0.0)
            for r, row in enumerate(self.Sinv)
        ]
        return da, df

    def matrices(self, columns: Sequence[SparseColumn]) -> tuple[Rows, Rows]:
        """Returns da and df for many columns; those with entries in the same places are repeats of
        one function.
        """
        n, m = len(self.P), len(self.Sinv)
        packed = [x for M in self for row in M for x in row]
        alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for k, column in enumerate(columns):
            alike.setdefault(column.places, []).append(k)
        da, df = ([[0.0] * len(columns) for _ in range(rows)] for rows in (n, m))
        for places, numbers in alike.items():

            def solve(
                shared: Scalars, b: Scalars, places: Sequence[Sequence[int]] = places
            ) -> list[Scalar]:
                first, second = _unpacked(shared, n, m).column(SparseColumn.unpack(places, b))
                return [*first, *second]

            solved = repeat(solve, packed, [columns[k].pack() for k in numbers])
            for k, both in zip(numbers, solved, strict=True):
                for row, x in zip((*da, *df), both, strict=True):
                    row[k] = x
        return da, df


def _unpacked(packed: Scalars, n: int, m: int) -> KKTInverse:
    """Returns the matrices from one list."""
    entries, at = list(packed), 0
    matrices = []
    for rows, columns in ((n, n), (n, m), (m, m)):
        matrices.append([entries[at + i * columns : at + (i + 1) * columns] for i in range(rows)])
        at += rows * columns
    return KKTInverse(*matrices)


def kkt_inverse(system: ConstrainedSystem, groups: Sequence[Sequence[RowGroup]]) -> KKTInverse:
    """Returns the matrices of a system after three proximal iterations.

    With S + R = C E^-1 C^T, K = C^-1, Z = K U^T and Q = K R K^T, these invert S by K^T G K with
    G = E + E Q E + E Q E Q E. Where rows are redundant, E is large and Z small, and no product of
    both loses more digits than a solution by substitution.
    """
    n, m, S = len(system.mass.Dinv), len(system.Y), system.S
    K = S.inverse()
    G = S.iterations(K)
    U = [system.mass.outward([row.get(k, 0.0) for k in range(n)]) for row in system.Y]
    Z = [
        [sum((K[r][s] * U[s][k] for s in range(r)), start=U[r][k]) for k in range(n)]
        for r in range(m)
    ]
    GZ = matmul(G, Z)
    P = system.mass.inverted().inverse()
    for i in range(n):
        for j in range(i + 1):
            products = dot((Z[r][i] for r in range(m)), (GZ[r][j] for r in range(m)))
            P[i][j] = P[j][i] = P[i][j] - products
    B = [
        [sum((K[s][r] * GZ[s][k] for s in range(r + 1, m)), start=GZ[r][k]) for r in range(m)]
        for k in range(n)
    ]
    in_axes = lambda rows: [user_forces(groups, row) for row in rows]
    return KKTInverse(P, in_axes(B), in_axes(transpose(in_axes(_between(K, G)))))


def _between(K: Rows, G: Sequence[Sequence[Scalar]]) -> Rows:
    """Returns K^T G K for a symmetric G and a K whose rows end before their unit diagonal."""
    m = len(G)
    GK = [
        [sum((G[r][t] * K[t][c] for t in range(c + 1, m)), start=G[r][c]) for c in range(m)]
        for r in range(m)
    ]
    result = square(m)
    for i in range(m):
        for j in range(i + 1):
            product = sum((K[t][i] * GK[t][j] for t in range(i + 1, m)), start=GK[i][j])
            result[i][j] = result[j][i] = product
    return result
