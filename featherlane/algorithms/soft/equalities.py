"""Equality constraints as soft constraints: pins, welds and couplings of joints.

A pin holds the difference of two points at 0, and its accelerations are those of the points in the
world: the axes of `to`, in which the rows are, count as resting. A weld also holds the vector e of
the unit quaternion (c, e) that turns `to` into `frame`, by its exact second derivative with the
angular velocity w of `frame` as seen from `to`, all in the axes of `to`:

    e' = 1/2 (c w - e x w),    c' = -1/2 e . w                                          (1)
    e'' = 1/2 (c w' - e x w') + 1/2 (c' w - e' x w)                                     (2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.constraints import frames_of, polynomial, turn_error
from featherlane.algorithms.frames import frame_acceleration, frame_transform, jacobian
from featherlane.algorithms.mean_accelerations import turning_rates
from featherlane.algorithms.soft.inverse_weights import InverseWeights
from featherlane.algorithms.soft.newton import SoftConstraint
from featherlane.algorithms.soft.potentials import TwoSided
from featherlane.algorithms.soft.softness import Softness, stiffness_of
from featherlane.algorithms.sparse_rows import Row, sparse, sparse_dot
from featherlane.robot.constraints import TRIPLE, CoupledJoints, FramePair
from featherlane.robot.quaternions import quaternion_rotation
from featherlane.robot.spatial import (
    Matrix,
    Rotation,
    Transform,
    Vector,
    cross,
    dot,
    matmul,
    matvec,
    split,
    transpose,
)
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, sqrt


class HeldRows(NamedTuple):
    """Rows that are held at a position of 0, their accelerations where the joints' are 0, and the
    inverse inertia of each.
    """

    rows: list[Row]
    position: list[Scalar]
    drift: list[Scalar]
    weight: float


def soft_equality(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    place: FramePair | CoupledJoints,
    weights: InverseWeights,
    softness: Softness,
    time_step: Scalar,
    torque_scale: float = 1.0,
    active: Scalar = 1.0,
    anchor: Scalars | None = None,
) -> list[SoftConstraint]:
    """Returns an equality constraint as soft constraints: of its forces, and of its moments.

    torque_scale: 1/m, of the rotation of a weld beside its translation. active: 0 or 1. anchor:
    the placement in the world of a constraint without `to`, whose velocities alone are held
    without one. Raises ValueError for a kind of constraint that MuJoCo does not have.
    """
    if isinstance(place, CoupledJoints):
        groups = [_coupling(q, place, weights)]
    else:
        groups = _frame_pair(tree, q, qd, place, weights, torque_scale, anchor)
    positions = [x for group in groups for x in group.position]
    impedance = softness.impedance(sqrt(dot(positions, positions)))
    gains, velocities, constraints = softness.gains(time_step), dict(enumerate(qd)), []
    for group in groups:
        reference = [
            -gains.d * sparse_dot(row, velocities) - gains.p * impedance * x - drift
            for row, x, drift in zip(*group[:3], strict=True)
        ]
        potential = TwoSided(stiffness_of(impedance, group.weight) * active)
        constraints.append(SoftConstraint(group.rows, reference, potential))
    return constraints


def _coupling(q: Scalars, place: CoupledJoints, weights: InverseWeights) -> HeldRows:
    (i, k), law = place.joint, place.polynomial
    if place.leader is None:
        return HeldRows([{k: 1.0}], [q[i] - law[0]], [0.0], weights.freedoms[k])
    j, m = place.leader
    row = {k: 1.0, m: -polynomial(law, q[j], 1)}
    weight = weights.freedoms[k] + weights.freedoms[m]
    return HeldRows([row], [q[i] - polynomial(law, q[j])], [0.0], weight)


class _Relative(NamedTuple):
    """A column of J, velocity or acceleration of `frame` relative to `to`, in the axes of `to`."""

    linear: Vector
    angular: Vector

    @staticmethod
    def of(to: Rotation, frame: Sequence[Scalar], other: Sequence[Scalar]) -> _Relative:
        """Returns the difference of two motions in axes of the world, linear halves first."""
        linear, angular = split(Vector(frame) - other)
        return _Relative(to.to_child(linear), to.to_child(angular))


def _frame_pair(
    tree: Tree,
    q: Scalars,
    qd: Scalars,
    place: FramePair,
    weights: InverseWeights,
    torque_scale: float,
    anchor: Scalars | None,
) -> list[HeldRows]:
    frames = frames_of(tree, place)
    X, X_to = (frame_transform(tree, q, x) for x in frames)
    if place.anchored:
        X_to = (
            X if anchor is None else Transform(quaternion_rotation(*anchor[3:]), Vector(anchor[:3]))
        )
    J, J_to = (transpose(jacobian(tree, q, x, "world")) for x in frames)
    still = [-x for x in turning_rates(tree, qd)]
    drifts = [frame_acceleration(tree, q, qd, still, x, "world") for x in frames]
    columns = [_Relative.of(X_to.E, a, b) for a, b in zip(J, J_to, strict=True)]
    drift = _Relative.of(X_to.E, *drifts)
    weight = weights.between(place.frame.body, place.to.body)
    position, linear = X_to.E.to_child(Vector(X.r) - X_to.r), [c.linear for c in columns]
    groups = [_along(place.linear, linear, position, drift.linear, weight.linear)]
    if place.angular == TRIPLE:
        turn = _Turn.of(matmul(X_to.E.rows, transpose(X.E.rows)), torque_scale)
        w, w_to = (_combined(c, qd) for c in ([x.angular for x in columns], _angular(X_to.E, J_to)))
        rates = [turn.rate(x.angular) for x in columns]
        change = turn.drift(w, drift.angular - cross(w_to, w))
        groups.append(_along(TRIPLE, rates, turn.e * turn.scale, change, weight.angular))
    elif place.angular or place.length is not None:
        raise ValueError("hinges and rods have no soft form: wanted a pin, a weld or a coupling")
    return groups


class _Turn(NamedTuple):
    """The vector and scalar of a unit quaternion, with the scale of its rows."""

    e: Vector
    c: Scalar
    scale: float

    @staticmethod
    def of(R: Matrix, scale: float) -> _Turn:
        twice, c = turn_error(R)
        return _Turn(twice * 0.5, c, scale)

    def rate(self, w: Vector) -> Vector:
        """Returns e' of (1) times the scale."""
        return (w * self.c - cross(self.e, w)) * (0.5 * self.scale)

    def drift(self, w: Vector, dw: Vector) -> Vector:
        """Returns e'' of (2) times the scale."""
        change = _Turn(self._replace(scale=1.0).rate(w), -0.5 * dot(self.e, w), self.scale)
        return self.rate(dw) + change.rate(w)


def _angular(to: Rotation, J: Sequence[Vector]) -> list[Vector]:
    """Returns the angular halves of columns in the axes of the world, in the axes of `to`."""
    return [to.to_child(split(column)[1]) for column in J]


def _combined(columns: Sequence[Vector], qd: Scalars) -> Vector:
    """Returns the sum of columns times velocities."""
    return Vector([dot(row, qd) for row in transpose(columns)])


def _along(
    directions: Sequence[Sequence[float]],
    columns: Sequence[Vector],
    position: Vector,
    drift: Vector,
    weight: float,
) -> HeldRows:
    """Returns the rows along some directions."""
    rows = [sparse([dot(direction, column) for column in columns]) for direction in directions]
    return HeldRows(rows, [*matvec(directions, position)], [*matvec(directions, drift)], weight)
