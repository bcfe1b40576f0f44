"""Sums that begin with the terms of alike branches: these can be added up as they come, one after
the other, while a balanced sum of all terms would wait for the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from featherlane.program.graph import Graph, entered, placed
from featherlane.program.passes.balance import SUMS, inner_sums


def reduced(
    graph: Graph, sets: Sequence[tuple[int, ...]]
) -> tuple[Graph, dict[tuple[int, ...], list[int]]]:
    """Returns the graph, of live nodes, in which sums of all nodes of a set add these first, in
    their order; and for each set that is in a sum the nodes of the partial sums, the total last.

    A set is in a sum if each of its nodes is a term once, and all have one sign; sets that are in
    none are left out.
    """
    number = {k: n for n, own in enumerate(sets) for k in own}
    inner = [inside and k not in number for k, inside in enumerate(inner_sums(graph))]
    new, place = Graph(), dict[int, int]()
    found: dict[tuple[int, ...], list[int]] = {}
    for k in _sums(graph, inner, new, place):
        terms = list(_terms(graph, inner, k))
        signs = dict(terms)
        once = {a for a, count in Counter(a for a, _ in terms).items() if count == 1}
        whole = [
            n
            for n in dict.fromkeys(number[a] for a, _ in terms if a in number)
            if once.issuperset(sets[n]) and len({signs[a] for a in sets[n]}) == 1
        ]
        if not whole or len(terms) == 1:
            place[k] = _as_it_was(graph, new, k, inner, place)
            continue
        gone = {a for n in whole for a in sets[n]}
        total: int | None = None
        for a, minus in terms:
            if a not in gone:
                total = _added(new, total, place[a], minus)
        for n in whole:
            partial = place[sets[n][0]]
            found[sets[n]] = partials = []
            for a in sets[n][1:]:
                partial = new.node("add", partial, place[a])
                partials.append(partial)
            total = _added(new, total, partial, signs[sets[n][0]])
        assert total is not None
        place[k] = total
    return new, found


def grouped(graph: Graph, home: Sequence[Any]) -> Graph:
    """Returns the graph, of live nodes, in which each sum adds the terms of each home first, and
    then these, in the order of homes: so branches that are alike give one number each, whichever
    of them comes first.
    """
    inner, new, place = inner_sums(graph), Graph(), dict[int, int]()
    for k in _sums(graph, inner, new, place):
        groups: dict[Any, list[tuple[int, bool]]] = {}
        for a, minus in _terms(graph, inner, k):
            groups.setdefault(home[a], []).append((a, minus))
        if len(groups) == 1:
            place[k] = _as_it_was(graph, new, k, inner, place)
            continue
        partials = [_partial(graph, new, groups[own], place) for own in sorted(groups)]
        new.current_tag = graph.tag[k]
        partials.sort(key=lambda x: x[1])  # one that is added comes first
        turned = partials[0][1]
        total, _ = partials[0]
        for partial, minus in partials[1:]:
            total = new.sub(total, partial) if minus != turned else new.add(total, partial)
        place[k] = new.neg(total) if turned else total
    return new


def _sums(graph: Graph, inner: Sequence[bool], new: Graph, place: dict[int, int]) -> Iterator[int]:
    """Copies a graph and yields its sums, which whoever asks puts in their place; those inside of
    others are left out.
    """
    new.inputs = dict(graph.inputs)
    for k, op in enumerate(graph.op):
        if inner[k]:
            continue
        new.current_tag = graph.tag[k]
        if op in SUMS:
            yield k
        else:
            place[k] = entered(graph, new, k, [place[a] for a in graph.args[k]])
    new.outputs = placed(graph.outputs, place)


def _partial(
    graph: Graph, new: Graph, terms: Sequence[tuple[int, bool]], place: dict[int, int]
) -> tuple[int, bool]:
    """Enters the sum of terms, or its negative if all are subtracted; tells which."""
    (first, turned), *others = sorted(terms, key=lambda x: (x[1], x[0]))
    new.current_tag = graph.tag[first] or new.current_tag
    total = place[first]
    for a, minus in others:
        total = new.sub(total, place[a]) if minus != turned else new.add(total, place[a])
    return total, turned


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


def _as_it_was(
    graph: Graph, new: Graph, root: int, inner: Sequence[bool], place: dict[int, int]
) -> int:
    """Enters a sum as it is in the graph."""

    def enter(k: int) -> int:
        if k != root and not inner[k]:
            return place[k]
        return entered(graph, new, k, [enter(a) for a in graph.args[k]])

    return enter(root)


def _added(new: Graph, total: int | None, k: int, minus: bool) -> int:
    if total is None:
        return new.neg(k) if minus else k
    return new.sub(total, k) if minus else new.add(total, k)
