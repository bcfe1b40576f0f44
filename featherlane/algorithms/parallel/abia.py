"""Forward dynamics by articulated bodies and scans: the hybrid ABIA of Yang, Wu and Pan, Parallel
dynamics computation using prefix sum operations (2016), section III-E.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

from featherlane.algorithms.kinematics import Scalars, Wrenches
from featherlane.algorithms.parallel.dense import motion_matrix
from featherlane.algorithms.parallel.joint import (
    SolvedJoint,
    accelerating,
    coupling_refusal,
    refuse,
    solved_joint,
    torques_of,
)
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    Terms,
    resting_ground,
    terms,
)
from featherlane.algorithms.scan import balanced, path_scan, subtree_sum
from featherlane.model import WORLD
from featherlane.scalar import Scalar
from featherlane.spatial import (
    ZERO6,
    Articulated,
    Matrix,
    Transform,
    Vector,
    matmul,
    matvec,
    transpose,
)
from featherlane.tree import Tree
from featherlane.walk import inward


def abia_refusal(tree: Tree) -> str | None:
    """Why `abia` does not take a robot, and what does."""
    return coupling_refusal(tree, "abia")


def abia(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
) -> list[Scalar]:
    """qdd of `aba`, nv scalars: articulated inertias, whose recursion is not linear, body after
    body, and all else by scans.

    With the inertias known, forces at rest and accelerations go from body to body by linear maps
    (Yang's equations 18 and 19), N X for motions and its transpose for forces, where N is how a
    joint of given torque gives way. method: one of `path_scan`. ValueError for any other, and for
    robots of which `abia_refusal` says why.
    """
    refuse(abia_refusal(tree))
    t = terms(tree, q, qd, method=method)
    joints = articulated_joints(tree, t.X)
    left = accelerating(tree, qd, tau)
    torque = [torques_of(tree, i, left) for i in range(tree.nbodies)]
    A = [joint.through(motion_matrix(X)) for joint, X in zip(joints, t.X, strict=True)]
    p = _resting_forces(tree, t, joints, torque, A, t.own_forces(tree, f_ext), method)
    u = [joint.forces(x, y)[0] for joint, x, y in zip(joints, p, torque, strict=True)]
    return _scanned_accelerations(tree, t, joints, u, A, method)


def articulated_joints(tree: Tree, X: Sequence[Transform]) -> list[SolvedJoint]:
    """The joints, solved for on the articulated inertias of their bodies: serial."""
    IA = {i: Articulated.of(inertia) for i, inertia in enumerate(tree.inertias)}
    joints: dict[int, SolvedJoint] = {}
    for i in inward(tree, "A"):
        joints[i] = solved_joint(tree, i, IA[i])
        if (p := tree.parent[i]) != WORLD:
            IA[p] = IA[p] + X[i].articulated_to_parent(joints[i].IA)
    return [joints[i] for i in range(tree.nbodies)]


def _resting_forces(
    tree: Tree,
    t: Terms,
    joints: Sequence[SolvedJoint],
    tau: Sequence[list[Scalar]],
    A: Sequence[Matrix],
    own: Sequence[Vector],
    method: str,
) -> list[Vector]:
    """pA of each articulated body: own forces, what its children's joints push without them, and
    A^T of the children's pA.
    """
    parts = [[x] for x in own]
    for i, (X, v, joint) in enumerate(zip(t.X, t.v, joints, strict=True)):
        if (p := tree.parent[i]) != WORLD:
            _, pushed = joint.forces(ZERO6, tau[i])
            parts[p].append(X.force_to_parent(pushed + joint.IA @ v.c))
    start = [balanced(add, x) for x in parts]
    inwards = [transpose(x) for x in A]
    return subtree_sum(add, matvec, matmul, start, inwards, tree.parent, method)


class Affine(NamedTuple):
    """a -> A a + b."""

    A: Matrix
    b: Vector


def _affine_on(a: Affine, b: Affine) -> Affine:
    """a, then b."""
    return Affine(matmul(b.A, a.A), matvec(b.A, a.b) + b.b)


def _scanned_accelerations(
    tree: Tree,
    t: Terms,
    joints: Sequence[SolvedJoint],
    u: Sequence[Scalars],
    A: Sequence[Matrix],
    method: str,
) -> list[Scalar]:
    """qdd from the u of all joints."""
    ground, elements = resting_ground(tree), []
    for i, p in enumerate(tree.parent):
        start = t.X[i].motion(ground) + t.v[i].c if p == WORLD else t.v[i].c
        elements.append(Affine(A[i], joints[i].accelerations(start, u[i])[1]))
    a = [element.b for element in path_scan(_affine_on, elements, tree.parent, method)]
    qdd: list[Scalar] = [None] * tree.nv
    for i, p in enumerate(tree.parent):
        above = t.X[i].motion(ground if p == WORLD else a[p]) + t.v[i].c
        own, _ = joints[i].accelerations(above, u[i])
        for (k, _), x in zip(tree.freedoms[i], own, strict=True):
            qdd[k] = x
    return qdd
