"""The rows of J that give the velocities of contact points along normals and tangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from featherlane.algorithms.constraints import merged
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.frames import path
from featherlane.algorithms.sparse_rows import Row, sparse
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import NO_TURN, ZERO3, Matrix, Transform, Vector, dot, split
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


def contact_rows(
    tree: Tree, poses: Mapping[int, Transform], contact: ContactPoint, count: int = 3
) -> list[Row]:
    """Returns the rows of the velocity of `body` relative to `other` at a contact point: along the
    normal and both tangents, then angular velocities about them, so many of them. Joints that carry
    both bodies have no entries.
    """
    columns = [
        (k, _along(contact.frame, velocity * sign, count))
        for sign, i in _moved(tree, contact)
        for k, velocity in _velocities(tree, poses[i], i, contact.point)
    ]
    return merged(columns, count)


def contact_factors(
    tree: Tree, poses: Mapping[int, Transform], contact: ContactPoint
) -> list[list[Row]]:
    """Returns F and L, whose product F L is the three rows of a contact point's velocity. L gives
    this velocity in the axes of the free root that carries `body`, where the columns of the root
    are 1 and -[p] x, so that most of their entries are 0 or 1. Without a free root it returns none.
    """
    moved = _moved(tree, contact)
    root = moved[0][1] if moved else WORLD
    if root == WORLD or len(tree.freedoms[root]) < 6:
        return []
    axes, columns = poses[root].E, []
    for sign, i in moved:
        if i == root:
            pose = Transform(NO_TURN, axes.to_child(poses[i].r - contact.point))
            linear = [(k, split(x)[1]) for k, x in _velocities(tree, pose, i, ZERO3)]
        else:
            each = _velocities(tree, poses[i], i, contact.point)
            linear = [(k, axes.to_child(split(x)[1])) for k, x in each]
        columns += [(k, x * sign) for k, x in linear]
    return [[sparse(axes.to_child(row)) for row in contact.frame], merged(columns, 3)]


def _moved(tree: Tree, contact: ContactPoint) -> list[tuple[float, int]]:
    """Returns the bodies whose joints move one of both bodies alone, with the sign of that."""
    outer, inner = (path(tree, body) if body != WORLD else [] for body in contact[:2])
    shared = sum(a == b for a, b in zip(outer, inner, strict=False))
    return [(1.0, i) for i in outer[shared:]] + [(-1.0, i) for i in inner[shared:]]


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
