"""Springs of joints, torques K (q - q0) that hold a joint back, and soft stops at their limits.

A stop is a one-sided law that is exactly zero inside the limits. At a depth x beyond a limit, with
c = x clipped to 0 .. w, u = c / w and s = u^2 (3 - 2 u),

    force     K (c u / 2 + max(x - w, 0))      a parabola up to the depth w, then K (x - w / 2)
    slope     K u
    damping   b s v                            none at the limit, all of b from the depth w on

so that force, slope and damping are continuous.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.robot.tree import StopLaw, Tree
from featherlane.scalar import Scalar, call, maximum, minimum


def _stretched(torque: Scalar, q: Scalar, stiffness: Scalar, reference: Scalar) -> Scalar:
    return torque + stiffness * (q - reference)


def _relaxed(torque: Scalar, q: Scalar, stiffness: Scalar, reference: Scalar) -> Scalar:
    return torque - stiffness * (q - reference)


def plus_springs(tree: Tree, q: Scalars, qd: Scalars, tau: Scalars) -> list[Scalar]:
    """Returns the torques tau and those that work against the joints' springs and stops."""
    total = list(tau)
    for k, at, stiffness, reference in tree.springs:
        total[k] = call(_stretched, total[k], q[at], stiffness, reference)
    return plus_stops(tree, q, qd, total)


def less_springs(tree: Tree, q: Scalars, qd: Scalars, tau: Scalars) -> list[Scalar]:
    """Returns what is left of the torques tau where springs and stops hold joints back."""
    left = list(tau)
    for k, at, stiffness, reference in tree.springs:
        left[k] = call(_relaxed, left[k], q[at], stiffness, reference)
    return less_stops(tree, q, qd, left)


def spring_slopes(tree: Tree, q: Scalars, qd: Scalars, by_v: list[Scalar]) -> dict[int, Scalar]:
    """Returns dtau_k/dq_k of springs and stops, by entries k of v, and adds dtau_k/dv_k to by_v."""
    by_q = {spring.k: spring.stiffness for spring in tree.springs}
    add_stop_slopes(tree, q, qd, by_q, by_v)
    return by_q


def _with_energy(total: Scalar, q: Scalar, stiffness: Scalar, reference: Scalar) -> Scalar:
    stretch = q - reference
    return total + 0.5 * stiffness * stretch * stretch


def plus_spring_energy(tree: Tree, q: Scalars, energy: Scalar) -> Scalar:
    """Returns an energy and that of the springs, 1/2 K (q - q0)^2, and of the stops."""
    for _, at, stiffness, reference in tree.springs:
        energy = call(_with_energy, energy, q[at], stiffness, reference)
    return plus_stop_energy(tree, q, energy)


# Soft stops


class Contact(NamedTuple):
    """The depth of a contact: c, clipped to 0 .. w, u, its share of w, and what is deeper."""

    c: Scalar
    u: Scalar
    deeper: Scalar

    @staticmethod
    def of(law: StopLaw, q: Scalar) -> Contact:
        depth = law.sign * (q - law.limit)
        c = maximum(minimum(depth, law.width), 0.0)
        return Contact(c, c / law.width, maximum(depth - law.width, 0.0))

    @property
    def share(self) -> Scalar:
        """The share s of the damping."""
        return self.u * self.u * (3.0 - 2.0 * self.u)

    @property
    def share_slope(self) -> Scalar:
        """ds/du."""
        return 6.0 * (self.u * (1.0 - self.u))


def _stop_torque(law: StopLaw, q: Scalar, qd: Scalar) -> Scalar:
    """Returns the torque that pushes a joint into its stop at a velocity qd."""
    x = Contact.of(law, q)
    force = law.stiffness * (0.5 * (x.c * x.u) + x.deeper)
    return law.sign * force + law.damping * (x.share * qd)


def _plus_stop(torque: Scalar, law: StopLaw, q: Scalar, qd: Scalar) -> Scalar:
    return torque + _stop_torque(law, q, qd)


def _less_stop(torque: Scalar, law: StopLaw, q: Scalar, qd: Scalar) -> Scalar:
    return torque - _stop_torque(law, q, qd)


def plus_stops(tree: Tree, q: Scalars, qd: Scalars, tau: Scalars) -> list[Scalar]:
    """Returns the torques tau and those that push joints into their stops."""
    total = list(tau)
    for k, at, law in tree.stops:
        total[k] = call(_plus_stop, total[k], law, q[at], qd[k])
    return total


def less_stops(tree: Tree, q: Scalars, qd: Scalars, tau: Scalars) -> list[Scalar]:
    """Returns what is left of the torques tau where stops hold joints back."""
    left = list(tau)
    for k, at, law in tree.stops:
        left[k] = call(_less_stop, left[k], law, q[at], qd[k])
    return left


def _with_stop_slopes(
    by_q: Scalar, by_v: Scalar, law: StopLaw, q: Scalar, qd: Scalar
) -> tuple[Scalar, Scalar]:
    """Returns by_q and by_v with the derivatives of a stop's torque by q and qd added."""
    x = Contact.of(law, q)
    slope = law.stiffness * x.u + law.sign * law.damping * (x.share_slope / law.width) * qd
    return by_q + slope, by_v + law.damping * x.share


def add_stop_slopes(
    tree: Tree, q: Scalars, qd: Scalars, by_q: dict[int, Scalar], by_v: list[Scalar]
) -> None:
    """Adds the derivatives of the stops' torques to others, by entries of v (in place)."""
    for k, at, law in tree.stops:
        before = by_q.get(k, 0.0), by_v[k]
        by_q[k], by_v[k] = call(_with_stop_slopes, *before, law, q[at], qd[k])


class ImplicitStop(NamedTuple):
    """The damping b s and the stiffness K s of a stop in an implicit step, and their derivatives by
    q.

    K s has a continuous slope, and from u = 0.09 on it is above a quarter of the true slope K u,
    which is enough for stability.
    """

    damping: Scalar
    stiffness: Scalar
    damping_slope: Scalar
    stiffness_slope: Scalar

    @staticmethod
    def of(law: StopLaw, q: Scalar) -> ImplicitStop:
        x = Contact.of(law, q)
        slope = law.sign * (x.share_slope / law.width)
        return ImplicitStop(
            law.damping * x.share, law.stiffness * x.share, law.damping * slope,
            law.stiffness * slope,
        )  # fmt: skip


def _with_stop_energy(energy: Scalar, law: StopLaw, q: Scalar) -> Scalar:
    """Adds the energy of a stop; where anything is deeper than the width, c is the width."""
    x = Contact.of(law, q)
    deeper = 0.5 * (x.deeper * (x.deeper + x.c))
    return energy + law.stiffness * (x.c * x.c * x.u * (1 / 6) + deeper)


def plus_stop_energy(tree: Tree, q: Scalars, energy: Scalar) -> Scalar:
    """Returns an energy and that of the joints' stops."""
    for _, at, law in tree.stops:
        energy = call(_with_stop_energy, energy, law, q[at])
    return energy
