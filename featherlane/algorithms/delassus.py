"""The Delassus matrix S = J M^-1 J^T, of what accelerations unit forces of constraints cause.

With M = L^T D L and Y = J L^-1 it is Y D^-1 Y^T, whose rows Y have entries only where J has them,
and at their ancestors. An inactive row has no entries, and 1 on the diagonal, so that its force is
exactly 0 in one program for all sets of active constraints. Redundant rows make S singular: R, rho
times its diagonal, is added, and two more proximal iterations take the error of that back where
the constraints can hold (Carpentier, Budhiraja and Mansard 2021, Proximal and sparse resolution of
constrained dynamic equations).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.constraints import RowGroup, flat
from featherlane.algorithms.factor import MassFactor
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.sparse_rows import (
    Row,
    combined,
    plus_products,
    sparse,
    sparse_dot,
    symmetric_product,
)
from featherlane.robot.spatial import dot
from featherlane.scalar import Scalar, maximum

RHO = 1e-6  # of the diagonal: see docs/constraints.md, "Redundant rows"
SHARE = 1 / 64  # of the mean of the diagonal entries in a group, besides that of the row
STILL = (
    1e-14  # added besides: rows of frames that no joint moves have a finite force, 0 if they hold
)


def rows_inward(factored: MassFactor, rows: Sequence[Row], masks: Scalars | None) -> list[Row]:
    """Returns the rows of Y = J L^-1, those of inactive rows of J times 0."""
    Y = [factored.row_inward(row) for row in rows]
    if masks is None:
        return Y
    return [{k: m * x for k, x in row.items()} for row, m in zip(Y, masks, strict=True)]


def delassus(factored: MassFactor, Y: Sequence[Row]) -> tuple[Rows, list[Row]]:
    """Returns the lower half of Y D^-1 Y^T, and the rows of Y D^-1."""
    scaled = [{k: x * factored.Dinv[k] for k, x in row.items()} for row in Y]
    return [[sparse_dot(row, Y[j]) for j in range(i + 1)] for i, row in enumerate(scaled)], scaled


def regularisation(S: Rows, groups: Sequence[RowGroup]) -> list[Scalar]:
    """Returns R of each row: RHO times its diagonal entry, and a little of the others of its group,
    so that a row that nothing moves along, but for rounding, has a finite force.
    """
    R: list[Scalar] = []
    for group in groups:
        first, n = len(R), len(group.rows)
        diagonal = [S[i][i] for i in range(first, first + n)]
        shared = sum(diagonal[1:], start=diagonal[0]) * (RHO * SHARE / n) + STILL
        R += [x * RHO + shared for x in diagonal]
    return R


class RegularisedDelassus(NamedTuple):
    """The factor C diag(1 / Einv) C^T of S + R."""

    C: Rows  # rows below the unit diagonal
    Einv: list[Scalar]
    R: list[Scalar]

    def solve(self, b: Sequence[Scalar]) -> list[Scalar]:
        """Returns (S + R)^-1 b."""
        x = list(b)
        for i, row in enumerate(self.C):
            for j, c in enumerate(row):
                x[i] = x[i] - c * x[j]
        x = [y * e for y, e in zip(x, self.Einv, strict=True)]
        for i in reversed(range(len(x))):
            for j, c in enumerate(self.C[i]):
                x[j] = x[j] - c * x[i]
        return x

    def iterated(self, first: Sequence[Scalar], x: Sequence[Scalar]) -> list[Scalar]:
        """Returns the proximal iteration after x: (S + R)^-1 (b + R x), with the first iteration
        (S + R)^-1 b.
        """
        scaled = [r * y for r, y in zip(self.R, x, strict=True)]
        return [a + b for a, b in zip(first, self.solve(scaled), strict=True)]

    def proximal(self, b: Sequence[Scalar]) -> list[Scalar]:
        """Returns S^-1 b after three iterations; of a singular S the least one that comes nearest.

        An iteration multiplies the error along an eigenvector of S by R / (S + R): three leave
        1e-13 of a humanoid's on both feet, where two left 2e-10.
        """
        first = self.solve(b)
        return self.iterated(first, self.iterated(first, first))

    def inverse_factor(self) -> tuple[list[Row], list[Scalar]]:
        """Returns the rows of T and the entries of E with S^-1 = T^T diag(E) T, after three
        proximal iterations.

        These are K^T G K with K = C^-1, Q = K R K^T and the symmetric G = Einv + Einv Q Einv +
        Einv Q Einv Q Einv = F^T E F. Where rows are redundant Einv is large and Q small, and no
        product of both loses more digits than a solution by substitution.
        """
        K = self._inverse()
        F, E = factor_inward(self._iterations(K))
        return [combined({**row, i: 1.0}, K) for i, row in enumerate(F)], E

    def _inverse(self) -> list[Row]:
        """Returns the rows of K."""
        K: list[Row] = []
        for i, row in enumerate(self.C):
            product = combined(sparse(row), K)
            K.append({**{j: -x for j, x in product.items()}, i: 1.0})
        return K

    def _iterations(self, K: list[Row]) -> Rows:
        """Returns G."""
        scaled = [{t: x * self.R[t] for t, x in row.items()} for row in K]
        Q = symmetric_product(scaled, K)
        QE = [[x * e for x, e in zip(row, self.Einv, strict=True)] for row in Q]
        G = symmetric_product([*map(sparse, QE)], [*map(sparse, Q)])
        for i, e in enumerate(self.Einv):
            for j in range(i + 1):
                more = e * (Q[i][j] + G[i][j]) * self.Einv[j]
                G[i][j] = G[j][i] = more if j < i else more + e
        return G


def factor_inward(G: Rows) -> tuple[list[Row], list[Scalar]]:
    """Returns the rows of F, without its unit diagonal, and the entries of E with G = F^T diag(E)
    F, as `factor` does for mass matrices. The lower half of G is read.
    """
    A = [list(row) for row in G]
    F: list[Row] = [{} for _ in G]
    for k in reversed(range(len(A))):
        inverse = 1.0 / A[k][k]
        F[k] = {j: A[k][j] * inverse for j in range(k)}
        for i in range(k):
            for j in range(i + 1):
                A[i][j] = A[i][j] - F[k][i] * A[k][j]
    return F, [row[k] for k, row in enumerate(A)]


def regularised(
    S: Rows, groups: Sequence[Sequence[RowGroup]], masks: Scalars | None
) -> RegularisedDelassus:
    """Returns the factor of S + R, with 1 on the diagonal of inactive rows."""
    R = regularisation(S, flat(groups))
    A = [list(row) for row in S]
    if masks is not None:
        for i, mask in enumerate(masks):
            A[i][i] = A[i][i] + (1.0 - mask)
    return with_diagonal(A, R)


def with_diagonal(S: Rows, R: list[Scalar]) -> RegularisedDelassus:
    """Returns the factor of S + R, of which the lower half is read.

    A pivot is at least its entry of R in exact arithmetic, as S has no negative eigenvalue. It is
    kept there where rounding says otherwise, and no force is infinite.
    """
    A = [[*row[:i], row[i] + R[i]] for i, row in enumerate(S)]
    C: Rows = []
    Einv: list[Scalar] = []
    for i, row in enumerate(A):
        products: list[Scalar] = []  # C_ij times its pivot
        for j in range(i):
            products.append(row[j] - dot(products, C[j]))
        C.append([p * e for p, e in zip(products, Einv, strict=True)])
        pivot = row[i] - dot(C[i], products)
        Einv.append(1.0 / maximum(pivot, R[i]))
    return RegularisedDelassus(C, Einv, R)


class ConstrainedSystem(NamedTuple):
    """The factors of M and of S + R of a robot with constraints."""

    mass: MassFactor
    Y: list[Row]
    scaled: list[Row]  # Y D^-1
    S: RegularisedDelassus
    masks: list[Any] | None

    def masked(self, residual: Scalars) -> list[Scalar]:
        """Returns residuals, those of inactive rows times 0."""
        if self.masks is None:
            return list(residual)
        return [m * r for m, r in zip(self.masks, residual, strict=True)]

    def solve(self, force: Scalars, residual: Scalars) -> tuple[list[Scalar], list[Scalar]]:
        """Returns x and f with M x = force + J^T f and J x + residual = 0, for active rows."""
        z = self.mass.inward(force)
        right = [
            r + sparse_dot(row, dict(enumerate(z)))
            for r, row in zip(self.masked(residual), self.scaled, strict=True)
        ]
        f = [-x for x in self.S.proximal(right)]
        return self.mass.outward(plus_products(z, self.Y, f)), f


def constrained_system(
    factored: MassFactor, groups: Sequence[Sequence[RowGroup]], masks: list[Any] | None
) -> ConstrainedSystem:
    """Returns the factors of a robot with these rows of constraints."""
    Y = rows_inward(factored, [row for group in flat(groups) for row in group.rows], masks)
    S, scaled = delassus(factored, Y)
    return ConstrainedSystem(factored, Y, scaled, regularised(S, groups, masks), masks)
