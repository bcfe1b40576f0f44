"""Fused multiply-adds, chosen in the graph, so that all backends round at the same operations."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from featherlane.program.graph import Graph
from featherlane.program.rewrite import Rule, rewrite, simplify

SUMS = {"add", "sub"}


def _candidates(graph: Graph) -> dict[int, list[int]]:
    """The products whose uses are all sums, a different one each, with these sums."""
    needed, users = graph.live(), graph.uses()
    kept = {k for out in graph.outputs.values() for k in out.nodes}
    products = {}
    for p, op in enumerate(graph.op):
        if op == "mul" and needed[p] and p not in kept:
            sums = [k for k in users[p] if needed[k]]
            if len(set(sums)) == len(sums) and all(graph.op[k] in SUMS for k in sums):
                products[p] = sums
    return products


def _choose(graph: Graph, products: dict[int, list[int]]) -> list[int]:
    """As many products as possible of which no two are operands of one sum.

    That is an independent set of the graph whose edges are the sums of two products: taking the
    product with the fewest rivals first is optimal where none has three of them. Of equals the
    later goes first: the product that stays is computed before the sum that needs it.
    """
    rivals = {
        p: {q for k in sums for q in graph.args[k] if q != p and q in products}
        for p, sums in products.items()
    }
    queue = [(len(against), -p) for p, against in rivals.items()]
    heapify(queue)
    chosen = []
    while queue:
        count, p = heappop(queue)
        p = -p
        if p not in rivals or len(rivals[p]) != count:
            continue  # taken, ruled out, or queued again since
        chosen.append(p)
        for q in rivals.pop(p):
            for r in rivals.pop(q):
                if r in rivals:
                    rivals[r].discard(q)
                    heappush(queue, (len(rivals[r]), -r))
    return chosen


def _add_left(new: Graph, p: int, c: int) -> int:
    if new.op[p] != "mul":
        return new.add(p, c)
    a, b = new.args[p]
    return new.fma(a, b, c)


def _add_right(new: Graph, c: int, p: int) -> int:
    return _add_left(new, p, c)


def _sub_left(new: Graph, p: int, c: int) -> int:
    if new.op[p] != "mul":
        return new.sub(p, c)
    a, b = new.args[p]
    return new.fma(a, b, new.neg(c))


def _sub_right(new: Graph, c: int, p: int) -> int:
    if new.op[p] != "mul":
        return new.sub(c, p)
    a, b = new.args[p]
    return new.fma(new.neg(a), b, c)


RULES: dict[tuple[str, int], Rule] = {
    ("add", 0): _add_left,
    ("add", 1): _add_right,
    ("sub", 0): _sub_left,
    ("sub", 1): _sub_right,
}


def fuse(graph: Graph) -> Graph:
    """The graph with a b + c rounded once wherever that makes a product disappear.

    A product whose uses are all sums that can take it is fused into each of them; a product used
    anywhere else stays, as fusing it would save nothing. Where a sum has two products, the choice
    is the one that makes most of them disappear.
    """
    products = _candidates(graph)
    rules: dict[int, Rule] = {}
    for p in _choose(graph, products):
        for k in products[p]:
            rules[k] = RULES[graph.op[k], graph.args[k].index(p)]
    return simplify(rewrite(graph, rules))  # without the products


def unfuse(graph: Graph) -> Graph:
    """The graph with each fused multiply-add as a product and a sum, both rounded, for targets that
    have no such instruction.
    """
    if "fma" not in graph.op:
        return graph
    return rewrite(graph, {"fma": lambda new, a, b, c: new.add(new.mul(a, b), c)})
