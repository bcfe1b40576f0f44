"""Sums of the terms of isomorphic branches, as chains: each term is added when it comes, while a
balanced sum of all terms would wait for the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from featherlane.program.graph import Graph
from featherlane.program.passes.balance import SUMS, inner_sums
from featherlane.program.rewrite import entered, placed


def reduced(
    graph: Graph, sets: Sequence[tuple[int, ...]]
) -> tuple[Graph, dict[tuple[int, ...], list[int]]]:
    """Returns the graph, of live nodes, in which a sum that contains a set of nodes adds up the set
    first, in its order; and for each such set the nodes of its partial sums, the total last.

    A sum contains a set if each of its nodes is a term once, and all have the same sign; sets that
    no sum contains are left out.
    """
    number = {k: n for n, members in enumerate(sets) for k in members}
    inner = [inside and k not in number for k, inside in enumerate(inner_sums(graph))]
    new, node_map = Graph(), dict[int, int]()
    partial_sums: dict[tuple[int, ...], list[int]] = {}
    for k in _sums(graph, inner, new, node_map):
        terms = list(_terms(graph, inner, k))
        signs = dict(terms)
        once = {a for a, count in Counter(a for a, _ in terms).items() if count == 1}
        contained = [
            n
            for n in dict.fromkeys(number[a] for a, _ in terms if a in number)
            if once.issuperset(sets[n]) and len({signs[a] for a in sets[n]}) == 1
        ]
        if not contained or len(terms) == 1:
            node_map[k] = _unchanged(graph, new, k, inner, node_map)
            continue
        members = {a for n in contained for a in sets[n]}
        total: int | None = None
        for a, minus in terms:
            if a not in members:
                total = _added(new, total, node_map[a], minus)
        for n in contained:
            partial = node_map[sets[n][0]]
            partial_sums[sets[n]] = partials = []
            for a in sets[n][1:]:
                partial = new.node("add", partial, node_map[a])
                partials.append(partial)
            total = _added(new, total, partial, signs[sets[n][0]])
        assert total is not None
        node_map[k] = total
    return new, partial_sums


def grouped(graph: Graph, part: Sequence[Any]) -> Graph:
    """Returns the graph, of live nodes, in which each sum adds the terms of each part first, and
    then these partial sums, in the order of parts. So each of several isomorphic branches
    contributes one number, whichever of them comes first.

    part: of each node.
    """
    inner, new, node_map = inner_sums(graph), Graph(), dict[int, int]()
    for k in _sums(graph, inner, new, node_map):
        groups: dict[Any, list[tuple[int, bool]]] = {}
        for a, minus in _terms(graph, inner, k):
            groups.setdefault(part[a], []).append((a, minus))
        if len(groups) == 1:
            node_map[k] = _unchanged(graph, new, k, inner, node_map)
            continue
        partials = [_partial(graph, new, groups[name], node_map) for name in sorted(groups)]
        new.current_tag = graph.tag[k]
        partials.sort(
            key=lambda x: x[1]
        )  # a partial sum that is added comes first, if there is one
        negated = partials[0][1]
        total, _ = partials[0]
        for partial, minus in partials[1:]:
            total = new.sub(total, partial) if minus != negated else new.add(total, partial)
        node_map[k] = new.neg(total) if negated else total
    return new


def _sums(
    graph: Graph, inner: Sequence[bool], new: Graph, node_map: dict[int, int]
) -> Iterator[int]:
    """Copies a graph and yields its sums, outermost ones only; the caller enters each of them and
    sets its entry of `node_map`.
    """
    new.inputs = dict(graph.inputs)
    for k, op in enumerate(graph.op):
        if inner[k]:
            continue
        new.current_tag = graph.tag[k]
        if op in SUMS:
            yield k
        else:
            node_map[k] = entered(graph, new, k, [node_map[a] for a in graph.args[k]])
    new.outputs = placed(graph.outputs, node_map)


def _partial(
    graph: Graph, new: Graph, terms: Sequence[tuple[int, bool]], node_map: dict[int, int]
) -> tuple[int, bool]:
    """Enters the sum of terms, or its negative if all are subtracted; returns whether it did so."""
    (first, negated), *others = sorted(terms, key=lambda x: (x[1], x[0]))
    new.current_tag = graph.tag[first] or new.current_tag
    total = node_map[first]
    for a, minus in others:
        total = new.sub(total, node_map[a]) if minus != negated else new.add(total, node_map[a])
    return total, negated


def _terms(graph: Graph, inner: Sequence[bool], root: int) -> Iterator[tuple[int, bool]]:
    """Yields the operands of a sum, and whether each is subtracted."""
    waiting = [(root, False)]
    while waiting:
        k, minus = waiting.pop()
        if k != root and not inner[k]:
            yield k, minus
            continue
        args = graph.args[k]
        signs = {"add": (minus, minus), "sub": (minus, not minus), "neg": (not minus,)}
        waiting += [*zip(args, signs[graph.op[k]], strict=True)][::-1]


def _unchanged(
    graph: Graph, new: Graph, root: int, inner: Sequence[bool], node_map: dict[int, int]
) -> int:
    """Enters a sum in the order that it has in the graph."""

    def enter(k: int) -> int:
        if k != root and not inner[k]:
            return node_map[k]
        return entered(graph, new, k, [enter(a) for a in graph.args[k]])

    return enter(root)


def _added(new: Graph, total: int | None, k: int, minus: bool) -> int:
    if total is None:
        return new.neg(k) if minus else k
    return new.sub(total, k) if minus else new.add(total, k)
