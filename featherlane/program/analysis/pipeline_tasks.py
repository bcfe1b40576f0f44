"""What a scheduler of pipelines places: one task for each operator, with the tasks that it reads.

Wires belong to the task in front of them, and the sine and cosine of one angle are one task. So are
an operation and the one that follows it on its unit, whose other operand may come later.
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
    """What a task takes. key: the units that it shares, None if it has its own."""

    cycles: int
    before: float
    after: float
    key: Key | None


class LateOperand(NamedTuple):
    """A task whose result is read `cycles` after the start of its reader, and the nanoseconds in
    front of the register behind it. turned: whether time is reversed.
    """

    task: int
    cycles: int
    before: float
    turned: bool = False


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Tasks in an order of evaluation.

    needs, readers: tasks. late: by reader, what it reads later than its start, which is not in
    `needs`. first: the earliest cycle of each, that of arrival for inputs. nodes:
    the nodes of each task; of_node: the task of each node, -1 for constants. ends: the tasks that
    outputs read. after: the cycles that are added to the end of each of `ends`, so that outputs
    that could be there early are wanted as soon as those that come last.
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
        found: dict[Key, int] = {}
        for work in self.work:
            if work.key is not None:
                found[work.key] = found.get(work.key, 0) + 1
        return found

    def mirrored(self) -> TaskGraph:
        """The same tasks with time reversed: results before operands."""
        n = len(self.work)
        turn = lambda w: w._replace(before=w.after, after=w.before) if w.cycles else w
        work = [turn(w) for w in reversed(self.work)]
        turned = lambda rows: [tuple(n - 1 - a for a in row) for row in reversed(rows)]
        late, readers = dict[int, list[LateOperand]](), [list(row) for row in self.readers]
        all_needs = [list(row) for row in self.needs]
        for t, own in self.late.items():
            for edge in own:
                readers[edge.task].remove(t)
                all_needs[t].append(edge.task)
                back = LateOperand(n - 1 - t, edge.cycles, edge.before, not edge.turned)
                late.setdefault(n - 1 - edge.task, []).append(back)
        return TaskGraph(
            work, turned(readers), [list(row) for row in turned(all_needs)],
            (self.after or [0] * n)[::-1], [n - 1 - t if t >= 0 else t for t in self.of_node],
            frozenset(), late=late,
        )  # fmt: skip


def collect(
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
    found = TaskGraph([], [], [], [], [], frozenset())
    pairs: dict[tuple[tuple[int, ...], Operator | None, Hashable], int] = {}
    followed = {
        graph.args[k][own.follows]: k for k, own in enumerate(operators) if own and own.follows >= 0
    }
    for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True)):
        operator = operators[k]
        if k in followed:
            found.of_node.append(-1)  # until its follower is entered
            continue
        if operator and operator.follows >= 0:
            _enter_followed(found, graph, operators, pool, k)
            continue
        needs = tuple(dict.fromkeys(t for a in args if (t := found.of_node[a]) >= 0))
        if op == "constant" or (operator is None and args and not needs):
            found.of_node.append(-1)
        elif operator is None and args:
            if len({a for a in args if found.of_node[a] >= 0}) > 1:
                raise ValueError(f"node {k} ({op}) of several operands has no operator")
            found.of_node.append(needs[0])
        elif op in AT_ONCE and (args, operator, pool[k]) in pairs:
            found.of_node.append(pairs[args, operator, pool[k]])
        else:
            if op in AT_ONCE:
                pairs[args, operator, pool[k]] = len(found.work)
            found.of_node.append(len(found.work))
            _enter(found, operator or INPUT, pool[k], needs)
            found.first.append(arrival.get(graph.value[k][0], 0) if op == "input" else 0)
    ends = {found.of_node[k] for out in graph.outputs.values() for k in out.nodes} - {-1}
    return replace(found, ends=frozenset(ends))


def _enter_followed(
    found: TaskGraph,
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
    whole = Operator(first.kind, cycles, before, last.after, first.shared)
    tasks = lambda args: {t for a in args if (t := found.of_node[a]) >= 0}
    needs = tasks(graph.args[p])
    others = [a for n, a in enumerate(graph.args[k]) if n != last.follows]
    t = len(found.work)
    found.of_node[p] = t
    found.of_node.append(t)
    found.first.append(0)
    if not first.cycles:  # all operands are read in one cycle
        _enter(found, whole, pool[p], tuple(needs | tasks(others)))
        return
    _enter(found, whole, pool[p], tuple(needs))
    late = [LateOperand(a, first.cycles, last.before) for a in tasks(others) - needs]
    if late:
        found.late[t] = late
    for edge in late:
        found.readers[edge.task].append(t)


def _enter(found: TaskGraph, operator: Operator, pool: Hashable, needs: tuple[int, ...]) -> None:
    t = len(found.work)
    key = (pool, operator.kind) if operator.shared else None
    if operator.cycles:
        work = TaskTiming(operator.cycles, operator.before, operator.after, key)
    else:
        work = TaskTiming(0, 0.0, operator.before + operator.after, key)
    found.work.append(work)
    found.needs.append(needs)
    found.readers.append([])
    for a in needs:
        found.readers[a].append(t)


def pipeline_of(
    graph: Graph,
    operators: Sequence[Operator | None],
    pool: Sequence[Hashable],
    clock: float,
    interval: int,
    places: TaskGraph,
    start: Sequence[int],
    ports: Sequence[Collection[str]] = (),
) -> Pipeline:
    """Returns the pipeline in which each task starts in its cycle; units are numbered here. ports:
    the names of outputs that are read together, as soon as they are there.
    """
    unit, taken = [-1] * len(start), dict[tuple[Key, int], int]()
    for t in sorted(range(len(start)), key=lambda t: (start[t], t)):
        key = places.work[t].key
        if key is not None:
            phase = key, start[t] % interval
            unit[t] = taken[phase] = taken.get(phase, -1) + 1
    ready = [s + work.cycles for s, work in zip(start, places.work, strict=True)]
    starts, units = list[int](), list[int]()
    for k, t in enumerate(places.of_node):
        own = operators[k]
        wire = own is None and graph.args[k]
        starts.append(0 if t < 0 else ready[t] if wire else start[t])
        if own is not None and own.follows >= 0:
            starts[k] = ready[t] - own.cycles
        units.append(unit[t] if t >= 0 and own is not None and own.follows < 0 else -1)
    latency = max((ready[t] for t in places.ends), default=0)
    read_in = {
        name: max((ready[t] for t in ends_of(graph, places, port)), default=0)
        for port in ports
        for name in port
    }
    columns = tuple(starts), tuple(pool), tuple(units)
    return Pipeline(graph, tuple(operators), clock, interval, *columns, latency, read_in)


def ends_of(graph: Graph, places: TaskGraph, outputs: Collection[str]) -> set[int]:
    """Returns the tasks that give outputs, by their names."""
    nodes = (k for name in outputs for k in graph.outputs[name].nodes)
    return {places.of_node[k] for k in nodes} - {-1}
