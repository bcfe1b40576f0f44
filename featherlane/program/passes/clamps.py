"""Stated bounds of signals (`scalar.within`), enforced in circuits by clamping.

The bounds hold for exact values, and rounding may go beyond them. A signal that is clamped to its
bounds is no farther from the exact value than before, and its range is proved whatever the rounding
before it.
"""

from __future__ import annotations

from collections.abc import Collection

from featherlane.program.graph import Graph
from featherlane.program.rewrite import Rule, rewrite


def clamped(graph: Graph, nodes: Collection[int]) -> Graph:
    """Returns a graph in which these nodes, which have stated bounds, are clamped to them."""
    return rewrite(graph, {k: _clamp(graph, k) for k in nodes})


def _clamp(graph: Graph, k: int) -> Rule:
    op, (low, high) = graph.op[k], graph.facts[k]

    def rule(new: Graph, *operands: int) -> int:
        x = getattr(new, op)(*operands)
        new.state(x, low, high)
        least, most = new.constant(low), new.constant(high)
        x = new.select(new.less(x, least), least, x)
        return new.select(new.less(most, x), most, x)

    return rule


def clamps(graph: Graph) -> dict[int, int]:
    """Returns, for each `select` that clamps a signal, the condition under which it takes the
    bound.
    """
    conditions = {}
    for k in graph.nodes_of("select"):
        condition, bound, x = graph.args[k]
        compared = graph.op[condition] == "less" and {bound, x} == {*graph.args[condition]}
        if compared and graph.op[bound] == "constant":
            conditions[k] = condition
    return conditions
