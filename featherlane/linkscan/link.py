"""A link with one degree of freedom, as lists of scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from featherlane.linkwise import SIZES, Link
from featherlane.scalar import cos, sin
from featherlane.spatial import Rotation, Transform, Vector

CONSTANTS = sum(SIZES.values())
X, W = 12, 3  # scalars of a transform and of an angular velocity
Scalars = Sequence[Any]


def rows(flat: Scalars) -> tuple[Vector, ...]:
    """Those of a 3 x 3 matrix."""
    return tuple(Vector(flat[i : i + 3]) for i in range(0, len(flat), 3))


def transform(flat: Scalars) -> Transform:
    return Transform(Rotation(rows(flat[:9])), Vector(flat[9:]))


def flat(X: Transform) -> list[Any]:
    return [x for row in X.E.rows for x in row] + [*X.r]


def placed(link: Link, q: Any) -> Transform:
    """Coordinates of the link from its parent's."""
    turn, slide = link.screw * q
    return link.transform(cos(turn), sin(turn), slide)
