"""Loops over the bodies of a tree, which tag the operations of a trace by joint, and tree shapes.

A tree, or a forest, is the list of its nodes' parents: parent[i] < i, or -1 for a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from featherlane.scalar import Tag, tracer


class Bodies(Protocol):
    @property
    def nbodies(self) -> int: ...


class Entries(Protocol):
    @property
    def owners(self) -> Sequence[int]: ...
    @property
    def ancestors(self) -> Sequence[Sequence[int]]: ...


def _tagged(pairs: Iterable[tuple[int, int]], algorithm: str, direction: str) -> Iterator[int]:
    """Yields the first of each pair, and tags operations with the joint that is the second."""
    current_tracer = tracer.get()
    for number, joint in pairs:
        if current_tracer is not None:
            current_tracer.enter(Tag(algorithm, direction, joint))
        yield number
    if current_tracer is not None:
        current_tracer.enter(None)


def along(bodies: Iterable[int], algorithm: str = "", direction: str = "f") -> Iterator[int]:
    """Yields these bodies."""
    return _tagged(((i, i) for i in bodies), algorithm, direction)


def outward(model: Bodies, algorithm: str = "") -> Iterator[int]:
    """Yields the bodies from the root to the tips."""
    return along(range(model.nbodies), algorithm)


def inward(model: Bodies, algorithm: str = "") -> Iterator[int]:
    """Yields the bodies from the tips to the root."""
    return along(reversed(range(model.nbodies)), algorithm, "b")


def entries_outward(model: Entries, algorithm: str = "") -> Iterator[int]:
    """Yields the entries of v, the first one first, each at the joint that it belongs to."""
    return _tagged(enumerate(model.owners), algorithm, "f")


def entries_inward(model: Entries, algorithm: str = "") -> Iterator[int]:
    """Yields the entries of v, the last one first, each at the joint that it belongs to."""
    return _tagged(reversed([*enumerate(model.owners)]), algorithm, "b")


def branches_inward(model: Entries, algorithm: str = "") -> Iterator[int]:
    """Yields the entries of v from the tips to the root, each branch as a whole: just before an
    entry come all that are below it.
    """
    order = sorted(range(len(model.owners)), key=lambda k: tuple(reversed(model.ancestors[k])))
    return _tagged([(k, model.owners[k]) for k in reversed(order)], algorithm, "b")


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
    """Returns the number of ancestors of each node."""
    depth = {-1: -1}
    for i, p in enumerate(parent):
        depth[i] = depth[p] + 1
    return [depth[i] for i in range(len(parent))]
