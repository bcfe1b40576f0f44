"""The robot's constant data, complete and checked once.

Loaders and the builder make a `Robot`: the joints, bodies and frames of the robot's file, with the
bodies on fixed joints merged. Algorithms read a `Tree` instead, which is built from it: see
`tree.py`.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from featherlane.errors import nearest, one_of, shown
from featherlane.robot.actuators import JointActuator
from featherlane.robot.collision_shapes import CollisionPair, CollisionShape, Exclusion
from featherlane.robot.constants import total
from featherlane.robot.constraint_types import LoopClosure
from featherlane.robot.geometry import Geometry, left_out
from featherlane.robot.joint_type import JointType
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.named_configurations import NamedConfiguration
from featherlane.robot.parts import WORLD, Body, Floats, Frame, Joint

GROUND = Body("")  # without mass
SHORT = reprlib.Repr()
SHORT.maxstring = 60  # characters of a name in the repr of a robot


def _check_joint(i: int, joint: Joint, leaders: set[str]) -> None:
    """Raises ValueError if the joint cannot be the i-th of a model with these leaders' names."""
    if joint.type not in JOINT_TYPES:
        problem = f"joint {joint.name!r} is of type {joint.type!r}"
        raise ValueError(f"{problem}; {one_of(joint.type, JOINT_TYPES)}")
    if not WORLD <= joint.parent < i:
        raise ValueError(
            f"joint {joint.name!r} is joint {i} and has parent {joint.parent}; wanted the number "
            f"of a body before it, or {WORLD} for the ground"
        )
    if any(joint.stiffness) and JOINT_TYPES[joint.type].nv != 1:
        raise ValueError(
            f"joint {joint.name!r} is {joint.type} and has stiffness {joint.stiffness}; springs "
            "are on joints of one degree of freedom"
        )
    if joint.mimic and joint.mimic.joint not in leaders:
        raise ValueError(
            f"joint {joint.name!r} mimics {joint.mimic.joint!r}; wanted a joint of the model that "
            "mimics no other"
        )


def _check_actuator(actuator: JointActuator, joints: Sequence[Joint]) -> None:
    """Raises ValueError unless the actuator is on a joint of one degree of freedom."""
    kinds = {joint.name: joint.kind for joint in joints}
    if actuator.joint not in kinds or kinds[actuator.joint].nv != 1:
        raise ValueError(
            f"actuator {actuator.name!r} is on {actuator.joint!r}; wanted a joint of the model "
            "with one degree of freedom"
        )


def _stops_of(joint: Joint) -> tuple[Any, ...]:
    """Returns what the soft stops of a joint depend on."""
    law = joint.limit_stiffness, joint.limit_damping, joint.limit_width
    return joint.lower, joint.upper, law


def _unknown(what: str, name: object, names: Sequence[str], other: str = "") -> ValueError:
    """The error for a name that no joint or frame has, with the nearest names. other: what has the
    name instead.
    """
    if not isinstance(name, str):
        order = "; arrays come first, as in jacobian(q, frame)" if hasattr(name, "__len__") else ""
        return ValueError(f"{what} is {shown(name)}: wanted the name of a {what}{order}")
    if other:
        return ValueError(f"there is no {what} {name!r}: {other}")
    close = nearest(name, names, 5, 0.5) or [*names[:12]]
    some = "has, among others, " if len(close) < len(names) else "has "
    known = ", ".join(close if len(close) < len(names) else names) or "none"
    return ValueError(f"there is no {what} {name!r}: the model {some}{known}")


@dataclass(frozen=True, eq=False)
class Robot:
    """A tree-structured robot; immutable, hashable, picklable, safe to share between threads.

    joints[i] carries bodies[i], and parents come before children. `root` is the root joint that
    the robot was loaded with. Raises ValueError for joints, bodies and frames that do not fit
    together.
    """

    name: str
    joints: tuple[Joint, ...]
    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...] = ()
    gravity: Floats = (0.0, 0.0, -9.81)
    root: str = "fixed"
    source: str = ""
    notes: tuple[str, ...] = ()  # the card's notes: what the loader merged, ignored or doubts
    ground: Body = GROUND  # what is fixed to the ground, in the world's axes
    friction_velocity: float = 0.01
    """rad/s or m/s: friction f resists v with f v / sqrt(v^2 + friction_velocity^2)."""
    actuators: tuple[JointActuator, ...] = ()  # of the file, in its order
    named_configurations: tuple[NamedConfiguration, ...] = ()
    fixed_joints: tuple[tuple[str, str], ...] = ()  # names, and the frame that each one carries
    loop_closures: tuple[LoopClosure, ...] = ()
    collision_shapes: tuple[CollisionShape, ...] = ()  # of the ground, too
    collision_pairs: tuple[CollisionPair, ...] = ()
    collision_exclusions: tuple[Exclusion, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.joints)
        if len(self.bodies) != n:
            raise ValueError(
                f"there are {n} joints and {len(self.bodies)} bodies; wanted a body for each joint"
            )
        leaders = {joint.name for joint in self.joints if joint.mimic is None}
        for i, joint in enumerate(self.joints):
            _check_joint(i, joint, leaders)
        for actuator in self.actuators:
            _check_actuator(actuator, self.joints)
        frames = set(self.frame_names)
        for fixed, carried in self.fixed_joints:
            if carried not in frames:
                raise ValueError(f"fixed joint {fixed!r} carries {carried!r}; wanted a frame")
        for frame in self.frames:
            if not WORLD <= frame.body < n:
                raise ValueError(
                    f"frame {frame.name!r} is on body {frame.body}; wanted one of {n} bodies "
                    f"counted from 0, or {WORLD}, the ground"
                )

    # Size and identity

    @property
    def nbodies(self) -> int:
        """The number of moving bodies, which is the number of joints: joints[i] moves bodies[i]."""
        return len(self.joints)

    @cached_property
    def nq(self) -> int:
        """The number of entries of q: 7 for a free joint, 1 for a revolute one."""
        return sum(self.types[i].nq for i in self.independent)

    @cached_property
    def nv(self) -> int:
        """The number of entries of v, a and tau: 6 for a free joint, 1 for a revolute one."""
        return sum(self.types[i].nv for i in self.independent)

    @cached_property
    def mass(self) -> float:
        """The moving mass, kg."""
        return total(body.mass for body in self.bodies)

    @property
    def ground_mass(self) -> float:
        """The mass that is fixed to the ground, kg."""
        return self.ground.mass

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the moving joints, parents first; `first_q` and `dofs` give their entries."""
        return tuple(joint.name for joint in self.joints)

    @property
    def body_names(self) -> tuple[str, ...]:
        """The names of the moving bodies, in the order of `f_ext`; a body is named after its first
        link.
        """
        return tuple(body.name for body in self.bodies)

    @property
    def frame_names(self) -> tuple[str, ...]:
        """The names of all frames: those of the links, and those that the file adds."""
        return tuple(frame.name for frame in self.frames)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all data that the algorithms read; models that differ only in names have the
        same.
        """
        from hashlib import sha256  # loads OpenSSL

        joints = [
            (j.type, j.parent, j.placement, j.axis, j.axis2, j.pitch, j.mimic and j.mimic[1:])
            + ((j.friction,) if any(j.friction) else ())
            + ((j.stiffness, j.spring_reference) if any(j.stiffness) else ())
            + (_stops_of(j) if j.limit_stiffness else ())
            for j in self.joints
        ]
        inertias = [(b.mass, b.com, b.inertia) for b in self.bodies]
        physics = [self.armature.tolist(), self.damping.tolist(), self.friction.tolist()]
        constants = (self.first_v, physics, self.friction_velocity, self.gravity)
        return sha256(repr((joints, inertias, constants)).encode()).hexdigest()

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Robot)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Robot):
            return NotImplemented
        return {**self._fields(), "source": ""} == {**other._fields(), "source": ""}

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> Any:
        return type(self), tuple(self._fields().values())

    def __repr__(self) -> str:
        size = f"{self.nbodies} bodies, nq {self.nq}, nv {self.nv}"
        return f"<Model {SHORT.repr(self.name)}: {self.root} root, {size}>"

    # The joints' entries of q and v

    @cached_property
    def types(self) -> tuple[JointType, ...]:
        """The type of each joint, with its nq and nv."""
        return tuple(joint.kind for joint in self.joints)

    @cached_property
    def parent(self) -> tuple[int, ...]:
        """The body that carries each joint, -1 for the ground."""
        return tuple(joint.parent for joint in self.joints)

    @cached_property
    def independent(self) -> tuple[int, ...]:
        """The joints that have entries of q and v: all except mimic joints."""
        return tuple(i for i, joint in enumerate(self.joints) if joint.mimic is None)

    def _first(self, sizes: list[int]) -> tuple[int, ...]:
        """Returns the index of each joint's first entry, from the sizes of joints."""
        starts = np.cumsum([0, *[sizes[i] for i in self.independent]]).tolist()
        names = [self.joints[i].name for i in self.independent]
        first = dict(zip(names, starts, strict=False))
        return tuple(first[j.mimic.joint if j.mimic else j.name] for j in self.joints)

    @cached_property
    def first_q(self) -> tuple[int, ...]:
        """The index of each joint's first entry of q; a mimic joint shares its leader's entry."""
        return self._first([kind.nq for kind in self.types])

    @cached_property
    def first_of_quaternions(self) -> tuple[int, ...]:
        """The index in q of the first entry of each quaternion."""
        kinds = ((self.first_q[i], self.types[i].quaternions) for i in self.independent)
        return tuple(first + k for first, quaternions in kinds for k in quaternions)

    @cached_property
    def first_v(self) -> tuple[int, ...]:
        """The index of each joint's first entry of v; a mimic joint shares its leader's entry."""
        return self._first([kind.nv for kind in self.types])

    @cached_property
    def dofs(self) -> tuple[range, ...]:
        """The entries of v that belong to each joint."""
        return tuple(
            range(k, k + kind.nv) for k, kind in zip(self.first_v, self.types, strict=True)
        )

    def frame(self, name: str) -> Frame:
        """Returns the frame of this name. A joint, also a fixed one, has the frame of the link that
        it carries, unless a link has its name. Raises ValueError, which lists the nearest names.

        Examples:
            >>> arm.frame("link2").body
            1
        """
        frame = self._frames.get(name) if isinstance(name, str) else None
        if frame is None:
            raise _unknown("frame", name, self.frame_names)
        return frame

    def joint(self, name: str) -> Joint:
        """Returns the joint of this name. At its index in `joint_names`, `first_q` and `dofs` say
        where its entries of q and v are. Raises ValueError, which lists the nearest names.

        Examples:
            >>> arm.joint("joint1").axis
            (1.0, 0.0, 0.0)
        """
        if name not in self.joint_names:
            raise _unknown("joint", name, self.joint_names, self._frame_named(name))
        return self.joints[self.joint_names.index(name)]

    def _frame_named(self, name: object) -> str:
        """The joint that moves the frame of a name, in words; "" if there is no such frame."""
        frame = self._frames.get(name) if isinstance(name, str) else None
        if frame is None:
            return ""
        if frame.body == WORLD:
            return "that is a frame, on the ground, which no joint moves"
        return f"that is a frame; the joint that moves it is {self.joint_names[frame.body]!r}"

    @cached_property
    def _frames(self) -> dict[str, Frame]:
        """Frames by name, then those of joints, whose names come second."""
        frames = {frame.name: frame for frame in reversed(self.frames)}
        joints = {joint.name: Frame(joint.name, i) for i, joint in enumerate(self.joints)}
        fixed = {joint: frames[name]._replace(name=joint) for joint, name in self.fixed_joints}
        return {**fixed, **joints, **frames}

    @property
    def geometry(self) -> Geometry:
        """The collision shapes, with the contact pairs and exclusions of the robot's file; printing
        them shows a table with sizes in m, and which shapes of the file were not read.
        """
        pairs, exclusions = self.collision_pairs, self.collision_exclusions
        missing = left_out(self.notes)
        return Geometry(self.collision_shapes, pairs, exclusions, self.body_names, missing)

    # Joint physics, per degree of freedom

    def _per_dof(self, figure: str, power: int) -> np.ndarray:
        """Sums a figure of the joints on each entry of v, times |multiplier|^power of a mimic."""
        total = np.zeros(self.nv)
        for joint, dofs in zip(self.joints, self.dofs, strict=True):
            ratio = prod([abs(joint.mimic.multiplier)] * power) if joint.mimic else 1.0
            total[dofs.start : dofs.stop] += np.array(getattr(joint, figure) or 0.0) * ratio
        total.flags.writeable = False
        return total

    @cached_property
    def armature(self) -> np.ndarray:
        """The reflected inertia of motors and gears (nv,), kg m^2 or kg, on the diagonal of M.
        Linear armature of a free joint acts like bodies without weight at its origin
        (docs/conventions.md).
        """
        return self._per_dof("armature", 2)

    @cached_property
    def damping(self) -> np.ndarray:
        """The viscous friction (nv,), N m s/rad or N s/m, which resists v."""
        return self._per_dof("damping", 2)

    @cached_property
    def friction(self) -> np.ndarray:
        """The Coulomb friction (nv,), N m or N, smoothed at low speed (see `friction_velocity`).

        A mimic joint adds to the friction of its leader, but is smoothed by the velocity of the
        mimic joint.
        """
        return self._per_dof("friction", 1)

    @cached_property
    def stiffness(self) -> np.ndarray:
        """The stiffness of joint springs (nv,), N m/rad or N/m, whose torque on the joint is
        stiffness (spring_reference - q).

        Joints with several degrees of freedom have no springs.
        """
        return self._per_dof("stiffness", 2)

    @cached_property
    def spring_reference(self) -> np.ndarray:
        """The positions (nv,), rad or m, at which springs are relaxed, including springs of mimic
        joints.

        A mimic joint at m q + b with a spring of stiffness K about r adds one of stiffness m^2 K
        about (r - b) / m to its leader.
        """
        references, torques = np.zeros(self.nv), np.zeros(self.nv)
        for joint, dofs in zip(self.joints, self.dofs, strict=True):
            if joint.spring_reference and not joint.mimic:
                references[dofs.start] = joint.spring_reference[0]
            if any(joint.stiffness):
                (K,), (r, *_) = joint.stiffness, (*joint.spring_reference, 0.0)
                m, b = joint.mimic[1:] if joint.mimic else (1.0, 0.0)
                torques[dofs.start] += K * m * (r - b)
        sprung = self.stiffness != 0
        references[sprung] = torques[sprung] / self.stiffness[sprung]
        references.flags.writeable = False
        return references
