"""Analytic derivatives of inverse dynamics, in the tangent space of q.

The spatial-vector formulas of Singh, Russell and Wensing (2022). With, for a degree of freedom j of
body b and its parent p: psi' = v_p x S, psi'' = a_p x S + v_p x psi', S' = v_b x S, and I, B, f
summed over the subtree of b, for i an ancestor of j:

    dtau_i/dq_j = S_i . (2 B psi'_j + I psi''_j + S_j x* f)
    dtau_j/dq_i = S_j . (2 B psi'_i + I psi''_i)
    dtau_i/dv_j = S_i . (2 B S_j + I (psi'_j + S'_j))
    dtau_j/dv_i = S_j . (2 B S_i + I (psi'_i + S'_i))
    M_ij = S_i . I S_j

and within one joint dtau_i/dq_j = S_i . (2 B psi'_j + I psi''_j). Sums over subtrees run in body
frames, where S is a unit vector and zeros abound; the dot products between i and j in the frame of
the first body of their branch, in which both are expressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from featherlane.algorithms.common import (
    Scalars,
    Wrenches,
    add_force,
    ground_acceleration,
    joint_entries,
    joint_state,
    link_motion,
    link_resistance_slope,
    no_wrenches,
    put_entries,
    rigid_acceleration,
)
from featherlane.algorithms.mminv import Rows, plus_product
from featherlane.algorithms.springs import spring_slopes
from featherlane.algorithms.turned_armature import Columns, turning_slopes
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import (
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
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call

Fixed = Sequence[Coriolis] | None


class TreeMotion(NamedTuple):
    """The transforms, velocities and inertias of all bodies, each in the body's frame."""

    X: list[Transform]  # from the parent's coordinates
    C: list[Transform]  # from those of the first body of the branch
    vp: list[Vector]  # velocity of the parent
    v: list[Vector]
    vJ: list[Vector]
    I: list[Inertia]
    B2: list[Coriolis]  # 2 B of the subtree
    slopes: list[Scalar]  # of the joints' resistance, by entries of qd
    springs: dict[int, Scalar]  # slopes of springs and stops, by entries of v
    turning: Columns  # slopes of the forces that turn free joints' armature, by entries of qd


def _outward(
    link: Link, C: Transform, vp: Vector, q: Scalars, qd: Scalars
) -> tuple[Transform, Transform, Vector, Vector, Vector, Coriolis, list[Scalar]]:
    """Returns X, C, vp, v, vJ, the body's 2 B and its joint's resistance slopes; C and vp are
    the parent's.
    """
    X, vJ = joint_transform(link, q), link_motion(link, qd)
    C, vp = X @ C, X.motion(vp)
    v = vp + vJ
    B2 = Coriolis.of(link.inertia, v + v)
    return X, Transform(C.E, C.r), vp, v, vJ, B2, link_resistance_slope(link, qd)


def _with_subtree(
    X: Transform, I: Inertia, B2: Coriolis, parent: Inertia, parent_B2: Coriolis
) -> tuple[Inertia, Coriolis]:
    """Returns the parent's I and 2 B with a child's subtree added."""
    return parent + X.inertia_to_parent(I), parent_B2 + X.coriolis_to_parent(B2)


def motion(model: Tree, q: Scalars, qd: Scalars) -> TreeMotion:
    """Returns what derivatives need of the bodies' positions and velocities."""
    turning = turning_slopes(model, qd)
    m = TreeMotion([], [], [], [], [], list(model.inertias), [], [0.0] * model.nv, {}, turning)
    here = Transform(NO_TURN, ZERO3)
    for i in outward(model, "D"):
        p, state = model.parent[i], joint_state(model, i, q, qd)
        above = (here, ZERO6) if p == WORLD else (m.C[p], m.v[p])
        X, C, *velocities, B2, resistance = call(_outward, model.links[i], *above, *state)
        for entries, x in zip(m[2:5], velocities, strict=True):
            entries.append(x)
        m.X.append(X)
        m.C.append(here if p == WORLD else C)
        m.B2.append(B2)
        put_entries(model, i, m.slopes, resistance)
    for i in inward(model, "D"):
        p = model.parent[i]
        if p != WORLD:
            m.I[p], m.B2[p] = call(_with_subtree, m.X[i], m.I[i], m.B2[i], m.I[p], m.B2[p])
    return m._replace(springs=spring_slopes(model, q, qd, m.slopes))


class Loads(NamedTuple):
    """The accelerations and forces of all bodies, each in the body's frame."""

    ap: list[Vector]  # acceleration of the parent, gravity included
    f: list[Vector]  # force on the subtree
    T: list[Coriolis]  # the subtree's wrenches that are fixed in the world: see `world_fixed`


def world_fixed(wrench: Vector) -> Coriolis:
    """Returns the map T from a turn phi of a body to [phi x n; phi x f], for a wrench [n; f] on the
    body that does not turn with it.

    A wrench in world axes changes by -[phi x n; phi x f] in body axes. T has the structure of a
    Coriolis matrix, with the force for a momentum, and moves between frames and adds over bodies as
    one.
    """
    n, f = split(wrench)
    return Coriolis(f, skew(n))


def _loaded(
    link: Link,
    X: Transform,
    vp: Vector,
    vJ: Vector,
    v: Vector,
    above: Vector,
    qdd: Scalars,
    f_ext: Vector,
) -> tuple[Vector, Vector, Vector]:
    """Returns ap, a and the net force of one body; `above` is the parent's acceleration."""
    ap = X.motion(above)
    a = ap + link_motion(link, qdd) + crm(vp, vJ)
    (w, vo), (dw, ao) = split(v), split(a)
    return ap, a, link.inertia.wrench(rigid_acceleration(w, dw), ao + cross(w, vo)) - f_ext


def _add_fixed(X: Transform, T: Coriolis, parent: Coriolis) -> Coriolis:
    return parent + X.coriolis_to_parent(T)


def loads(model: Tree, m: TreeMotion, qdd: Scalars, f_ext: Wrenches, fixed: Fixed) -> Loads:
    """Returns what derivatives need of the bodies' accelerations and forces."""
    a: dict[int, Vector] = {WORLD: call(ground_acceleration, model.gravity)}
    load = Loads([], [], list(fixed or [NO_CORIOLIS] * model.nbodies))
    for i in outward(model, "D"):
        of_body = m.X[i], m.vp[i], m.vJ[i], m.v[i], a[model.parent[i]]
        ap, a[i], f = call(
            _loaded, model.links[i], *of_body, joint_entries(model, i, qdd), f_ext[i]
        )
        load.ap.append(ap)
        load.f.append(f)
    for i in inward(model, "D"):
        p = model.parent[i]
        if p != WORLD:
            load.f[p] = call(add_force, m.X[i], load.f[i], load.f[p])
            if fixed:
                load.T[p] = call(_add_fixed, m.X[i], load.T[i], load.T[p])
    return load


class DerivativeColumn(NamedTuple):
    """The vectors of one degree of freedom in the derivatives: four motions, and the forces that
    are multiplied with motions of other degrees of freedom.
    """

    S: Vector
    psi: Vector
    ddpsi: Vector
    rate: Vector  # psi' + S'
    within: Vector  # 2 B psi' + I psi'' + T S
    dq: Vector  # 2 B psi' + I psi'' + T S + S x* f
    dv: Vector  # 2 B S + I (psi' + S')
    IS: Vector
    BtS: Vector  # 2 B^T S
    TtS: Vector  # T^T S

    def in_parent_frame(self, X: Transform) -> DerivativeColumn:
        """Returns the vectors in the parent coordinates of the transform X."""
        motions = [X.motion_to_parent(x) for x in self[:4]]
        return DerivativeColumn(*motions, *[X.force_to_parent(x) for x in self[4:]])


Load = tuple[Vector, Vector, Coriolis]  # ap, f and T of a body


def _columns(
    link: Link, vp: Vector, v: Vector, I: Inertia, B2: Coriolis, load: Load | None
) -> list[DerivativeColumn]:
    """Returns the vectors of a link's freedoms in body coordinates; B2 is 2 B."""
    result = []
    for S in link.S:
        psi = crm(vp, S)
        rate = psi + crm(v, S)
        ddpsi = within = dq = TtS = ZERO6
        if load:
            ap, f, T = load
            ddpsi = crm(ap, S) + crm(vp, psi)
            within = B2 @ psi + I @ ddpsi + T @ S
            TtS = spatial(T.transposed(S), ZERO3)
            dq = within + crf(S, f)
        dv = B2 @ S + I @ rate
        BtS = spatial(B2.transposed(S), ZERO3)
        result.append(DerivativeColumn(S, psi, ddpsi, rate, within, dq, dv, I @ S, BtS, TtS))
    return result


def columns(model: Tree, m: TreeMotion, load: Loads | None) -> list[DerivativeColumn]:
    """Returns the vectors of all degrees of freedom, in body frames. Without loads the vectors that
    depend on them are zero.
    """
    result: list[DerivativeColumn] = []
    for i in outward(model, "D"):
        of_body = m.vp[i], m.v[i], m.I[i], m.B2[i]
        of_load = (load.ap[i], load.f[i], load.T[i]) if load else None
        result += call(_columns, model.links[i], *of_body, of_load)
    return result


class FreedomVectors(Protocol):
    """The vectors of one degree of freedom, which can be taken to other coordinates."""

    def in_parent_frame(self: Vectors, X: Transform) -> Vectors: ...


Vectors = TypeVar("Vectors", bound=FreedomVectors)


class Pair(NamedTuple, Generic[Vectors]):
    """Two freedoms, the first an ancestor of the second or in its joint, in one frame."""

    i: int  # entries of v
    j: int
    ci: Vectors
    cj: Vectors
    joint: bool  # whether they are in one joint
    same: bool  # whether they are one


def pairs(model: Tree, m: TreeMotion, local: list[Vectors]) -> Iterator[Pair[Vectors]]:
    """Yields all pairs of freedoms that meet, those of one joint in both orders."""
    body = [i for i, freedoms in enumerate(model.freedoms) for _ in freedoms]
    k = [freedom.k for freedoms in model.freedoms for freedom in freedoms]
    common: list[Vectors] = []
    for b in outward(model, "D"):
        common += [
            call(type(local[n]).in_parent_frame, local[n], m.C[b]) for n, _ in model.numbered[b]
        ]
    for b in inward(model, "D"):
        for j, _ in model.numbered[b]:
            for i in model.above[model.numbered[b][-1][0]]:
                frame = local if body[i] == b else common
                yield Pair(k[i], k[j], frame[i], frame[j], body[i] == b, i == j)


def _in_joint(S: Vector, cj: DerivativeColumn) -> tuple[Scalar, Scalar]:
    """Returns dtau_i/dq_j and dtau_i/dv_j: S_i moves with q_j, and S x* f drops out."""
    return dot(S, cj.within), dot(S, cj.dv)


def _in_line(ci: DerivativeColumn, cj: DerivativeColumn) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Returns dtau_i/dq_j, dtau_i/dv_j, dtau_j/dq_i and dtau_j/dv_i of an ancestor i of j."""
    down = dot(cj.BtS, ci.psi) + dot(cj.IS, ci.ddpsi) + dot(cj.TtS, ci.S)
    rate = dot(cj.BtS, ci.S) + dot(cj.IS, ci.rate)
    return dot(ci.S, cj.dq), dot(ci.S, cj.dv), down, rate


def assembled(model: Tree, m: TreeMotion, load: Loads) -> tuple[Rows, Rows]:
    """Returns (dtau/dq, dtau/dv), of which each entry depends on a pair of freedoms alone."""
    dq: Entries = {(k, k): slope for k, slope in m.springs.items()}
    dv: Entries = {(k, k): slope for k, slope in enumerate(m.slopes)}
    for i, j, ci, cj, joint, _ in pairs(model, m, columns(model, m, load)):
        if joint:
            by_q, by_v = call(_in_joint, ci.S, cj)
            if j in m.turning:
                by_v = call(plus_product, by_v, ci.S, m.turning[j])
        else:
            by_q, by_v, down, rate = call(_in_line, ci, cj)
            _put(dq, (j, i), down)
            _put(dv, (j, i), rate)
        _put(dq, (i, j), by_q)
        _put(dv, (i, j), by_v)
    return _rows(dq, model.nv), _rows(dv, model.nv)


Entries = dict[tuple[int, int], Scalar]


def _put(M: Entries, at: tuple[int, int], x: Scalar) -> None:
    """Writes an entry, or adds to it, as bodies that share coordinates share entries."""
    M[at] = call(add, M[at], x) if at in M else x


def _rows(M: Entries, n: int) -> Rows:
    return [[M.get((i, j), 0.0) for j in range(n)] for i in range(n)]


def motion_and_loads(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    f_ext: Wrenches | None = None,
    fixed: Fixed = None,
) -> tuple[TreeMotion, Loads]:
    """Returns what derivatives need of the bodies. f_ext is in body axes and turns with the bodies.
    fixed: for each body the `world_fixed` of those of its wrenches that do not turn with it.
    """
    m = motion(model, q, qd)
    return m, loads(model, m, qdd, f_ext or no_wrenches(model), fixed)


def inverse_dynamics_derivatives(model: Tree, *state: Any, **options: Any) -> tuple[Rows, Rows]:
    """Returns (dtau/dq, dtau/dv), each nv x nv. The arguments are those of `motion_and_loads`."""
    return assembled(model, *motion_and_loads(model, *state, **options))
