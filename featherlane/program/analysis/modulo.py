"""Modulo scheduling: pipelines of graphs at a chosen initiation interval, on as few units as that
takes.

A graph has no loops, so that a list scheduler that counts units by phase always ends: in each cycle
the units take the ready operations with the earliest deadlines (Rau, Iterative modulo scheduling,
1994, without its backtracking). It alternates between forward and backward runs, each in the order
of the other's times (Li and Willis, An iterative scheduling technique, 1992), from several first
orders, and the best pipeline is retained.
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
    TaskTiming,
    collect_tasks,
    ends_of,
    pipeline_of,
)
from featherlane.program.graph import Graph
from featherlane.program.passes.outline import outline

ROUNDS = 4  # pairs of a forward and a backward run from each first order
ORDERS = 3  # first orders at least: by the latest start, and this with more and more noise
RUNS = 2 * ROUNDS * ORDERS
TASKS = 1000  # scheduled in all orders together: small graphs get more orders
NOISE = 0.1  # of the longest path, more with each order
MOST = 5  # times the noise
NEAR = 3.0  # cycles by which a path may be shorter and still count as a longest path
DELAYED = 0.4  # the share of shared tasks that a random delay postpones
Counts = Mapping[Key, int]


def by_call(graph: Graph) -> list[Hashable]:
    """Returns the pool of each node: one for each call of the algorithm, by its number."""
    return [getattr(tag, "call", 0) for tag in graph.tag]


def by_class(graph: Graph) -> list[Hashable]:
    """Returns the pool of each node: one for each class of modules (`analysis.modules`), by the
    number of the first call of the class. Raises CompileError as `outline` does.
    """
    first: dict[Hashable, int] = {}
    for equal in classes(modules_of(outline(graph))):
        for module in equal.members:
            first[module.tag.call] = equal.members[0].tag.call
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
    tail: Mapping[str, int] | None = None,
    limited: Collection[str] = (),
) -> Pipeline:
    """Returns the pipeline of a graph of which all nodes are live.

    operators: of each node, None for inputs, constants and wires. clock: nanoseconds a cycle. pool:
    of each node, by default one for all. arrival: the cycles of inputs by name, 0 by default.
    spare: shares by which the units of each pool and kind may exceed the fewest possible where that
    shortens the pipeline, the smallest first. limited: kinds without spare units. ports: names of
    outputs that are read together, each port as soon as it is ready; without ports all outputs are
    read in the last cycle. runs: the most schedules that are tried. tail: of outputs by name, the
    cycles from each until everything that reads it elsewhere is done, as `remaining` returns them.

    Returns the pipeline of the lowest latency, then of the fewest units, then of the fewest
    registers. With a tail, the latency includes it. With ports and no tail, it is the largest delay
    of a port beyond the cycle in which it would be ready with unlimited units. Raises ValueError
    for an operator that takes longer than a cycle.
    """
    if not spare:
        raise ValueError("spare is empty: wanted a share, such as 0")
    pool = whole(graph) if pool is None else pool
    tasks = collect_tasks(graph, operators, pool, arrival or {})
    _check_operators(operators, clock, interval)
    if tail is not None:
        tasks = _earlier(graph, tasks, tail)
    unlimited = _list_schedule(tasks, clock, interval, None, _latest_starts(tasks, clock))[0]
    if tail is None:
        tasks = _with_ports(graph, tasks, unlimited, ports)
    shortest = _latency(tasks, unlimited)
    best: Pipeline | None = None
    least: tuple[int, ...] | None = None
    for share in spare:
        counts = _counts(tasks, interval, share, limited)
        for n, start in enumerate(_starts(tasks, clock, interval, counts)):
            if n == runs or (n >= RUNS and least is not None and least[0] == shortest):
                break
            latency = _latency(tasks, start)
            if least is None or latency <= least[0]:
                pipeline = pipeline_of(graph, operators, pool, clock, interval, tasks, start, ports)
                rank = (latency, *_rank(pipeline))
                if least is None or rank < least:
                    best, least = pipeline, rank
        if least is not None and least[0] == shortest:
            break
    assert best is not None, "spare has a share"
    return best


def _with_ports(
    graph: Graph, tasks: TaskGraph, unlimited: Sequence[int], ports: Sequence[Collection[str]]
) -> TaskGraph:
    """Returns the tasks with the cycles that are added to the ends of each port: those by which it
    is ready before the last port with unlimited units, the schedule `unlimited`.
    """
    if not ports:
        return tasks
    ready = [_ready(graph, tasks, unlimited, port) for port in ports]
    early = {name: max(ready) - x for port, x in zip(ports, ready, strict=True) for name in port}
    return _earlier(graph, tasks, early)


def _earlier(graph: Graph, tasks: TaskGraph, early: Mapping[str, int]) -> TaskGraph:
    """Returns the tasks with cycles added to the ends of outputs, by name of output."""
    after = [0] * len(tasks.work)
    for name, cycles in early.items():
        for t in ends_of(graph, tasks, [name]):
            after[t] = max(after[t], cycles)
    return replace(tasks, after=after)


def _ready(graph: Graph, tasks: TaskGraph, start: Sequence[int], port: Collection[str]) -> int:
    """The cycle in which these outputs are ready."""
    ends = ends_of(graph, tasks, port)
    return max((start[t] + tasks.work[t].cycles for t in ends), default=0)


def earliness(
    graph: Graph, operators: Sequence[Operator | None], clock: float
) -> dict[str, int]:  # fmt: skip
    """Returns the cycles by which each output is ready before the last one, with unlimited
    units.
    """
    tasks, start = _unlimited(graph, operators, clock)
    ready = {name: _ready(graph, tasks, start, [name]) for name in graph.outputs}
    return {name: max(ready.values()) - cycle for name, cycle in ready.items()}


def remaining(
    graph: Graph, operators: Sequence[Operator | None], clock: float, tail: Mapping[str, int]
) -> dict[str, int]:  # fmt: skip
    """Returns the cycles from each input, by name, until everything is done, with unlimited units.
    tail: of outputs by name, the cycles behind them.
    """
    tasks = _earlier(graph, collect_tasks(graph, operators, whole(graph), {}), tail)
    latest = _latest_starts(tasks, clock)
    cycles: dict[str, int] = {}
    for k in graph.nodes_of("input"):
        name = graph.value[k][0]
        cycles[name] = max(cycles.get(name, 0), ceil(-latest[tasks.of_node[k]]))
    return cycles


def waiting_followers(
    graph: Graph,
    operators: Sequence[Operator | None],
    clock: float,
    latency: int,
    early: Mapping[str, int],
) -> tuple[int, list[int]]:
    """Returns the latency of a graph with unlimited units, and the nodes that follow an operand
    (`Operator.follows`) and wait for another one on the longest of the paths that exceed `latency`.
    early: the cycles by which outputs are due before `latency`, as `earliness` returns them.
    """
    tasks = _earlier(graph, collect_tasks(graph, operators, whole(graph), {}), early)
    latest = _latest_starts(tasks, clock)
    start, _ = _list_schedule(tasks, clock, 1, None, latest)
    ready = [s + work.cycles for s, work in zip(start, tasks.work, strict=True)]
    lengths = dict[int, float]()
    for k, operator in enumerate(operators):
        if operator is not None and operator.follows >= 0:
            t = tasks.of_node[k]
            length = start[t] - latest[t]
            if length > latency and start[t] > max(ready[a] for a in tasks.needs[t]):
                lengths[k] = length
    longest = max(lengths.values(), default=0.0)
    return _latency(tasks, start), [k for k, x in lengths.items() if x > longest - NEAR]


def _counts(tasks: TaskGraph, interval: int, spare: float, limited: Collection[str]) -> Counts:
    """Returns the units of each pool and kind: the fewest that its operations need, and for kinds
    that are not limited a spare share, one unit at least.
    """
    counts: dict[Key, int] = {}
    for (pool, kind), n in tasks.keys().items():
        units = -(-n // interval)
        more = 0 if kind in limited else ceil(spare * units)
        counts[pool, kind] = min(units + more, n)
    return counts


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


def _latency(tasks: TaskGraph, start: Sequence[int]) -> int:
    after = tasks.after or [0] * len(start)
    return max((start[t] + tasks.work[t].cycles + after[t] for t in tasks.ends), default=0)


def _starts(tasks: TaskGraph, clock: float, interval: int, counts: Counts) -> Iterator[list[int]]:
    """Yields the starts of each run, forward and backward alternately."""
    mirror, latest = tasks.mirrored(), _latest_starts(tasks, clock)
    start = _list_schedule(tasks, clock, interval, None, latest)[0]
    spread = NOISE * (max(latest, default=0.0) - min(latest, default=0.0))
    noise = random.Random(0)
    for n in range(max(ORDERS, TASKS // (len(latest) + 1))):
        order = [x - min(n, MOST) * spread * noise.random() for x in latest]
        for iteration in range(ROUNDS):
            fixed_order = iteration % 2 != n % 2
            delayed = _delayed(tasks, start, interval, noise) if n >= ORDERS else tasks
            start = _list_schedule(delayed, clock, interval, counts, order, fixed_order)[0]
            yield start
            order = [-(s + work.cycles) for s, work in zip(start, tasks.work, strict=True)]
            backward = _list_schedule(mirror, clock, interval, counts, order[::-1], fixed_order)[0]
            start = _forward(tasks, backward)
            yield start
            order = [float(s) for s in start]


def _delayed(
    tasks: TaskGraph, start: Sequence[int], interval: int, noise: random.Random
) -> TaskGraph:
    """Returns the tasks with random delays of some shared ones: in small graphs the best schedule
    may leave a phase to a later task.
    """
    waits = [work.key is not None and noise.random() < DELAYED for work in tasks.work]
    first = [
        start[t] + noise.randrange(interval) if wait else tasks.first[t]
        for t, wait in enumerate(waits)
    ]
    return replace(tasks, first=first)


def _forward(tasks: TaskGraph, back: Sequence[int]) -> list[int]:
    """Returns the starts of the tasks from the starts in reversed time."""
    n = len(back)
    ends = [back[n - 1 - t] + work.cycles for t, work in enumerate(tasks.work)]
    inputs = [t for t, needs in enumerate(tasks.needs) if not needs]
    length = max((ends[t] + tasks.first[t] for t in inputs), default=0)
    start = [length - end for end in ends]
    for t in inputs:
        start[t] = tasks.first[t]
    return start


def _latest_starts(tasks: TaskGraph, clock: float) -> list[float]:
    """Returns the latest start of each task, in cycles before the last one, with unlimited
    units.
    """
    mirror, n = tasks.mirrored(), len(tasks.work)
    start, arrival = _list_schedule(mirror, clock, 1, None, list(range(n)))
    ends = [
        s + work.cycles + a / clock for s, work, a in zip(start, mirror.work, arrival, strict=True)
    ]
    return [-end for end in reversed(ends)]


def _list_schedule(
    tasks: TaskGraph,
    clock: float,
    interval: int,
    counts: Counts | None,
    order: Sequence[float],
    by_order: bool = False,
) -> tuple[list[int], list[float]]:
    """Returns the start of each task, and the nanoseconds into its last cycle at which its result
    is ready.

    Of tasks that are ready for a unit in one cycle, the lowest in `order` come first. by_order:
    tasks reserve phases in this order whatever their cycle, so that a task early in the order gets
    the phase that it is ready in. Without counts each task has a separate unit.
    """
    work, needs, readers, late = tasks.work, tasks.needs, tasks.readers, tasks.late
    start, ready, arrival = list(tasks.first), [0] * len(work), [0.0] * len(work)
    waits = [len(operands) + len(late.get(t, ())) for t, operands in enumerate(needs)]
    free = {key: [n] * interval for key, n in counts.items()} if counts is not None else {}
    limit = clock * (1 + ROUNDING)
    queue: list[tuple[float, float, int, int]] = []

    def offer(t: int, cycle: int) -> None:
        heappush(queue, (0 if by_order else cycle, order[t], t, cycle))

    for t, n in enumerate(waits):
        if not n:
            offer(t, tasks.first[t])
    while queue:
        _, _, t, cycle = heappop(queue)
        cycles, before, after, key, _ = work[t]
        begin = max((arrival[a] for a in needs[t] if ready[a] == cycle), default=0.0)
        if t in late:
            begin = max(begin, _begin_late(late[t], cycle, ready, arrival, limit))
        if begin + (before if cycles else after) > limit or (
            begin > 0 and _crosses_regions(work, needs[t], t, cycle, ready, arrival)
        ):
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
                cycles_ready = [ready[a] for a in needs[reader]] + [
                    ready[e.task] - e.cycles for e in edges
                ]
                offer(reader, max(tasks.first[reader], *cycles_ready))
    return start, arrival


def _crosses_regions(
    work: Sequence[TaskTiming],
    needs: Sequence[int],
    t: int,
    cycle: int,
    ready: Sequence[int],
    arrival: Sequence[float],
) -> bool:
    """Tells whether a task that starts in a cycle would be chained to one of another region."""
    return work[t].has_logic_in_front and any(
        ready[a] == cycle and arrival[a] > 0 and work[a].region != work[t].region for a in needs
    )


def shortest_latency(graph: Graph, operators: Sequence[Operator | None], clock: float) -> int:
    """Returns the latency of a graph with a unit for each operation. Arguments are those of
    `pipelined`.
    """
    _check_operators(operators, clock, 1)
    return _latency(*_unlimited(graph, operators, clock))


def _unlimited(
    graph: Graph, operators: Sequence[Operator | None], clock: float
) -> tuple[TaskGraph, list[int]]:  # fmt: skip
    """Returns the tasks of a graph and their starts with unlimited units."""
    tasks = collect_tasks(graph, operators, whole(graph), {})
    return tasks, _list_schedule(tasks, clock, 1, None, _latest_starts(tasks, clock))[0]


def _begin_late(
    edges: Sequence[LateOperand],
    cycle: int,
    ready: Sequence[int],
    arrival: Sequence[float],
    limit: float,
) -> float:
    """Returns the nanoseconds into its cycle from which a task may begin, considering operands that
    it reads later, or (in reversed time) tasks that read it later; infinite if one is not ready.
    """
    begin = 0.0
    for edge in edges:
        if ready[edge.task] - edge.cycles == cycle:
            if edge.reversed:
                begin = max(begin, edge.before)
            elif arrival[edge.task] + edge.before > limit:
                return inf
    return begin
