"""All-prefix sums on trees: outward along the paths from the roots, and inward over subtrees.

A tree, or a forest, is the list of its nodes' parents: parent[i] < i, or -1 where i is a root.
"jumping" is pointer jumping on trees (J. C. Wyllie's list ranking, 1979): the ancestor that a node
points to is twice as far away in each round. `chains` cuts a tree into chains, on which every scan
of a list can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from featherlane.algorithms.scan.lists import SCANS, Combine, balanced, chosen, stepwise
from featherlane.robot.walk import children, depths
from featherlane.scalar import call

ListScan = Callable[[Combine, Sequence[Any]], list[Any]]
Parents = Sequence[int]
NONE = -1  # the parent of a root


def path_scan(
    combine: Combine,
    elements: Sequence[Any],
    parent: Parents,
    method: str = "jumping",
    **options: int,
) -> list[Any]:
    """Returns elements[root] (+) ... (+) elements[i] for each i, along the path from the root.

    `parent[i]` < i, or -1 for a root. `combine` as in `scan`, the element nearer the root first.
    `method` is a key of `PATHS` ("jumping": ceil(log2 depth) rounds, on a chain those of
    Kogge-Stone; "levels": one round for each level of the tree), or a key of `SCANS`: that scan,
    with its options, runs on the chains that the tree is cut into. Raises ValueError for any other
    method, and for a parent that does not come before its children. Each combine is a recorded step
    (`scalar.call`).
    """
    _check(parent, elements)
    combine = stepwise(combine)
    if method in PATHS:
        return PATHS[method](combine, elements, parent, **options)
    list_scan = partial(chosen(PATHS | SCANS, method), **options)
    return _path_chains(combine, elements, parent, list_scan)


def subtree_sum(
    add: Combine,
    act: Combine,
    compose: Combine,
    elements: Sequence[Any],
    moves: Sequence[Any],
    parent: Parents,
    method: str = "jumping",
    **options: int,
) -> list[Any]:
    """Returns elements[i] + the sum over the children c of i of act(moves[c], result[c]).

    `add(x, y)` is associative and commutes. `act(m, x)` takes x from a node to its parent (with m
    the transform X of the joint: X^T x), and act(m, x + y) = act(m, x) + act(m, y).
    `compose(a, b)` is b followed by a, the one nearer the root first as in `path_scan`:
    act(compose(a, b), x) = act(a, act(b, x)). The moves of roots are not read.

    `method`, options and errors are those of `path_scan`. Sums over many children are balanced
    trees, except in "serial". Operations that follow each other on the same elements are recorded
    as one step (`scalar.call`).
    """
    _check(parent, elements, moves)
    operations = TreeSum(add, act, compose)
    if method in SUMS:
        return SUMS[method](operations, elements, moves, parent, **options)
    list_scan = partial(chosen(SUMS | SCANS, method), **options)
    return _sum_chains(operations, elements, moves, parent, list_scan)


def _check(parent: Parents, *lists: Sequence[Any]) -> None:
    for values in lists:
        if len(values) != len(parent):
            raise ValueError(f"{len(values)} elements or moves came with {len(parent)} parents")
    for i, p in enumerate(parent):
        if not NONE <= p < i:
            raise ValueError(f"parent[{i}] is {p}; it is less than {i}, or -1 for a root")


# The shape of the tree


def levels(parent: Parents) -> list[list[int]]:
    """Returns the nodes of each distance from the root."""
    depth = depths(parent)
    result: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for i, d in enumerate(depth):
        result[d].append(i)
    return result


def chains(parent: Parents) -> list[list[int]]:
    """Cuts the tree into chains, in the order of their first nodes.

    A chain continues with the child of the largest subtree: a path meets at most log2(n) + 1 chains
    (heavy-path decomposition).
    """
    heavy = _largest_child(parent)
    result: list[list[int]] = []
    chain_of: list[list[int]] = []
    for i, p in enumerate(parent):
        if heavy.get(p) == i:
            chain_of.append(chain_of[p])
        else:
            chain_of.append([])
            result.append(chain_of[i])
        chain_of[i].append(i)
    return result


def _largest_child(parent: Parents) -> dict[int, int]:
    size = [1] * len(parent)
    largest: dict[int, int] = {}
    for i in reversed(range(len(parent))):
        p = parent[i]
        if p != NONE:
            size[p] += size[i]
            if p not in largest or size[i] >= size[largest[p]]:
                largest[p] = i
    return largest


def _twice(above: Parents) -> list[int]:
    """Returns the nodes twice as far up."""
    return [NONE if a == NONE else above[a] for a in above]


# Outward


def _path_in_order(
    order: Callable[[Parents], Iterable[int]],
    combine: Combine,
    elements: Sequence[Any],
    parent: Parents,
) -> list[Any]:
    values = list(elements)
    for i in order(parent):
        if parent[i] != NONE:
            values[i] = combine(values[parent[i]], values[i])
    return values


def _path_jumping(combine: Combine, elements: Sequence[Any], parent: Parents) -> list[Any]:
    """Extends sums towards the root: values[i] covers the path to i from below above[i]."""
    values, above = list(elements), list(parent)
    while any(a != NONE for a in above):
        values = [
            v if a == NONE else combine(values[a], v) for v, a in zip(values, above, strict=True)
        ]
        above = _twice(above)
    return values


def _path_chains(
    combine: Combine, elements: Sequence[Any], parent: Parents, list_scan: ListScan
) -> list[Any]:
    """Scans each chain, then combines it with the path that leads to its first node."""
    values = list(elements)
    for nodes in chains(parent):
        start = parent[nodes[0]]
        for i, value in zip(nodes, list_scan(combine, [elements[i] for i in nodes]), strict=True):
            values[i] = value if start == NONE else combine(values[start], value)
    return values


PATHS: dict[str, Callable[..., list[Any]]] = {
    "serial": partial(_path_in_order, lambda parent: range(len(parent))),
    "jumping": _path_jumping,
    "levels": partial(_path_in_order, lambda parent: chain(*levels(parent))),
}


# Inward


class TreeSum(NamedTuple):
    """The three operations of `subtree_sum`, and the steps that consist of them."""

    add: Combine
    act: Combine
    compose: Combine

    def add_moved(self, x: Any, m: Any, y: Any) -> Any:
        return self.add(x, self.act(m, y))

    def add_two_moved(self, m: Any, x: Any, n: Any, y: Any) -> Any:
        return self.add(self.act(m, x), self.act(n, y))

    def compose_maps(self, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        """Composes affine maps y -> x + act(m, y), as pairs (m, x): a after b."""
        (m, x), (n, y) = a, b
        return self.compose(m, n), self.add_moved(x, m, y)

    def gathered(self, x: Any, moves: Sequence[Any], sums: Sequence[Any], nodes: list[int]) -> Any:
        """Adds the moved sums of nodes to x, in a balanced tree: a move and the first addition
        that follows it are one step.
        """
        if not nodes:
            return x
        first, *others = [(moves[c], sums[c]) for c in nodes]
        parts = [call(TreeSum.add_moved, self, x, *first)]
        for a, b in zip(others[::2], others[1::2], strict=False):
            parts.append(call(TreeSum.add_two_moved, self, *a, *b))
        if len(others) % 2:
            parts.append(call(self.act, *others[-1]))
        return balanced(stepwise(self.add), parts)


def _sum_serial(
    op: TreeSum, elements: Sequence[Any], moves: Sequence[Any], parent: Parents
) -> list[Any]:
    sums = list(elements)
    for i in reversed(range(len(sums))):
        if parent[i] != NONE:
            sums[parent[i]] = call(TreeSum.add_moved, op, sums[parent[i]], moves[i], sums[i])
    return sums


def _sum_levels(
    op: TreeSum, elements: Sequence[Any], moves: Sequence[Any], parent: Parents
) -> list[Any]:
    sums, below = list(elements), children(parent)
    for level in reversed(levels(parent)):
        for i in level:
            sums[i] = op.gathered(sums[i], moves, sums, below[i])
    return sums


def _sum_jumping(
    op: TreeSum, elements: Sequence[Any], moves: Sequence[Any], parent: Parents
) -> list[Any]:
    """Doubles the depth to which sums[i] covers the subtree of i; moves[i] leads to above[i]."""
    sums, moves, above = list(elements), list(moves), list(parent)
    while any(a != NONE for a in above):
        arriving, farther = children(above), _twice(above)
        sums = [op.gathered(x, moves, sums, arriving[i]) for i, x in enumerate(sums)]
        moves = [
            None if farther[i] == NONE else call(op.compose, moves[a], moves[i])
            for i, a in enumerate(above)
        ]
        above = farther
    return sums


def _sum_chains(
    op: TreeSum, elements: Sequence[Any], moves: Sequence[Any], parent: Parents, list_scan: ListScan
) -> list[Any]:
    """Scans, chain after chain from the leaves, the maps from the sum of a node's successor to that
    of the node. The last node has no successor: for the sake of one form its map has its move.
    """
    sums, below = list(elements), children(parent)
    for nodes in reversed(chains(parent)):
        for i, successor in zip(nodes, [*nodes[1:], NONE], strict=True):
            sides = [c for c in below[i] if c != successor]
            sums[i] = op.gathered(sums[i], moves, sums, sides)
        entries = [moves[i] for i in [*nodes[1:], nodes[-1]]]
        maps = list(zip(entries, [sums[i] for i in nodes], strict=True))
        combine = lambda a, b: call(TreeSum.compose_maps, op, b, a)
        scanned = list_scan(combine, maps[::-1])[::-1]
        for i, (_, total) in zip(nodes, scanned, strict=True):
            sums[i] = total
    return sums


SUMS: dict[str, Callable[..., list[Any]]] = {
    "serial": _sum_serial,
    "jumping": _sum_jumping,
    "levels": _sum_levels,
}
