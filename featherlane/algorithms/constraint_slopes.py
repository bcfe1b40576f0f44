"""Derivatives of the rows of constraints: of J a + g and of J^T f, at fixed a and f.

Along the chain between two frames, with forces F in the coordinates of `frame`, and columns J_i and
J_k of which J_k comes later (nearer to `frame`): dJ_i/dq_k = -J_k x J_i, so that
H_ik = d(J^T f)_i/dq_k = J_i . (J_k x* F). Forces whose axes are those of `to` rotate back,
seen from `frame`, by the angular half of J_k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.constraints import (
    Constrained,
    Gains,
    PairState,
    components,
    hinge_axis,
    polynomial,
    rod_state,
)
from featherlane.algorithms.relative import MotionChange, change_by_q, change_by_v
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.constraints import TRIPLE, CoupledJoints, FramePair
from featherlane.robot.spatial import ZERO3, ZERO6, Vector, crf, cross, dot, spatial, split
from featherlane.scalar import Scalar, is_zero

Directions = Sequence[Sequence[float]]


class ResidualSlopes(NamedTuple):
    """Derivatives of the residuals of some rows, by entries of q and of v, and of J^T f by q."""

    by_q: list[Row]
    by_v: list[Row]
    H: dict[tuple[int, int], Scalar]


def add_entry(row: dict, key: object, x: Scalar) -> None:
    """Adds to an entry of a sparse row or matrix."""
    if not is_zero(x):
        row[key] = row[key] + x if key in row else x


# A pair of frames


def _group_slopes(
    directions: Directions, s: PairState, gains: Gains, angular: bool
) -> tuple[list[Row], list[Row]]:
    """Returns the derivatives of the residuals about or along directions."""
    by_q: list[Row] = [{} for _ in directions]
    by_v: list[Row] = [{} for _ in directions]
    half = 0 if angular else 1
    a, v = (split(x)[half] for x in (s.motion.acceleration, s.motion.velocity))
    rates = a + v * gains.d
    for n, joint in enumerate(s.chain.joints):
        for k, J in joint.columns:
            by_joint = _with_gain(change_by_q(s.motion, n, joint, J), gains)
            turning, _ = split(J)
            change = split(by_joint)[half]
            if tuple(directions) != TRIPLE:  # the axes of `to` rotate back, seen from `frame`
                change = change + cross(turning, rates)
            error = _error_change(directions, s, J, angular)
            for row, x, e in zip(
                by_q, components(directions, s.chain.X, change), error, strict=True
            ):
                add_entry(row, k, x if is_zero(gains.p) else x + gains.p * e)
            change = split(_with_gain(change_by_v(s.motion, n, J), gains))[half]
            for row, x in zip(by_v, components(directions, s.chain.X, change), strict=True):
                add_entry(row, k, x)
    return by_q, by_v


def _with_gain(change: MotionChange, gains: Gains) -> Vector:
    """Returns the derivative of a + kd v."""
    return change.A if is_zero(gains.d) else change.A + change.V * gains.d


def _error_change(directions: Directions, s: PairState, J: Vector, angular: bool) -> list[Scalar]:
    """Returns the derivatives of `position_errors` as a freedom moves."""
    (w, v), X = split(J), s.chain.X
    turn, cosine, p = s.error
    full = tuple(directions) == TRIPLE
    if angular and full:
        return list(w * cosine + cross(turn * 0.5, w))
    if angular:
        axis = hinge_axis(directions)
        change = cross(X.E.to_parent(w), X.E.to_parent(axis))
        return [dot(cross(b, axis), change) for b in directions]
    if full:
        return list(v - cross(w, X.E.to_child(p)))
    return components(directions, X, v)


def _rod_slopes(s: PairState, gains: Gains) -> tuple[list[Row], list[Row]]:
    """Returns the derivatives of the residual of a rod."""
    by_q: Row = {}
    by_v: Row = {}
    rod = rod_state(s)
    c = rod.u * rod.distance
    a, v = split(s.motion.acceleration)[1], split(s.motion.velocity)[1]
    for n, joint in enumerate(s.chain.joints):
        for k, J in joint.columns:
            (w, _), along = split(J), dot(rod.u, split(J)[1])
            dc = split(J)[1] - cross(w, c)
            du = (dc - rod.u * dot(rod.u, dc)) * rod.inverse
            change = change_by_q(s.motion, n, joint, J)
            dv = split(change.V)[1]
            radial = dot(du, v) + dot(rod.u, dv)
            x = dot(du, a) + dot(rod.u, split(change.A)[1]) + gains.d * radial + gains.p * along
            x = x + 2.0 * (dot(v, dv) - rod.along * radial) * rod.inverse
            add_entry(by_q, k, x - rod.centripetal * rod.inverse * dot(rod.u, dc))
            change = change_by_v(s.motion, n, J)
            dv = split(change.V)[1]
            radial = dot(rod.u, dv)
            x = dot(rod.u, split(change.A)[1]) + gains.d * radial
            add_entry(by_v, k, x + 2.0 * (dot(v, dv) - rod.along * radial) * rod.inverse)
    return [by_q], [by_v]


class ChainForces(NamedTuple):
    """Forces of a pair of frames in the coordinates of `frame`: all, those whose axes are those of
    `to`, and those along a rod.
    """

    F: Vector
    turning: Vector
    rod: Scalar


def _forces(place: FramePair, s: PairState, f: Scalars) -> ChainForces:
    """Returns the forces of a pair's rows."""
    if place.length is not None:
        return ChainForces(spatial(ZERO3, rod_state(s).u * f[0]), ZERO6, f[0])
    m, E = len(place.linear), s.chain.X.E
    halves = []
    for directions, forces in ((place.angular, f[m:]), (place.linear, f[:m])):
        if not directions or tuple(directions) == TRIPLE:
            halves.append((Vector(forces) if directions else ZERO3, ZERO3))
            continue
        total = ZERO3
        for direction, x in zip(directions, forces, strict=True):
            total = total + Vector(direction) * x
        halves.append((E.to_child(total),) * 2)
    (n, n_turning), (force, f_turning) = halves
    return ChainForces(spatial(n, force), spatial(n_turning, f_turning), 0.0)


def _force_slopes(s: PairState, forces: ChainForces) -> dict[tuple[int, int], Scalar]:
    """Returns H, the derivative of J^T f by q."""
    H: dict[tuple[int, int], Scalar] = {}
    for (i, Ji), carried, added in _carried_forces(s, forces):
        for k, G in added:
            add_entry(H, (i, k), dot(Ji, G))
        for k, G in carried:
            add_entry(H, (i, k), dot(Ji, G))
    return H


def _carried_forces(s: PairState, forces: ChainForces) -> Iterator[tuple]:
    """Yields each column of a chain with the pairs (k, J_k x* F) of joints that come later, and
    with the pairs (k, dF) of changes of F in the coordinates of `frame`.
    """
    joints = s.chain.joints
    carried = [[(k, crf(J, forces.F)) for k, J in joint.columns] for joint in joints]
    changes = [(k, _force_change(s, forces, J)) for k, J in s.chain.columns]
    changes = [(k, G) for k, G in changes if not all(map(is_zero, G))]
    for n, joint in enumerate(joints):
        # columns S of one joint do not move each other where the joint is passed outward
        later = [x for of_joint in carried[n + (not joint.inward) :] for x in of_joint]
        for column in joint.columns:
            yield column, later, changes


def _force_change(s: PairState, forces: ChainForces, J: Vector) -> Vector:
    """Returns the derivative of the forces of fixed multipliers in the coordinates of `frame`."""
    w, v = split(J)
    n, f = split(forces.turning)
    change = spatial(-cross(w, n), -cross(w, f))
    if is_zero(forces.rod):
        return change
    rod = rod_state(s)
    dc = v - cross(w, rod.u * rod.distance)
    du = (dc - rod.u * dot(rod.u, dc)) * rod.inverse
    return change + spatial(ZERO3, du * forces.rod)


def _pair_slopes(place: FramePair, s: PairState, gains: Gains, f: Scalars) -> ResidualSlopes:
    """Returns the derivatives of a pair of frames, f being the multipliers of its rows."""
    if place.length is not None:
        by_q, by_v = _rod_slopes(s, gains)
    else:
        by_q, by_v = [], []
        for directions, angular in ((place.linear, False), (place.angular, True)):
            more_q, more_v = (
                _group_slopes(directions, s, gains, angular) if directions else ([], [])
            )
            by_q += more_q
            by_v += more_v
    return ResidualSlopes(by_q, by_v, _force_slopes(s, _forces(place, s, f)))


def _coupling_slopes(
    place: CoupledJoints, q: Scalars, qd: Scalars, qdd: Scalars, gains: Gains, f: Scalar
) -> ResidualSlopes:
    """Returns the derivatives of a coupling."""
    k = place.joint[1]
    by_q: Row = {}
    by_v: Row = {}
    add_entry(by_q, k, gains.p)
    add_entry(by_v, k, gains.d)
    if place.leader is None:
        return ResidualSlopes([by_q], [by_v], {})
    j, m = place.leader
    first, second, third = (polynomial(place.polynomial, q[j], n) for n in (1, 2, 3))
    slope = -(second * (qdd[m] + gains.d * qd[m]) + third * (qd[m] * qd[m]) + gains.p * first)
    add_entry(by_q, m, slope)
    add_entry(by_v, m, -(2.0 * (second * qd[m]) + gains.d * first))
    H: dict[tuple[int, int], Scalar] = {}
    add_entry(H, (m, m), -(second * f))
    return ResidualSlopes([by_q], [by_v], H)


def residual_slopes(one: Constrained, f: Scalars) -> ResidualSlopes:
    """Returns the derivatives of the rows of one constraint, f being their multipliers."""
    if isinstance(one.place, CoupledJoints):
        return _coupling_slopes(one.place, *one.joints, one.gains, f[0])
    assert one.pair is not None
    return _pair_slopes(one.place, one.pair, one.gains, f)
