"""The mass matrix of robots of many links and its inverse, from a row of numbers for each freedom.

All vectors are seen from the first body of their branch. M_ij is S_i . F_j for an ancestor i of j,
where F_j is the force of a unit acceleration of j on its subtree. M x = t is solved by the two
sweeps of the articulated-body algorithm, which in common coordinates only add.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.aba import resisted
from featherlane.algorithms.common import Scalars, joint_coordinates
from featherlane.algorithms.mminv import Rows, with_subtree
from featherlane.robot.parts import WORLD
from featherlane.robot.spatial import NO_TURN, ZERO3, Articulated, Inertia, Transform
from featherlane.robot.tree import Link, Tree, joint_transform
from featherlane.robot.walk import inward, outward
from featherlane.scalar import Scalar, call, unless_lost


class ByInertia(NamedTuple):
    """The widths of the parts of a freedom's row, in their order, for the mass matrix. M_ij is
    S_i . F_j for an ancestor i of j; the diagonal is [S, one] . [F, armature].
    """

    S: int = 6
    one: int = 1
    F: int = 6
    armature: int = 1


class ByArticulation(NamedTuple):
    """The widths of the parts of a freedom's row, in their order, for solutions x of M x = t.

    Inward u = t - S . p, where p is the sum of V u over descendants. Outward x = Dinv u - V . a,
    where a is the sum of S x over ancestors. minus is -Dinv, with which the sweeps give -x.
    """

    S: int = 6
    V: int = 6
    Dinv: int = 1
    minus: int = 1


def _placed(link: Link, C: Transform, q: Scalars) -> tuple[Transform, Transform]:
    """Returns X and C of a link: from its parent's coordinates, and from the first body's."""
    X = joint_transform(link, q)
    C = X @ C
    return X, Transform(C.E, C.r)


def _places(model: Tree, q: Scalars) -> tuple[list[Transform], list[Transform]]:
    """Returns X and C of all bodies."""
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
    """Returns the `ByInertia` rows of a link's freedoms."""
    columns = [(C.motion_to_parent(S), C.force_to_parent(I @ S)) for S in link.S]
    return [[*S, 1.0, *F, I_a] for (S, F), I_a in zip(columns, armature, strict=True)]


def inertia_rows(model: Tree, q: Scalars) -> Rows:
    """Returns the `ByInertia` rows of all freedoms. Of freedoms that share an entry of v one has
    its armature.
    """
    X, C = _places(model, q)
    I = list(model.inertias)
    for i in inward(model, "M"):
        p = model.parent[i]
        if p != WORLD:
            I[p] = call(with_subtree, X[i], I[i], I[p])
    armature, rows = dict(enumerate(model.armature)), []
    for i, freedoms in enumerate(model.freedoms):
        left = [armature.pop(k, 0.0) for k, _ in freedoms]
        rows += call(_inertia_rows, model.links[i], C[i], I[i], left)
    return rows


def _eliminate_joint(
    link: Link, C: Transform, IA: Articulated, lost: Scalar
) -> tuple[Rows, Articulated, Scalar]:
    """Eliminates a link's joint, the last degree of freedom first: returns its `ByArticulation`
    rows, IA and lost. lost: NaN once a pivot is lost (`scalar.unless_lost`), 0 before.
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


def _inward_to_ground(link: Link, C: Transform, IA: Articulated, lost: Scalar) -> Rows:
    return _eliminate_joint(link, C, IA, lost)[0]


def _inward(
    link: Link,
    X: Transform,
    C: Transform,
    IA: Articulated,
    lost: Scalar,
    IAp: Articulated,
    lostp: Scalar,
) -> tuple[Rows, Articulated, Scalar]:
    """Eliminates a link's joint: returns its rows, and the parent's IA and lost with the link's."""
    rows, IA, lost = _eliminate_joint(link, C, IA, lost)
    return rows, IAp + X.articulated_to_parent(IA), lostp + lost


def depth_first(model: Tree) -> list[int]:
    """Returns the bodies in depth-first order: each subtree right behind its first body."""
    subtree: dict[int, list[int]] = {i: [] for i in range(-1, model.nbodies)}
    for i in reversed(range(model.nbodies)):
        subtree[model.parent[i]] += [*subtree.pop(i), i]
    return subtree[WORLD][::-1]


def articulated_rows(model: Tree, q: Scalars) -> Rows:
    """Returns the `ByArticulation` rows of all freedoms, by bodies in `depth_first` order.

    Joints that share entries of v (`Tree.coupled`) cannot be eliminated so. Where a pivot is lost,
    all freedoms that hang on the same root as it get NaN.
    """
    X, C = _places(model, q)
    IA = [call(Articulated.of, link.inertia) for link in model.links]
    lost: list[Scalar] = [0.0] * model.nbodies
    rows: dict[int, Rows] = {}
    for i in inward(model, "M"):
        p, link, body = model.parent[i], model.links[i], (C[i], IA[i], lost[i])
        if p == WORLD:
            rows[i] = call(_inward_to_ground, link, *body)
        else:
            rows[i], IA[p], lost[p] = call(_inward, link, X[i], *body, IA[p], lost[p])
    return [row for i in depth_first(model) for row in rows[i]]
