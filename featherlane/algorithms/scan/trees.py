"""All-prefix sums on trees: from the roots outward along paths, and inward over subtrees.

A tree, or a forest, is the list of its nodes' parents: parent[i] < i, or -1 where i is a root.
Pointer jumping is what J. C. Wyllie's list ranking (1979) does, on trees: in each round a node
looks twice as far up. `chains` cuts the tree so that every scan of a list serves for trees too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from featherlane.algorithms.scan.lists import SCANS, Combine, balanced, chosen, stepwise
from featherlane.scalar import call

Run = Callable[[Combine, Sequence[Any]], list[Any]]
Parents = Sequence[int]
NONE = -1  # the parent of a root


def path_scan(
    combine: Combine,
    elements: Sequence[Any],
    parent: Parents,
    method: str = "jumping",
    **options: int,
) -> list[Any]:
    """result[i] = elements[root] (+) ... (+) elements[i], along the path from the root to i.

    `parent[i]` < i, or -1 for a root. `combine` as in `scan`, the element nearer the root first.
    `method` is a key of `PATHS` ("jumping": ceil(log2 depth) rounds, on a chain those of
    Kogge-Stone; "levels": one round for each level of the tree), or one of `SCANS` for the chains
    that the tree is cut into, which gets the options. ValueError for any other method, and for a
    parent that does not come before its children. Each combine is a step (`walk.call`).
    """
    _check(parent, elements)
    combine = stepwise(combine)
    if method in PATHS:
        return PATHS[method](combine, elements, parent, **options)
    run = partial(chosen(PATHS | SCANS, method), **options)
    return _path_chains(combine, elements, parent, run)


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
    """result[i] = elements[i] + the sum over the children c of i of act(moves[c], result[c]).

    `add(x, y)` is associative and commutes. `act(m, x)` takes x from a node to its parent (with m
    the transform X of the joint: X^T x), and act(m, x + y) = act(m, x) + act(m, y).
    `compose(a, b)` is b followed by a, the one nearer the root first as in `path_scan`:
    act(compose(a, b), x) = act(a, act(b, x)). The moves of roots are not looked at.

    `method` and options as in `path_scan`. Sums over many children are balanced trees, except in
    "serial". ValueError as there. Of the three operations those that are done one after the other
    on the same elements are one step (`walk.call`).
    """
    _check(parent, elements, moves)
    inward = Inward(add, act, compose)
    if method in SUMS:
        return SUMS[method](inward, elements, moves, parent, **options)
    run = partial(chosen(SUMS | SCANS, method), **options)
    return _sum_chains(inward, elements, moves, parent, run)


def _check(parent: Parents, *lists: Sequence[Any]) -> None:
    for values in lists:
        if len(values) != len(parent):
            raise ValueError(f"{len(values)} elements or moves came with {len(parent)} parents")
    for i, p in enumerate(parent):
        if not NONE <= p < i:
            raise ValueError(f"parent[{i}] is {p}; it is less than {i}, or -1 for a root")


# The shape of the tree


def levels(parent: Parents) -> list[list[int]]:
    """The nodes by their distance from the root."""
    depth: list[int] = []
    for p in parent:
        depth.append(0 if p == NONE else depth[p] + 1)
    result: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for i, d in enumerate(depth):
        result[d].append(i)
    return result


def chains(parent: Parents) -> list[list[int]]:
    """The nodes in chains downwards, in the order of their heads. Each goes on with the child of
    the largest subtree: a path touches at most log2(n) + 1 of them.
    """
    longest = _largest_child(parent)
    result: list[list[int]] = []
    chain_of: list[list[int]] = []
    for i, p in enumerate(parent):
        if longest.get(p) == i:
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


def _children(parent: Parents) -> list[list[int]]:
    result: list[list[int]] = [[] for _ in parent]
    for i, p in enumerate(parent):
        if p != NONE:
            result[p].append(i)
    return result


def _twice(above: Parents) -> list[int]:
    """The nodes twice as far up."""
    return [NONE if a == NONE else above[a] for a in above]


# Outward


def _path_in(
    order: Sequence[int], combine: Combine, elements: Sequence[Any], parent: Parents
) -> list[Any]:
    values = list(elements)
    for i in order:
        if parent[i] != NONE:
            values[i] = combine(values[parent[i]], values[i])
    return values


def _path_serial(combine: Combine, elements: Sequence[Any], parent: Parents) -> list[Any]:
    return _path_in(range(len(parent)), combine, elements, parent)


def _path_levels(combine: Combine, elements: Sequence[Any], parent: Parents) -> list[Any]:
    return _path_in([i for level in levels(parent) for i in level], combine, elements, parent)


def _path_jumping(combine: Combine, elements: Sequence[Any], parent: Parents) -> list[Any]:
    """values[i] covers the path from above[i], which is not on it, to i."""
    values, above = list(elements), list(parent)
    while any(a != NONE for a in above):
        values = [
            v if a == NONE else combine(values[a], v) for v, a in zip(values, above, strict=True)
        ]
        above = _twice(above)
    return values


def _path_chains(combine: Combine, elements: Sequence[Any], parent: Parents, run: Run) -> list[Any]:
    """Each chain by itself, then with what comes before its head."""
    values = list(elements)
    for chain in chains(parent):
        start = parent[chain[0]]
        for i, value in zip(chain, run(combine, [elements[i] for i in chain]), strict=True):
            values[i] = value if start == NONE else combine(values[start], value)
    return values


PATHS: dict[str, Callable[..., list[Any]]] = {
    "serial": _path_serial,
    "jumping": _path_jumping,
    "levels": _path_levels,
}


# Inward


class Inward(NamedTuple):
    """The three operations of `subtree_sum`."""

    add: Combine
    act: Combine
    compose: Combine

    def onto(self, x: Any, m: Any, y: Any) -> Any:
        """x and the moved y."""
        return self.add(x, self.act(m, y))

    def both(self, m: Any, x: Any, n: Any, y: Any) -> Any:
        """Two moved sums."""
        return self.add(self.act(m, x), self.act(n, y))

    def after(self, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        """a after b, of maps y -> x + act(m, y) as (m, x)."""
        (m, x), (n, y) = a, b
        return self.compose(m, n), self.onto(x, m, y)

    def gathered(self, x: Any, moves: Sequence[Any], sums: Sequence[Any], nodes: list[int]) -> Any:
        """x and the moved sums of some nodes, log2 of their number deep: `balanced`, of which moves
        and the first sums are one step.
        """
        if not nodes:
            return x
        first, *others = [(moves[c], sums[c]) for c in nodes]
        parts = [call(Inward.onto, self, x, *first)]
        for a, b in zip(others[::2], others[1::2], strict=False):
            parts.append(call(Inward.both, self, *a, *b))
        if len(others) % 2:
            parts.append(call(self.act, *others[-1]))
        return balanced(stepwise(self.add), parts)


def _sum_serial(
    op: Inward, elements: Sequence[Any], moves: Sequence[Any], parent: Parents
) -> list[Any]:
    sums = list(elements)
    for i in reversed(range(len(sums))):
        if parent[i] != NONE:
            sums[parent[i]] = call(Inward.onto, op, sums[parent[i]], moves[i], sums[i])
    return sums


def _sum_levels(
    op: Inward, elements: Sequence[Any], moves: Sequence[Any], parent: Parents
) -> list[Any]:
    sums, children = list(elements), _children(parent)
    for level in reversed(levels(parent)):
        for i in level:
            sums[i] = op.gathered(sums[i], moves, sums, children[i])
    return sums


def _sum_jumping(
    op: Inward, elements: Sequence[Any], moves: Sequence[Any], parent: Parents
) -> list[Any]:
    """sums[i] covers the subtree of i to a depth that doubles; moves[i] takes i to above[i]."""
    sums, moves, above = list(elements), list(moves), list(parent)
    while any(a != NONE for a in above):
        arriving, farther = _children(above), _twice(above)
        sums = [op.gathered(x, moves, sums, arriving[i]) for i, x in enumerate(sums)]
        moves = [
            None if farther[i] == NONE else call(op.compose, moves[a], moves[i])
            for i, a in enumerate(above)
        ]
        above = farther
    return sums


def _sum_chains(
    op: Inward, elements: Sequence[Any], moves: Sequence[Any], parent: Parents, run: Run
) -> list[Any]:
    """Chain after chain from the leaves: the maps that take what comes to each node, scanned.

    Nothing comes to the last node of a chain, and its map may be any: its own move has the form of
    the others.
    """
    sums, children = list(elements), _children(parent)
    for chain in reversed(chains(parent)):
        for i, below in zip(chain, [*chain[1:], NONE], strict=True):
            sides = [c for c in children[i] if c != below]
            sums[i] = op.gathered(sums[i], moves, sums, sides)
        entries = [moves[i] for i in [*chain[1:], chain[-1]]]
        maps = list(zip(entries, [sums[i] for i in chain], strict=True))
        scanned = run(lambda a, b: call(Inward.after, op, b, a), maps[::-1])[::-1]
        for i, (_, total) in zip(chain, scanned, strict=True):
            sums[i] = total
    return sums


SUMS: dict[str, Callable[..., list[Any]]] = {
    "serial": _sum_serial,
    "jumping": _sum_jumping,
    "levels": _sum_levels,
}
