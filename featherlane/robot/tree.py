"""The robot as the algorithms read it: a tree of bodies on joints of constant S, in any scalar.

A `Tree` describes a `Robot` in a form in which more constants are 0 or 1; inputs and
outputs are the same. Joint frames are rotated so that an axis is z, a universal joint is two
revolute joints with a massless body between them, a mimic joint reads the coordinate of its leader,
and the inertia that a joint does not move is regrouped with its parent's. Constants are floats, or,
with parameters of `build_tree`, scalars of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from operator import add
from typing import Any, NamedTuple

import numpy as np

from featherlane.robot.constants import departure
from featherlane.robot.joint_type import JointType
from featherlane.robot.parts import WORLD, Frame
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

ANGLE_NOISE = 1e-11  # files print right angles with eleven digits: 1.57079632679
RELATIVE_NOISE = 1e-14  # some 50 rounding errors of a double


def rounded_rotation(R: Any) -> np.ndarray:
    """Removes a file's rounding errors from a rotation, or one row: tiny entries become 0, and an
    entry that is left alone in its row 1 or -1. The first threshold whose result is a rotation
    serves, for an entry below it may also be a true product of two small angles.
    """
    R = np.array(R, float)
    for noise in (ANGLE_NOISE, RELATIVE_NOISE):
        Q = np.where(np.abs(R) < noise, 0.0, R)
        Q = np.where(np.count_nonzero(Q, axis=-1, keepdims=True) == 1, np.sign(Q), Q)
        if departure(np.atleast_2d(Q).tolist()) < RELATIVE_NOISE:
            return Q
    return R


class Coordinate(NamedTuple):
    """The law of a joint's coordinate, multiplier q[k] + offset."""

    k: int
    multiplier: float = 1.0
    offset: float = 0.0


class Freedom(NamedTuple):
    """A degree of freedom: the index k of its entry of v, and its column S of the joint's motion
    subspace matrix.
    """

    k: int
    S: Vector


class Spring(NamedTuple):
    """The spring of a joint of one degree of freedom, entry k of v and `at` of q: the torque
    stiffness (reference - q[at]).
    """

    k: int
    at: int
    stiffness: Scalar
    reference: Scalar


class StopLaw(NamedTuple):
    """The soft stop at one limit of a joint: a law of the depth sign (q - limit) beyond it, see
    `algorithms.springs`.
    """

    sign: float  # -1 at a lower limit, 1 at an upper one
    limit: float
    width: float
    stiffness: float
    damping: float


class Stop(NamedTuple):
    """A soft stop on entry k of v and `at` of q."""

    k: int
    at: int
    law: StopLaw


class Link(NamedTuple):
    """The constants of one body and its joint, without indices: two links of one structure are
    then computed by the same recorded step (`scalar.call`).
    """

    kind: JointType
    laws: tuple[tuple[float, float], ...]  # multiplier and offset of each coordinate
    X_tree: Transform
    inertia: Inertia
    S: tuple[Vector, ...]
    armature: tuple[Scalar, ...]  # these three for each degree of freedom
    damping: tuple[Scalar, ...]
    frictions: tuple[Sequence[tuple[Scalar, float]], ...]
    load: Scalar  # the mass of the body's subtree
    turned_armature: tuple[Scalar, ...]  # a free joint's along its lines, () if it has none


def joint_transform(link: Link, q: Sequence[Scalar]) -> Transform:
    """Returns a body's iXp, from its parent's coordinates; q: the entries that its joint reads."""
    law = zip(link.laws, q, strict=True)
    return link.kind.transform([multiplier * x + b for (multiplier, b), x in law]) @ link.X_tree


class BodyFrame(NamedTuple):
    """A frame fixed to a body of a tree; X takes the body's coordinates to the frame's."""

    body: int
    X: Transform


@dataclass(frozen=True, eq=False)
class Tree:
    """Bodies and joints, parents first; tuples have an entry for each body unless stated."""

    nv: int
    gravity: Vector
    parent: tuple[int, ...]
    types: tuple[JointType, ...]
    sources: tuple[tuple[Coordinate, ...], ...]
    freedoms: tuple[tuple[Freedom, ...], ...]
    turns: tuple[Rotation, ...]  # from a body's axes in the Robot to its axes here
    X_tree: tuple[Transform, ...]  # the constant part of each joint's transform
    inertias: tuple[Inertia, ...]
    ground: Inertia  # the moving inertia that is regrouped with the ground
    carriers: tuple[int, ...]  # the number here of each body of the Robot
    turned_armature: tuple[tuple[Scalar, ...], ...]
    """The armature that turns with its body: a free joint's along its lines, () if it has none. It
    stays where a step puts something else on the diagonal of M, in `armature`."""
    armature: Sequence[Scalar]  # these three have an entry for each entry of v
    damping: Sequence[Scalar]
    frictions: Sequence[Sequence[tuple[Scalar, float]]]
    """Pairs (f, v0) of friction f v / sqrt(v^2 + v0^2), one for each joint on an entry of v."""
    coordinates: tuple[tuple[JointType, int, int], ...] = ()
    """Type, first entry of q and of v of each joint of the Robot that follows no other."""
    springs: tuple[Spring, ...] = ()
    stops: tuple[Stop, ...] = ()
    base_velocity: Vector = ZERO6  # of the ground, [angular; linear] in the axes of the ground
    base_acceleration: Vector = ZERO6  # the linear half is the origin's classical acceleration

    @property
    def nbodies(self) -> int:
        return len(self.parent)

    def joint_transform(self, i: int, q: Sequence[Scalar]) -> Transform:
        """Returns the book's iXp, from the parent's coordinates to body i's, at the robot's q."""
        return call(joint_transform, self.links[i], [q[s.k] for s in self.sources[i]])

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The links. Joints that share an entry of v all have its armature, damping, friction."""
        return tuple(
            Link(
                self.types[i],
                tuple((s.multiplier, s.offset) for s in self.sources[i]),
                self.X_tree[i],
                self.inertias[i],
                tuple(S for _, S in freedoms),
                tuple(self.armature[k] for k, _ in freedoms),
                tuple(self.damping[k] for k, _ in freedoms),
                tuple(tuple(self.frictions[k]) for k, _ in freedoms),
                self.loads[i],
                self.turned_armature[i],
            )
            for i, freedoms in enumerate(self.freedoms)
        )

    @cached_property
    def loads(self) -> tuple[Scalar, ...]:
        """The mass of each body's subtree."""
        loads = [inertia.m for inertia in self.inertias]
        for i in reversed(range(self.nbodies)):
            if (p := self.parent[i]) != WORLD:
                loads[p] = call(add, loads[p], loads[i])
        return tuple(loads)

    @property
    def mass(self) -> Scalar:
        """The mass of all that moves."""
        return sum((inertia.m for inertia in self.inertias), start=self.ground.m)

    def point(self, frame: Frame) -> BodyFrame:
        """Returns a frame of the Robot on its body of the tree."""
        i, axes = WORLD, np.eye(3)
        if frame.body != WORLD:
            i = self.carriers[frame.body]
            axes = np.array(self.turns[i].rows, float).T
        R, p = frame.placement
        return BodyFrame(i, fixed_transform(vectors(R), Vector(p), np.eye(3), axes))

    @cached_property
    def numbered(self) -> tuple[tuple[tuple[int, Freedom], ...], ...]:
        """The degrees of freedom of each body, numbered through over all bodies."""
        numbers = count()
        return tuple(tuple((next(numbers), f) for f in freedoms) for freedoms in self.freedoms)

    @cached_property
    def above(self) -> tuple[tuple[int, ...], ...]:
        """For each degree of freedom its number and its ancestors', the nearest first."""
        lines: list[tuple[int, ...]] = []
        last: dict[int, tuple[int, ...]] = {WORLD: ()}  # the line of each body's last one
        for i, freedoms in enumerate(self.numbered):
            last[i] = last[self.parent[i]]
            for n, _ in freedoms:
                last[i] = (n, *last[i])
                lines.append(last[i])
        return tuple(lines)

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """The body of each entry of v, the first one of those that share an entry."""
        pairs = [(k, i) for i, freedoms in enumerate(self.freedoms) for k, _ in freedoms]
        first = dict(reversed(pairs))
        return tuple(first[k] for k in range(self.nv))

    @cached_property
    def coupled(self) -> bool:
        """Whether joints share entries of v, as mimic joints do."""
        return sum(map(len, self.freedoms)) != self.nv

    @cached_property
    def ancestors(self) -> tuple[tuple[int, ...], ...]:
        """For each row of L in M = L^T D L the columns of its entries, the diagonal first.

        They are the ancestors of an entry of v in the kinematic tree, or, where joints share
        entries, in the elimination tree (Davis, Direct Methods for Sparse Linear Systems, 2006,
        section 4.1).
        """
        if not self.coupled:
            return self.above
        k = [freedom.k for freedoms in self.freedoms for freedom in freedoms]
        rows: list[set[int]] = [set() for _ in range(self.nv)]  # without the diagonal
        for line in self.above:
            for ancestor in line[1:]:
                low, high = sorted((k[line[0]], k[ancestor]))
                rows[high] |= {low} - {high}
        lines: list[tuple[int, ...]] = []
        for row in reversed(rows):
            if row:
                rows[max(row)] |= row - {max(row)}
        for i, row in enumerate(rows):
            lines.append((i, *lines[max(row)]) if row else (i,))
        return tuple(lines)


def is_chain(tree: Tree) -> bool:
    """Tells whether each body's parent is the body before it."""
    return tree.parent == tuple(range(-1, tree.nbodies - 1))


def vectors(R: Any) -> Matrix:
    return tuple(Vector(map(float, row)) for row in R)


def rotation_to(axes: Any) -> Rotation:
    """Returns E of a child frame whose axes are the columns of `axes` in the parent frame."""
    return Rotation(transpose(vectors(rounded_rotation(axes))))


def fixed_transform(R: Matrix, p: Vector, axes: np.ndarray, parent_axes: np.ndarray) -> Transform:
    """Returns the transform of a placement (R, p) between frames that were rotated since.

    The columns of `axes` and `parent_axes` are the new axes of both in their old ones.
    """
    if is_number(*R[0], *R[1], *R[2]):
        E = rotation_to(matmul(matmul(parent_axes.T.tolist(), R), axes.tolist()))
    else:
        E = call(_between, rotation_to(axes), R, vectors(rounded_rotation(parent_axes)))
    if is_number(*p):
        r = matvec(parent_axes.T.tolist(), p)
        return Transform(E, Vector([0.0 if abs(x) < ANGLE_NOISE else float(x) for x in r]))
    return Transform(E, call(matvec, rotation_to(parent_axes).rows, p))


def _between(turn: Rotation, R: Matrix, parent_axes: Matrix) -> Rotation:
    return Rotation(matmul(matmul(turn.rows, transpose(R)), parent_axes))


def is_number(*entries: Any) -> bool:
    """Tells whether all entries are numbers, and none is a scalar that comes at run time."""
    return all(isinstance(x, int | float | np.number) for x in entries)
