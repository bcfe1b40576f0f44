"""Chains of bodies: a robot's tree cut where it branches, and groups of isomorphic chains.

A chain is an unbranched run of bodies: a trunk, an arm, a leg. A floating or sliding base is a
separate chain. Chains are isomorphic if their joints, and the joints below them, are of the same
types in the same order, and they hang on the same chain or on isomorphic chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from featherlane.robot.parts import WORLD
from featherlane.robot.tree import Tree
from featherlane.robot.walk import children


class Chain(NamedTuple):
    """Bodies, each the only child of its predecessor, and the number of the chain that carries the
    first one; WORLD for the ground.
    """

    bodies: tuple[int, ...]
    parent: int


class Alike(NamedTuple):
    """A group of isomorphic chains, by their numbers: the children of the first chain of the group
    `parent` come first, then those of the next. parent: the number of the group that carries them;
    WORLD for the ground.
    """

    members: tuple[int, ...]
    parent: int


def chains(tree: Tree) -> list[Chain]:
    """Returns the chains of a tree, parents first."""
    below = children(tree.parent)
    result: list[Chain] = []

    def enter(first: int, parent: int) -> None:
        bodies = [first]
        while len(below[bodies[-1]]) == 1:
            (following,) = below[bodies[-1]]
            if parent == WORLD and _is_base(tree, bodies[-1]) and not _is_base(tree, following):
                break
            bodies.append(following)
        result.append(Chain(tuple(bodies), parent))
        number = len(result) - 1
        for child in below[bodies[-1]]:
            enter(child, number)

    for root in below[WORLD]:
        enter(root, WORLD)
    return result


def _is_base(tree: Tree, body: int) -> bool:
    """Tells whether a body is on a joint of several freedoms, as floating and sliding bases are."""
    return len(tree.freedoms[body]) > 1


def groups(tree: Tree, chains: Sequence[Chain]) -> list[Alike]:
    """Returns the groups of isomorphic chains, parents first. Each chain is in one group."""
    below = children([chain.parent for chain in chains])
    shapes: dict[int, Any] = {}
    for number in reversed(range(len(chains))):
        joints = tuple(
            (tree.types[i], len(tree.freedoms[i]), len(tree.turned_armature[i]))
            for i in chains[number].bodies
        )
        shapes[number] = joints, tuple(sorted((shapes[c] for c in below[number]), key=repr))
    result: list[Alike] = []

    def enter(parents: Sequence[int], parent: int) -> None:
        for members in _same(parents, below, shapes):
            result.append(Alike(members, parent))
            enter(members, len(result) - 1)

    enter([WORLD], WORLD)
    return result


def _same(
    parents: Sequence[int], below: dict[int, list[int]], shapes: dict[int, Any]
) -> Iterator[tuple[int, ...]]:
    """Yields the children of isomorphic chains, grouped by shape."""
    for shape in dict.fromkeys(shapes[c] for c in below[parents[0]]):
        yield tuple(c for p in parents for c in below[p] if shapes[c] == shape)
