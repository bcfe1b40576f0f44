"""The tasks that a scheduler of pipelines places: one for each operator, with the tasks it reads.

Wires belong to the task in front of them, and the sine and cosine of one angle are one task. So are
an operation and the operation that follows it on its unit, whose other operand may come later.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from featherlane.program.analysis.pipeline import Operator, Pipeline
from featherlane.program.graph import Graph

Key = tuple[Hashable, str]  # the pool and the kind of units
AT_ONCE = {"sin", "cos"}
INPUT = Operator("input")


class TaskTiming(NamedTuple):
    """The delays of a task. key: the units that it shares, None if it has a separate unit. region:
    as of an `Operator`.
    """

    cycles: int
    before: float
    after: float
    key: Key | None
    region: Hashable = None

    @property
    def has_logic_in_front(self) -> bool:
        """Whether the operands go through logic before a register."""
        return (self.before if self.cycles else self.after) > 0


class LateOperand(NamedTuple):
    """A task whose result is read `cycles` after the start of its reader, and the nanoseconds in
    front of the register behind it. reversed: whether time is reversed.
    """

    task: int
    cycles: int
    before: float
    reversed: bool = False


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Tasks in an order of evaluation.

    needs, readers: tasks. late: the operands that a task reads later than its start, by reader;
    they are not in `needs`. first: the earliest cycle of each task, for inputs that of arrival.
    of_node: the task of each node, -1 for constants. ends: the tasks that outputs read. after: the
    cycles added to the end of each of `ends`, so that outputs that could be ready early get an
    earlier deadline than the last outputs.
    """

    work: list[TaskTiming]
    needs: list[tuple[int, ...]]
    readers: list[list[int]]
    first: list[int]
    of_node: list[int]
    ends: frozenset[int]
    after: list[int] = field(default_factory=list)
    late: dict[int, list[LateOperand]] = field(default_factory=dict)

    def keys(self) -> dict[Key, int]:
        """The operations of each pool and kind that share units."""
        counts: dict[Key, int] = {}
        for work in self.work:
            if work.key is not None:
                counts[work.key] = counts.get(work.key, 0) + 1
        return counts

    def mirrored(self) -> TaskGraph:
        """These tasks with time reversed: results before operands."""
        n = len(self.work)
        swap = lambda w: w._replace(before=w.after, after=w.before) if w.cycles else w
        work = [swap(w) for w in reversed(self.work)]
        renumbered = lambda rows: [tuple(n - 1 - a for a in row) for row in reversed(rows)]
        late, readers = dict[int, list[LateOperand]](), [list(row) for row in self.readers]
        all_needs = [list(row) for row in self.needs]
        for t, edges in self.late.items():
            for edge in edges:
                readers[edge.task].remove(t)
                all_needs[t].append(edge.task)
                back = LateOperand(n - 1 - t, edge.cycles, edge.before, not edge.reversed)
                late.setdefault(n - 1 - edge.task, []).append(back)
        return TaskGraph(
            work, renumbered(readers), [list(row) for row in renumbered(all_needs)],
            (self.after or [0] * n)[::-1], [n - 1 - t if t >= 0 else t for t in self.of_node],
            frozenset(), late=late,
        )  # fmt: skip


def collect_tasks(
    graph: Graph,
    operators: Sequence[Operator | None],
    pool: Sequence[Hashable],
    arrival: Mapping[str, int],
) -> TaskGraph:
    """Returns the tasks of a graph. Raises ValueError for wires with two operands and for an
    unknown input.
    """
    if unknown := sorted(set(arrival) - set(graph.inputs)):
        known = ", ".join(graph.inputs) or "none"
        raise ValueError(f"arrival has input {unknown[0]!r}: the graph has {known}")
    tasks = TaskGraph([], [], [], [], [], frozenset())
    pairs: dict[tuple[tuple[int, ...], Operator | None, Hashable], int] = {}
    followed = {  # the follower of each operand that is one task with it
        graph.args[k][operator.follows]: k
        for k, operator in enumerate(operators)
        if operator and operator.follows >= 0
    }
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        operator = operators[k]
        if k in followed:
            tasks.of_node.append(-1)  # until its follower is entered
            continue
        if operator and operator.follows >= 0:
            _enter_followed(tasks, graph, operators, pool, k)
            continue
        needs = tuple(dict.fromkeys(t for a in args if (t := tasks.of_node[a]) >= 0))
        if op == "constant" or (operator is None and args and not needs):
            tasks.of_node.append(-1)
        elif operator is None and args:
            if len({a for a in args if tasks.of_node[a] >= 0}) > 1:
                raise ValueError(f"node {k} ({op}) of several operands has no operator")
            tasks.of_node.append(needs[0])
        elif op in AT_ONCE and (args, operator, pool[k]) in pairs:
            tasks.of_node.append(pairs[args, operator, pool[k]])
        else:
            if op in AT_ONCE:
                pairs[args, operator, pool[k]] = len(tasks.work)
            tasks.of_node.append(len(tasks.work))
            _enter(tasks, operator or INPUT, pool[k], needs)
            tasks.first.append(arrival.get(graph.value[k][0], 0) if op == "input" else 0)
    ends = {tasks.of_node[k] for out in graph.outputs.values() for k in out.nodes} - {-1}
    return replace(tasks, ends=frozenset(ends))


def _enter_followed(
    tasks: TaskGraph,
    graph: Graph,
    operators: Sequence[Operator | None],
    pool: Sequence[Hashable],
    k: int,
) -> None:
    """Enters an operation with the operand that it follows as one task."""
    last = operators[k]
    assert last is not None
    p = graph.args[k][last.follows]
    first = operators[p]
    assert first is not None
    before = first.before if first.cycles else first.before + first.after + last.before
    cycles = first.cycles + last.cycles
    whole = Operator(first.kind, cycles, before, last.after, first.shared, region=first.region)
    tasks_of = lambda args: {t for a in args if (t := tasks.of_node[a]) >= 0}
    needs = tasks_of(graph.args[p])
    others = [a for n, a in enumerate(graph.args[k]) if n != last.follows]
    t = len(tasks.work)
    tasks.of_node[p] = t
    tasks.of_node.append(t)
    tasks.first.append(0)
    if not first.cycles:  # all operands are read in one cycle
        _enter(tasks, whole, pool[p], tuple(needs | tasks_of(others)))
        return
    _enter(tasks, whole, pool[p], tuple(needs))
    late = [LateOperand(a, first.cycles, last.before) for a in tasks_of(others) - needs]
    if late:
        tasks.late[t] = late
    for edge in late:
        tasks.readers[edge.task].append(t)


def _enter(tasks: TaskGraph, operator: Operator, pool: Hashable, needs: tuple[int, ...]) -> None:
    t = len(tasks.work)
    key = (pool, operator.kind) if operator.shared else None
    if operator.cycles:
        delays = operator.before, operator.after
    else:
        delays = 0.0, operator.before + operator.after
    work = TaskTiming(operator.cycles, *delays, key, operator.region)
    tasks.work.append(work)
    tasks.needs.append(needs)
    tasks.readers.append([])
    for a in needs:
        tasks.readers[a].append(t)


def pipeline_of(
    graph: Graph,
    operators: Sequence[Operator | None],
    pool: Sequence[Hashable],
    clock: float,
    interval: int,
    tasks: TaskGraph,
    start: Sequence[int],
    ports: Sequence[Collection[str]] = (),
) -> Pipeline:
    """Returns the pipeline in which each task starts in its cycle; units are numbered here. ports:
    the names of outputs that are read together, as soon as they are ready.
    """
    unit, taken = [-1] * len(start), dict[tuple[Key, int], int]()
    for t in sorted(range(len(start)), key=lambda t: (start[t], t)):
        key = tasks.work[t].key
        if key is not None:
            phase = key, start[t] % interval
            unit[t] = taken[phase] = taken.get(phase, -1) + 1
    ready = [s + work.cycles for s, work in zip(start, tasks.work, strict=True)]
    starts, units = list[int](), list[int]()
    for k, t in enumerate(tasks.of_node):
        operator = operators[k]
        wire = operator is None and graph.args[k]
        starts.append(0 if t < 0 else ready[t] if wire else start[t])
        if operator is not None and operator.follows >= 0:
            starts[k] = ready[t] - operator.cycles
        units.append(unit[t] if t >= 0 and operator is not None and operator.follows < 0 else -1)
    latency = max((ready[t] for t in tasks.ends), default=0)
    read_in = {
        name: max((ready[t] for t in ends_of(graph, tasks, port)), default=0)
        for port in ports
        for name in port
    }
    columns = tuple(starts), tuple(pool), tuple(units)
    return Pipeline(graph, tuple(operators), clock, interval, *columns, latency, read_in)


def ends_of(graph: Graph, tasks: TaskGraph, outputs: Collection[str]) -> set[int]:
    """Returns the tasks whose results are these outputs."""
    nodes = (k for name in outputs for k in graph.outputs[name].nodes)
    return {tasks.of_node[k] for k in nodes} - {-1}
