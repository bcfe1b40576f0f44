"""Forward dynamics by articulated bodies and scans: the hybrid ABIA of Yang, Wu and Pan, Parallel
dynamics computation using prefix sum operations (2016), section III-E.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches, joint_entries, net_torques, put_entries
from featherlane.algorithms.parallel.dense import motion_matrix
from featherlane.algorithms.parallel.joint import (
    SolvedJoint,
    coupling_refusal,
    refuse,
    solved_joint,
)
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    BiasTerms,
    TreeScans,
    bias_terms,
    ground_of,
)
from featherlane.algorithms.scan.lists import balanced, stepwise
from featherlane.algorithms.springs import less_springs
from featherlane.robot.parts import WORLD
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

NO_CHILDREN = Articulated.of(NO_INERTIA)


def abia(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
    **options: int,
) -> list[Scalar]:
    """Returns qdd of `aba`, nv scalars: articulated inertias serially, all else by scans.

    The recursion of the inertias is not linear (Yang's equation 7). Once they are known, bias
    forces and accelerations pass from body to body by linear maps (equations 18 and 19): N X for
    accelerations and its transpose for forces, with N from `SolvedJoint.through`. method: a method
    of `path_scan`, with its options. Raises ValueError for any other, and for robots whose joints
    share entries of v (`coupling_refusal`).
    """
    refuse(coupling_refusal(tree, "abia"))
    scans = TreeScans(tree.parent, method, options)
    t = bias_terms(tree, q, qd, scans)
    joints, tau = articulated_joints(tree, t.X), less_springs(tree, q, qd, tau)
    rates = [(joint_entries(tree, i, qd), joint_entries(tree, i, tau)) for i in range(tree.nbodies)]
    passages = [
        call(_passage, link, t.X[i], joints[i], t.v[i].c, *rates[i])
        for i, link in enumerate(tree.links)
    ]
    p = _bias_forces(tree, passages, t.net_forces(f_ext), scans)
    return _scanned_accelerations(tree, t, joints, passages, p, scans)


def _articulated_joint(
    link: Link, X: Transform, children: Articulated
) -> tuple[SolvedJoint, Articulated]:
    """Returns a link's joint, eliminated, and the inertia that the parent feels of the link."""
    joint = solved_joint(link, Articulated.of(link.inertia) + children)
    return joint, X.articulated_to_parent(joint.IA)


def articulated_joints(tree: Tree, X: Sequence[Transform]) -> list[SolvedJoint]:
    """Eliminates all joints from the articulated inertias of their bodies, body after body."""
    children: dict[int, Articulated] = {}
    joints: list[SolvedJoint] = []
    for i in inward(tree, "A"):
        felt = children.get(i, NO_CHILDREN)
        joint, IA = call(_articulated_joint, tree.links[i], X[i], felt)
        p = tree.parent[i]
        children[p] = call(add, children[p], IA) if p in children else IA
        joints.append(joint)
    return joints[::-1]


class Passage(NamedTuple):
    """The transfer of motion and force over a joint of known torque: a = A a_parent + b; `pushed`
    is the force on the parent where the body's bias force is zero; tau is less resistance.
    """

    A: Matrix
    pushed: Vector
    tau: list[Scalar]


def _passage(
    link: Link, X: Transform, joint: SolvedJoint, c: Vector, qd: Scalars, tau: Scalars
) -> Passage:
    net_tau = net_torques(link, qd, tau)
    _, pushed = joint.forces(ZERO6, net_tau)
    A = joint.through(motion_matrix(X))
    return Passage(A, X.force_to_parent(pushed + joint.IA @ c), net_tau)


def _bias_forces(
    tree: Tree, passages: Sequence[Passage], p: Sequence[Vector], scans: TreeScans
) -> list[Vector]:
    """Returns pA of each articulated body: p, its children's `pushed`, and A^T of their pA."""
    parts = [[x] for x in p]
    for parent, passage in zip(tree.parent, passages, strict=True):
        if parent != WORLD:
            parts[parent].append(passage.pushed)
    start = [balanced(stepwise(add), x) for x in parts]
    return scans.over_subtrees(matvec, matmul, start, [transpose(x.A) for x in passages])


class AffineMap(NamedTuple):
    """The map a -> A a + b."""

    A: Matrix
    b: Vector

    def then(self, other: AffineMap) -> AffineMap:
        return AffineMap(matmul(other.A, self.A), matvec(other.A, self.b) + other.b)


def _driven(joint: SolvedJoint, p: Vector, tau: Scalars, a: Vector) -> tuple[list[Scalar], Vector]:
    """Returns u of a joint, and the body's acceleration where the parent's gives it a."""
    u, _ = joint.forces(p, tau)
    return u, joint.accelerations(a, u)[1]


def _arriving(X: Transform, a: Vector, c: Vector) -> Vector:
    return X.motion(a) + c


def _joint_acceleration(
    X: Transform, joint: SolvedJoint, a: Vector, c: Vector, u: Scalars
) -> list[Scalar]:
    """Returns qdd of a joint whose parent has the acceleration a."""
    return joint.accelerations(_arriving(X, a, c), u)[0]


def _scanned_accelerations(
    tree: Tree,
    t: BiasTerms,
    joints: Sequence[SolvedJoint],
    passages: Sequence[Passage],
    p: Sequence[Vector],
    scans: TreeScans,
) -> list[Scalar]:
    """Returns qdd from the bias forces p of the articulated bodies."""
    ground, maps, u = ground_of(tree), [], []
    for i, parent in enumerate(tree.parent):
        c = t.v[i].c
        start = call(_arriving, t.X[i], ground, c) if parent == WORLD else c
        u_i, b = call(_driven, joints[i], p[i], passages[i].tau, start)
        u.append(u_i)
        maps.append(AffineMap(passages[i].A, b))
    scanned = scans.along_paths(AffineMap.then, maps)
    a = {WORLD: ground} | {i: x.b for i, x in enumerate(scanned)}
    qdd: list[Scalar] = [None] * tree.nv
    for i, parent in enumerate(tree.parent):
        joint_qdd = call(_joint_acceleration, t.X[i], joints[i], a[parent], t.v[i].c, u[i])
        put_entries(tree, i, qdd, joint_qdd)
    return qdd
