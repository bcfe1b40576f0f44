"""Clearances of a robot that spheres cover, and the push that leads it out of obstacles.

Obstacles are rows of scalars: spheres [x y z r], capsules [x0 y0 z0 x1 y1 z1 r] and planes
[nx ny nz d], as in `distances`. Spheres on the ground are compared with moving ones alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.distances import (
    from_capsule,
    not_negative,
    sphere_capsule,
    sphere_plane,
    sphere_sphere,
)
from featherlane.algorithms.frames import path, placements
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import ZERO3, ZERO6, Transform, Vector, cross, dot, spatial
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, is_zero, minimum, select, sqrt

Obstacles = Mapping[str, Sequence[Scalars]]  # "spheres", "capsules" and "planes"
BAND = 2e-3  # m^2 beyond the square of the least distance, in which obstacles push already
LENGTH = 0.1  # m: a usual distance of centres that touch, by which overlaps m^2 become lengths
WEIGHT = 0.5  # of lengths of overlap beside those of errors of position; 0.25 to 2 do alike
LEAST = 1e-20  # m^4: keeps the direction finite where nothing overlaps
DISTANCES = {"spheres": sphere_sphere, "capsules": sphere_capsule, "planes": sphere_plane}


class CoverSphere(NamedTuple):
    """A sphere on a body of a tree: its centre in the axes of the body there, and its radius."""

    body: int
    center: Vector
    radius: float


class Cover(NamedTuple):
    """The spheres that cover a robot, and the pairs of them that keep clear of each other."""

    spheres: tuple[CoverSphere, ...]
    pairs: tuple[tuple[int, int], ...]

    @property
    def moving(self) -> list[int]:
        """The numbers of spheres that joints move."""
        return [i for i, sphere in enumerate(self.spheres) if sphere.body != WORLD]


def _placed(tree: Tree, q: Scalars, cover: Cover) -> tuple[dict[int, Transform], list[Vector]]:
    """Returns the transforms from world coordinates to those of all bodies up to those with
    spheres, and the centres of the spheres in the world.
    """
    bodies = {i for sphere in cover.spheres for i in path(tree, sphere.body)}
    X = placements(tree, q, sorted(bodies))
    return X, [X[s.body].E.to_parent(s.center) + X[s.body].r for s in cover.spheres]


def clearances(tree: Tree, q: Scalars, cover: Cover, obstacles: Obstacles) -> list[Scalar]:
    """Returns the signed distances of each moving sphere to all obstacles, then those of pairs."""
    _, centers = _placed(tree, q, cover)
    spheres = [[*c, s.radius] for c, s in zip(centers, cover.spheres, strict=True)]
    apart = [
        DISTANCES[kind](spheres[i], row)
        for i in cover.moving
        for kind, rows in obstacles.items()
        for row in rows
    ]
    return apart + [sphere_sphere(spheres[i], spheres[j]) for i, j in cover.pairs]


def least_clearance(tree: Tree, q: Scalars, cover: Cover, obstacles: Obstacles) -> Scalar:
    """Returns the least of the `clearances`."""
    return reduce(minimum, clearances(tree, q, cover, obstacles))


class Push(NamedTuple):
    """A push out of obstacles. missing: about the clearance that is missing to the margin where it
    is small, in m, and 0 exactly where none is; size: of all overlaps, about in m, with those of a
    band around the obstacles; rate: (nv), by which size falls as coordinates grow.
    """

    missing: Scalar
    size: Scalar
    rate: list[Scalar]


def _overlap(sphere: Scalars, kind: str, obstacle: Scalars) -> tuple[Scalar, Vector]:
    """Returns the overlap of a sphere and an obstacle, m^2, 0 outside of the band, and half the
    slope by which it falls as the centre moves.

    It is the square of the least distance of the centres, plus BAND, minus the square of the
    distance: this has no root to compute, and no pole in the middle.
    """
    point, radius = sphere[:3], sphere[3]
    if kind == "planes":
        depth = obstacle[3] + radius - dot(obstacle[:3], point)
        return not_negative(2 * LENGTH * depth + BAND), Vector(obstacle[:3]) * LENGTH
    away = from_capsule(point, obstacle) if kind == "capsules" else Vector(point) - obstacle[:3]
    reach = radius + obstacle[-1]
    return not_negative(reach * reach + BAND - dot(away, away)), away


def _larger(x: Scalar, y: Scalar) -> Scalar:
    """Returns the larger of two numbers from 0 on, x where one is NaN: one instruction, where
    `maximum` takes four.
    """
    return y if is_zero(x) else select(x < y, y, x)


def _overlaps(
    cover: Cover, centers: Sequence[Vector], obstacles: Obstacles, margin: Scalar
) -> Iterator[tuple[int, int | None, Scalar, Vector]]:
    """Yields for each sphere and obstacle, and each pair of spheres, the number of the sphere, of
    the other one if there is one, and their overlap with half its slope.
    """
    around = [(kind, row) for kind, rows in obstacles.items() for row in rows]
    for i, sphere in enumerate(cover.spheres):
        wider = [*centers[i], sphere.radius + margin]
        for kind, row in around if sphere.body != WORLD else []:
            yield i, None, *_overlap(wider, kind, row)
        for j in (second for first, second in cover.pairs if first == i):
            other = [*centers[j], cover.spheres[j].radius]
            yield i, j, *_overlap(wider, "spheres", other)


def push(tree: Tree, q: Scalars, cover: Cover, obstacles: Obstacles, margin: Scalar) -> Push:
    """Returns the push at q that leads to clearances of a margin, m. Newton's steps for the size,
    the root of the sum of all squares, need no row for each overlap.
    """
    X, centers = _placed(tree, q, cover)
    forces = [ZERO3] * len(centers)
    squares, most = ([0.0] * len(centers) for _ in range(2))
    # Sums for each sphere, grown overlap by overlap: with all overlaps first, and sums at the end,
    # steps take a third longer, since numbers leave the registers meanwhile
    for i, j, overlap, slope in _overlaps(cover, centers, obstacles, margin):
        forces[i] = forces[i] + slope * overlap
        if j is not None:
            forces[j] = forces[j] - slope * overlap
        squares[i] = squares[i] + overlap * overlap
        most[i] = _larger(most[i], overlap)
    size, scale = sqrt(reduce(add, squares) + LEAST), 0.5 / LENGTH
    ratio = 2 * WEIGHT * scale / size
    rate = [ratio * x for x in _joint_forces(tree, X, cover, centers, forces)]
    missing = scale * not_negative(reduce(_larger, most) - BAND)
    # NaN of any overlap is in the sum of squares
    return Push(select(size > 0.0, missing, size), WEIGHT * scale * size, rate)


def _joint_forces(
    tree: Tree,
    X: Mapping[int, Transform],
    cover: Cover,
    centers: Sequence[Vector],
    forces: Sequence[Vector],
) -> list[Scalar]:
    """Returns the joint forces (nv) of forces on the centres of spheres, both in world axes. X: the
    transforms from world coordinates to those of bodies.
    """
    wrenches = dict.fromkeys(X, ZERO6)
    for sphere, center, force in zip(cover.spheres, centers, forces, strict=True):
        moment = cross(center, force)
        wrenches[sphere.body] = wrenches[sphere.body] + spatial(moment, force)
    tau: list[Scalar] = [0.0] * tree.nv
    for i in sorted(X.keys() - {WORLD}, reverse=True):
        for k, S in tree.freedoms[i]:
            tau[k] = tau[k] + dot(X[i].motion_to_parent(S), wrenches[i])
        parent = tree.parent[i]
        wrenches[parent] = wrenches[parent] + wrenches[i]
    return tau
