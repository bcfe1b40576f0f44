"""Limits and dry friction of joints as soft constraints."""

from __future__ import annotations

from math import isfinite

from featherlane.algorithms.soft.newton import SoftConstraint
from featherlane.algorithms.soft.potentials import DryFriction, OneSided
from featherlane.algorithms.soft.softness import Softness, stiffness_of
from featherlane.scalar import Scalar, minimum, select


def soft_limit(
    k: int,
    q: Scalar,
    qd: Scalar,
    ends: tuple[float, float],
    weight: float,
    softness: Softness,
    time_step: Scalar,
) -> SoftConstraint:
    """Returns the nearer limit of a joint with entry k of v as a constraint.

    ends: lower and upper, of which one may be infinite; weight: the entry of M^-1.
    """
    lower, upper = ends
    if isfinite(lower) and isfinite(upper):
        side = select(q - lower < upper - q, 1.0, -1.0)
        r = minimum(q - lower, upper - q)
    else:
        side, r = (1.0, q - lower) if isfinite(lower) else (-1.0, upper - q)
    impedance, gains = softness.impedance(r), softness.gains(time_step)
    reference = -gains.d * qd - side * (gains.p * impedance * r)
    D = select(r < 0.0, stiffness_of(impedance, weight), 0.0)
    return SoftConstraint([{k: 1.0}], [reference], OneSided(D, side))


def dry_friction(
    k: int, qd: Scalar, most: Scalar, weight: float, softness: Softness, time_step: Scalar
) -> SoftConstraint:
    """Returns the dry friction of a joint with entry k of v as a constraint, whose force is never
    more than `most`, N or N m.
    """
    D = stiffness_of(softness.impedance(0.0), weight)
    reference = -softness.gains(time_step).d * qd
    return SoftConstraint([{k: 1.0}], [reference], DryFriction(D, most))
