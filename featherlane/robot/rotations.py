"""Rotation matrices from the angles and quaternions of robot files."""

from __future__ import annotations

import numpy as np

from featherlane.robot.spatial import dot
from featherlane.scalar import sine_cosine


def rpy_rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Returns Rz(yaw) Ry(pitch) Rx(roll): rotations about the fixed axes x, y, z in this order."""
    (sr, cr), (sp, cp), (sy, cy) = (sine_cosine(float(a)) for a in (roll, pitch, yaw))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def xyzw_rotation(quaternion: np.ndarray) -> np.ndarray:
    """Returns the rotation matrix of a unit quaternion."""
    u, w = quaternion[:3], quaternion[3]
    ux = np.cross(np.eye(3), u)  # the matrix of u x
    return np.asarray((w * w - dot(u, u)) * np.eye(3) + 2 * np.outer(u, u) + 2 * w * ux)
