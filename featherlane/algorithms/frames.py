"""Where a frame is and how it moves: placement, velocity, acceleration, Jacobian.

Only the bodies on the way from the root to the frame are looked at. Reference: Featherstone 2008,
sections 2.8 to 2.11 and 3.3. Results are in the user's order, [linear; angular].

A result may be asked for in three references: "body" (the frame's axes, at its origin), "world"
(the world's axes, at the frame's origin) and "spatial" (the world's axes, at the world's origin).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from featherlane.algorithms.common import Scalars, joint_coordinates, joint_entries, link_motion
from featherlane.algorithms.mminv import Rows
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import (
    NO_TURN,
    ZERO3,
    ZERO6,
    Transform,
    Vector,
    crm,
    cross,
    spatial,
    split,
    transpose,
)
from featherlane.robot.tree import Freedom, Link, Point, Tree, joint_transform
from featherlane.scalar import Scalar, call


def linear_first(x: Sequence[Scalar]) -> list[Scalar]:
    """[linear; angular], as users have it, from [angular; linear]."""
    return [*x[3:], *x[:3]]


def path(model: Tree, body: int) -> list[int]:
    """The bodies from the root to this one."""
    bodies = []
    while body != WORLD:
        bodies.append(body)
        body = model.parent[body]
    return bodies[::-1]


def _placed_on(link: Link, q: Scalars, parent: Transform) -> Transform:
    X = joint_transform(link, q) @ parent
    return Transform(X.E, X.r)


def placements(model: Tree, q: Scalars, bodies: Iterable[int]) -> dict[int, Transform]:
    """For each of these bodies, parents first: its coordinates from those of the world."""
    X = {WORLD: Transform(NO_TURN, ZERO3)}
    for i in bodies:
        own = joint_coordinates(model, i, q)
        X[i] = call(_placed_on, model.links[i], own, X[model.parent[i]])
    return X


def placed(model: Tree, q: Scalars, frame: Point) -> Transform:
    """The frame's coordinates from those of the world."""
    return frame.X @ placements(model, q, path(model, frame.body))[frame.body]


def frame_placement(model: Tree, q: Scalars, frame: Point) -> Rows:
    """The 4 x 4 matrix that takes the frame's coordinates to the world's."""
    X = placed(model, q, frame)
    rows = [[*row, r] for row, r in zip(transpose(X.E.rows), X.r, strict=True)]
    return [*rows, [0.0, 0.0, 0.0, 1.0]]


# Velocity and acceleration: the outward half of Newton and Euler's recursion


def referred(model: Tree, q: Scalars, frame: Point, reference: str, motion: Vector) -> list[Scalar]:
    """A motion vector in the frame's coordinates, as it is in a reference."""
    if reference == "body":
        return linear_first(motion)
    X = placed(model, q, frame)
    return linear_first(
        Transform(X.E, X.r if reference == "spatial" else ZERO3).motion_to_parent(motion)
    )


def _velocity(link: Link, v: Vector, q: Scalars, qd: Scalars) -> Vector:
    return joint_transform(link, q).motion(v) + link_motion(link, qd)


def frame_velocity(
    model: Tree, q: Scalars, qd: Scalars, frame: Point, reference: str
) -> list[Scalar]:
    v = ZERO6
    for i in path(model, frame.body):
        own = joint_coordinates(model, i, q), joint_entries(model, i, qd)
        v = call(_velocity, model.links[i], v, *own)
    return referred(model, q, frame, reference, frame.X.motion(v))


def _acceleration(
    link: Link, v: Vector, a: Vector, q: Scalars, qd: Scalars, qdd: Scalars
) -> tuple[Vector, Vector]:
    """v and a of a body, from its parent's."""
    X, vJ = joint_transform(link, q), link_motion(link, qd)
    v = X.motion(v) + vJ
    return v, X.motion(a) + link_motion(link, qdd) + crm(v, vJ)


def frame_acceleration(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, frame: Point, reference: str
) -> list[Scalar]:
    """The derivative by time of `frame_velocity` in the same reference: J qdd + dJ/dt qd.

    In axes that do not turn and at a point that moves along, this is the spatial acceleration and
    w x v besides (section 2.11).
    """
    v, a = ZERO6, ZERO6
    for i in path(model, frame.body):
        rates = joint_entries(model, i, qd), joint_entries(model, i, qdd)
        v, a = call(_acceleration, model.links[i], v, a, joint_coordinates(model, i, q), *rates)
    (w, vo), a = split(frame.X.motion(v)), frame.X.motion(a)
    if reference == "world":
        a = a + spatial(ZERO3, cross(w, vo))
    return referred(model, q, frame, reference, a)


# Jacobians


def seen(model: Tree, q: Scalars, frame: Point, reference: str) -> list[list[Freedom]]:
    """The freedoms of each body on the way to the frame, the root's first, in a reference."""
    bodies = path(model, frame.body)
    if reference == "body":
        X = {frame.body: frame.X}
        for i in reversed(bodies):
            X[model.parent[i]] = X[i] @ model.joint_transform(i, q)
        view = {i: X[i].motion for i in bodies}
    else:
        X = placements(model, q, bodies)
        at = (frame.X @ X[frame.body]).r if reference == "world" else ZERO3
        view = {i: Transform(X[i].E, X[i].r - at).motion_to_parent for i in bodies}
    return [[Freedom(k, view[i](S)) for k, S in model.freedoms[i]] for i in bodies]


def matrix(columns: Iterable[tuple[int, Sequence[Scalar]]], rows: int, nv: int) -> Rows:
    """rows x nv, from columns and where they are; those that share an entry of v are added."""
    J: Rows = [[0.0] * nv for _ in range(rows)]
    there: set[int] = set()
    for k, column in columns:
        for i, x in enumerate(column):
            J[i][k] = J[i][k] + x if k in there else x
        there.add(k)
    return J


def jacobian(model: Tree, q: Scalars, frame: Point, reference: str) -> Rows:
    """J, 6 x nv: the frame's velocity is J qd."""
    columns = [(k, linear_first(s)) for own in seen(model, q, frame, reference) for k, s in own]
    return matrix(columns, 6, model.nv)


def jacobian_time_derivative(
    model: Tree, q: Scalars, qd: Scalars, frame: Point, reference: str
) -> Rows:
    """dJ/dt, 6 x nv. A column s moves with its body, at v; seen by an observer who moves himself at
    u it changes by (v - u) x s.
    """
    v, moving = ZERO6, []
    for own in seen(model, q, frame, reference):
        for k, s in own:
            v = v + s * qd[k]
        moving.append((v, own))
    with_frame = {"body": v, "world": spatial(ZERO3, split(v)[1]), "spatial": ZERO6}
    u = with_frame[reference]
    columns = [(k, linear_first(crm(v - u, s))) for v, own in moving for k, s in own]
    return matrix(columns, 6, model.nv)
