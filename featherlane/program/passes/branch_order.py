"""An order of nodes in which isomorphic branches have isomorphic orders: the position of a node
depends on its branch alone, not on the position of this branch among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush
from typing import Any

from featherlane.program.graph import Graph
from featherlane.program.passes.balance import SUMS
from featherlane.program.rewrite import entered, placed

Rank = Callable[[Hashable, Any], Any]


def in_branch_order(
    graph: Graph, part: Sequence[Hashable], order: Sequence[Hashable], rank: Rank
) -> Graph:
    """Returns the graph part by part, each sum behind the last of its terms in the same part, and
    each product with an input entry that belongs to no branch behind its other operand.

    part: of each node. order: the parts, in an order in which none reads a later one. rank: the
    sort key of a product by such an input entry, from its part and the entry; None for entries
    that belong to a branch.
    """
    waits, readers = [len({*args}) for args in graph.args], [list[int]() for _ in graph.args]
    for k, args in enumerate(graph.args):
        for a in {*args}:
            readers[a].append(k)
    keys = _Keys(graph, part, order, rank)
    ready = [(keys.of(k), k) for k, n in enumerate(waits) if not n]
    new, node_map = Graph(), dict[int, int]()
    new.inputs = dict(graph.inputs)
    while ready:
        _, k = heappop(ready)
        keys.position[k] = len(keys.position)
        new.current_tag = graph.tag[k]
        node_map[k] = entered(graph, new, k, [node_map[a] for a in graph.args[k]])
        for reader in readers[k]:
            waits[reader] -= 1
            if not waits[reader]:
                heappush(ready, (keys.of(reader), reader))
    new.outputs = placed(graph.outputs, node_map)
    return new


class _Keys:
    """The sort keys of nodes. position: of each node that has been placed."""

    def __init__(
        self, graph: Graph, part: Sequence[Hashable], order: Sequence[Hashable], rank: Rank
    ) -> None:
        self.graph, self.part = graph, part
        self.number = {name: n for n, name in enumerate(order)}
        self.position: dict[int, int] = {}
        # Of each product by an entry of no branch: its other operand, and the rank of the entry
        self.by_entry: dict[int, tuple[int, Any]] = {}
        # The node that each node follows: itself, or for sums and such products an operand
        self.after = [k if args else -1 for k, args in enumerate(graph.args)]
        for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
            if op in SUMS:
                self.after[k] = max((self._last_term(k, a) for a in args), default=-1)
            elif op == "mul":
                for a, other in (args, args[::-1]):
                    key = rank(part[k], graph.value[a]) if graph.op[a] == "input" else None
                    if key is not None and graph.args[other]:
                        self.by_entry[k] = other, key
                        self.after[k] = self._last_term(k, other)

    def _inside(self, k: int, a: int) -> bool:
        """Whether an operand of a node is computed in the same part."""
        return bool(self.graph.args[a]) and self.part[a] == self.part[k]

    def _last_term(self, k: int, a: int) -> int:
        return self.after[a] if self._inside(k, a) else -1

    def of(self, k: int) -> tuple[Any, ...]:
        """The key of a node whose operands have been placed: its part, the node that it follows,
        and its rank among the nodes that follow this one.
        """
        args = self.graph.args[k]
        rank: tuple[int, Any] = (0, k)
        if not args:
            return -1, -1, rank
        if k in self.by_entry:
            other, entry_rank = self.by_entry[k]
            rank = 1, (self.position[other], entry_rank)
        elif self.after[k] != k:
            rank = 2, sorted(((self._inside(k, a), self.position[a]) for a in args), reverse=True)
        return self.number[self.part[k]], self.after[k], rank
