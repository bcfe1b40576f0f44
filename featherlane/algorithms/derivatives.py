"""Analytic derivatives of inverse and forward dynamics, in the tangent space of q.

The spatial-vector formulas of Singh, Russell and Wensing (2022). With, for a degree of freedom j of
body b and its parent p: psi' = v_p x S, psi'' = a_p x S + v_p x psi', S' = v_b x S, and I, B, f
summed over the subtree of b, for i an ancestor of j:

    dtau_i/dq_j = S_i . (2 B psi'_j + I psi''_j + S_j x* f)      dtau_j/dq_i = S_j . (2 B psi'_i + I
    psi''_i) dtau_i/dv_j = S_i . (2 B S_j + I (psi'_j + S'_j))            dtau_j/dv_i = S_j . (2 B
    S_i + I (psi'_i + S'_i)) M_ij = S_i . I S_j

and within one joint dtau_i/dq_j = S_i . (2 B psi'_j + I psi''_j). Sums over subtrees run in body
frames, where S is a unit vector and zeros abound; the dot products between i and j in the frame of
the first body of their branch, where all that belongs to i and j meets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from featherlane.algorithms.factor import factor
from featherlane.algorithms.kinematics import (
    Scalars,
    Wrenches,
    joint_motion,
    no_wrenches,
    resistance_slope,
    rigid_acceleration,
)
from featherlane.algorithms.mminv import Rows, add_pair, square
from featherlane.algorithms.rnea import rnea
from featherlane.model import WORLD
from featherlane.scalar import Scalar
from featherlane.spatial import (
    NO_CORIOLIS,
    NO_TURN,
    ZERO3,
    ZERO6,
    Coriolis,
    Inertia,
    Transform,
    Vector,
    crf,
    crm,
    cross,
    dot,
    skew,
    spatial,
    split,
)
from featherlane.tree import Tree
from featherlane.walk import inward, outward, repeat

Fixed = Sequence[Coriolis] | None


class Motion(NamedTuple):
    """Positions and velocities, for each body in its own frame."""

    X: list[Transform]  # from the parent's coordinates
    C: list[Transform]  # from those of the first body of the branch
    vp: list[Vector]  # velocity of the parent
    v: list[Vector]
    vJ: list[Vector]
    I: list[Inertia]
    B2: list[Coriolis]  # 2 B of the subtree
    slopes: list[Scalar]  # of the joints' resistance, by their entries of qd


def motion(model: Tree, q: Scalars, qd: Scalars) -> Motion:
    m = Motion([], [], [], [], [], list(model.inertias), [], [0.0] * model.nv)
    for i in outward(model, "D"):
        p = model.parent[i]
        m.X.append(model.joint_transform(i, q))
        m.C.append(Transform(NO_TURN, ZERO3) if p == WORLD else m.X[i] @ m.C[p])
        m.vp.append(ZERO6 if p == WORLD else m.X[i].motion(m.v[p]))
        m.vJ.append(joint_motion(model, i, qd))
        m.v.append(m.vp[i] + m.vJ[i])
        m.B2.append(Coriolis.of(m.I[i], m.v[i] + m.v[i]))
        for k, _ in model.freedoms[i]:
            m.slopes[k] = resistance_slope(model, k, qd[k])
    for i in inward(model, "D"):
        p = model.parent[i]
        if p != WORLD:
            m.I[p] = m.I[p] + m.X[i].inertia_to_parent(m.I[i])
            m.B2[p] = m.B2[p] + m.X[i].coriolis_to_parent(m.B2[i])
    return m


class Loads(NamedTuple):
    """Accelerations and forces, for each body in its own frame."""

    ap: list[Vector]  # acceleration of the parent, gravity included
    f: list[Vector]  # force on the subtree
    T: list[Coriolis]  # what turns with the subtree but should not: see `world_fixed`


def world_fixed(wrench: Vector) -> Coriolis:
    """The map T from a turn phi of its body to [phi x n; phi x f], for a wrench [n; f] that does
    not turn along.

    A wrench in world axes changes by -[phi x n; phi x f] in body axes. T has the structure of a
    Coriolis matrix, with the force for a momentum, and moves between frames and adds over bodies as
    one.
    """
    n, f = split(wrench)
    return Coriolis(f, skew(n))


def loads(model: Tree, m: Motion, qdd: Scalars, f_ext: Wrenches, fixed: Fixed) -> Loads:
    a: dict[int, Vector] = {WORLD: spatial(ZERO3, -Vector(model.gravity))}
    ap, f = [], []
    for i in outward(model, "D"):
        ap.append(m.X[i].motion(a[model.parent[i]]))
        a[i] = ap[i] + joint_motion(model, i, qdd) + crm(m.vp[i], m.vJ[i])
        (w, vo), (dw, ao) = split(m.v[i]), split(a[i])
        f.append(model.inertias[i].wrench(rigid_acceleration(w, dw), ao + cross(w, vo)) - f_ext[i])
    T = list(fixed) if fixed else [NO_CORIOLIS] * model.nbodies
    for i in inward(model, "D"):
        p = model.parent[i]
        if p != WORLD:
            f[p] = f[p] + m.X[i].force_to_parent(f[i])
            T[p] = T[p] + m.X[i].coriolis_to_parent(T[i])
    return Loads(ap, f, T)


class Columns(NamedTuple):
    """What one degree of freedom brings to the dot products: motions S, s, and the forces that meet
    them.
    """

    S: Vector
    psi: Vector
    ddpsi: Vector
    rate: Vector  # psi' + S'
    own: Vector  # 2 B psi' + I psi'' + T S
    dq: Vector  # the same + S x* f
    dv: Vector  # 2 B S + I (psi' + S')
    IS: Vector
    BtS: Vector  # 2 B^T S
    TtS: Vector  # T^T S

    def seen_by(self, C: Transform) -> Columns:
        """The same in the coordinates that C starts from."""
        motions = [C.motion_to_parent(x) for x in self[:4]]
        return Columns(*motions, *[C.force_to_parent(x) for x in self[4:]])


def columns(model: Tree, m: Motion, load: Loads | None) -> list[Columns]:
    """For each degree of freedom, in its body's frame. Without loads what depends on them is left
    zero.
    """
    result = []
    for i in outward(model, "D"):
        for _, S in model.freedoms[i]:
            psi = crm(m.vp[i], S)
            rate = psi + crm(m.v[i], S)
            ddpsi = own = dq = TtS = ZERO6
            if load:
                ddpsi = crm(load.ap[i], S) + crm(m.vp[i], psi)
                own = m.B2[i] @ psi + m.I[i] @ ddpsi + load.T[i] @ S
                TtS = spatial(load.T[i].transposed(S), ZERO3)
                dq = own + crf(S, load.f[i])
            dv = m.B2[i] @ S + m.I[i] @ rate
            BtS = spatial(m.B2[i].transposed(S), ZERO3)
            result.append(Columns(S, psi, ddpsi, rate, own, dq, dv, m.I[i] @ S, BtS, TtS))
    return result


class Seen(Protocol):
    """What one freedom brings to the dot products."""

    def seen_by(self: C, C: Transform) -> C: ...


C = TypeVar("C", bound=Seen)


class Pair(NamedTuple, Generic[C]):
    """Two freedoms, the first an ancestor of the second or in its joint, in one frame."""

    i: int  # entries of v
    j: int
    ci: C
    cj: C
    joint: bool  # whether they are in one joint
    same: bool  # whether they are one


def pairs(model: Tree, m: Motion, local: list[C]) -> Iterator[Pair[C]]:
    """All pairs of freedoms that meet. Within a joint each is there in both orders."""
    body = [i for i, own in enumerate(model.freedoms) for _ in own]
    k = [freedom.k for own in model.freedoms for freedom in own]
    common = [column.seen_by(m.C[body[n]]) for n, column in enumerate(local)]
    for b in inward(model, "D"):
        for j, _ in model.numbered[b]:
            for i in model.above[model.numbered[b][-1][0]]:
                frame = local if body[i] == b else common
                yield Pair(k[i], k[j], frame[i], frame[j], body[i] == b, i == j)


def assembled(model: Tree, m: Motion, load: Loads) -> tuple[Rows, Rows]:
    """(dtau/dq, dtau/dv) from sums over subtrees: all that is left is local to a pair of joints."""
    dq, dv = square(model.nv), square(model.nv, m.slopes)
    for i, j, ci, cj, joint, _ in pairs(model, m, columns(model, m, load)):
        dv[i][j] = dv[i][j] + dot(ci.S, cj.dv)
        if joint:  # S_i moves with q_j, which takes S x* f away again
            dq[i][j] = dq[i][j] + dot(ci.S, cj.own)
        else:
            dq[i][j] = dq[i][j] + dot(ci.S, cj.dq)
            down = dot(cj.BtS, ci.psi) + dot(cj.IS, ci.ddpsi) + dot(cj.TtS, ci.S)
            dq[j][i] = dq[j][i] + down
            dv[j][i] = dv[j][i] + dot(cj.BtS, ci.S) + dot(cj.IS, ci.rate)
    return dq, dv


def inverse_dynamics_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[Rows, Rows]:
    """(dtau/dq, dtau/dv), each nv x nv. f_ext is in body axes, and turns with the bodies but for
    what `fixed` says of each body: the `world_fixed` of its wrenches that do not.
    """
    m = motion(model, q, qd)
    load = loads(model, m, qdd, f_ext or no_wrenches(model), fixed)
    return assembled(model, m, load)


def _supports(model: Tree) -> dict[tuple[int, ...], list[int]]:
    """The columns of a derivative that have their entries in the same rows: j, what is before it
    and behind it.
    """
    supports: dict[tuple[int, ...], list[int]] = {}
    for j, line in enumerate(model.ancestors):
        behind = [i for i in range(j, model.nv) if j in model.ancestors[i]]
        supports.setdefault(tuple(sorted({*line, *behind})), []).append(j)
    return supports


def _through(
    model: Tree,
    inverse: Callable[[Scalars, Scalars], list[Scalar]],
    packed: Scalars,
    derivatives: Sequence[Rows],
) -> list[Rows]:
    """-M^-1 times derivatives of inverse dynamics, by columns; inverse(packed, b) is M^-1 b."""
    products = [square(model.nv) for _ in derivatives]
    for rows, js in reversed(_supports(model).items()):

        def column(shared: Scalars, b: Scalars, rows: tuple[int, ...] = rows) -> list[Scalar]:
            right: list[Scalar] = [0.0] * model.nv
            for i, x in zip(rows, b, strict=True):
                right[i] = -x
            return inverse(shared, right)

        pairs = list(zip(products, derivatives, strict=True))
        places = [(P, D, j) for j in reversed(js) for P, D in pairs]
        solved = repeat(column, packed, [[D[i][j] for i in rows] for _, D, j in places])
        for (P, _, j), x in zip(places, solved, strict=True):
            for i in range(model.nv):
                P[i][j] = x[i]
    return products


def forward_dynamics_derivatives(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    tau: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[Rows, Rows, Rows]:
    """(da/dq, da/dv, da/dtau) = (-M^-1 dtau/dq, -M^-1 dtau/dv, M^-1) at a = FD(q, qd, tau)."""
    f_ext = f_ext or no_wrenches(model)
    m = motion(model, q, qd)
    M = square(model.nv, model.armature)
    for i, j, ci, cj, joint, same in pairs(model, m, columns(model, m, None)):
        if not joint or same or i < j:
            add_pair(M, i, j, dot(ci.S, cj.IS), same)
    factored = factor(model, M)
    bias = rnea(model, q, qd, [0.0] * model.nv, f_ext)
    qdd = factored.solve([t - b for t, b in zip(tau, bias, strict=True)])
    dq, dv = assembled(model, m, loads(model, m, qdd, f_ext, fixed))
    inverted = factored.inverted()
    solve = lambda packed, b: inverted.unpack(packed).solve(b)
    da_dq, da_dv = _through(model, solve, inverted.pack(), (dq, dv))
    return da_dq, da_dv, inverted.inverse()


def forward_dynamics_derivatives_from(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    Minv: Rows,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[Rows, Rows]:
    """(da/dq, da/dv) where the acceleration and the inverse mass matrix are known: diFD of
    Dadu-RBD, table I.

    Entries of Minv between branches that meet only at the ground are zero, and not read.
    """
    derivatives = inverse_dynamics_derivatives(model, q, qd, qdd, f_ext, fixed)
    n, root = model.nv, [line[-1] for line in model.ancestors]

    def product(packed: Scalars, b: Scalars) -> list[Scalar]:
        same = [[k for k in range(n) if root[k] == root[i]] for i in range(n)]
        return [sum((packed[n * i + k] * b[k] for k in same[i]), start=0.0) for i in range(n)]

    da_dq, da_dv = _through(model, product, [x for row in Minv for x in row], derivatives)
    return da_dq, da_dv
