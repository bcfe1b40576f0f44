"""Limbs that are alike as one graph: the constants in which they differ become inputs.

Traced with its own constants, each limb folds in its own way: a placement of 0 or 1 saves products
in one limb that another limb needs. Traced with inputs in place of the constants in which limbs
differ, all of them have one graph, which one circuit computes for each, time-multiplexed, with the
numbers of its limb. Constants that are equal in all limbs stay constants and fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from featherlane.robot.chains import Alike, Chain
from featherlane.robot.spatial import Inertia, Rotation, Symmetric, Transform, Vector
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar

SAME = 1e-12  # beside the largest: numbers of a robot's file that differ by less are one
VALUES, SIGNS = "constants", "signs"  # the names of inputs, before the number of the group


class LimbTable(NamedTuple):
    """The constants in which the limbs of a group differ, (limbs, entries): `signs` are 1 and -1,
    of entries of rotations, `values` all others.
    """

    values: np.ndarray
    signs: np.ndarray


class _Entry(NamedTuple):
    """The source of a constant: the number itself, or times a sign, or an entry of values."""

    number: float
    sign: int = -1
    value: int = -1


def _numbers(tree: Tree, i: int) -> list[float]:
    """The constants of a body and its joint that are not part of the joint's type."""
    X, inertia = tree.X_tree[i], tree.inertias[i]
    laws = [x for s in tree.sources[i] for x in (s.multiplier, s.offset)]
    freedoms = [x for k, _ in tree.freedoms[i] for x in (tree.armature[k], tree.damping[k])]
    E = [x for row in X.E.rows for x in row]
    turned = tree.turned_armature[i]
    return [*E, *X.r, inertia.m, *inertia.h, *inertia.S, *laws, *freedoms, *turned]


class Limbs:
    """The tables of all groups of a robot's chains with several members, by the group's number."""

    def __init__(self, tree: Tree, chains: Sequence[Chain], groups: Sequence[Alike]) -> None:
        self.tree = tree
        self.tables: dict[int, LimbTable] = {}
        self._entries: dict[int, tuple[int, int, list[_Entry]]] = {}  # by body
        for number, group in enumerate(groups):
            if len(group.members) > 1:
                self._enter(number, [chains[c].bodies for c in group.members])

    def _enter(self, number: int, limbs: Sequence[tuple[int, ...]]) -> None:
        values: dict[tuple[float, ...], int] = {}
        signs: dict[tuple[float, ...], int] = {}
        for bodies in zip(*limbs, strict=True):
            rows = zip(*(_numbers(self.tree, i) for i in bodies), strict=True)
            entries = [_entry(row, values, signs) for row in rows]
            for limb, i in enumerate(bodies):
                self._entries[i] = number, limb, entries
        if values or signs:
            columns = [np.array([*x]).reshape(-1, len(limbs)).T for x in (values, signs)]
            self.tables[number] = LimbTable(*columns)

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs that stand for constants."""
        return {name: x.shape for name, x in self.constants.items() if x.size}

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """The numbers of these inputs."""
        named = [
            (f"{what}{number}", x)
            for number, table in self.tables.items()
            for what, x in zip((VALUES, SIGNS), table, strict=True)
        ]
        return {name: x for name, x in named if x.size}

    def with_inputs(self, scalars: dict[str, Any]) -> Tree:
        """Returns the tree with scalars in the place of constants. scalars: nested, by the names of
        `inputs`.
        """
        tree = self.tree
        X, inertias, sources = [*tree.X_tree], [*tree.inertias], [*tree.sources]
        armature, damping = [*tree.armature], [*tree.damping]
        turned = [*tree.turned_armature]
        for i, (number, limb, entries) in self._entries.items():
            read = iter([_scalar(entry, number, limb, scalars) for entry in entries])
            X[i] = Transform(
                Rotation(tuple(Vector(_next(read, 3)) for _ in range(3))), Vector(_next(read, 3))
            )
            inertias[i] = Inertia(next(read), Vector(_next(read, 3)), Symmetric(*_next(read, 6)))
            sources[i] = tuple(
                s._replace(multiplier=next(read), offset=next(read)) for s in sources[i]
            )
            for k, _ in tree.freedoms[i]:
                armature[k], damping[k] = next(read), next(read)
            turned[i] = tuple(_next(read, len(turned[i])))
        return replace(
            tree,
            X_tree=tuple(X),
            inertias=tuple(inertias),
            sources=tuple(sources),
            turned_armature=tuple(turned),
            armature=armature,
            damping=damping,
        )


def _next(read: Iterator[Scalar], n: int) -> list[Scalar]:
    return [next(read) for _ in range(n)]


def _entry(
    row: tuple[float, ...],
    values: dict[tuple[float, ...], int],
    signs: dict[tuple[float, ...], int],
) -> _Entry:
    """Returns where a constant of these numbers in the limbs comes from; columns of tables are
    entered where there is none alike.
    """
    first = row[0]
    if _are_same(row):
        return _Entry(first)
    if set(map(abs, row)) == {1.0}:
        pattern = tuple(x * first for x in row)
        return _Entry(first, sign=signs.setdefault(pattern, len(signs)))
    turned = tuple(-x for x in row)
    if turned in values:
        return _Entry(-1.0, value=values[turned])
    return _Entry(1.0, value=values.setdefault(row, len(values)))


def _are_same(row: Sequence[float]) -> bool:
    return max(row) - min(row) <= SAME * max(map(abs, row))


def _scalar(entry: _Entry, number: int, limb: int, scalars: dict[str, Any]) -> Scalar:
    if entry.sign >= 0:
        return scalars[f"{SIGNS}{number}"][limb][entry.sign] * entry.number
    if entry.value >= 0:
        return scalars[f"{VALUES}{number}"][limb][entry.value] * entry.number
    return entry.number
