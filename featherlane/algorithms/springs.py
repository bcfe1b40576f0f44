"""Springs of joints, torques K (q - q0) that hold a joint back, and their soft stops."""

from __future__ import annotations

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.stops import add_stop_slopes, less_stops, plus_stop_energy, plus_stops
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, call


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
