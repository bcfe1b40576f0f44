"""The parts of a robot: its joints, bodies and frames, with their placements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from featherlane.robot.constants import rotated_matrix, total
from featherlane.robot.joint_type import JointType
from featherlane.robot.joints import joint_type
from featherlane.robot.row_softness import DEFAULT_SOFTNESS, RowSoftness
from featherlane.robot.spatial import dot, matmul, matvec, transpose

WORLD = -1  # the parent of a body that hangs on the ground

Floats = tuple[float, ...]
"""Numbers in a tuple. What builds a robot takes lists and arrays as well."""
Rows3 = tuple[Floats, Floats, Floats]
"""The rows of a 3 x 3 matrix."""
NO_MOMENT: Rows3 = ((0.0, 0.0, 0.0),) * 3


def floats(x: Any) -> Floats:
    return tuple(map(float, x))


def rows3(A: Any) -> Rows3:
    return tuple(map(floats, A))  # type: ignore[return-value]


class Placement(NamedTuple):
    """The pose of a frame in a reference frame: R maps coordinates to the reference, p is the
    origin.

    Arguments:
        R: (3, 3), without units. The rotation
        p: (3,), m. The origin of the frame

    Examples:
        >>> quarter = fl.Placement.of([[0, -1, 0], [1, 0, 0], [0, 0, 1]], [1, 0, 0])
        >>> (quarter * quarter.inverse()).p
        (0.0, 0.0, 0.0)
    """

    R: Rows3
    p: Floats

    @staticmethod
    def of(R: Any, p: Any) -> Placement:
        """Returns the pose of a rotation (3, 3) and an origin (3,), m, in any form NumPy reads."""
        return Placement(rows3(R), floats(p))

    def __mul__(self, other: Placement) -> Placement:  # type: ignore[override]
        return Placement.of(matmul(self.R, other.R), matvec(self.R, other.p) + self.p)

    def inverse(self) -> Placement:
        """Returns the pose of the other frame in this one."""
        R = transpose(self.R)
        return Placement.of(R, -matvec(R, self.p))


IDENTITY = Placement.of(np.eye(3), np.zeros(3))


class Mimic(NamedTuple):
    """The law by which a joint follows another: q = multiplier q_leader + offset (rad or m).

    Arguments:
        joint: the name of the joint that leads
        multiplier: the ratio of both positions
        offset: rad or m

    Examples:
        >>> str(fl.Mimic("finger", -1.0, 0.02))
        '-1 * finger + 0.02'
    """

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0

    def __str__(self) -> str:
        """Writes the law as '-1 * finger + 0.02'."""
        sign = "-" if self.offset < 0 else "+"
        shift = f" {sign} {abs(self.offset):g}" if self.offset else ""
        return f"{self.multiplier:g} * {self.joint}{shift}"


@dataclass(frozen=True)
class Joint:
    """A moving joint with the values from its file, in SI units.

    Limits have an entry for each coordinate of q; armature, damping, friction and springs have one
    for each degree of freedom. An empty tuple means none.

    Arguments:
        name: the name of the joint
        type: a key of JOINT_TYPES, such as "revolute"
        parent: the number of the body that carries the joint; -1 is the ground
        placement: the pose of the joint's frame in the frame of the parent
        axis: (3,), of length 1, in the joint's frame; for a planar joint, its normal
        axis2: (3,), of length 1. The second axis of a universal joint
        pitch: m/rad, of a helical joint
        mimic: the law by which it follows another joint; None: it moves independently
        lower: least positions, rad or m
        upper: largest positions, rad or m
        velocity: largest speed, rad/s or m/s
        effort: largest joint force, N m or N
        armature: inertia of the motor, reflected through its gear, kg m^2 or kg
        damping: viscous friction, N m s/rad or N s/m
        friction: dry friction, N m or N
        stiffness: of a spring, N m/rad or N/m
        spring_reference: the position at which the spring is relaxed, rad or m
        limit_stiffness: of the soft stops of `with_soft_limits`, N m/rad or N/m
        limit_damping: of the soft stops, N m s/rad or N s/m
        limit_width: distance over which a soft stop sets in, rad or m
        limit_softness: MuJoCo's softness of the limit
        friction_softness: MuJoCo's softness of dry friction

    Examples:
        >>> arm.joints[1].name, arm.joints[1].type, arm.joints[1].axis
        ('joint2', 'revolute', (1.0, 0.0, 0.0))
    """

    name: str
    type: str  # a key of JOINT_TYPES
    parent: int  # the body that carries the joint, or WORLD
    placement: Placement = IDENTITY  # the joint's frame, at q = 0, on the parent body
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
    stiffness: Floats = ()  # N m/rad or N/m, of a spring, on joints of one degree of freedom
    spring_reference: Floats = ()  # rad or m: the position in which the spring is relaxed
    limit_stiffness: float = 0.0  # N m/rad or N/m, of soft stops at the limits; 0: none
    limit_damping: float = 0.0  # N m s/rad or N s/m, of these stops
    limit_width: float = 0.0  # rad or m: the depth from which a stop has all of its stiffness
    limit_softness: RowSoftness = DEFAULT_SOFTNESS  # as fl.SoftContacts has limits and friction
    friction_softness: RowSoftness = DEFAULT_SOFTNESS

    @property
    def kind(self) -> JointType:
        """The type of the joint: sizes of q and v, and the equations."""
        return joint_type(self.type, self.pitch)


@dataclass(frozen=True)
class Body:
    """A link and all links fixed to it, which move with one joint, in the frame of the first link.

    Arguments:
        name: the name of the link
        mass: kg
        com: (3,), m. The centre of mass
        inertia: (3, 3), kg m^2, about the centre of mass

    Examples:
        >>> arm.bodies[0].name, arm.bodies[0].mass
        ('link1', 0.26703)
    """

    name: str
    mass: float = 0.0
    com: Floats = (0.0, 0.0, 0.0)  # m
    inertia: Rows3 = NO_MOMENT  # kg m^2 about the centre of mass


def joined(name: str, parts: Sequence[tuple[Body, Placement]]) -> Body:
    """Merges rigidly joined bodies, each with the placement of its frame in the new body's.

    Inertias are added about the common centre of mass (parallel axes). A body that is the only one
    with inertia keeps its figures unrounded.
    """
    moved = [_moved(body, place) for body, place in parts if body.mass or np.any(body.inertia)]
    if len(moved) == 1:
        mass, com, inertia = moved[0]
    else:
        mass = total(m for m, _, _ in moved)
        com = sum((m * c for m, c, _ in moved), np.zeros(3)) / (mass or 1.0)
        inertia = sum((J + m * point_inertia(c - com) for m, c, J in moved), np.zeros((3, 3)))
    return Body(name, float(mass), floats(com), rows3(inertia))


def _moved(body: Body, place: Placement) -> tuple[float, np.ndarray, np.ndarray]:
    """Returns mass, centre of mass and central inertia of a body whose frame is at `place`."""
    if place == IDENTITY:
        return body.mass, np.array(body.com), np.array(body.inertia)
    com = matvec(place.R, body.com) + place.p
    return body.mass, np.array(com), np.array(rotated_matrix(place.R, body.inertia))


def point_inertia(d: np.ndarray) -> np.ndarray:
    """Returns the rotational inertia of a unit mass at d."""
    return np.asarray(dot(d, d) * np.eye(3) - np.outer(d, d))


class Frame(NamedTuple):
    """A named frame fixed to a body, or to the ground (WORLD). Every link of the file has one.

    Arguments:
        name: the name of the frame
        body: the number of the body that carries it; -1 is the ground
        placement: its pose in the frame of the body

    Examples:
        >>> arm.frames[2].name, arm.frames[2].body
        ('link2', 1)
    """

    name: str
    body: int
    placement: Placement = IDENTITY
