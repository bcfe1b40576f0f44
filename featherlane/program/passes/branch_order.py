"""One order of nodes for branches that are alike: where a node stands follows from its own branch,
not from the place of this branch among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush
from typing import Any

from featherlane.program.graph import Graph, entered, placed
from featherlane.program.passes.balance import SUMS

Rank = Callable[[Hashable, Any], Any]


def in_branch_order(
    graph: Graph, home: Sequence[Hashable], homes: Sequence[Hashable], rank: Rank
) -> Graph:
    """Returns the graph home by home, with each sum behind the last of its terms there, and each
    product with an entry of an input that no branch owns behind its other operand.

    homes: in an order in which none needs a later one. rank: by what products of one operand are
    sorted: of a home and the value of an entry; None of entries of branches.
    """
    waits, readers = [len({*args}) for args in graph.args], [list[int]() for _ in graph.args]
    for k, args in enumerate(graph.args):
        for a in {*args}:
            readers[a].append(k)
    keys = _Keys(graph, home, homes, rank)
    coming = [(keys.of(k), k) for k, n in enumerate(waits) if not n]
    new, place = Graph(), dict[int, int]()
    new.inputs = dict(graph.inputs)
    while coming:
        _, k = heappop(coming)
        keys.order[k] = len(keys.order)
        new.current_tag = graph.tag[k]
        place[k] = entered(graph, new, k, [place[a] for a in graph.args[k]])
        for reader in readers[k]:
            waits[reader] -= 1
            if not waits[reader]:
                heappush(coming, (keys.of(reader), reader))
    new.outputs = placed(graph.outputs, place)
    return new


class _Keys:
    """What nodes are sorted by. order: the places of those that have theirs."""

    def __init__(
        self, graph: Graph, home: Sequence[Hashable], homes: Sequence[Hashable], rank: Rank
    ) -> None:
        self.graph, self.home = graph, home
        self.number = {name: n for n, name in enumerate(homes)}
        self.order: dict[int, int] = {}
        self.by_entry: dict[int, tuple[int, Any]] = {}  # the other operand, and the rank
        self.turn = [k if args else -1 for k, args in enumerate(graph.args)]
        for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
            if op in SUMS:
                self.turn[k] = max((self._turn(k, a) for a in args), default=-1)
            elif op == "mul":
                for a, other in (args, args[::-1]):
                    own = rank(home[k], graph.value[a]) if graph.op[a] == "input" else None
                    if own is not None and graph.args[other]:
                        self.by_entry[k] = other, own
                        self.turn[k] = self._turn(k, other)

    def _inside(self, k: int, a: int) -> bool:
        """Whether an operand of a node is computed in its home."""
        return bool(self.graph.args[a]) and self.home[a] == self.home[k]

    def _turn(self, k: int, a: int) -> int:
        return self.turn[a] if self._inside(k, a) else -1

    def of(self, k: int) -> tuple[Any, ...]:
        """The key of a node whose operands have their places: its home, the node behind which it
        stands, and what it is sorted by there.
        """
        args = self.graph.args[k]
        key: tuple[int, Any] = (0, k)
        if not args:
            return -1, -1, key
        if k in self.by_entry:
            other, own = self.by_entry[k]
            key = 1, (self.order[other], own)
        elif self.turn[k] != k:
            key = 2, sorted(((self._inside(k, a), self.order[a]) for a in args), reverse=True)
        return self.number[self.home[k]], self.turn[k], key
