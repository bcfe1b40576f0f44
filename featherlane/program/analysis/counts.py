"""Operations by kind, of graphs and of programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from featherlane.program.graph import Graph
from featherlane.program.op import OPS
from featherlane.program.program import Program

SLOTS = ("add", "mul", "fma", "div", "sqrt")  # the kinds of operation that take a slot
Kinds = Counter[str]  # operations by kind


def of_graph(graph: Graph) -> Kinds:
    """The operations of a graph whose nodes are all needed."""
    return Counter(OPS[op].kind for op in graph.op)


def of_program(program: Program) -> Kinds:
    """The operations of a program: functions count as often as they are called."""
    total = of_graph(program.main)
    for function, count in zip(program.functions, program.times(), strict=True):
        total += times(of_graph(function.graph), count)
    return total


def times(kinds: Kinds, count: int) -> Kinds:
    return Counter({kind: count * n for kind, n in kinds.items()})


def slots(kinds: Mapping[str, int]) -> int:
    """Arithmetic instructions: each addition, multiplication, fused multiply-add, division and
    square root is one.
    """
    return sum(kinds.get(kind, 0) for kind in SLOTS)
