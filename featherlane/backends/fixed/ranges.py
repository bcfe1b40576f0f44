"""Interval arithmetic over a graph: bounds of each node for inputs within bounds.

Bounds are rounded outwards. Products of a node with itself are squares, sines and cosines know
their angle's interval, and a reciprocal made of mantissa and exponent (`passes.reciprocals`) has
the bounds of 1 / b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from featherlane.errors import CompileError
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS


class Interval(NamedTuple):
    """The numbers from low to high."""

    low: float
    high: float

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(-self.low, self.high)

    def __contains__(self, x: object) -> bool:
        return isinstance(x, int | float) and self.low <= x <= self.high


Bounds = Mapping[tuple[str, int], Interval]  # of entries of inputs, by name and position
Seen = Callable[[int, Interval], Interval]  # of a node: its bounds, changed by what rounds them


def outwards(low: float, high: float) -> Interval:
    """The interval of bounds that were rounded once each; a bound of 0 was not rounded."""
    low = math.nextafter(low, -math.inf) if low else 0.0
    return Interval(low, math.nextafter(high, math.inf) if high else 0.0)


def intervals(graph: Graph, inputs: Bounds, seen: Seen = lambda k, x: x) -> list[Interval | None]:
    """Returns the bounds of each node; None for conditions and powers of two.

    seen: is told the bounds of each node in turn, and returns those that its users read. Raises
    CompileError for a division by what may be 0.
    """
    found: list[Interval | None] = []
    for k, op in enumerate(graph.op):
        if op in CONDITIONS or op == "power_of_two":
            found.append(None)
            continue
        found.append(seen(k, _bounds(graph, k, found, inputs)))
    return found


def _bounds(graph: Graph, k: int, found: list[Interval | None], inputs: Bounds) -> Interval:
    op, args, value = graph.op[k], graph.args[k], graph.value[k]
    if op == "input":
        return inputs[value]
    if op == "constant":
        return Interval(value, value)
    if op == "mul" and (pair := _with_power(graph, k)):
        return _scaled(graph, k, *pair, found)
    operands = [x for a in args if (x := found[a]) is not None]
    if op == "exponent":
        return _exponent(graph, k, operands[0])
    if op == "mul" and args[0] == args[1]:
        return _square(operands[0])
    return RULES[op](*operands)


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


def _scaled(graph: Graph, k: int, power: int, x: int, found: list[Interval | None]) -> Interval:
    b = normalised_by(graph, power)
    bounds = found[b] if b is not None else None
    if bounds is None or b is None:
        raise CompileError(f"{place(graph, k)}: bounds of powers of two are known in 1 / b only")
    if x == b:
        return Interval(1.0 if bounds.low > 0 else -2.0, -1.0 if bounds.high < 0 else 2.0)
    mantissa, numbers = graph.args[x][-1] if graph.op[x] == "div" else x, found[x]
    if mantissa_of(graph, mantissa) == b:
        # The circuit's 1 / m is within two last places of 16 bits or more
        low, high = sorted((1.0 / bounds.low, 1.0 / bounds.high))
        more = max(abs(low), abs(high)) * 2.0**-14
        return outwards(low - more, high + more)
    assert numbers is not None
    least = min(abs(bounds.low), abs(bounds.high))
    return _product(numbers, outwards(0.0, 2.0 / least))


def place(graph: Graph, k: int) -> str:
    """A node in a message."""
    tag = graph.tag[k]
    return f"node {k} ({graph.op[k]})" + ("" if tag is None else f" of {tag}")


def _exponent(graph: Graph, k: int, x: Interval) -> Interval:
    if 0.0 in x:
        raise CompileError(
            f"{place(graph, k)}: the range {x.low:.3g} to {x.high:.3g} of what divides contains 0, "
            "so that the quotient has no bounds; state the divisor's with scalar.within(x, low, "
            "high) in the algorithm, or choose format='fitted'"
        )
    least, most = sorted((abs(x.low), abs(x.high)))
    return Interval(math.frexp(least)[1] - 1, math.frexp(most)[1] - 1)


def _square(x: Interval) -> Interval:
    least = 0.0 if 0.0 in x else min(x.low * x.low, x.high * x.high)
    return Interval(max(math.nextafter(least, -1.0), 0.0), outwards(0.0, x.largest**2).high)


def _product(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in a for y in b]
    return outwards(min(corners), max(corners))


def _magnitude(x: Interval) -> Interval:
    return Interval(0.0 if 0.0 in x else min(abs(x.low), abs(x.high)), x.largest)


def _reciprocal(one: Interval, m: Interval) -> Interval:
    """Bounds of 1 / m for 1 <= |m| <= 2."""
    return Interval(0.5 if m.low > 0 else -1.0, -0.5 if m.high < 0 else 1.0)


def _cosine(x: Interval) -> Interval:
    """Bounds of cos x: its extrema are at multiples of pi."""
    first, last = math.ceil(x.low / math.pi - 1e-9), math.floor(x.high / math.pi + 1e-9)
    ends = math.cos(x.low), math.cos(x.high)
    at_extrema = {1.0 if n % 2 == 0 else -1.0 for n in range(first, min(last, first + 1) + 1)}
    low, high = min(*ends, *at_extrema), max(*ends, *at_extrema)
    return Interval(max(low - 1e-15, -1.0), min(high + 1e-15, 1.0))


def _sine(x: Interval) -> Interval:
    return _cosine(outwards(x.low - math.pi / 2, x.high - math.pi / 2))


RULES: dict[str, Callable[..., Interval]] = {
    "neg": lambda a: Interval(-a.high, -a.low),
    "abs": _magnitude,
    "add": lambda a, b: outwards(a.low + b.low, a.high + b.high),
    "sub": lambda a, b: outwards(a.low - b.high, a.high - b.low),
    "mul": _product,
    "div": _reciprocal,
    "sin": _sine,
    "cos": _cosine,
    "select": lambda a, b: Interval(min(a.low, b.low), max(a.high, b.high)),
}
