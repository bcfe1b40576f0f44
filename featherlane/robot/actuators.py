"""Actuators, as a robot's file describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

Floats = tuple[float, ...]
INF = float("inf")
UNLIMITED = (-INF, INF)


@dataclass(frozen=True)
class JointActuator:
    """An actuator of the robot's file that acts on one joint with one degree of freedom.

    A control u causes the joint force gear * f, where f = gain u + bias[0] + bias[1] gear q +
    bias[2] gear v. u is clipped to control_range, and f to force_range. This is MuJoCo's law of
    actuators without activation.

    Arguments:
        name: the name of the actuator
        joint: the name of the joint
        gear: the ratio of joint force to f
        gain: N m or N per unit of u
        bias: (3,): N m or N; per unit of gear q; per unit of gear v
        control_range: (least, largest) u
        force_range: (least, largest) f, N m or N

    Examples:
        >>> servo = fl.JointActuator("knee", "knee", gain=60.0, bias=(0.0, -60.0, -2.0))
        >>> servo.kind
        'position'
    """

    name: str
    joint: str
    gear: float = 1.0
    gain: float = 1.0
    bias: Floats = (0.0, 0.0, 0.0)
    control_range: tuple[float, float] = UNLIMITED
    force_range: tuple[float, float] = UNLIMITED

    @property
    def kind(self) -> str:
        """ "motor", "position" or "velocity" servo, or "general", by gain and bias."""
        constant, by_position, by_velocity = self.bias
        if constant:
            return "general"
        if not (by_position or by_velocity):
            return "motor"
        if by_position:
            return "position" if by_position == -self.gain else "general"
        return "velocity" if by_velocity == -self.gain else "general"


def on_joints(
    actuators: Iterable[JointActuator], names: Mapping[str, str]
) -> tuple[JointActuator, ...]:
    """Returns the actuators of these joints, under the joints' new names."""
    return tuple(replace(a, joint=names[a.joint]) for a in actuators if a.joint in names)
