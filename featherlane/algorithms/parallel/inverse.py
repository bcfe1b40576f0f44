"""Inverse dynamics by scans: Yang, Wu and Pan, Parallel dynamics computation using prefix sum
operations (2016), section III.
"""

from __future__ import annotations

from featherlane.algorithms.aba import carried_bias
from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    joint_entries,
    link_motion,
    link_resistance,
    no_wrenches,
    rigid_acceleration,
)
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    carried_inwards,
    carried_outwards,
    ground_of,
    motions,
    parent_bias,
    spinning,
)
from featherlane.algorithms.rnea import torques as follower_torques
from featherlane.robot.spatial import Inertia, Transform, Vector, cross, dot, spatial, split
from featherlane.robot.tree import Link, Tree
from featherlane.scalar import Scalar, call


def scanned_inverse_dynamics(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
    together: bool = False,
    **options: int,
) -> list[Scalar]:
    """tau of `rnea`, nv scalars, with the depth of a scan.

    A wrench at the tip is the f_ext of the last body. together: velocities and accelerations come
    from one scan of the semidirect product; else one scan gives the angular velocities, and another
    the accelerations of the bodies' origins as points in space, which linear velocities do not
    enter (Luh, Walker and Paul 1980): fewer operations and rounding errors. method: one of
    `path_scan`, with its options; ValueError for any other.
    """
    f_ext = no_wrenches(tree) if f_ext is None else f_ext
    forces = _forces_together if together else _forces_in_turn
    return torques(tree, forces(tree, q, qd, qdd, f_ext, method, **options), qd, qdd)


def _forces_together(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches,
    method: str,
    **options: int,
) -> list[Vector]:
    ground = tree.base_velocity, call(_in_space, tree.base_velocity, ground_of(tree))
    joints, moving = motions(tree, q, qd, qdd, ground, method, **options)
    f = [
        call(_force_of_motion, link.inertia, m.v, m.a, f_ext[i])
        for i, (link, m) in enumerate(zip(tree.links, moving, strict=True))
    ]
    return carried_inwards(tree, [joint.X for joint in joints], f, method, **options)


def newton_euler(inertia: Inertia, v: Vector, a: Vector) -> Vector:
    """I a + v x* I v, of a spatial acceleration."""
    (w, vo), (dw, ao) = split(v), split(a)
    return inertia.wrench(rigid_acceleration(w, dw), ao + cross(w, vo))


def _force_of_motion(inertia: Inertia, v: Vector, a: Vector, f_ext: Vector) -> Vector:
    return newton_euler(inertia, v, a) - f_ext


def _forces_in_turn(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches,
    method: str,
    **options: int,
) -> list[Vector]:
    X, wp, w = spinning(tree, q, qd, method, **options)
    own = [
        call(_added, link, X[i], wp[i], joint_entries(tree, i, qd), joint_entries(tree, i, qdd))
        for i, link in enumerate(tree.links)
    ]
    a = carried_outwards(tree, X, own, ground_of(tree), method, **options)
    f = [call(_force, link.inertia, *x) for link, *x in zip(tree.links, w, a, f_ext, strict=True)]
    return carried_inwards(tree, X, f, method, **options)


def _in_space(velocity: Vector, acceleration: Vector) -> Vector:
    """The spatial acceleration of the ground, for that of its origin as a point in space."""
    (w, vo), (dw, a) = split(velocity), split(acceleration)
    return spatial(dw, a - cross(w, vo))


def _added(link: Link, X: Transform, wp: Vector, qd: Scalars, qdd: Scalars) -> Vector:
    """What a joint adds to its parent's acceleration."""
    return carried_bias(X, parent_bias(wp), link_motion(link, qd)).c + link_motion(link, qdd)


def _force(inertia: Inertia, w: Vector, a: Vector, f_ext: Vector) -> Vector:
    return inertia.wrench(rigid_acceleration(w, a[:3]), Vector(a[3:])) - f_ext


# Torques


def _torques(link: Link, f: Vector, qd: Scalars, qdd: Scalars) -> list[Scalar]:
    resistance = link_resistance(link, qd)
    return [
        I * a + r + dot(S, f)
        for I, a, r, S in zip(link.armature, qdd, resistance, link.S, strict=True)
    ]


def torques(tree: Tree, f: Wrenches, qd: Scalars, qdd: Scalars) -> list[Scalar]:
    """S^T f of all joints, and what armature and resistance ask of them. Of bodies that share a
    coordinate the first counts for its physics, which all of them have.
    """
    tau: dict[int, Scalar] = {}
    for i, link in enumerate(tree.links):
        own = [k for k, _ in tree.freedoms[i]]
        if tau.keys() & own:
            found = call(follower_torques, link, f[i], [tau[k] for k in own])
        else:
            rates = joint_entries(tree, i, qd), joint_entries(tree, i, qdd)
            found = call(_torques, link, f[i], *rates)
        tau.update(zip(own, found, strict=True))
    return [tau[k] for k in range(tree.nv)]
