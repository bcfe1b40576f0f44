"""The robot as the algorithms read it: a tree of bodies on joints of constant S, in any scalar.

A `Tree` differs from the `Model` that it is made of in what makes the numbers that algorithms meet
0 or 1 more often, and changes no input or output: joint frames are turned so that an axis is z, a
universal joint is two turns with a body of no mass between, a mimic joint moves with the
coordinates of its leader, and the mass that a joint does not move is counted with its parent. Its
constants are floats, or, where `parameters` gives them, scalars of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from featherlane.robot.joints import JointType
from featherlane.robot.model import WORLD, Frame
from featherlane.robot.spatial import (
    ZERO6,
    Inertia,
    Matrix,
    Rotation,
    Transform,
    Vector,
    matmul,
    matvec,
    transpose,
)
from featherlane.scalar import Scalar, call

ANGLE_NOISE = 1e-11  # a right angle printed with eleven digits is a right angle
RELATIVE_NOISE = 1e-14


def _quiet(x: Any) -> np.ndarray:
    """Zeros that the file's rounding has hidden are zeros again."""
    x = np.array(x, float)
    return np.where(np.abs(x) < ANGLE_NOISE, 0.0, x)


def _unit_rows(R: Any) -> np.ndarray:
    """The same for the rows of a rotation, or one of them: what stands alone in its row is 1 or -1.

    Of two rounded angles a small entry may be a true product: only a rotation is a result.
    """
    R = np.array(R, float)
    for noise in (ANGLE_NOISE, RELATIVE_NOISE):
        Q = np.where(np.abs(R) < noise, 0.0, R)
        Q = np.where(np.count_nonzero(Q, axis=-1, keepdims=True) == 1, np.sign(Q), Q)
        rows = np.atleast_2d(Q)
        if np.abs(rows @ rows.T - np.eye(len(rows))).max() < RELATIVE_NOISE:
            return Q
    return R


class Source(NamedTuple):
    """Where a coordinate of a joint comes from: multiplier q[k] + offset."""

    k: int
    multiplier: float = 1.0
    offset: float = 0.0


class Freedom(NamedTuple):
    """An entry of v, and the motion that it makes of its body, in the body's axes."""

    k: int
    S: Vector


class Link(NamedTuple):
    """A body and its joint, as the steps take them that many links have in common: what `Tree` has
    of a body, without numbers of bodies and coordinates.
    """

    kind: JointType
    ratios: tuple[tuple[float, float], ...]  # multiplier and offset of each source
    X_tree: Transform
    inertia: Inertia
    S: tuple[Vector, ...]
    armature: tuple[Scalar, ...]  # these three for each degree of freedom
    damping: tuple[Scalar, ...]
    frictions: tuple[Sequence[tuple[Scalar, float]], ...]
    load: Scalar  # the mass of the body and all beyond it


def joint_transform(link: Link, q: Sequence[Scalar]) -> Transform:
    """Coordinates of a body from those of its parent, at the entries of q that its joint reads."""
    own = [multiplier * x + offset for (multiplier, offset), x in zip(link.ratios, q, strict=True)]
    return link.kind.transform(own) @ link.X_tree


class Point(NamedTuple):
    """A frame on a body of a tree: coordinates of the frame from those of the body."""

    body: int
    X: Transform


@dataclass(frozen=True, eq=False)
class Tree:
    """Bodies and joints, parents first; one entry for each body, unless said otherwise."""

    nv: int
    gravity: Vector
    parent: tuple[int, ...]
    types: tuple[JointType, ...]
    sources: tuple[tuple[Source, ...], ...]
    freedoms: tuple[tuple[Freedom, ...], ...]
    turns: tuple[Rotation, ...]  # a body's axes here from the axes that the user knows
    X_tree: tuple[Transform, ...]  # the constant part of each joint's transform
    inertias: tuple[Inertia, ...]
    ground: Inertia  # what of the moving mass rides on the ground
    carriers: tuple[int, ...]  # for each body of the model its body here
    armature: Sequence[Scalar]  # these three for each entry of v
    damping: Sequence[Scalar]
    frictions: Sequence[Sequence[tuple[Scalar, float]]]
    """Friction f v / sqrt(v^2 + v0^2) as pairs (f, v0): one of each joint with this entry of v."""
    base_velocity: Vector = ZERO6  # of the ground, [angular; linear] in its own axes
    base_acceleration: Vector = ZERO6
    """The same, the linear half being that of its origin as a point in space."""

    @property
    def nbodies(self) -> int:
        return len(self.parent)

    def joint_transform(self, i: int, q: Sequence[Scalar]) -> Transform:
        """Coordinates of body i from those of its parent, at the robot's q (the book's iXp)."""
        return call(joint_transform, self.links[i], [q[s.k] for s in self.sources[i]])

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The bodies with their joints. Of a coordinate that joints share each has the physics."""
        return tuple(
            Link(
                self.types[i],
                tuple((s.multiplier, s.offset) for s in self.sources[i]),
                self.X_tree[i],
                self.inertias[i],
                tuple(S for _, S in own),
                tuple(self.armature[k] for k, _ in own),
                tuple(self.damping[k] for k, _ in own),
                tuple(tuple(self.frictions[k]) for k, _ in own),
                self.loads[i],
            )
            for i, own in enumerate(self.freedoms)
        )

    @cached_property
    def loads(self) -> tuple[Scalar, ...]:
        """The mass that each joint carries."""
        loads = [inertia.m for inertia in self.inertias]
        for i in reversed(range(self.nbodies)):
            if (p := self.parent[i]) != WORLD:
                loads[p] = loads[p] + loads[i]
        return tuple(loads)

    def point(self, frame: Frame) -> Point:
        """Where a frame of the model is."""
        place, i = frame.placement, WORLD
        above = np.eye(3)
        if frame.body != WORLD:
            i = self.carriers[frame.body]
            above = np.array(self.turns[i].rows, float).T
        return Point(i, _fixed(_floats(place.R), Vector(place.p), np.eye(3), above))

    @cached_property
    def first_freedom(self) -> tuple[int, ...]:
        """The freedoms of all bodies are counted through: where each body's begin."""
        return tuple(int(n) for n in np.cumsum([0, *map(len, self.freedoms)]))

    @cached_property
    def numbered(self) -> tuple[tuple[tuple[int, Freedom], ...], ...]:
        """Each body's freedoms with their numbers."""
        return tuple(
            tuple(enumerate(own, start))
            for own, start in zip(self.freedoms, self.first_freedom, strict=False)
        )

    @cached_property
    def above(self) -> tuple[tuple[int, ...], ...]:
        """For each freedom itself and all before it on the way to the root, the nearest first."""
        lines: list[tuple[int, ...]] = []
        for i, own in enumerate(self.freedoms):
            p = self.parent[i]
            line = lines[self.first_freedom[p + 1] - 1] if p != WORLD else ()
            for _ in own:
                line = (len(lines), *line)
                lines.append(line)
        return tuple(lines)

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """The body of each entry of v, the first one of those that share an entry."""
        own = [(k, i) for i, freedoms in enumerate(self.freedoms) for k, _ in freedoms]
        first = dict(reversed(own))
        return tuple(first[k] for k in range(self.nv))

    @cached_property
    def coupled(self) -> bool:
        """Whether bodies share coordinates, as mimic joints do."""
        return self.first_freedom[-1] != self.nv

    @cached_property
    def ancestors(self) -> tuple[tuple[int, ...], ...]:
        """For each entry of v itself and those that its row of the factor L^T D L reaches, the
        nearest first: its ancestors in the tree, and where entries are shared in the elimination
        tree (Davis, Direct Methods for Sparse Linear Systems, 2006, section 4.1).
        """
        if not self.coupled:
            return self.above
        k = [freedom.k for own in self.freedoms for freedom in own]
        rows: list[set[int]] = [{i} for i in range(self.nv)]
        for line in self.above:
            for other in line:
                low, high = sorted((k[line[0]], k[other]))
                rows[high].add(low)
        lines: list[tuple[int, ...]] = [()] * self.nv
        for i in reversed(range(self.nv)):
            nearest = max(rows[i] - {i}, default=None)
            if nearest is not None:
                rows[nearest] |= rows[i] - {i}
        for i in range(self.nv):
            nearest = max(rows[i] - {i}, default=None)
            lines[i] = (i, *(lines[nearest] if nearest is not None else ()))
        return tuple(lines)


def is_chain(tree: Tree) -> bool:
    """Whether each body hangs on the one before it."""
    return tree.parent == tuple(range(-1, tree.nbodies - 1))


def _floats(R: Any) -> Matrix:
    return tuple(Vector(map(float, row)) for row in R)


def _rows(R: np.ndarray) -> Matrix:
    return _floats(_unit_rows(R))


def _rotation(R: np.ndarray) -> Rotation:
    """Child from parent coordinates, of a child whose axes are the columns of R."""
    return Rotation(transpose(_rows(R)))


def _fixed(R: Matrix, p: Vector, turn: np.ndarray, above: np.ndarray) -> Transform:
    """A placement, between frames whose axes, in the user's, are the columns of `turn` and
    `above`.
    """
    if _known(*R[0], *R[1], *R[2]):
        E = _rotation(above.T @ np.array(R, float) @ turn)
    else:
        E = call(_between, _rotation(turn), R, _floats(_unit_rows(above)))
    if _known(*p):
        return Transform(E, Vector(map(float, _quiet(above.T @ np.array(p)))))
    return Transform(E, call(matvec, _rotation(above).rows, p))


def _between(turn: Rotation, R: Matrix, above: Matrix) -> Rotation:
    return Rotation(matmul(matmul(turn.rows, transpose(R)), above))


def _known(*entries: Any) -> bool:
    """Whether all of these are numbers, and none is a scalar given at run time."""
    return all(isinstance(x, int | float | np.number) for x in entries)
