"""Divisions as products with reciprocals of normalised numbers, which a small circuit computes.

1 / b = 2^-e / (b 2^-e), where e is the exponent of b: the circuit for 1 / m gets only numbers
1 <= |m| < 2, and two shifts do the rest. Equal divisors share one reciprocal.
"""

from __future__ import annotations

from featherlane.program.graph import Graph
from featherlane.program.rewrite import rewrite


def normalised(graph: Graph) -> Graph:
    """Returns a graph whose only divisions are reciprocals of numbers from 1 to 2 in magnitude."""
    return rewrite(graph, {"div": _divided})


def _divided(new: Graph, a: int, b: int) -> int:
    if (divisor := new.number(b)) is not None and divisor != 0.0:
        return new.mul(a, new.constant(1.0 / divisor))
    one = new.constant(1.0)
    scale = new.power_of_two(new.neg(new.exponent(b)))
    return new.mul(a, new.mul(scale, new.div(one, new.mul(b, scale))))
