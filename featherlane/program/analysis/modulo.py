"""Modulo scheduling: pipelines of graphs at a chosen interval, on as few units as that takes.

A graph has no loops, so that a list scheduler that counts units by phase always ends: in each cycle
the units take those operations that are ready and whose results are wanted first (Rau, Iterative
modulo scheduling, 1994, without its backtracking). It runs forward and backward in turn, each run
in the order of the other's times (Li and Willis, An iterative scheduling technique, 1992), from
several first orders, and the best pipeline is kept.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import ceil

from featherlane.program.analysis.modules import classes, modules_of
from featherlane.program.analysis.pipeline import ROUNDING, Operator, Pipeline
from featherlane.program.analysis.pipeline_tasks import Key, Places, collect, pipeline_of
from featherlane.program.graph import Graph
from featherlane.program.passes.outline import outline

ROUNDS = 4  # forward and backward from each first order
ORDERS = 3  # first orders: by the latest time, and this with noise
NOISE = 0.1  # of the longest path
Counts = Mapping[Key, int]


def by_call(graph: Graph) -> list[Hashable]:
    """Returns the pool of each node: one for each call of the algorithm, by its number."""
    return [getattr(tag, "call", 0) for tag in graph.tag]


def by_class(graph: Graph) -> list[Hashable]:
    """Returns the pool of each node: one for each class of modules (`analysis.modules`), by the
    number of the first call of the class. Raises CompileError as `outline` does.
    """
    first: dict[Hashable, int] = {}
    for own in classes(modules_of(outline(graph))):
        for module in own.members:
            first[module.tag.call] = own.members[0].tag.call
    return [first.get(call, 0) for call in by_call(graph)]


def whole(graph: Graph) -> list[Hashable]:
    """Returns the pool of each node: one for all."""
    return [0] * len(graph)


def pipelined(
    graph: Graph,
    operators: Sequence[Operator | None],
    clock: float,
    interval: int,
    pool: Sequence[Hashable] | None = None,
    arrival: Mapping[str, int] | None = None,
    spare: Sequence[float] = (0.0,),
) -> Pipeline:
    """Returns the pipeline of a graph of which all nodes are live.

    operators: of each node, None for inputs, constants and wires. clock: nanoseconds a cycle. pool:
    of each node, by default one for all. arrival: the cycles of inputs by name, 0 for others.
    spare: shares by which the units of each pool and kind may be more than needed where that
    shortens the pipeline, the smallest first. Of all pipelines found it is the one of the lowest
    latency, then of the fewest units, then of the fewest registers. Raises ValueError for an
    operator that takes longer than a cycle.
    """
    pool = whole(graph) if pool is None else pool
    places = collect(graph, operators, pool, arrival or {})
    _check_operators(operators, clock, interval)
    best: Pipeline | None = None
    shortest = _latency(places, _listed(places, clock, interval, None, _late(places, clock)))
    operations = places.keys()
    for share in spare:
        counts = {key: -(-n // interval) for key, n in operations.items()}
        counts = {key: min(n + ceil(share * n), operations[key]) for key, n in counts.items()}
        for start in _starts(places, clock, interval, counts):
            found = pipeline_of(graph, operators, pool, clock, interval, places, start)
            if best is None or _rank(found) < _rank(best):
                best = found
        if best is not None and best.latency == shortest:
            break
    assert best is not None, "the first order gives a pipeline"
    return best


def _rank(pipeline: Pipeline) -> tuple[int, int, int]:
    return pipeline.latency, pipeline.units.total(), sum(pipeline.registers)


def _check_operators(operators: Sequence[Operator | None], clock: float, interval: int) -> None:
    if interval < 1:
        raise ValueError(f"interval is {interval}: wanted 1 or more cycles")
    for operator in set(operators) - {None}:
        assert operator is not None
        longest = max(operator.before, operator.after)
        if not operator.cycles:
            longest = operator.before + operator.after
        if longest > clock * (1 + ROUNDING):
            raise ValueError(
                f"operator {operator.kind} takes {longest:g} ns between registers: a cycle has "
                f"{clock:g} ns"
            )


def _latency(places: Places, start: Sequence[int]) -> int:
    return max((start[t] + places.work[t].cycles for t in places.ends), default=0)


def _starts(places: Places, clock: float, interval: int, counts: Counts) -> Iterator[list[int]]:
    """Yields the starts of each run, forward and backward."""
    mirror, late = places.mirrored(), _late(places, clock)
    spread = NOISE * (max(late, default=0.0) - min(late, default=0.0))
    noise = random.Random(0)
    for n in range(ORDERS):
        order = [x - n * spread * noise.random() for x in late]
        for _ in range(ROUNDS):
            start = _listed(places, clock, interval, counts, order)
            yield start
            order = [-(s + work.cycles) for s, work in zip(start, places.work, strict=True)]
            back = _listed(mirror, clock, interval, counts, order[::-1])
            start = _turned(places, back)
            yield start
            order = [float(s) for s in start]


def _turned(places: Places, back: Sequence[int]) -> list[int]:
    """Returns the starts of the tasks from those of mirrored ones."""
    n = len(back)
    ends = [back[n - 1 - t] + work.cycles for t, work in enumerate(places.work)]
    inputs = [t for t, needs in enumerate(places.needs) if not needs]
    length = max((ends[t] + places.first[t] for t in inputs), default=0)
    start = [length - end for end in ends]
    for t in inputs:
        start[t] = places.first[t]
    return start


def _late(places: Places, clock: float) -> list[float]:
    """Returns for each task the latest time, in cycles, at which it starts where units are not
    counted.
    """
    mirror, n = places.mirrored(), len(places.work)
    start, arrival = _timed(mirror, clock, 1, None, list(range(n)))
    ends = [
        s + work.cycles + a / clock for s, work, a in zip(start, mirror.work, arrival, strict=True)
    ]
    return [-end for end in reversed(ends)]


def _listed(
    places: Places, clock: float, interval: int, counts: Counts | None, order: Sequence[float]
) -> list[int]:
    return _timed(places, clock, interval, counts, order)[0]


def _timed(
    places: Places, clock: float, interval: int, counts: Counts | None, order: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Returns the start of each task, and the nanoseconds into its last cycle at which its result
    is there. Of tasks that want a unit in one cycle, the lowest in `order` come first. Without
    counts each task has its own unit.
    """
    work, needs, readers = places.work, places.needs, places.readers
    start, ready, arrival = list(places.first), [0] * len(work), [0.0] * len(work)
    waits = [len(own) for own in needs]
    free = {key: [n] * interval for key, n in counts.items()} if counts is not None else {}
    limit = clock * (1 + ROUNDING)
    coming = [(places.first[t], order[t], t) for t, n in enumerate(waits) if not n]
    heapify(coming)
    while coming:
        cycle, rank, t = heappop(coming)
        cycles, before, after, key = work[t]
        begin = max((arrival[a] for a in needs[t] if ready[a] == cycle), default=0.0)
        if begin + (before if cycles else after) > limit:
            heappush(coming, (cycle + 1, rank, t))
            continue
        if key is not None and free:
            phases = free[key]
            if not phases[cycle % interval]:
                later = cycle + 1
                while not phases[later % interval]:
                    later += 1
                heappush(coming, (later, rank, t))
                continue
            phases[cycle % interval] -= 1
        start[t], ready[t] = cycle, cycle + cycles
        arrival[t] = after if cycles else begin + after
        for reader in readers[t]:
            waits[reader] -= 1
            if not waits[reader]:
                first = max(ready[a] for a in needs[reader])
                heappush(coming, (first, order[reader], reader))
    return start, arrival
