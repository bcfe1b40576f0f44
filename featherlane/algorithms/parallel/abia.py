"""Forward dynamics by articulated bodies and scans: the hybrid ABIA of Yang, Wu and Pan, Parallel
dynamics computation using prefix sum operations (2016), section III-E.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches, joint_entries, put_entries
from featherlane.algorithms.parallel.dense import motion_matrix
from featherlane.algorithms.parallel.joint import (
    SolvedJoint,
    coupling_refusal,
    link_accelerating,
    refuse,
    solved_joint,
)
from featherlane.algorithms.parallel.kinematics import METHOD, Terms, ground_of, terms
from featherlane.algorithms.scan import balanced, path_scan, stepwise, subtree_sum
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import (
    NO_INERTIA,
    ZERO6,
    Articulated,
    Matrix,
    Transform,
    Vector,
    matmul,
    matvec,
    transpose,
)
from featherlane.robot.tree import Link, Tree
from featherlane.robot.walk import inward
from featherlane.scalar import Scalar, call

NOTHING_CARRIED = Articulated.of(NO_INERTIA)


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
    **options: int,
) -> list[Scalar]:
    """qdd of `aba`, nv scalars: articulated inertias, whose recursion is not linear, body after
    body, and all else by scans.

    With the inertias known, forces at rest and accelerations go from body to body by linear maps
    (Yang's equations 18 and 19), N X for motions and its transpose for forces, where N is how a
    joint of given torque gives way. method: one of `path_scan`, with its options. ValueError for
    any other, and for robots of which `abia_refusal` says why.
    """
    refuse(abia_refusal(tree))
    t = terms(tree, q, qd, method, **options)
    joints = articulated_joints(tree, t.X)
    own = [(joint_entries(tree, i, qd), joint_entries(tree, i, tau)) for i in range(tree.nbodies)]
    ways = [
        call(_way, link, t.X[i], joints[i], t.v[i].c, *own[i]) for i, link in enumerate(tree.links)
    ]
    p = _resting_forces(tree, ways, t.own_forces(tree, f_ext), method, **options)
    return _scanned_accelerations(tree, t, joints, ways, p, method, **options)


def _handed_on(link: Link, X: Transform, carried: Articulated) -> tuple[SolvedJoint, Articulated]:
    """A joint on the articulated inertia of its body, and what the parent feels of that; carried:
    what the body itself feels.
    """
    joint = solved_joint(link, Articulated.of(link.inertia) + carried)
    return joint, X.articulated_to_parent(joint.IA)


def articulated_joints(tree: Tree, X: Sequence[Transform]) -> list[SolvedJoint]:
    """The joints, solved for on the articulated inertias of their bodies: serial."""
    felt: dict[int, Articulated] = {}
    joints: list[SolvedJoint] = []
    for i in inward(tree, "A"):
        joint, IA = call(_handed_on, tree.links[i], X[i], felt.get(i, NOTHING_CARRIED))
        p = tree.parent[i]
        felt[p] = call(add, felt[p], IA) if p in felt else IA
        joints.append(joint)
    return joints[::-1]


class Way(NamedTuple):
    """How a joint gives way: a = A a_parent and more, and the force that its parent feels where the
    body asks for none; tau: its torque without resistance.
    """

    A: Matrix
    pushed: Vector
    tau: list[Scalar]


def _way(link: Link, X: Transform, joint: SolvedJoint, c: Vector, qd: Scalars, tau: Scalars) -> Way:
    left = link_accelerating(link, qd, tau)
    _, pushed = joint.forces(ZERO6, left)
    return Way(joint.through(motion_matrix(X)), X.force_to_parent(pushed + joint.IA @ c), left)


def _resting_forces(
    tree: Tree, ways: Sequence[Way], own: Sequence[Vector], method: str, **options: int
) -> list[Vector]:
    """pA of each articulated body: own forces, what its children's joints push without them, and
    A^T of the children's pA.
    """
    parts = [[x] for x in own]
    for p, way in zip(tree.parent, ways, strict=True):
        if p != WORLD:
            parts[p].append(way.pushed)
    start = [balanced(stepwise(add), x) for x in parts]
    moves = [transpose(way.A) for way in ways]
    return subtree_sum(add, matvec, matmul, start, moves, tree.parent, method, **options)


class Affine(NamedTuple):
    """a -> A a + b."""

    A: Matrix
    b: Vector


def _affine_on(a: Affine, b: Affine) -> Affine:
    """a, then b."""
    return Affine(matmul(b.A, a.A), matvec(b.A, a.b) + b.b)


def _pushed(
    joint: SolvedJoint, p: Vector, tau: Scalars, above: Vector
) -> tuple[list[Scalar], Vector]:
    """u of a joint whose body asks for p, and the body's acceleration, from that which it has
    without its joint's.
    """
    u, _ = joint.forces(p, tau)
    return u, joint.accelerations(above, u)[1]


def _arriving(X: Transform, a: Vector, c: Vector) -> Vector:
    return X.motion(a) + c


def _accelerations(
    X: Transform, joint: SolvedJoint, a: Vector, c: Vector, u: Scalars
) -> list[Scalar]:
    """qdd of a joint whose parent has the acceleration a."""
    return joint.accelerations(_arriving(X, a, c), u)[0]


def _scanned_accelerations(
    tree: Tree,
    t: Terms,
    joints: Sequence[SolvedJoint],
    ways: Sequence[Way],
    p: Sequence[Vector],
    method: str,
    **options: int,
) -> list[Scalar]:
    """qdd from the forces at rest."""
    ground, elements, us = ground_of(tree), [], []
    for i, above in enumerate(tree.parent):
        c = t.v[i].c
        start = call(_arriving, t.X[i], ground, c) if above == WORLD else c
        u, b = call(_pushed, joints[i], p[i], ways[i].tau, start)
        us.append(u)
        elements.append(Affine(ways[i].A, b))
    scanned = path_scan(_affine_on, elements, tree.parent, method, **options)
    a = {WORLD: ground} | {i: element.b for i, element in enumerate(scanned)}
    qdd: list[Scalar] = [None] * tree.nv
    for i, above in enumerate(tree.parent):
        own = call(_accelerations, t.X[i], joints[i], a[above], t.v[i].c, us[i])
        put_entries(tree, i, qdd, own)
    return qdd
