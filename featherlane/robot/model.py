"""The robot: constant, complete, checked once.

A `Model` is what a loader or a builder makes: joints, bodies and frames as the robot's file has
them, fixed joints merged. What the algorithms read is another view of it: see `tree.py`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from featherlane.robot.joints import JOINT_TYPES, JointType, joint_type

WORLD = -1  # the parent of a body that hangs on the ground

Floats = tuple[float, ...]
NO_MOMENT = ((0.0, 0.0, 0.0),) * 3


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

    def inverse(self) -> Placement:
        R = np.array(self.R).T
        return Placement.of(R, -R @ np.array(self.p))


IDENTITY = Placement.of(np.eye(3), np.zeros(3))


class Mimic(NamedTuple):
    """A joint that follows another: q = multiplier q_leader + offset (rad or m)."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0

    def __str__(self) -> str:
        """'-1 * finger + 0.02'"""
        sign = "-" if self.offset < 0 else "+"
        shift = f" {sign} {abs(self.offset):g}" if self.offset else ""
        return f"{self.multiplier:g} * {self.joint}{shift}"


@dataclass(frozen=True)
class Joint:
    """A moving joint and what its file says of it; SI units.

    Limits are per coordinate of q; armature (reflected inertia), damping and friction per degree of
    freedom; an empty tuple stands for none.
    """

    name: str
    type: str  # a key of JOINT_TYPES
    parent: int  # the body it hangs on, or WORLD
    placement: Placement = IDENTITY  # of the joint's frame, at q = 0, on the parent body
    axis: Floats = (0.0, 0.0, 1.0)  # unit vector in the joint's frame; the normal of a planar joint
    axis2: Floats = (1.0, 0.0, 0.0)  # the second axis of a universal joint, at q = 0
    pitch: float = 0.0  # m/rad, of a helical joint
    mimic: Mimic | None = None  # for joints of one degree of freedom
    lower: Floats = ()
    upper: Floats = ()
    velocity: float = float("inf")
    effort: float = float("inf")
    armature: Floats = ()  # kg m^2 or kg
    damping: Floats = ()  # N m s/rad or N s/m
    friction: Floats = ()  # N m or N

    @property
    def kind(self) -> JointType:
        return joint_type(self.type, self.pitch)


@dataclass(frozen=True)
class Body:
    """What moves with one joint: a link, and all that hangs on it by fixed joints. In the frame of
    that link.
    """

    name: str
    mass: float = 0.0
    com: Floats = (0.0, 0.0, 0.0)  # m
    inertia: tuple[Floats, Floats, Floats] = NO_MOMENT  # kg m^2 about the centre of mass


def joined(name: str, parts: Sequence[tuple[Body, Placement]]) -> Body:
    """One body from bodies rigidly joined, each with the placement of its frame in the new one: by
    parallel axes about the common centre of mass. A single one keeps its figures unrounded.
    """
    moved = [_moved(body, place) for body, place in parts if body.mass or np.any(body.inertia)]
    if len(moved) == 1:
        mass, com, inertia = moved[0]
    else:
        mass = sum(m for m, _, _ in moved)
        com = sum((m * c for m, c, _ in moved), np.zeros(3)) / (mass or 1.0)
        inertia = sum((J + m * spread(c - com) for m, c, J in moved), np.zeros((3, 3)))
    rows = tuple(tuple(map(float, row)) for row in inertia)
    return Body(name, float(mass), tuple(map(float, com)), rows)  # type: ignore[arg-type]


def _moved(body: Body, place: Placement) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it, where the body's frame is at `place`."""
    com, inertia = np.array(body.com), np.array(body.inertia)
    if place == IDENTITY:
        return body.mass, com, inertia
    R = np.array(place.R)
    return body.mass, np.array(place.p) + R @ com, R @ inertia @ R.T


def spread(d: np.ndarray) -> np.ndarray:
    """The rotational inertia of a unit mass at d."""
    return np.asarray(d @ d * np.eye(3) - np.outer(d, d))


class Frame(NamedTuple):
    """A named frame fixed to a body (or to the ground: WORLD); every link of the file is one."""

    name: str
    body: int
    placement: Placement = IDENTITY


def _check_joint(i: int, joint: Joint, leaders: set[str]) -> None:
    """Whether it can be the i-th of a model with these independent joints."""
    if joint.type not in JOINT_TYPES:
        known = ", ".join(JOINT_TYPES)
        raise ValueError(f"joint {joint.name!r} is of type {joint.type!r}; wanted one of {known}")
    if not WORLD <= joint.parent < i:
        raise ValueError(
            f"joint {joint.name!r} is joint {i} and has parent {joint.parent}; wanted a body "
            f"before it, or {WORLD}, the ground"
        )
    if joint.mimic and joint.mimic.joint not in leaders:
        raise ValueError(
            f"joint {joint.name!r} mimics {joint.mimic.joint!r}; wanted a joint of the model that "
            "mimics no other"
        )


@dataclass(frozen=True, eq=False)
class Model:
    """A tree-structured robot; immutable, hashable, picklable, safe to share between threads.

    joints[i] carries bodies[i], and parents come before children. `root` is what was asked for at
    load time. Raises ValueError for joints, bodies and frames that do not fit together.
    """

    name: str
    joints: tuple[Joint, ...]
    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...] = ()
    gravity: Floats = (0.0, 0.0, -9.81)
    root: str = "fixed"
    source: str = ""
    notes: tuple[str, ...] = ()  # what the loader merged, ignored or did not expect, for the card
    ground_mass: float = 0.0  # kg that do not move, merged into the ground
    friction_velocity: float = 0.01
    """rad/s or m/s: friction f resists v with f v / sqrt(v^2 + friction_velocity^2)."""

    def __post_init__(self) -> None:
        n = len(self.joints)
        if len(self.bodies) != n:
            raise ValueError(
                f"joints and bodies are {n} and {len(self.bodies)}; wanted a body for each joint"
            )
        leaders = {joint.name for joint in self.joints if joint.mimic is None}
        for i, joint in enumerate(self.joints):
            _check_joint(i, joint, leaders)
        for frame in self.frames:
            if not WORLD <= frame.body < n:
                raise ValueError(
                    f"frame {frame.name!r} is on body {frame.body}; wanted one of {n} bodies "
                    f"counted from 0, or {WORLD}, the ground"
                )

    # Size and identity

    @property
    def nbodies(self) -> int:
        return len(self.joints)

    @cached_property
    def nq(self) -> int:
        return sum(kind.nq for kind, leads in zip(self.types, self._leads, strict=True) if leads)

    @cached_property
    def nv(self) -> int:
        return sum(kind.nv for kind, leads in zip(self.types, self._leads, strict=True) if leads)

    @cached_property
    def mass(self) -> float:
        """kg that move."""
        return sum(body.mass for body in self.bodies)

    @property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @property
    def body_names(self) -> tuple[str, ...]:
        return tuple(body.name for body in self.bodies)

    @property
    def frame_names(self) -> tuple[str, ...]:
        return tuple(frame.name for frame in self.frames)

    @cached_property
    def fingerprint(self) -> str:
        """What makes two models the same to the algorithms, as a hash: names and notes do not
        count.
        """
        told = [
            (j.type, j.parent, j.placement, j.axis, j.axis2, j.pitch, j.mimic and j.mimic[1:])
            + ((j.friction,) if any(j.friction) else ())
            for j in self.joints
        ]
        inertias = [(b.mass, b.com, b.inertia) for b in self.bodies]
        physics = [self.armature.tolist(), self.damping.tolist(), self.friction.tolist()]
        constants = (self.first_v, physics, self.friction_velocity, self.gravity)
        return hashlib.sha256(repr((told, inertias, constants)).encode()).hexdigest()

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Model)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return {**self._fields(), "source": ""} == {**other._fields(), "source": ""}

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> Any:
        return type(self), tuple(self._fields().values())

    def __repr__(self) -> str:
        size = f"{self.nbodies} bodies, nq {self.nq}, nv {self.nv}"
        return f"<Model {self.name!r}: {self.root} root, {size}>"

    # Where the joints are in q and v

    @cached_property
    def types(self) -> tuple[JointType, ...]:
        return tuple(joint.kind for joint in self.joints)

    @cached_property
    def parent(self) -> tuple[int, ...]:
        return tuple(joint.parent for joint in self.joints)

    @cached_property
    def _leads(self) -> tuple[bool, ...]:
        """For each joint whether it has coordinates of its own: all but mimic joints."""
        return tuple(joint.mimic is None for joint in self.joints)

    @cached_property
    def independent(self) -> tuple[int, ...]:
        """The joints with entries of their own in q and v, in order: all but mimic joints."""
        return tuple(i for i, leads in enumerate(self._leads) if leads)

    def _first(self, sizes: list[int]) -> tuple[int, ...]:
        """Where the entries of each joint begin: those of its leader for a mimic joint."""
        starts = np.cumsum([0, *[n * leads for n, leads in zip(sizes, self._leads, strict=True)]])
        own = dict(zip(self.joint_names, map(int, starts), strict=False))
        return tuple(own[j.mimic.joint if j.mimic else j.name] for j in self.joints)

    @cached_property
    def first_q(self) -> tuple[int, ...]:
        """Where each joint's entries of q begin; a mimic joint has those of its leader."""
        return self._first([kind.nq for kind in self.types])

    @cached_property
    def first_v(self) -> tuple[int, ...]:
        """Where each joint's entries of v begin; a mimic joint has those of its leader."""
        return self._first([kind.nv for kind in self.types])

    @cached_property
    def dofs(self) -> tuple[range, ...]:
        """The entries of v that belong to each joint."""
        return tuple(
            range(k, k + kind.nv) for k, kind in zip(self.first_v, self.types, strict=True)
        )

    def frame(self, name: str) -> Frame:
        """The frame of this name. Raises ValueError that lists the nearest names."""
        frame = self._frames.get(name) if isinstance(name, str) else None
        if frame is None:
            near = get_close_matches(str(name), self.frame_names, 5, 0.5) or self.frame_names[:12]
            told = ", ".join(near) or "none"
            raise ValueError(f"there is no frame {name!r}: the model has, among others, {told}")
        return frame

    @cached_property
    def _frames(self) -> dict[str, Frame]:
        return {frame.name: frame for frame in reversed(self.frames)}

    # Joint physics, per degree of freedom

    def _per_dof(self, values: list[Floats], weights: list[float]) -> np.ndarray:
        total = np.zeros(self.nv)
        for dofs, given, weight in zip(self.dofs, values, weights, strict=True):
            if given:
                total[dofs.start : dofs.stop] += np.array(given) * weight
        total.flags.writeable = False
        return total

    @cached_property
    def armature(self) -> np.ndarray:
        """(nv,), kg m^2 or kg: the inertia of motors and gears as the joint feels it, added to M's
        diagonal. A mimic joint counts with its leader.
        """
        ratios = [j.mimic.multiplier**2 if j.mimic else 1.0 for j in self.joints]
        return self._per_dof([j.armature for j in self.joints], ratios)

    @cached_property
    def damping(self) -> np.ndarray:
        """(nv,), N m s/rad or N s/m: the viscous friction that resists v."""
        ratios = [j.mimic.multiplier**2 if j.mimic else 1.0 for j in self.joints]
        return self._per_dof([j.damping for j in self.joints], ratios)

    @cached_property
    def friction(self) -> np.ndarray:
        """(nv,), N m or N: Coulomb's friction, smoothed: see `friction_velocity`. A mimic joint's
        comes with its leader's, and is smoothed at its own velocity.
        """
        ratios = [abs(j.mimic.multiplier) if j.mimic else 1.0 for j in self.joints]
        return self._per_dof([j.friction for j in self.joints], ratios)
