"""Actuators: which joint forces controls make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.scalar import Scalar, select


class Actuator(NamedTuple):
    """The force gear u on entry `freedom` of v, where u is kept between -limit and limit."""

    freedom: int
    gear: float
    limit: float  # infinite if there is none


class Actuation(NamedTuple):
    """Actuators in the order of the controls u (nu,): tau = S clip(u), with S (nv, nu).

    Examples:
        >>> arm.actuation(["joint2"], clip=False).controls
        1
    """

    actuators: tuple[Actuator, ...]

    @property
    def controls(self) -> int:
        """nu."""
        return len(self.actuators)

    def forces(self, nv: int, u: Sequence[Scalar]) -> list[Scalar]:
        """Returns tau."""
        tau: list[Scalar] = [0.0] * nv
        for (k, gear, limit), x in zip(self.actuators, u, strict=True):
            if limit < float("inf"):
                x = select(x < -limit, -limit, select(limit < x, limit, x))
            tau[k] = tau[k] + gear * x
        return tau

    def slopes(self, da_dtau: Sequence[Sequence[Scalar]], u: Sequence[Scalar]) -> Any:
        """Returns da/du = da/dtau S, without the columns of controls at their limits."""
        columns = []
        for (k, gear, limit), x in zip(self.actuators, u, strict=True):
            factor: Scalar = gear
            if limit < float("inf"):
                factor = select(x < -limit, 0.0, select(limit < x, 0.0, gear))
            columns.append([row[k] * factor for row in da_dtau])
        return [list(row) for row in zip(*columns, strict=True)]
