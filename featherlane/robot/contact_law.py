"""Laws of contact as data, without any algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from featherlane.errors import one_of, shown
from featherlane.robot.contact_numbers import (
    checked_solimp,
    checked_solref,
    is_number,
    is_whole,
)
from featherlane.robot.parts import Floats

CONES = ("pyramidal", "elliptic")


@dataclass(frozen=True)
class Coulomb:
    """Rigid contact with Coulomb friction, which steps solve by so many sweeps over the contacts.

    Raises ValueError that names the field. docs/ground.md has the equations.

    Arguments:
        sweeps: number of sweeps over the contacts in a step
        erp: fraction of a penetration that a step takes back, 0 to 1
        recovery_speed: largest speed at which it is taken back, m/s
        restitution: fraction of the speed of an impact with which bodies part, 0 to 1
        limits: whether limits of joints are rows of the same problem; else a step has the soft
            limits of other steps
        friction_loss: whether dry friction of joints is, too; else a step has the smoothed friction
            of other steps

    Examples:
        >>> fl.Coulomb(sweeps=10).restitution
        0.0
    """

    sweeps: int = 20
    erp: float = 0.2
    recovery_speed: float = 1.0
    restitution: float = 0.0
    limits: bool = False
    friction_loss: bool = False

    def __post_init__(self) -> None:
        _set(self, sweeps=_count("sweeps", self.sweeps))
        for name in ("erp", "restitution"):
            x = getattr(self, name)
            if not is_number(x) or not 0 <= x <= 1:
                raise ValueError(f"{name} is {shown(x)}: wanted a number from 0 to 1")
            _set(self, **{name: float(x)})
        speed = self.recovery_speed
        if not is_number(speed) or not 0 <= speed < float("inf"):
            raise ValueError(f"recovery_speed is {shown(speed)}: wanted m/s, finite and 0 or more")
        _set(self, recovery_speed=float(speed))
        for name in ("limits", "friction_loss"):
            _set(self, **{name: _flag(name, getattr(self, name))})


@dataclass(frozen=True)
class SoftContacts:
    """MuJoCo's soft contacts, limits, dry friction and equality constraints as one convex problem,
    which is solved by so many steps of Newton's method.

    Raises ValueError that names the field. docs/ground.md has the equations.

    Arguments:
        cone: the cone of friction, "pyramidal" or "elliptic"
        impratio: ratio of the impedances of friction and of normal forces, as in MuJoCo
        steps: number of steps of Newton's method
        limits: whether limits of joints are rows of the same problem; else a step has the soft
            limits of other steps
        friction_loss: whether dry friction of joints is, too; else a step has the smoothed friction
            of other steps
        solref: softness of these rows and of constraints: time constant, s, and damping ratio;
            None: that of the robot's MJCF file, else MuJoCo's default. Contacts have those of their
            shapes
        solimp: their impedance: dmin, dmax, width, midpoint and power; None: as for `solref`

    Examples:
        >>> fl.SoftContacts(cone="elliptic", impratio=10.0).steps
        8
    """

    cone: Literal["pyramidal", "elliptic"] = "pyramidal"
    impratio: float = 1.0
    steps: int = 8
    limits: bool = True
    friction_loss: bool = True
    solref: Floats | None = None
    solimp: Floats | None = None

    def __post_init__(self) -> None:
        if self.cone not in CONES:
            raise ValueError(f"cone is {self.cone!r}: {one_of(self.cone, CONES)}")
        if not is_number(self.impratio) or not 0 < self.impratio < float("inf"):
            raise ValueError(f"impratio is {shown(self.impratio)}: wanted a positive number")
        _set(self, impratio=float(self.impratio), steps=_count("steps", self.steps))
        for name in ("limits", "friction_loss"):
            _set(self, **{name: _flag(name, getattr(self, name))})
        title = "fl.SoftContacts"
        if self.solref is not None:
            _set(self, solref=checked_solref(self.solref, title))
        if self.solimp is not None:
            _set(self, solimp=checked_solimp(self.solimp, title))


ContactLaw = Coulomb | SoftContacts
"""The law of contacts with the ground (docs/ground.md)."""


def _set(law: ContactLaw, **fields: Any) -> None:
    """Sets fields of a frozen law, in its constructor."""
    for name, x in fields.items():
        object.__setattr__(law, name, x)


def _count(name: str, x: Any) -> int:
    if not is_whole(x) or x < 1:
        raise ValueError(f"{name} is {shown(x)}: wanted a whole number, 1 or more")
    return int(x)


def _flag(name: str, x: Any) -> bool:
    if not isinstance(x, bool | np.bool_):
        raise TypeError(f"{name} is {shown(x)}: wanted True or False")
    return bool(x)
