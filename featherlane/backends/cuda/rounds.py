"""The calls of a program in the order in which the threads of a block go through them, and where
their results lie.

Calls of one function that do not wait for each other are a segment: the threads compute them side
by side. Segments that read nothing of each other are a round, and threads wait for each other
between two rounds only. Memory is rows of 32 numbers, which hold one entry of the results of
neighbouring calls beside each other, for all states of the block; so the entries of a call are
always 32 numbers apart. Places are used again when nobody reads them any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cuda.ptx import WARP
from featherlane.errors import CompileError
from featherlane.program.call_list import CallList, FunctionCalls
from featherlane.program.graph import Graph
from featherlane.program.lower import lower
from featherlane.program.program import Program

ROW = WARP  # numbers of a row of memory
THREADS = 256  # of a block at most, so that each can have 255 registers
OVERHEAD = 40  # operations that as long as it takes to find a segment and its operands


class BlockShape(NamedTuple):
    """The shape of a launch: states and threads of a block, and blocks for the same states."""

    states: int
    threads: int
    blocks: int = 1

    @property
    def lanes(self) -> int:
        """Calls side by side."""
        return self.threads // self.states * self.blocks


def checked(shape: BlockShape) -> BlockShape:
    """Raises CompileError for a shape that no kernel has."""
    states, threads, blocks = shape
    powers = all(n > 0 and n & (n - 1) == 0 for n in (states, threads))
    if not powers or states > WARP or not WARP <= threads <= THREADS:
        raise CompileError(
            f"a block has {states} states and {threads} threads: wanted powers of two, at most "
            f"{WARP} states, {WARP} to {THREADS} threads"
        )
    if blocks < 1:
        raise CompileError(f"{blocks} blocks for {states} states: wanted 1 or more")
    return shape


class Segment(NamedTuple):
    """Calls of one function that threads compute side by side."""

    function: int
    calls: Sequence[int]


Round = list[Segment]


def in_order(calls: CallList) -> list[Round]:
    """One call after another, where each thread computes all calls of one state: short-lived values
    are read when they have just been written.
    """
    return [[Segment(f, [c])] for f, c in calls.order.tolist()]


class _Waiting:
    """Which calls wait for which, in numbers of the program's order."""

    def __init__(self, calls: CallList) -> None:
        maker = np.full(calls.size, -1)
        order = calls.order.tolist()
        for n, (f, c) in enumerate(order):
            maker[calls.functions[f].results[c]] = n
        self.before: list[list[int]] = []
        self.after: list[list[int]] = [[] for _ in order]
        for n, (f, c) in enumerate(order):
            before = np.unique(maker[calls.functions[f].operands[c]])
            self.before.append(before[before >= 0].tolist())
            for b in self.before[n]:
                self.after[b].append(n)

    def urgency(self, costs: Sequence[int]) -> list[int]:
        """The cost of the longest path from the beginning of each call to the end of the program.
        costs: of each call.
        """
        urgencies = [0] * len(costs)
        for n in reversed(range(len(costs))):
            urgencies[n] = costs[n] + max((urgencies[a] for a in self.after[n]), default=0)
        return urgencies


def side_by_side(calls: CallList, costs: Sequence[int], lanes: int) -> list[Round]:
    """Rounds for so many lanes. The function of the most urgent call comes first, with all others
    of it that can run, so that what is not urgent waits until more of it can run together. costs:
    operations of each function.
    """
    order = calls.order.tolist()
    waiting = _Waiting(calls)
    urgency = waiting.urgency([costs[f] + OVERHEAD for f, _ in order])
    missing = [len(before) for before in waiting.before]
    ready: list[list[tuple[int, int]]] = [[] for _ in calls.functions]

    def may_run(n: int) -> None:
        heappush(ready[order[n][0]], (-urgency[n], n))

    for n, count in enumerate(missing):
        if not count:
            may_run(n)
    rounds: list[Round] = []
    made_in = [-1] * len(order)  # the round of each call
    for f in _most_urgent(ready):
        count = len(ready[f])
        full = count - count % lanes if count > lanes else count
        chosen = sorted(heappop(ready[f])[1] for _ in range(full))
        last = len(rounds) - 1
        if not rounds or any(made_in[b] == last for n in chosen for b in waiting.before[n]):
            rounds.append([])
        rounds[-1].append(Segment(f, [order[n][1] for n in chosen]))
        for n in chosen:
            made_in[n] = len(rounds) - 1
            for a in waiting.after[n]:
                missing[a] -= 1
                if not missing[a]:
                    may_run(a)
    return rounds


def _most_urgent(ready: list[list[tuple[int, int]]]) -> Iterator[int]:
    """Functions with calls that can run, that of the most urgent one each time."""
    while heads := [(waiting[0][0], f) for f, waiting in enumerate(ready) if waiting]:
        yield min(heads)[1]


def cost(rounds: Sequence[Round], costs: Sequence[int], lanes: int) -> int:
    """Operations that a thread computes one after another, with what finding them costs."""
    segments = (x for segments_of_round in rounds for x in segments_of_round)
    return sum(-(-len(x.calls) // lanes) * (costs[x.function] + OVERHEAD) for x in segments)


class _Places:
    """Memory of calls with a number of results: so many rows hold them for `beside` calls."""

    def __init__(self, states: int) -> None:
        self.beside, self.states = ROW // states, states
        self.rows = 0
        self._free: dict[int, list[int]] = {}  # by the number of results: numbers of the first one

    def take_rows(self, count: int) -> int:
        """The first number of new rows."""
        self.rows += count
        return (self.rows - count) * ROW

    def take(self, results: int) -> int:
        """The number where the first result of a call goes: the lowest that is free."""
        free = self._free.setdefault(results, [])
        if not free:
            first = self.take_rows(results)
            for k in range(self.beside):
                heappush(free, first + k * self.states)
        return heappop(free)

    def release(self, at: int, results: int) -> None:
        heappush(self._free[results], at)


class Memory(NamedTuple):
    """numbers: where each node of the main graph lies. Inputs lie at the beginning, entry by entry,
    then constants that are results: `known`, of which `constants` says by their bits where. size:
    of all, in numbers, for all states of a block.
    """

    numbers: np.ndarray
    known: list[float]
    constants: dict[bytes, int]
    size: int

    def of(self, x: int | float) -> int:
        """The number at which a result lies: a node, or a constant."""
        return int(self.numbers[x]) if isinstance(x, int) else self.constants[_bits(x)]


def _bits(x: float) -> bytes:
    """The bits of a number, in which 0.0 and -0.0 differ."""
    return np.float64(x).tobytes()


def _last_rounds(calls: CallList, rounds: Sequence[Round]) -> np.ndarray:
    """The last round in which each node is read; behind all rounds for results."""
    last = np.full(calls.size, -1)
    for r, segments in enumerate(rounds):
        for f, members in segments:
            last[calls.functions[f].operands[members]] = r
    nodes = [x for _, flat in calls.outputs for x in flat if isinstance(x, int)]
    last[nodes] = len(rounds)
    return last


def memory(calls: CallList, rounds: Sequence[Round], states: int) -> Memory:
    """Places all values."""
    places, numbers = _Places(states), np.zeros(calls.size, np.int64)
    inputs = sum(math.prod(shape) for _, shape in calls.inputs)
    numbers[:inputs] = np.arange(inputs) * states
    wanted = (x for _, flat in calls.outputs for x in flat)
    known = {_bits(x): x for x in wanted if not isinstance(x, int)}
    constants = {bits: (inputs + k) * states for k, bits in enumerate(known)}
    places.take_rows(-(-(inputs + len(known)) * states // ROW))
    last = _last_rounds(calls, rounds)
    ending: dict[int, list[tuple[int, int]]] = {}
    for r, segments in enumerate(rounds):
        for f, members in segments:
            for c in members:
                nodes = calls.functions[f].results[c]
                at = places.take(len(nodes))
                numbers[nodes] = at + np.arange(len(nodes)) * ROW
                ending.setdefault(max(int(last[nodes].max()), r), []).append((at, len(nodes)))
        for at, results in ending.pop(r, ()):
            places.release(at, results)
    return Memory(numbers, [*known.values()], constants, places.rows * ROW)


class Records(NamedTuple):
    """Records of the calls of a function, in the order in which they run. bases: for each operand
    the word of a record from which its address is counted, and the distance. words: (words, calls):
    where results go, and the bases; constants: (constants, calls).
    """

    bases: list[tuple[int, int]]
    words: np.ndarray
    constants: np.ndarray


def records(function: FunctionCalls, order: Sequence[int], numbers: np.ndarray) -> Records:
    """The records of a function's calls. Reads that lie at one distance in all calls share a
    base.
    """
    at = numbers[function.operands[order]]
    groups: list[list[int]] = []  # the columns of each base
    for k in range(at.shape[1]):
        for group in groups:
            distance = at[:, k] - at[:, group[0]]
            if (distance == distance[0]).all():
                group.append(k)
                break
        else:
            groups.append([k])
    bases, words = [(0, 0)] * at.shape[1], [numbers[function.results[order][:, 0]]]
    for group in groups:
        first = min(group, key=lambda k: at[0, k])
        for k in group:
            bases[k] = len(words), int(at[0, k] - at[0, first])
        words.append(at[:, first])
    return Records(bases, np.array(words), function.constants[order].T)


def arithmetic(calls: CallList, dtype: Any) -> list[Graph]:
    """The graphs of all functions, lowered."""
    return [lower(Program(f.graph), "cuda", dtype).main for f in calls.functions]


def scheduled(calls: CallList, graphs: Sequence[Graph], shape: BlockShape) -> list[Round]:
    """The rounds of a program. graphs: of the functions, lowered."""
    if shape.lanes == 1:
        return in_order(calls)
    return side_by_side(calls, [*map(operations, graphs)], shape.lanes)


def operations(graph: Graph) -> int:
    """The instructions of a lowered graph."""
    return sum(map(bool, graph.args))
