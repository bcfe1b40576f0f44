"""Derivatives of inverse dynamics column by column in body frames, as pipelines of the papers have
them.

The recursion of Newton and Euler is differentiated line by line (Carpentier and Mansard 2018;
Plancher et al. 2021, algorithm 2). With v_p, a_p and F, of a body's parent and of its subtree, in
the body's axes, and vJ = S qd:

    outward   dv = X dv_p + (v_p x S_j by q_j of its joint, S_j by qd_j)
              da = X da_p + X dv_p x vJ + (a_p x S_j + (v_p x S_j) x vJ, v_p x S_j)
              df = I da + dv x* I v + v x* I dv
    inward    dtau = S . dF,  dF_p += X^T (dF + (S_j x* F by q_j of its joint))

A body has columns of its joint and its ancestors outward, and of its subtree too inward (the
incremental columns of Dadu-RBD, 2023, section IV-A). This takes twice the products of
`derivatives` for arms, whose sums do not depend on columns.
"""

from __future__ import annotations

from typing import NamedTuple

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
)
from featherlane.algorithms.forward_derivatives import times_inverse
from featherlane.algorithms.mminv import Rows, plus_product, square
from featherlane.algorithms.springs import spring_slopes
from featherlane.algorithms.turned_armature import turning_slopes
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import ZERO6, Inertia, Transform, Vector, crf, crm
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import call

ForceChanges = dict[tuple[int, int], Vector]  # by freedom, and 0 for q or 1 for qd


class Moving(NamedTuple):
    """Velocity and acceleration of a body, or their derivatives, in the body's axes."""

    v: Vector
    a: Vector


class BodyState(NamedTuple):
    """The motion of a body and its joint, and the body's force; `parent` is the parent's motion in
    the body's axes.
    """

    X: Transform
    vJ: Vector
    parent: Moving
    body: Moving
    f: Vector


def _state(
    link: Link, above: Moving, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Vector
) -> BodyState:
    X, vJ = joint_transform(link, q), link_motion(link, qd)
    parent = Moving(X.motion(above.v), X.motion(above.a))
    v = parent.v + vJ
    a = parent.a + link_motion(link, qdd) + crm(parent.v, vJ)
    f = link.inertia @ a + crf(v, link.inertia @ v) - f_ext
    return BodyState(X, vJ, parent, Moving(v, a), f)


def _by_own(S: Vector, vJ: Vector, parent: Moving) -> tuple[Moving, Moving]:
    """Returns the derivatives of a body's motion by q and by qd of its joint."""
    dv = crm(parent.v, S)
    return Moving(dv, crm(parent.a, S) + crm(dv, vJ)), Moving(S, dv)


def _by_above(X: Transform, vJ: Vector, above: Moving) -> Moving:
    """Returns the derivatives of a body's motion from those of its parent's."""
    dv = X.motion(above.v)
    return Moving(dv, X.motion(above.a) + crm(dv, vJ))


def _force(I: Inertia, v: Vector, d: Moving) -> Vector:
    return I @ d.a + crf(d.v, I @ v) + crf(v, I @ d.v)


def _turned_along(S: Vector, force: Vector, dF: Vector) -> Vector:
    return dF + crf(S, force)


def body_derivatives(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, f_ext: Wrenches | None = None
) -> tuple[Rows, Rows]:
    """Returns (dtau/dq, dtau/dv), each nv x nv. f_ext is in body axes and turns with the bodies."""
    f_ext = f_ext or no_wrenches(model)
    entry = [freedom.k for freedoms in model.freedoms for freedom in freedoms]
    ground = Moving(ZERO6, ground_acceleration(model.gravity))
    states: list[BodyState] = []
    changes: list[dict[tuple[int, int], Moving]] = []  # by freedom, and 0 for q or 1 for qd
    F, dF, slopes = [], [], [0.0] * model.nv
    for i in outward(model, "D"):
        link, p = model.links[i], model.parent[i]
        above = ground if p == WORLD else states[p].body
        s = call(_state, link, above, *joint_state(model, i, q, qd, qdd), f_ext[i])
        known = {} if p == WORLD else changes[p]
        d = {column: call(_by_above, s.X, s.vJ, x) for column, x in known.items()}
        for n, (_, S) in model.numbered[i]:
            d[n, 0], d[n, 1] = call(_by_own, S, s.vJ, s.parent)
        states.append(s)
        changes.append(d)
        F.append(s.f)
        dF.append({column: call(_force, link.inertia, s.body.v, x) for column, x in d.items()})
        resistance = call(link_resistance_slope, link, joint_entries(model, i, qd))
        put_entries(model, i, slopes, resistance)
    springs, turning = spring_slopes(model, q, qd, slopes), turning_slopes(model, qd)
    by_q = square(model.nv, [springs.get(k, 0.0) for k in range(model.nv)])
    D = by_q, square(model.nv, slopes)
    for i in inward(model, "D"):
        p, X = model.parent[i], states[i].X
        for k, S in model.freedoms[i]:
            for (n, by), df in dF[i].items():
                D[by][k][entry[n]] = call(plus_product, D[by][k][entry[n]], S, df)
            for j in (k for k, _ in model.freedoms[i] if k in turning):
                D[1][k][j] = call(plus_product, D[1][k][j], S, turning[j])
        if p == WORLD:
            continue
        for n, (_, S) in model.numbered[i]:
            dF[i][n, 0] = call(_turned_along, S, F[i], dF[i][n, 0])
        F[p] = call(add_force, X, F[i], F[p])
        _add_forces(X, dF[i], dF[p])
    return D


def _add_forces(X: Transform, dF: ForceChanges, parent: ForceChanges) -> None:
    """Adds the derivatives of a subtree's force to those of the parent's (in place)."""
    for column, df in dF.items():
        parent[column] = call(add_force, X, df, parent.get(column, ZERO6))


def body_forward_dynamics_derivatives_from(
    model: Tree,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    Minv: Rows,
    f_ext: Wrenches | None = None,
) -> tuple[Rows, Rows]:
    """Returns (da/dq, da/dv) where the acceleration and the inverse mass matrix are known."""
    return times_inverse(model, Minv, body_derivatives(model, q, qd, qdd, f_ext), ({}, {}))
