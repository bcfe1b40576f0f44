"""Springs of joints: torques K (q - q0) that hold a joint back, their slopes and their energy."""

from __future__ import annotations

from featherlane.algorithms.common import Scalars
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, call


def _stretched(torque: Scalar, q: Scalar, stiffness: Scalar, reference: Scalar) -> Scalar:
    return torque + stiffness * (q - reference)


def _relaxed(torque: Scalar, q: Scalar, stiffness: Scalar, reference: Scalar) -> Scalar:
    return torque - stiffness * (q - reference)


def plus_springs(tree: Tree, q: Scalars, tau: Scalars) -> list[Scalar]:
    """Returns the torques tau and those that stretch the joints' springs."""
    total = list(tau)
    for k, at, stiffness, reference in tree.springs:
        total[k] = call(_stretched, total[k], q[at], stiffness, reference)
    return total


def less_springs(tree: Tree, q: Scalars, tau: Scalars) -> list[Scalar]:
    """Returns what is left of the torques tau where springs hold joints back."""
    left = list(tau)
    for k, at, stiffness, reference in tree.springs:
        left[k] = call(_relaxed, left[k], q[at], stiffness, reference)
    return left


def spring_slopes(tree: Tree) -> dict[int, Scalar]:
    """Returns dtau_k/dq_k of the springs, by entries k of v."""
    return {spring.k: spring.stiffness for spring in tree.springs}


def _with_energy(total: Scalar, q: Scalar, stiffness: Scalar, reference: Scalar) -> Scalar:
    stretch = q - reference
    return total + 0.5 * stiffness * stretch * stretch


def plus_spring_energy(tree: Tree, q: Scalars, energy: Scalar) -> Scalar:
    """Returns an energy and that of the springs, 1/2 K (q - q0)^2."""
    for _, at, stiffness, reference in tree.springs:
        energy = call(_with_energy, energy, q[at], stiffness, reference)
    return energy
