"""The softness of a constraint row: MuJoCo's impedance and reference acceleration.

A row with position r and velocity v shall accelerate by a_ref = -b v - k d(r) r. A row with the
impedance d moves a share 1 - d of the way back to the motion without it: its regularisation is
R = (1 - d) / d A, with the inverse inertia A that `inverse_weights` approximates (MuJoCo's
documentation, Computation, "Constraint model").
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.constraints import Gains
from featherlane.robot.parts import Floats
from featherlane.scalar import Scalar, exp, log, maximum, minimum, select

LEAST_IMPEDANCE, MOST_IMPEDANCE = 1e-4, 1 - 1e-4
LEAST = 1e-15  # of an inverse inertia, a width and a time that are divided by


class Softness(NamedTuple):
    """MuJoCo's solref and solimp of a row.

    solref: time constant (s) and damping ratio of the row's motion, or, both negative, stiffness
    and damping. solimp: impedance at r = 0 and from |r| = width on, width, midpoint and power.
    """

    solref: Floats = (0.02, 1.0)
    solimp: Floats = (0.9, 0.95, 0.001, 0.5, 2.0)

    def impedance(self, r: Scalar) -> Scalar:
        """Returns d(r): a sigmoid of two powers that meet at the midpoint."""
        low, high = (_clipped(x) for x in self.solimp[:2])
        width, midpoint, power = self.solimp[2], _clipped(self.solimp[3]), max(self.solimp[4], 1.0)
        if low == high or width <= LEAST:
            return 0.5 * (low + high)
        x = minimum(maximum(r, -r) * (1.0 / width), 1.0)
        rise = x
        if power != 1.0:
            below = midpoint * _power(x * (1.0 / midpoint), power)
            rest = 1.0 - midpoint
            above = 1.0 - rest * _power((1.0 - x) * (1.0 / rest), power)
            rise = select(x <= midpoint, below, above)
        return low + rise * (high - low)

    def gains(self, time_step: Scalar) -> Gains:
        """Returns k and b. A time constant is at least two time steps, so that steps are stable."""
        high = _clipped(self.solimp[1])
        first, second = self.solref
        if first <= 0.0:
            return Gains(-first / (high * high), -second / high)
        rate = 1.0 / (high * maximum(first, 2.0 * time_step))
        ratio = max(second, LEAST)
        return Gains(rate * rate / (ratio * ratio), 2.0 * rate)


def _clipped(impedance: float) -> float:
    return min(max(impedance, LEAST_IMPEDANCE), MOST_IMPEDANCE)


def _power(x: Scalar, n: float) -> Scalar:
    """Returns x^n for x from 0 to 1."""
    if n != int(n) or n > 16:
        return exp(n * log(maximum(x, LEAST)))
    result = x
    for _ in range(int(n) - 1):
        result = result * x
    return result


def stiffness_of(impedance: Scalar, inverse_inertia: Scalar) -> Scalar:
    """Returns D = 1 / R = d / ((1 - d) A)."""
    return impedance / ((1.0 - impedance) * maximum(inverse_inertia, LEAST))
