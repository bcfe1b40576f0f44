"""Conversion of states between a robot and the same robot rerooted at another body.

The velocities are v' = T(q) v. The rows of T for the free joint are the Jacobian of the new root
body in its own axes; the block of a reversed joint is the identity, a swap, or -Ad_E. The rate of
the latter, -Ad_E ad_v, maps v to zero, so that dT/dt v is non-zero only for the free joint.

    a' = T a + dT/dt v      tau' = T^-T tau      M' = T^-T M T^-1

T^-1 at q is T of the opposite direction at q', so one implementation serves both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.convert.change import State, state_of, times
from featherlane.api.kinematics import Kinematics
from featherlane.functions.array_like import ArrayLike
from featherlane.robot.editing.reroot import body_number, on_free_joint
from featherlane.robot.joint_type import JointType
from featherlane.robot.parts import IDENTITY, Frame, Placement
from featherlane.robot.quaternions import (
    matrix_quaternion,
    quaternion_product,
    quaternion_turn,
    unit_quaternion,
)
from featherlane.robot.spatial import dot
from featherlane.robot.walk import path_to_root

Array = np.ndarray
OTHER = "the other root"  # the name of the frame of the other robot's root body


class RootView(NamedTuple):
    """One of the two robots, with the frame OTHER at the root body of the other robot."""

    model: Kinematics
    joints: dict[str, int]  # the numbers by name of all but mimic joints

    @staticmethod
    def of(model: Kinematics, body: int, place: Placement) -> RootView:
        frames = (Frame(OTHER, body, place), *model.frames)
        joints = {model.joints[i].name: i for i in model.independent}
        return RootView(replace(model, frames=frames), joints)

    def q(self, name: str) -> slice:
        i = self.joints[name]
        return slice(self.model.first_q[i], self.model.first_q[i] + self.model.types[i].nq)

    def v(self, name: str) -> slice:
        dofs = self.model.dofs[self.joints[name]]
        return slice(dofs.start, dofs.stop)

    def kind(self, name: str) -> JointType:
        return self.model.types[self.joints[name]]


@dataclass(frozen=True, eq=False)
class Rerooting:
    """The robot `before`, the rerooted robot `model`, and conversions of states between them.

        change = featherlane.editing.rerooting(robot, "mtorso")
        there = change.to(q, v=v, tau=tau)  # there.q, there.v, there.tau: of change.model
        here = change.back(there.q, v=there.v)

    Arrays have any leading dimensions; float32 inputs give float32 results. NumPy multiplies the
    maps, so the result for a state may differ by rounding between a single call and a batch. A
    wrench at a frame is the same for both robots; bodies on the path between the roots have
    different origins.

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> change = fl.editing.rerooting(free, "link2")
        >>> q = free.random_configuration(seed=1)
        >>> np.allclose(change.back(change.to(q).q).q, q)
        True
    """

    before: Any
    model: Any
    root: str  # the free joint
    reversed: frozenset[str]  # the joints on the path, without mimic joints
    sides: tuple[RootView, RootView]

    def to(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        a: ArrayLike | None = None,
        tau: ArrayLike | None = None,
        M: ArrayLike | None = None,
    ) -> State:
        """Converts a state of `before` to a State of `model`; arrays that were not passed are None.

        q (..., nq); v, a, tau (..., nv); M (..., nv, nv); a requires v. Raises ValueError or
        TypeError with the argument's name, its value and what was expected.
        """
        return self._converted(*self.sides, {"q": q, "v": v, "a": a, "tau": tau, "M": M})

    def back(
        self,
        q: ArrayLike,
        v: ArrayLike | None = None,
        a: ArrayLike | None = None,
        tau: ArrayLike | None = None,
        M: ArrayLike | None = None,
    ) -> State:
        """Converts a state of `model` to a State of `before`; arguments as in `to`."""
        return self._converted(*self.sides[::-1], {"q": q, "v": v, "a": a, "tau": tau, "M": M})

    def _converted(self, here: RootView, there: RootView, arrays: dict[str, Any]) -> State:
        if arrays["a"] is not None and arrays["v"] is None:
            raise ValueError("v is missing: it is needed to convert a")
        x = state_of(arrays, here.model.nq, here.model.nv)
        q = self._configuration(here, there, x.q)
        result = State(q)
        if x.v is not None:
            T = self._map(here, there, x.q)
            result = result._replace(v=times(T, x.v))
            if x.a is not None:
                result = result._replace(a=self._acceleration(here, there, T, x))
        if x.tau is not None or x.M is not None:
            inverse = self._map(there, here, q)
            dual = np.swapaxes(inverse, -1, -2)
            M = None if x.M is None else dual @ x.M @ inverse
            result = result._replace(tau=times(dual, x.tau), M=M)
        return result

    def _configuration(self, here: RootView, there: RootView, q: Array) -> Array:
        result = np.empty_like(q)
        for name in here.joints:
            coordinates = q[..., here.q(name)]
            if name == self.root:
                coordinates = self._root_pose(here, q)
            elif name in self.reversed:
                coordinates = here.kind(name).reversal.q(coordinates)
            result[..., there.q(name)] = coordinates
        return result

    def _root_pose(self, here: RootView, q: Array) -> Array:
        """Returns q of a free joint that carries the other root body.

        It is the pose of the free joint here, times the other body's pose on the root body here:
        with the free joint at its neutral, the frame OTHER is at the joint's placement times that.
        """
        pose, neutral = q[..., here.q(self.root)], q.copy()
        neutral[..., here.q(self.root)] = here.kind(self.root).neutral
        R, p = (np.array(x, q.dtype) for x in here.model.joints[here.joints[self.root]].placement)
        T = here.model.frame_placement(neutral, OTHER)
        turn = unit_quaternion(pose[..., 3:])
        position = pose[..., :3] + quaternion_turn(turn, (T[..., :3, 3] - p) @ R)
        orientation = quaternion_product(turn, matrix_quaternion(R.T @ T[..., :3, :3]))
        return np.concatenate([position, orientation], -1)

    def _map(self, here: RootView, there: RootView, q: Array) -> Array:
        """Returns T (..., nv, nv), with v there = T v."""
        nv = here.model.nv
        T = np.zeros((*q.shape[:-1], nv, nv), q.dtype)
        for name in here.joints:
            kind = here.kind(name)
            how = kind.reversal.velocity if name in self.reversed else "same"
            block = np.eye(kind.nv, dtype=q.dtype)
            if how == "moved":
                block = parent_velocity(kind, q[..., here.q(name)])
            T[..., there.v(name), here.v(name)] = block[::-1] if how == "swapped" else block
        T[..., there.v(self.root), :] = here.model.jacobian(q, OTHER)
        return T

    def _acceleration(self, here: RootView, there: RootView, T: Array, x: State) -> Array:
        a = times(T, x.a)
        root = here.model.frame_acceleration(x.q, x.v, x.a, OTHER)
        a = np.broadcast_to(a, np.broadcast_shapes(a.shape, (*root.shape[:-1], a.shape[-1]))).copy()
        a[..., there.v(self.root)] = root
        return a


def rerooting(model: Any, body: str) -> Rerooting:
    """Reroots a robot, as `Model.rerooted` does, and returns the conversion between states.

    Raises ValueError as `Model.rerooted` does.

    Arguments:
        model: the robot
        body: the name of the new root body

    Examples:
        >>> free = fl.load("double_pendulum", root="free")
        >>> change = fl.editing.rerooting(free, "link2")
        >>> state = change.to(free.neutral(), v=np.zeros(8))
        >>> change.model.body_names, state.q.shape
        (('link2', 'link1', 'base_link'), (9,))
    """
    new = body_number(model, body)
    path = path_to_root(model.parent, new)
    after = on_free_joint(model, new)
    root, now = model.joints[path[-1]].name, after.body_names.index(model.bodies[path[-1]].name)
    place = model.joints[path[-2]].placement.inverse() if len(path) > 1 else IDENTITY
    sides = RootView.of(model, new, IDENTITY), RootView.of(after, now, place)
    reversed_joints = {model.joints[j].name for j in path[:-1]} & set(sides[0].joints)
    return Rerooting(model, after, root, frozenset(reversed_joints), sides)


def parent_velocity(kind: JointType, q: Array) -> Array:
    """Returns -Ad_E (..., nv, nv) on a joint's v: it takes the velocity of the body as seen from
    the parent to the velocity of the parent as seen from the body.
    """
    E = kind.transform([q[..., i] for i in range(kind.nq)])
    columns = [E.motion_to_parent(S) for S in kind.S]
    # the columns of S are orthogonal to each other
    entries = [[0.0 * q[..., 0] - dot(S, x) / dot(S, S) for x in columns] for S in kind.S]
    return np.moveaxis(np.array(entries, q.dtype), (0, 1), (-2, -1))
