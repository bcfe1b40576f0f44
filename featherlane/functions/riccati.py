"""The step of a Riccati recursion, from the value of the state at a knot's end to that at the knot.

Matrices are arrays of NumPy, of numbers with leading dimensions or traced: the same text is part of
the one kernel of a small robot, where it is unrolled and constant entries fold away, and computes
batches of a large robot. Where a matrix has to be positive definite and is not, a flag says so.

Tassa, Mansard and Todorov, Control-limited differential dynamic programming (ICRA 2014). Gaps
between a step's end and the next state: Mastalli et al., Crocoddyl (ICRA 2020).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = Any  # np.ndarray of numbers, or traced
ROUNDING = 16  # units in the last place below which a pivot is nothing but rounding
ROUNDS = 5  # of the search for a minimum between limits
LENGTHS = (1.0, 0.4, 0.1)  # tried along the projected step of Newton


class Quadratic(NamedTuple):
    """gradient . z + z . hessian z / 2, a function of z."""

    gradient: Array  # (..., m)
    hessian: Array  # (..., m, m), symmetric

    def after(self, S: Array) -> Quadratic:
        """Returns the function of x where z = S x, with S (..., m, n)."""
        product = _turned(S) @ (self.hessian @ S)
        return Quadratic(_times(_turned(S), self.gradient), _symmetric(product))

    def plus(self, other: Quadratic) -> Quadratic:
        return Quadratic(self.gradient + other.gradient, self.hessian + other.hessian)


class Feedback(NamedTuple):
    """du = k + K dx, with what it is expected to change: length * slope + length^2 / 2 * curvature
    for a step of this length of k. size: of the Hessian by the controls, the sum of its diagonal's
    magnitudes.
    """

    k: Array  # (..., nu)
    K: Array  # (..., nu, nx)
    slope: Array
    curvature: Array
    size: Array
    definite: Array  # 1 where a minimum exists, else 0, or -1, see `Cholesky`


def _turned(A: Array) -> Array:
    return np.swapaxes(A, -1, -2)


def beside(x: Array) -> Array:
    """x[..., None], of a traced scalar too."""
    return x[..., None] if isinstance(x, np.ndarray) else np.reshape(x, (1,))


def _symmetric(A: Array) -> Array:
    """Returns the lower triangle on both sides: a kernel does not compute the other one."""
    n = A.shape[-1]
    return np.where(np.tri(n, dtype=bool), A, _turned(A))


def _times(A: Array, x: Array) -> Array:
    """Returns the product of matrices and vectors."""
    return (A @ x[..., None])[..., 0]


def _outer(x: Array, y: Array) -> Array:
    return x[..., :, None] * y[..., None, :]


def _dot(x: Array, y: Array) -> Array:
    return np.sum(x * y, -1)


def first_failure(before: Array, now: Array) -> Array:
    """Returns the `Cholesky.definite` of two factors in sequence: that of the first that failed."""
    return np.where(before < 1.0, before, now)


class Cholesky:
    """L with A = L L^T. definite: 1, or what the first pivot says that is not positive, or lost
    beside the diagonal of A, after which numbers mean nothing: 0 if it is a number, -1 if not.
    """

    def __init__(self, A: Array) -> None:
        self.L = np.zeros_like(A)  # below the diagonal
        self.inverses: list[Array] = []  # 1 / L_jj
        self.definite = 1.0 + 0.0 * A[..., 0, 0]
        diagonal = [A[..., j, j] for j in range(A.shape[-1])]
        for j in range(A.shape[-1]):
            pivot, whole = A[..., 0, 0], diagonal[j]
            good = (pivot > 0.0) & (whole + pivot / ROUNDING > whole)
            verdict = np.where(good, 1.0, np.where(pivot == pivot, 0.0, -1.0))
            self.definite = first_failure(self.definite, verdict)
            inverse = 1.0 / np.sqrt(np.where(pivot > 0.0, pivot, 1.0))
            column = A[..., 1:, 0] * beside(inverse)
            A = A[..., 1:, 1:] - _outer(column, column)
            self.L[..., j + 1 :, j] = column
            self.inverses.append(inverse)

    def forward(self, B: Array) -> Array:
        """L^-1 B, with B (..., n, m)."""
        rows = []
        for j, inverse in enumerate(self.inverses):
            rows.append(B[..., 0, :] * beside(inverse))
            B = B[..., 1:, :] - _outer(self.L[..., j + 1 :, j], rows[-1])
        return np.stack(rows, -2)

    def backward(self, B: Array) -> Array:
        """L^-T B."""
        rows: list[Array] = []
        for j in reversed(range(len(self.inverses))):
            rows.append(B[..., j, :] * beside(self.inverses[j]))
            B = B[..., :j, :] - _outer(self.L[..., j, :j], rows[-1])
        return np.stack(rows[::-1], -2)


class _Limited(NamedTuple):
    """A minimum between limits: where it is, and which entries are free to move (1, else 0)."""

    x: Array
    free: Array
    factor: Cholesky


def held_rows(H: Array, free: Array) -> Array:
    """Returns the rows and columns that are free; others are those of the unit matrix."""
    return H * _outer(free, free) + np.eye(H.shape[-1]) * (1.0 - free)[..., None, :]


def _factor(H: Array, free: Array) -> Cholesky:
    """Returns the factor of `held_rows`."""
    return Cholesky(held_rows(H, free))


def _free(x: Array, gradient: Array, low: Array, high: Array) -> Array:
    """1 where the gradient does not press an entry against its limit, else 0."""
    held = ((x <= low) & (gradient > 0.0)) | ((x >= high) & (gradient < 0.0))
    return np.where(held, 0.0, 1.0)


def _swept(x: Array, g: Array, H: Array, low: Array, high: Array) -> Array:
    """One entry after the other goes to where the value is least, which never raises it."""
    x = x.copy()
    for i in range(x.shape[-1]):
        least = x[..., i] - (g[..., i] + _dot(H[..., i, :], x)) / H[..., i, i]
        x[..., i] = np.minimum(np.maximum(least, low[..., i]), high[..., i])
    return x


def limited_minimum(g: Array, H: Array, low: Array, high: Array) -> _Limited:
    """Minimises g . x + x . H x / 2 with low <= x <= high, where low <= 0 <= high, in a fixed
    number of rounds: a sweep over the entries, which finds limits, then a projected step of Newton
    in those that are free, as long as lowers the value most.

    Of 4,000 random problems of 7 entries with half of them held, 99.9 % are exact, of condition
    1e4 99.1 %; the others are lowered, which is enough for the next iteration.
    """
    x = 0.0 * g
    for _ in range(ROUNDS):
        x = _swept(x, g, H, low, high)
        gradient = g + _times(H, x)
        free = _free(x, gradient, low, high)
        factor = _factor(H, free)
        step = -factor.backward(factor.forward((free * gradient)[..., None]))[..., 0]
        best, lowest = 0.0 * x, 0.0 * x[..., 0]
        for length in LENGTHS:
            moved = np.minimum(np.maximum(x + length * step, low), high) - x
            change = _dot(gradient + 0.5 * _times(H, moved), moved)
            lower = change < lowest
            best = np.where(beside(lower), moved, best)
            lowest = np.where(lower, change, lowest)
        x = x + best
    free = _free(x, g + _times(H, x), low, high)
    return _Limited(x, free, _factor(H, free))


def feedback(
    Q: Quadratic, nx: int, damping: Array, limits: tuple[Array, Array] | None = None
) -> tuple[Feedback, Quadratic]:
    """Returns the controls that minimise Q, a function of z = [dx; du], plus damping / 2 |du|^2,
    and what remains as a function of dx. limits: the least and the largest du, which hold for k.
    """
    Qx, Qu = Q.gradient[..., :nx], Q.gradient[..., nx:]
    Qxx, Qux, Quu = Q.hessian[..., :nx, :nx], Q.hessian[..., nx:, :nx], Q.hessian[..., nx:, nx:]
    H = Quu + np.eye(Qu.shape[-1]) * beside(beside(damping))
    if limits is None:
        factor = Cholesky(H)
        Y = factor.forward(np.concatenate([Qux, Qu[..., None]], -1))
        X = -factor.backward(Y)
        K, k, Y = X[..., :nx], X[..., nx], Y[..., :nx]
        rest, definite = 0.0, factor.definite
    else:
        k, free, factor = limited_minimum(Qu, H, *limits)
        Y = factor.forward(Qux * free[..., None])
        K = -factor.backward(Y)
        rest = _times(_turned(K), Qu + _times(H, k))  # 0 at a minimum
        convex = np.all(np.diagonal(H, axis1=-2, axis2=-1) > 0.0, -1)  # of what is held, too
        definite = np.where((factor.definite > 0.0) & ~convex, 0.0, factor.definite)
    value = Quadratic(Qx + _times(_turned(Qux), k) + rest, _symmetric(Qxx - _turned(Y) @ Y))
    slope, curvature = _dot(Qu, k), _dot(k, _times(Quu, k))
    size = np.sum(np.abs(np.diagonal(Quu, axis1=-2, axis2=-1)), -1)
    return Feedback(k, K, slope, curvature, size, definite), value


class Crossed(NamedTuple):
    """The value at the state in which a step ends, of that at the state behind its gap. share: the
    part of the gradient that is there because gaps are to be closed. Without it the gradient is
    that of the cost along the trajectory, to which a short step belongs.
    """

    value: Quadratic
    share: Array  # (..., nx)
    gap: Array  # (..., nx)
    slope: Array  # by the length of a step that closes the part of the gap that it says
    curvature: Array

    def before(self, law: Feedback, steps: tuple[Array, ...]) -> tuple[Feedback, Array]:
        """Returns the feedback at the knot with what its gap adds to the changes that are expected,
        and the share of gaps in the gradient there. steps: matrices whose product takes [dx; du] to
        dx at the end of the step.
        """
        by_all, nx = self.share, self.share.shape[-1]
        for S in steps:
            by_all = _times(_turned(S), by_all)
        by_x, by_u = by_all[..., :nx], by_all[..., nx:]
        ahead = _dot(by_u, law.k) + _dot(self.share, self.gap)
        slope = law.slope + self.slope - ahead
        curvature = law.curvature + self.curvature + 2.0 * ahead
        share = by_x + _times(_turned(law.K), by_u)
        return law._replace(slope=slope, curvature=curvature), share


def cross(value: Quadratic, share: Array, gap: Array) -> Crossed:
    """Returns the value of a state as a function of the change of the state before its gap."""
    rise = _times(value.hessian, gap)
    gradient = value.gradient + rise
    moved = Quadratic(gradient, value.hessian)
    return Crossed(moved, share + rise, gap, _dot(gradient, gap), -_dot(gap, rise))
