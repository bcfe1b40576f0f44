"""The rows of J that give the velocities of contact points along normals and tangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from featherlane.algorithms.constraints import merged
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.frames import path
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import Matrix, Transform, Vector, dot, split
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


def contact_rows(
    tree: Tree, poses: Mapping[int, Transform], contact: ContactPoint, count: int = 3
) -> list[Row]:
    """Returns the rows of the velocity of `body` relative to `other` at a contact point: along the
    normal and both tangents, then angular velocities about them, so many of them. Joints that carry
    both bodies have no entries.
    """
    outer, inner = (path(tree, body) if body != WORLD else [] for body in contact[:2])
    shared = sum(a == b for a, b in zip(outer, inner, strict=False))
    moved = [(1.0, i) for i in outer[shared:]] + [(-1.0, i) for i in inner[shared:]]
    columns = [
        (k, _along(contact.frame, velocity * sign, count))
        for sign, i in moved
        for k, velocity in _velocities(tree, poses[i], i, contact.point)
    ]
    return merged(columns, count)


def _along(frame: Matrix, velocity: Vector, count: int) -> list[Scalar]:
    """Returns the entries of a velocity along the rows of a frame, then about them."""
    angular, linear = split(velocity)
    pairs = [(row, linear) for row in frame] + [(row, angular) for row in frame]
    return [dot(row, x) for row, x in pairs[:count]]


def _velocities(
    tree: Tree, pose: Transform, body: int, point: Sequence[float]
) -> list[tuple[int, Vector]]:
    """Returns the velocity that each freedom of a body's joint gives to a point of the body."""
    at_point = Transform(pose.E, pose.r - point)
    return [(k, Vector(at_point.motion_to_parent(S))) for k, S in tree.freedoms[body]]
