"""The regressor of one rigid body that moves with a frame."""

from __future__ import annotations

from featherlane.algorithms.common import Scalars, joint_state, link_motion
from featherlane.algorithms.frames import linear_first, path
from featherlane.algorithms.mminv import Rows
from featherlane.algorithms.rnea import BodyMotion, carried, ground_motion
from featherlane.robot.spatial import (
    ZERO3,
    ZERO6,
    ZERO_SYMMETRIC,
    Inertia,
    Symmetric,
    Transform,
    Vector,
    transpose,
)
from featherlane.robot.tree import BodyFrame, Link, Tree, joint_transform
from featherlane.robot.walk import along
from featherlane.scalar import Tag, at, call


def _second_moment(xx: float, xy: float, yy: float, xz: float, yz: float, zz: float) -> Symmetric:
    """Returns S = tr(I) / 2 - I for a rotational inertia I."""
    half = (xx + yy + zz) / 2
    return Symmetric(half - xx, -xy, -xz, half - yy, -yz, half - zz)


def _unit(k: int, count: int) -> list[float]:
    return [float(i == k) for i in range(count)]


# of m, m c and the rotational inertia about the origin, each 1 alone
UNIT_INERTIAS = (
    Inertia(1.0, ZERO3, ZERO_SYMMETRIC),
    *(Inertia(0.0, Vector(_unit(k, 3)), ZERO_SYMMETRIC) for k in range(3)),
    *(Inertia(0.0, ZERO3, _second_moment(*_unit(k, 6))) for k in range(6)),
)


def _moved(link: Link, parent: BodyMotion, q: Scalars, qd: Scalars, qdd: Scalars) -> BodyMotion:
    """Returns the motion of a body from its parent's."""
    return carried(joint_transform(link, q), parent, link_motion(link, qd), link_motion(link, qdd))


def _columns(X: Transform, body: BodyMotion) -> list[list]:
    """Returns the wrenches, in the order of the user, that unit inertias need at a frame."""
    m = carried(X, body, ZERO6, ZERO6)
    return [linear_first(I.wrench(m.U, m.a)) for I in UNIT_INERTIAS]


def body_regressor(model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, frame: BodyFrame) -> Rows:
    """Returns Y, 6 x 10: Y pi is the wrench, in the frame's axes at its origin, that a body with
    the inertial parameters pi needs to move with the frame under gravity.
    """
    m = call(ground_motion, model.gravity)
    for i in along(path(model, frame.body), "K"):
        m = call(_moved, model.links[i], m, *joint_state(model, i, q, qd, qdd))
    columns = at(Tag("K", "f", frame.body), call, _columns, frame.X, m)
    return [*map(list, transpose(columns))]
