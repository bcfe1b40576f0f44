"""One order of nodes for branches that are alike: where each node stands follows from its branch, not
from that of its branch among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush
from typing import Any

from featherlane.program.graph import Graph, entered, placed
from featherlane.program.passes.balance import SUMS

Rank = Callable[[Hashable, Any], Any]


def in_one_order(
    graph: Graph, home: Sequence[Hashable], homes: Sequence[Hashable], rank: Rank
) -> Graph:
    """Returns the graph home by home, with each sum behind the last of its terms there, and each
    product with an entry of an input that no branch owns behind its other operand.

    homes: in an order in which none needs a later one. rank: by what products of one operand are
    sorted: of a home and the value of an entry; None of entries of branches.
    """
    number = {name: n for n, name in enumerate(homes)}
    turn = [k if args else -1 for k, args in enumerate(graph.args)]
    inside = lambda k, a: home[a] == home[k] and bool(graph.args[a])
    by_entry: dict[int, tuple[int, Any]] = {}  # the other operand, and the rank
    for k, args in enumerate(graph.args):
        if graph.op[k] in SUMS:
            turn[k] = max((turn[a] for a in args if inside(k, a)), default=-1)
        elif graph.op[k] == "mul":
            for a, other in (args, args[::-1]):
                own = rank(home[k], graph.value[a]) if graph.op[a] == "input" else None
                if own is not None and graph.args[other]:
                    by_entry[k] = other, own
                    turn[k] = turn[other] if inside(k, other) else -1
    waits, readers = [len({*args}) for args in graph.args], [list[int]() for _ in graph.args]
    for k, args in enumerate(graph.args):
        for a in {*args}:
            readers[a].append(k)
    coming: list[tuple[int, int, int, Any, int]] = []
    new, place = Graph(), dict[int, int]()
    new.inputs = dict(graph.inputs)

    def offer(k: int) -> None:
        kind, key = 0, (k,)
        if k in by_entry:
            other, own = by_entry[k]
            kind, key = 1, (order[other], own)
        elif turn[k] != k and graph.args[k]:
            place_of = lambda a: (inside(k, a), order[a])
            kind, key = 2, tuple(sorted(map(place_of, graph.args[k]), reverse=True))
        where = number[home[k]] if graph.args[k] else -1
        heappush(coming, (where, turn[k], kind, key, k))

    order: dict[int, int] = {}
    for k, n in enumerate(waits):
        if not n:
            offer(k)
    while coming:
        *_, k = heappop(coming)
        order[k] = len(order)
        new.current_tag = graph.tag[k]
        place[k] = entered(graph, new, k, [place[a] for a in graph.args[k]])
        for reader in readers[k]:
            waits[reader] -= 1
            if not waits[reader]:
                offer(reader)
    new.outputs = placed(graph.outputs, place)
    return new
