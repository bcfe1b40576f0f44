"""The scalar of traces: a node of a graph, on which arithmetic enters further nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from featherlane.program.graph import Graph

REAL = (int, float, np.integer, np.floating)


def _unary(enter: Callable[[Graph, int], int]) -> Callable[[Node], Node]:
    """The method that enters an operation on the scalar."""
    return lambda self: Node(self.graph, enter(self.graph, self.k))


def _binary(enter: Callable[[Graph, int, int], int]) -> Callable[[Node, Any], Node]:
    """The method that enters an operation on the scalar and another one."""
    return lambda self, other: Node(self.graph, enter(self.graph, self.k, self.lift(other)))


def _reflected(enter: Callable[[Graph, int, int], int]) -> Callable[[Node, Any], Node]:
    """The method that enters an operation on another scalar and this one."""
    return lambda self, other: Node(self.graph, enter(self.graph, self.lift(other), self.k))


class Node:
    """A scalar that is still to be computed: arithmetic on it enters nodes into its graph."""

    __slots__ = ("graph", "k")
    __array_ufunc__ = None  # NumPy scalars leave the arithmetic to us

    def __init__(self, graph: Graph, k: int) -> None:
        self.graph, self.k = graph, k

    def lift(self, other: Any) -> int:
        """The node of a scalar of this trace, or of a number."""
        if isinstance(other, Node):
            if other.graph is not self.graph:
                raise ValueError("two scalars of different traces were combined")
            return other.k
        if isinstance(other, REAL):
            return self.graph.constant(float(other))
        raise TypeError(
            f"a traced scalar was combined with {type(other).__name__} {other!r}: wanted a number"
        )

    def __repr__(self) -> str:
        return f"<Node %{self.k} = {self.graph.op[self.k]}>"

    def __bool__(self) -> bool:
        raise TypeError(
            "the value of a traced scalar is not known while tracing: use featherlane.sin, cos and "
            "sqrt instead of those of math, and as a graph has no branches, "
            "featherlane.select(a < b, x, y) instead of if, min or max"
        )

    __float__ = __int__ = __index__ = __bool__

    def __eq__(self, other: object) -> bool:
        return self.__bool__()  # identity would be a silent no

    __hash__ = object.__hash__

    __neg__ = _unary(Graph.neg)
    __abs__ = _unary(Graph.abs)
    __add__ = __radd__ = _binary(Graph.add)
    __sub__, __rsub__ = _binary(Graph.sub), _reflected(Graph.sub)
    __mul__ = __rmul__ = _binary(Graph.mul)
    __truediv__, __rtruediv__ = _binary(Graph.div), _reflected(Graph.div)
    __lt__, __gt__ = _binary(Graph.less), _reflected(Graph.less)
    sin, cos, sqrt = _unary(Graph.sin), _unary(Graph.cos), _unary(Graph.sqrt)
    rint = _unary(Graph.round)

    def __pos__(self) -> Node:
        return self

    def __pow__(self, exponent: float) -> Node:
        if exponent == 0.5:
            return self.sqrt()
        if not isinstance(exponent, int):
            raise TypeError(
                f"a traced scalar was raised to {exponent!r}: wanted a whole number or 0.5"
            )
        if exponent < 0:
            return 1.0 / self**-exponent
        power = Node(self.graph, self.graph.constant(1.0))
        for bit in bin(exponent)[2:]:
            power = power * power * self if bit == "1" else power * power
        return power

    def select(self, a: Any, b: Any) -> Node:
        """a where this condition holds, else b."""
        return Node(self.graph, self.graph.select(self.k, self.lift(a), self.lift(b)))
