"""To and from the conventions of other libraries, by formula; none of them is needed for it.

Pinocchio: q of a continuous joint is (cos, sin), of a planar joint (x, y, cos, sin); v, tau and
6-vectors are as here; joint 0 is the universe, so that body i is joint i + 1.
MuJoCo: a free joint has q = [position; quaternion wxyz] and v = [linear velocity in the world's
axes; angular velocity in the body's]; a planar joint is two slides and a hinge, whose linear
velocity is in the parent's axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.joints import quaternion_turn
from featherlane.model import Model

UNIVERSE = 1  # Pinocchio's joints before the first that moves


class PinocchioLayout(NamedTuple):
    """Where the joint of body i is found in Pinocchio's model and arrays."""

    joints: tuple[int, ...]  # joint numbers; also the place of body i in fext, oMi and the like
    first_q: tuple[int, ...]
    first_v: tuple[int, ...]
    nq: tuple[int, ...]  # of each joint: 2 where a turn is (cos, sin)

    @property
    def size(self) -> int:
        """Pinocchio's nq."""
        return sum(self.nq)


def pinocchio_layout(model: Model, peer: Any = None) -> PinocchioLayout:
    """How Pinocchio arranges this robot.

    peer: its pinocchio.Model, whose joints are then found by name. Without one, joints are taken
    to be in the order of `model`, as both loaders make them, and a turn without limits to be
    continuous. Raises ValueError for joints that the peer lacks or has in excess.
    """
    if peer is None:
        nq = tuple(_pinocchio_nq(model, i) for i in range(model.nbodies))
        first = (0, *np.cumsum(nq).tolist()[:-1])
        return PinocchioLayout(
            tuple(range(UNIVERSE, UNIVERSE + model.nbodies)), first, model.first_v, nq
        )
    names = list(peer.names)
    if missing := sorted(set(model.joint_names) ^ set(names[UNIVERSE:])):
        raise ValueError(f"joints are in one of the two models only: {', '.join(missing)}")
    joints = tuple(names.index(name) for name in model.joint_names)
    columns = (peer.idx_qs, peer.idx_vs, peer.nqs)
    return PinocchioLayout(joints, *(tuple(int(c[j]) for j in joints) for c in columns))


def _pinocchio_nq(model: Model, i: int) -> int:
    kind, lower = model.types[i], model.joints[i].lower
    if kind.name == "revolute":
        return 2 if not lower or lower[0] == -np.inf else 1
    return 4 if kind.name == "planar" else kind.nq


def _angles(model: Model, layout: PinocchioLayout) -> Iterator[tuple[slice, slice, int | None]]:
    """For each joint its entries here and there, and which entry is an angle that becomes two."""
    for i, kind in enumerate(model.types):
        mine = slice(model.first_q[i], model.first_q[i] + kind.nq)
        other = slice(layout.first_q[i], layout.first_q[i] + layout.nq[i])
        yield mine, other, kind.angles[0] if layout.nq[i] > kind.nq else None


def to_pinocchio(model: Model, q: Any, layout: PinocchioLayout | None = None) -> np.ndarray:
    """Pinocchio's configuration (..., nq there) from ours (..., nq)."""
    q, layout = np.asarray(q), layout or pinocchio_layout(model)
    result = np.empty((*q.shape[:-1], layout.size), q.dtype)
    for mine, other, angle in _angles(model, layout):
        x = q[..., mine]
        if angle is not None:
            turn = x[..., angle : angle + 1]
            x = np.concatenate([x[..., :angle], np.cos(turn), np.sin(turn)], -1)
        result[..., other] = x
    return result


def from_pinocchio(model: Model, q: Any, layout: PinocchioLayout | None = None) -> np.ndarray:
    """Our configuration (..., nq) from Pinocchio's; angles come out between -pi and pi."""
    q, layout = np.asarray(q), layout or pinocchio_layout(model)
    result = np.empty((*q.shape[:-1], model.nq), q.dtype)
    for mine, other, angle in _angles(model, layout):
        x = q[..., other]
        if angle is not None:
            turn = np.arctan2(x[..., angle + 1 : angle + 2], x[..., angle : angle + 1])
            x = np.concatenate([x[..., :angle], turn], -1)
        result[..., mine] = x
    return result


def pinocchio_order(model: Model, layout: PinocchioLayout) -> np.ndarray:
    """For each of our entries of v (nv,) its place there: ours = theirs[..., order]."""
    starts = zip(layout.first_v, model.types, strict=True)
    return np.array([first + k for first, kind in starts for k in range(kind.nv)], int)


# MuJoCo


def to_mujoco(model: Model, q: Any) -> np.ndarray:
    """MuJoCo's qpos (..., nq) in our order of joints: quaternions become wxyz."""
    q = np.array(q)
    for kind, i in zip(model.types, model.first_q, strict=True):
        for k in kind.quaternions:
            at = slice(i + k, i + k + 4)
            q[..., at] = np.roll(q[..., at], 1, -1)
    return q


def from_mujoco(model: Model, qpos: Any) -> np.ndarray:
    """Our q (..., nq) from MuJoCo's in our order of joints."""
    q = np.array(qpos)
    for kind, i in zip(model.types, model.first_q, strict=True):
        for k in kind.quaternions:
            at = slice(i + k, i + k + 4)
            q[..., at] = np.roll(q[..., at], -1, -1)
    return q


def _mujoco_turn(kind: str, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Linear parts (..., 2 or 3) in MuJoCo's axes from the body's own."""
    if kind == "free":
        return quaternion_turn(q[..., 3:] / np.linalg.norm(q[..., 3:], axis=-1, keepdims=True), x)
    c, s = np.cos(q[..., 2]), np.sin(q[..., 2])
    return np.stack([c * x[..., 0] - s * x[..., 1], s * x[..., 0] + c * x[..., 1]], -1)


def mujoco_velocity_map(model: Model, q: Any) -> np.ndarray:
    """T (..., nv, nv) with qvel = T v: MuJoCo's M is T M T^T, its qfrc T tau (T is orthogonal)."""
    q = np.asarray(q)
    T = np.broadcast_to(np.eye(model.nv, dtype=q.dtype), (*q.shape[:-1], model.nv, model.nv)).copy()
    for kind, part, k, n in _moving_axes(model, q):
        for column in range(n):
            T[..., k : k + n, k + column] = _mujoco_turn(kind, part, np.eye(n)[column])
    return T


def to_mujoco_acceleration(model: Model, q: Any, v: Any, a: Any) -> np.ndarray:
    """qacc (..., nv) = T a + dT/dt v: MuJoCo's linear acceleration is that of a fixed observer."""
    q, v, a = np.asarray(q), np.asarray(v), np.array(a)
    for kind, part, k, n in _moving_axes(model, q):
        linear = v[..., k : k + n]
        if kind == "free":
            seen = a[..., k : k + n] + np.cross(v[..., k + 3 : k + 6], linear)
        else:
            w, turned = v[..., k + 2 : k + 3], np.stack([-linear[..., 1], linear[..., 0]], -1)
            seen = a[..., k : k + n] + w * turned
        a[..., k : k + n] = _mujoco_turn(kind, part, seen)
    return a


def _moving_axes(model: Model, q: np.ndarray) -> Iterator[tuple[str, np.ndarray, int, int]]:
    """Joints whose linear velocity is in other axes there: type, q, first entry of v, its size."""
    for kind, i, k in zip(model.types, model.first_q, model.first_v, strict=True):
        if kind.name in ("free", "planar"):
            yield kind.name, q[..., i : i + kind.nq], k, 3 if kind.name == "free" else 2


def mujoco_order(
    model: Model, names: Sequence[str], starts: Sequence[int], what: str
) -> np.ndarray:
    """For each of our entries of q or v (`what`) its place in MuJoCo's arrays.

    names, starts: of MuJoCo's joints, and where each begins there. A planar joint J of a URDF is
    J_TX, J_TY and J_RZ there. Raises ValueError for a joint that is not there.
    """
    where, order = dict(zip(names, starts, strict=True)), []
    for joint, kind in zip(model.joints, model.types, strict=True):
        size = kind.nq if what == "q" else kind.nv
        planar = [f"{joint.name}_{axis}" for axis in ("TX", "TY", "RZ")]
        parts = planar if kind.name == "planar" else [joint.name]
        if missing := [part for part in parts if part not in where]:
            raise ValueError(f"MuJoCo's model has no joint {missing[0]!r}")
        order += [where[part] + k for part in parts for k in range(size // len(parts))]
    return np.array(order, int)
