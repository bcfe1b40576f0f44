"""From a function on scalars to the graph of what it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from featherlane.program.graph import Graph, Output

Shape = int | Sequence[int]
REAL = (int, float, np.integer, np.floating)


class Node:
    """A scalar that is still to be computed: arithmetic on it enters nodes into its graph."""

    __slots__ = ("graph", "k")
    __array_ufunc__ = None  # NumPy scalars leave the arithmetic to us

    def __init__(self, graph: Graph, k: int) -> None:
        self.graph, self.k = graph, k

    def _lift(self, other: Any) -> int:
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
        return Node(self.graph, self.graph.add(self.k, self._lift(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.sub(self.k, self._lift(other)))

    def __rsub__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.sub(self._lift(other), self.k))

    def __mul__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.mul(self.k, self._lift(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.div(self.k, self._lift(other)))

    def __rtruediv__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.div(self._lift(other), self.k))

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
        return Node(self.graph, self.graph.less(self.k, self._lift(other)))

    def __gt__(self, other: Any) -> Node:
        return Node(self.graph, self.graph.less(self._lift(other), self.k))

    def sin(self) -> Node:
        return Node(self.graph, self.graph.sin(self.k))

    def cos(self) -> Node:
        return Node(self.graph, self.graph.cos(self.k))

    def sqrt(self) -> Node:
        return Node(self.graph, self.graph.sqrt(self.k))

    def select(self, a: Any, b: Any) -> Node:
        """a where this condition holds, else b."""
        return Node(self.graph, self.graph.select(self.k, self._lift(a), self._lift(b)))


def _nest(flat: Sequence[Any], shape: Sequence[int]) -> Any:
    """Nested lists of the given shape from entries in C order; the entry itself for shape ()."""
    if not shape:
        return flat[0]
    step = len(flat) // shape[0] if shape[0] else 0
    return [_nest(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _flatten(value: Any, name: str) -> tuple[tuple[int, ...], list[Any]]:
    """The shape and the entries, in C order, of a scalar or of nested sequences of scalars."""
    if isinstance(value, (Node, *REAL)):
        return (), [value]
    if isinstance(value, str | bytes | Mapping):
        raise TypeError
    parts = [_flatten(part, name) for part in value]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise ValueError(f"output {name!r} is ragged: it holds parts of shapes {sorted(shapes)}")
    inner = shapes.pop() if shapes else ()
    return (len(parts), *inner), [entry for _, flat in parts for entry in flat]


def call(graph: Graph, **arguments: Any) -> dict[str, Any]:
    """The outputs of a graph for scalars of another trace: a graph is a function again.

    arguments: nested lists of scalars, or numbers, for each input of the graph. Raises TypeError
    for missing ones, ValueError for other shapes.
    """
    flat = {}
    for name, shape in graph.inputs.items():
        if name not in arguments:
            raise TypeError(f"{name} is missing: the graph takes {', '.join(graph.inputs)}")
        given, flat[name] = _flatten(arguments[name], name)
        if given != shape:
            raise ValueError(f"{name} has shape {given}, wanted {shape}")
    nodes = [x for entries in flat.values() for x in entries if isinstance(x, Node)]
    if not nodes:
        raise TypeError("there is no traced scalar among the arguments: evaluate the graph instead")
    into, place = nodes[0].graph, []
    lift, before = nodes[0]._lift, into.current_stage
    for op, args, value, stage in zip(graph.op, graph.args, graph.value, graph.stage, strict=True):
        into.current_stage = stage
        if op == "input":
            place.append(lift(flat[value[0]][value[1]]))
        elif op == "constant":
            place.append(into.node(op, value=value))
        else:
            place.append(getattr(into, op)(*[place[a] for a in args]))
    into.current_stage = before
    return {
        name: _nest([Node(into, place[k]) for k in out.nodes], out.shape)
        for name, out in graph.outputs.items()
    }


def trace(
    function: Callable[..., Any],
    inputs: Mapping[str, Shape],
    listen: Callable[[Graph], AbstractContextManager[Any]] = lambda graph: nullcontext(),
) -> Graph:
    """The graph of `function`, called once on scalars that are still to be computed.

    inputs: the name and shape of each argument (`{"q": 7, "A": (3, 3), "s": ()}`); the function
    gets nested lists of scalars in this order. It returns a scalar, nested lists of scalars, or a
    dict of those by name; a single result is called "out". The function runs inside the context
    `listen(graph)`, which may follow its loops.

    Raises TypeError or ValueError if the function branches on a scalar or returns anything else.
    """
    graph = Graph()
    arguments = []
    for name, shape in inputs.items():
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        arguments.append(_nest([Node(graph, k) for k in graph.declare(name, sizes)], sizes))
    with listen(graph):
        result = function(*arguments)
    graph.current_stage = None
    named = result if isinstance(result, dict) else {"out": result}
    for name, value in named.items():
        try:
            shape, flat = _flatten(value, name)
        except TypeError:
            raise TypeError(
                f"output {name!r} is {type(value).__name__}: wanted scalars or lists of them"
            ) from None
        if any(isinstance(x, Node) and x.graph is not graph for x in flat):
            raise ValueError(f"output {name!r} holds a scalar of a different trace")
        nodes = [x.k if isinstance(x, Node) else graph.constant(x) for x in flat]
        graph.outputs[name] = Output(shape, tuple(nodes))
    return graph
