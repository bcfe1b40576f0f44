"""Nearest points of spheres, capsules and boxes: their gap, and the direction between them.

Reference: Ericson, Real-Time Collision Detection (2005), sections 5.1.2, 5.1.3 and 5.1.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.robot.spatial import Transform, Vector, cross, dot, unit
from featherlane.scalar import Scalar, maximum, minimum, select, sqrt

LEAST = 1e-30  # m^2, of a distance whose direction counts
CONCENTRIC = 1e-24  # m^2, of centres on two axes that meet: rounding leaves some 1e-16 m
PARALLEL = 1e-12  # the square of the sine of an angle below which segments are parallel
UP = unit(2, 3)


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


def clamped(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return minimum(maximum(x, low), high)


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


def segments(a: RoundedSegment, b: RoundedSegment) -> Nearest:
    """Returns the nearest points of a segment with a radius to another; of parallel ones those
    nearest to the middle of `a`. Where they cross, the normal is that of their plane, as in MuJoCo.
    """
    s, t = _parameters(a, b)
    return balls(_at(a, s), a.radius, _at(b, t), b.radius, _across(a.half, b.half))


def _across(a: Vector | None, b: Vector | None) -> Vector:
    """Returns the unit vector along b x a, or upward if they are parallel."""
    if a is None or b is None:
        return UP
    across = cross(b, a)
    square = dot(across, across)
    is_parallel = square <= PARALLEL * dot(a, a) * dot(b, b)
    inverse = 1.0 / sqrt(select(is_parallel, 1.0, square))
    return Vector([select(is_parallel, u, x * inverse) for u, x in zip(UP, across, strict=True)])


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
    """Returns the nearest points of a box and a sphere, or of a box and both ends of a capsule and
    the point of its axis that is nearest to the box.
    """
    if a.half is None:
        return [ball_and_box(a.center, a.radius, halves, X)]
    t = _parameter_nearest_to_box(a, a.half, halves, X)
    return [ball_and_box(_at(a, end), a.radius, halves, X) for end in (1.0, -1.0, t)]


def _parameter_nearest_to_box(
    a: RoundedSegment, half: Vector, halves: Sequence[float], X: Transform
) -> Scalar:
    """Returns the parameter of the point of a segment that is nearest to a box.

    The slope of the squared distance is piecewise linear and never falls, and has its corners
    where the line crosses planes of faces: it is zero between the last corner where it is negative
    and the first where it is positive.
    """
    x, u = X.E.to_child(a.center - X.r), X.E.to_child(half)

    def slope(t: Scalar) -> Scalar:
        at = [p + d * t for p, d in zip(x, u, strict=True)]
        return dot(u, [p - clamped(p, -h, h) for p, h in zip(at, halves, strict=True)])

    low, at_low, high, at_high = -1.0, slope(-1.0), 1.0, slope(1.0)
    beyond = select(at_low >= 0.0, -1.0, 1.0)  # the end where the slope does not change its sign
    has_zero = select(at_low < 0.0, 1.0, 0.0) * select(at_high > 0.0, 1.0, 0.0)
    for p, d, h in zip(x, u, halves, strict=True):
        is_across = d * d <= LEAST
        inverse = 1.0 / select(is_across, 1.0, d)
        for face in (-h, h):
            t = select(is_across, -1.0, clamped((face - p) * inverse, -1.0, 1.0))
            g = slope(t)
            is_low = select(g <= 0.0, 1.0, 0.0) * select(t >= low, 1.0, 0.0) > 0.5
            is_high = select(g >= 0.0, 1.0, 0.0) * select(t <= high, 1.0, 0.0) > 0.5
            low, at_low = select(is_low, t, low), select(is_low, g, at_low)
            high, at_high = select(is_high, t, high), select(is_high, g, at_high)
    rise = at_high - at_low
    is_flat = rise <= LEAST
    between = low - at_low * (high - low) / select(is_flat, 1.0, rise)
    zero = select(is_flat, 0.5 * (low + high), between)
    return select(has_zero > 0.5, zero, beyond)
