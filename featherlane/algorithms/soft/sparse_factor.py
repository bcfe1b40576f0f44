"""M = L^T D L of a symmetric matrix with few entries, whose fill-in appears as it is computed.

A row of L has entries in columns before its own. Where the matrix is a robot's mass matrix with
J^T J of rows on one branch each, no entry is added to those along the branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.sparse_rows import Row
from featherlane.scalar import Scalar


class SparseFactor(NamedTuple):
    """The rows of L without the unit diagonal, and 1 / D."""

    L: list[Row]
    Dinv: list[Scalar]

    def solve(self, b: Sequence[Scalar]) -> list[Scalar]:
        """Returns the solution x of L^T D L x = b."""
        x = list(b)
        for k in reversed(range(len(x))):
            for i, entry in self.L[k].items():
                x[i] = x[i] - entry * x[k]
        x = [y * e for y, e in zip(x, self.Dinv, strict=True)]
        for k, row in enumerate(self.L):
            for i, entry in row.items():
                x[k] = x[k] - entry * x[i]
        return x


def sparse_factor(lower: Sequence[Row]) -> SparseFactor:
    """Returns the factor of a symmetric matrix from the rows of its lower half."""
    H = [dict(row) for row in lower]
    L: list[Row] = [{} for _ in H]
    Dinv: list[Scalar] = [0.0] * len(H)
    for k in reversed(range(len(H))):
        Dinv[k] = 1.0 / H[k].pop(k)
        L[k] = {i: x * Dinv[k] for i, x in H[k].items()}
        for i, entry in L[k].items():
            for j, x in H[k].items():
                if j <= i:
                    H[i][j] = H[i][j] - entry * x if j in H[i] else -entry * x
    return SparseFactor(L, Dinv)
