"""The algorithms' view of a robot, from the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add
from typing import Any, NamedTuple

import numpy as np

from featherlane.robot.joints import JointType, quaternion_rotation
from featherlane.robot.model import IDENTITY, WORLD, Floats, Joint, Model
from featherlane.robot.parameters import BASE
from featherlane.robot.spatial import (
    NO_INERTIA,
    ZERO3,
    Inertia,
    Matrix,
    Rotation,
    Symmetric,
    Transform,
    Vector,
    transpose,
)
from featherlane.robot.tree import (
    RELATIVE_NOISE,
    Freedom,
    Source,
    Tree,
    _fixed,
    _floats,
    _known,
    _rotation,
    _rows,
    _unit_rows,
)
from featherlane.scalar import Scalar, call

# From a model


class _Link(NamedTuple):
    """A body of the tree before frames are turned."""

    parent: int
    kind: JointType
    placement: tuple[Matrix, Vector]  # R and p on the parent's user axes
    axis: Floats
    sources: tuple[Source, ...]
    dofs: tuple[int, ...]
    ratio: float


def tree_of(model: Model) -> Tree:
    """The tree of a model with its own constants, made once and kept with the model."""
    kept = model.__dict__  # as functools.cached_property keeps values: a model is immutable
    if "_tree" not in kept:
        kept["_tree"] = build_tree(model)
    return kept["_tree"]


def build_tree(
    model: Model, parameters: Mapping[str, Any] | None = None, ride: bool = True
) -> Tree:
    """The tree of a model. parameters: scalars in place of the model's constants, as nested lists
    of the shapes of `PARAMETERS`. ride: whether mass that a joint does not move is counted with the
    parent.
    """
    given = parameters or {}
    links, carriers = _links(model, given)
    turns = [_axis_to_z(link.axis) if link.kind.axis else np.eye(3) for link in links]
    X_tree = [
        _fixed(*link.placement, turn, np.eye(3) if link.parent == WORLD else turns[link.parent])
        for link, turn in zip(links, turns, strict=True)
    ]
    inertias = [NO_INERTIA] * len(links)
    for body, i in enumerate(carriers):
        inertias[i] = _turned(_inertia_of(model, body, given), turns[i])
    ground = _let_ride(links, X_tree, inertias) if ride else NO_INERTIA
    return Tree(
        nv=model.nv,
        gravity=Vector(given.get("gravity", model.gravity)),
        parent=tuple(link.parent for link in links),
        types=tuple(link.kind for link in links),
        sources=tuple(link.sources for link in links),
        freedoms=tuple(
            tuple(Freedom(k, S * link.ratio) for k, S in zip(link.dofs, link.kind.S, strict=True))
            for link in links
        ),
        turns=tuple(_rotation(turn) for turn in turns),
        X_tree=tuple(X_tree),
        inertias=tuple(inertias),
        ground=ground,
        carriers=tuple(carriers),
        armature=given.get("armature", model.armature.tolist()),
        damping=given.get("damping", model.damping.tolist()),
        frictions=_frictions(model, given.get("friction")),
        **{name: Vector((*given[name][3:], *given[name][:3])) for name in BASE if name in given},
    )


def _frictions(model: Model, given: Sequence[Scalar] | None) -> list[list[tuple[Scalar, float]]]:
    """Those of the robot's file; a follower slides `multiplier` times as fast as its leader."""
    v0 = model.friction_velocity
    if given is not None:
        return [[(f, v0)] for f in given]
    frictions: list[list[tuple[Scalar, float]]] = [[] for _ in range(model.nv)]
    for joint, dofs in zip(model.joints, model.dofs, strict=True):
        ratio = abs(joint.mimic.multiplier) if joint.mimic else 1.0
        for k, f in zip(dofs, joint.friction, strict=False):
            if f and ratio:
                frictions[k].append((f * ratio, v0 / ratio))
    return frictions


def _links(model: Model, given: Mapping[str, Any]) -> tuple[list[_Link], list[int]]:
    links: list[_Link] = []
    carriers: list[int] = []
    for i, joint in enumerate(model.joints):
        parent = carriers[joint.parent] if joint.parent != WORLD else WORLD
        ratio, offset = joint.mimic[1:] if joint.mimic else (1.0, 0.0)
        at_q = range(model.first_q[i], model.first_q[i] + joint.kind.nq)
        sources = tuple(Source(k, ratio, offset) for k in at_q)
        place, dofs = _placement(joint, i, given), tuple(model.dofs[i])
        if joint.kind.chain:
            rigid = _floats(IDENTITY.R), ZERO3
            for n, kind in enumerate(joint.kind.chain):
                axis = (joint.axis, joint.axis2)[n]
                links.append(
                    _Link(parent, kind, place, axis, sources[n : n + 1], dofs[n : n + 1], ratio)
                )
                parent, place = len(links) - 1, rigid
        else:
            links.append(_Link(parent, joint.kind, place, joint.axis, sources, dofs, ratio))
        carriers.append(len(links) - 1)
    return links, carriers


# Placements


def _axis_to_z(axis: Floats) -> np.ndarray:
    """A rotation whose third column is the axis; a permutation with signs where the axis is one of
    the frame's.
    """
    z = _unit_rows(axis)
    k = int(np.argmax(np.abs(z)))
    x = np.roll(np.eye(3)[k], 1)  # the next axis in the cycle, then made orthogonal to z
    x = x - z * (x @ z)
    x = x / np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def _placement(joint: Joint, i: int, given: Mapping[str, Any]) -> tuple[Matrix, Vector]:
    R, p = _floats(joint.placement.R), Vector(joint.placement.p)
    if "orientation" in given:
        R = transpose(call(quaternion_rotation, *given["orientation"][i]).rows)
    if "position" in given:
        p = Vector(given["position"][i])
    return R, p


# Inertias


def _quiet_relative(entries: Sequence[Scalar]) -> list[Scalar]:
    if not _known(*entries):
        return list(entries)
    noise = RELATIVE_NOISE * max(map(abs, entries))
    return [float(x) if abs(x) > noise else 0.0 for x in entries]


def second_moment(I: Symmetric, m: Scalar, c: Vector) -> Symmetric:
    """S about the origin, from the rotational inertia I about the centre of mass c."""
    half = 0.5 * (I.xx + I.yy + I.zz)
    about = Symmetric(half - I.xx, -I.xy, -I.xz, half - I.yy, -I.yz, half - I.zz)
    return about + [m * c[i] * c[j] for i in range(3) for j in range(i, 3)]


def _inertia_of(model: Model, i: int, given: Mapping[str, Any]) -> Inertia:
    """Of a body of the model, in the user's axes."""
    if "inertial" in given:
        return call(_inertia_of_ten, given["inertial"][i])
    body = model.bodies[i]
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia
    if "inertia" in given:
        xx, xy, yy, xz, yz, zz = given["inertia"][i]
    m = given["mass"][i] if "mass" in given else body.mass
    c = Vector(given["com"][i] if "com" in given else body.com)
    return call(_inertia, Symmetric(xx, xy, xz, yy, yz, zz), m, c)


def _inertia_of_ten(entries: Sequence[Scalar]) -> Inertia:
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = entries
    S = second_moment(Symmetric(xx, xy, xz, yy, yz, zz), 0.0, ZERO3)
    return Inertia(m, Vector((hx, hy, hz)), S)


def _inertia(I: Symmetric, m: Scalar, c: Vector) -> Inertia:
    return Inertia(m, c * m, second_moment(I, m, c))


def _turned(inertia: Inertia, turn: np.ndarray) -> Inertia:
    """Seen from axes that are the columns of `turn`."""
    return call(_seen_from, Rotation(_rows(turn)), inertia)


def _seen_from(E: Rotation, inertia: Inertia) -> Inertia:
    h, S = E.to_parent(inertia.h), E.symmetric_to_parent(inertia.S)
    return Inertia(inertia.m, Vector(_quiet_relative(h)), Symmetric(*_quiet_relative(S)))


def _let_ride(links: list[_Link], X_tree: list[Transform], inertias: list[Inertia]) -> Inertia:
    """Takes off each body what rides on its parent, and puts it there; what comes to ride on the
    ground is returned.
    """
    ground = NO_INERTIA
    for i in reversed(range(len(links))):
        kind, p = links[i].kind, links[i].parent
        if kind.ride(NO_INERTIA) is NO_INERTIA:
            continue
        inertias[i], moved = call(_ridden, kind, X_tree[i], inertias[i])
        if p == WORLD:
            ground = call(add, ground, moved)
        else:
            inertias[p] = call(add, inertias[p], moved)
    return ground


def _ridden(kind: JointType, X: Transform, inertia: Inertia) -> tuple[Inertia, Inertia]:
    """What is left on the body, and what its parent has of it."""
    rides = kind.ride(inertia)
    S = Symmetric(*[x - y for x, y in zip(inertia.S, rides.S, strict=True)])
    left = Inertia(inertia.m - rides.m, inertia.h - rides.h, S)
    return left, X.inertia_to_parent(rides)
