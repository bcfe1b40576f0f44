"""The robot as the algorithms read it: a tree of bodies on joints of constant S, in any scalar.

A `Tree` differs from the `Model` that it is made of in what makes the numbers that algorithms meet
0 or 1 more often, and changes no input or output: joint frames are turned so that an axis is z, a
universal joint is two turns with a body of no mass between, a mimic joint moves with the
coordinates of its leader, and the mass that a joint does not move is counted with its parent. Its
constants are floats, or, where `parameters` gives them, scalars of any kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import Any, NamedTuple

import numpy as np

from featherlane.joints import JointType, matrix_quaternion, quaternion_rotation
from featherlane.model import IDENTITY, WORLD, Floats, Frame, Joint, Model, spread
from featherlane.scalar import Scalar
from featherlane.spatial import (
    NO_INERTIA,
    ZERO3,
    ZERO6,
    Inertia,
    Matrix,
    Rotation,
    Symmetric,
    Transform,
    Vector,
    matmul,
    matvec,
    transpose,
)
from featherlane.walk import call

ANGLE_NOISE = 1e-11  # a right angle printed with eleven digits is a right angle
RELATIVE_NOISE = 1e-14

PARAMETERS = {  # what may be given at run time: the axes of its shape
    "mass": ("bodies",),
    "com": ("bodies", 3),
    "inertia": ("bodies", 6),
    "inertial": ("bodies", 10),
    "position": ("bodies", 3),
    "orientation": ("bodies", 4),
    "gravity": (3,),
    "armature": ("v",),
    "damping": ("v",),
    "friction": ("v",),
    "base_velocity": (6,),
    "base_acceleration": (6,),
}
BASE = ("base_velocity", "base_acceleration")
BODY_PARAMETERS = ("mass", "com", "inertia", "inertial")


def parameter_value(model: Model, name: str) -> np.ndarray:
    """What a parameter is where it is not given: see `Model.parameters`."""
    of_bodies = {
        "mass": lambda body: body.mass,
        "com": lambda body: body.com,
        "inertia": lambda body: _six(np.array(body.inertia)),
        "inertial": lambda body: _ten(body.mass, np.array(body.com), np.array(body.inertia)),
    }
    of_joints = {
        "position": lambda joint: joint.placement.p,
        "orientation": lambda joint: matrix_quaternion(np.array(joint.placement.R)),
    }
    if name in of_bodies:
        return np.array([of_bodies[name](body) for body in model.bodies], float)
    if name in of_joints:
        return np.array([of_joints[name](joint) for joint in model.joints], float)
    if name in BASE:
        return np.zeros(6)
    return np.array(getattr(model, name), float)


def _six(I: np.ndarray) -> np.ndarray:
    return I[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]


def _ten(m: float, c: np.ndarray, I: np.ndarray) -> np.ndarray:
    return np.array([m, *(m * c), *_six(I + m * spread(c))])


def _quiet(x: Any) -> np.ndarray:
    """Zeros that the file's rounding has hidden are zeros again."""
    x = np.array(x, float)
    return np.where(np.abs(x) < ANGLE_NOISE, 0.0, x)


def _unit_rows(R: Any) -> np.ndarray:
    """The same for the rows of a rotation, or one of them: what stands alone in its row is 1 or -1.

    Of two rounded angles a small entry may be a true product: only a rotation is a result.
    """
    R = np.array(R, float)
    for noise in (ANGLE_NOISE, RELATIVE_NOISE):
        Q = np.where(np.abs(R) < noise, 0.0, R)
        Q = np.where(np.count_nonzero(Q, axis=-1, keepdims=True) == 1, np.sign(Q), Q)
        rows = np.atleast_2d(Q)
        if np.abs(rows @ rows.T - np.eye(len(rows))).max() < RELATIVE_NOISE:
            return Q
    return R


class Source(NamedTuple):
    """Where a coordinate of a joint comes from: multiplier q[k] + offset."""

    k: int
    multiplier: float = 1.0
    offset: float = 0.0


class Freedom(NamedTuple):
    """An entry of v, and the motion that it makes of its body, in the body's axes."""

    k: int
    S: Vector


class Link(NamedTuple):
    """A body and its joint, as the steps take them that many links have in common: what `Tree` has
    of a body, without numbers of bodies and coordinates.
    """

    kind: JointType
    ratios: tuple[tuple[float, float], ...]  # multiplier and offset of each source
    X_tree: Transform
    inertia: Inertia
    S: tuple[Vector, ...]
    armature: tuple[Scalar, ...]  # these three for each degree of freedom
    damping: tuple[Scalar, ...]
    frictions: tuple[Sequence[tuple[Scalar, float]], ...]
    load: Scalar  # the mass of the body and all beyond it


def joint_transform(link: Link, q: Sequence[Scalar]) -> Transform:
    """Coordinates of a body from those of its parent, at the entries of q that its joint reads."""
    own = [multiplier * x + offset for (multiplier, offset), x in zip(link.ratios, q, strict=True)]
    return link.kind.transform(own) @ link.X_tree


class Point(NamedTuple):
    """A frame on a body of a tree: coordinates of the frame from those of the body."""

    body: int
    X: Transform


@dataclass(frozen=True, eq=False)
class Tree:
    """Bodies and joints, parents first; one entry for each body, unless said otherwise."""

    nv: int
    gravity: Vector
    parent: tuple[int, ...]
    types: tuple[JointType, ...]
    sources: tuple[tuple[Source, ...], ...]
    freedoms: tuple[tuple[Freedom, ...], ...]
    turns: tuple[Rotation, ...]  # a body's axes here from the axes that the user knows
    X_tree: tuple[Transform, ...]  # the constant part of each joint's transform
    inertias: tuple[Inertia, ...]
    ground: Inertia  # what of the moving mass rides on the ground
    carriers: tuple[int, ...]  # for each body of the model its body here
    armature: Sequence[Scalar]  # these three for each entry of v
    damping: Sequence[Scalar]
    frictions: Sequence[Sequence[tuple[Scalar, float]]]
    """Friction f v / sqrt(v^2 + v0^2) as pairs (f, v0): one of each joint with this entry of v."""
    base_velocity: Vector = ZERO6  # of the ground, [angular; linear] in its own axes
    base_acceleration: Vector = ZERO6
    """The same, the linear half being that of its origin as a point in space."""

    @property
    def nbodies(self) -> int:
        return len(self.parent)

    def joint_transform(self, i: int, q: Sequence[Scalar]) -> Transform:
        """Coordinates of body i from those of its parent, at the robot's q (the book's iXp)."""
        return call(joint_transform, self.links[i], [q[s.k] for s in self.sources[i]])

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The bodies with their joints. Of a coordinate that joints share each has the physics."""
        return tuple(
            Link(
                self.types[i],
                tuple((s.multiplier, s.offset) for s in self.sources[i]),
                self.X_tree[i],
                self.inertias[i],
                tuple(S for _, S in own),
                tuple(self.armature[k] for k, _ in own),
                tuple(self.damping[k] for k, _ in own),
                tuple(tuple(self.frictions[k]) for k, _ in own),
                self.loads[i],
            )
            for i, own in enumerate(self.freedoms)
        )

    @cached_property
    def loads(self) -> tuple[Scalar, ...]:
        """The mass that each joint carries."""
        loads = [inertia.m for inertia in self.inertias]
        for i in reversed(range(self.nbodies)):
            if (p := self.parent[i]) != WORLD:
                loads[p] = loads[p] + loads[i]
        return tuple(loads)

    def point(self, frame: Frame) -> Point:
        """Where a frame of the model is."""
        place, i = frame.placement, WORLD
        above = np.eye(3)
        if frame.body != WORLD:
            i = self.carriers[frame.body]
            above = np.array(self.turns[i].rows, float).T
        return Point(i, _fixed(_floats(place.R), Vector(place.p), np.eye(3), above))

    @cached_property
    def first_freedom(self) -> tuple[int, ...]:
        """The freedoms of all bodies are counted through: where each body's begin."""
        return tuple(int(n) for n in np.cumsum([0, *map(len, self.freedoms)]))

    @cached_property
    def numbered(self) -> tuple[tuple[tuple[int, Freedom], ...], ...]:
        """Each body's freedoms with their numbers."""
        return tuple(
            tuple(enumerate(own, start))
            for own, start in zip(self.freedoms, self.first_freedom, strict=False)
        )

    @cached_property
    def above(self) -> tuple[tuple[int, ...], ...]:
        """For each freedom itself and all before it on the way to the root, the nearest first."""
        lines: list[tuple[int, ...]] = []
        for i, own in enumerate(self.freedoms):
            p = self.parent[i]
            line = lines[self.first_freedom[p + 1] - 1] if p != WORLD else ()
            for _ in own:
                line = (len(lines), *line)
                lines.append(line)
        return tuple(lines)

    @cached_property
    def coupled(self) -> bool:
        """Whether bodies share coordinates, as mimic joints do."""
        return self.first_freedom[-1] != self.nv

    @cached_property
    def ancestors(self) -> tuple[tuple[int, ...], ...]:
        """For each entry of v itself and those that its row of the factor L^T D L reaches, the
        nearest first: its ancestors in the tree, and where entries are shared in the elimination
        tree (Davis, Direct Methods for Sparse Linear Systems, 2006, section 4.1).
        """
        if not self.coupled:
            return self.above
        k = [freedom.k for own in self.freedoms for freedom in own]
        rows: list[set[int]] = [{i} for i in range(self.nv)]
        for line in self.above:
            for other in line:
                low, high = sorted((k[line[0]], k[other]))
                rows[high].add(low)
        lines: list[tuple[int, ...]] = [()] * self.nv
        for i in reversed(range(self.nv)):
            nearest = max(rows[i] - {i}, default=None)
            if nearest is not None:
                rows[nearest] |= rows[i] - {i}
        for i in range(self.nv):
            nearest = max(rows[i] - {i}, default=None)
            lines[i] = (i, *(lines[nearest] if nearest is not None else ()))
        return tuple(lines)


def is_chain(tree: Tree) -> bool:
    """Whether each body hangs on the one before it."""
    return tree.parent == tuple(range(-1, tree.nbodies - 1))


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


def tree(model: Model, parameters: Mapping[str, Any] | None = None, ride: bool = True) -> Tree:
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


def _floats(R: Any) -> Matrix:
    return tuple(Vector(map(float, row)) for row in R)


def _known(*entries: Any) -> bool:
    """Whether all of these are numbers, and none is a scalar given at run time."""
    return all(isinstance(x, int | float | np.number) for x in entries)


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


def _rows(R: np.ndarray) -> Matrix:
    return _floats(_unit_rows(R))


def _rotation(R: np.ndarray) -> Rotation:
    """Child from parent coordinates, of a child whose axes are the columns of R."""
    return Rotation(transpose(_rows(R)))


def _placement(joint: Joint, i: int, given: Mapping[str, Any]) -> tuple[Matrix, Vector]:
    R, p = _floats(joint.placement.R), Vector(joint.placement.p)
    if "orientation" in given:
        R = transpose(call(quaternion_rotation, *given["orientation"][i]).rows)
    if "position" in given:
        p = Vector(given["position"][i])
    return R, p


def _fixed(R: Matrix, p: Vector, turn: np.ndarray, above: np.ndarray) -> Transform:
    """A placement, between frames whose axes, in the user's, are the columns of `turn` and
    `above`.
    """
    if _known(*R[0], *R[1], *R[2]):
        E = _rotation(above.T @ np.array(R, float) @ turn)
    else:
        E = call(_between, _rotation(turn), R, _floats(_unit_rows(above)))
    if _known(*p):
        return Transform(E, Vector(map(float, _quiet(above.T @ np.array(p)))))
    return Transform(E, call(matvec, _rotation(above).rows, p))


def _between(turn: Rotation, R: Matrix, above: Matrix) -> Rotation:
    return Rotation(matmul(matmul(turn.rows, transpose(R)), above))


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
