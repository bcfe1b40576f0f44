"""Restitution of impacts, shortened where it would add kinetic energy.

Newton's law asks a contact that closes with the normal velocity u_n- for u_n' >= -e u_n-. Beside
friction it adds energy in some eccentric impacts (Kane and Levinson, Dynamics, 1985; Stronge,
Impact Mechanics, 2000), since friction may push along the way that the body bounces.
Impulses p do the work

    W(p) = p . (u- + u') / 2,    u' = u_free + S p,

of the velocities along the rows before and after the step. With the impulses p0 without
restitution and p1 with Newton's, all between are within the cones of friction and let no contact
approach faster than without restitution. A step takes

    p = p0 + s (p1 - p0),    s = the largest number in 0..1 with W(p) <= max(W(p0), 0):

W is quadratic in s and convex. Impacts without friction have s = 1, as do single contacts that roll
or slide on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.robot.spatial import dot
from featherlane.scalar import Scalar, maximum, minimum, select, sqrt

LEAST = 1e-36  # J^2, of a discriminant whose root counts


def share_without_gain(work: Scalar, slope: Scalar, half_square: Scalar) -> Scalar:
    """Returns the largest s from 0 to 1 with work + slope s + half_square s^2 <= max(work, 0)."""
    lost = minimum(work, 0.0)
    root = sqrt(maximum(slope * slope - 4.0 * half_square * lost, LEAST))
    is_rising = slope > 0.0
    above = select(is_rising, -2.0 * lost, root - slope)
    below = select(is_rising, slope + root, 2.0 * half_square)  # without cancellation
    gains = lost + slope + half_square > 0.0
    return select(gains, minimum(above / select(gains, below, 1.0), 1.0), 1.0)


def share_of_motions(twice_mean: Scalars, changes: Scalars, pulls: Sequence[Scalars]) -> Scalar:
    """Returns s from J^T p of both solutions. twice_mean: v + v' without restitution, changes: how
    much Newton's changes v'.
    """
    pull, more = pulls[0], [y - x for x, y in zip(*pulls, strict=True)]
    slope = dot(more, twice_mean) + dot(pull, changes)
    return share_without_gain(0.5 * dot(pull, twice_mean), 0.5 * slope, 0.5 * dot(more, changes))


def shortened(end: Scalars, change: Scalars, share: Scalar) -> list[Scalar]:
    """Returns end - (1 - share) change: the end itself, to the bit, if the share is 1."""
    return [x - (1.0 - share) * d for x, d in zip(end, change, strict=True)]


class Rebound(NamedTuple):
    """Restitution of a step: how much it raises the least velocity along each row, and the sums
    u- + u_free of velocities. by_constraints: twice the work of constraints without contacts.
    """

    rise: list[Scalar]
    twice_mean: list[Scalar]
    by_constraints: Scalar = 0.0

    def share(self, p: Scalars, change: Scalars, products: tuple[Scalar, Scalar, Scalar]) -> Scalar:
        """Returns s, for the impulses p without restitution and their change d to Newton's.
        products: p . S p, d . S p and d . S d.
        """
        square, mixed, of_change = products
        work = 0.5 * (dot(p, self.twice_mean) + square + self.by_constraints)
        slope = 0.5 * dot(change, self.twice_mean) + mixed
        return share_without_gain(work, slope, 0.5 * of_change)
