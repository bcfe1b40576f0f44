"""Integration, comparison and rates of the coordinates of spherical, planar and free joints.

Their configurations are elements of Lie groups: rotations, and rigid motions of the plane and of
space. `exponential` has the exponential and the logarithm of these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from featherlane.robot import exponential
from featherlane.robot.joint_type import Rates, Scalars
from featherlane.robot.quaternions import quaternion_rotation
from featherlane.robot.spatial import Matrix, RotationZ, Vector
from featherlane.scalar import Scalar, cos, rint, sin


def rotation_about_z(angle: Scalar) -> RotationZ:
    return RotationZ(cos(angle), sin(angle))


def spherical_rates(q: Scalars) -> Rates:
    """Returns N(q) of dq/dt = q (w, 0) / 2, a quaternion product."""
    x, y, z, w = (0.5 * entry for entry in q)
    return [[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]]


def free_integrate(q: Scalars, v: Scalars) -> list[Scalar]:
    moved = quaternion_rotation(*q[3:]).to_parent(exponential.displacement(v[:3], v[3:]))
    return [*(Vector(q[:3]) + moved), *exponential.turned(q[3:], v[3:])]


def free_difference(q0: Scalars, q1: Scalars) -> list[Scalar]:
    moved = quaternion_rotation(*q0[3:]).to_child(Vector(q1[:3]) - q0[:3])
    w = exponential.shortest_turn(q0[3:], q1[3:])
    return [*exponential.velocity_of(moved, w), *w]


def free_rates(q: Scalars) -> Rates:
    E = quaternion_rotation(*q[3:]).rows
    linear = [[E[j][i] for j in range(3)] + [0.0] * 3 for i in range(3)]
    return linear + [[0.0] * 3 + row for row in spherical_rates(q[3:])]


# A motion of the plane is one of space with three of the six velocities

PLANE = (0, 1, 5)


def in_space(v: Scalars) -> tuple[Vector, Vector]:
    """Returns the linear and the angular velocity of a motion of the plane."""
    return Vector((v[0], v[1], 0.0)), Vector((0.0, 0.0, v[2]))


def in_plane(matrix: Callable[[Scalars, Scalars], Matrix]) -> Callable[[Scalars], Matrix]:
    def reduced(v: Scalars) -> Matrix:
        full = matrix(*in_space(v))
        return tuple(Vector(full[i][j] for j in PLANE) for i in PLANE)

    return reduced


def planar_integrate(q: Scalars, v: Scalars) -> list[Scalar]:
    moved = rotation_about_z(q[2]).to_parent(exponential.displacement(*in_space(v)))
    return [q[0] + moved[0], q[1] + moved[1], q[2] + v[2]]


def planar_difference(q0: Scalars, q1: Scalars) -> list[Scalar]:
    """Returns the motion with the shortest turn, between -pi and pi."""
    w = q1[2] - q0[2]
    w = w - 2 * np.pi * rint(w * (0.5 / np.pi))
    moved = rotation_about_z(q0[2]).to_child(Vector((q1[0] - q0[0], q1[1] - q0[1], 0.0)))
    return [*exponential.velocity_of(moved, (0.0, 0.0, w))[:2], w]


def planar_rates(q: Scalars) -> Rates:
    c, s = cos(q[2]), sin(q[2])
    return [[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]
