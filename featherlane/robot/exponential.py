"""Exponential and logarithm of rigid motions, with their derivatives, on scalars of any kind.

A motion is a constant velocity over one second, in the moving body's axes: w turns, u moves the
origin. Where the angle x = |w| is small, power series in x^2 replace the closed forms, which divide
by powers of it; so values and derivatives are finite and exact at x = 0 as well.

References: Barfoot, State Estimation for Robotics (2017), chapter 7; Sola, Deray and Atchuthan, A
micro Lie theory for state estimation in robotics (2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial, inf, nan

from featherlane.robot.spatial import (
    NO_TURN,
    ZERO3,
    Matrix,
    Vector,
    cross,
    dot,
    matmul,
    plus,
    skew,
    spatial,
    transpose,
)
from featherlane.scalar import Scalar, cos, select, sin, sqrt

NEAR = 1.0  # x^2 below which series are used: the closed forms lose 3 digits at most above it
TERMS = 11  # of the series: the first one that is left out is below 1e-17
Closed = Callable[[Scalar], Scalar]


def _series(x2: Scalar, coefficients: Sequence[float], closed: Closed) -> Scalar:
    """Returns closed(x), or for x^2 < 1 the power series in x^2. Each form is evaluated within its
    range of validity, so that neither has infinite values or derivatives.
    """
    near = x2 < NEAR
    inside = select(near, x2, 0.0)
    total: Scalar = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = coefficient + inside * total
    return select(near, total, closed(sqrt(select(near, NEAR, x2))))


def _alternating(first: int) -> list[float]:
    """Returns (-1)^n / (2 n + first)!."""
    return [(-1) ** n / factorial(2 * n + first) for n in range(TERMS)]


SINC, VERSINE, CUBIC, QUARTIC, QUINTIC = (_alternating(first) for first in range(1, 6))
COTANGENT = [  # |B_2n| / (2n)!, with the Bernoulli numbers
    1 / 12,
    1 / 720,
    1 / 30240,
    1 / 1209600,
    1 / 47900160,
    691 / 1307674368000,
    1 / 74724249600,
    3617 / 10670622842880000,
    43867 / 5109094217170944000,
    174611 / 802857662698291200000,
    77683 / 14101100039391805440000,
]


def sinc(x2: Scalar) -> Scalar:
    """Returns sin x / x at x^2."""
    return _series(x2, SINC, lambda x: sin(x) / x)


def cosine(x2: Scalar) -> Scalar:
    """Returns cos x at x^2."""
    return _series(x2, _alternating(0), cos)


def versine(x2: Scalar) -> Scalar:
    """Returns (1 - cos x) / x^2 at x^2."""
    return _series(x2, VERSINE, lambda x: (1.0 - cos(x)) / (x * x))


def cubic(x2: Scalar) -> Scalar:
    """Returns (x - sin x) / x^3 at x^2."""
    return _series(x2, CUBIC, lambda x: (x - sin(x)) / (x * x * x))


def _quartic(x2: Scalar) -> Scalar:
    """Returns (cos x - 1 + x^2 / 2) / x^4 at x^2."""
    return _series(x2, QUARTIC, lambda x: (cos(x) - 1.0 + 0.5 * x * x) / (x * x * x * x))


def _quintic(x2: Scalar) -> Scalar:
    """Returns (sin x - x + x^3 / 6) / x^5 at x^2."""
    closed = lambda x: (sin(x) - x + x * x * x * (1 / 6)) / (x * x * x * x * x)
    return _series(x2, QUINTIC, closed)


def cotangent(x2: Scalar) -> Scalar:
    """Returns (1 - (x/2) cot(x/2)) / x^2 at x^2, for x < 2 pi."""
    closed = lambda x: (1.0 - 0.5 * x * cos(0.5 * x) / sin(0.5 * x)) / (x * x)
    return _series(x2, COTANGENT, closed)


# Quaternions [x y z w]


def product(a: Sequence[Scalar], b: Sequence[Scalar]) -> list[Scalar]:
    """Returns the product of two quaternions."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a, b
    return [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]


def unit(q: Sequence[Scalar]) -> list[Scalar]:
    """Returns q / |q|, NaN where |q|^2 is zero, underflows or overflows."""
    inverse = 1.0 / dot(q, q)
    # An overflow of the square would leave zeros, which are no rotation; an underflow infinities
    inverse = sqrt(select(inverse > 0.0, select(inverse < inf, inverse, nan), nan))
    return [x * inverse for x in q]


def turned(q: Sequence[Scalar], w: Sequence[Scalar]) -> list[Scalar]:
    """Returns the unit quaternion after a rotation by w from q, of any length."""
    quarter = 0.25 * dot(w, w)
    half = 0.5 * sinc(quarter)
    return unit(product(q, [half * x for x in w] + [cosine(quarter)]))


ARCTANGENT = [  # arctan(t) / t in powers of t^2 for t up to 1, from its Chebyshev series
    1.0,
    -0.3333333333333284,
    0.19999999999949106,
    -0.14285714283233164,
    0.11111111041189912,
    -0.09090907817443203,
    0.07692291603992704,
    -0.0666651868939463,
    0.058813269366668496,
    -0.05257654527909879,
    0.04738609785553566,
    -0.04268782457205298,
    0.03782201248100273,
    -0.032107746053052055,
    0.0252155415586119,
    -0.017598150372029733,
    0.010462134497372912,
    -0.005065340021622591,
    0.0018950190439734583,
    -0.0005097038995194589,
    8.721698447982024e-05,
    -7.103410099937411e-06,
]


def _evaluated(coefficients: Sequence[float], x: Scalar) -> Scalar:
    total: Scalar = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = coefficient + x * total
    return total


def shortest_turn(q0: Sequence[Scalar], q1: Sequence[Scalar]) -> list[Scalar]:
    """Returns the w, by an angle of at most pi, that turns quaternion q0 into q1, of any length."""
    (x, y, z), w = q0[:3], q0[3]
    return turn_of(unit(product([-x, -y, -z, w], q1)))


def turn_of(q: Sequence[Scalar]) -> list[Scalar]:
    """Returns the rotation vector w of a unit quaternion, by an angle |w| of at most pi: the
    logarithm of SO(3).

    With the half angle, whose sine is |v| and cosine c, of the quaternion [v, c]: w is
    4 arctan(t) v / |v| with t = |v| / (1 + c), without a root or a quotient that fails at zero.
    """
    *v, c = q
    back = c < 0.0
    v, c = [select(back, -x, x) for x in v], select(back, -c, c)
    inverse = 1.0 / (1.0 + c)
    factor = 4.0 * inverse * _evaluated(ARCTANGENT, dot(v, v) * inverse * inverse)
    return [factor * x for x in v]


# Motions of space


def _scaled(A: Matrix, s: Scalar) -> Matrix:
    return tuple(row * s for row in A)


def _sum(*terms: Matrix) -> Matrix:
    total, *others = terms
    for other in others:
        total = plus(total, other)
    return total


def displacement(u: Sequence[Scalar], w: Sequence[Scalar]) -> Vector:
    """Returns the displacement of the origin, in the axes before the motion."""
    x2, turning = dot(w, w), cross(w, u)
    return Vector(u) + turning * versine(x2) + cross(w, turning) * cubic(x2)


def velocity_of(moved: Sequence[Scalar], w: Sequence[Scalar]) -> Vector:
    """Returns the velocity u that has this `displacement`; |w| < 2 pi."""
    turning = cross(w, moved)
    return Vector(moved) - turning * 0.5 + cross(w, turning) * cotangent(dot(w, w))


def turn_matrix(w: Sequence[Scalar]) -> Matrix:
    """Returns the rotation matrix exp(w x) (Rodrigues' formula)."""
    x2, W = dot(w, w), skew(w)
    return _sum(NO_TURN.rows, _scaled(W, sinc(x2)), _scaled(matmul(W, W), versine(x2)))


def turn_jacobian(w: Sequence[Scalar]) -> Matrix:
    """Returns the right Jacobian Jr of SO(3): exp(w + dw) = exp(w) exp(Jr dw) to first order."""
    x2, W = dot(w, w), skew(w)
    return _sum(NO_TURN.rows, _scaled(W, -versine(x2)), _scaled(matmul(W, W), cubic(x2)))


def turn_jacobian_inverse(w: Sequence[Scalar]) -> Matrix:
    """Returns the inverse of `turn_jacobian`, for |w| < 2 pi."""
    x2, W = dot(w, w), skew(w)
    return _sum(NO_TURN.rows, _scaled(W, 0.5), _scaled(matmul(W, W), cotangent(x2)))


def _coupling(u: Sequence[Scalar], w: Sequence[Scalar]) -> Matrix:
    """Returns Q of Jr = [[J, Q], [0, J]]: how a change of w moves the origin (Barfoot, 7.86)."""
    x2, U, W = dot(w, w), skew(u), skew(w)
    WU, UW = matmul(W, U), matmul(U, W)
    WUW = matmul(WU, W)
    third = _sum(_scaled(WUW, 3.0), _scaled(_sum(matmul(W, WU), matmul(UW, W)), -1.0))
    fourth = _sum(matmul(WUW, W), matmul(W, WUW))
    return _sum(
        _scaled(U, -0.5),
        _scaled(_sum(WU, UW, _scaled(WUW, -1.0)), cubic(x2)),
        _scaled(third, _quartic(x2)),
        _scaled(fourth, 0.5 * _quartic(x2) - 1.5 * _quintic(x2)),
    )


def adjoint(R: Matrix, p: Sequence[Scalar]) -> Matrix:
    """Returns Ad, 6 x 6: the velocity [u; w] in the axes and at the origin of a frame (R, p), seen
    in the axes and at the origin of the reference.
    """
    return _blocks(R, matmul(skew(p), R))


def _blocks(A: Matrix, B: Matrix) -> Matrix:
    """Returns [[A, B], [0, A]]."""
    upper = [Vector((*a, *b)) for a, b in zip(A, B, strict=True)]
    return (*upper, *[spatial(ZERO3, a) for a in A])


# The same for velocities [u; w]: 6 x 6 matrices


def motion_adjoint(u: Sequence[Scalar], w: Sequence[Scalar]) -> Matrix:
    """Returns Ad of exp(-(u, w)): a small motion d before the motion (u, w) is Ad d after it."""
    R = transpose(turn_matrix(w))
    return _blocks(R, _scaled(matmul(R, skew(displacement(u, w))), -1.0))


def motion_jacobian(u: Sequence[Scalar], w: Sequence[Scalar]) -> Matrix:
    """Returns the right Jacobian Jr of SE(3): exp(v + dv) = exp(v) exp(Jr dv), v = [u; w]."""
    return _blocks(turn_jacobian(w), _coupling(u, w))


def motion_jacobian_inverse(u: Sequence[Scalar], w: Sequence[Scalar]) -> Matrix:
    """Returns the inverse of `motion_jacobian`, for |w| < 2 pi."""
    J = turn_jacobian_inverse(w)
    return _blocks(J, _scaled(matmul(matmul(J, _coupling(u, w)), J), -1.0))
