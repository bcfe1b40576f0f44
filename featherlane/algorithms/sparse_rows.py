"""Matrices as lists of sparse rows: dicts of their entries by column, in which others are 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from featherlane.scalar import Scalar, is_zero

Row = dict[int, Scalar]


def sparse(entries: Iterable[Scalar]) -> Row:
    """Returns a row without its entries that are the number 0."""
    return {k: x for k, x in enumerate(entries) if not is_zero(x)}


def dense(row: Row, n: int) -> list[Scalar]:
    """Returns a row of n entries."""
    return [row.get(k, 0.0) for k in range(n)]


def subtract(total: Row, row: Row, factor: Scalar) -> None:
    """Subtracts a multiple of a row."""
    for k, x in row.items():
        total[k] = total.get(k, 0.0) - x * factor


def sparse_dot(a: Row, b: Row) -> Scalar:
    """Returns the sum of products of entries that both rows have."""
    total: Scalar = 0.0
    for k in sorted(a.keys() & b.keys()):
        total = total + a[k] * b[k]
    return total


def combined(weights: Row, rows: Sequence[Row]) -> Row:
    """Returns the sum of rows, each times its weight."""
    total: Row = {}
    for r, weight in weights.items():
        for k, x in rows[r].items():
            total[k] = total.get(k, 0.0) + weight * x
    return total


def plus_products(
    total: Sequence[Scalar], rows: Sequence[Row], x: Sequence[Scalar]
) -> list[Scalar]:
    """Returns total + Y^T x of rows Y."""
    result = list(total)
    for row, factor in zip(rows, x, strict=True):
        for k, y in row.items():
            result[k] = result[k] + y * factor
    return result


def columns(rows: Sequence[Row], n: int) -> list[Row]:
    """Returns the n columns of a matrix."""
    return [{r: row[k] for r, row in enumerate(rows) if k in row} for k in range(n)]


def symmetric_product(a: Sequence[Row], b: Sequence[Row]) -> list[list[Scalar]]:
    """Returns the products of rows of a and rows of b, whose matrix is symmetric."""
    lower = [[sparse_dot(row, b[j]) for j in range(i + 1)] for i, row in enumerate(a)]
    n = range(len(a))
    return [[lower[max(i, j)][min(i, j)] for j in n] for i in n]
