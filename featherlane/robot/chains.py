"""Chains of bodies: a robot's tree cut where it branches, and the chains that are alike.

A chain is an unbranched run of bodies: a trunk, an arm, a leg. Floating and sliding bases are
chains of their own. Chains are alike if the same joints follow each other in them and below them,
and they hang on one chain, or on chains that are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from featherlane.robot.parts import WORLD
from featherlane.robot.tree import Tree
from featherlane.robot.walk import children


class Chain(NamedTuple):
    """Bodies, each the only child of the one before, and the number of the chain that carries the
    first one; WORLD for the ground.
    """

    bodies: tuple[int, ...]
    parent: int


class Alike(NamedTuple):
    """Chains whose bodies correspond, by their numbers: members of one `parent` first, then of the
    next. parent: the number of the group that carries them; WORLD for the ground.
    """

    members: tuple[int, ...]
    parent: int


def chains(tree: Tree) -> list[Chain]:
    """Returns the chains of a tree, parents first."""
    below = children(tree.parent)
    found: list[Chain] = []

    def enter(first: int, parent: int) -> None:
        bodies = [first]
        while len(below[bodies[-1]]) == 1:
            (following,) = below[bodies[-1]]
            if parent == WORLD and _is_base(tree, bodies[-1]) and not _is_base(tree, following):
                break
            bodies.append(following)
        found.append(Chain(tuple(bodies), parent))
        number = len(found) - 1
        for child in below[bodies[-1]]:
            enter(child, number)

    for root in below[WORLD]:
        enter(root, WORLD)
    return found


def _is_base(tree: Tree, body: int) -> bool:
    """Tells whether a body is on a joint of several freedoms, as floating and sliding bases are."""
    return len(tree.freedoms[body]) > 1


def groups(tree: Tree, found: Sequence[Chain]) -> list[Alike]:
    """Returns the groups of chains that are alike, parents first. Each chain is in one."""
    below = children([chain.parent for chain in found])
    shapes: dict[int, Any] = {}
    for number in reversed(range(len(found))):
        own = tuple(
            (tree.types[i], len(tree.freedoms[i]), len(tree.turned_armature[i]))
            for i in found[number].bodies
        )
        shapes[number] = own, tuple(sorted((shapes[c] for c in below[number]), key=repr))
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
    """Yields the children of alike chains, those of one shape together."""
    for shape in dict.fromkeys(shapes[c] for c in below[parents[0]]):
        yield tuple(c for p in parents for c in below[p] if shapes[c] == shape)
