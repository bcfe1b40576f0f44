"""Inverse dynamics by scans: Yang, Wu and Pan, Parallel dynamics computation using prefix sum
operations (2016), section III.
"""

from __future__ import annotations

from featherlane.algorithms.kinematics import (
    Scalars,
    Wrenches,
    joint_motion,
    no_wrenches,
    resistance,
    rigid_acceleration,
)
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    carried_inwards,
    carried_outwards,
    joint_transforms,
    motions,
    resting_ground,
    terms,
)
from featherlane.scalar import Scalar
from featherlane.spatial import ZERO6, Inertia, Vector, cross, dot, spatial, split
from featherlane.tree import Tree


def scanned_inverse_dynamics(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches | None = None,
    base_velocity: Vector = ZERO6,
    base_acceleration: Vector = ZERO6,
    method: str = METHOD,
    together: bool = False,
) -> list[Scalar]:
    """tau of `rnea`, nv scalars, with the depth of a scan; also on a ground that moves.

    base_velocity, base_acceleration: spatial, [angular; linear] in the ground's axes at its origin;
    gravity comes on top. A wrench at the tip is the f_ext of the last body. together: velocities
    and accelerations come from one scan of the semidirect product; else one scan gives the angular
    velocities, and another the accelerations of the bodies' origins as points in space, which
    linear velocities do not enter (Luh, Walker and Paul 1980): fewer operations and rounding
    errors. method: one of `path_scan`; ValueError for any other.
    """
    f_ext = no_wrenches(tree) if f_ext is None else f_ext
    base = base_velocity, base_acceleration
    forces = _forces_together if together else _forces_in_turn
    return torques(tree, forces(tree, q, qd, qdd, f_ext, base, method), qd, qdd)


Base = tuple[Vector, Vector]


def _forces_together(
    tree: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches, base: Base, method: str
) -> list[Vector]:
    X = joint_transforms(tree, q)
    own = [(joint_motion(tree, i, qd), joint_motion(tree, i, qdd)) for i in range(tree.nbodies)]
    ground = base[0], base[1] + resting_ground(tree)
    scanned = motions(tree, X, own, ground, method)
    f = [newton_euler(tree.inertias[i], m.v, m.a) - f_ext[i] for i, m in enumerate(scanned)]
    return carried_inwards(tree, X, f, method)


def newton_euler(inertia: Inertia, v: Vector, a: Vector) -> Vector:
    """I a + v x* I v, of a spatial acceleration."""
    (w, vo), (dw, ao) = split(v), split(a)
    return inertia.wrench(rigid_acceleration(w, dw), ao + cross(w, vo))


def _forces_in_turn(
    tree: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches, base: Base, method: str
) -> list[Vector]:
    (w, vo), (dw, ao) = split(base[0]), split(base[1])
    t = terms(tree, q, qd, w, method)
    own = [t.v[i].c + joint_motion(tree, i, qdd) for i in range(tree.nbodies)]
    ground = spatial(dw, ao + cross(w, vo)) + resting_ground(tree)
    a = carried_outwards(tree, t.X, own, ground, method)
    f = [
        tree.inertias[i].wrench(rigid_acceleration(t.v[i].w, x[:3]), Vector(x[3:])) - f_ext[i]
        for i, x in enumerate(a)
    ]
    return carried_inwards(tree, t.X, f, method)


def torques(tree: Tree, f: Wrenches, qd: Scalars, qdd: Scalars) -> list[Scalar]:
    """S^T f of all joints, and what armature and resistance ask of them."""
    tau = [
        tree.armature[k] * a + resistance(tree, k, v)
        for k, (v, a) in enumerate(zip(qd, qdd, strict=True))
    ]
    for i, own in enumerate(tree.freedoms):
        for k, S in own:
            tau[k] = tau[k] + dot(S, f[i])
    return tau
