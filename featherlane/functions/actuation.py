"""Actuators: which joint forces controls make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from operator import add
from typing import Any, Literal, NamedTuple

import numpy as np

from featherlane.errors import shown
from featherlane.robot.actuators import JointActuator
from featherlane.robot.model import Robot
from featherlane.scalar import Scalar, select

INF = float("inf")
FILE = "file"
Rows = list[list[Scalar]]


class Gear(NamedTuple):
    """The place of an actuator: entry `freedom` of v, with a ratio; q there is entry `coordinate`,
    which servos read.
    """

    freedom: int
    ratio: float
    coordinate: int = 0


class Actuator(NamedTuple):
    """The forces ratio f at its gears, where f = gain u + bias[0] + bias[1] l + bias[2] dl/dt, l is
    the sum of ratio q over the gears, u is clipped to `control` and f to `force`. Servos, whose
    bias depends on q or v, have one gear.
    """

    gears: tuple[Gear, ...]
    control: tuple[float, float] = (-INF, INF)
    gain: float = 1.0
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    force: tuple[float, float] = (-INF, INF)

    @property
    def is_servo(self) -> bool:
        """Whether the force depends on the joint's position or velocity."""
        return any(self.bias[1:])

    def effort(self, u: Scalar, q: Sequence[Scalar], v: Sequence[Scalar]) -> Scalar:
        """Returns f before it is clipped; of q and v, servos read the entries of their joint."""
        constant, by_position, by_velocity = self.bias
        f = _clipped(u, self.control)
        f = f if self.gain == 1.0 else self.gain * f
        for k, ratio, coordinate in self.gears if self.is_servo else ():
            f = f + by_position * ratio * q[coordinate] if by_position else f
            f = f + by_velocity * ratio * v[k] if by_velocity else f
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
    def freedoms(self) -> frozenset[int]:
        """The entries of v on which an actuator acts."""
        return frozenset(k for actuator in self.actuators for k, *_ in actuator.gears)

    @property
    def couples(self) -> bool:
        """Whether a control acts on several entries of v."""
        return any(len(actuator.gears) > 1 for actuator in self.actuators)

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
            f = _clipped(actuator.effort(x, q, v), actuator.force)
            for k, ratio, _ in actuator.gears:
                tau[k] = tau[k] + ratio * f
        return tau

    def servo_damping(
        self, nv: int, u: Sequence[Scalar], q: Sequence[Scalar], v: Sequence[Scalar]
    ) -> list[Scalar]:
        """Returns -dtau/dv (nv,) of the servos; 0 where a force is at an end of its range."""
        damping: list[Scalar] = [0.0] * nv
        for actuator, x in zip(self.actuators, u, strict=True):
            if slope := actuator.bias[2]:
                f, ((k, ratio, _),) = actuator.effort(x, q, v), actuator.gears
                damping[k] = damping[k] + _inside(f, actuator.force, -slope * ratio * ratio)
        return damping

    def slopes(self, da_dtau: Sequence[Sequence[Scalar]], u: Sequence[Scalar]) -> Rows:
        """Returns da/du = da/dtau dtau/du of actuators without servos; controls outside of their
        range have columns of zeros.
        """
        pairs = zip(self.actuators, u, strict=True)
        return self._columns(
            da_dtau, [[_inside(x, a.control, gear.ratio) for gear in a.gears] for a, x in pairs]
        )

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
            f = actuator.effort(x, q, v)
            factors.append(
                [
                    _inside(f, actuator.force, _inside(x, actuator.control, ratio * actuator.gain))
                    for _, ratio, _ in actuator.gears
                ]
            )
            if not actuator.is_servo:
                continue
            ((k, ratio, _),) = actuator.gears
            for rows, factor in zip((by_q, by_v), actuator.bias[1:], strict=True):
                slope = _inside(f, actuator.force, ratio * ratio * factor)
                for row, columns in zip(rows, da_dtau, strict=True):
                    row[k] = row[k] + slope * columns[k] if factor else row[k]
        return by_q, by_v, self._columns(da_dtau, factors)

    def _columns(
        self, da_dtau: Sequence[Sequence[Scalar]], factors: Sequence[Sequence[Scalar]]
    ) -> Rows:
        """Returns for each actuator the sum of the columns of its gears, times their factors."""
        pairs = [*zip(self.actuators, factors, strict=True)]
        return [
            [
                reduce(add, [row[k] * x for (k, *_), x in zip(a.gears, of_gears, strict=True)])
                for a, of_gears in pairs
            ]
            for row in da_dtau
        ]


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


def with_actuation(algorithm: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an algorithm (tree, q, v, tau, ...) whose third input is controls u (nu,) where it
    gets an actuation: their joint forces at q and v, those of servos too, take their place.
    """

    @wraps(algorithm)
    def run(
        tree: Any, q: Any, v: Any, u: Any, *more: Any, actuation: Any = None, **options: Any
    ) -> Any:
        tau = u if actuation is None else actuation.forces(tree.nv, u, q, v)
        return algorithm(tree, q, v, tau, *more, **options)

    return run


def matrix_actuators(nv: int, matrix: Any, limits: Any) -> list[Actuator]:
    """Returns an actuator for each column of a matrix (nv, nu), which acts where the column is not
    0; limits: the least and the largest controls, of all or of each. Raises ValueError or TypeError
    naming the argument.
    """
    B = _array("matrix", matrix)
    if B.ndim != 2 or len(B) != nv or not B.shape[1]:
        turned = ", pass matrix.T" if B.ndim == 2 and B.shape[1] == nv else ""
        wanted = f"(nv, nu) = ({nv}, nu), a row for each entry of v{turned}"
        raise ValueError(f"matrix has shape {B.shape}: wanted {wanted}")
    if not np.isfinite(B).all():
        raise ValueError("matrix has entries that are not finite")
    if not (acts := B.any(0)).all():
        raise ValueError(f"column {int(acts.argmin())} of matrix is zero: its control does nothing")
    ranges = np.transpose(_ranges(limits, B.shape[1])).tolist()
    return [
        Actuator(tuple(Gear(int(k), float(x[k])) for k in np.flatnonzero(x)), (low, high))
        for x, (low, high) in zip(B.T, ranges, strict=True)
    ]


def _ranges(limits: Any, nu: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the least and the largest value of each control."""
    if limits is None:
        return np.full(nu, -INF), np.full(nu, INF)
    if not isinstance(limits, Sequence | np.ndarray) or len(limits) != 2:
        raise ValueError(f"limits is {shown(limits)}: wanted (least, largest) controls")
    low, high = (_array("limits", x) for x in limits)
    if not all(x.shape in ((), (nu,)) for x in (low, high)):
        shapes = f"{low.shape} and {high.shape}"
        raise ValueError(f"limits have shapes {shapes}: wanted numbers, or ({nu},), one a control")
    if not np.all(low < high):
        raise ValueError(f"limits is {shown(limits)}: wanted least controls below the largest")
    return np.broadcast_to(low, nu), np.broadcast_to(high, nu)


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(value)}: wanted numbers") from None


def _on_leader(robot: Robot, actuator: JointActuator) -> Actuator:
    """Returns an actuator on the coordinate that its joint has, or follows: where q_joint = ratio q
    + offset, the gear is multiplied by the ratio, and the offset joins the bias.
    """
    i = robot.joint_names.index(actuator.joint)
    _, ratio, offset = robot.joints[i].mimic or ("", 1.0, 0.0)
    constant, by_position, by_velocity = actuator.bias
    bias = (constant + by_position * actuator.gear * offset, by_position, by_velocity)
    gear = Gear(robot.first_v[i], actuator.gear * ratio, robot.first_q[i])
    return Actuator((gear,), actuator.control_range, actuator.gain, bias, actuator.force_range)


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
