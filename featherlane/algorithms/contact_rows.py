"""The rows of J that give the velocities of contact points along normals and tangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.algorithms.constraints import merged
from featherlane.algorithms.contact_points import ContactPoint
from featherlane.algorithms.frames import path
from featherlane.algorithms.sparse_rows import Row, sparse
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import (
    NO_TURN,
    ZERO3,
    Matrix,
    Rotation,
    Transform,
    Vector,
    cross,
    dot,
    split,
)
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


class Patch(NamedTuple):
    """The contact points of a pair of bodies, whose velocities are products of the same rows.

    axes: of these velocities, those of the free root that carries the bodies, in which the columns
    of the root are 1 and -[r] x, so that most of their entries are 0 or 1. rows: of the velocity of
    one body relative to the other at the origin, angular and linear; of a single point, which is
    the origin, the linear one.
    """

    axes: Rotation
    origin: Vector
    rows: list[Row]

    def factors(self, contact: ContactPoint, count: int) -> list[list[Row]]:
        """Returns matrices whose product is the `contact_rows` of a contact; the last one is
        `rows`.
        """
        frame = [sparse(self.axes.to_child(row)) for row in contact.frame]
        if len(self.rows) == 3:
            return [frame[:count], self.rows]
        linear = [{3 + k: x for k, x in row.items()} for row in frame]
        arm = self.axes.to_child(contact.point - self.origin)
        turned = [{**sparse(cross(arm, e)), 3 + i: 1.0} for i, e in enumerate(NO_TURN.rows)]
        at_point: list[Row] = [*({i: 1.0} for i in range(3)), *turned]
        return [[*linear, *frame][:count], at_point, self.rows]


def patches(
    tree: Tree, poses: Mapping[int, Transform], contacts: Sequence[ContactPoint]
) -> dict[tuple[int, int], Patch]:
    """Returns the patches of pairs of bodies: of those with several contact points, or with a
    contact without rows of angular velocities and a free root.
    """
    of_bodies: dict[tuple[int, int], list[ContactPoint]] = {}
    for contact in contacts:
        of_bodies.setdefault(contact[:2], []).append(contact)
    result = {}
    for bodies, points in of_bodies.items():
        moved = _moved(tree, points[0])
        root = moved[0][1] if moved else WORLD
        free = root != WORLD and len(tree.freedoms[root]) == 6
        if len(points) > 1 or (free and points[0].pair.numbers.condim <= 3):
            result[bodies] = _patch(tree, poses, points, moved, root if free else WORLD)
    return result


def _patch(
    tree: Tree,
    poses: Mapping[int, Transform],
    points: Sequence[ContactPoint],
    moved: Sequence[tuple[float, int]],
    root: int,
) -> Patch:
    """Returns the patch of some points, in the axes of a root or of the world."""
    axes = NO_TURN if root == WORLD else poses[root].E
    single = len(points) == 1
    origin, columns = points[0].point if single else Vector(poses[points[0].body].r), []
    for sign, i in moved:
        if i == root:
            pose = Transform(NO_TURN, axes.to_child(poses[i].r - origin))
            each = _velocities(tree, pose, i, ZERO3)
        else:
            each = [(k, _turned(axes, x)) for k, x in _velocities(tree, poses[i], i, origin)]
        columns += [(k, velocity * sign) for k, velocity in each]
    rows = merged(columns, 6)
    return Patch(axes, origin, rows[3:] if single else rows)


def _turned(axes: Rotation, velocity: Vector) -> Vector:
    """Returns the halves of a velocity in turned axes."""
    return Vector([x for half in split(velocity) for x in axes.to_child(half)])


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
