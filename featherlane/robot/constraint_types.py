"""Types of constraints between frames and between joints, as users write them: by names.

A constraint holds rows of the relative motion of two frames at zero: the motion of `frame` relative
to `to`, another frame or the world. Its force acts on the body of `frame` at that frame's origin,
and the opposite force on the body of `to` at the same point, so that pairs of forces do no work on
the remaining motions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from featherlane.robot.parts import Floats
from featherlane.robot.row_softness import DEFAULT_SOFTNESS, RowSoftness

AXES = "xyz"


@dataclass(frozen=True)
class Pin:
    """A point contact or a ball joint: the origin of a frame does not move relative to `to` (the
    world if None), along some of the axes of `to`. It has one to three rows, with forces in N.

    Arguments:
        frame: the name of a frame
        to: the name of the other frame; None: the world
        axes: the axes of `to` along which the point is held, such as "z"

    Examples:
        >>> fl.Pin("link2", axes="z").rows
        1
    """

    frame: str
    to: str | None = None
    axes: str = AXES

    @property
    def rows(self) -> int:
        """The number of rows, and of forces."""
        return len(self.axes)


@dataclass(frozen=True)
class Weld:
    """A flat foot or a glued joint: a frame neither moves nor rotates relative to `to` (the world
    if None). It has six rows: three forces, N, then three moments, N m.

    Arguments:
        frame: the name of a frame
        to: the name of the other frame; None: the world

    Examples:
        >>> fl.Weld("link2").rows
        6
    """

    frame: str
    to: str | None = None
    rows = 6


@dataclass(frozen=True)
class Hinge:
    """A revolute joint that closes a loop: the origins of two frames coincide, and so does an axis,
    whose entries are the same in both frames. It has five rows: three forces, N, then the two
    moments perpendicular to the axis, N m.

    Arguments:
        frame: the name of a frame
        to: the name of the other frame
        axis: (3,), of any length, in the axes of either frame

    Examples:
        >>> fl.Hinge("link2", "base", axis=(0, 0, 1)).rows
        5
    """

    frame: str
    to: str
    axis: Floats = (0.0, 0.0, 1.0)
    rows = 5


@dataclass(frozen=True)
class Rod:
    """A massless rod of constant length (m) between the origins of two frames. It has one row, the
    force that pushes them apart, N.

    Arguments:
        frame: the name of a frame
        to: the name of the other frame
        length: m, above 0

    Examples:
        >>> fl.Rod("link2", "base", length=0.5).rows
        1
    """

    frame: str
    to: str
    length: float
    rows = 1


@dataclass(frozen=True)
class Coupling:
    """A joint that follows another: q = c0 + c1 q_leader + c2 q_leader^2 + ..., in rad or m, or,
    without a leader, q = c0. It has one row, the force on the joint, N m or N. Where the law is
    linear, a `Mimic` joint, which has no entry of q, is cheaper.

    Arguments:
        joint: the name of the joint that follows
        leader: the name of the joint that leads; None: there is none
        polynomial: c0, c1, ..., in rad or m, of the leader's position in rad or m

    Examples:
        >>> fl.Coupling("joint2", "joint1", (0.0, -1.0)).rows
        1
    """

    joint: str
    leader: str | None = None
    polynomial: Floats = (0.0, 1.0)
    rows = 1


Constraint = Pin | Weld | Hinge | Rod | Coupling
"""A contact, a closed loop or a coupling of joints."""


class LoopClosure(NamedTuple):
    """A constraint that closes a loop of a robot, its gains kp (1/s^2) and kd (1/s), and how soft
    fl.SoftContacts has it.
    """

    constraint: Constraint
    kp: float = 0.0
    kd: float = 0.0
    softness: RowSoftness = DEFAULT_SOFTNESS


def name_of(item: Constraint) -> str:
    """Returns the name of a constraint on the card."""
    kind = type(item).__name__
    if isinstance(item, Coupling):
        terms = item.polynomial if item.leader else item.polynomial[:1]
        law = " + ".join(f"{c:g}" + f" {item.leader}^{n}" * (n > 0)
                         for n, c in enumerate(terms) if c)  # fmt: skip
        return f"{kind} {item.joint} = {law or '0'}"
    to = f" to {item.to}" if item.to else ""
    axes = f" {item.axes}" if isinstance(item, Pin) and item.axes != AXES else ""
    length = f" {item.length:g} m" if isinstance(item, Rod) else ""
    return f"{kind} {item.frame}{to}{axes}{length}"
