"""Semi-implicit steps of bodies whose linear velocity has the axes of the body.

Such a body turns within a step, so that its velocity [u; w] has other components at the end even
where it stays as it is in space. Of the rates [a; b] of its components, with E the rotation into
the axes of the end,

    x = u + dt (a + w x u)          the linear velocity of the end, in the axes of the beginning
    w' = w + dt b,   u' = E x       that in the axes of the end; (u' - u) / dt is the mean of a

The body turns by dt w', and its origin moves by dt x, which is dt u' in its new axes: without
forces it goes straight on at its speed, however fast it spins. MuJoCo's steps are the same, with
linear velocities in the axes of the world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from featherlane.robot import exponential
from featherlane.robot.group_coordinates import PLANE, in_space, rotation_about_z
from featherlane.robot.joint_type import Scalars, StraightMotion
from featherlane.robot.quaternions import quaternion_rotation
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
    transpose,
)
from featherlane.scalar import Scalar

Pair = tuple[Vector, Vector]  # of linear and angular components


def _times(A: Matrix, s: Scalar) -> Matrix:
    return tuple(row * s for row in A)


def _blocks(*rows: tuple[Matrix, Matrix]) -> Matrix:
    """Returns a matrix 6 x 6 of four blocks."""
    return tuple(Vector((*a, *b)) for A, B in rows for a, b in zip(A, B, strict=True))


ONE: Matrix = NO_TURN.rows
NONE: Matrix = (ZERO3, ZERO3, ZERO3)


def turning(v: Pair) -> Pair:
    """Returns [w x u; 0], which a lacks of the acceleration in space."""
    u, w = v
    return cross(w, u), ZERO3


def turning_slopes(v: Pair) -> Matrix:
    """Returns the derivatives of `turning`."""
    u, w = v
    return _blocks((skew(w), _times(skew(u), -1.0)), (NONE, NONE))


def mean_acceleration(v: Pair, acceleration: Pair, dt: Scalar) -> Pair:
    """Returns [(u' - u) / dt; b], by the quaternion [h, c] of the rotation by dt w'."""
    (u, w), (a, b) = v, acceleration
    in_axes, end = a + cross(w, u), w + b * dt
    angle = end * dt
    quarter = 0.25 * dot(angle, angle)
    half = 0.5 * exponential.sinc(quarter)
    h, c = angle * half, exponential.cosine(quarter)
    turned = cross(end * (2.0 * half), u + in_axes * dt)  # 2 h x x / dt
    return in_axes - turned * c + cross(h, turned), b


def mean_acceleration_slopes(v: Pair, acceleration: Pair, dt: Scalar) -> tuple[Matrix, Matrix]:
    """Returns the derivatives of `mean_acceleration` by the velocity and by the acceleration."""
    (u, w), (mean, b) = v, mean_acceleration(v, acceleration, dt)
    angle = (w + b * dt) * dt
    W, J, x2 = skew(w + b * dt), exponential.turn_jacobian(angle), dot(angle, angle)
    K = plus(  # (E - 1) / dt
        _times(W, -exponential.sinc(x2)), _times(matmul(W, W), dt * exponential.versine(x2))
    )
    E = plus(ONE, _times(K, dt))
    B = matmul(skew(u + mean * dt), J)
    by_u, by_w = plus(matmul(E, skew(w)), K), plus(B, _times(matmul(E, skew(u)), -1.0))
    return _blocks((by_u, by_w), (NONE, NONE)), _blocks((E, _times(B, dt)), (NONE, ONE))


def adjoint(motion: Pair) -> Matrix:
    """Returns the derivative of the end of a motion [u; w], which turns first, by its beginning."""
    u, w = motion
    E = transpose(exponential.turn_matrix(w))
    return _blocks((E, _times(matmul(skew(u), E), -1.0)), (NONE, E))


def jacobian(motion: Pair) -> Matrix:
    """Returns the derivative of the end of a motion [u; w], which turns first, by the motion."""
    u, w = motion
    J = exponential.turn_jacobian(w)
    return _blocks((ONE, _times(matmul(skew(u), J), -1.0)), (NONE, J))


def _free_integrate(q: Scalars, v: Scalars) -> list[Scalar]:
    after = exponential.turned(q[3:], v[3:])
    return [*(Vector(q[:3]) + quaternion_rotation(*after).to_parent(v[:3])), *after]


def _planar_integrate(q: Scalars, v: Scalars) -> list[Scalar]:
    heading = q[2] + v[2]
    moved = rotation_about_z(heading).to_parent(Vector((v[0], v[1], 0.0)))
    return [q[0] + moved[0], q[1] + moved[1], heading]


def _straight(
    pair: Callable[[Scalars], Pair],
    places: Sequence[int],
    integrate: Callable[[Scalars, Scalars], list[Scalar]],
) -> StraightMotion:
    """Returns the motion of a joint whose velocity has these places of [u; w] in space."""

    def entries(x: Pair) -> list[Scalar]:
        both = [*x[0], *x[1]]
        return [both[k] for k in places]

    def block(A: Matrix) -> Matrix:
        return tuple(Vector(A[i][j] for j in places) for i in places)

    def slopes(v: Scalars, a: Scalars, dt: Scalar) -> tuple[Matrix, Matrix]:
        by_v, by_a = mean_acceleration_slopes(pair(v), pair(a), dt)
        return block(by_v), block(by_a)

    return StraightMotion(
        turning=lambda v: entries(turning(pair(v))),
        turning_slopes=lambda v: block(turning_slopes(pair(v))),
        mean_acceleration=lambda v, a, dt: entries(mean_acceleration(pair(v), pair(a), dt)),
        mean_acceleration_slopes=slopes,
        integrate=integrate,
        adjoint=lambda v: block(adjoint(pair(v))),
        jacobian=lambda v: block(jacobian(pair(v))),
    )


FREE_STRAIGHT = _straight(lambda v: (Vector(v[:3]), Vector(v[3:])), range(6), _free_integrate)
PLANAR_STRAIGHT = _straight(in_space, PLANE, _planar_integrate)
