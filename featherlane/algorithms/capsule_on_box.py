"""The two points of a capsule that touch a box, as MuJoCo chooses them.

The first is the point of the capsule's axis that is nearest to the box. The second is where the
axis ends to run along the face or edge that the first one is beside. It follows from the
coordinates, in the axes of the box, along which the first point is outside:

    one: over a face, up to its border;
    two: beside an edge, along it and over that of its faces which the axis is nearer to in
        direction, if it runs towards one of both and away from the other;
    three: beside a corner, along its edge that is within 45 degrees of the axis, or else over the
        face of the two coordinates that change alike, unless all three do.

They are MuJoCo's unless the axis goes through the box and both ends are outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.robot.spatial import Vector, dot
from featherlane.scalar import Scalar, maximum, minimum, select

LEAST = 1e-30  # m or m^2, of what is divided by


def clamped(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """Returns the number between both that is nearest to x."""
    return minimum(maximum(x, low), high)


class SecondPoint(NamedTuple):
    """Whether there is one, 1 or 0, and its parameter."""

    exists: Scalar
    parameter: Scalar


class LineByBox(NamedTuple):
    """The points center + t half, t from -1 to 1, in the axes of a box with half lengths."""

    center: Vector
    half: Vector
    halves: Sequence[float]

    def at(self, t: Scalar) -> list[Scalar]:
        """Returns the point of a parameter."""
        return [x + u * t for x, u in zip(self.center, self.half, strict=True)]

    def slope(self, t: Scalar) -> Scalar:
        """Returns half the slope of the squared distance to the box."""
        at = zip(self.at(t), self.halves, strict=True)
        return dot(self.half, [x - clamped(x, -h, h) for x, h in at])

    def nearest_parameter(self) -> Scalar:
        """Returns the parameter of the point that is nearest to the box; of several the least, but
        that of an end in the box.

        The slope is piecewise linear and never falls, and has its corners where the line crosses
        planes of faces: it is zero between the last corner where it is negative and the next one.
        """
        low, at_low, high, at_high = -1.0, self.slope(-1.0), 1.0, self.slope(1.0)
        end = select(at_low >= 0.0, -1.0, 1.0)  # where the slope does not change its sign
        has_zero = _both(at_low < 0.0, at_high > 0.0)
        for p, d, h in zip(self.center, self.half, self.halves, strict=True):
            is_across = d * d <= LEAST
            inverse = 1.0 / select(is_across, 1.0, d)
            for face in (-h, h):
                t = select(is_across, -1.0, clamped((face - p) * inverse, -1.0, 1.0))
                g = self.slope(t)
                is_low = _both(g < 0.0, t >= low) > 0.5
                is_high = _both(g >= 0.0, t <= high) > 0.5
                low, at_low = select(is_low, t, low), select(is_low, g, at_low)
                high, at_high = select(is_high, t, high), select(is_high, g, at_high)
        rise = maximum(at_high - at_low, LEAST)
        return select(has_zero > 0.5, low - at_low * (high - low) / rise, end)

    def second_point(self, first: Scalar) -> SecondPoint:
        """Returns the second point from the parameter of the first one."""
        x = self.at(first)
        outside = [_flag(_size(a) > h) for a, h in zip(x, self.halves, strict=True)]
        # 1 if the coordinate goes away from the box as the parameter grows, -1 if it comes nearer
        away = [o * _sign(a) * _sign(u) for o, a, u in zip(outside, x, self.half, strict=True)]
        face = Course([1.0 - o for o in outside], select(first >= 1.0, -1.0, 1.0), 1.0)
        edge, corner = self._along_edge(outside, away), self._from_corner(away)
        count = sum(outside)
        of_state = lambda a, b, c: select(count > 2.5, c, select(count > 1.5, b, a))
        courses = zip(face.bounds, edge.bounds, corner.bounds, strict=True)
        bounds, way = (
            [of_state(*each) for each in courses],
            of_state(face.way, edge.way, corner.way),
        )
        length = minimum(1.0 - way * first, self._length(x, bounds, way))
        exists = of_state(_flag(count > 0.5), edge.exists, corner.exists)
        return SecondPoint(exists, first + way * length)

    def _along_edge(self, outside: Scalars, away: Scalars) -> Course:
        """Returns the course of a line beside an edge."""
        sizes = [o * _size(u) for o, u in zip(outside, self.half, strict=True)]
        most = maximum(maximum(sizes[0], sizes[1]), sizes[2])
        over = [o * _flag(size >= most) for o, size in zip(outside, sizes, strict=True)]
        bounds = [1.0 - o + x for o, x in zip(outside, over, strict=True)]
        total = sum(away)
        return Course(bounds, -dot(over, away), _flag(total * total < 0.5))

    def _from_corner(self, away: Scalars) -> Course:
        """Returns the course of a line beside a corner."""
        total = sum(away)
        odd = [_flag(a * total < 0.0) for a in away]
        along = dot(odd, [u * u for u in self.half])
        is_edge = along > 0.5 * dot(self.half, self.half)
        bounds = [select(is_edge, o, 1.0 - o) for o in odd]
        return Course(bounds, select(is_edge, total, -total), _flag(total * total < 4.0))

    def _length(self, x: Scalars, bounds: Scalars, way: Scalar) -> Scalar:
        """Returns the length of parameters to the nearest border of the box, of coordinates that
        bound.
        """
        length: Scalar = 2.0
        for a, u, h, bound in zip(x, self.half, self.halves, bounds, strict=True):
            room = h - way * _sign(u) * clamped(a, -h, h)
            length = select(bound > 0.5, minimum(length, room / maximum(_size(u), LEAST)), length)
        return length


class Course(NamedTuple):
    """A line along a box: 1 for coordinates whose borders bound it, and else 0; the sign with
    which its parameter changes; and whether there is any, 1 or 0.
    """

    bounds: list[Scalar]
    way: Scalar
    exists: Scalar


def _flag(condition: Scalar) -> Scalar:
    return select(condition, 1.0, 0.0)


def _both(a: Scalar, b: Scalar) -> Scalar:
    return _flag(a) * _flag(b)


def _size(x: Scalar) -> Scalar:
    return maximum(x, -x)


def _sign(x: Scalar) -> Scalar:
    """Returns 1, or -1 for numbers that are not positive."""
    return select(x > 0.0, 1.0, -1.0)
