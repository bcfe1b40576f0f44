"""Signed distances of a sphere to spheres, capsules and planes, on scalars of any kind.

A sphere is [x y z r], a capsule [x0 y0 z0 x1 y1 z1 r], the points within r of a segment, a plane
[nx ny nz d], solid where n . x <= d. Reference: Ericson, Real-Time Collision Detection (2005),
section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.algorithms.common import Scalars
from featherlane.robot.spatial import Vector, dot
from featherlane.scalar import Scalar, select, sqrt


def _length(x: Sequence[Scalar]) -> Scalar:
    """Returns |x|, with the derivative 0 at 0."""
    square = dot(x, x)
    is_zero = square <= 0.0
    return select(is_zero, 0.0, sqrt(select(is_zero, 1.0, square)))


def not_negative(x: Scalar) -> Scalar:
    """Returns x, or 0 where it is negative, in one instruction; NaN stays."""
    return select(x < 0.0, 0.0, x)


def from_capsule(point: Scalars, capsule: Scalars) -> Vector:
    """Returns the way to a point (3) from the nearest point of a capsule's segment, whose ends may
    be one point.
    """
    start, end = Vector(capsule[:3]), Vector(capsule[3:6])
    along, to_center = end - start, Vector(point) - start
    square = dot(along, along)
    share = dot(along, to_center) / select(square <= 0.0, 1.0, square)
    return to_center - along * not_negative(select(share > 1.0, 1.0, share))


def sphere_sphere(a: Scalars, b: Scalars) -> Scalar:
    """Returns the signed distance of two spheres."""
    return _length(Vector(a[:3]) - b[:3]) - (a[3] + b[3])


def sphere_capsule(sphere: Scalars, capsule: Scalars) -> Scalar:
    """Returns the signed distance of a sphere and a capsule."""
    return _length(from_capsule(sphere[:3], capsule)) - (sphere[3] + capsule[6])


def sphere_plane(sphere: Scalars, plane: Scalars) -> Scalar:
    """Returns the signed distance of a sphere and a plane."""
    return dot(plane[:3], sphere[:3]) - (plane[3] + sphere[3])
