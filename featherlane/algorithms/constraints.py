"""The rows of constraints: J, the residual of J a + g, and errors of position.

The rows of a constraint come in groups of one unit: forces along up to three directions, moments
about up to three. A group with all three directions is computed in the axes of `frame`, in which
the columns of the last joint are constant; others in the axes of `to`. With gains kp and kd the
residual has kd times the velocity and kp times the error added (Baumgarte 1972).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.relative import FrameChain, RelativeMotion, chain, relative_motion
from featherlane.algorithms.sparse_rows import Row
from featherlane.robot.constraints import (
    TRIPLE,
    Constraints,
    CoupledJoints,
    FramePair,
)
from featherlane.robot.quaternions import quaternion_rotation
from featherlane.robot.spatial import (
    Matrix,
    Rotation,
    Transform,
    Vector,
    cross,
    dot,
    matmul,
    split,
    transpose,
)
from featherlane.robot.tree import BodyFrame, Tree
from featherlane.scalar import Scalar, is_zero, maximum, sqrt

LEAST = 1e-12  # of the square of a length or of a cosine that is divided by


class RowGroup(NamedTuple):
    """Rows of J in one unit, and their residuals. to_axes: takes the three components of a full
    group to the axes of `to`; None where they are in those already.
    """

    rows: list[Row]
    residual: list[Scalar]
    to_axes: Rotation | None = None

    def forces(self, f: Scalars) -> list[Scalar]:
        """Returns the group's forces in the axes of `to`."""
        return list(f) if self.to_axes is None else list(self.to_axes.to_parent(f))

    def rows_in_axes(self) -> list[Row]:
        """Returns the rows in the axes of `to`."""
        if self.to_axes is None:
            return self.rows
        columns = {k: self.to_axes.to_parent([row[k] for row in self.rows]) for k in self.rows[0]}
        return [{k: column[n] for k, column in columns.items()} for n in range(3)]


class Gains(NamedTuple):
    """kp and kd of a constraint."""

    p: Scalar
    d: Scalar


NO_GAINS = Gains(0.0, 0.0)


class PairState(NamedTuple):
    """A pair of frames: how they are placed, and how `frame` moves, seen from `to`."""

    chain: FrameChain
    motion: RelativeMotion
    error: tuple[Vector, Scalar, Vector]  # see `errors_of`


def turn_error(R: Matrix) -> tuple[Vector, Scalar]:
    """Returns 2 sin(angle / 2) times the axis, and cos(angle / 2), of a rotation matrix by less
    than half a turn: twice the vector of its quaternion, and the scalar.
    """
    square = maximum(R[0][0] + R[1][1] + R[2][2] + 1.0, LEAST)
    root = sqrt(square)
    twisted = Vector((R[2][1] - R[1][2], R[0][2] - R[2][0], R[1][0] - R[0][1]))
    return twisted * (1.0 / root), 0.5 * root


def errors_of(X: Transform, anchor: Scalars | None) -> tuple[Vector, Scalar, Vector]:
    """Returns the `turn_error` of a frame, whose axis has the same entries in both frames, and the
    place of its origin in the axes of `to`. anchor: the placement [x y z, qx qy qz qw] that the
    frame shall have in `to`.
    """
    R, p = transpose(X.E.rows), X.r
    if anchor is not None:
        p = p - Vector(anchor[:3])
        R = matmul(quaternion_rotation(*anchor[3:]).rows, R)
    turn, cosine = turn_error(R)
    return turn, cosine, p


def frames_of(model: Tree, place: FramePair) -> tuple[BodyFrame, BodyFrame]:
    """Returns a pair of frames on their bodies of the tree."""
    return model.point(place.frame), model.point(place.to)


def pair_state(
    model: Tree, place: FramePair, q: Scalars, qd: Scalars, qdd: Scalars, anchor: Scalars | None
) -> PairState:
    """Returns the state of a pair of frames."""
    between = chain(model, q, *frames_of(model, place))
    return PairState(between, relative_motion(between, qd, qdd), errors_of(between.X, anchor))


def merged(columns: Sequence[tuple[int, Sequence[Scalar]]], n: int) -> list[Row]:
    """Returns n sparse rows from columns; those of joints that share an entry of v are added."""
    rows: list[Row] = [{} for _ in range(n)]
    for k, column in columns:
        for row, x in zip(rows, column, strict=True):
            row[k] = row[k] + x if k in row else x
    return rows


def components(directions: Sequence[Sequence[float]], X: Transform, x: Vector) -> list[Scalar]:
    """Returns the components along directions in `to` of a vector in the axes of `frame`; of all
    three directions it returns the vector as it is.
    """
    if tuple(directions) == TRIPLE:
        return list(x)
    in_to = X.E.to_parent(x)
    return [dot(direction, in_to) for direction in directions]


def _weighted(a: Scalar, gains: Gains, v: Scalar, error: Scalar) -> Scalar:
    """Returns a + kd v + kp error, without the terms whose gain is 0."""
    a = a if is_zero(gains.d) else a + gains.d * v
    return a if is_zero(gains.p) else a + gains.p * error


def _group(
    directions: Sequence[Sequence[float]], s: PairState, gains: Gains, angular: bool
) -> RowGroup:
    """Returns the rows about or along directions."""
    half, X = (0 if angular else 1), s.chain.X
    columns = [(k, components(directions, X, split(J)[half])) for k, J in s.chain.columns]
    a, v = (
        components(directions, X, split(x)[half])
        for x in (s.motion.acceleration, s.motion.velocity)
    )
    error = position_errors(directions, s, angular)
    residual = [_weighted(x, gains, *y) for x, *y in zip(a, v, error, strict=True)]
    full = tuple(directions) == TRIPLE
    return RowGroup(merged(columns, len(directions)), residual, X.E if full else None)


def position_errors(
    directions: Sequence[Sequence[float]], s: PairState, angular: bool
) -> list[Scalar]:
    """Returns errors along or about directions; along all three in the axes of `frame`."""
    turn, _, p = s.error
    full = tuple(directions) == TRIPLE
    if angular and not full:
        axis = hinge_axis(directions)
        here = s.chain.X.E.to_parent(axis)
        return [dot(cross(b, axis), here) for b in directions]
    if angular:
        return list(turn)
    return list(s.chain.X.E.to_child(p)) if full else [dot(d, p) for d in directions]


def hinge_axis(across: Sequence[Sequence[float]]) -> Vector:
    """Returns the axis of a hinge, from the two directions across it. The axis of `frame` is at
    b . (axis x here) = (b x axis) . here from that of `to`, about a direction b across it.
    """
    return cross(*across)


class RodState(NamedTuple):
    """A rod: its direction in the axes of `frame`, 1 / length, and rates of its ends."""

    u: Vector
    inverse: Scalar  # 1 / |c|
    distance: Scalar  # |c|
    along: Scalar  # u . dc/dt
    across2: Scalar  # |dc/dt|^2 - (u . dc/dt)^2

    @property
    def centripetal(self) -> Scalar:
        return self.across2 * self.inverse


def rod_state(s: PairState) -> RodState:
    """Returns the state of a rod between the origins of two frames."""
    c = s.chain.X.E.to_child(s.error[2])
    square = maximum(dot(c, c), LEAST)
    distance = sqrt(square)
    inverse = 1.0 / distance
    u, (_, v) = c * inverse, split(s.motion.velocity)
    along = dot(u, v)
    return RodState(u, inverse, distance, along, dot(v, v) - along * along)


def _rod(s: PairState, length: float, gains: Gains) -> RowGroup:
    """Returns the row of e = |c| - length: e'' = u . c'' + (|c'|^2 - (u . c')^2) / |c|."""
    rod = rod_state(s)
    columns = [(k, [dot(rod.u, split(J)[1])]) for k, J in s.chain.columns]
    a = dot(rod.u, split(s.motion.acceleration)[1]) + rod.centripetal
    residual = _weighted(a, gains, rod.along, rod.distance - length)
    return RowGroup(merged(columns, 1), [residual])


def polynomial(coefficients: Sequence[float], x: Scalar, order: int = 0) -> Scalar:
    """Returns the derivative of this order of c0 + c1 x + c2 x^2 + ..."""
    c = list(coefficients)
    for _ in range(order):
        c = [n * a for n, a in enumerate(c)][1:]
    total: Scalar = 0.0
    for a in reversed(c):
        total = total * x + a
    return total


def _coupling(
    place: CoupledJoints, q: Scalars, qd: Scalars, qdd: Scalars, gains: Gains
) -> RowGroup:
    """Returns the row of e = q - p(q_leader): e'' = a - p' a_leader - p'' v_leader^2."""
    (i, k), law = place.joint, place.polynomial
    if place.leader is None:
        residual = _weighted(qdd[k], gains, qd[k], q[i] - law[0])
        return RowGroup([{k: 1.0}], [residual])
    j, m = place.leader
    slope, curvature = polynomial(law, q[j], 1), polynomial(law, q[j], 2)
    a = qdd[k] - slope * qdd[m] - curvature * (qd[m] * qd[m])
    residual = _weighted(a, gains, qd[k] - slope * qd[m], q[i] - polynomial(law, q[j]))
    return RowGroup([{k: 1.0, m: -slope}], [residual])


class Constrained(NamedTuple):
    """A constraint at a state. pair: the state of its frames; joints: q, qd and qdd."""

    place: FramePair | CoupledJoints
    gains: Gains
    pair: PairState | None
    joints: tuple[Scalars, Scalars, Scalars]

    @property
    def groups(self) -> list[RowGroup]:
        """The groups of its rows, forces first."""
        place, s, gains = self.place, self.pair, self.gains
        if isinstance(place, CoupledJoints):
            return [_coupling(place, *self.joints, gains)]
        assert s is not None
        if place.length is not None:
            return [_rod(s, place.length, gains)]
        kinds = ((place.linear, False), (place.angular, True))
        return [_group(rows, s, gains, angular) for rows, angular in kinds if rows]


def constraint_at(
    model: Tree,
    place: FramePair | CoupledJoints,
    gains: Gains,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    anchor: Scalars | None = None,
) -> Constrained:
    """Returns a constraint at a state."""
    pair = None
    if isinstance(place, FramePair):
        if place.anchored and anchor is None:
            gains = gains._replace(p=0.0)  # without an anchor there is no error of position
        pair = pair_state(model, place, q, qd, qdd, anchor if place.anchored else None)
    return Constrained(place, gains, pair, (q, qd, qdd))


def constrained_at(
    model: Tree,
    constraints: Constraints,
    q: Scalars,
    qd: Scalars,
    qdd: Scalars,
    anchors: Sequence[Scalars] | None = None,
    gains: Gains | None = None,
) -> list[Constrained]:
    """Returns each constraint at a state. gains: by default those of each constraint."""
    each = zip(constraints.places, constraints.kp, constraints.kd, strict=True)
    return [
        constraint_at(
            model, place, gains or Gains(kp, kd), q, qd, qdd, anchors[n] if anchors else None
        )
        for n, (place, kp, kd) in enumerate(each)
    ]


def groups_of(constrained: Sequence[Constrained]) -> list[list[RowGroup]]:
    """Returns the groups of rows of each constraint."""
    return [one.groups for one in constrained]


def rows_in_axes(model: Tree, q: Scalars, constraints: Constraints) -> list[Row]:
    """Returns the rows of J in the axes of `to`."""
    still = [0.0] * model.nv
    groups = groups_of(constrained_at(model, constraints, q, still, still))
    return [row for group in flat(groups) for row in group.rows_in_axes()]


def constraint_jacobian(
    model: Tree, q: Scalars, constraints: Constraints, active: Scalars | None = None
) -> Rows:
    """Returns J, rows x nv, in the axes of `to`: J qd is zero where the constraints hold. Rows of
    inactive constraints are 0.
    """
    rows = rows_in_axes(model, q, constraints)
    masks = item_masks(constraints, active)
    if masks is not None:
        rows = [{k: m * x for k, x in row.items()} for row, m in zip(rows, masks, strict=True)]
    return [[row.get(k, 0.0) for k in range(model.nv)] for row in rows]


def item_masks(constraints: Constraints, active: Scalars | None) -> list[Scalar] | None:
    """Returns the mask of each row, from those of the constraints."""
    if active is None:
        return None
    return [a for a, item in zip(active, constraints.items, strict=True) for _ in range(item.rows)]


def constraint_error(
    model: Tree, q: Scalars, constraints: Constraints, anchors: Sequence[Scalars] | None = None
) -> list[Scalar]:
    """Returns errors of position, one for each row: lengths along, and 2 sin(angle / 2) about, the
    axes of `to`; a rod's length less that of the constraint; a coordinate less its polynomial.
    """
    errors: list[Scalar] = []
    still = [0.0] * model.nv
    for place, _, s, _ in constrained_at(model, constraints, q, still, still, anchors):
        if isinstance(place, CoupledJoints):
            leader = 0.0 if place.leader is None else q[place.leader[0]]
            errors.append(q[place.joint[0]] - polynomial(place.polynomial, leader))
            continue
        assert s is not None
        if place.length is not None:
            errors.append(rod_state(s).distance - place.length)
        errors += [dot(d, s.error[2]) for d in place.linear]
        errors += position_errors(place.angular, s, True) if place.angular else []
    return errors


def flat(groups: Sequence[Sequence[RowGroup]]) -> list[RowGroup]:
    """Returns the groups of all constraints, one after the other."""
    return [group for of_constraint in groups for group in of_constraint]


def user_forces(groups: Sequence[Sequence[RowGroup]], f: Scalars) -> list[Scalar]:
    """Returns the forces of all rows in the axes of `to`."""
    forces, rest = list[Scalar](), list(f)
    for group in flat(groups):
        n = len(group.rows)
        forces += group.forces(rest[:n])
        rest = rest[n:]
    return forces
