"""Contact points of shapes with the ground and with one another, in the world, as traced scalars.

Each pair of shapes has a fixed number of points, whether they touch or not, so that states in lanes
stay together: docs/ground.md has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from featherlane.algorithms.height_fields import Heights, height_and_slopes
from featherlane.algorithms.lowest_points import LowPoint, lowest_points
from featherlane.algorithms.nearest_points import Nearest, RoundedSegment, segment_and_box, segments
from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.ground import HeightField
from featherlane.robot.parts import WORLD, Frame, Placement
from featherlane.robot.shape_pairs import ShapePair
from featherlane.robot.spatial import (
    NO_TURN,
    ZERO3,
    Matrix,
    Transform,
    Vector,
    cross,
    dot,
)
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, maximum, select, sqrt

DEEP = 1.0  # m, the longest way from the surface of a shape up to a contact within the ground
LEAST = 1e-24  # of the square of a sine: a direction that is parallel to the normal is no tangent


class ContactPoint(NamedTuple):
    """A point at which a body of the tree may touch another one, or the ground (WORLD).

    point: in the world, midway between the surfaces. frame: rows are the normal, which points from
    `other` to `body` and so pushes the body away, and two tangents, in the axes of the world. gap:
    the distance of the surfaces, m, negative where they penetrate. friction: sliding; torsional, m;
    rolling, m. pair: the shapes, and the other numbers of their contact.

    In MuJoCo the normal points from the first geom to the second one. It is the same here, but for
    spheres and capsules on boxes, where it is the opposite one.
    """

    body: int
    other: int
    point: Vector
    frame: Matrix
    gap: Scalar
    friction: Sequence[Scalar]
    pair: ShapePair


def contact_points(
    tree: Tree,
    poses: Mapping[int, Transform],
    pairs: Sequence[ShapePair],
    heights: Heights = (),
) -> list[ContactPoint]:
    """Returns the contact points of pairs of shapes, in their order.

    poses: the transforms from world coordinates to bodies of the tree, as `frames.placements` gives
    them. heights: of the height field whose heights are inputs, (nx, ny).
    """
    poses = {**poses, WORLD: Transform(NO_TURN, ZERO3)}
    placed: dict[tuple[int, Placement], tuple[int, Transform]] = {}
    for shape in (s for pair in pairs for s in (pair.shape, pair.other)):
        if isinstance(shape, CollisionShape) and _place(shape) not in placed:
            at = tree.point(Frame(shape.name, *_place(shape)))
            placed[_place(shape)] = at.body, at.X @ poses[at.body]
    points = []
    for pair in pairs:
        body, X = placed[_place(pair.shape)]
        if isinstance(pair.other, HeightField):
            other, nearest = WORLD, _on_heights(pair.shape, X, pair.other, heights)
        else:
            other, Y = placed[_place(pair.other)]
            nearest = _on_plane(pair.shape, X, Y) if pair.other.kind == "plane" else (
                (n, None) for n in _of_shapes(pair, X, Y)
            )  # fmt: skip
        points += [
            ContactPoint(body, other, n.point, tangents(n.normal, along), n.gap,
                         pair.numbers.three, pair)
            for n, along in nearest
        ]  # fmt: skip
    return points


def _place(shape: CollisionShape) -> tuple[int, Placement]:
    return shape.body, shape.placement


Points = Iterator[tuple[Nearest, Vector | None]]  # with the direction of the first tangent


def _on_plane(shape: CollisionShape, X: Transform, plane: Transform) -> Points:
    normal = Vector(plane.E.rows[2])
    level = dot(normal, plane.r)
    for low in lowest_points(shape, X, tangents(normal)):
        gap = dot(normal, low.point) - (level + low.radius)
        yield _midway(low, normal, gap), low.along


def _midway(low: LowPoint, normal: Vector, gap: Scalar) -> Nearest:
    """Returns a contact midway between the surfaces, but at most `DEEP` above that of the shape:
    with a lever arm of kilometres, its block of S would be rounding errors.
    """
    offset = maximum(0.5 * gap, -DEEP) + low.radius
    return Nearest(gap, normal, low.point - normal * offset)


def _on_heights(shape: CollisionShape, X: Transform, field: HeightField, inputs: Heights) -> Points:
    """Yields the points of a shape that are lowest along the normal below its middle, above the
    tangent plane of the field below each.
    """
    _, normal = _below(_middle(shape, X), field, inputs)
    for low in lowest_points(shape, X, tangents(normal)):
        height, normal = _below(low.point, field, inputs)
        gap = (low.point[2] - height) * normal[2] - low.radius
        yield _midway(low, normal, gap), low.along


def _middle(shape: CollisionShape, X: Transform) -> Vector:
    """Returns the origin of a shape, or the mean of the points of a hull."""
    if not shape.points:
        return Vector(X.r)
    mean = [sum(x) / len(shape.points) for x in zip(*shape.points, strict=True)]
    return X.E.to_parent(mean) + X.r


def _below(point: Vector, field: HeightField, inputs: Heights) -> tuple[Scalar, Vector]:
    """Returns the height and the normal of a field below a point."""
    heights = inputs if field.are_inputs else field.heights
    height, by_x, by_y = height_and_slopes(field, heights, point[0], point[1])
    upward = 1.0 / sqrt(by_x * by_x + by_y * by_y + 1.0)
    return height, Vector((-by_x * upward, -by_y * upward, upward))


def _of_shapes(pair: ShapePair, X: Transform, Y: Transform) -> list[Nearest]:
    """Returns the nearest points of a sphere or capsule and a sphere, capsule or box."""
    segment, other = _segment(pair.shape, X), pair.other
    assert isinstance(other, CollisionShape)
    if other.kind == "box":
        return segment_and_box(segment, other.size, Y)
    return segments(segment, _segment(other, Y))


def _segment(shape: CollisionShape, X: Transform) -> RoundedSegment:
    half = shape.size[1] if shape.kind == "capsule" else 0.0
    axis = Vector(X.E.rows[2]) * half if half else None
    return RoundedSegment(Vector(X.r), axis, shape.size[0])


def tangents(normal: Vector, along: Vector | None = None) -> Matrix:
    """Returns a normal and two tangents as rows, as MuJoCo chooses them: the first along a
    direction, or along y, or z where the normal is nearer to y than 60 degrees.
    """
    usual = _usual_direction(normal)
    first = usual - normal * dot(normal, usual)
    first = first * (1.0 / sqrt(dot(first, first)))
    if along is not None:
        other = along - normal * dot(normal, along)
        square = dot(other, other)
        is_parallel = square < LEAST
        inverse = 1.0 / sqrt(select(is_parallel, 1.0, square))
        first = Vector([select(is_parallel, a, b * inverse)
                        for a, b in zip(first, other, strict=True)])  # fmt: skip
    return normal, first, cross(normal, first)


def _usual_direction(normal: Vector) -> Vector:
    is_near = maximum(normal[1], -normal[1]) >= 0.5
    return Vector((0.0, select(is_near, 0.0, 1.0), select(is_near, 1.0, 0.0)))
