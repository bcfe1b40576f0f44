"""Rotation matrices from roll, pitch and yaw and from the quaternions of robot files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featherlane.robot.spatial import Matrix, Vector, dot
from featherlane.scalar import Scalar, atan2, cos, sin, sqrt


def rpy_matrix(roll: Scalar, pitch: Scalar, yaw: Scalar) -> Matrix:
    """Returns Rz(yaw) Ry(pitch) Rx(roll): rotations about the fixed axes x, y, z in this order."""
    (sr, cr), (sp, cp), (sy, cy) = ((sin(a), cos(a)) for a in (roll, pitch, yaw))
    return (
        Vector((cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr)),
        Vector((sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr)),
        Vector((-sp, cp * sr, cp * cr)),
    )


def rpy_angles(R: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    """Returns roll, pitch and yaw of a rotation matrix, with the pitch from -pi/2 to pi/2.

    The roll is taken from the axes after the yaw is undone. So the three angles make the matrix to
    rounding also where the pitch is near a quarter turn and only their sum or difference is known.
    """
    yaw = atan2(R[1][0], R[0][0])
    s, c = sin(yaw), cos(yaw)
    roll = atan2(s * R[0][2] - c * R[1][2], c * R[1][1] - s * R[0][1])
    pitch = atan2(-R[2][0], sqrt(R[0][0] * R[0][0] + R[1][0] * R[1][0]))
    return [roll, pitch, yaw]


def rpy_rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Returns `rpy_matrix` of three numbers as an array."""
    return np.array(rpy_matrix(float(roll), float(pitch), float(yaw)))


def xyzw_rotation(quaternion: np.ndarray) -> np.ndarray:
    """Returns the rotation matrix of a unit quaternion."""
    u, w = quaternion[:3], quaternion[3]
    ux = np.cross(np.eye(3), u)  # the matrix of u x
    return np.asarray((w * w - dot(u, u)) * np.eye(3) + 2 * np.outer(u, u) + 2 * w * ux)
