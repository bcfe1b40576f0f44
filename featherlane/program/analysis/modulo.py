"""Modulo scheduling: pipelines of graphs at a chosen interval, on as few units as that takes.

A graph has no loops, so that a list scheduler that counts units by phase always ends: in each cycle
the units take those operations that are ready and whose results are wanted first (Rau, Iterative
modulo scheduling, 1994, without its backtracking). It runs forward and backward in turn, each run
in the order of the other's times (Li and Willis, An iterative scheduling technique, 1992), from
several first orders, and the best pipeline is kept.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import ceil, inf

from featherlane.program.analysis.modules import classes, modules_of
from featherlane.program.analysis.pipeline import ROUNDING, Operator, Pipeline
from featherlane.program.analysis.pipeline_tasks import (
    Key,
    LateOperand,
    TaskGraph,
    collect,
    ends_of,
    pipeline_of,
)
from featherlane.program.graph import Graph
from featherlane.program.passes.outline import outline

ROUNDS = 4  # forward and backward from each first order
ORDERS = 3  # first orders at least: by the latest time, and this with more and more noise
RUNS = 2 * ROUNDS * ORDERS
TASKS = 1000  # so many in all orders together: small graphs get more orders
NOISE = 0.1  # of the longest path, more with each order
MOST = 5  # times the noise
NEAR = 3.0  # cycles by which a path is shorter than the longest one, and still counts as one
HELD = 0.4  # the share of tasks that wait
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
    ports: Sequence[Collection[str]] = (),
    runs: int | None = None,
    left: Mapping[str, int] | None = None,
    scarce: Collection[str] = (),
) -> Pipeline:
    """Returns the pipeline of a graph of which all nodes are live.

    operators: of each node, None for inputs, constants and wires. clock: nanoseconds a cycle. pool:
    of each node, by default one for all. arrival: the cycles of inputs by name, 0 for others.
    spare: shares by which the units of each pool and kind may be more than needed where that
    shortens the pipeline, the smallest first; scarce: kinds of which there are no more than needed.
    ports: names of outputs that are read together, each port as soon as it is there; without ports
    all outputs are read in the last cycle. runs: schedules that are tried at most, for an answer in
    a hurry. left: of outputs by name, the cycles that are left behind them until all is done
    elsewhere, as `remaining` gives them. Of all pipelines found it is the one of the lowest latency
    (with what is left; with ports, but without it: in which no port is later, by so many cycles,
    than it would be alone with units enough), then of the fewest units, then of the fewest
    registers. Raises ValueError for an operator that takes longer than a cycle.
    """
    if not spare:
        raise ValueError("spare is empty: wanted a share, such as 0")
    pool = whole(graph) if pool is None else pool
    places = collect(graph, operators, pool, arrival or {})
    _check_operators(operators, clock, interval)
    if left is not None:
        places = _earlier(graph, places, left)
    alone = _timed(places, clock, interval, None, _late(places, clock))[0]
    if left is None:
        places = _with_ports(graph, places, alone, ports)
    shortest = _latency(places, alone)
    best: Pipeline | None = None
    least: tuple[int, ...] | None = None
    for share in spare:
        counts = _counts(places, interval, share, scarce)
        for n, start in enumerate(_starts(places, clock, interval, counts)):
            if n == runs or (n >= RUNS and least is not None and least[0] == shortest):
                break
            latency = _latency(places, start)
            if least is None or latency <= least[0]:
                found = pipeline_of(graph, operators, pool, clock, interval, places, start, ports)
                rank = (latency, *_rank(found))
                if least is None or rank < least:
                    best, least = found, rank
        if least is not None and least[0] == shortest:
            break
    assert best is not None, "spare has a share"
    return best


def _with_ports(
    graph: Graph, places: TaskGraph, alone: Sequence[int], ports: Sequence[Collection[str]]
) -> TaskGraph:
    """Returns the tasks with what is added to the ends of each port: the cycles by which it is
    earlier than the last port, where tasks start as they do `alone`, with units enough.
    """
    if not ports:
        return places
    ready = [_ready(graph, places, alone, port) for port in ports]
    early = {name: max(ready) - x for port, x in zip(ports, ready, strict=True) for name in port}
    return _earlier(graph, places, early)


def _earlier(graph: Graph, places: TaskGraph, early: Mapping[str, int]) -> TaskGraph:
    """Returns the tasks with what is added to the ends of outputs, by their names."""
    after = [0] * len(places.work)
    for name, cycles in early.items():
        for t in ends_of(graph, places, [name]):
            after[t] = max(after[t], cycles)
    return replace(places, after=after)


def _ready(graph: Graph, places: TaskGraph, start: Sequence[int], port: Collection[str]) -> int:
    """The cycle in which some outputs are there."""
    own = ends_of(graph, places, port)
    return max((start[t] + places.work[t].cycles for t in own), default=0)


def earliness(
    graph: Graph, operators: Sequence[Operator | None], clock: float
) -> dict[str, int]:  # fmt: skip
    """Returns by how many cycles each output is there before the last one, where units are not
    counted.
    """
    places, start = _alone(graph, operators, clock)
    ready = {name: _ready(graph, places, start, [name]) for name in graph.outputs}
    return {name: max(ready.values()) - cycle for name, cycle in ready.items()}


def remaining(
    graph: Graph, operators: Sequence[Operator | None], clock: float, left: Mapping[str, int]
) -> dict[str, int]:  # fmt: skip
    """Returns the cycles from each input, by name, until all is done, where units are not counted.
    left: of outputs by name, the cycles behind them.
    """
    places = _earlier(graph, collect(graph, operators, whole(graph), {}), left)
    late = _late(places, clock)
    found: dict[str, int] = {}
    for k in graph.nodes_of("input"):
        name = graph.value[k][0]
        found[name] = max(found.get(name, 0), ceil(-late[places.of_node[k]]))
    return found


def waiting_followers(
    graph: Graph,
    operators: Sequence[Operator | None],
    clock: float,
    latency: int,
    early: Mapping[str, int],
) -> tuple[int, list[int]]:
    """Returns the latency of a graph where units are not counted, and the nodes that follow an
    operand (`Operator.follows`) and wait for another one on paths that are longer than `latency`:
    of these the ones on the longest paths. early: the cycles by which outputs are wanted before
    `latency`, as `earliness` gives them.
    """
    places = _earlier(graph, collect(graph, operators, whole(graph), {}), early)
    late = _late(places, clock)
    start, _ = _timed(places, clock, 1, None, late)
    ready = [s + work.cycles for s, work in zip(start, places.work, strict=True)]
    found = dict[int, float]()
    for k, own in enumerate(operators):
        if own is not None and own.follows >= 0:
            t = places.of_node[k]
            length = start[t] - late[t]
            if length > latency and start[t] > max(ready[a] for a in places.needs[t]):
                found[k] = length
    longest = max(found.values(), default=0.0)
    return _latency(places, start), [k for k, x in found.items() if x > longest - NEAR]


def _counts(places: TaskGraph, interval: int, spare: float, scarce: Collection[str]) -> Counts:
    """Returns the units of each pool and kind: as many as its operations need, and a share more,
    one at least, of what is not scarce.
    """
    found: dict[Key, int] = {}
    for (pool, kind), n in places.keys().items():
        units = -(-n // interval)
        more = 0 if kind in scarce else ceil(spare * units)
        found[pool, kind] = min(units + more, n)
    return found


def _rank(pipeline: Pipeline) -> tuple[int, int, int]:
    return sum(pipeline.taken.values()), pipeline.units.total(), sum(pipeline.registers)


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


def _latency(places: TaskGraph, start: Sequence[int]) -> int:
    after = places.after or [0] * len(start)
    return max((start[t] + places.work[t].cycles + after[t] for t in places.ends), default=0)


def _starts(places: TaskGraph, clock: float, interval: int, counts: Counts) -> Iterator[list[int]]:
    """Yields the starts of each run, forward and backward."""
    mirror, late = places.mirrored(), _late(places, clock)
    start = _timed(places, clock, interval, None, late)[0]
    spread = NOISE * (max(late, default=0.0) - min(late, default=0.0))
    noise = random.Random(0)
    for n in range(max(ORDERS, TASKS // (len(late) + 1))):
        order = [x - min(n, MOST) * spread * noise.random() for x in late]
        for turn in range(ROUNDS):
            by_order = turn % 2 != n % 2
            held = _held(places, start, interval, noise) if n >= ORDERS else places
            start = _timed(held, clock, interval, counts, order, by_order)[0]
            yield start
            order = [-(s + work.cycles) for s, work in zip(start, places.work, strict=True)]
            back = _timed(mirror, clock, interval, counts, order[::-1], by_order)[0]
            start = _turned(places, back)
            yield start
            order = [float(s) for s in start]


def _held(
    places: TaskGraph, start: Sequence[int], interval: int, noise: random.Random
) -> TaskGraph:
    """Returns the tasks of which some shared ones wait longer than they have to, at random: in
    small graphs the best schedule may leave a phase to a later task.
    """
    waits = [work.key is not None and noise.random() < HELD for work in places.work]
    first = [
        start[t] + noise.randrange(interval) if wait else places.first[t]
        for t, wait in enumerate(waits)
    ]
    return replace(places, first=first)


def _turned(places: TaskGraph, back: Sequence[int]) -> list[int]:
    """Returns the starts of the tasks from those of mirrored ones."""
    n = len(back)
    ends = [back[n - 1 - t] + work.cycles for t, work in enumerate(places.work)]
    inputs = [t for t, needs in enumerate(places.needs) if not needs]
    length = max((ends[t] + places.first[t] for t in inputs), default=0)
    start = [length - end for end in ends]
    for t in inputs:
        start[t] = places.first[t]
    return start


def _late(places: TaskGraph, clock: float) -> list[float]:
    """Returns for each task the latest time, in cycles, at which it starts where units are not
    counted.
    """
    mirror, n = places.mirrored(), len(places.work)
    start, arrival = _timed(mirror, clock, 1, None, list(range(n)))
    ends = [
        s + work.cycles + a / clock for s, work, a in zip(start, mirror.work, arrival, strict=True)
    ]
    return [-end for end in reversed(ends)]


def _timed(
    places: TaskGraph,
    clock: float,
    interval: int,
    counts: Counts | None,
    order: Sequence[float],
    by_order: bool = False,
) -> tuple[list[int], list[float]]:
    """Returns the start of each task, and the nanoseconds into its last cycle at which its result
    is there.

    Of tasks that want a unit in one cycle, the lowest in `order` come first; by_order: tasks take
    units in this order throughout, so that a task whose turn comes early finds the phase that it
    wants. Without counts each task has its own unit.
    """
    work, needs, readers, late = places.work, places.needs, places.readers, places.late
    start, ready, arrival = list(places.first), [0] * len(work), [0.0] * len(work)
    waits = [len(own) + len(late.get(t, ())) for t, own in enumerate(needs)]
    free = {key: [n] * interval for key, n in counts.items()} if counts is not None else {}
    limit = clock * (1 + ROUNDING)
    coming: list[tuple[float, float, int, int]] = []

    def offer(t: int, cycle: int) -> None:
        heappush(coming, (0 if by_order else cycle, order[t], t, cycle))

    for t, n in enumerate(waits):
        if not n:
            offer(t, places.first[t])
    while coming:
        _, _, t, cycle = heappop(coming)
        cycles, before, after, key = work[t]
        begin = max((arrival[a] for a in needs[t] if ready[a] == cycle), default=0.0)
        if t in late:
            begin = max(begin, _begin_late(late[t], cycle, ready, arrival, limit))
        if begin + (before if cycles else after) > limit:
            offer(t, cycle + 1)
            continue
        if key is not None and free:
            phases = free[key]
            if not phases[cycle % interval]:
                later = cycle + 1
                while not phases[later % interval]:
                    later += 1
                offer(t, later)
                continue
            phases[cycle % interval] -= 1
        start[t], ready[t] = cycle, cycle + cycles
        arrival[t] = after if cycles else begin + after
        for reader in readers[t]:
            waits[reader] -= 1
            if not waits[reader]:
                edges = late.get(reader, ())
                there = [ready[a] for a in needs[reader]] + [
                    ready[e.task] - e.cycles for e in edges
                ]
                offer(reader, max(places.first[reader], *there))
    return start, arrival


def shortest_latency(graph: Graph, operators: Sequence[Operator | None], clock: float) -> int:
    """Returns the latency of a graph with a unit for each operation. Arguments are those of
    `pipelined`.
    """
    _check_operators(operators, clock, 1)
    return _latency(*_alone(graph, operators, clock))


def _alone(
    graph: Graph, operators: Sequence[Operator | None], clock: float
) -> tuple[TaskGraph, list[int]]:  # fmt: skip
    """Returns the tasks of a graph and their starts, with a unit for each operation."""
    places = collect(graph, operators, whole(graph), {})
    return places, _timed(places, clock, 1, None, _late(places, clock))[0]


def _begin_late(
    edges: Sequence[LateOperand],
    cycle: int,
    ready: Sequence[int],
    arrival: Sequence[float],
    limit: float,
) -> float:
    """Returns the nanoseconds into its cycle from which a task may begin, by what it reads later,
    or what (in reversed time) reads it later; infinite if what it reads is not there in time.
    """
    begin = 0.0
    for edge in edges:
        if ready[edge.task] - edge.cycles == cycle:
            if edge.turned:
                begin = max(begin, edge.before)
            elif arrival[edge.task] + edge.before > limit:
                return inf
    return begin
