"""The table of other libraries' conventions for the coordinates of each joint type.

It follows their public documentation; Pinocchio, MuJoCo and Drake are also tested themselves. A
type that is in no row of a library is one that it does not have, or that nobody has compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from featherlane.robot.quaternions import quaternion_product

Array = np.ndarray
Map = Callable[[Array], Array]


def _same(q: Array) -> Array:
    return q


class Convention(NamedTuple):
    """The coordinates of a joint in another library."""

    nq: int
    to_q: Map = _same  # the other library's q for ours (..., nq)
    from_q: Map = _same
    v: tuple[int, ...] = ()  # the index there of each of our entries of v; empty: the same order
    turned: tuple[int, ...] = ()  # first entries of vectors in parent's axes there, body's here
    at_com: bool = False  # the linear velocity is the centre of mass's, not the origin's


WITHOUT_SCREWS = ("revolute", "prismatic", "cylindrical", "universal", "translation")
OF_VECTORS = (*WITHOUT_SCREWS, "helical")


class Library(NamedTuple):
    """The conventions of a library, by joint type."""

    name: str
    conventions: Mapping[str, Convention]
    same: tuple[str, ...] = OF_VECTORS
    """The types with the same q, v and tau, if need be as several joints in series."""
    parts: Mapping[str, tuple[str, ...]] = {}  # name suffixes of several joints that are one here
    breadth_first: bool = False  # its usual order of joints; else depth-first
    w_last: bool = False  # the w of all quaternions are at the end of q
    model: str = ""  # for messages: what a peer may be besides names


# Conversions of orientations


def _entries(*order: int) -> tuple[Map, Map]:
    """Returns maps that reorder q and back: entry k there is entry order[k] here."""
    there, here = list(order), np.argsort(order)
    return lambda q: q[..., there], lambda q: q[..., here]


def _to_cos_sin(q: Array) -> Array:
    """Replaces the angle at the end by its cosine and sine."""
    return np.concatenate([q[..., :-1], np.cos(q[..., -1:]), np.sin(q[..., -1:])], -1)


def _from_cos_sin(q: Array) -> Array:
    """Replaces cosine and sine at the end by the angle, between -pi and pi."""
    return np.concatenate([q[..., :-2], np.arctan2(q[..., -1:], q[..., -2:-1])], -1)


def _to_rpy(quaternion: Array) -> Array:
    """Returns roll, pitch and yaw, with R = Rz(yaw) Ry(pitch) Rx(roll)."""
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
PLANAR = Convention(3, turned=WORLD_LINEAR)

# a revolute joint without limits, in Pinocchio
CONTINUOUS = Convention(2, _to_cos_sin, _from_cos_sin)
PINOCCHIO = Library(
    "Pinocchio",
    {"planar": Convention(4, _to_cos_sin, _from_cos_sin)},
    same=(*OF_VECTORS, "spherical", "free"),
)
MUJOCO = Library(
    "MuJoCo",
    {
        "spherical": Convention(4, *BALL_WXYZ),
        "free": Convention(7, *FREE_WXYZ, turned=WORLD_LINEAR),
        "planar": PLANAR,
    },
    same=WITHOUT_SCREWS,
    parts={"planar": ("_TX", "_TY", "_RZ")},  # as MuJoCo's reader of URDF names them
    model="an MjModel, or ",
)
DRAKE = Library(
    "Drake",
    {
        "spherical": Convention(3, _to_rpy, _from_rpy, turned=WORLD_LINEAR),
        "free": Convention(7, *_entries(6, 3, 4, 5, 0, 1, 2), v=ANGULAR_FIRST, turned=WORLD_BOTH),
        "planar": PLANAR,
    },
)
ISAAC = Library(
    "Isaac Lab",
    {"free": Convention(7, *FREE_WXYZ, turned=WORLD_BOTH, at_com=True)},
    same=WITHOUT_SCREWS,
    breadth_first=True,
)
ISAAC_LINK = ISAAC._replace(conventions={"free": Convention(7, *FREE_WXYZ, turned=WORLD_BOTH)})
RBDL = Library(
    "RBDL",
    {"free": Convention(7, turned=WORLD_LINEAR), "planar": PLANAR},
    same=(*OF_VECTORS, "spherical"),
    w_last=True,
)
