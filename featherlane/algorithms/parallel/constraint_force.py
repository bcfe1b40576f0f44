"""Forward dynamics by constraint forces: A. Fijany, I. Sharf, G. M. T. D'Eleuterio, Parallel O(log
N) algorithms for computation of manipulator forward dynamics (1995); Y. Yang, Y. Wu, J. Pan, A
novel GPU-based parallel implementation scheme and performance analysis of robot forward dynamics
algorithms (2016), equations 9 to 17.

The unknowns are the forces f on the links through their joints. With J a = f - X^T f_next - p, the
relative acceleration at a joint, a - X a_parent - c, must be S qdd. So W^T (that) = 0 for the
directions W in which the joint does not move. With f = S tau + W x (equation 14) this is a
symmetric block-tridiagonal system A x = -B tau, A = W^T (1 - G) J^-1 (1 - G)^T W (equation 15),
with a block for each joint. It is solved by elimination.

Two things are added to the papers. Where a joint has armature, its torque S^T f = tau - armature
qdd depends on the unknown qdd: z = -sqrt(armature) qdd joins the unknowns, along sqrt(armature) T
with the dual T of S (T^T S = 1), and brings the equation sqrt(armature) qdd + z = 0. And a
massless body between joints, as in a universal joint, has no J^-1: the joints on both sides of it
are treated as one, whose S changes with the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from featherlane.algorithms.common import Scalars, Wrenches, add_force, joint_entries, net_torques
from featherlane.algorithms.elimination import block_factor
from featherlane.algorithms.parallel.basis import ForceBasis, combined, joint_basis
from featherlane.algorithms.parallel.dense import inverse, motion_matrix
from featherlane.algorithms.parallel.joint import coupling_refusal, refuse
from featherlane.algorithms.parallel.kinematics import (
    METHOD,
    TreeScans,
    bias_terms,
    ground_of,
    product,
)
from featherlane.algorithms.springs import less_springs
from featherlane.robot.constants import eigenvalues, total
from featherlane.robot.spatial import (
    NO_INERTIA,
    ZERO6,
    Articulated,
    Inertia,
    Matrix,
    Transform,
    Vector,
    dot,
    matmul,
    matvec,
    plus,
    transpose,
)
from featherlane.robot.tree import Link, Tree, is_number
from featherlane.scalar import Scalar, call

SINGULAR = 1e-14  # an inertia's least eigenvalue, relative to its largest, that counts as zero


def cfa_refusal(tree: Tree) -> str | None:
    """Returns why `cfa` refuses a robot, if it does; inertias at run time are accepted."""
    if any(p != i - 1 for i, p in enumerate(tree.parent)):
        return "cfa is for chains, and this robot has branches"
    for i, inertia in enumerate(tree.inertias):
        if _is_singular(inertia) and not (_massless(inertia) and i + 1 < tree.nbodies):
            body = tree.carriers.index(i)
            return f"cfa inverts the inertia of every body, and that of body {body} is singular"
    return coupling_refusal(tree, "cfa")


def _massless(inertia: Inertia) -> bool:
    return _is_constant(inertia) and inertia == NO_INERTIA


def _is_constant(inertia: Inertia) -> bool:
    return is_number(inertia.m, *inertia.h, *inertia.S)


def _is_singular(inertia: Inertia) -> bool:
    if not _is_constant(inertia):
        return False
    values = eigenvalues(Articulated.of(inertia).rows)
    return values[0] <= SINGULAR * values[-1]


def cfa(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    method: str = METHOD,
    elimination: str = "odd_even",
    refinements: int = 1,
    **options: int,
) -> list[Scalar]:
    """Returns qdd of `aba`, nv scalars, of a chain, in O(log n) rounds.

    Inertias must not be regrouped (`build_tree(model, regroup=False)`). method: a
    method of `path_scan` for the scan of angular velocities, with its options; elimination: a
    method of `eliminate`. refinements: steps of iterative refinement with the same factors;
    odd-even elimination needs one where masses differ by orders of magnitude. Raises ValueError for
    any other method, and for robots that `cfa_refusal` names.
    """
    refuse(cfa_refusal(tree))
    scans = TreeScans(tree.parent, method, options)
    links, dofs = _links(tree, q, qd, less_springs(tree, q, qd, tau), f_ext, scans)
    matrix = block_factor(*_system(links), elimination)
    x = matrix.solve(_residuals(tree, links, [[0.0] * len(link.basis.unknown) for link in links]))
    for _ in range(refinements):
        corrections = matrix.solve(_residuals(tree, links, x))
        x = [call(_sum, *both) for both in zip(x, corrections, strict=True)]
    qdd: list[Scalar] = [None] * tree.nv
    for indices, link, a in zip(dofs, links, _accelerations(tree, links, x), strict=True):
        for k, joint_qdd in zip(indices, call(_joint_qdd, link, a), strict=True):
            qdd[k] = joint_qdd
    return qdd


# The links


class MassiveLink(NamedTuple):
    """A body with mass, and the joints between it and such a body before it.

    Its acceleration is X times that of the link before + c + S qdd.
    """

    X: Transform
    c: Vector
    Jinv: Matrix
    p: Vector
    tau: list[Scalar]
    basis: ForceBasis

    def force(self, x: Scalars) -> Vector:
        """Returns the force through the link's joints for its unknowns x."""
        return combined(self.basis.T, self.tau) + combined(self.basis.unknown, x)


class JointsInSeries(NamedTuple):
    """Joints with massless bodies between them, in the coordinates of the body that they move."""

    S: Sequence[Vector]
    X: Transform
    c: Vector

    def then(self, S: Sequence[Vector], X: Transform, c: Vector) -> JointsInSeries:
        """Adds the next joint."""
        S = [*[X.motion(s) for s in self.S], *S]
        return JointsInSeries(S, product(self.X, X), X.motion(self.c) + c)


def _links(
    tree: Tree, q: Scalars, qd: Scalars, tau: Scalars, f_ext: Wrenches | None, scans: TreeScans
) -> tuple[list[MassiveLink], list[list[int]]]:
    """Returns the links, and the indices of each link's degrees of freedom."""
    t = bias_terms(tree, q, qd, scans)
    p, torques = _without_massless(tree, t.X, t.net_forces(f_ext), qd, tau)
    links, dofs = [], []
    for bodies in _bodies_of_links(tree):
        first, last = bodies[0], bodies[-1]
        joints = JointsInSeries(tree.links[first].S, t.X[first], t.v[first].c)
        for i in bodies[1:]:
            joints = call(JointsInSeries.then, joints, tree.links[i].S, t.X[i], t.v[i].c)
        indices = [k for i in bodies for k, _ in tree.freedoms[i]]
        armature = [tree.armature[k] for k in indices]
        basis = joint_basis(joints.S, armature, moving=len(bodies) > 1)
        Jinv = call(_inverse, tree.inertias[last])
        link_tau = [x for i in bodies for x in torques[i]]
        links.append(MassiveLink(joints.X, joints.c, Jinv, p[last], link_tau, basis))
        dofs.append(indices)
    return links, dofs


def _bodies_of_links(tree: Tree) -> list[list[int]]:
    """Returns the bodies of each link: massless ones, and the last one, which has mass."""
    links: list[list[int]] = [[]]
    for i, inertia in enumerate(tree.inertias):
        links[-1].append(i)
        if not _massless(inertia):
            links.append([])
    return links[:-1]


def _inverse(inertia: Inertia) -> Matrix:
    return inverse(Articulated.of(inertia).rows)


def _without_massless(
    tree: Tree, X: Sequence[Transform], p: list[Vector], qd: Scalars, tau: Scalars
) -> tuple[list[Vector], list[Scalars]]:
    """Returns p and the net torques of each body, with wrenches on massless bodies taken up by
    their joints and the body before.
    """
    torques: list[Scalars] = []
    for i in reversed(range(tree.nbodies)):
        rates = [joint_entries(tree, i, x) for x in (qd, tau)]
        massless = _massless(tree.inertias[i])
        torques.append(call(_torques, tree.links[i], *rates, p[i] if massless else ZERO6))
        if massless and i > 0:
            p[i - 1] = call(add_force, X[i], p[i], p[i - 1])
    return p, torques[::-1]


def _torques(link: Link, qd: Scalars, tau: Scalars, p: Vector) -> list[Scalar]:
    """Returns a joint's net torques less those that hold p on its body."""
    net_tau = net_torques(link, qd, tau)
    return [t - dot(S, p) for S, t in zip(link.S, net_tau, strict=True)]


# The system


def _system(links: Sequence[MassiveLink]) -> tuple[list[Matrix], list[Matrix]]:
    """Returns the diagonal and the off-diagonal blocks."""
    first, _ = call(_blocks, links[0])
    pairs = [call(_blocks, link, before) for before, link in pairwise(links)]
    return [first, *[D for D, _ in pairs]], [U for _, U in pairs]


def _blocks(link: MassiveLink, before: MassiveLink | None = None) -> tuple[Matrix, Matrix]:
    """Returns a diagonal block, and the one between the link before and this link."""
    if before is None:
        return _diagonal(link.basis, link.Jinv), ()
    X, B = motion_matrix(link.X), link.basis.unknown
    K = plus(link.Jinv, matmul(X, matmul(before.Jinv, transpose(X))))
    passed = [-matvec(before.Jinv, matvec(transpose(X), b)) for b in B]
    U = tuple(Vector([dot(b, x) for x in passed]) for b in before.basis.unknown)
    return _diagonal(link.basis, K), U


def _diagonal(basis: ForceBasis, K: Matrix) -> Matrix:
    """Returns a diagonal block, where K is the compliance of the two bodies at the joint."""
    accelerations = [matvec(K, b) for b in basis.unknown]
    D = [[dot(b, x) for x in accelerations] for b in basis.unknown]
    scale = (1.0 / 6.0) * total(K[i][i] for i in range(6))
    for i, row in enumerate(basis.redundant):
        for j, x in enumerate(row):
            D[i][j] = D[i][j] + scale * x
    for i in range(len(D) - basis.geared, len(D)):
        D[i][i] = D[i][i] + 1.0
    return tuple(map(Vector, D))


# The equations

Accelerations = tuple[Vector, Vector]  # of a link and of the link before


def _residuals(
    tree: Tree, links: Sequence[MassiveLink], x: Sequence[Scalars]
) -> list[list[Scalar]]:
    """Returns what the equations of all links lack for unknowns x."""
    each = zip(links, _accelerations(tree, links, x), x, strict=True)
    return [call(_residual, *arguments) for arguments in each]


def _accelerations(
    tree: Tree, links: Sequence[MassiveLink], x: Sequence[Scalars]
) -> list[Accelerations]:
    """Returns the accelerations of all links, and of the links before, for unknowns x."""
    each = zip(links, x, links[1:], x[1:], strict=False)
    a = [call(_acceleration, *arguments) for arguments in each]
    a.append(call(_acceleration, links[-1], x[-1]))
    return list(zip(a, [ground_of(tree), *a[:-1]], strict=True))


def _acceleration(
    link: MassiveLink, x: Scalars, after: MassiveLink | None = None, x_after: Scalars = ()
) -> Vector:
    """Returns a link's acceleration under the forces through its joint and the one after it."""
    f = link.force(x) - link.p
    if after is not None:
        f = f - after.X.force_to_parent(after.force(x_after))
    return matvec(link.Jinv, f)


def _joint_acceleration(link: MassiveLink, accelerations: Accelerations) -> Vector:
    """Returns a - X a_before - c, which is S qdd if the forces are right."""
    a, before = accelerations
    return a - link.X.motion(before) - link.c


def _residual(link: MassiveLink, accelerations: Accelerations, x: Scalars) -> list[Scalar]:
    a = _joint_acceleration(link, accelerations)
    residual = [-dot(b, a) for b in link.basis.unknown]
    for i in range(len(x) - link.basis.geared, len(x)):
        residual[i] = residual[i] - x[i]
    return residual


def _sum(x: Scalars, y: Scalars) -> list[Scalar]:
    return [a + b for a, b in zip(x, y, strict=True)]


def _joint_qdd(link: MassiveLink, accelerations: Accelerations) -> list[Scalar]:
    a = _joint_acceleration(link, accelerations)
    return [dot(T, a) for T in link.basis.T]
