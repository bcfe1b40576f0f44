"""M = L^T D L along the tree (Featherstone 2008, section 6.5): L has an entry only between
ancestors.

W = L^-1 has the same sparsity, so that M^-1 = W D^-1 W^T costs only the ancestors that two degrees
of freedom share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.mminv import Rows, mass_matrix
from featherlane.algorithms.rnea import rnea
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, unless_lost


class Factor(NamedTuple):
    """M = L^T diag(1 / Dinv) L; ancestors[i] lists i and all before it on the way to the root."""

    L: list[dict[int, Scalar]]  # rows, without the unit diagonal
    Dinv: list[Scalar]
    ancestors: Sequence[Sequence[int]]

    def solve(self, b: Sequence[Scalar]) -> list[Scalar]:
        """M^-1 b, for one right-hand side."""
        x = list(b)
        for i in reversed(range(len(x))):
            for k, entry in self.L[i].items():
                x[k] = x[k] - entry * x[i]
        x = [d * y for d, y in zip(self.Dinv, x, strict=True)]
        for i in range(len(x)):
            for k, entry in self.L[i].items():
                x[i] = x[i] - entry * x[k]
        return x

    def inverted(self) -> InvertedFactor:
        W: list[dict[int, Scalar]] = []
        for i, (_, *above) in enumerate(self.ancestors):
            W.append({i: 1.0})
            for n, k in enumerate(above):
                W[i][k] = -sum((self.L[i][j] * W[j][k] for j in above[:n]), start=self.L[i][k])
        return InvertedFactor(W, self.Dinv, self.ancestors)


class InvertedFactor(NamedTuple):
    """M^-1 = W diag(Dinv) W^T: for many right-hand sides, or for M^-1 itself."""

    W: list[dict[int, Scalar]]
    Dinv: list[Scalar]
    ancestors: Sequence[Sequence[int]]

    def solve(self, b: Sequence[Scalar]) -> list[Scalar]:
        """M^-1 b. What is zero in b costs nothing."""
        y: list[Scalar] = [0.0] * len(b)
        for row, entry in zip(self.W, b, strict=True):
            for k, w in row.items():
                y[k] = y[k] + w * entry
        y = [d * x for d, x in zip(self.Dinv, y, strict=True)]
        return [sum((w * y[k] for k, w in row.items()), start=0.0) for row in self.W]

    def pack(self) -> list[Scalar]:
        """All its scalars in one list."""
        return [w for i, row in enumerate(self.W) for k, w in row.items() if k != i] + self.Dinv

    def unpack(self, packed: Sequence[Scalar]) -> InvertedFactor:
        """The factor with the same zeros whose scalars are in the list."""
        entries = iter(packed)
        W = [{k: 1.0 if k == i else next(entries) for k in row} for i, row in enumerate(self.W)]
        return InvertedFactor(W, list(entries), self.ancestors)

    def inverse(self) -> Rows:
        """M^-1 itself."""
        n = len(self.W)
        scaled = [{k: w * self.Dinv[k] for k, w in row.items()} for row in self.W]
        inverse: Rows = [[0.0] * n for _ in range(n)]
        for i in range(n):
            for j in range(i + 1):
                shared = [k for k in self.ancestors[j] if k in self.W[i]]
                inverse[i][j] = inverse[j][i] = sum(
                    (scaled[i][k] * self.W[j][k] for k in shared), start=0.0
                )
        return inverse


def factor(model: Tree, M: Sequence[Sequence[Scalar]]) -> Factor:
    """The factor of a mass matrix of this model (Featherstone, table 6.3); NaN if M is singular."""
    H = [{j: M[i][j] for j in line} for i, line in enumerate(model.ancestors)]
    L: list[dict[int, Scalar]] = [{} for _ in H]
    Dinv: list[Scalar] = [0.0] * model.nv
    for k in reversed(range(model.nv)):
        inverse = 1.0 / H[k][k]  # what cancels with it in a graph does not if it may be NaN
        Dinv[k] = unless_lost(inverse, H[k][k], M[k][k])
        for i in model.ancestors[k][1:]:
            L[k][i] = H[k][i] * inverse
            for j in model.ancestors[i]:
                H[i][j] = H[i][j] - L[k][i] * H[k][j]
    return Factor(L, Dinv, model.ancestors)


def factored_forward_dynamics(
    model: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """qdd = M^-1 (tau - bias): fewer operations than `aba` where the tree is shallow."""
    bias = rnea(model, q, qd, [0.0] * model.nv, f_ext)
    return factor(model, mass_matrix(model, q)).solve(
        [t - b for t, b in zip(tau, bias, strict=True)]
    )


def factored_inverse(model: Tree, q: Scalars) -> Rows:
    """M^-1 through the factor: fewer operations than `mass_matrix_inverse` where the tree has many
    branches.
    """
    return factor(model, mass_matrix(model, q)).inverted().inverse()
