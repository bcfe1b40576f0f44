"""Laws of contact as data, without any algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from featherlane.errors import shown


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
        if not isinstance(self.sweeps, int) or isinstance(self.sweeps, bool) or self.sweeps < 1:
            raise ValueError(f"sweeps is {shown(self.sweeps)}: wanted a whole number, 1 or more")
        for name in ("erp", "restitution"):
            x = getattr(self, name)
            if not isinstance(x, int | float) or not 0 <= x <= 1:
                raise ValueError(f"{name} is {shown(x)}: wanted a number from 0 to 1")
        speed = self.recovery_speed
        if not isinstance(speed, int | float) or not speed >= 0 or not isfinite(speed):
            raise ValueError(f"recovery_speed is {shown(speed)}: wanted m/s, finite and 0 or more")
        for name in ("limits", "friction_loss"):
            if not isinstance(x := getattr(self, name), bool):
                raise TypeError(f"{name} is {shown(x)}: wanted True or False")
