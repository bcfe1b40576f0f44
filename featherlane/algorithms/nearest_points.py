"""Nearest points of spheres, capsules and boxes: their gap, and the direction between them.

Reference: Ericson, Real-Time Collision Detection (2005), sections 5.1.2, 5.1.3 and 5.1.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.capsule_on_box import LineByBox, clamped
from featherlane.robot.spatial import Transform, Vector, cross, dot, unit
from featherlane.scalar import Scalar, select, sqrt

LEAST = 1e-30  # m^2, of a distance whose direction counts
CONCENTRIC = 1e-24  # m^2, of centres on two axes that meet: rounding leaves some 1e-16 m
PARALLEL = 1e-8  # MuJoCo's square of the sine of an angle below which segments are parallel
APART = 10.0  # m, the gap of a contact that a pair does not have in a state
FORWARD, UP = unit(0, 3), unit(2, 3)


class RoundedSegment(NamedTuple):
    """The points within a radius of center + t half, t from -1 to 1; half None: of a sphere."""

    center: Vector
    half: Vector | None
    radius: float


class Nearest(NamedTuple):
    """The signed distance, the unit vector from the other shape to this one, and the point midway
    between the surfaces.
    """

    gap: Scalar
    normal: Vector
    point: Vector


def balls(
    point: Vector, radius: float, other: Vector, other_radius: float, usual: Vector = UP
) -> Nearest:
    """Returns the nearest points of two balls. usual: the normal of concentric ones."""
    way = point - other
    square = dot(way, way)
    is_zero = square <= CONCENTRIC
    distance = sqrt(select(is_zero, 1.0, square))
    inverse = 1.0 / distance
    normal = Vector([select(is_zero, u, x * inverse) for u, x in zip(usual, way, strict=True)])
    gap = select(is_zero, 0.0, distance) - (radius + other_radius)
    return Nearest(gap, normal, point - normal * (radius + 0.5 * gap))


def segments(a: RoundedSegment, b: RoundedSegment) -> list[Nearest]:
    """Returns the nearest points of a segment with a radius to another. Of two capsules there are
    two, as in MuJoCo 4: if they are parallel, those at both ends of the part of `b` beside `a`;
    else the gap of the second is `APART`. Where axes cross, the normal is that of their plane.
    """
    usual = _across(a.half, b.half)
    contact = lambda s, t: balls(_at(a, s), a.radius, _at(b, t), b.radius, usual)
    nearest = _parameters(a, b)
    if a.half is None or b.half is None:
        return [contact(*nearest)]
    across = cross(a.half, b.half)
    is_parallel = dot(across, across) < PARALLEL * dot(a.half, a.half) * dot(b.half, b.half)
    points = []
    for end in (1.0, -1.0):
        t = _nearest_parameter(b, _at(a, end))
        is_beside = t * t < 1.0  # else an end of `b` is, whose nearest point of `a` counts
        s = select(is_beside, end, _nearest_parameter(a, _at(b, t)))
        pair = zip((s, t), nearest, strict=True)
        points.append(contact(*[select(is_parallel, *x) for x in pair]))
    first, second = points
    return [first, second._replace(gap=select(is_parallel, second.gap, APART))]


def _across(a: Vector | None, b: Vector | None) -> Vector:
    """Returns the unit vector along b x a, or along x if they are parallel."""
    if a is None or b is None:
        return UP
    across = cross(b, a)
    square = dot(across, across)
    is_parallel = square <= PARALLEL * dot(a, a) * dot(b, b)
    inverse = 1.0 / sqrt(select(is_parallel, 1.0, square))
    return Vector(
        [select(is_parallel, u, x * inverse) for u, x in zip(FORWARD, across, strict=True)]
    )


def _at(segment: RoundedSegment, t: Scalar) -> Vector:
    return segment.center if segment.half is None else segment.center + segment.half * t


def _parameters(a: RoundedSegment, b: RoundedSegment) -> tuple[Scalar, Scalar]:
    """Returns the parameters of the nearest points of two segments, section 5.1.9."""
    way = a.center - b.center
    if a.half is None and b.half is None:
        return 0.0, 0.0
    if b.half is None:
        return _nearest_parameter(a, b.center), 0.0
    if a.half is None:
        return 0.0, _nearest_parameter(b, a.center)
    aa, ab, bb = dot(a.half, a.half), dot(a.half, b.half), dot(b.half, b.half)
    aw, bw = dot(a.half, way), dot(b.half, way)
    across = cross(a.half, b.half)
    determinant = dot(across, across)  # aa bb - ab^2, without cancellation
    is_parallel = determinant <= PARALLEL * aa * bb
    s = (ab * bw - bb * aw) / select(is_parallel, 1.0, determinant)
    s = select(is_parallel, 0.0, clamped(s, -1.0, 1.0))
    t = clamped((ab * s + bw) / bb, -1.0, 1.0)
    return clamped((ab * t - aw) / aa, -1.0, 1.0), t


def _nearest_parameter(segment: RoundedSegment, point: Vector) -> Scalar:
    half = segment.half
    assert half is not None
    return clamped(dot(half, point - segment.center) / dot(half, half), -1.0, 1.0)


def ball_and_box(point: Vector, radius: float, halves: Sequence[float], X: Transform) -> Nearest:
    """Returns the nearest points of a ball and a box of some half lengths at a pose. A centre
    inside leaves by the nearest face.
    """
    x = X.E.to_child(point - X.r)
    way = [a - clamped(a, -half, half) for a, half in zip(x, halves, strict=True)]
    square = dot(way, way)
    is_inside = square <= LEAST
    distance = sqrt(select(is_inside, 1.0, square))
    inverse = 1.0 / distance
    depth, outward = _nearest_face(x, halves)
    normal = [select(is_inside, u, w * inverse) for u, w in zip(outward, way, strict=True)]
    gap = select(is_inside, -depth, distance) - radius
    in_world = X.E.to_parent(normal)
    return Nearest(gap, in_world, point - in_world * (radius + 0.5 * gap))


def _nearest_face(x: Sequence[Scalar], halves: Sequence[float]) -> tuple[Scalar, list[Scalar]]:
    """Returns the depth of a point inside a box, and the normal of the nearest face."""
    signs = [select(a < 0.0, -1.0, 1.0) for a in x]
    depths = [half - a * sign for half, a, sign in zip(halves, x, signs, strict=True)]
    depth, normal = depths[0], [signs[0], 0.0, 0.0]
    for k in (1, 2):
        is_nearer = depths[k] < depth
        axis = [signs[k] if i == k else 0.0 for i in range(3)]
        normal = [select(is_nearer, a, b) for a, b in zip(axis, normal, strict=True)]
        depth = select(is_nearer, depths[k], depth)
    return depth, normal


def segment_and_box(a: RoundedSegment, halves: Sequence[float], X: Transform) -> list[Nearest]:
    """Returns the nearest points of a box and a sphere, or of a box and two points on the axis of a
    capsule, see `capsule_on_box.py`. The gap of a second point that there is not is `APART`.
    """
    if a.half is None:
        return [ball_and_box(a.center, a.radius, halves, X)]
    line = LineByBox(X.E.to_child(a.center - X.r), X.E.to_child(a.half), halves)
    first = line.nearest_parameter()
    second = line.second_point(first)
    near, far = (ball_and_box(_at(a, t), a.radius, halves, X) for t in (first, second.parameter))
    return [near, far._replace(gap=select(second.exists > 0.5, far.gap, APART))]
