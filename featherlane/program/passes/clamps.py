"""Stated bounds of signals (`scalar.within`) kept by circuits too.

The bounds hold for exact values, and rounding may go beyond them. A signal that is clamped to its
bounds is no farther from the exact value than before, and its range is proved whatever the rounding
before it.
"""

from __future__ import annotations

from featherlane.program.graph import Graph, Rule, rewrite


def clamped(graph: Graph) -> Graph:
    """Returns a graph in which each computed node with stated bounds is clamped to them."""
    return rewrite(graph, {k: _clamp(graph, k) for k in graph.facts if graph.args[k]})


def _clamp(graph: Graph, k: int) -> Rule:
    op, (low, high) = graph.op[k], graph.facts[k]

    def rule(new: Graph, *operands: int) -> int:
        x = getattr(new, op)(*operands)
        least, most = new.constant(low), new.constant(high)
        x = new.select(new.less(x, least), least, x)
        return new.select(new.less(most, x), most, x)

    return rule
