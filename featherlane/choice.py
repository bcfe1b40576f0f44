"""What a call is expected to cost, and what is chosen by that: threads, lanes, tiles of a round.

    seconds = START + vectors (slots SLOT + lanes bytes BYTE) / threads + (threads - 1) HAND_OVER

for so many vectors of states, with the arithmetic instructions and the bytes of inputs and outputs
of one state. The constants were fitted once, by `benchmarks/choices.py --calibrate`, on an AMD EPYC
of the third generation with 256-bit vectors; docs/choices.md has how well they fit. Nothing is
measured where a user calls. On another processor all of them are wrong by about the same factor,
and only their ratios choose.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from featherlane.graph.graph import Graph
from featherlane.graph.op import OPS
from featherlane.graph.routine import Program

SLOTS = ("add", "mul", "fma", "div", "sqrt")  # the kinds of operation that take a slot
Kinds = Counter[str]  # operations by kind

SLOT = 0.29e-9  # s for an arithmetic instruction on a vector, with what is stored and loaded for it
BYTE = 0.030e-9  # s for a byte read or written, turned from rows to lanes or back
START = 0.25e-6  # s of a call of machine code
HAND_OVER = 130e-6  # s for each thread besides the first, until it runs and is waited for


def of_graph(graph: Graph) -> Kinds:
    """The operations of a graph whose nodes are all needed."""
    return Counter(OPS[op].kind for op in graph.op)


def of_program(program: Program) -> Kinds:
    """The operations of a program: routines count as often as they are called."""
    total = of_graph(program.main)
    for k, routine in enumerate(program.routines):
        total += times(of_graph(routine), program.calls(k))
    return total


def times(kinds: Kinds, count: int) -> Kinds:
    return Counter({kind: count * n for kind, n in kinds.items()})


def slots(kinds: Mapping[str, int]) -> int:
    """Arithmetic instructions: each addition, multiplication, fused multiply-add, division and
    square root is one.
    """
    return sum(kinds.get(kind, 0) for kind in SLOTS)


class Load(NamedTuple):
    """What a function asks of the machine. slots: arithmetic instructions of one state; moved:
    bytes of its inputs and outputs; width: states in a vector.
    """

    slots: int
    moved: int
    width: int

    @property
    def vector(self) -> float:
        """Seconds for the states of a vector, be it full or not."""
        return self.slots * SLOT + self.width * self.moved * BYTE

    def work(self, states: int) -> float:
        """Seconds of one thread for so many states."""
        return -(-states // self.width) * self.vector

    def seconds(self, states: int, threads: int = 1) -> float:
        """Of a call, as expected."""
        part = -(-states // threads)
        return START + self.work(part) + (threads - 1) * HAND_OVER

    def threads(self, states: int, cores: int) -> int:
        """As many as pay: one more saves work / n - work / (n + 1) and costs a hand-over."""
        if states <= self.alone():
            return 1
        most = math.floor(0.5 + math.sqrt(0.25 + self.work(states) / HAND_OVER))
        return max(min(most, cores, -(-states // self.width)), 1)

    def alone(self) -> int:
        """The most states for which one thread is expected to be the fastest."""
        vectors = math.ceil(2 * HAND_OVER / self.vector) - 1
        return max(vectors, 1) * self.width
