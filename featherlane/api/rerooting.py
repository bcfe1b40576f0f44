"""States of a robot as they are when it is seen from another of its bodies.

Along the path between the two roots v' = T(q) v, where the rows of the free joint are the Jacobian
of the new root body in its own axes, and those of a reversed joint 1, a swap, or -Ad_E. The rate
of the latter, -Ad_E ad_v, takes v to zero: only the free joint's acceleration has a term more.

    a' = T a + dT/dt v      tau' = T^-T tau      M' = T^-T M T^-1

T^-1 at q is the T of the way back at q', so one text serves both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.convert import State
from featherlane.api.kinematics import Kinematics
from featherlane.functions.function import common_dtype
from featherlane.robot.editing.reroot import REVERSALS, body_number, turned_round, way_to_root
from featherlane.robot.joints import (
    JointType,
    matrix_quaternion,
    quaternion_product,
    quaternion_turn,
)
from featherlane.robot.model import IDENTITY, Frame, Placement

Array = np.ndarray
OTHER = "the other root"


class Side(NamedTuple):
    """The robot seen from one body, with one more frame: that of the other, named OTHER."""

    model: Kinematics
    joints: dict[str, int]  # by name: of those with coordinates of their own

    @staticmethod
    def of(model: Kinematics, body: int, place: Placement) -> Side:
        frames = (Frame(OTHER, body, place), *model.frames)
        own = {model.joints[i].name: i for i in model.independent}
        return Side(replace(model, frames=frames), own)

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
    """The robot `before`, seen from another body as `model`; and states from one to the other.

        change = featherlane.editing.rerooting(robot, "mtorso")
        there = change.to(q, v=v, tau=tau)  # there.q, there.v, there.tau: of change.model
        here = change.back(there.q, v=there.v)

    Arrays have any leading dimensions; float32 in gives float32 out. A wrench at a frame is the
    same for both; bodies on the path between the roots have their origins elsewhere.
    """

    before: Any
    model: Any
    root: str  # the free joint
    reversed: frozenset[str]  # joints with coordinates of their own, on the path
    sides: tuple[Side, Side]

    def to(self, q: Any, v: Any = None, a: Any = None, tau: Any = None, M: Any = None) -> State:
        """A State of `model` from one of `before`; None where nothing was given.

        q (..., nq); v, a, tau (..., nv); M (..., nv, nv); a needs v beside it. Raises ValueError or
        TypeError naming the argument, what came and what was wanted.
        """
        return self._seen(*self.sides, {"q": q, "v": v, "a": a, "tau": tau, "M": M})

    def back(self, q: Any, v: Any = None, a: Any = None, tau: Any = None, M: Any = None) -> State:
        """A State of `before` from one of `model`, as `to`."""
        return self._seen(*self.sides[::-1], {"q": q, "v": v, "a": a, "tau": tau, "M": M})

    def _seen(self, here: Side, there: Side, given: dict[str, Any]) -> State:
        x = _arrays(here, given)
        q = self._configuration(here, there, x.q)
        result = State(q)
        if x.v is not None:
            T = self._map(here, there, x.q)
            result = result._replace(v=_times(T, x.v))
            if x.a is not None:
                result = result._replace(a=self._acceleration(here, there, T, x))
        if x.tau is not None or x.M is not None:
            inverse = self._map(there, here, q)
            dual = np.swapaxes(inverse, -1, -2)
            result = result._replace(
                tau=None if x.tau is None else _times(dual, x.tau),
                M=None if x.M is None else dual @ x.M @ inverse,
            )
        return result

    def _configuration(self, here: Side, there: Side, q: Array) -> Array:
        result = np.empty_like(q)
        for name in here.joints:
            own = q[..., here.q(name)]
            if name == self.root:
                own = self._root_pose(here, q)
            elif name in self.reversed:
                own = REVERSALS[here.kind(name).name].q(own)
            result[..., there.q(name)] = own
        return result

    def _root_pose(self, here: Side, q: Array) -> Array:
        """q of the free joint that would carry the other root body: its own, and the way there.

        With the free joint in its neutral place the other frame is at P times that way.
        """
        own, still = q[..., here.q(self.root)], q.copy()
        still[..., here.q(self.root)] = here.kind(self.root).neutral
        R, p = here.model.joints[here.joints[self.root]].placement
        T = here.model.frame_placement(still, OTHER)
        way = np.array(R, q.dtype).T @ T[..., :3, :3]
        step = (T[..., :3, 3] - np.array(p, q.dtype)) @ np.array(R, q.dtype)
        turn = own[..., 3:] / np.linalg.norm(own[..., 3:], axis=-1, keepdims=True)
        moved = own[..., :3] + quaternion_turn(turn, step)
        return np.concatenate([moved, quaternion_product(turn, matrix_quaternion(way))], -1)

    def _map(self, here: Side, there: Side, q: Array) -> Array:
        """T (..., nv, nv), with v there = T v."""
        nv = here.model.nv
        T = np.zeros((*q.shape[:-1], nv, nv), q.dtype)
        for name in here.joints:
            own, k = q[..., here.q(name)], there.v(name)
            T[..., k, here.v(name)] = self._own_map(here, name, own)
        T[..., there.v(self.root), :] = here.model.jacobian(q, OTHER)
        return T

    def _own_map(self, here: Side, name: str, q: Array) -> Array:
        kind = here.kind(name)
        how = REVERSALS[kind.name].v if name in self.reversed else "same"
        if how == "moved":
            return parent_seen(kind, q)
        one = np.eye(kind.nv, dtype=q.dtype)
        return one[::-1] if how == "swapped" else one

    def _acceleration(self, here: Side, there: Side, T: Array, x: State) -> Array:
        a = _times(T, x.a)
        root = here.model.frame_acceleration(x.q, x.v, x.a, OTHER)
        a = np.broadcast_to(a, np.broadcast_shapes(a.shape, (*root.shape[:-1], a.shape[-1]))).copy()
        a[..., there.v(self.root)] = root
        return a


def rerooting(model: Any, body: str) -> Rerooting:
    """The robot on a free joint, seen from `body`, with the change of its states: see
    `Model.rerooted` for the robot itself, and for what is refused.
    """
    new = body_number(model, body)
    way = way_to_root(model, new)
    after = turned_round(model, new)
    root, now = model.joints[way[-1]].name, after.body_names.index(model.bodies[way[-1]].name)
    place = model.joints[way[-2]].placement.inverse() if len(way) > 1 else IDENTITY
    sides = Side.of(model, new, IDENTITY), Side.of(after, now, place)
    turned = {model.joints[j].name for j in way[:-1]} & set(sides[0].joints)
    return Rerooting(model, after, root, frozenset(turned), sides)


# Arrays


def _arrays(here: Side, given: dict[str, Any]) -> State:
    given = {name: x for name, x in given.items() if x is not None}
    if "a" in given and "v" not in given:
        raise ValueError("a is converted with the help of v, which was not given")
    dtype = common_dtype(given)
    arrays = {name: np.asarray(x, dtype) for name, x in given.items()}
    nq, nv = here.model.nq, here.model.nv
    for name, x in arrays.items():
        wanted = {"q": (nq,), "M": (nv, nv)}.get(name, (nv,))
        if x.shape[max(x.ndim - len(wanted), 0) :] != wanted:
            sizes = ", ".join(map(str, wanted))
            raise ValueError(f"{name} has shape {x.shape}, wanted (..., {sizes})")
    return State(**arrays)


def _times(A: Array, x: Array) -> Array:
    return np.asarray((A @ x[..., None])[..., 0])


def parent_seen(kind: JointType, q: Array) -> Array:
    """-Ad_E (..., nv, nv) on the joint's own v: the velocity of the parent as seen from the body,
    from that of the body as seen from the parent.
    """
    E = kind.transform([q[..., i] for i in range(kind.nq)])
    columns = [E.motion_to_parent(S) for S in kind.S]
    entries = [[-x[S.index(1.0)] + 0.0 * q[..., 0] for x in columns] for S in kind.S]
    return np.moveaxis(np.array(entries, q.dtype), (0, 1), (-2, -1))
