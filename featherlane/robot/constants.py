"""Arithmetic on a robot's constants, in a fixed order: the same bits on every processor.

BLAS, LAPACK, NumPy's sums and, from Python 3.12 on, the builtin `sum` add in orders that depend on
the processor or the version, and a robot's fingerprint and the operation counts of its graphs would
depend on them too. Constants are computed by this module, `spatial` and `scalar.sine_cosine` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ldexp, sqrt

from featherlane.robot.spatial import Matrix, Vector, dot, matmul, transpose
from featherlane.scalar import Scalar

Numbers = Sequence[float]
SWEEPS = 30  # at most, of Jacobi's method, which converges in about six


def total(scalars: Iterable[Scalar]) -> Scalar:
    """Returns the sum of scalars of any kind, added from the first to the last."""
    result: Scalar = 0.0
    for x in scalars:
        result = result + x
    return result


def norm(x: Numbers) -> float:
    return sqrt(dot(x, x))


def direction(x: Numbers) -> Vector:
    """Returns the unit vector along x, which is not zero."""
    length = norm(x)
    return Vector([a / length for a in x])


def rotated_matrix(R: Sequence[Numbers], A: Sequence[Numbers]) -> Matrix:
    """Returns R A R^T."""
    return matmul(matmul(R, A), transpose(R))


def departure(rows: Sequence[Numbers]) -> float:
    """Returns the largest entry of A A^T - 1: how far the rows of A are from orthonormal."""
    pairs = [(a, b) for i, a in enumerate(rows) for b in rows[: i + 1]]
    return max([abs(dot(a, b) - (a is b)) for a, b in pairs])


def orthonormal(vectors: Sequence[Numbers]) -> list[Vector]:
    """Returns an orthonormal basis of the span of independent vectors, by Gram and Schmidt.

    Each vector is orthogonalised twice against those before it, which suffices (Giraud, Langou and
    Rozloznik 2005).
    """
    basis: list[Vector] = []
    for x in map(Vector, vectors):
        for _ in range(2):
            for unit in basis:
                x = x - unit * dot(unit, x)
        basis.append(direction(x))
    return basis


def eigenvalues(matrix: Sequence[Numbers]) -> list[float]:
    """Returns the eigenvalues of a symmetric matrix, ascending, by Jacobi's method."""
    largest = max((abs(x) for row in matrix for x in row), default=0.0)
    if not largest or largest == float("inf"):
        return [largest for _ in matrix]
    A = [[x / largest for x in row] for row in matrix]
    for _ in range(SWEEPS):
        pairs = [(i, j) for i in range(len(A)) for j in range(i) if A[i][j]]
        if not pairs:
            break
        for i, j in pairs:
            _annihilate(A, i, j)
    return sorted(A[i][i] * largest for i in range(len(A)))


def _annihilate(A: list[list[float]], i: int, j: int) -> None:
    """Makes entry i, j zero by a rotation of both sides (Golub and Van Loan, section 8.5)."""
    x, a, b = A[i][j], A[i][i], A[j][j]
    A[i][j] = A[j][i] = 0.0
    if abs(x) <= ldexp(abs(a) + abs(b), -60):
        return
    half = (b - a) / (2 * x)
    t = (1.0 if half >= 0 else -1.0) / (abs(half) + sqrt(1 + half * half))
    c = 1 / sqrt(1 + t * t)
    s = t * c
    A[i][i], A[j][j] = a - t * x, b + t * x
    for k, row in enumerate(A):
        if k not in (i, j):
            p, q = row[i], row[j]
            row[i] = A[i][k] = c * p - s * q
            row[j] = A[j][k] = s * p + c * q
