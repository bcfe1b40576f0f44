"""The mass matrix and its inverse of robots of many links, from rows of numbers that belong to one
freedom each.

All are seen from the first body of their branch, so that nothing has to be carried from body to
body: M_ij is S_i . F_j for i an ancestor of j, with F_j the force that a unit acceleration of j
asks of all it moves; and a torque is solved for by two sweeps that only add (the articulated-body
algorithm with its factors known).
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.aba import resisted
from featherlane.algorithms.common import Scalars, joint_coordinates
from featherlane.algorithms.mminv import Rows, with_subtree
from featherlane.robot.model import WORLD
from featherlane.robot.spatial import NO_TURN, ZERO3, Articulated, Inertia, Transform
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call, unless_lost


class ByInertia(NamedTuple):
    """Numbers of a freedom for the mass matrix, one behind the other: their widths. M_ij is
    S_i . F_j of an ancestor i by j; on the diagonal F and armature meet S and one.
    """

    S: int = 6
    one: int = 1
    F: int = 6
    armature: int = 1


class ByArticulation(NamedTuple):
    """The same for solutions x of M x = t. Inward u = t - S . p, with p the sum of V u of all
    beyond; outward x = Dinv u - V . a, with a the sum of S x of all before; minus is -Dinv, which
    gives -x.
    """

    S: int = 6
    V: int = 6
    Dinv: int = 1
    minus: int = 1


def _placed(link: Link, C: Transform, q: Scalars) -> tuple[Transform, Transform]:
    """Outward: X and C of a link: coordinates from its parent's, and from the first body's."""
    X = joint_transform(link, q)
    C = X @ C
    return X, Transform(C.E, C.r)


def _places(model: Tree, q: Scalars) -> tuple[list[Transform], list[Transform]]:
    """X and C of all bodies."""
    X: list[Transform] = []
    C: list[Transform] = []
    here = Transform(NO_TURN, ZERO3)
    for i in outward(model, "M"):
        p = model.parent[i]
        above = here if p == WORLD else C[p]
        Xi, Ci = call(_placed, model.links[i], above, joint_coordinates(model, i, q))
        X.append(Xi)
        C.append(here if p == WORLD else Ci)
    return X, C


def _inertia_rows(link: Link, C: Transform, I: Inertia, armature: Scalars) -> Rows:
    """Of the freedoms of a link."""
    seen = [(C.motion_to_parent(S), C.force_to_parent(I @ S)) for S in link.S]
    return [[*S, 1.0, *F, own] for (S, F), own in zip(seen, armature, strict=True)]


def inertia_rows(model: Tree, q: Scalars) -> Rows:
    """`ByInertia` of all freedoms. Of freedoms that share a coordinate one has its armature."""
    X, C = _places(model, q)
    I = list(model.inertias)
    for i in inward(model, "M"):
        p = model.parent[i]
        if p != WORLD:
            I[p] = call(with_subtree, X[i], I[i], I[p])
    armature, rows = dict(enumerate(model.armature)), []
    for i, own in enumerate(model.freedoms):
        left = [armature.pop(k, 0.0) for k, _ in own]
        rows += call(_inertia_rows, model.links[i], C[i], I[i], left)
    return rows


def _freed(
    link: Link, C: Transform, IA: Articulated, lost: Scalar
) -> tuple[Rows, Articulated, Scalar]:
    """The rows of a link's freedoms, the last of which is solved for first, and the body without
    them. lost: 0, or NaN from where a pivot was lost inward.
    """
    rows: Rows = []
    for S, armature in reversed(list(zip(link.S, link.armature, strict=True))):
        U, D, size = resisted(IA, S, armature, link.load)
        Dinv = 1.0 / D
        V = U * Dinv
        IA = IA.minus_outer(V, U)
        lost = lost + unless_lost(0.0, D, size)
        known = Dinv + lost
        rows.insert(0, [*C.motion_to_parent(S), *C.force_to_parent(V), known, -known])
    return rows, IA, lost


def _first_freed(link: Link, C: Transform, IA: Articulated, lost: Scalar) -> Rows:
    """Where the parent is the ground."""
    return _freed(link, C, IA, lost)[0]


def _handed_on(
    link: Link,
    X: Transform,
    C: Transform,
    IA: Articulated,
    lost: Scalar,
    IAp: Articulated,
    lostp: Scalar,
) -> tuple[Rows, Articulated, Scalar]:
    """The rows, and what the parent feels of the link."""
    rows, IA, lost = _freed(link, C, IA, lost)
    return rows, IAp + X.articulated_to_parent(IA), lostp + lost


def depth_first(model: Tree) -> list[int]:
    """The bodies, all that hang on one right behind it."""
    beyond: dict[int, list[int]] = {i: [] for i in range(-1, model.nbodies)}
    for i in reversed(range(model.nbodies)):
        beyond[model.parent[i]] += [*beyond.pop(i), i]
    return beyond[WORLD][::-1]


def articulated_rows(model: Tree, q: Scalars) -> Rows:
    """`ByArticulation` of all freedoms, those of bodies in the order of `depth_first`. Not for
    bodies that share coordinates (`Tree.coupled`). A lost pivot makes NaN of all that hangs on the
    ground with it.
    """
    X, C = _places(model, q)
    IA = [call(Articulated.of, link.inertia) for link in model.links]
    lost: list[Scalar] = [0.0] * model.nbodies
    rows: dict[int, Rows] = {}
    for i in inward(model, "M"):
        p, link, body = model.parent[i], model.links[i], (C[i], IA[i], lost[i])
        if p == WORLD:
            rows[i] = call(_first_freed, link, *body)
        else:
            rows[i], IA[p], lost[p] = call(_handed_on, link, X[i], *body, IA[p], lost[p])
    return [row for i in depth_first(model) for row in rows[i]]
