"""Laws of contact as data, without any algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Literal

from featherlane.errors import one_of, shown
from featherlane.robot.parts import Floats, floats

CONES = ("pyramidal", "elliptic")


@dataclass(frozen=True)
class Coulomb:
    """Rigid contact with Coulomb friction, which steps solve by so many sweeps over the contacts.

    erp: the share of a penetration that a step takes back, at most at recovery_speed, m/s.
    restitution: the share of the speed of an impact with which bodies part, 0 to 1. limits,
    friction_loss: whether limits of joints, and their dry friction, are rows of the same problem;
    without them a step has the soft limits and the smoothed friction of other steps.

    Raises ValueError that names the field. docs/ground.md has the equations.

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
        _check_count("sweeps", self.sweeps)
        for name in ("erp", "restitution"):
            x = getattr(self, name)
            if not isinstance(x, int | float) or not 0 <= x <= 1:
                raise ValueError(f"{name} is {shown(x)}: wanted a number from 0 to 1")
        speed = self.recovery_speed
        if not isinstance(speed, int | float) or not speed >= 0 or not isfinite(speed):
            raise ValueError(f"recovery_speed is {shown(speed)}: wanted m/s, finite and 0 or more")
        for name in ("limits", "friction_loss"):
            _check_flag(name, getattr(self, name))


@dataclass(frozen=True)
class SoftContacts:
    """MuJoCo's soft contacts, limits, dry friction and equality constraints as one convex problem,
    which is solved by so many steps of Newton's method.

    cone, impratio: of contacts. limits, friction_loss: whether limits of
    joints and their dry friction are rows of the same problem; without them a step has the soft
    limits and the smoothed friction of other steps. solref, solimp: of these rows and of
    constraints; contacts have those of their shapes.

    Raises ValueError that names the field. docs/ground.md has the equations.

    Examples:
        >>> fl.SoftContacts(cone="elliptic", impratio=10.0).steps
        8
    """

    cone: Literal["pyramidal", "elliptic"] = "pyramidal"
    impratio: float = 1.0
    steps: int = 8
    limits: bool = True
    friction_loss: bool = True
    solref: Floats = (0.02, 1.0)
    solimp: Floats = (0.9, 0.95, 0.001, 0.5, 2.0)

    def __post_init__(self) -> None:
        if self.cone not in CONES:
            raise ValueError(f"cone is {self.cone!r}: {one_of(self.cone, CONES)}")
        if not isinstance(self.impratio, Real) or not 0 < self.impratio < float("inf"):
            raise ValueError(f"impratio is {shown(self.impratio)}: wanted a positive number")
        _check_count("steps", self.steps)
        for name in ("limits", "friction_loss"):
            _check_flag(name, getattr(self, name))
        for name, count in (("solref", 2), ("solimp", 5)):
            x = floats(getattr(self, name))
            if len(x) != count or not all(map(isfinite, x)):
                raise ValueError(f"{name} is {x}: wanted {count} finite numbers, as in MJCF")
            object.__setattr__(self, name, x)


ContactLaw = Coulomb | SoftContacts


def _check_count(name: str, x: object) -> None:
    if not isinstance(x, int) or isinstance(x, bool) or x < 1:
        raise ValueError(f"{name} is {shown(x)}: wanted a whole number, 1 or more")


def _check_flag(name: str, x: object) -> None:
    if not isinstance(x, bool):
        raise TypeError(f"{name} is {shown(x)}: wanted True or False")
