"""Rigid-body dynamics once more, the plain way, as an oracle: 6 x 6 matrices on the bodies of the
file, nothing turned, regrouped or folded. Featherstone 2008: Plücker transforms of section 2.8,
the recursive Newton-Euler algorithm of table 5.1, in body coordinates, [angular; linear].

All functions take q (..., nq), v (..., nv) and broadcast over what is in front.
"""

import dataclasses

import numpy as np

from featherlane.api.random_robots import random_tree
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parts import WORLD, Mimic


def tree(types, parents=None, seed=0, physics=False, mimic=None):
    """A random robot whose joint i is of types[i]; a chain, unless parents are given.

    physics: joints have armature, damping and friction. mimic: {follower: leader}, by number.
    """
    parents = range(-1, len(types) - 1) if parents is None else parents
    base, rng = random_tree(len(types), 1, seed=seed), np.random.default_rng(seed)
    joints = []
    for i, (joint, kind, parent) in enumerate(zip(base.joints, types, parents, strict=True)):
        second = rng.normal(size=3)
        changes = {"axis2": tuple(second / np.linalg.norm(second)), "pitch": rng.normal() / 3}
        if physics:
            n = JOINT_TYPES[kind].nv
            names = ("armature", "damping", "friction")
            changes |= {name: tuple(rng.uniform(0.1, 1, n)) for name in names}
        if i in (mimic or {}):
            changes["mimic"] = Mimic(f"joint{mimic[i]}", rng.normal(), rng.normal())
        joints.append(dataclasses.replace(joint, type=kind, parent=parent, **changes))
    return dataclasses.replace(base, joints=tuple(joints), friction_velocity=0.5)


def ratio(model, i):
    return model.joints[i].mimic.multiplier if model.joints[i].mimic else 1.0


def skew(x):
    x1, x2, x3 = np.moveaxis(np.asarray(x), -1, 0)
    zero = np.zeros_like(x1)
    rows = [[zero, -x3, x2], [x3, zero, -x1], [-x2, x1, zero]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def turn(axis, angle):
    """Rodrigues' formula: coordinates of the turned frame to those of the fixed one."""
    K = skew(axis)
    s, c = np.sin(angle)[..., None, None], np.cos(angle)[..., None, None]
    return np.eye(3) + s * K + (1 - c) * (K @ K)


def quaternion_matrix(quaternion):
    x, y, z, w = np.moveaxis(quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True), -1, 0)
    u = skew(np.stack([x, y, z], -1))
    return np.eye(3) + 2 * w[..., None, None] * u + 2 * (u @ u)


def plane(model, i):
    """x, y and the normal of a planar joint, as columns."""
    return np.array(model.tree.turns[model.tree.carriers[i]].rows, float).T


def coordinates(model, i, q):
    """The joint's own q."""
    k, mimic = model.first_q[i], model.joints[i].mimic
    own = q[..., k : k + model.types[i].nq]
    return own * mimic.multiplier + mimic.offset if mimic else own


def joint_pose(model, i, q):
    """R, p of body i in the frame of its parent, at the robot's q."""
    joint, kind = model.joints[i], model.types[i]
    q, axis = coordinates(model, i, q), np.array(joint.axis)
    none, still = np.broadcast_to(np.eye(3), (*q.shape[:-1], 3, 3)), np.zeros((*q.shape[:-1], 3))
    if kind.name == "revolute":
        R, p = turn(axis, q[..., 0]), still
    elif kind.name == "prismatic":
        R, p = none, q * axis
    elif kind.name == "planar":
        R, p = turn(axis, q[..., 2]), q[..., :2] @ plane(model, i)[:, :2].T
    elif kind.name == "helical":
        R, p = turn(axis, q[..., 0]), joint.pitch * q * axis
    elif kind.name == "cylindrical":
        R, p = turn(axis, q[..., 0]), q[..., 1:] * axis
    elif kind.name == "universal":
        R, p = turn(axis, q[..., 0]) @ turn(np.array(joint.axis2), q[..., 1]), still
    elif kind.name == "spherical":
        R, p = quaternion_matrix(q), still
    elif kind.name == "translation":
        R, p = none, q
    else:
        R, p = quaternion_matrix(q[..., 3:]), q[..., :3]
    R0, p0 = np.array(joint.placement.R), np.array(joint.placement.p)
    return R0 @ R, p0 + p @ R0.T


def motion_subspace(model, i, q):
    """S, 6 x nv of the joint, in the frame of body i."""
    axis, kind = np.array(model.joints[i].axis), model.types[i].name
    zero = np.zeros(3)
    if kind == "helical":
        return np.concatenate([axis, model.joints[i].pitch * axis])[:, None]
    if kind == "cylindrical":
        return np.array([[*axis, *zero], [*zero, *axis]]).T
    if kind == "universal":
        axis2 = np.array(model.joints[i].axis2)
        first = times(turn(axis2, -coordinates(model, i, q)[..., 1]), axis)
        angular = np.stack([first, axis2 + 0 * first], -1)
        return np.concatenate([angular, 0 * angular], -2)
    if kind == "spherical":
        return np.eye(6)[:, :3]
    if kind == "translation":
        return np.eye(6)[:, 3:]
    if kind == "revolute":
        return np.concatenate([axis, zero])[:, None]
    if kind == "prismatic":
        return np.concatenate([zero, axis])[:, None]
    if kind == "planar":
        x, y, n = plane(model, i).T
        return np.array([[*zero, *x], [*zero, *y], [*n, *zero]]).T
    return np.roll(np.eye(6), 3, axis=0)


def bias(model, i, q, v):
    """The rate of S in body i's axes, times v: a universal joint's first axis turns there."""
    if model.types[i].name != "universal":
        return 0.0
    S, axis2 = motion_subspace(model, i, q), np.array(model.joints[i].axis2)
    turned = np.cross(S[..., :3, 0], axis2) * (v[..., :1] * v[..., 1:])
    return np.concatenate([turned, 0 * turned], -1)


def own_rates(model, i, v):
    return ratio(model, i) * v[..., list(model.dofs[i])]


def motion_transform(R, p):
    """iXp: the child's coordinates of a motion from the parent's."""
    E = np.swapaxes(R, -1, -2)
    X = np.zeros((*E.shape[:-2], 6, 6))
    X[..., :3, :3] = X[..., 3:, 3:] = E
    X[..., 3:, :3] = -E @ skew(p)
    return X


def crm(v):
    X = np.zeros((*v.shape[:-1], 6, 6))
    X[..., :3, :3] = X[..., 3:, 3:] = skew(v[..., :3])
    X[..., 3:, :3] = skew(v[..., 3:])
    return X


def crf(v):
    return -np.swapaxes(crm(v), -1, -2)


def spatial_inertia(body):
    c, m = skew(np.array(body.com)), body.mass
    return np.block([[np.array(body.inertia) + m * c @ c.T, m * c], [m * c.T, m * np.eye(3)]])


def times(A, x):
    return np.einsum("...ij,...j->...i", A, x)


def velocities(model, q, v):
    """The spatial velocity of each body in its own frame, [angular; linear]."""
    result = {WORLD: np.zeros(6)}
    for i in range(model.nbodies):
        X = motion_transform(*joint_pose(model, i, q))
        own = times(motion_subspace(model, i, q), own_rates(model, i, v))
        result[i] = times(X, result[model.parent[i]]) + own
    return [result[i] for i in range(model.nbodies)]


def poses(model, q):
    """R, p of each body in the world."""
    result = {}
    for i in range(model.nbodies):
        R, p = joint_pose(model, i, q)
        if (parent := model.parent[i]) != WORLD:
            R_up, p_up = result[parent]
            R, p = R_up @ R, p_up + times(R_up, p)
        result[i] = R, p
    return [result[i] for i in range(model.nbodies)]


def resistance(model, v):
    """Of damping and friction, (..., nv)."""
    total = model.damping * v
    for i, joint in enumerate(model.joints):
        own = own_rates(model, i, v)
        smooth = own / np.sqrt(own * own + model.friction_velocity**2)
        friction = np.array(joint.friction or [0.0])
        total[..., list(model.dofs[i])] += ratio(model, i) * friction * smooth
    return total


def turned_momentum(model, v):
    """The torques by which the armature along the lines of free joints turns, (..., nv)."""
    total = np.zeros_like(v)
    for i, joint in enumerate(model.joints):
        if joint.type == "free" and joint.armature:
            S, rates = motion_subspace(model, i, None), own_rates(model, i, v)
            momentum = times(S[:, :3] * joint.armature[:3], rates[..., :3])
            force = times(crf(times(S, rates)), momentum)
            total[..., list(model.dofs[i])] += times(S.T, force)
    return total


def rnea(model, q, v, a, f_ext=None, gravity=True):
    """tau (..., nv). f_ext (..., nbodies, 6) is [force; moment] in body frames."""
    g = np.array(model.gravity) if gravity else np.zeros(3)
    acceleration = {WORLD: np.concatenate([np.zeros(3), -g])}
    velocity, X, f = velocities(model, q, v), {}, {}
    for i in range(model.nbodies):
        X[i] = motion_transform(*joint_pose(model, i, q))
        S, I = motion_subspace(model, i, q), spatial_inertia(model.bodies[i])
        vJ, aJ = times(S, own_rates(model, i, v)), times(S, own_rates(model, i, a))
        acceleration[i] = times(X[i], acceleration[model.parent[i]]) + aJ
        acceleration[i] = acceleration[i] + bias(model, i, q, own_rates(model, i, v))
        acceleration[i] = acceleration[i] + times(crm(velocity[i]), vJ)
        f[i] = times(I, acceleration[i]) + times(crf(velocity[i]), times(I, velocity[i]))
        if f_ext is not None:
            f[i] = f[i] - np.roll(f_ext[..., i, :], 3, -1)
    lead = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], a.shape[:-1])
    tau = np.zeros((*lead, model.nv)) + model.armature * a + turned_momentum(model, v)
    if gravity:
        tau = tau + resistance(model, v)
    for i in reversed(range(model.nbodies)):
        S = np.swapaxes(motion_subspace(model, i, q), -1, -2)
        tau[..., list(model.dofs[i])] += ratio(model, i) * times(S, f[i])
        if (parent := model.parent[i]) != WORLD:
            f[parent] = f[parent] + times(np.swapaxes(X[i], -1, -2), f[i])
    return tau


def mass_matrix(model, q):
    unit = np.eye(model.nv)
    return rnea(model, np.asarray(q)[..., None, :], 0 * unit, unit, gravity=False)


def energy(model, q, v):
    """Kinetic and potential, J."""
    kinetic = potential = 0.0
    for body, (R, p), velocity in zip(
        model.bodies, poses(model, q), velocities(model, q, v), strict=True
    ):
        momentum = times(spatial_inertia(body), velocity)
        kinetic = kinetic + 0.5 * np.sum(velocity * momentum, -1)
        com = p + times(R, np.array(body.com))
        potential = potential - body.mass * com @ np.array(model.gravity)
    return kinetic + potential


def tangent(model, q):
    """G (..., nq, nv): dq/dt = G v, for unit quaternions; also d integrate(q, v)/dv at v = 0."""
    G = np.zeros((*q.shape[:-1], model.nq, model.nv))
    for i in model.independent:
        kind, k, dofs = model.types[i], model.first_q[i], model.dofs[i]
        if kind.name == "planar":
            angle = q[..., k + 2]
            c, s = np.cos(angle), np.sin(angle)
            turned = np.moveaxis(np.array([[c, -s], [s, c]]), (0, 1), (-2, -1))
            G[..., k : k + 2, dofs[0] : dofs[0] + 2] = turned
            G[..., k + 2, dofs[2]] = 1
        elif kind.name in ("free", "spherical"):
            at, d = k + kind.nq - 4, dofs[0] + kind.nv - 3
            quaternion = q[..., at : at + 4]
            u, w = quaternion[..., :3], quaternion[..., 3:, None]
            if kind.name == "free":
                G[..., k : k + 3, dofs[0] : dofs[0] + 3] = quaternion_matrix(quaternion)
            G[..., at : at + 3, d : d + 3] = (w * np.eye(3) + skew(u)) / 2
            G[..., at + 3, d : d + 3] = -u / 2
        else:
            G[..., k : k + kind.nq, dofs[0] : dofs[0] + kind.nv] = np.eye(kind.nq)
    return G
