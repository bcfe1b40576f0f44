"""Actuators: which joint forces controls make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from featherlane.robot.actuators import JointActuator
from featherlane.robot.model import Robot
from featherlane.scalar import Scalar, select

INF = float("inf")
FILE = "file"
Rows = list[list[Scalar]]


class Actuator(NamedTuple):
    """The force gear f on entry `freedom` of v, where f = gain u + bias[0] + bias[1] gear q +
    bias[2] gear v, u is clipped to `control` and f to `force`; q is entry `coordinate`.
    """

    freedom: int
    gear: float
    control: tuple[float, float] = (-INF, INF)
    gain: float = 1.0
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    force: tuple[float, float] = (-INF, INF)
    coordinate: int = 0

    @property
    def is_servo(self) -> bool:
        """Whether the force depends on the joint's position or velocity."""
        return any(self.bias[1:])

    def effort(self, u: Scalar, q: Sequence[Scalar], v: Sequence[Scalar]) -> Scalar:
        """Returns f before it is clipped; of q and v, servos read the entries of their joint."""
        constant, by_position, by_velocity = self.bias
        f = _clipped(u, self.control)
        f = f if self.gain == 1.0 else self.gain * f
        if by_position:
            f = f + by_position * self.gear * q[self.coordinate]
        if by_velocity:
            f = f + by_velocity * self.gear * v[self.freedom]
        return f + constant if constant else f


class Actuation(NamedTuple):
    """Actuators in the order of the controls u (nu,), whose forces are added on each joint.

    Examples:
        >>> arm.actuation(["joint2"], clip=False).controls
        1
    """

    actuators: tuple[Actuator, ...]

    @property
    def controls(self) -> int:
        """nu."""
        return len(self.actuators)

    @property
    def has_servos(self) -> bool:
        """Whether forces depend on the state, so that they differ between the stages of an
        integrator.
        """
        return any(actuator.is_servo for actuator in self.actuators)

    def forces(
        self, nv: int, u: Sequence[Scalar], q: Sequence[Scalar] = (), v: Sequence[Scalar] = ()
    ) -> list[Scalar]:
        """Returns tau (nv,). q and v are read by servos only."""
        tau: list[Scalar] = [0.0] * nv
        for actuator, x in zip(self.actuators, u, strict=True):
            k, f = actuator.freedom, _clipped(actuator.effort(x, q, v), actuator.force)
            tau[k] = tau[k] + actuator.gear * f
        return tau

    def servo_damping(
        self, nv: int, u: Sequence[Scalar], q: Sequence[Scalar], v: Sequence[Scalar]
    ) -> list[Scalar]:
        """Returns -dtau/dv (nv,) of the servos; 0 where a force is at an end of its range."""
        damping: list[Scalar] = [0.0] * nv
        for actuator, x in zip(self.actuators, u, strict=True):
            k, slope = actuator.freedom, actuator.bias[2]
            if slope:
                f = actuator.effort(x, q, v)
                resistance = _inside(f, actuator.force, -slope * actuator.gear * actuator.gear)
                damping[k] = damping[k] + resistance
        return damping

    def slopes(self, da_dtau: Sequence[Sequence[Scalar]], u: Sequence[Scalar]) -> Rows:
        """Returns da/du = da/dtau dtau/du of actuators without servos; controls outside of their
        range have columns of zeros.
        """
        pairs = zip(self.actuators, u, strict=True)
        return self._columns(da_dtau, [_inside(x, a.control, a.gear) for a, x in pairs])

    def servo_slopes(
        self,
        q: Sequence[Scalar],
        v: Sequence[Scalar],
        da_dq: Sequence[Sequence[Scalar]],
        da_dv: Sequence[Sequence[Scalar]],
        da_dtau: Sequence[Sequence[Scalar]],
        u: Sequence[Scalar],
    ) -> tuple[Rows, Rows, Rows]:
        """Returns da/dq and da/dv with what servos add to them by the chain rule, and da/du."""
        by_q, by_v, factors = [list(row) for row in da_dq], [list(row) for row in da_dv], []
        for actuator, x in zip(self.actuators, u, strict=True):
            k, gear, f = actuator.freedom, actuator.gear, actuator.effort(x, q, v)
            factors.append(
                _inside(f, actuator.force, _inside(x, actuator.control, gear * actuator.gain))
            )
            for rows, factor in zip((by_q, by_v), actuator.bias[1:], strict=True):
                slope = _inside(f, actuator.force, gear * gear * factor)
                for row, columns in zip(rows, da_dtau, strict=True):
                    row[k] = row[k] + slope * columns[k] if factor else row[k]
        return by_q, by_v, self._columns(da_dtau, factors)

    def _columns(self, da_dtau: Sequence[Sequence[Scalar]], factors: Sequence[Scalar]) -> Rows:
        """Returns for each actuator the column of its freedom, times a factor."""
        places = [actuator.freedom for actuator in self.actuators]
        return [[row[k] * x for k, x in zip(places, factors, strict=True)] for row in da_dtau]


Actuated = Actuation | Literal["file"] | None
"""What methods take as `actuation`: None for joint forces, "file" for `file_actuation`."""


def file_actuation(robot: Robot) -> Actuation:
    """Returns the actuators of the robot's file. Raises ValueError if it has none."""
    if not robot.actuators:
        raise ValueError(
            f"{robot.name!r} has no actuators from its file: wanted model.actuation([...]) with "
            "names of joints, or no actuation, for joint forces"
        )
    return Actuation(tuple(_on_leader(robot, actuator) for actuator in robot.actuators))


def _on_leader(robot: Robot, actuator: JointActuator) -> Actuator:
    """Returns an actuator on the coordinate that its joint has, or follows: where q_joint = ratio q
    + offset, the gear is multiplied by the ratio, and the offset joins the bias.
    """
    i = robot.joint_names.index(actuator.joint)
    _, ratio, offset = robot.joints[i].mimic or ("", 1.0, 0.0)
    constant, by_position, by_velocity = actuator.bias
    bias = (constant + by_position * actuator.gear * offset, by_position, by_velocity)
    return Actuator(
        robot.first_v[i],
        actuator.gear * ratio,
        actuator.control_range,
        actuator.gain,
        bias,
        actuator.force_range,
        robot.first_q[i],
    )


def _clipped(x: Scalar, limits: tuple[float, float]) -> Scalar:
    low, high = limits
    if low > -INF and high < INF:
        return select(x < low, low, select(high < x, high, x))
    x = select(x < low, low, x) if low > -INF else x
    return select(high < x, high, x) if high < INF else x


def _inside(x: Scalar, limits: tuple[float, float], value: Scalar) -> Scalar:
    """Returns a value where x is within limits, else 0."""
    low, high = limits
    value = select(high < x, 0.0, value) if high < INF else value
    return select(x < low, 0.0, value) if low > -INF else value
