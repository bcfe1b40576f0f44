"""The scalar of traces: a node of a graph, on which arithmetic enters further nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.program.graph import Graph

REAL = (int, float, np.integer, np.floating)


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

    def __neg__(self) -> Node:
        return Node(self.graph, self.graph.neg(self.k))

    def __pos__(self) -> Node:
        return self

    def __abs__(self) -> Node:
        return Node(self.graph, self.graph.abs(self.k))

    def __add__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.add(self.k, self.lift(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.sub(self.k, self.lift(other)))

    def __rsub__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.sub(self.lift(other), self.k))

    def __mul__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.mul(self.k, self.lift(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.div(self.k, self.lift(other)))

    def __rtruediv__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.div(self.lift(other), self.k))

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

    def __lt__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.less(self.k, self.lift(other)))

    def __gt__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.less(self.lift(other), self.k))

    def sin(self) -> Node:
        return Node(self.graph, self.graph.sin(self.k))

    def cos(self) -> Node:
        return Node(self.graph, self.graph.cos(self.k))

    def sqrt(self) -> Node:
        return Node(self.graph, self.graph.sqrt(self.k))

    def select(self, a: Any, b: Any) -> Node:
        """a where this condition holds, else b."""
        return Node(self.graph, self.graph.select(self.k, self.lift(a), self.lift(b)))
