"""Products, inverses and solutions of small dense matrices of scalars, as tuples of rows."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from featherlane.algorithms.elimination import ldl_factor, solve_lower, solve_upper
from featherlane.algorithms.scan.lists import balanced
from featherlane.robot.spatial import ZERO6, Matrix, Transform, Vector, transpose, unit
from featherlane.scalar import Scalar

IDENTITY6: Matrix = tuple(unit(k) for k in range(6))
ZERO66: Matrix = (ZERO6,) * 6


def minus(A: Matrix, B: Matrix) -> Matrix:
    return tuple(a - b for a, b in zip(A, B, strict=True))


def outer(x: Sequence[Scalar], y: Sequence[Scalar]) -> Matrix:
    """Returns x y^T."""
    return tuple(Vector([a * b for b in y]) for a in x)


def motion_matrix(X: Transform) -> Matrix:
    """Returns the 6 x 6 matrix of X on motions; its transpose takes forces to the parent."""
    return transpose([X.motion(e) for e in IDENTITY6])


def solve(A: Matrix, B: Matrix) -> Matrix:
    """Returns A^-1 B for any invertible A, by modified Gram-Schmidt on [A B].

    It needs no pivoting, so that it can be traced, and its rounding errors are as small as those of
    Householder's method (Bjorck, Solving linear least squares problems by Gram-Schmidt
    orthogonalization, 1967).
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
        for r, below in zip(row[: len(X)][::-1], X, strict=True):
            x = x - below * r
        X.append(x)
    return tuple(reversed(X))


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """Returns a . b, summed in a balanced tree."""
    return balanced(add, [x * y for x, y in zip(a, b, strict=True)])


def inverse(A: Matrix) -> Matrix:
    """Returns the inverse of a symmetric positive definite matrix."""
    L, Dinv = ldl_factor(A)

    def column(k: int) -> list[Scalar]:
        y = [x * d for x, d in zip(solve_lower(L, unit(k, len(A))), Dinv, strict=True)]
        return solve_upper(L, y)

    return transpose([column(k) for k in range(len(A))])
