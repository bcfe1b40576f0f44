"""A frame's placement, velocity, acceleration and Jacobian, in the user's order [linear; angular].

Only the bodies on the path from the root to the frame are visited. Motions are expressed in one of
three references: "body" (the frame's axes, at its origin), "world" (the world's axes, at the
frame's origin) or "spatial" (the world's axes, at the world's origin). Reference: Featherstone
2008, sections 2.8 to 2.11 and 3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add
from typing import Any

from featherlane.algorithms.common import Scalars, joint_coordinates, joint_state, link_motion
from featherlane.algorithms.mminv import Rows
from featherlane.robot.parts import WORLD
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
from featherlane.robot.tree import BodyFrame, Freedom, Link, Tree, joint_transform
from featherlane.robot.walk import along, path_to_root
from featherlane.scalar import Scalar, Tag, at, call


def linear_first(x: Sequence[Scalar]) -> list[Scalar]:
    """Reorders [angular; linear] to [linear; angular], the order of the user's arrays."""
    return [*x[3:], *x[:3]]


def path(model: Tree, body: int) -> list[int]:
    """Returns the bodies from the root to this one."""
    return path_to_root(model.parent, body)[::-1]


def _at_frame(frame: BodyFrame, step: Any, *arguments: Any) -> Any:
    """Returns step(*arguments), a step of the frame's body."""
    return at(Tag("K", "f", frame.body), call, step, *arguments)


def _product(X: Transform, parent: Transform) -> Transform:
    """Returns X @ parent, without the two parts."""
    X = X @ parent
    return Transform(X.E, X.r)


def _from_world(link: Link, q: Scalars, parent: Transform) -> Transform:
    """Returns a body's transform from world coordinates, by its parent's."""
    return _product(joint_transform(link, q), parent)


def placements(model: Tree, q: Scalars, bodies: Iterable[int]) -> dict[int, Transform]:
    """Returns the transforms from world coordinates to these bodies', who come parents first."""
    X = {WORLD: Transform(NO_TURN, ZERO3)}
    for i in along(bodies, "K"):
        coordinates = joint_coordinates(model, i, q)
        X[i] = call(_from_world, model.links[i], coordinates, X[model.parent[i]])
    return X


def frame_transform(model: Tree, q: Scalars, frame: BodyFrame) -> Transform:
    """Returns the transform from world coordinates to the frame's."""
    X = placements(model, q, path(model, frame.body))
    return _at_frame(frame, _product, frame.X, X[frame.body])


def frame_placement(model: Tree, q: Scalars, frame: BodyFrame) -> Rows:
    """Returns the 4 x 4 matrix that takes the frame's coordinates to the world's."""
    X = frame_transform(model, q, frame)
    rows = [[*row, r] for row, r in zip(transpose(X.E.rows), X.r, strict=True)]
    return [*rows, [0.0, 0.0, 0.0, 1.0]]


# Velocity and acceleration: the outward half of the recursive Newton-Euler algorithm


def _expressed(
    model: Tree, q: Scalars, frame: BodyFrame, reference: str, motion: Vector
) -> list[Scalar]:
    """Takes a motion vector from the frame's coordinates to those of a reference."""
    if reference == "body":
        return linear_first(motion)
    X = frame_transform(model, q, frame)
    seen = Transform(X.E, X.r if reference == "spatial" else ZERO3)
    return linear_first(_at_frame(frame, Transform.motion_to_parent, seen, motion))


def _velocity(link: Link, v: Vector, q: Scalars, qd: Scalars) -> Vector:
    return joint_transform(link, q).motion(v) + link_motion(link, qd)


def frame_velocity(
    model: Tree, q: Scalars, qd: Scalars, frame: BodyFrame, reference: str
) -> list[Scalar]:
    v = ZERO6
    for i in along(path(model, frame.body), "K"):
        state = joint_state(model, i, q, qd)
        v = call(_velocity, model.links[i], v, *state)
    v = _at_frame(frame, Transform.motion, frame.X, v)
    return _expressed(model, q, frame, reference, v)


def body_acceleration(
    link: Link, v: Vector, a: Vector, q: Scalars, qd: Scalars, qdd: Scalars
) -> tuple[Vector, Vector]:
    """Returns a body's spatial velocity and acceleration, from its parent's v and a."""
    X, vJ = joint_transform(link, q), link_motion(link, qd)
    v = X.motion(v) + vJ
    return v, X.motion(a) + link_motion(link, qdd) + crm(v, vJ)


def _with_turning_velocity(v: Vector, a: Vector) -> Vector:
    """Returns a with w x v added to its linear half."""
    return a + spatial(ZERO3, cross(*split(v)))


def frame_acceleration(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, frame: BodyFrame, reference: str
) -> list[Scalar]:
    """Returns the time derivative of `frame_velocity` in the same reference, J qdd + dJ/dt qd.

    For the reference "world", whose point moves with the frame, it is the spatial acceleration with
    w x v added to its linear half (section 2.11).
    """
    v, a = _motion_of_frame(model, q, qd, qdd, frame, ZERO6)
    if reference == "world":
        a = _at_frame(frame, _with_turning_velocity, v, a)
    return _expressed(model, q, frame, reference, a)


def _motion_of_frame(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, frame: BodyFrame, of_ground: Vector
) -> tuple[Vector, Vector]:
    """Returns the spatial velocity and acceleration of a frame, in its axes. of_ground: the spatial
    acceleration of the ground.
    """
    v, a = ZERO6, of_ground
    for i in along(path(model, frame.body), "K"):
        v, a = call(body_acceleration, model.links[i], v, a, *joint_state(model, i, q, qd, qdd))
    v = _at_frame(frame, Transform.motion, frame.X, v)
    return v, _at_frame(frame, Transform.motion, frame.X, a)


def imu(model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, frame: BodyFrame) -> list[Scalar]:
    """Returns the classical acceleration of the frame's origin less gravity, and the angular
    velocity of the frame, in its axes. Gravity is an acceleration of the ground.
    """
    upwards = spatial(ZERO3, ZERO3 - model.gravity)
    v, a = _motion_of_frame(model, q, qd, qdd, frame, upwards)
    (w, _), (_, linear) = split(v), split(_at_frame(frame, _with_turning_velocity, v, a))
    return [*linear, *w]


# Jacobians


def _from_point(X: Transform, point: Vector) -> Transform:
    """Returns X from parallel axes whose origin is at a point of its parent frame."""
    return Transform(X.E, X.r - point)


def _path_freedoms(
    model: Tree, q: Scalars, frame: BodyFrame, reference: str
) -> list[list[Freedom]]:
    """Returns the freedoms of each body on the path to the frame, expressed in a reference."""
    bodies = path(model, frame.body)
    if reference == "body":
        X = {frame.body: frame.X}
        for i in along(reversed(bodies), "K", "b"):
            X[model.parent[i]] = call(_product, X[i], model.joint_transform(i, q))
        express = Transform.motion
    else:
        X, express = placements(model, q, bodies), Transform.motion_to_parent
        world = reference == "world"
        point = _at_frame(frame, _product, frame.X, X[frame.body]).r if world else ZERO3
        X = {i: call(_from_point, X[i], point) for i in along(bodies, "K")}
    return [
        [Freedom(k, call(express, X[i], S)) for k, S in model.freedoms[i]]
        for i in along(bodies, "K")
    ]


def matrix(columns: Iterable[tuple[int, Sequence[Scalar]]], rows: int, nv: int) -> Rows:
    """Returns the rows x nv matrix of (index, column) pairs; columns of one index are added."""
    J: Rows = [[0.0] * nv for _ in range(rows)]
    filled: set[int] = set()
    for k, column in columns:
        for i, x in enumerate(column):
            J[i][k] = call(add, J[i][k], x) if k in filled else x
        filled.add(k)
    return J


def jacobian(model: Tree, q: Scalars, frame: BodyFrame, reference: str) -> Rows:
    """Returns J, 6 x nv: the frame's velocity is J qd."""
    bodies = _path_freedoms(model, q, frame, reference)
    return matrix([(k, linear_first(s)) for body in bodies for k, s in body], 6, model.nv)


def _plus_rate(v: Vector, s: Vector, qd: Scalar) -> Vector:
    return v + s * qd


def _column_rate(v: Vector, u: Vector, s: Vector) -> Vector:
    """Returns (v - u) x s."""
    return crm(v - u, s)


def jacobian_time_derivative(
    model: Tree, q: Scalars, qd: Scalars, frame: BodyFrame, reference: str
) -> Rows:
    """Returns dJ/dt, 6 x nv.

    A column s moves with its body's velocity v: in a reference that moves with velocity u it
    changes by (v - u) x s.
    """
    v, moving, bodies = ZERO6, [], path(model, frame.body)
    freedoms = _path_freedoms(model, q, frame, reference)
    for _, body in zip(along(bodies, "K"), freedoms, strict=True):
        for k, s in body:
            v = call(_plus_rate, v, s, qd[k])
        moving.append((v, body))
    u = {"body": v, "world": spatial(ZERO3, split(v)[1]), "spatial": ZERO6}[reference]
    columns = [
        (k, linear_first(call(_column_rate, v, u, s)))
        for _, (v, body) in zip(along(bodies, "K"), moving, strict=True)
        for k, s in body
    ]
    return matrix(columns, 6, model.nv)
