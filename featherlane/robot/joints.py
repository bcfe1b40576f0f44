"""The table of joint types.

A joint type has nq coordinates and nv degrees of freedom, a motion subspace matrix (the columns
`S`, constant in the child frame, in the order of the user's v), a transform XJ(q), and functions
that integrate and compare its coordinates. Loaders rotate each joint frame so that its axis is z:
the columns of S are then unit vectors, but for the pitch of a helical joint. A universal joint,
whose S is not constant, is a `chain` of two revolute joints to the algorithms. Reference:
Featherstone 2008, section 4.4 and table 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featherlane.robot import exponential
from featherlane.robot.spatial import (
    NO_INERTIA,
    NO_TURN,
    ZERO3,
    ZERO_SYMMETRIC,
    Inertia,
    Matrix,
    Rotation,
    RotationZ,
    Transform,
    Vector,
    cross,
    transpose,
    unit,
)
from featherlane.scalar import Scalar, cos, rint, select, sin

Array = np.ndarray
Scalars = Sequence[Scalar]
Rates = list[list[Scalar]]
XJ = Callable[[Sequence[Scalar]], Transform]


def identity(v: Scalars) -> Matrix:
    """Returns the identity, as large as v."""
    return tuple(unit(k, len(v)) for k in range(len(v)))


@dataclass(frozen=True)
class JointType:
    name: str
    S: tuple[Vector, ...]
    transform: XJ
    """XJ(q): it takes coordinates of the joint's frame on the parent to the child's."""
    description: str
    neutral: tuple[float, ...]
    integrate: Callable[[Scalars, Scalars], list[Scalar]]
    """integrate(q, v) is the configuration after one second at v."""
    difference: Callable[[Scalars, Scalars], list[Scalar]]
    """difference(q0, q1) is the v with which `integrate` leads from q0 to q1."""
    rates: Callable[[Sequence[Scalar]], Rates]
    """N(q), nq x nv: dq/dt = N(q) v."""
    adjoint: Callable[[Scalars], Matrix] = identity
    """adjoint(v), nv x nv: what d/dq before the motion v is after it, both in the tangent space."""
    jacobian: Callable[[Scalars], Matrix] = identity
    """jacobian(v), nv x nv: a motion by v + dv is one by v, and then by jacobian(v) dv."""
    jacobian_inverse: Callable[[Scalars], Matrix] = identity
    commutator: Callable[[Scalars, Scalars], Scalars] | None = None
    """commutator(u, v): the motions u, v, -u and -v in turn, to second order; None if it is 0."""
    axis: bool = True  # whether the joint has an axis, which loaders rotate to z
    angles: tuple[int, ...] = ()  # the indices of the coordinates that are angles in radians
    quaternions: tuple[int, ...] = ()  # the indices of the coordinates where a quaternion begins
    chain: tuple[JointType, ...] = ()
    """The joints of one degree of freedom, in series, that replace this one in a `Tree`."""
    regrouped: Callable[[Inertia], Inertia] = lambda inertia: NO_INERTIA
    """The part of a body's inertia that this joint does not move relative to the parent, so that
    it may be counted with the parent: the regrouping of base inertial parameters.
    """

    @property
    def nq(self) -> int:
        return len(self.neutral)

    @property
    def nv(self) -> int:
        return len(self.S)


def _turn(angle: Scalar) -> RotationZ:
    return RotationZ(cos(angle), sin(angle))


def quaternion_rotation(x: Scalar, y: Scalar, z: Scalar, w: Scalar) -> Rotation:
    """Returns E, child from parent coordinates, for the child's orientation q / |q|.

    E is NaN where |q|^2 is zero, underflows or overflows; any other length is as good as 1.
    """
    square = x * x + y * y + z * z + w * w
    s = 2.0 / square
    # An overflow would leave s = 0, which is no turn at all; an underflow an infinite s.
    s = select(square < np.inf, select(s < np.inf, s, np.nan), np.nan)
    sx, sy, sz = s * x, s * y, s * z
    xx, yy, zz = sx * x, sy * y, sz * z
    xy, xz, yz = sx * y, sx * z, sy * z
    wx, wy, wz = sx * w, sy * w, sz * w
    return Rotation(
        (
            Vector((1.0 - (yy + zz), xy + wz, xz - wy)),
            Vector((xy - wz, 1.0 - (xx + zz), yz + wx)),
            Vector((xz + wy, yz - wx, 1.0 - (xx + yy))),
        )
    )


def _on_axis(inertia: Inertia) -> Inertia:
    """Keeps the mass on the axis of rotation, which a rotation leaves where it is."""
    return _axial_moment(inertia)._replace(m=inertia.m, h=Vector((0.0, 0.0, inertia.h[2])))


def _second_moment(inertia: Inertia) -> Inertia:
    """Keeps the second moment: a sliding body rotates with its parent."""
    return Inertia(0.0, ZERO3, inertia.S)


def _at_centre(inertia: Inertia) -> Inertia:
    """Keeps the mass at the centre of a rotation in any direction."""
    return Inertia(inertia.m, ZERO3, ZERO_SYMMETRIC)


def _axial_moment(inertia: Inertia) -> Inertia:
    """Keeps the second moment along the joint's axis, about which alone the body rotates."""
    return Inertia(0.0, ZERO3, ZERO_SYMMETRIC._replace(zz=inertia.S.zz))


# Quaternions [x y z w] of arrays


def quaternion_product(a: Array, b: Array) -> Array:
    (ax, ay, az, aw), (bx, by, bz, bw) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ],
        -1,
    )


def conjugate(q: Array) -> Array:
    """Returns the quaternions of the inverse rotations, if those of q (..., 4) are unit."""
    return q * np.array([-1, -1, -1, 1], q.dtype)


def quaternion_turn(quaternion: Array, x: Array) -> Array:
    """Rotates vectors x (..., 3) by unit quaternions xyzw (..., 4)."""
    u, w = quaternion[..., :3], quaternion[..., 3:]
    t = 2 * np.cross(u, x)
    return x + w * t + np.cross(u, t)


def matrix_quaternion(R: Array) -> Array:
    """Returns the unit quaternions xyzw (..., 4), w >= 0, of rotation matrices (..., 3, 3).

    All entries of 4 q q^T are sums of 1 and entries of R. Its longest row, normalised, is q.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = np.moveaxis(R, (-2, -1), (0, 1))
    rows = [
        [1 + xx - yy - zz, xy + yx, xz + zx, zy - yz],
        [xy + yx, 1 + yy - xx - zz, yz + zy, xz - zx],
        [xz + zx, yz + zy, 1 + zz - xx - yy, yx - xy],
        [zy - yz, xz - zx, yx - xy, 1 + xx + yy + zz],
    ]
    Q = np.moveaxis(np.array(rows), (0, 1), (-2, -1))
    longest = np.argmax(np.diagonal(Q, axis1=-2, axis2=-1), -1)
    q = unit_quaternion(np.take_along_axis(Q, longest[..., None, None], -2)[..., 0, :])
    return np.asarray(np.where(q[..., 3:] < 0, -q, q))


def near_unit(q: Array) -> Array:
    """Returns the vectors (..., n) times powers of two that bring their largest entries to between
    1/2 and 1. Nothing is rounded, and their squares neither overflow nor underflow.
    """
    return np.ldexp(q, -np.frexp(np.abs(q).max(-1, keepdims=True))[1])


@np.errstate(all="ignore")  # a quaternion of length 0 gives NaN
def unit_quaternion(q: Array) -> Array:
    """Returns q / |q| (..., 4) of any length that the dtype has; NaN for zero."""
    q = near_unit(q)
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def _spherical_rates(q: Sequence[Scalar]) -> Rates:
    """Returns N(q) of dq/dt = q (w, 0) / 2, a quaternion product."""
    x, y, z, w = (0.5 * entry for entry in q)
    return [[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]]


def _free_integrate(q: Scalars, v: Scalars) -> list[Scalar]:
    moved = quaternion_rotation(*q[3:]).to_parent(exponential.displacement(v[:3], v[3:]))
    return [*(Vector(q[:3]) + moved), *exponential.turned(q[3:], v[3:])]


def _free_difference(q0: Scalars, q1: Scalars) -> list[Scalar]:
    moved = quaternion_rotation(*q0[3:]).to_child(Vector(q1[:3]) - q0[:3])
    w = exponential.shortest_turn(q0[3:], q1[3:])
    return [*exponential.velocity_of(moved, w), *w]


def _free_rates(q: Sequence[Scalar]) -> Rates:
    E = quaternion_rotation(*q[3:]).rows
    linear = [[E[j][i] for j in range(3)] + [0.0] * 3 for i in range(3)]
    return linear + [[0.0] * 3 + row for row in _spherical_rates(q[3:])]


# A planar motion is one of space, of which it has three of the six velocities

PLANE = (0, 1, 5)


def _in_space(v: Scalars) -> tuple[Vector, Vector]:
    return Vector((v[0], v[1], 0.0)), Vector((0.0, 0.0, v[2]))


def _in_plane(matrix: Callable[[Scalars, Scalars], Matrix]) -> Callable[[Scalars], Matrix]:
    def reduced(v: Scalars) -> Matrix:
        full = matrix(*_in_space(v))
        return tuple(Vector(full[i][j] for j in PLANE) for i in PLANE)

    return reduced


def _planar_integrate(q: Scalars, v: Scalars) -> list[Scalar]:
    moved = _turn(q[2]).to_parent(exponential.displacement(*_in_space(v)))
    return [q[0] + moved[0], q[1] + moved[1], q[2] + v[2]]


def _planar_difference(q0: Scalars, q1: Scalars) -> list[Scalar]:
    """Returns the motion with the shortest turn, between -pi and pi."""
    w = q1[2] - q0[2]
    w = w - 2 * np.pi * rint(w * (0.5 / np.pi))
    moved = _turn(q0[2]).to_child(Vector((q1[0] - q0[0], q1[1] - q0[1], 0.0)))
    return [*exponential.velocity_of(moved, (0.0, 0.0, w))[:2], w]


def _planar_rates(q: Sequence[Scalar]) -> Rates:
    c, s = cos(q[2]), sin(q[2])
    return [[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]


# The table


def _plain(
    name: str, S: tuple[Vector, ...], transform: XJ, description: str, **options: Any
) -> JointType:
    """Makes a type whose coordinates are plain numbers with dq/dt = v."""
    n = len(S)
    add = lambda q, v: [x + y for x, y in zip(q, v, strict=True)]
    subtract = lambda q0, q1: [y - x for x, y in zip(q0, q1, strict=True)]
    rates = lambda q: np.eye(n).tolist()
    return JointType(name, S, transform, description, (0.0,) * n, add, subtract, rates, **options)


NO_ROTATION = (0.0, 0.0, 0.0, 1.0)  # as a quaternion
TURN, SLIDE = unit(2), unit(5)  # about z, along z

REVOLUTE = _plain(
    "revolute",
    (TURN,),
    lambda q: Transform(_turn(q[0]), ZERO3),
    "a turn about its axis, in radians",
    regrouped=_on_axis,
    angles=(0,),
)
PRISMATIC = _plain(
    "prismatic",
    (SLIDE,),
    lambda q: Transform(NO_TURN, Vector((0.0, 0.0, q[0]))),
    "a slide along its axis, in metres",
    regrouped=_second_moment,
)


def helical(pitch: float) -> JointType:
    """Returns the type of a screw joint that advances `pitch` metres for each radian."""
    return _plain(
        "helical",
        (TURN + SLIDE * pitch,),
        lambda q: Transform(_turn(q[0]), Vector((0.0, 0.0, pitch * q[0]))),
        "a screw about its axis, in radians; its pitch is in metres per radian",
        regrouped=_axial_moment,
        angles=(0,),
    )


CYLINDRICAL = _plain(
    "cylindrical",
    (TURN, SLIDE),
    lambda q: Transform(_turn(q[0]), Vector((0.0, 0.0, q[1]))),
    "a turn about its axis, in radians, and a slide along it, in metres",
    regrouped=_axial_moment,
    angles=(0,),
)
UNIVERSAL = _plain(
    "universal",
    (TURN, TURN),
    lambda q: NotImplemented,  # a Tree has its chain instead
    "a turn about its first axis, then about its second, which the first turns; in radians",
    chain=(REVOLUTE, REVOLUTE),
    angles=(0, 1),
)
TRANSLATION = _plain(
    "translation",
    (unit(3), unit(4), unit(5)),
    lambda q: Transform(NO_TURN, Vector(q)),
    "q = [x, y, z], in metres",
    regrouped=_second_moment,
    axis=False,
)
SPHERICAL = JointType(
    "spherical",
    (unit(0), unit(1), unit(2)),
    lambda q: Transform(quaternion_rotation(*q), ZERO3),
    "q = [qx qy qz qw], v = the angular velocity in the body's axes",
    neutral=NO_ROTATION,
    integrate=exponential.turned,
    difference=exponential.shortest_turn,
    rates=_spherical_rates,
    adjoint=lambda v: transpose(exponential.turn_matrix(v)),
    jacobian=exponential.turn_jacobian,
    jacobian_inverse=exponential.turn_jacobian_inverse,
    commutator=cross,
    regrouped=_at_centre,
    axis=False,
    quaternions=(0,),
)
PLANAR = JointType(
    "planar",
    (unit(3), unit(4), unit(2)),
    lambda q: Transform(_turn(q[2]), Vector((q[0], q[1], 0.0))),
    "q = [x, y, heading] in the parent's plane, v = [vx, vy, turn rate] in the body's axes",
    neutral=(0.0, 0.0, 0.0),
    integrate=_planar_integrate,
    difference=_planar_difference,
    rates=_planar_rates,
    adjoint=_in_plane(exponential.motion_adjoint),
    jacobian=_in_plane(exponential.motion_jacobian),
    jacobian_inverse=_in_plane(exponential.motion_jacobian_inverse),
    commutator=lambda u, v: Vector((v[1] * -u[2] + u[1] * v[2], v[0] * u[2] - u[0] * v[2], 0.0)),
    regrouped=_axial_moment,
    angles=(2,),
)
FREE = JointType(
    "free",
    (unit(3), unit(4), unit(5), unit(0), unit(1), unit(2)),
    lambda q: Transform(quaternion_rotation(*q[3:]), Vector(q[:3])),
    "q = [x y z, qx qy qz qw], v = [linear; angular] in the body's axes",
    neutral=(0.0, 0.0, 0.0, *NO_ROTATION),
    integrate=_free_integrate,
    difference=_free_difference,
    rates=_free_rates,
    adjoint=lambda v: exponential.motion_adjoint(v[:3], v[3:]),
    jacobian=lambda v: exponential.motion_jacobian(v[:3], v[3:]),
    jacobian_inverse=lambda v: exponential.motion_jacobian_inverse(v[:3], v[3:]),
    commutator=lambda u, v: Vector(
        (*(cross(u[3:], v[:3]) + cross(u[:3], v[3:])), *cross(u[3:], v[3:]))
    ),
    axis=False,
    quaternions=(3,),
)

WITH_AXIS = REVOLUTE, PRISMATIC, helical(0.0), CYLINDRICAL, UNIVERSAL, PLANAR
WITHOUT_AXIS = SPHERICAL, TRANSLATION, FREE
JOINT_TYPES = {joint.name: joint for joint in WITH_AXIS + WITHOUT_AXIS}


def joint_type(name: str, pitch: float = 0.0) -> JointType:
    """Returns a type by name; helical joints are a family of types, one for each pitch."""
    return helical(pitch) if name == "helical" else JOINT_TYPES[name]
