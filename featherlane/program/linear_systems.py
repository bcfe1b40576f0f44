"""Small dense matrices of traced scalars: elimination, unrolled, with pivots chosen by `select`.

A matrix is a list of rows of `Node`s of one graph. Elimination turns it into an upper triangle U:
step k exchanges rows, so that the pivot is the largest entry of column k, and subtracts multiples
of row k from the rows below (Golub and Van Loan, Matrix Computations, 4th edition, 2013, 3.4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import NamedTuple

from featherlane.program.node import Node

Rows = Sequence[Sequence[Node]]
Exchange = Node | bool  # whether two rows are exchanged, known while tracing or not


def _is_number(x: Node, number: float) -> bool:
    return x.graph.number(x.k) == number


def _exchange(pivot: Node, below: Node) -> Exchange:
    """Whether the entry below becomes the pivot. A zero of the matrix's pattern never does."""
    if _is_number(below, 0.0) or _is_number(pivot, 0.0):
        return not _is_number(below, 0.0)
    return abs(pivot) < abs(below)


def _exchanged(exchange: Exchange, a: Node, b: Node) -> tuple[Node, Node]:
    """Returns b and a where they are exchanged, else a and b."""
    if isinstance(exchange, bool):
        return (b, a) if exchange else (a, b)
    return exchange.select(b, a), exchange.select(a, b)


def _minus_dot(x: Node, a: Sequence[Node], b: Sequence[Node]) -> Node:
    for s, t in zip(a, b, strict=True):
        x = x - s * t
    return x


def _minus_multiple(a: Sequence[Node], multiple: Node, b: Sequence[Node]) -> list[Node]:
    return [x - multiple * y for x, y in zip(a, b, strict=True)]


class Elimination(NamedTuple):
    """An eliminated matrix. For each step k: exchanges of row k with the rows below, one after the
    other; the multiples of row k that are subtracted from these; row k of U from the pivot on; and
    the pivot's reciprocal.
    """

    exchanges: list[list[Exchange]]
    multiples: list[list[Node]]
    upper: list[list[Node]]
    reciprocals: list[Node]

    def solve(self, b: Sequence[Node]) -> list[Node]:
        """Returns A^-1 b."""
        x = list(b)
        for k, (exchanges, multiples) in enumerate(
            zip(self.exchanges, self.multiples, strict=True)
        ):
            for i, exchange in enumerate(exchanges, k + 1):
                x[k], x[i] = _exchanged(exchange, x[k], x[i])
            for i, multiple in enumerate(multiples, k + 1):
                x[i] = x[i] - multiple * x[k]
        for k in reversed(range(len(x))):
            x[k] = _minus_dot(x[k], self.upper[k][1:], x[k + 1 :]) * self.reciprocals[k]
        return x

    def solve_transposed(self, b: Sequence[Node]) -> list[Node]:
        """Returns A^-T b."""
        x = list(b)
        for k, reciprocal in enumerate(self.reciprocals):
            column = [row[k - j] for j, row in enumerate(self.upper[:k])]
            x[k] = _minus_dot(x[k], column, x[:k]) * reciprocal
        for k in reversed(range(len(x))):
            x[k] = _minus_dot(x[k], self.multiples[k], x[k + 1 :])
            for i, exchange in reversed([*enumerate(self.exchanges[k], k + 1)]):
                x[k], x[i] = _exchanged(exchange, x[k], x[i])
        return x

    def determinant(self) -> Node:
        product = reduce(mul, [row[0] for row in self.upper])
        for exchange in [x for exchanges in self.exchanges for x in exchanges]:
            product, _ = _exchanged(exchange, product, -product)
        return product


def _reciprocal(pivot: Node) -> Node:
    return 1.0 / pivot


def _reciprocal_or_one(pivot: Node) -> Node:
    """1 / pivot, and 1 for a pivot of 0, below which there are only zeros."""
    return 1.0 / (pivot == 0.0).select(1.0, pivot)


def eliminated(A: Rows, reciprocal_of: Callable[[Node], Node] = _reciprocal) -> Elimination:
    """Eliminates a matrix with exchanges of rows."""
    rows, n = [list(row) for row in A], len(A)
    result = Elimination([], [], [], [])
    for k in range(n):
        exchanges = []
        for i in range(k + 1, n):
            exchange = _exchange(rows[k][k], rows[i][k])
            pairs = [
                _exchanged(exchange, x, y) for x, y in zip(rows[k][k:], rows[i][k:], strict=True)
            ]
            rows[k][k:], rows[i][k:] = map(list, zip(*pairs, strict=True))
            exchanges.append(exchange)
        reciprocal = reciprocal_of(rows[k][k])
        multiples = [row[k] * reciprocal for row in rows[k + 1 :]]
        for multiple, row in zip(multiples, rows[k + 1 :], strict=True):
            row[k + 1 :] = _minus_multiple(row[k + 1 :], multiple, rows[k][k + 1 :])
        result.exchanges.append(exchanges)
        result.multiples.append(multiples)
        result.upper.append(rows[k][k:])
        result.reciprocals.append(reciprocal)
    return result


def eliminated_symmetric(A: Rows) -> Elimination:
    """Eliminates a symmetric, positive definite matrix without exchanges: A = L D L^T, U = D L^T.
    Only the lower triangle is read.
    """
    rows, n = [list(row[: i + 1]) for i, row in enumerate(A)], len(A)
    result = Elimination([[] for _ in A], [], [], [])
    for k in range(n):
        column = [row[k] for row in rows[k:]]
        reciprocal = _reciprocal(column[0])
        multiples = [x * reciprocal for x in column[1:]]
        for i, multiple in enumerate(multiples, 1):
            row = rows[k + i]
            row[k + 1 :] = _minus_multiple(row[k + 1 :], multiple, column[1 : i + 1])
        result.multiples.append(multiples)
        result.upper.append(column)
        result.reciprocals.append(reciprocal)
    return result


def determinant(A: Rows) -> Node:
    """Returns the determinant, for up to 3 rows by cofactors, which have no quotients."""
    if len(A) > 3:
        return eliminated(A, _reciprocal_or_one).determinant()
    if len(A) == 1:
        return A[0][0]
    first, *others = A
    total = None
    for j, x in enumerate(first):
        minor = x * determinant([[*row[:j], *row[j + 1 :]] for row in others])
        total = minor if total is None else total - minor if j % 2 else total + minor
    assert total is not None
    return total


def cholesky_rows(A: Rows) -> list[list[Node]]:
    """Returns the rows of L, A = L L^T, up to the diagonal; NaN unless A is positive definite. Only
    the lower triangle is read.
    """
    L: list[list[Node]] = []
    reciprocals: list[Node] = []
    for i, entries in enumerate(A):
        row: list[Node] = []
        for j, reciprocal in enumerate(reciprocals):
            row.append(_minus_dot(entries[j], row, L[j][:j]) * reciprocal)
        row.append(_minus_dot(entries[i], row, row).sqrt())
        reciprocals.append(_reciprocal(row[i]))
        L.append(row)
    return L
