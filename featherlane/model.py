"""The robot: constant, complete, checked once.

A `Model` is what a loader makes: joints, bodies and frames as the robot's file has them, fixed
joints merged. The algorithms read its other side, the properties below "What the algorithms read":
joint frames turned so that every axis is z, and the mass that a joint does not move counted with
the parent. Both changes leave every input and output as it was; they only make the numbers that the
algorithms meet 0 or 1 more often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from featherlane.joints import JOINT_TYPES, JointType
from featherlane.spatial import NO_INERTIA, Inertia, Rotation, Symmetric, Transform, Vector

WORLD = -1  # the parent of a body that hangs on the ground
ANGLE_NOISE = 1e-11  # a right angle printed with eleven digits is a right angle
RELATIVE_NOISE = 1e-14

Floats = tuple[float, ...]


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


class Placement(NamedTuple):
    """A frame seen from another: R, 3 x 3, takes its coordinates to the other's; p is its origin
    there.
    """

    R: tuple[Floats, Floats, Floats]
    p: Floats

    @staticmethod
    def of(R: Any, p: Any) -> Placement:
        R, p = np.asarray(R, float), np.asarray(p, float)
        return Placement(tuple(tuple(map(float, row)) for row in R), tuple(map(float, p)))  # type: ignore[arg-type]

    def __mul__(self, other: Placement) -> Placement:  # type: ignore[override]
        R = np.array(self.R)
        return Placement.of(R @ np.array(other.R), np.array(self.p) + R @ np.array(other.p))


IDENTITY = Placement.of(np.eye(3), np.zeros(3))


@dataclass(frozen=True)
class Joint:
    """A moving joint and what its file says of it. Limits are per coordinate; SI units."""

    name: str
    type: str
    parent: int  # the body it hangs on, or WORLD
    placement: Placement = IDENTITY  # of the joint's frame, at q = 0, on the parent body
    axis: Floats = (0.0, 0.0, 1.0)  # unit vector in the joint's frame; the normal of a planar joint
    lower: Floats = ()
    upper: Floats = ()
    velocity: float = float("inf")
    effort: float = float("inf")
    damping: float = 0.0
    friction: float = 0.0


@dataclass(frozen=True)
class Body:
    """What moves with one joint: a link, and all that hangs on it by fixed joints. In the frame of
    that link.
    """

    name: str
    mass: float
    com: Floats  # m
    inertia: tuple[Floats, Floats, Floats]  # kg m^2 about the centre of mass

    def spatial(self) -> Inertia:
        c, I = np.array(self.com), np.array(self.inertia)
        S = np.trace(I) / 2 * np.eye(3) - I + self.mass * np.outer(c, c)
        return _inertia(self.mass, self.mass * c, S)


class Frame(NamedTuple):
    """A named frame fixed to a body (or to the ground: WORLD); every link of the file is one."""

    name: str
    body: int
    placement: Placement = IDENTITY


def _inertia(m: float, h: np.ndarray, S: np.ndarray) -> Inertia:
    def quiet(x: np.ndarray) -> list[float]:
        return [float(e) if abs(e) > RELATIVE_NOISE * np.abs(x).max() else 0.0 for e in x.ravel()]

    s = quiet(S)
    return Inertia(m, Vector(quiet(h)), Symmetric(s[0], s[1], s[2], s[4], s[5], s[8]))


def _axis_to_z(axis: Floats) -> np.ndarray:
    """A rotation whose third column is the axis; a permutation with signs where the axis is one of
    the frame's.
    """
    z = _unit_rows(axis)
    k = int(np.argmax(np.abs(z)))
    x = np.roll(np.eye(3)[k], 1)  # the next axis in the cycle, then made orthogonal to z
    x = x - z * (x @ z)
    x = x / np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def _rotation(R: np.ndarray) -> Rotation:
    """Child from parent coordinates, of a child whose axes are the columns of R."""
    return Rotation(tuple(Vector(map(float, row)) for row in _unit_rows(R).T))


class Stage(NamedTuple):
    """A submodule of Dadu-RBD: one pass ("R", "D", "M" ...), forward or backward, at one joint
    (counted from 0).
    """

    algorithm: str
    direction: str
    joint: int

    def __str__(self) -> str:
        return f"{self.algorithm}{self.direction}{self.joint + 1}"


on_stage: ContextVar[Any] = ContextVar("on_stage", default=None)
"""What a tracer wants called with each Stage that a loop enters, and with None when it ends."""


on_repeat: ContextVar[Any] = ContextVar("on_repeat", default=None)
"""What a tracer wants called instead of the loop of `repeat`."""


def repeat(function: Any, shared: Any, columns: Any) -> list:
    """function(shared, column) for each column: lists of scalars to a list of scalars.

    All columns have one length, and the function uses nothing but its arguments: a compiler may
    keep it once.
    """
    instead = on_repeat.get()
    return instead(function, shared, columns) if instead else [function(shared, c) for c in columns]


def _staged(joints: Any, algorithm: str, direction: str) -> Iterator[int]:
    enter = on_stage.get()
    if enter is None:
        yield from joints
        return
    for i in joints:
        enter(Stage(algorithm, direction, i))
        yield i
    enter(None)


def outward(model: Model, algorithm: str = "") -> Iterator[int]:
    """The bodies from the root to the tips."""
    return _staged(range(model.nbodies), algorithm, "f")


def inward(model: Model, algorithm: str = "") -> Iterator[int]:
    """The bodies from the tips to the root."""
    return _staged(range(model.nbodies - 1, -1, -1), algorithm, "b")


@dataclass(frozen=True, eq=False)
class Model:
    """A tree-structured robot; immutable, hashable, picklable, safe to share between threads.

    joints[i] carries bodies[i], and parents come before children. `root` is what was asked for at
    load time.
    """

    name: str
    joints: tuple[Joint, ...]
    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...] = ()
    gravity: Floats = (0.0, 0.0, -9.81)
    root: str = "fixed"
    source: str = ""
    notes: tuple[
        str, ...
    ] = ()  # what the loader merged, ignored or did not expect, for the model card
    ground_mass: float = field(default=0.0)  # kg that do not move, merged into the ground

    # Size and identity

    @property
    def nbodies(self) -> int:
        return len(self.joints)

    @cached_property
    def nq(self) -> int:
        return sum(kind.nq for kind in self.types)

    @cached_property
    def nv(self) -> int:
        return sum(kind.nv for kind in self.types)

    @cached_property
    def mass(self) -> float:
        """kg that move."""
        return sum(body.mass for body in self.bodies)

    @property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @property
    def frame_names(self) -> tuple[str, ...]:
        return tuple(frame.name for frame in self.frames)

    @cached_property
    def fingerprint(self) -> str:
        """What makes two models the same to the algorithms, as a hash: names and notes do not
        count.
        """
        told = [(j.type, j.parent, j.placement, j.axis) for j in self.joints]
        inertias = [(b.mass, b.com, b.inertia) for b in self.bodies]
        return hashlib.sha256(repr((told, inertias, self.gravity)).encode()).hexdigest()

    def _key(self) -> tuple[Any, ...]:
        return (
            self.name,
            self.joints,
            self.bodies,
            self.frames,
            self.gravity,
            self.root,
            self.notes,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> Any:
        fields = (*self._key()[:6], self.source, self.notes, self.ground_mass)
        return (type(self), fields)

    def __repr__(self) -> str:
        size = f"{self.nbodies} bodies, nq {self.nq}, nv {self.nv}"
        return f"<Model {self.name!r}: {self.root} root, {size}>"

    def __str__(self) -> str:
        from featherlane.card import card

        return card(self)

    # What the algorithms read

    @cached_property
    def types(self) -> tuple[JointType, ...]:
        return tuple(JOINT_TYPES[joint.type] for joint in self.joints)

    @cached_property
    def parent(self) -> tuple[int, ...]:
        return tuple(joint.parent for joint in self.joints)

    @cached_property
    def first_q(self) -> tuple[int, ...]:
        """Where each joint's entries of q begin."""
        return tuple(int(k) for k in np.cumsum([0] + [kind.nq for kind in self.types])[:-1])

    @cached_property
    def first_v(self) -> tuple[int, ...]:
        return tuple(int(k) for k in np.cumsum([0] + [kind.nv for kind in self.types])[:-1])

    @cached_property
    def dofs(self) -> tuple[range, ...]:
        """The entries of v that belong to each joint."""
        return tuple(
            range(k, k + kind.nv) for k, kind in zip(self.first_v, self.types, strict=True)
        )

    @cached_property
    def freedoms(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each joint its entries of v, each with the spatial axis of the body that it moves."""
        return tuple(
            tuple(zip(dofs, kind.axes, strict=True))
            for dofs, kind in zip(self.dofs, self.types, strict=True)
        )

    @cached_property
    def dof_parent(self) -> tuple[int, ...]:
        """For each entry of v the one before it on the way to the root, or -1: the tree of the
        factor L^T D L.
        """
        parents: list[int] = []
        for i, dofs in enumerate(self.dofs):
            above = self.dofs[self.parent[i]][-1] if self.parent[i] != WORLD else -1
            for k in dofs:
                parents.append(above if k == dofs[0] else k - 1)
        return tuple(parents)

    @cached_property
    def ancestors(self) -> tuple[tuple[int, ...], ...]:
        """For each entry of v itself and all before it on the way to the root, the nearest
        first.
        """
        lines: list[tuple[int, ...]] = []
        for k, parent in enumerate(self.dof_parent):
            lines.append((k, *(lines[parent] if parent >= 0 else ())))
        return tuple(lines)

    @cached_property
    def turns(self) -> tuple[Rotation, ...]:
        """For each body, its turned axes from the axes that the user knows."""
        return tuple(
            _rotation(_axis_to_z(j.axis)) if t.name != "free" else _rotation(np.eye(3))
            for j, t in zip(self.joints, self.types, strict=True)
        )

    @cached_property
    def X_tree(self) -> tuple[Transform, ...]:
        """The constant part of each joint's transform, between turned frames."""

        def turn(i: int) -> np.ndarray:
            return np.eye(3) if i == WORLD else np.array(self.turns[i].rows, float).T

        transforms = []
        for i, joint in enumerate(self.joints):
            above = turn(joint.parent).T
            R = above @ np.array(joint.placement.R) @ turn(i)
            p = _quiet(above @ np.array(joint.placement.p))
            transforms.append(Transform(_rotation(R), Vector(map(float, p))))
        return tuple(transforms)

    @cached_property
    def inertias(self) -> tuple[Inertia, ...]:
        """The inertia of each body in its turned frame, as it is left when what rides on the parent
        is taken off.
        """
        turned = []
        for body, turn in zip(self.bodies, self.turns, strict=True):
            I, E = body.spatial(), np.array(turn.rows, float)
            turned.append(_inertia(I.m, E @ np.array(I.h), E @ np.array(I.S.rows) @ E.T))
        for i in range(self.nbodies - 1, -1, -1):
            rides = self.types[i].ride(turned[i])
            rest = Inertia(
                turned[i].m - rides.m,
                turned[i].h - rides.h,
                Symmetric(*[x - y for x, y in zip(turned[i].S, rides.S, strict=True)]),
            )
            turned[i] = rest
            if self.parent[i] != WORLD and rides != NO_INERTIA:
                turned[self.parent[i]] = turned[self.parent[i]] + self.X_tree[i].inertia_to_parent(
                    rides
                )
        return tuple(turned)

    def joint_transform(self, i: int, q: Any) -> Transform:
        """Coordinates of body i from those of its parent, at the robot's q (the book's iXp)."""
        k = self.first_q[i]
        return self.types[i].transform(q[k : k + self.types[i].nq]) @ self.X_tree[i]
