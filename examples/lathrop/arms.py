"""General arms as Lathrop counts them: every entry of a matrix or vector is an input of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from featherlane.algorithms.lathrop.operations import Arm, ArmAlgorithm, ArmLink, Tip
from featherlane.robot.spatial import Vector

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
