"""Constraints of a robot, with their frames and joints looked up by name, without any algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from featherlane.errors import one_of
from featherlane.robot.constraint_types import (
    AXES,
    Constraint,
    Coupling,
    Hinge,
    Pin,
    Rod,
    Weld,
    name_of,
)
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Floats, Frame, floats
from featherlane.robot.row_softness import DEFAULT_SOFTNESS, RowSoftness
from featherlane.robot.spatial import cross, unit

StepLevel = Literal["velocity", "acceleration"]
"""The level at which semi-implicit steps hold constraints."""
LEVELS: tuple[StepLevel, ...] = ("velocity", "acceleration")
TRIPLE: tuple[Floats, ...] = tuple(floats(unit(k, 3)) for k in range(3))


class FramePair(NamedTuple):
    """Directions along and about which one frame does not translate and rotate relative to another;
    unit vectors in the axes of `to`. length: of a rod, else None. anchored: whether the placement
    of `to` in the world is a separate input.
    """

    frame: Frame
    to: Frame
    linear: tuple[Floats, ...]
    angular: tuple[Floats, ...] = ()
    length: float | None = None
    anchored: bool = False


class CoupledJoints(NamedTuple):
    """Entries of q and of v of a joint and of its leader, if it has one, and the polynomial."""

    joint: tuple[int, int]
    leader: tuple[int, int] | None
    polynomial: Floats


@dataclass(frozen=True)
class Constraints:
    """Constraints of one robot, from `model.constraints`: hashable, printable.

    kp (1/s^2) and kd (1/s) of each constraint correct errors of position and velocity, see
    `model.constraints`. print(constraints) shows the rows of each, and the rank of all rows at a
    random configuration.

    Examples:
        >>> held = arm.constraints([fl.Pin("link2", axes="z")])
        >>> held.count, held.rows, held.names
        (1, 1, ('Pin link2 z',))
    """

    items: tuple[Constraint, ...]
    places: tuple[FramePair | CoupledJoints, ...]
    kp: Floats
    kd: Floats
    level: StepLevel = "velocity"
    softness: tuple[RowSoftness, ...] = ()  # of each, as fl.SoftContacts has them
    robot: str = field(default="", compare=False)
    rank: int = field(default=0, compare=False)
    freedoms: int = field(default=0, compare=False)

    @property
    def count(self) -> int:
        """The number of constraints: entries of `active` and of `anchors`."""
        return len(self.items)

    @cached_property
    def rows(self) -> int:
        """The number of rows of all constraints, and of entries of their forces."""
        return sum(item.rows for item in self.items)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name of each constraint, as the card shows it."""
        return tuple(map(name_of, self.items))

    def entries(self, i: int) -> slice:
        """Returns the entries of constraint i among those of all forces.

        Examples:
            >>> arm.constraints([fl.Weld("link2")]).entries(0)
            slice(0, 6, None)
        """
        first = sum(item.rows for item in self.items[:i])
        return slice(first, first + self.items[i].rows)

    def __str__(self) -> str:
        return card(self)

    def __repr__(self) -> str:
        """Writes the fields that algorithms read, without names: keys of kernels contain this
        text.
        """
        soft = f", {self.softness}" if {*self.softness} - {DEFAULT_SOFTNESS} else ""
        return f"Constraints({self.places!r}, kp={self.kp}, kd={self.kd}, {self.level}{soft})"

    @cached_property
    def _hash(self) -> int:
        return hash((self.items, self.places, self.kp, self.kd, self.level, self.softness))

    def __hash__(self) -> int:
        return self._hash


def card(constraints: Constraints) -> str:
    """Returns the card of some constraints: rows, gains, and whether rows are redundant."""
    c = constraints
    lines = [f"{c.count} constraint{'s' * (c.count > 1)} of {c.robot}: {c.rows} rows"]
    for i, (name, kp, kd) in enumerate(zip(c.names, c.kp, c.kd, strict=True)):
        rows = c.entries(i)
        gains = f", kp {kp:g}, kd {kd:g}" if kp or kd else ""
        last = f"-{rows.stop - 1}" if rows.stop - rows.start > 1 else ""
        lines.append(f"  {i}: {name}, rows {rows.start}{last}{gains}")
    lines.append(f"rank {c.rank} of {c.rows} rows at a random configuration, nv = {c.freedoms}")
    if c.rank < c.rows:
        lines.append(
            f"redundant there by {c.rows - c.rank} rows: accelerations are unique, and of all "
            "forces that give them the least are returned; rows that contradict each other are not "
            "satisfied, but give finite numbers"
        )
    return "\n".join(lines)


# From names to frames and joints


def constraints_on(
    robot: Robot,
    items: Sequence[Constraint] | Constraints,
    kp: Any = 0.0,
    kd: Any = 0.0,
    level: StepLevel | None = None,
) -> Constraints:
    """Returns the constraints of a robot with their frames and joints looked up by name. items may
    be the Constraints of another robot, or of an earlier form of this one, whose gains and level
    are those where none are given. Raises ValueError or TypeError that names the constraint.
    """
    softness: tuple[RowSoftness, ...] = ()
    if isinstance(items, Constraints):
        softness = items.softness
        kp, kd = (kp if np.any(kp) else items.kp), (kd if np.any(kd) else items.kd)
        level = level or items.level
        items = items.items
    chosen = tuple(map(_of_floats, items if isinstance(items, list | tuple) else (items,)))
    if not chosen:
        raise ValueError("constraints is empty: wanted at least one, as in [fl.Pin('foot')]")
    places = tuple(_place(robot, item) for item in chosen)
    kp, kd = (_gains(name, value, len(chosen)) for name, value in (("kp", kp), ("kd", kd)))
    level = level or "velocity"
    if level not in LEVELS:
        raise ValueError(f"level is {level!r}: {one_of(level, LEVELS)}")
    softness = softness or (DEFAULT_SOFTNESS,) * len(chosen)
    return Constraints(chosen, places, kp, kd, level, softness, robot=robot.name, freedoms=robot.nv)


def _of_floats(item: Any) -> Any:
    """Returns a constraint with its lists, arrays and NumPy's numbers as floats, so that it has a
    hash.
    """
    if isinstance(item, Coupling):
        return replace(item, polynomial=_numbers(item.polynomial))
    if isinstance(item, Hinge):
        return replace(item, axis=_numbers(item.axis))
    if isinstance(item, Rod) and isinstance(item.length, Real):
        return replace(item, length=float(item.length))
    return item


def _numbers(value: Any) -> Any:
    """Returns a number or a list of numbers as floats, and anything else as it is."""
    try:
        entries = np.atleast_1d(np.asarray(value))
    except ValueError:  # lists of several lengths
        return value
    return floats(entries) if entries.ndim == 1 and entries.dtype.kind in "iuf" else value


def _finite(value: Any) -> bool:
    """Tells whether a value is a tuple of finite floats, as `_numbers` returns."""
    return isinstance(value, tuple) and all(isinstance(x, float) and isfinite(x) for x in value)


def _gains(name: str, value: Any, count: int) -> Floats:
    """Returns a gain of each constraint."""
    try:
        gains = floats(np.broadcast_to(np.asarray(value, float), (count,)))
    except (TypeError, ValueError):
        wanted = f"one number, or one for each of the {count} constraints"
        raise ValueError(f"{name} is {value!r}: wanted {wanted}") from None
    if not all(isfinite(x) and x >= 0 for x in gains):
        raise ValueError(f"{name} is {value!r}: wanted finite numbers, 0 or more")
    return gains


def _place(robot: Robot, item: Any) -> FramePair | CoupledJoints:
    if isinstance(item, Coupling):
        return _coupled(robot, item)
    if not isinstance(item, Pin | Weld | Hinge | Rod):
        kinds = "fl.Pin, fl.Weld, fl.Hinge, fl.Rod or fl.Coupling"
        raise TypeError(f"constraints has {item!r}: wanted {kinds}")
    if item.to is None and isinstance(item, Hinge | Rod):
        raise ValueError(
            f"{name_of(item)}: to is None: wanted a frame of another body; fl.Pin and fl.Weld hold "
            "frames to the world, at their anchors"
        )
    frame = robot.frame(item.frame)._replace(name="")
    to = Frame("", WORLD) if item.to is None else robot.frame(item.to)._replace(name="")
    if frame.body == to.body:
        where = "the ground" if frame.body == WORLD else f"body {robot.bodies[frame.body].name!r}"
        other = "the world" if item.to is None else repr(item.to)
        raise ValueError(
            f"{name_of(item)}: {item.frame!r} and {other} are both on {where}, where nothing moves "
            "one from the other; wanted frames of two bodies"
        )
    return _pair(item, frame, to)


def _pair(item: Pin | Weld | Hinge | Rod, frame: Frame, to: Frame) -> FramePair:
    if isinstance(item, Weld):
        return FramePair(frame, to, TRIPLE, TRIPLE, anchored=item.to is None)
    if isinstance(item, Hinge):
        return FramePair(frame, to, TRIPLE, _across(item))
    if isinstance(item, Rod):
        if not (isinstance(item.length, int | float) and 0 < item.length < float("inf")):
            raise ValueError(f"{name_of(item)}: length is {item.length!r}, wanted positive metres")
        return FramePair(frame, to, (), length=float(item.length))
    axes = item.axes
    if not (isinstance(axes, str) and axes and list(axes) == [a for a in AXES if a in axes]):
        raise ValueError(f"Pin {item.frame}: axes is {axes!r}, wanted some of 'xyz' in this order")
    linear = tuple(TRIPLE[AXES.index(a)] for a in axes)
    return FramePair(frame, to, linear, anchored=item.to is None)


def _across(item: Hinge) -> tuple[Floats, Floats]:
    """Returns two unit vectors perpendicular to the axis of a hinge."""
    if not (_finite(item.axis) and len(item.axis) == 3 and any(item.axis)):
        raise ValueError(f"{name_of(item)}: axis is {item.axis!r}, wanted three numbers, not all 0")
    axis = np.array(item.axis) / np.linalg.norm(item.axis)
    side = np.asarray(cross(unit(int(np.argmin(np.abs(axis))), 3), axis))
    side = side / np.linalg.norm(side)
    return floats(side), floats(cross(axis, side))


def _coupled(robot: Robot, item: Coupling) -> CoupledJoints:
    names = [robot.joints[i].name for i in robot.independent]

    def entries(name: str) -> tuple[int, int]:
        robot.joint(name)
        i = robot.joint_names.index(name)
        if name not in names:
            raise ValueError(f"{name_of(item)}: {name!r} is a mimic joint, and has no entry of q")
        if (robot.types[i].nq, robot.types[i].nv) != (1, 1):
            kind = robot.types[i].name
            raise ValueError(f"{name_of(item)}: {name!r} is {kind}, wanted a joint of one q and v")
        return robot.first_q[i], robot.first_v[i]

    if item.joint == item.leader:
        raise ValueError(f"{name_of(item)}: a joint can't be its own leader")
    polynomial = item.polynomial
    if not (polynomial and _finite(polynomial)):
        raise ValueError(
            f"Coupling {item.joint}: polynomial is {polynomial!r}, wanted numbers c0, c1, ..."
        )
    leader = None if item.leader is None else entries(item.leader)
    return CoupledJoints(entries(item.joint), leader, polynomial if leader else polynomial[:1])
