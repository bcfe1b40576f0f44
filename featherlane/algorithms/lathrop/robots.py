"""Robots as the arms that both forms take, and their inverse dynamics."""

from __future__ import annotations

from featherlane.algorithms.common import Scalars, link_resistance
from featherlane.algorithms.lathrop.linear import linear
from featherlane.algorithms.lathrop.operations import Arm, ArmAlgorithm, ArmLink
from featherlane.algorithms.springs import plus_springs
from featherlane.robot.spatial import (
    ZERO3,
    Inertia,
    Matrix,
    Vector,
    dot,
    matvec,
    skew,
    split,
    transpose,
)
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar


def arm_of(model: Tree, q: Scalars, qd: Scalars, qdd: Scalars) -> Arm:
    """Describes a chain of revolute and prismatic joints as the paper does, on a base at rest.

    Inertias must not be regrouped, `build_tree(model, regroup=False)`. Raises
    ValueError for branches, other joints, and bodies without mass.
    """
    n = model.nbodies
    _check_chain(model)
    X = [model.joint_transform(i, q) for i in range(n)]
    place = [model.X_tree[i].r for i in range(n)] + [ZERO3]  # O_i, in frame i
    links = []
    for i, [(k, S)] in enumerate(model.freedoms):
        A, turn, slide = transpose(X[i].E.rows), *split(S)
        rotational = any(turn)
        m, h, _ = model.inertias[i]
        c = h * (1.0 / m)
        p = place[i + 1] if rotational else place[i + 1] + X[i].E.to_child(X[i].r - place[i])
        axis = matvec(A, turn if rotational else slide)
        r, J = c - place[i + 1], _central_inertia(model.inertias[i], c)
        links.append(ArmLink(rotational, A, p, r, p + r, m, J, axis * qd[k], axis * qdd[k]))
    return Arm(links, -Vector(model.gravity))


def _check_chain(model: Tree) -> None:
    for i, freedoms in enumerate(model.freedoms):
        if model.parent[i] != i - 1:
            raise ValueError(f"body {i} is on body {model.parent[i]}: wanted a chain")
        if len(freedoms) != 1 or all(map(any, split(freedoms[0].S))):
            raise ValueError(f"joint {i} is {model.types[i].name}: wanted revolute or prismatic")
        if model.inertias[i].m == 0.0:
            raise ValueError(f"body {i} has no mass; make the tree with regroup=False")


def _central_inertia(inertia: Inertia, c: Vector) -> Matrix:
    """Returns the rotational inertia about the centre of mass, I + m c x c x."""
    cx = skew(c)
    I = inertia.rotational().rows
    square = [matvec(cx, column) for column in transpose(cx)]  # symmetric
    return tuple(row + x * inertia.m for row, x in zip(I, square, strict=True))


def inverse_dynamics(
    model: Tree, q: Scalars, qd: Scalars, qdd: Scalars, form: ArmAlgorithm = linear
) -> list[Scalar]:
    """Returns tau of a chain, as `rnea` does, in one of the two forms."""
    tau: list[Scalar] = [0.0] * model.nv
    reactions = form(arm_of(model, q, qd, qdd))
    for link, [(k, S)], (f, n) in zip(model.links, model.freedoms, reactions, strict=True):
        turn, slide = split(S)
        transmitted = dot(turn, n) + dot(slide, f) + model.armature[k] * qdd[k]
        (resistance,) = link_resistance(link, [qd[k]])
        tau[k] = transmitted + resistance
    return plus_springs(model, q, qd, tau)
