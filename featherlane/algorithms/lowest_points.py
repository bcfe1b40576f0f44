"""The points of a shape that come nearest to a plane, a fixed number of each kind of shape.

A shape's pose is the transform from world coordinates to its frame: the rows of E are its axes in
the world. Rules: the centre of a sphere; both ends of a capsule; of each pair of opposite corners
of a box the lower one; the lowest point of an ellipsoid; of a cylinder the lowest point of either
rim, and two that form an equilateral triangle with it on the lower rim; of a hull its extreme
points in four directions near the downward one. All but those of hulls are MuJoCo's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt as square_root
from typing import NamedTuple

from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.spatial import Matrix, Transform, Vector, cross, dot
from featherlane.scalar import Scalar, maximum, select, sqrt

LEAST = 1e-30  # of a square that is divided by
PARALLEL = 1e-24  # the square of a sine below which a disc and a plane are parallel
TILT = 0.1  # rad, of the directions in which points of a hull are chosen: soles give their corners
CORNERS = ((1.0, 1.0, 1.0), (1.0, 1.0, -1.0), (1.0, -1.0, 1.0), (-1.0, 1.0, 1.0))  # of each pair


class LowPoint(NamedTuple):
    """A point in the world with a ball of some radius around it; along: the direction of its first
    tangent, if the shape has one.
    """

    point: Vector
    radius: float = 0.0
    along: Vector | None = None


def lowest_points(shape: CollisionShape, X: Transform, frame: Matrix) -> list[LowPoint]:
    """Returns the points of a shape nearest to a plane. frame: rows are the plane's normal and two
    tangents.
    """
    return LOWEST[shape.kind](shape, X, frame)


def _sphere(shape: CollisionShape, X: Transform, frame: Matrix) -> list[LowPoint]:
    return [LowPoint(Vector(X.r), shape.size[0])]


def _capsule(shape: CollisionShape, X: Transform, frame: Matrix) -> list[LowPoint]:
    radius, half = shape.size
    axis = Vector(X.E.rows[2])
    return [LowPoint(axis * end + X.r, radius, axis) for end in (half, -half)]


def _box(shape: CollisionShape, X: Transform, frame: Matrix) -> list[LowPoint]:
    sides = [Vector(axis) * half for axis, half in zip(X.E.rows, shape.size, strict=True)]
    heights = [dot(frame[0], side) for side in sides]
    points = []
    for signs in CORNERS:
        corner = _sum(sides, signs)
        is_upper = dot(heights, signs) > 0.0
        points.append(LowPoint(Vector([p + select(is_upper, -c, c)
                                       for p, c in zip(X.r, corner, strict=True)])))  # fmt: skip
    return points


def _sum(vectors: Sequence[Vector], factors: Sequence[Scalar]) -> Vector:
    total = vectors[0] * factors[0]
    for vector, factor in zip(vectors[1:], factors[1:], strict=True):
        total = total + vector * factor
    return total


def _ellipsoid(shape: CollisionShape, X: Transform, frame: Matrix) -> list[LowPoint]:
    """With the halves D and the normal n in its axes, it is at -D^2 n / |D n|."""
    scaled = [half * dot(axis, frame[0]) for axis, half in zip(X.E.rows, shape.size, strict=True)]
    inverse = 1.0 / sqrt(maximum(dot(scaled, scaled), LEAST))
    offset = [-half * x * inverse for half, x in zip(shape.size, scaled, strict=True)]
    return [LowPoint(X.E.to_parent(offset) + X.r)]


def _cylinder(shape: CollisionShape, X: Transform, frame: Matrix) -> list[LowPoint]:
    radius, half = shape.size
    normal, x, z = frame[0], X.E.rows[0], Vector(X.E.rows[2])
    slope = dot(normal, z)
    down = z * select(slope > 0.0, -1.0, 1.0)
    fall = down * dot(normal, down) - normal  # the way down within the disc
    square = dot(fall, fall)
    is_flat = square < PARALLEL
    scale = radius / sqrt(select(is_flat, 1.0, square))
    rim = Vector([select(is_flat, a * radius, b * scale) for a, b in zip(x, fall, strict=True)])
    low, side = down * half + X.r, cross(rim, down) * (0.5 * square_root(3.0))
    back = low - rim * 0.5
    points = low + rim, rim + X.r - down * half, back + side, back - side
    return [LowPoint(point) for point in points]


def _hull(shape: CollisionShape, X: Transform, frame: Matrix) -> list[LowPoint]:
    """Directions that are tilted along both diagonals of the tangents meet each corner of a sole
    whose edges are along the tangents.
    """
    points = [Vector(point) for point in shape.points]
    if len(points) > len(CORNERS):
        down, first, second = (X.E.to_child(axis) for axis in frame)
        tilted = [down + (first * a + second * b) * (TILT / square_root(2.0))
                  for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]  # fmt: skip
        points = [_lowest(points, direction) for direction in tilted]
    return [LowPoint(X.E.to_parent(point) + X.r) for point in points]


def _lowest(points: Sequence[Vector], direction: Vector) -> Vector:
    best, height = points[0], dot(points[0], direction)
    for point in points[1:]:
        other = dot(point, direction)
        is_lower = other < height
        best = Vector([select(is_lower, a, b) for a, b in zip(point, best, strict=True)])
        height = select(is_lower, other, height)
    return best


LOWEST: dict[str, Callable[[CollisionShape, Transform, Matrix], list[LowPoint]]] = {
    "sphere": _sphere,
    "capsule": _capsule,
    "box": _box,
    "ellipsoid": _ellipsoid,
    "cylinder": _cylinder,
    "hull": _hull,
}
