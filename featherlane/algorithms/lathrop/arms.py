"""Arms for both forms: general ones, whose numbers are all inputs of a trace, and robots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from featherlane.algorithms.common import Scalars, link_resistance
from featherlane.algorithms.lathrop.linear import linear
from featherlane.algorithms.lathrop.operations import Arm, ArmAlgorithm, ArmLink, Tip
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

# General arms: every entry of a matrix or vector is an input

SHAPES = {"A": (3, 3), "J": (3, 3), "W": (3, 3), "V": (3, 3), "m": ()}  # other fields: vectors
Traceable = tuple[Callable[..., dict[str, Any]], dict[str, tuple[int, ...]]]


def general_arm(form: ArmAlgorithm, joints: str, spin: bool = True, tip: bool = True) -> Traceable:
    """Returns (function, inputs) for `trace` of an arm; its outputs are f and n, (joints, 3) each.

    joints: "R" or "T" for each, rotational or translational; spin: whether the base moves; tip:
    whether anything acts on the tip.
    """
    if not joints or set(joints) - set("RT"):
        raise ValueError(f"joints is {joints!r}: wanted a letter for each joint, 'R' or 'T'")
    per_link = _shapes(ArmLink)
    inputs = {name: (len(joints), *shape) for name, shape in per_link.items()} | {"a0": (3,)}
    inputs |= {"w0": (3,), "dw0": (3,)} if spin else {}
    inputs |= {f"tip_{name}": shape for name, shape in _shapes(Tip).items()} if tip else {}

    def function(*values: Any) -> dict[str, Any]:
        x = {name: _vectors(value) for name, value in zip(inputs, values, strict=True)}
        links = [
            ArmLink(joint == "R", *[_vectors(x[name][i]) for name in per_link])
            for i, joint in enumerate(joints)
        ]
        end = Tip(x["tip_A"], x["tip_f"], x["tip_n"]) if tip else None
        reactions = form(Arm(links, x["a0"], (x["w0"], x["dw0"]) if spin else None, end))
        return {"f": [x.f for x in reactions], "n": [x.n for x in reactions]}

    return function, inputs


def general_node(function: Callable[..., dict[str, Any]], **parts: type) -> Traceable:
    """Returns (function, inputs) for `trace` of one node, a function of links, motions, tails ...

    parts: the class of each argument. The inputs are named "argument.field".
    """
    inputs = {
        f"{name}.{field}": shape
        for name, kind in parts.items()
        for field, shape in _shapes(kind).items()
    }

    def run(*values: Any) -> dict[str, Any]:
        entries = iter([_vectors(value) for value in values])
        arguments: dict[str, Any] = {}
        for name, kind in parts.items():
            fields = [next(entries) for _ in _shapes(kind)]
            arguments[name] = ArmLink(True, *fields) if kind is ArmLink else kind(*fields)
        return function(**arguments)

    return run, inputs


def _shapes(kind: Any) -> dict[str, tuple[int, ...]]:
    return {name: SHAPES.get(name, (3,)) for name in kind._fields if name != "rotational"}


def _vectors(x: Any) -> Any:
    """Makes vectors of the innermost lists of nested lists."""
    if not isinstance(x, list | tuple):
        return x
    return Vector(x) if not isinstance(x[0], list | tuple) else tuple(map(_vectors, x))


# Robots


def arm_of(model: Tree, q: Scalars, qd: Scalars, qdd: Scalars) -> Arm:
    """Describes a chain of revolute and prismatic joints as the paper does, on a base at rest.

    Each body of the tree must have its own inertia, `build_tree(model, regroup=False)`. Raises
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
