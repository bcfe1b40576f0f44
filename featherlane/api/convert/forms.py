"""The table of other libraries: how each holds a joint of every type.

Of their public documentation; the rows of Pinocchio, MuJoCo and Drake are tested against the
libraries themselves. A type without a row has the same q, v and tau there, if need be as a chain of
joints of one degree of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from featherlane.robot.joints import quaternion_product

Array = np.ndarray
Map = Callable[[Array], Array]


def _same(q: Array) -> Array:
    return q


class Form(NamedTuple):
    """A joint's coordinates in another library.

    nq: how many. to_q, from_q: theirs from ours (..., nq) and back. v: the place there of each of
    our entries of v; empty: the same order. turned: where in v the vectors begin that are in the
    parent's axes there and in the body's axes here. at_com: the linear velocity is that of the
    body's centre of mass, not of its origin.
    """

    nq: int
    to_q: Map = _same
    from_q: Map = _same
    v: tuple[int, ...] = ()
    turned: tuple[int, ...] = ()
    at_com: bool = False


class Library(NamedTuple):
    """forms, lacks: by joint type. parts: suffixes of the names of several joints that are one
    here. model: what else than names may be its peer, for messages.
    """

    name: str
    forms: Mapping[str, Form]
    lacks: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, ...]] = {}
    breadth_first: bool = False  # the usual order of joints: else depth-first, as here
    w_last: bool = False  # the w of all quaternions are at the end of q
    model: str = ""


# Ways to write an orientation


def _entries(*order: int) -> tuple[Map, Map]:
    """The same numbers in another order: entry k there is entry order[k] here."""
    there, here = list(order), np.argsort(order)
    return lambda q: q[..., there], lambda q: q[..., here]


def _to_turn(q: Array) -> Array:
    """The angle at the end as cosine and sine."""
    return np.concatenate([q[..., :-1], np.cos(q[..., -1:]), np.sin(q[..., -1:])], -1)


def _from_turn(q: Array) -> Array:
    """Between -pi and pi."""
    return np.concatenate([q[..., :-2], np.arctan2(q[..., -1:], q[..., -2:-1])], -1)


def _to_rpy(quaternion: Array) -> Array:
    """Roll, pitch and yaw about the parent's x, y and z: R = Rz(yaw) Ry(pitch) Rx(roll)."""
    x, y, z, w = np.moveaxis(quaternion, -1, 0)
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2 * (w * y - x * z), -1, 1))
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return np.stack([roll, pitch, yaw], -1)


def _from_rpy(angles: Array) -> Array:
    def turn(axis: int) -> Array:
        half = angles[..., axis] / 2
        return np.stack([np.sin(half) * (k == axis) for k in range(3)] + [np.cos(half)], -1)

    return quaternion_product(quaternion_product(turn(2), turn(1)), turn(0))


# The table

BALL_WXYZ = _entries(3, 0, 1, 2)
FREE_WXYZ = _entries(0, 1, 2, 6, 3, 4, 5)
WORLD_LINEAR, WORLD_BOTH = (0,), (0, 3)
ANGULAR_FIRST = (3, 4, 5, 0, 1, 2)

CONTINUOUS = Form(2, _to_turn, _from_turn)  # a turn without limits, in Pinocchio
PINOCCHIO = Library("Pinocchio", {"planar": Form(4, _to_turn, _from_turn)})
MUJOCO = Library(
    "MuJoCo",
    {
        "spherical": Form(4, *BALL_WXYZ),
        "free": Form(7, *FREE_WXYZ, turned=WORLD_LINEAR),
        "planar": Form(3, turned=WORLD_LINEAR),
    },
    lacks=("helical",),
    parts={"planar": ("_TX", "_TY", "_RZ")},  # as MuJoCo's reader of URDF names them
    model="an MjModel, or ",
)
DRAKE = Library(
    "Drake",
    {
        "spherical": Form(3, _to_rpy, _from_rpy, turned=WORLD_LINEAR),
        "free": Form(7, *_entries(6, 3, 4, 5, 0, 1, 2), v=ANGULAR_FIRST, turned=WORLD_BOTH),
        "planar": Form(3, turned=WORLD_LINEAR),
    },
)
ISAAC = Library(
    "Isaac Lab",
    {"free": Form(7, *FREE_WXYZ, turned=WORLD_BOTH, at_com=True)},
    lacks=("helical", "spherical", "planar"),
    breadth_first=True,
)
ISAAC_LINK = ISAAC._replace(forms={"free": Form(7, *FREE_WXYZ, turned=WORLD_BOTH)})
RBDL = Library(
    "RBDL",
    {
        "free": Form(7, turned=WORLD_LINEAR),
        "planar": Form(3, turned=WORLD_LINEAR),
    },
    w_last=True,
)
