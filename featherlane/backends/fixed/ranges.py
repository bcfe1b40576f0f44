"""Interval arithmetic over a graph: bounds of each node for inputs within bounds.

The ranges of angles are cut into pieces, and each combination of pieces is a box with separate
bounds, since sines and cosines vary little in it. Bounds are rounded outwards. Products of a node
with itself are squares; x cos q + y sin q is at most the length of (x, y); a reciprocal from
mantissa and exponent (`passes.reciprocals`) has the bounds of 1 / b.

Each interval has a bound of the error too: of the difference between the computed, rounded value
and the exact value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from featherlane.errors import CompileError
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS

BOXES = 4096
Array = Any


class Interval(NamedTuple):
    """The numbers from low to high, in all boxes or (arrays) in each box. The computed value
    differs from the exact value by at most `error`.
    """

    low: Array
    high: Array
    error: Array = 0.0

    @property
    def largest(self) -> Array:
        """The largest magnitude."""
        return np.maximum(-self.low, self.high)

    @property
    def least(self) -> Array:
        """The least magnitude."""
        return np.maximum(np.maximum(self.low, -self.high), 0.0)

    @property
    def hull(self) -> Interval:
        """The numbers in any box."""
        low, high, error = self
        return Interval(float(np.min(low)), float(np.max(high)), float(np.max(error)))


Bounds = Mapping[tuple[str, int], Interval]  # of entries of inputs, by name and position
Rounding = Callable[[int, Interval], Interval]  # from a node and its bounds to its rounded bounds
Error = Callable[[int], float]  # of a node: the error of a circuit's result


def outwards(low: Array, high: Array, error: Array = 0.0) -> Interval:
    """The interval of bounds that were rounded once each; a bound of 0 was not rounded."""
    low = np.where(low == 0, 0.0, np.nextafter(low, -np.inf))
    return Interval(low, np.where(high == 0, 0.0, np.nextafter(high, np.inf)), error)


def intervals(
    graph: Graph,
    inputs: Bounds,
    rounding: Rounding = lambda k, x: x,
    error: Error = lambda k: 0.0,
    boxes: int = BOXES,
) -> list[Interval | None]:
    """Returns the bounds of each node; None for conditions and powers of two.

    rounding: called with the bounds of each node in each box; returns the bounds that its users
    read. error: of nodes after their rounding. boxes: the most boxes. Raises CompileError for a
    division by a number that may be 0.
    """
    bounds: list[Interval | None] = []
    hulls: list[Interval | None] = []
    boxed = _boxes(graph, inputs, boxes)
    last_use = {a: k for k, args in enumerate(graph.args) for a in args}
    keep = _read_later(graph)
    for k, op in enumerate(graph.op):
        if op in CONDITIONS or op == "power_of_two":
            bounds.append(None)
        else:
            bounds.append(rounding(k, _stated(graph, k, _bounds(graph, k, bounds, boxed, error))))
        hulls.append(x.hull if (x := bounds[k]) is not None else None)
        for a in graph.args[k]:
            if last_use[a] == k and a not in keep:
                bounds[a] = None
    return hulls


def _stated(graph: Graph, k: int, x: Interval) -> Interval:
    """Returns the bounds of a node, narrowed to those that the algorithm states for the exact
    value.
    """
    if k not in graph.facts:
        return x
    least, most = graph.facts[k]
    low, high = np.maximum(x.low, least - x.error), np.minimum(x.high, most + x.error)
    if np.any(low > high):
        raise CompileError(
            f"{place(graph, k)} is stated within {graph.facts[k]}, but computed from "
            f"{x.hull.low:.3g} to {x.hull.high:.3g}"
        )
    return Interval(low, high, np.minimum(x.error, np.maximum(high - least, most - low)))


def _read_later(graph: Graph) -> set[int]:
    """Returns the divisors, and the factors of rotated vectors, whose bounds are read by nodes of
    which they are not operands.
    """
    nodes = {graph.args[k][0] for k in graph.nodes_of("exponent")}
    for op in ("add", "sub"):
        for k in graph.nodes_of(op):
            nodes.update(_rotation(graph, k) or ())
    return nodes


def _boxes(graph: Graph, inputs: Bounds, most: int) -> Bounds:
    """Returns the bounds of inputs in each box. The ranges of angles are cut into equal pieces."""
    read = {graph.args[k][0] for op in ("sin", "cos") for k in graph.nodes_of(op)}
    angles = sorted(graph.value[k] for k in read if graph.op[k] == "input")
    pieces = int(most ** (1 / len(angles)) + 1e-9) if angles else 1
    if pieces < 2:
        return inputs
    grid = np.indices((pieces,) * len(angles)).reshape(len(angles), -1)
    boxed = dict(inputs)
    for at, n in zip(angles, grid, strict=True):
        edges = np.linspace(inputs[at].low, inputs[at].high, pieces + 1)
        boxed[at] = Interval(edges[n], edges[n + 1])
    return boxed


def _bounds(
    graph: Graph, k: int, by_node: list[Interval | None], inputs: Bounds, error: Error
) -> Interval:
    op, args, value = graph.op[k], graph.args[k], graph.value[k]
    if op == "input":
        return inputs[value]
    if op == "constant":
        return Interval(value, value)
    if op == "mul" and (pair := _with_power(graph, k)):
        return _scaled(graph, k, *pair, by_node, error)
    operands = [x for a in args if (x := by_node[a]) is not None]
    if op == "exponent":
        return _exponent(graph, k, operands[0])
    if op == "mul" and args[0] == args[1]:
        return _square(operands[0])
    if op == "select" and (extremum := _extremum(graph, k)) is not None:
        return extremum(*operands)
    bounds = RULES[op](*operands)
    if op in ("add", "sub") and (rotation := _rotation(graph, k)) is not None:
        length = _length(rotation, by_node, error) + sum(map(error, args))
        low, high = np.maximum(bounds.low, -length), np.minimum(bounds.high, length)
        return Interval(low, high, bounds.error)
    return bounds


def _extremum(graph: Graph, k: int) -> Callable[..., Interval] | None:
    """Returns the rule of a select that is a maximum or minimum of its operands, else None."""
    condition, a, b = graph.args[k]
    if graph.op[condition] in CONDITIONS and {*graph.args[condition]} == {a, b}:
        return _maximum if graph.args[condition] == (b, a) else _minimum
    return None


def _maximum(a: Interval, b: Interval) -> Interval:
    low, high = np.maximum(a.low, b.low), np.maximum(a.high, b.high)
    return Interval(low, high, np.maximum(a.error, b.error))


def _minimum(a: Interval, b: Interval) -> Interval:
    low, high = np.minimum(a.low, b.low), np.minimum(a.high, b.high)
    return Interval(low, high, np.maximum(a.error, b.error))


class _Rotation(NamedTuple):
    """The nodes of x cos q +- y sin q."""

    cosine: int
    sine: int
    x: int
    y: int


def _rotation(graph: Graph, k: int) -> _Rotation | None:
    """Returns the nodes of a sum or difference if it is a component of a rotated vector."""
    a, b = graph.args[k]
    if graph.op[a] != "mul" or graph.op[b] != "mul":
        return None
    for c, x in (graph.args[a], graph.args[a][::-1]):
        for s, y in (graph.args[b], graph.args[b][::-1]):
            if {graph.op[c], graph.op[s]} == {"cos", "sin"} and graph.args[c] == graph.args[s]:
                return _Rotation(c, s, x, y)
    return None


def _length(rotation: _Rotation, bounds: list[Interval | None], error: Error) -> Array:
    """Returns a bound of |x cos q + y sin q|: the length of (x, y). Sine and cosine with errors up
    to e have a length of 1 + sqrt(2) e.
    """
    x, y = bounds[rotation.x], bounds[rotation.y]
    assert x is not None
    assert y is not None
    longer = 1.5 * max(error(rotation.cosine), error(rotation.sine))
    return np.hypot(x.largest, y.largest) * (1.0 + longer + 1e-15)


def _with_power(graph: Graph, k: int) -> tuple[int, int] | None:
    """Returns the power of two that node k multiplies by, and the other operand."""
    a, b = graph.args[k]
    if graph.op[a] == "power_of_two":
        return a, b
    return (b, a) if graph.op[b] == "power_of_two" else None


def normalised_by(graph: Graph, power: int) -> int | None:
    """Returns the node b of 2^-exponent(b)."""
    (k,) = graph.args[power]
    if graph.op[k] != "neg" or graph.op[graph.args[k][0]] != "exponent":
        return None
    return graph.args[graph.args[k][0]][0]


def mantissa_of(graph: Graph, k: int) -> int | None:
    """Returns the node b if node k is b 2^-exponent(b)."""
    if graph.op[k] != "mul" or (pair := _with_power(graph, k)) is None:
        return None
    power, x = pair
    return x if normalised_by(graph, power) == x else None


def _scaled(
    graph: Graph, k: int, power: int, x: int, by_node: list[Interval | None], error: Error
) -> Interval:
    """Bounds of a product with 2^-exponent(b): the mantissa of b, 1 / b, or another product."""
    b = normalised_by(graph, power)
    bounds = by_node[b] if b is not None else None
    if bounds is None or b is None:
        raise CompileError(f"{place(graph, k)}: bounds of powers of two are known in 1 / b only")
    low, high, _ = bounds
    if x == b:
        return Interval(np.where(low > 0, 1.0, -2.0), np.where(high < 0, -1.0, 2.0), np.inf)
    if graph.op[x] == "div" and mantissa_of(graph, mantissa := graph.args[x][1]) == b:
        more = (error(mantissa) + error(x)) * 2.0 / bounds.least  # since 2^-exponent <= 2 / |b|
        exact = np.maximum(bounds.least - bounds.error, 0.0)
        with np.errstate(divide="ignore"):
            rounding = np.where(exact > 0, bounds.error / (bounds.least * exact), np.inf)
        return outwards(1.0 / high - more, 1.0 / low + more, rounding + more)
    numbers = by_node[x]
    assert numbers is not None
    return _product(numbers, outwards(0.0, 2.0 / bounds.least, np.inf))


def place(graph: Graph, k: int) -> str:
    """The name of a node in a message: its module and joint, which a user knows from the report, or
    its number in a graph without tags.
    """
    op, tag = graph.op[k], graph.tag[k]
    return f"node {k} ({op})" if tag is None else f"{op} in module {tag} (joint {tag.joint + 1})"


def _exponent(graph: Graph, k: int, x: Interval) -> Interval:
    if not np.all(x.least > 0):
        low, high, _ = x.hull
        raise CompileError(
            f"{place(graph, k)}: the range {low:.3g} to {high:.3g} of what divides contains 0, so "
            "that the quotient has no bounds; wanted narrower ranges of inputs, format='fitted', "
            "or the divisor's bounds, stated with scalar.within(x, low, high) in the algorithm"
        )
    least, most = (np.frexp(y)[1] - 1.0 for y in (x.least, x.largest))
    return Interval(least, most, np.inf)


def _square(x: Interval) -> Interval:
    error = (2 * x.largest + x.error) * x.error
    bounds = outwards(x.least**2, x.largest**2, error)
    return bounds._replace(low=np.maximum(bounds.low, 0.0))


def _product(a: Interval, b: Interval) -> Interval:
    corners = a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high
    low = np.minimum(np.minimum(corners[0], corners[1]), np.minimum(corners[2], corners[3]))
    high = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
    return outwards(low, high, a.largest * b.error + (b.largest + b.error) * a.error)


def _reciprocal(one: Interval, m: Interval) -> Interval:
    """Bounds of 1 / m for 1 <= |m| <= 2."""
    return Interval(np.where(m.low > 0, 0.5, -1.0), np.where(m.high < 0, -0.5, 1.0), np.inf)


def _cosine(x: Interval) -> Interval:
    """Bounds of cos x: 1 at even multiples of pi, -1 at odd ones, else its values at the ends."""

    def has(phase: float) -> Array:
        low, high = ((end - phase) / (2 * np.pi) for end in x[:2])
        return np.ceil(low - 1e-9) <= np.floor(high + 1e-9)

    ends = np.cos(x.low), np.cos(x.high)
    low = np.where(has(np.pi), -1.0, np.minimum(*ends) - 1e-15)
    high = np.where(has(0.0), 1.0, np.maximum(*ends) + 1e-15)
    return Interval(np.maximum(low, -1.0), np.minimum(high, 1.0), x.error)


def _sine(x: Interval) -> Interval:
    return _cosine(outwards(x.low - np.pi / 2, x.high - np.pi / 2, x.error))


def _select(a: Interval, b: Interval) -> Interval:
    """Bounds of a selected operand: rounding may change which one is selected."""
    low, high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)
    return Interval(low, high, np.maximum(a.error, b.error) + (high - low))


RULES: dict[str, Callable[..., Interval]] = {
    "neg": lambda a: Interval(-a.high, -a.low, a.error),
    "abs": lambda a: Interval(a.least, a.largest, a.error),
    "add": lambda a, b: outwards(a.low + b.low, a.high + b.high, a.error + b.error),
    "sub": lambda a, b: outwards(a.low - b.high, a.high - b.low, a.error + b.error),
    "mul": _product,
    "div": _reciprocal,
    "sin": _sine,
    "cos": _cosine,
    "select": _select,
}
