"""The motion of a frame as it is seen from another one, which may move itself.

The joints between two frames form a chain from `to` inward to the body that both hang from, and
outward to `frame`. With all vectors in the coordinates of `frame`, a joint passed outward moves it
by J = S, one passed inward by J = -S, and the joints that carry both frames drop out. Velocity V
and acceleration A, seen from `to`, then grow from joint to joint as if `to` were the ground:

    V' = V + J qd,    A' = A + J qdd + V x J qd
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.frames import path
from featherlane.robot.spatial import ZERO6, Transform, Vector, crm, cross, spatial, split
from featherlane.robot.tree import BodyFrame, Freedom, Tree


class PassedJoint(NamedTuple):
    """A joint between two frames. columns: J of each of its freedoms. inward: whether it is passed
    from its body to the parent.
    """

    columns: list[Freedom]
    inward: bool


class FrameChain(NamedTuple):
    """The joints from `to` to `frame`. X takes coordinates of `to` to those of `frame`."""

    X: Transform
    joints: list[PassedJoint]

    @property
    def columns(self) -> list[Freedom]:
        """The columns of all joints."""
        return [column for joint in self.joints for column in joint.columns]


def _joints_above(
    model: Tree, q: Scalars, frame: BodyFrame, bodies: Sequence[int]
) -> tuple[Transform, list[list[Freedom]]]:
    """Returns the transform to a frame from the parent of the first of these bodies, which lead to
    the frame's, and the columns S of their joints in the frame's coordinates, the nearest first.
    """
    X, columns = frame.X, []
    for i in reversed(bodies):
        columns.append([Freedom(k, X.motion(S)) for k, S in model.freedoms[i]])
        above = X @ model.joint_transform(i, q)
        X = Transform(above.E, above.r)
    return X, columns


def chain(model: Tree, q: Scalars, frame: BodyFrame, to: BodyFrame) -> FrameChain:
    """Returns the joints between two frames."""
    outer, inner = path(model, frame.body), path(model, to.body)
    shared = sum(a == b for a, b in zip(outer, inner, strict=False))
    X, outward = _joints_above(model, q, frame, outer[shared:])
    X_to, inward = _joints_above(model, q, to, inner[shared:])
    X = X @ X_to.inverse()
    X = Transform(X.E, X.r)
    joints = [
        PassedJoint([Freedom(k, -X.motion(S)) for k, S in columns], True) for columns in inward
    ]
    return FrameChain(X, joints + [PassedJoint(columns, False) for columns in reversed(outward)])


class RelativeMotion(NamedTuple):
    """Spatial velocities V and accelerations A before each joint of a chain, and at its end, as
    seen from its beginning.
    """

    V: list[Vector]
    A: list[Vector]

    @property
    def velocity(self) -> Vector:
        """The velocity of the frame."""
        return self.V[-1]

    @property
    def acceleration(self) -> Vector:
        """The angular acceleration of the frame, and the classical one of its origin."""
        return classical(self.V[-1], self.A[-1])

    def parent(self, n: int, joint: PassedJoint) -> tuple[Vector, Vector]:
        """Returns V and A of the body that carries the n-th joint."""
        return self.V[n + joint.inward], self.A[n + joint.inward]


def classical(V: Vector, A: Vector) -> Vector:
    """Returns a spatial acceleration with w x v added to its linear half (section 2.11)."""
    return A + spatial((0.0, 0.0, 0.0), cross(*split(V)))


def _sum(columns: Sequence[Freedom], rates: Scalars) -> Vector:
    total = ZERO6
    for k, J in columns:
        total = total + J * rates[k]
    return total


def relative_motion(between: FrameChain, qd: Scalars, qdd: Scalars) -> RelativeMotion:
    """Returns the motion along a chain."""
    motion = RelativeMotion([ZERO6], [ZERO6])
    for columns, _ in between.joints:
        V, A, vJ = motion.V[-1], motion.A[-1], _sum(columns, qd)
        motion.V.append(V + vJ)
        motion.A.append(A + _sum(columns, qdd) + crm(V, vJ))
    return motion


class MotionChange(NamedTuple):
    """The derivatives of a frame's velocity and classical acceleration by one freedom, in axes that
    the frame carries along.
    """

    V: Vector
    A: Vector


def _classical_change(motion: RelativeMotion, dV: Vector, dA: Vector) -> MotionChange:
    (w, v), (dw, dv) = split(motion.velocity), split(dV)
    turning = cross(dw, v) + cross(w, dv)
    return MotionChange(dV, dA + spatial((0.0, 0.0, 0.0), turning))


def change_by_q(motion: RelativeMotion, n: int, joint: PassedJoint, J: Scalars) -> MotionChange:
    """Returns the change as a freedom J of the n-th joint moves: dV = V_p x J, and
    dA = A_p x J + (V_p - V) x dV (Singh, Russell and Wensing 2022, as seen from `to`).
    """
    V, A = motion.parent(n, joint)
    dV = crm(V, J)
    return _classical_change(motion, dV, crm(A, J) + crm(V - motion.velocity, dV))


def change_by_v(motion: RelativeMotion, n: int, J: Vector) -> MotionChange:
    """Returns the change by the rate of a freedom J of the n-th joint: dV = J, and
    dA = (V_before + V_after - V) x J.
    """
    return _classical_change(motion, J, crm(motion.V[n] + motion.V[n + 1] - motion.velocity, J))
