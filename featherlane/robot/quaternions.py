"""Quaternions [x y z w], of scalars of any kind and of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featherlane.robot.spatial import Rotation, Vector
from featherlane.scalar import Scalar, select

Array = np.ndarray
NO_ROTATION = (0.0, 0.0, 0.0, 1.0)


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


def _outer_product(R: Sequence[Sequence[Scalar]] | Array) -> list[list[Scalar]]:
    """Returns 4 q q^T of the unit quaternion q of a rotation matrix: sums of 1 and entries of R."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = R
    return [
        [1 + xx - yy - zz, xy + yx, xz + zx, zy - yz],
        [xy + yx, 1 + yy - xx - zz, yz + zy, xz - zx],
        [xz + zx, yz + zy, 1 + zz - xx - yy, yx - xy],
        [zy - yz, xz - zx, yx - xy, 1 + xx + yy + zz],
    ]


def along_quaternion(R: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    """Returns a positive multiple, 2 to 4, of the unit quaternion with w >= 0 of a rotation matrix.

    It is the row of 4 q q^T with the largest diagonal entry, which is 1 at least, so that neither
    the row nor its derivatives lose digits at any rotation.
    """
    longest, *others = _outer_product(R)
    largest = longest[0]
    for k, row in enumerate(others, 1):
        is_longer = largest < row[k]
        largest = select(is_longer, row[k], largest)
        longest = [select(is_longer, x, y) for x, y in zip(row, longest, strict=True)]
    is_negative = longest[3] < 0.0
    return [select(is_negative, -x, x) for x in longest]


def matrix_quaternion(R: Array) -> Array:
    """Returns the unit quaternions xyzw (..., 4), w >= 0, of rotation matrices (..., 3, 3).

    The longest row of 4 q q^T, normalised, is q.
    """
    rows = _outer_product(np.moveaxis(R, (-2, -1), (0, 1)))
    Q: Array = np.moveaxis(np.array(rows), (0, 1), (-2, -1))
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
