"""Kinematics, friction and index arithmetic that all dynamics algorithms share."""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.algorithms.turned_armature import turning_torques
from featherlane.robot.spatial import ZERO3, ZERO6, Matrix, Transform, Vector, spatial
from featherlane.robot.tree import Link, Tree
from featherlane.scalar import Scalar, sqrt

Scalars = Sequence[Scalar]
Wrenches = Sequence[Vector]


def link_motion(link: Link, rates: Scalars) -> Vector:
    """Returns S times the joint's rates, one for each degree of freedom."""
    motion = ZERO6
    for S, rate in zip(link.S, rates, strict=True):
        motion = motion + S * rate
    return motion


def joint_coordinates(model: Tree, i: int, q: Scalars) -> list[Scalar]:
    """Returns the entries of q that joint i reads."""
    return [q[source.k] for source in model.sources[i]]


def joint_entries(model: Tree, i: int, v: Scalars) -> list[Scalar]:
    """Returns joint i's entries of v, or of another vector of nv scalars."""
    return [v[k] for k, _ in model.freedoms[i]]


def joint_state(model: Tree, i: int, q: Scalars, *rates: Scalars) -> list[list[Scalar]]:
    """Returns joint i's `joint_coordinates`, and its entries of each of the rates."""
    return [joint_coordinates(model, i, q), *[joint_entries(model, i, x) for x in rates]]


def put_entries(model: Tree, i: int, v: list[Scalar], entries: Scalars) -> None:
    """Writes joint i's entries of v."""
    for (k, _), x in zip(model.freedoms[i], entries, strict=True):
        v[k] = x


def rigid_acceleration(w: Vector, dw: Sequence[Scalar]) -> Matrix:
    """Returns U = dw x + w x w x: a body's point x accelerates by U x more than its origin."""
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return (
        Vector((-(yy + zz), xy - dw[2], xz + dw[1])),
        Vector((xy + dw[2], -(xx + zz), yz - dw[0])),
        Vector((xz - dw[1], yz + dw[0], -(xx + yy))),
    )


def add_force(X: Transform, f: Vector, parent: Vector) -> Vector:
    """Adds a body's force to its parent's: a step of the sums over subtrees."""
    return parent + X.force_to_parent(f)


def link_resistance(link: Link, velocities: Scalars) -> list[Scalar]:
    """Returns the torques that a joint's velocities need: those that overcome its damping and
    smoothed Coulomb friction, and those that turn the momentum of its armature.
    """
    torques: list[Scalar] = []
    for damping, frictions, v in zip(link.damping, link.frictions, velocities, strict=True):
        torques.append(damping * v)
        for f, v0 in frictions:
            torques[-1] = torques[-1] + f * (v / sqrt(v * v + v0 * v0))
    if link.turned_armature:
        turning = turning_torques(link, velocities)
        torques = [t + x for t, x in zip(torques, turning, strict=True)]
    return torques


def net_torques(link: Link, velocities: Scalars, tau: Scalars) -> list[Scalar]:
    """Returns a joint's torques less those of `link_resistance`."""
    return [t - r for t, r in zip(tau, link_resistance(link, velocities), strict=True)]


def link_resistance_slope(link: Link, velocities: Scalars) -> list[Scalar]:
    """Returns the derivatives of damping and friction in `link_resistance`, each by the
    velocity of its freedom; `turning_slopes` has the rest.
    """
    slopes: list[Scalar] = []
    for damping, frictions, v in zip(link.damping, link.frictions, velocities, strict=True):
        slopes.append(damping)
        for f, v0 in frictions:
            square = v * v + v0 * v0
            slopes[-1] = slopes[-1] + f * (v0 * v0 / (square * sqrt(square)))
    return slopes


def resistance_secant(tree: Tree, v: Scalars) -> list[Scalar]:
    """Returns the diagonal of R(v), by which the joints resist motion with R(v) v: damping, and
    f / sqrt(v^2 + v0^2) of smoothed Coulomb friction.
    """
    secants: list[Scalar] = []
    for damping, frictions, x in zip(tree.damping, tree.frictions, v, strict=True):
        secants.append(damping)
        for f, v0 in frictions:
            secants[-1] = secants[-1] + f / sqrt(x * x + v0 * v0)
    return secants


def resistance_secant_slope(tree: Tree, v: Scalars) -> list[Scalar]:
    """Returns the derivatives of `resistance_secant`, each by the velocity of its freedom."""
    slopes: list[Scalar] = []
    for frictions, x in zip(tree.frictions, v, strict=True):
        slopes.append(0.0)
        for f, v0 in frictions:
            square = x * x + v0 * v0
            slopes[-1] = slopes[-1] - f * (x / (square * sqrt(square)))
    return slopes


def no_wrenches(model: Tree) -> list[Vector]:
    return [ZERO6] * model.nbodies


def ground_acceleration(gravity: Vector, acceleration: Vector = ZERO6) -> Vector:
    """Returns the ground's acceleration less gravity, which gives all bodies their weight."""
    return acceleration - spatial(ZERO3, gravity)
