"""The derivatives of operations, as nodes of the graph that holds them.

A rule takes the graph, the node and its operands to the linear map of each operand, None where
nothing passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Graph = Any  # a `program.graph.Graph`, whose methods have the names of the operations
Linear = Callable[[int], int]  # from a tangent or adjoint to its share through one operand
Rule = Callable[..., tuple[Linear | None, ...]]


def piecewise_constant(g: Graph, k: int, *operands: int) -> tuple[Linear | None, ...]:
    return (None,) * len(operands)


def same(t: int) -> int:
    return t


def times(g: Graph, factor: int) -> Linear:
    return lambda t: g.mul(factor, t)


def of_div(g: Graph, k: int, a: int, b: int) -> tuple[Linear | None, ...]:
    reciprocal = g.div(g.constant(1.0), b)  # one division for all tangents
    return times(g, reciprocal), times(g, g.neg(g.mul(k, reciprocal)))


def of_abs(g: Graph, k: int, a: int) -> tuple[Linear | None, ...]:
    negative = g.less(a, g.constant(0.0))
    return (lambda t: g.select(negative, g.neg(t), t),)


def of_select(g: Graph, k: int, condition: int, a: int, b: int) -> tuple[Linear | None, ...]:
    zero = g.constant(0.0)
    return None, lambda t: g.select(condition, t, zero), lambda t: g.select(condition, zero, t)


def of_quarter(g: Graph, k: int, quarters: int, s: int, c: int) -> tuple[Linear | None, ...]:
    zero = g.constant(0.0)
    return None, lambda t: g.quarter(quarters, t, zero), lambda t: g.quarter(quarters, zero, t)


def of_arc(sign: float) -> Rule:
    """The rule of asin, or with the sign -1 of acos: 1 / sqrt((1 - a) (1 + a))."""

    def rule(g: Graph, k: int, a: int) -> tuple[Linear | None, ...]:
        one = g.constant(1.0)
        root = g.sqrt(g.mul(g.sub(one, a), g.add(one, a)))
        return (times(g, g.div(g.constant(sign), root)),)

    return rule


def of_atan2(g: Graph, k: int, a: int, b: int) -> tuple[Linear | None, ...]:
    reciprocal = g.div(g.constant(1.0), g.add(g.mul(a, a), g.mul(b, b)))
    return times(g, g.mul(b, reciprocal)), times(g, g.neg(g.mul(a, reciprocal)))


def of_tanh(g: Graph, k: int, a: int) -> tuple[Linear | None, ...]:
    one = g.constant(1.0)
    return (times(g, g.mul(g.sub(one, k), g.add(one, k))),)


def of_copysign(g: Graph, k: int, a: int, b: int) -> tuple[Linear | None, ...]:
    """The sign of a times that of b."""
    one = g.constant(1.0)
    return times(g, g.mul(g.copysign(one, a), g.copysign(one, b))), None


def reciprocal(g: Graph, a: int) -> Linear:
    return times(g, g.div(g.constant(1.0), a))
