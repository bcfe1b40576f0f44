"""The rows of J that give the velocities of contact points along normals and tangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from featherlane.algorithms.constraints import merged
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.frames import path
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import Transform, Vector, matvec, split
from featherlane.robot.tree import Tree


def contact_rows(tree: Tree, poses: Mapping[int, Transform], contact: ContactPoint) -> list[Row]:
    """Returns the rows of the velocity of `body` relative to `other` at a contact point, along the
    normal and both tangents. Joints that carry both bodies have no entries.
    """
    outer, inner = (path(tree, body) if body != WORLD else [] for body in contact[:2])
    shared = sum(a == b for a, b in zip(outer, inner, strict=False))
    moved = [(1.0, i) for i in outer[shared:]] + [(-1.0, i) for i in inner[shared:]]
    columns = [
        (k, matvec(contact.frame, velocity * sign))
        for sign, i in moved
        for k, velocity in _velocities(tree, poses[i], i, contact.point)
    ]
    return merged(columns, 3)


def _velocities(
    tree: Tree, pose: Transform, body: int, point: Sequence[float]
) -> list[tuple[int, Vector]]:
    """Returns the velocity that each freedom of a body's joint gives to a point of the body."""
    at_point = Transform(pose.E, pose.r - point)
    return [(k, split(at_point.motion_to_parent(S))[1]) for k, S in tree.freedoms[body]]
