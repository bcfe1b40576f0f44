"""Loops over the bodies of a tree, which tell a tracer the joint they are at, and a tree's shape.

A tree, or a forest, is given by its nodes' parents: parent[i] < i, or -1 for a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from featherlane.scalar import Tag, tracer


class Bodies(Protocol):
    @property
    def nbodies(self) -> int: ...


def _tagged(joints: Iterable[int], algorithm: str, direction: str) -> Iterator[int]:
    following = tracer.get()
    if following is None:
        yield from joints
        return
    for i in joints:
        following.enter(Tag(algorithm, direction, i))
        yield i
    following.enter(None)


def outward(model: Bodies, algorithm: str = "") -> Iterator[int]:
    """Yields the bodies from the root to the tips."""
    return _tagged(range(model.nbodies), algorithm, "f")


def inward(model: Bodies, algorithm: str = "") -> Iterator[int]:
    """Yields the bodies from the tips to the root."""
    return _tagged(range(model.nbodies - 1, -1, -1), algorithm, "b")


def path_to_root(parent: Sequence[int], node: int) -> list[int]:
    """Returns the nodes from this one to its root; none for -1."""
    path = []
    while node != -1:
        path.append(node)
        node = parent[node]
    return path


def children(parent: Sequence[int]) -> dict[int, list[int]]:
    """Returns the children of each node in order; those of -1 are the roots."""
    below: dict[int, list[int]] = {i: [] for i in range(-1, len(parent))}
    for i, p in enumerate(parent):
        below[p].append(i)
    return below


def depths(parent: Sequence[int]) -> list[int]:
    """Returns how many nodes are above each node."""
    depth = {-1: -1}
    for i, p in enumerate(parent):
        depth[i] = depth[p] + 1
    return [depth[i] for i in range(len(parent))]
