"""Sums as balanced trees: additions are reordered so that each operand is added once it is ready.

A sum is a tree of additions, subtractions and signs whose inner results have one reader. Adding the
two earliest operands first, again and again, gives the tree whose result is ready first (Golumbic,
Combinatorial merging, 1976). The number of additions does not grow, and no other operation
changes; in floating point results differ by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from math import ceil, floor
from typing import Any

from featherlane.program.graph import Graph
from featherlane.program.rewrite import entered, placed, simplify

SUMS = frozenset(["add", "sub", "neg"])
LEAVES = frozenset(["input", "constant"])
ROUNDING = 1e-9  # of sums of delays
Term = tuple[float, int, bool]  # the cycle in which it is ready, the node, whether it is subtracted


def balanced(
    graph: Graph, delays: Mapping[str, float], arrival: Mapping[str, float] | None = None
) -> Graph:
    """Returns the graph, of live nodes, with balanced sums.

    delays: cycles by operation, 0 by default. An operation of one cycle or more begins with a
    cycle; a shorter one follows its operands in their cycle, if it ends in it. arrival: the cycles
    in which inputs arrive, by name, 0 by default.

    A partial sum belongs to the latest of the calls that its operands belong to, and the whole sum
    to the call of its last node, so that `passes.outline` can still cut the graph.
    """
    return _Balance(graph, delays, arrival or {}).run()


class _Balance:
    """The new graph, and the cycle in which each of its nodes is ready."""

    def __init__(
        self, graph: Graph, delays: Mapping[str, float], arrival: Mapping[str, float]
    ) -> None:
        self.graph, self.new, self.delays = graph, Graph(), delays
        self.new.inputs = dict(graph.inputs)
        self.arrival, self.ready = arrival, list[float]()
        self.inner = inner_sums(graph)
        self.node_map: dict[int, int] = {}

    def run(self) -> Graph:
        """Returns the graph with balanced sums, and with the facts of nodes that are left."""
        for k, needed in enumerate(self.graph.live()):
            if needed and not self.inner[k]:
                self.new.current_tag = self.graph.tag[k]
                if self.graph.op[k] in SUMS:
                    self.node_map[k] = self._sum(k)
                else:
                    operands = [self.node_map[a] for a in self.graph.args[k]]
                    self.node_map[k] = entered(self.graph, self.new, k, operands)
        self.new.outputs = placed(self.graph.outputs, self.node_map)
        for k, bounds in self.graph.facts.items():
            if k in self.node_map:
                self.new.state(self.node_map[k], *bounds)
        return simplify(self.new)  # without constants and signs that folded away

    def _time(self, k: int) -> float:
        """The cycle in which a node of the new graph is ready, with the fraction of that cycle."""
        new, ready = self.new, self.ready
        for n in range(len(ready), k + 1):
            begin = max((ready[a] for a in new.args[n] if new.op[a] != "constant"), default=0.0)
            if new.op[n] == "input":
                begin = self.arrival.get(new.value[n][0], 0.0)
            ready.append(_after(begin, self.delays.get(new.op[n], 0.0)))
        return ready[k]

    def _sum(self, root: int) -> int:
        """Enters the sum that ends with a node of the old graph."""
        terms = [
            (0.0 if self.new.op[k] == "constant" else self._time(k), k, minus)
            for k, minus in self._terms(root)
        ]
        heapify(terms)
        while len(terms) > 1:
            a, b = heappop(terms), heappop(terms)
            tag = self.graph.tag[root]
            self.new.current_tag = self._tag(a, b, tag) if terms else tag
            heappush(terms, self._added(a, b))
        _, k, minus = terms[0]
        self.new.current_tag = self.graph.tag[root]
        return self.new.neg(k) if minus else k

    def _terms(self, root: int) -> Iterator[tuple[int, bool]]:
        """Yields the operands of a sum, as nodes of the new graph, and whether each is
        subtracted.
        """
        waiting = [(root, False)]
        while waiting:
            k, minus = waiting.pop()
            if k != root and not self.inner[k]:
                yield self.node_map[k], minus
                continue
            args = self.graph.args[k]
            signs = {"add": (minus, minus), "sub": (minus, not minus), "neg": (not minus,)}
            waiting += zip(args, signs[self.graph.op[k]], strict=True)

    def _tag(self, a: Term, b: Term, root: Any) -> Any:
        """The tag of a partial sum: the tag of the operand of the later call, or of the whole sum
        if both are inputs.
        """
        tags = [self.new.tag[k] for _, k, _ in (a, b) if self.new.op[k] not in LEAVES]
        last = max(tags, key=_call, default=None)
        return last if _call(last) else root

    def _added(self, a: Term, b: Term) -> Term:
        (_, x, x_minus), (_, y, y_minus), new = a, b, self.new
        if x_minus == y_minus:
            k, minus = new.add(x, y), x_minus
        else:
            k, minus = new.sub(y, x) if x_minus else new.sub(x, y), False
        if new.op[k] == "neg":  # the graph has the opposite difference already
            k, minus = new.args[k][0], not minus
        return self._time(k), k, minus


def _call(tag: Any) -> int:
    return getattr(tag, "call", 0)


def inner_sums(graph: Graph) -> list[bool]:
    """Tells for each node whether it is an inner node of a sum: a sum that is no output, has no
    stated bounds, and is read once, by another sum.
    """
    needed = graph.live()
    readers = [[k for k in users if needed[k]] for users in graph.uses()]
    ends = {k for out in graph.outputs.values() for k in out.nodes}.union(graph.facts)
    return [
        op in SUMS and k not in ends and len(users) == 1 and graph.op[users[0]] in SUMS
        for k, (op, users) in enumerate(zip(graph.op, readers, strict=True))
    ]


def _after(begin: float, delay: float) -> float:
    """The time at which an operation is done whose operands are ready at `begin`."""
    whole = ceil(begin - ROUNDING)
    if delay >= 1:
        return whole + delay
    fits = begin + delay <= floor(begin + ROUNDING) + 1 + ROUNDING
    return begin + delay if fits else whole + delay
