"""M = L^T D L along the tree (Featherstone 2008, section 6.5): row i of L has entries only in the
columns of i's ancestors.

W = L^-1 has the same sparsity, so that an entry of M^-1 = W D^-1 W^T is a sum over the ancestors
that two degrees of freedom share.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul, sub
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches
from featherlane.algorithms.mminv import Rows, mass_matrix, square
from featherlane.algorithms.rnea import rnea
from featherlane.robot.spatial import dot
from featherlane.robot.tree import Tree, is_number
from featherlane.robot.walk import entries_inward, entries_outward
from featherlane.scalar import Scalar, Tag, at, call, unless_lost


def _products(a: Scalars, b: Scalars) -> list[Scalar]:
    return [x * y for x, y in zip(a, b, strict=True)]


def _less_multiple(a: Scalars, b: Scalars, s: Scalar) -> list[Scalar]:
    """Returns a - s b."""
    return [x - y * s for x, y in zip(a, b, strict=True)]


def _less_products(x: Scalar, a: Scalars, b: Scalars) -> Scalar:
    """Returns x - a . b, the products subtracted one after the other."""
    for s, t in zip(a, b, strict=True):
        x = x - s * t
    return x


def _minus_sum(x: Scalar, a: Scalars, b: Scalars) -> Scalar:
    """Returns -(x + a . b)."""
    return -sum((s * t for s, t in zip(a, b, strict=True)), start=x)


class MassFactor(NamedTuple):
    """M = L^T diag(1 / Dinv) L of a model."""

    L: list[dict[int, Scalar]]  # rows, without the unit diagonal
    Dinv: list[Scalar]
    model: Tree

    def solve(self, b: Sequence[Scalar]) -> list[Scalar]:
        """Returns M^-1 b, for one right-hand side."""
        return self.outward(self.inward(b))

    def inward(self, b: Sequence[Scalar]) -> list[Scalar]:
        """Returns L^-T b."""
        x = list(b)
        for i in entries_inward(self.model, "L"):
            above, entries = [*self.L[i]], [*self.L[i].values()]
            left = call(_less_multiple, [x[k] for k in above], entries, x[i])
            for k, entry in zip(above, left, strict=True):
                x[k] = entry
        return x

    def outward(self, y: Sequence[Scalar]) -> list[Scalar]:
        """Returns L^-1 D^-1 y."""
        x = list(y)
        for i in entries_outward(self.model, "L"):
            x[i] = call(mul, self.Dinv[i], x[i])
        for i in entries_outward(self.model, "L"):
            above, entries = [*self.L[i]], [*self.L[i].values()]
            x[i] = call(_less_products, x[i], entries, [x[k] for k in above])
        return x

    def row_inward(self, row: dict[int, Scalar]) -> dict[int, Scalar]:
        """Returns L^-T b for a b with few entries, which stay few: those of their ancestors."""
        y = dict(row)
        for i in entries_inward(self.model, "L"):
            for k, entry in self.L[i].items() if i in y else ():
                y[k] = y.get(k, 0.0) - entry * y[i]
        return y

    def acceleration(self, tau: Scalars, bias: Scalars) -> list[Scalar]:
        """Returns qdd = M^-1 (tau - bias)."""
        return self.solve([call(sub, tau[k], bias[k]) for k in entries_outward(self.model, "L")])

    def inverted(self) -> InvertedFactor:
        W: list[dict[int, Scalar]] = [{i: 1.0} for i in range(self.model.nv)]
        for i in entries_outward(self.model, "W"):
            above = self.model.ancestors[i][1:]
            for n, k in enumerate(above):
                between = [self.L[i][j] for j in above[:n]], [W[j][k] for j in above[:n]]
                W[i][k] = call(_minus_sum, self.L[i][k], *between)
        return InvertedFactor(W, self.Dinv, self.model)


class InvertedFactor(NamedTuple):
    """M^-1 = W diag(Dinv) W^T of a model: for many right-hand sides, or for M^-1 itself."""

    W: list[dict[int, Scalar]]
    Dinv: list[Scalar]
    model: Tree

    def solve(self, b: Sequence[Scalar]) -> list[Scalar]:
        """Returns M^-1 b, inside of a step (`scalar.call`). Entries of b that are the number 0 cost
        nothing.
        """
        y: list[Scalar] = [0.0] * len(b)
        for row, entry in zip(self.W, b, strict=True):
            for k, w in row.items():
                y[k] = y[k] + w * entry
        y = _products(self.Dinv, y)
        return [sum((w * y[k] for k, w in row.items()), start=0.0) for row in self.W]

    def acceleration(self, tau: Scalars, bias: Scalars) -> Scalars:
        """Returns M^-1 (tau - bias)."""
        forces = [call(sub, tau[k], bias[k]) for k in entries_outward(self.model, "L")]
        solve = lambda packed, b: self.unpack(packed).solve(b)
        return at(Tag("L", "f", 0), call, solve, self.pack(), forces)

    def pack(self) -> list[Scalar]:
        """Returns all its scalars in one list."""
        return [w for i, row in enumerate(self.W) for k, w in row.items() if k != i] + self.Dinv

    def unpack(self, packed: Sequence[Scalar]) -> InvertedFactor:
        """Returns the factor with the same zeros whose scalars are in the list."""
        entries = iter(packed)
        W = [{k: 1.0 if k == i else next(entries) for k in row} for i, row in enumerate(self.W)]
        return InvertedFactor(W, list(entries), self.model)

    def inverse(self) -> Rows:
        """Returns M^-1 itself."""
        scaled, inverse = list[dict[int, Scalar]](), square(self.model.nv)
        for i in entries_outward(self.model, "W"):
            row, Dinv = self.W[i], [self.Dinv[k] for k in self.W[i]]
            scaled.append(dict(zip(row, call(_products, [*row.values()], Dinv), strict=True)))
        for i in entries_outward(self.model, "W"):
            for j in range(i + 1):
                shared = [k for k in self.model.ancestors[j] if k in self.W[i]]
                rows = [scaled[i][k] for k in shared], [self.W[j][k] for k in shared]
                inverse[i][j] = inverse[j][i] = call(dot, *rows)
        return inverse


def _pivot(D: Scalar, scale: Scalar) -> tuple[Scalar, Scalar]:
    """Returns 1 / D, and 1 / D that is NaN where the pivot is lost: a graph can fold D (1 / D) only
    with the first one.
    """
    inverse = 1.0 / D
    return inverse, unless_lost(inverse, D, scale)


def _eliminated(
    inverse: Scalar, entry: Scalar, row: Scalars, pivot_row: Scalars
) -> tuple[Scalar, list[Scalar]]:
    """Returns L_ki = H_ki / D_k, and row i of H less L_ki times row k."""
    L = entry * inverse
    return L, [x - L * y for x, y in zip(row, pivot_row, strict=True)]


def _scaled(scale: Scalar, L: Scalar, eliminated: Scalar) -> Scalar:
    return scale + L * L * eliminated


def factor(model: Tree, M: Sequence[Sequence[Scalar]]) -> MassFactor:
    """Returns the factor of a mass matrix of this model (Featherstone, table 6.3); NaN if M is
    singular.

    A pivot is lost among the rounding errors of its entry of M. Where inertias come at run time,
    so that no card warns of them, those of the pivots before it, which change it by L_ki^2 times
    theirs, count too: three operations more for each entry of L.
    """
    at_run_time = not all(is_number(I.m, *I.h, *I.S) for I in model.inertias)
    H = [{j: M[i][j] for j in line} for i, line in enumerate(model.ancestors)]
    L: list[dict[int, Scalar]] = [{} for _ in H]
    Dinv: list[Scalar] = [0.0] * model.nv
    scale = [M[k][k] for k in range(model.nv)]  # of the numbers whose rounding errors D_k has
    for k in entries_inward(model, "L"):
        inverse, Dinv[k] = call(_pivot, H[k][k], scale[k])
        for i in model.ancestors[k][1:]:
            rows = [H[i][j] for j in H[i]], [H[k][j] for j in H[i]]
            L[k][i], row = call(_eliminated, inverse, H[k][i], *rows)
            if at_run_time:
                scale[i] = call(_scaled, scale[i], L[k][i], scale[k])
            H[i] = dict(zip(H[i], row, strict=True))
    return MassFactor(L, Dinv, model)


def factored_forward_dynamics(
    model: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None = None
) -> list[Scalar]:
    """Returns qdd = M^-1 (tau - bias): fewer operations than `aba` where the tree is shallow."""
    bias = rnea(model, q, qd, [0.0] * model.nv, f_ext)
    return factor(model, mass_matrix(model, q)).acceleration(tau, bias)


def factored_inverse(model: Tree, q: Scalars) -> Rows:
    """Returns M^-1 through the factor: fewer operations than `mass_matrix_inverse` where the tree
    has many branches.
    """
    return factor(model, mass_matrix(model, q)).inverted().inverse()
