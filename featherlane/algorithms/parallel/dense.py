"""Small dense matrices of scalars, as rows, beyond what spatial algebra has."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from featherlane.algorithms.elimination import backward, factor, forward
from featherlane.algorithms.scan import balanced
from featherlane.robot.spatial import (
    ZERO6,
    Articulated,
    Matrix,
    Symmetric,
    Transform,
    Vector,
    transpose,
    unit,
)
from featherlane.scalar import Scalar

IDENTITY: Matrix = tuple(unit(k) for k in range(6))
ZERO: Matrix = (ZERO6,) * 6


def plus(A: Matrix, B: Matrix) -> Matrix:
    return tuple(a + b for a, b in zip(A, B, strict=True))


def minus(A: Matrix, B: Matrix) -> Matrix:
    return tuple(a - b for a, b in zip(A, B, strict=True))


def outer(x: Sequence[Scalar], y: Sequence[Scalar]) -> Matrix:
    """x y^T."""
    return tuple(Vector([a * b for b in y]) for a in x)


def motion_matrix(X: Transform) -> Matrix:
    """The 6 x 6 matrix of X on motions; its transpose takes forces to the parent."""
    return transpose([X.motion(e) for e in IDENTITY])


def articulated(rows: Matrix) -> Articulated:
    """Of a symmetric 6 x 6 matrix."""
    I = [rows[i][j] for i in range(3) for j in range(i, 3)]
    M = [rows[i][j] for i in range(3, 6) for j in range(i, 6)]
    return Articulated(Symmetric(*I), tuple(Vector(rows[i][3:]) for i in range(3)), Symmetric(*M))


def solve(A: Matrix, B: Matrix) -> Matrix:
    """A^-1 B of any matrix that has an inverse, by modified Gram-Schmidt on [A B]: it needs no
    pivots, so that it can be traced, and rounds as little as Householder's method (Bjorck, Solving
    linear least squares problems by Gram-Schmidt orthogonalization, 1967).
    """
    columns, R = [*transpose(A), *transpose(B)], []
    for _ in A:
        head, *columns = columns
        scale = 1.0 / _dot(head, head)
        R.append([_dot(head, x) * scale for x in columns])
        columns = [x - head * r for x, r in zip(columns, R[-1], strict=True)]
    X: list[Vector] = []
    for row in reversed(R):
        x = Vector(row[len(X) :])
        for r, known in zip(row[: len(X)][::-1], X, strict=True):
            x = x - known * r
        X.append(x)
    return tuple(reversed(X))


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """Summed in a balanced tree."""
    return balanced(add, [x * y for x, y in zip(a, b, strict=True)])


def inverse(A: Matrix) -> Matrix:
    """Of a symmetric positive definite matrix."""
    L, Dinv = factor(A)

    def column(k: int) -> list[Scalar]:
        scaled = [x * d for x, d in zip(forward(L, unit(k, len(A))), Dinv, strict=True)]
        return backward(L, scaled)

    return transpose([column(k) for k in range(len(A))])
