"""A step of inverse kinematics: damped Gauss-Newton with limits, and a posture in the null space.

The step dq minimises |J dq - e|^2 + lambda |dq - z|^2, where e is the error of the frames in the
world's axes and z leads towards a posture: dq = z + J^T (J J^T + lambda)^-1 (e - J z). lambda
grows with |e|^2 (Sugihara, Solvability-unconcerned inverse kinematics by the Levenberg-Marquardt
method, 2011). The system has a row for each entry of e, so that its size does not grow with the
robot. A coordinate at a limit that e pushes outwards has no column in J. Obstacles add one row: by
how much spheres that cover the robot overlap with them, or with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

from featherlane.algorithms.clearance import Push
from featherlane.algorithms.common import Scalars
from featherlane.algorithms.configurations import difference, integrate
from featherlane.algorithms.frames import frame_transform, jacobian
from featherlane.algorithms.mminv import Rows
from featherlane.robot.spatial import Matrix, dot, matmul, transpose
from featherlane.robot.tree import BodyFrame, Tree
from featherlane.scalar import Scalar, is_zero, select, sqrt

DAMPING = 0.05  # lambda / |e|^2, with e in m and rad
LEAST_DAMPING = 1e-5  # keeps the system regular at singular configurations
PULL = 0.3  # the share of the way to the centres of the limits in a step, / |e|^2
HALF_TURN = 1e-4  # 2 + 2 cos(angle) below which the axis of the error is lost in rounding
GENERIC = (0.53, 0.62, 0.58)  # a direction that is orthogonal to no axis that users choose


class Bounded(NamedTuple):
    """A coordinate between two limits: its entry of q and of v, the centre and half the range."""

    q: int
    v: int
    center: float
    half: float


def bounded(tree: Tree, lower: Sequence[float], upper: Sequence[float]) -> list[Bounded]:
    """Returns the coordinates with two limits, of joints whose v is the rate of their q."""
    return [
        Bounded(i + n, k + n, 0.5 * (low + high), 0.5 * (high - low))
        for kind, i, k in tree.coordinates
        if kind.has_plain_rates
        for n, (low, high) in enumerate(
            zip(lower[i : i + kind.nq], upper[i : i + kind.nq], strict=True)
        )
        if high - low < inf
    ]


def rotation_error(target: Matrix, E: Matrix) -> list[Scalar]:
    """Returns 2 sin(angle / 2) times the axis, in the world's axes, of the rotation from a frame
    whose axes are the rows of E to one whose axes are the columns of `target`.

    To first order this is the rotation vector, without arc functions. At half a turn the
    antisymmetric part of R vanishes, and R + 1 is 2 axis axis^T.
    """
    R = matmul(target, E)
    twice = R[0][0] + R[1][1] + R[2][2] + 1.0
    is_half_turn = twice < HALF_TURN
    scale = 1.0 / sqrt(select(is_half_turn, 1.0, twice))
    twisted = R[2][1] - R[1][2], R[0][2] - R[2][0], R[1][0] - R[0][1]
    back = [dot(row, GENERIC) + x for row, x in zip(R, GENERIC, strict=True)]
    return [select(is_half_turn, b, scale * x) for b, x in zip(back, twisted, strict=True)]


def errors(tree: Tree, q: Scalars, frame: BodyFrame, target: Any) -> tuple[Any, Any]:
    """Returns the errors of a frame's position (3) and, if the target is a pose (3 rows of 4) and
    not a position, of its rotation (3).
    """
    X = frame_transform(tree, q, frame)
    place = [row[3] for row in target] if isinstance(target[0], list) else target
    position = [x - r for x, r in zip(place, X.r, strict=True)]
    if place is target:
        return position, []
    return position, rotation_error(tuple(row[:3] for row in target), X.E.rows)


def solved(A: Rows, b: Scalars) -> list[Scalar]:
    """Returns A^-1 b for a symmetric, positive definite A, by its factors L D L^T."""
    n, L, inverse = len(b), [list(row) for row in A], list[Scalar]()
    x = list(b)
    for k in range(n):
        scaled = [L[k][j] for j in range(k)]
        for j in range(k):
            L[k][j] = scaled[j] * inverse[j]
            x[k] = x[k] - L[k][j] * x[j]
        inverse.append(1.0 / (L[k][k] - dot(L[k][:k], scaled)))
        for i in range(k + 1, n):
            L[i][k] = L[i][k] - dot(L[i][:k], L[k][:k])
    x = [y * d for y, d in zip(x, inverse, strict=True)]
    for k in reversed(range(n)):
        for j in range(k):
            x[j] = x[j] - L[k][j] * x[k]
    return x


def _inside(q: Scalars, lower: Sequence[float], upper: Sequence[float]) -> list[Scalar]:
    """Returns q within its limits. A NaN comes to a limit."""
    inside = list(q)
    for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if high < inf:
            inside[i] = select(inside[i] < high, inside[i], high)
        if low > -inf:
            inside[i] = select(inside[i] > low, inside[i], low)
    return inside


def _free(bound: Bounded, q: Scalars, push: Scalar) -> Scalar:
    """Returns 0 for a coordinate at a limit that is pushed outwards, else 1."""
    inwards = bound.center - q[bound.q]
    within = abs(inwards) < bound.half * (1 - 1e-6)
    return select(within, 1.0, select(push * inwards > 0.0, 1.0, 0.0))


def _largest(squares: Sequence[Scalar]) -> Scalar:
    """Returns the largest number, NaN if one is."""
    most = squares[0]
    for x in squares[1:]:
        most = select(most >= x, most, select(most <= most, x, most))
    return most


def _secondary_step(
    tree: Tree,
    q: Scalars,
    bounds: Sequence[Bounded],
    posture: Scalars | None,
    gain: Scalar,
    size: Scalar,
) -> list[Scalar]:
    """Returns z, towards the posture and, the more the larger |e|^2 is, towards the centres of the
    limits.
    """
    pull = PULL * size
    pull = select(pull < 1.0, pull, 1.0)
    z = [0.0] * tree.nv if posture is None else difference(tree, q, posture)
    z = [gain * x for x in z]
    for bound in bounds:
        z[bound.v] = z[bound.v] + pull * (bound.center - q[bound.q])
    return z


def inverse_kinematics_step(
    tree: Tree,
    frames: Sequence[BodyFrame],
    limits: tuple[Sequence[float], Sequence[float]],
    q: Scalars,
    step: Scalars,
    gain: Scalar,
    targets: Sequence[Any],
    posture: Scalars | None,
    push_at: Callable[[Scalars], Push] | None,
) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Moves q by a step, and returns where that is, the next step, and the squares [position error
    in m^2, (2 sin(angle / 2))^2 of the rotation error, (missing clearance)^2 in m^2 if there are
    obstacles, |next step|^2], of frames the largest.

    gain: the share of the way to the posture in a step, within what the targets leave open. Far
    from the targets the centres of the limits attract too: at limits, most searches would end.
    push_at: returns the push out of obstacles at q.
    """
    q, bounds = _inside(integrate(tree, q, step), *limits), bounded(tree, *limits)
    pairs = [errors(tree, q, frame, x) for frame, x in zip(frames, targets, strict=True)]
    e = [x for pair in pairs for part in pair for x in part]
    J = [
        row
        for frame, pair in zip(frames, pairs, strict=True)
        for row in jacobian(tree, q, frame, "world")[: sum(map(len, pair))]
    ]
    columns = [list(column) for column in transpose(tuple(J))]
    if push_at is not None:
        push = push_at(q)
        e.append(push.size)
        for column, x in zip(columns, push.rate, strict=True):
            column.append(0.0 if all(map(is_zero, column)) else x)
        J = [list(row) for row in transpose(tuple(columns))]
    size = dot(e, e)
    # Joints that move no frame stay where they are
    bounds = [bound for bound in bounds if not all(map(is_zero, columns[bound.v]))]
    z = _secondary_step(tree, q, bounds, posture, gain, size)
    movable = [list(column) for column in columns]
    for bound in bounds:
        free = _free(bound, q, dot(columns[bound.v], e))
        movable[bound.v] = [free * x for x in columns[bound.v]]
    rows = transpose(tuple(movable))
    damping = LEAST_DAMPING + DAMPING * size
    A = [
        [dot(J[i], rows[j]) + (damping if i == j else 0.0) for j in range(i + 1)]
        for i in range(len(e))
    ]
    y = solved(A, [x - dot(row, z) for x, row in zip(e, J, strict=True)])
    step = [x + dot(column, y) for x, column in zip(z, movable, strict=True)]
    squares = [
        _largest([dot(x, x) for x in kind if x]) for kind in zip(*pairs, strict=True) if any(kind)
    ]
    if push_at is not None:
        squares.append(push.missing * push.missing)
    return q, step, [*squares, dot(step, step)]
