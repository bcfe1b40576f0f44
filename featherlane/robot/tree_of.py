"""The `Tree` of a `Model`: the view of a robot that the algorithms read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from operator import add
from typing import Any, NamedTuple

import numpy as np

from featherlane.robot.constants import direction
from featherlane.robot.joint_type import JointType
from featherlane.robot.model import Robot
from featherlane.robot.parameters import BASE
from featherlane.robot.parts import IDENTITY, WORLD, Floats, Joint
from featherlane.robot.quaternions import quaternion_rotation
from featherlane.robot.spatial import (
    NO_INERTIA,
    ZERO3,
    Inertia,
    Matrix,
    Rotation,
    Symmetric,
    Transform,
    Vector,
    cross,
    dot,
    transpose,
    unit,
)
from featherlane.robot.tree import (
    RELATIVE_NOISE,
    Coordinate,
    Freedom,
    Spring,
    Stop,
    StopLaw,
    Tree,
    fixed_transform,
    is_number,
    rotation_to,
    rounded_rotation,
    vectors,
)
from featherlane.scalar import Scalar, call, is_zero


class _Body(NamedTuple):
    """A body of the tree before its axes are rotated."""

    parent: int
    kind: JointType
    placement: tuple[Matrix, Vector]  # R and p of its joint in the parent's axes of the Model
    axis: Floats
    sources: tuple[Coordinate, ...]
    dofs: tuple[int, ...]
    multiplier: float  # of a mimic joint, else 1


def tree_of(model: Robot) -> Tree:
    """Returns the tree of a model with the model's constants, built once and stored with the
    model.
    """
    cached = model.__dict__  # where functools.cached_property keeps values: a model is immutable
    if "_tree" not in cached:
        cached["_tree"] = build_tree(model)
    return cached["_tree"]


def build_tree(
    model: Robot, parameters: Mapping[str, Any] | None = None, regroup: bool = True
) -> Tree:
    """Makes the tree of a model.

    parameters: scalars in place of the model's constants, as nested lists of the shapes of
    `PARAMETERS`. regroup: whether inertia that a joint does not move is counted with its parent.
    """
    values = parameters or {}
    bodies, carriers = _bodies(model, values)
    axes = [_frame_with_z_along(body.axis) if body.kind.axis else np.eye(3) for body in bodies]
    X_tree = _transforms(bodies, axes)
    inertias = _inertias(model, axes, carriers, values)
    ground = _regroup(bodies, X_tree, inertias) if regroup else NO_INERTIA
    armature = values.get("armature", model.armature.tolist())
    return Tree(
        nv=model.nv,
        gravity=Vector(values.get("gravity", model.gravity)),
        parent=tuple(body.parent for body in bodies),
        types=tuple(body.kind for body in bodies),
        sources=tuple(body.sources for body in bodies),
        freedoms=tuple(
            tuple(Freedom(k, S * b.multiplier) for k, S in zip(b.dofs, b.kind.S, strict=True))
            for b in bodies
        ),
        turns=tuple(map(rotation_to, axes)),
        X_tree=tuple(X_tree),
        inertias=tuple(inertias),
        ground=ground,
        carriers=tuple(carriers),
        turned_armature=tuple(_turned_armature(body, armature) for body in bodies),
        armature=armature,
        damping=values.get("damping", model.damping.tolist()),
        frictions=_frictions(model, values.get("friction")),
        coordinates=tuple(
            (model.types[i], model.first_q[i], model.first_v[i]) for i in model.independent
        ),
        springs=tuple(_springs(model, values)),
        stops=tuple(_stops(model)),
        **{name: Vector((*x[3:], *x[:3])) for name, x in values.items() if name in BASE},
    )


def _transforms(bodies: Sequence[_Body], axes: Sequence[np.ndarray]) -> list[Transform]:
    """Returns the transform of each body from its parent, both in their rotated axes."""
    X_tree = []
    for body, body_axes in zip(bodies, axes, strict=True):
        parent_axes = np.eye(3) if body.parent == WORLD else axes[body.parent]
        X_tree.append(fixed_transform(*body.placement, body_axes, parent_axes))
    return X_tree


def _inertias(
    model: Robot,
    axes: Sequence[np.ndarray],
    carriers: Sequence[int],
    values: Mapping[str, Any],
) -> list[Inertia]:
    """Returns the inertia of each body of the tree in its rotated axes."""
    inertias = [NO_INERTIA] * len(axes)
    for number, i in enumerate(carriers):
        to_model = Rotation(vectors(rounded_rotation(axes[i])))
        inertias[i] = call(_rotated, to_model, _inertia_of(model, number, values))
    return inertias


def _turned_armature(body: _Body, armature: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Returns the armature that turns with the body, along a free joint's lines; () if it is 0."""
    figures = tuple(armature[body.dofs[k]] for k in body.kind.turning_armature)
    return () if all(map(is_zero, figures)) else figures


def _frictions(model: Robot, friction: Sequence[Scalar] | None) -> list[list[tuple[Scalar, float]]]:
    """Returns (f, v0) of each joint, by entries of v; a follower's velocity is multiplied too."""
    v0 = model.friction_velocity
    if friction is not None:
        return [[(f, v0)] for f in friction]
    frictions: list[list[tuple[Scalar, float]]] = [[] for _ in range(model.nv)]
    for joint, dofs in zip(model.joints, model.dofs, strict=True):
        ratio = abs(joint.mimic.multiplier) if joint.mimic else 1.0
        for k, f in zip(dofs, joint.friction, strict=False):
            if f and ratio:
                frictions[k].append((f * ratio, v0 / ratio))
    return frictions


def _springs(model: Robot, values: Mapping[str, Any]) -> Iterator[Spring]:
    """Yields the springs of joints of one degree of freedom, where there is one or may be one."""
    stiffness = values.get("stiffness", model.stiffness.tolist())
    reference = values.get("spring_reference", model.spring_reference.tolist())
    for i in model.independent:
        k = model.first_v[i]
        if model.types[i].nv == 1 and not is_zero(stiffness[k]):
            yield Spring(k, model.first_q[i], stiffness[k], reference[k])


def _stops(model: Robot) -> Iterator[Stop]:
    """Yields the soft stops of all joints; those of a follower act on its leader."""
    for i, joint in enumerate(model.joints):
        if not joint.limit_stiffness:
            continue
        m, b = joint.mimic[1:] if joint.mimic else (1.0, 0.0)
        direction, size = (1.0 if m > 0 else -1.0), abs(m)
        law = joint.limit_width / size, joint.limit_stiffness * m * m, joint.limit_damping * m * m
        for sign, limits in ((-1.0, joint.lower), (1.0, joint.upper)):
            if limits and isfinite(limits[0]):
                end = StopLaw(direction * sign, (limits[0] - b) / m, *law)
                yield Stop(model.first_v[i], model.first_q[i], end)


def _bodies(model: Robot, values: Mapping[str, Any]) -> tuple[list[_Body], list[int]]:
    """Returns the bodies of the tree, and the number among them of each body of the model."""
    bodies: list[_Body] = []
    carriers: list[int] = []
    for i, joint in enumerate(model.joints):
        parent = carriers[joint.parent] if joint.parent != WORLD else WORLD
        multiplier, offset = joint.mimic[1:] if joint.mimic else (1.0, 0.0)
        indices = range(model.first_q[i], model.first_q[i] + joint.kind.nq)
        sources = tuple(Coordinate(k, multiplier, offset) for k in indices)
        place, dofs = _placement(joint, i, values), tuple(model.dofs[i])
        body = _Body(parent, joint.kind, place, joint.axis, sources, dofs, multiplier)
        if joint.kind.chain:
            first, second = joint.kind.chain
            bodies.append(body._replace(kind=first, sources=sources[:1], dofs=dofs[:1]))
            rigid, parent = (vectors(IDENTITY.R), ZERO3), len(bodies) - 1
            body = _Body(parent, second, rigid, joint.axis2, sources[1:], dofs[1:], multiplier)
        bodies.append(body)
        carriers.append(len(bodies) - 1)
    return bodies, carriers


# Placements


def _frame_with_z_along(axis: Floats) -> np.ndarray:
    """Returns a rotation whose third column is the axis.

    It is a signed permutation where the axis is an axis of the frame.
    """
    z = Vector(rounded_rotation(axis).tolist())
    k = max(range(3), key=lambda i: abs(z[i]))
    x = unit((k + 1) % 3, 3)  # the next axis in the cycle, then orthogonalised against z
    x = direction(x - z * dot(x, z))
    return np.array(transpose((x, cross(z, x), z)))


def _placement(joint: Joint, i: int, values: Mapping[str, Any]) -> tuple[Matrix, Vector]:
    """Returns R and p of a joint on its parent, from the parameters where they give them."""
    R, p = vectors(joint.placement.R), Vector(joint.placement.p)
    if "orientation" in values:
        R = transpose(call(quaternion_rotation, *values["orientation"][i]).rows)
    if "position" in values:
        p = Vector(values["position"][i])
    return R, p


# Inertias


def _second_moment(I: Symmetric, m: Scalar, c: Vector) -> Symmetric:
    """Returns S about the origin, from the rotational inertia I about the centre of mass c."""
    half = 0.5 * (I.xx + I.yy + I.zz)
    central = Symmetric(half - I.xx, -I.xy, -I.xz, half - I.yy, -I.yz, half - I.zz)
    return central + Symmetric.of(lambda i, j: m * c[i] * c[j])


def _inertia_of(model: Robot, i: int, values: Mapping[str, Any]) -> Inertia:
    """Returns the inertia of a body of the model, in the model's axes."""
    if "inertial" in values:
        return call(_inertia_of_ten, values["inertial"][i])
    body = model.bodies[i]
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia
    if "inertia" in values:
        xx, xy, yy, xz, yz, zz = values["inertia"][i]
    m = values["mass"][i] if "mass" in values else body.mass
    c = Vector(values["com"][i] if "com" in values else body.com)
    return call(_inertia, Symmetric(xx, xy, xz, yy, yz, zz), m, c)


def _inertia_of_ten(entries: Sequence[Scalar]) -> Inertia:
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = entries
    S = _second_moment(Symmetric(xx, xy, xz, yy, yz, zz), 0.0, ZERO3)
    return Inertia(m, Vector((hx, hy, hz)), S)


def _inertia(I: Symmetric, m: Scalar, c: Vector) -> Inertia:
    return Inertia(m, c * m, _second_moment(I, m, c))


def _rotated(to_model: Rotation, inertia: Inertia) -> Inertia:
    """Takes an inertia from the axes of the model to those that `to_model` takes there."""
    h, S = to_model.to_parent(inertia.h), to_model.symmetric_to_parent(inertia.S)
    return Inertia(inertia.m, Vector(_without_noise(h)), Symmetric(*_without_noise(S)))


def _without_noise(entries: Sequence[Scalar]) -> list[Scalar]:
    """Replaces by 0 the numbers that are rounding errors beside the largest of them."""
    if not is_number(*entries):
        return list(entries)
    noise = RELATIVE_NOISE * max(map(abs, entries))
    return [float(x) if abs(x) > noise else 0.0 for x in entries]


def _regroup(bodies: list[_Body], X_tree: list[Transform], inertias: list[Inertia]) -> Inertia:
    """Moves to each body's parent the inertia that the joint does not move (in place).

    Returns what comes to the ground.
    """
    ground = NO_INERTIA
    for i in reversed(range(len(bodies))):
        kind, p = bodies[i].kind, bodies[i].parent
        if kind.regrouped(NO_INERTIA) is NO_INERTIA:
            continue
        inertias[i], moved = call(_divided, kind, X_tree[i], inertias[i])
        if p == WORLD:
            ground = call(add, ground, moved)
        else:
            inertias[p] = call(add, inertias[p], moved)
    return ground


def _divided(kind: JointType, X: Transform, inertia: Inertia) -> tuple[Inertia, Inertia]:
    """Divides a body's inertia into what stays with it and what goes to its parent's frame."""
    moved = kind.regrouped(inertia)
    S = Symmetric(*[x - y for x, y in zip(inertia.S, moved.S, strict=True)])
    left = Inertia(inertia.m - moved.m, inertia.h - moved.h, S)
    return left, X.inertia_to_parent(moved)
