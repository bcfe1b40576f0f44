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
    TreeScans,
    angular_velocities,
    ground_of,
    parent_bias,
    scanned_motions,
    subtree_forces,
    velocities_and_accelerations,
)
from featherlane.algorithms.rnea import add_torques
from featherlane.algorithms.springs import plus_springs
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
    """Returns tau of `rnea`, nv scalars, with the depth of a scan.

    A wrench at the tip is the f_ext of the last body. together: velocities and accelerations come
    from one scan of the semidirect product. Otherwise one scan gives the angular velocities, and
    another the classical accelerations of the bodies' origins, which do not depend on linear
    velocities (Luh, Walker and Paul 1980): fewer operations and smaller rounding errors. method: a
    method of `path_scan`, with its options; raises ValueError for any other.
    """
    f_ext = no_wrenches(tree) if f_ext is None else f_ext
    forces = _forces_together if together else _forces_in_turn
    f = forces(tree, q, qd, qdd, f_ext, TreeScans(tree.parent, method, options))
    return plus_springs(tree, q, qd, joint_torques(tree, f, qd, qdd))


def _forces_together(
    tree: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches, scans: TreeScans
) -> list[Vector]:
    """Returns the forces on all subtrees, from one scan of velocities and accelerations."""
    ground = tree.base_velocity, call(_spatial_acceleration, tree.base_velocity, ground_of(tree))
    joints, bodies = velocities_and_accelerations(tree, q, qd, qdd, ground, scans)
    f = [
        call(_body_force, link.inertia, m.v, m.a, f_ext[i])
        for i, (link, m) in enumerate(zip(tree.links, bodies, strict=True))
    ]
    return subtree_forces([joint.X for joint in joints], f, scans)


def newton_euler(inertia: Inertia, v: Vector, a: Vector) -> Vector:
    """Returns I a + v x* I v for a spatial velocity and acceleration."""
    (w, vo), (dw, ao) = split(v), split(a)
    return inertia.wrench(rigid_acceleration(w, dw), ao + cross(w, vo))


def _body_force(inertia: Inertia, v: Vector, a: Vector, f_ext: Vector) -> Vector:
    return newton_euler(inertia, v, a) - f_ext


def _forces_in_turn(
    tree: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches, scans: TreeScans
) -> list[Vector]:
    """Returns the forces on all subtrees, from a scan of angular velocities and one of a."""
    X, wp, w = angular_velocities(tree, q, qd, scans)
    joints = [
        call(
            _joint_acceleration, link, X[i], wp[i], *[joint_entries(tree, i, x) for x in (qd, qdd)]
        )
        for i, link in enumerate(tree.links)
    ]
    a = scanned_motions(X, joints, ground_of(tree), scans)
    f = [call(_force, link.inertia, *x) for link, *x in zip(tree.links, w, a, f_ext, strict=True)]
    return subtree_forces(X, f, scans)


def _spatial_acceleration(velocity: Vector, acceleration: Vector) -> Vector:
    """Returns the spatial acceleration for a classical acceleration of the origin."""
    (w, vo), (dw, a) = split(velocity), split(acceleration)
    return spatial(dw, a - cross(w, vo))


def _joint_acceleration(link: Link, X: Transform, wp: Vector, qd: Scalars, qdd: Scalars) -> Vector:
    """Returns what a joint adds to its parent's acceleration."""
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


def joint_torques(tree: Tree, f: Wrenches, qd: Scalars, qdd: Scalars) -> list[Scalar]:
    """Returns S^T f of all joints, with the torques of armature and resistance.

    Joints that share an entry of v all have its armature and resistance: the first one's count.
    """
    tau: dict[int, Scalar] = {}
    for i, link in enumerate(tree.links):
        indices = [k for k, _ in tree.freedoms[i]]
        if tau.keys() & indices:
            torques = call(add_torques, link, f[i], [tau[k] for k in indices])
        else:
            rates = joint_entries(tree, i, qd), joint_entries(tree, i, qdd)
            torques = call(_torques, link, f[i], *rates)
        tau.update(zip(indices, torques, strict=True))
    return [tau[k] for k in range(tree.nv)]
