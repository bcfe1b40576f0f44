"""Pipelines: when each operation of a graph runs, on which unit, and how long its result waits.

A new state enters every `interval` cycles and meets the same schedule; the phase of a cycle is its
remainder by the interval. What an operation takes comes from outside, as an `Operator` for each
node. A pipeline does not depend on the method that found it, and checks itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from featherlane.program.graph import Graph


class Operator(NamedTuple):
    """What computes a node.

    kind: operations of one kind can share a unit. cycles: registers between operands and result; 0
    for a circuit without any, which may follow another one in the same cycle. before, after:
    nanoseconds in front of the first register and behind the last one; without registers, all of
    them count as `after`. shared: whether a unit serves several operations, one in each phase; else
    each has its own.
    """

    kind: str
    cycles: int = 0
    before: float = 0.0
    after: float = 0.0
    shared: bool = False


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The schedule of a graph.

    operators: of each node, None for inputs, constants and what is only wires. clock: nanoseconds a
    cycle. interval: cycles from one state to the next. start: the cycle in which each node reads
    its operands (that of its only operand where it is only wires; when the input is there; 0 for
    constants). pool: operations share units with those of the same pool and kind. unit: the number
    of a node's unit in its pool and kind; -1 for operations that do not share. latency: the cycle
    in which all outputs are read, together.

    The result of a node is there in cycle start + cycles. A later cycle reads it from a register:
    register 0 holds it for the `interval` cycles after that, register 1 for the `interval` next
    ones, and so on.
    """

    graph: Graph
    operators: tuple[Operator | None, ...]
    clock: float
    interval: int
    start: tuple[int, ...]
    pool: tuple[Hashable, ...]
    unit: tuple[int, ...]
    latency: int

    def ready(self, k: int) -> int:
        """The cycle in which the result of node k is there."""
        operator = self.operators[k]
        return self.start[k] + (operator.cycles if operator else 0)

    def register(self, k: int, cycle: int) -> int:
        """The register from which a cycle reads the result of node k; -1: its wire."""
        return (cycle - self.ready(k) - 1) // self.interval if cycle > self.ready(k) else -1
