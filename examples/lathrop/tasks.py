"""The operations of a graph as tasks that wait for tasks, for critical paths and schedules.

A task is one operation of the graph, or all operations with one tag: a matrix-vector product, a
submodule of a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

from featherlane.program.graph import Graph
from featherlane.program.op import OPS

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Tasks:
    """Tasks by number, in an order of evaluation.

    Entries of inputs are tasks of kind "input", with the input's name. Constants are no tasks.
    """

    kinds: list[str] = field(default_factory=list)  # the keys of tables of latencies and units
    needs: list[tuple[int, ...]] = field(default_factory=list)  # the earlier tasks that each reads
    names: list[Any] = field(default_factory=list)  # the tag of each
    results: dict[str, tuple[int, ...]] = field(default_factory=dict)  # the tasks of each output

    def __len__(self) -> int:
        return len(self.kinds)

    def work(self) -> list[int]:
        """Returns the tasks that are no inputs."""
        return [k for k, kind in enumerate(self.kinds) if kind != "input"]

    def users(self) -> list[list[int]]:
        """Returns for each task the tasks that read it."""
        users: list[list[int]] = [[] for _ in self.kinds]
        for k, needs in enumerate(self.needs):
            for a in needs:
                users[a].append(k)
        return users

    def each(self, table: Mapping[str, Entry], of_input: Entry) -> list[Entry]:
        """Returns the entry of each task in a table of kinds, and `of_input` for inputs. Raises
        ValueError for a kind that the table lacks.
        """
        if missing := sorted(set(self.kinds) - set(table) - {"input"}):
            known = ", ".join(table) or "nothing"
            raise ValueError(f"no entry for {', '.join(missing)}: the table has {known}")
        return [of_input if kind == "input" else table[kind] for kind in self.kinds]


def tasks(graph: Graph) -> Tasks:
    """Returns the operations that the outputs need, a task each. Signs are no tasks."""
    return _collect(graph, lambda k: k, lambda stage: "")


def grouped(graph: Graph, kind: Callable[[Any], str] = lambda stage: stage.kind) -> Tasks:
    """Returns the stages that the outputs need, one task of kind(stage) each: a stage is all nodes
    with one tag.

    Inputs and operations without a tag are single tasks. Raises ValueError where two stages
    wait for each other.
    """

    def group(k: int) -> Hashable:
        return k if graph.tag[k] is None or not graph.args[k] else ("stage", graph.tag[k])

    return _collect(graph, group, kind)


def _collect(graph: Graph, group: Callable[[int], Hashable], kind: Callable[[Any], str]) -> Tasks:
    """Returns the groups of nodes as tasks. Constants and signs cost nothing and are no tasks: a
    reader of a sign waits for the sign's operand.
    """
    collected, needed = Tasks(), graph.live()
    of_group: dict[Hashable, int] = {}
    of_node: dict[int, int | None] = {}
    needs: list[set[int]] = []
    for k, op in enumerate(graph.op):
        if not needed[k]:
            continue
        args = {t for a in graph.args[k] if (t := of_node[a]) is not None}
        if op == "constant" or OPS[op].kind == "sign":
            of_node[k] = args.pop() if args else None
            continue
        key = group(k)
        t = of_node[k] = of_group.setdefault(key, len(needs))
        if t == len(needs):
            kind_alone = op if op == "input" else OPS[op].kind
            collected.kinds.append(kind_alone if key == k else kind(graph.tag[k]))
            collected.names.append(graph.value[k][0] if op == "input" else graph.tag[k])
            needs.append(set())
        needs[t] |= args - {t}
    for name, (_, nodes) in graph.outputs.items():
        ends = {t for k in nodes if (t := of_node[k]) is not None}
        collected.results[name] = tuple(sorted(ends))
    return _ordered(collected, needs)


def _ordered(unordered: Tasks, needs: list[set[int]]) -> Tasks:
    """Returns the tasks in an order of evaluation, the earliest first node first."""
    sorter, order = TopologicalSorter(dict(enumerate(needs))), list[int]()
    try:
        sorter.prepare()
    except CycleError as error:
        first, second = (unordered.names[t] for t in error.args[1][:2])
        raise ValueError(f"stages {first} and {second} need each other") from None
    ready = list(sorter.get_ready())
    heapify(ready)
    while ready:
        order.append(heappop(ready))
        sorter.done(order[-1])
        for t in sorter.get_ready():
            heappush(ready, t)
    position = {t: k for k, t in enumerate(order)}
    return Tasks(
        [unordered.kinds[t] for t in order],
        [tuple(sorted(position[a] for a in needs[t])) for t in order],
        [unordered.names[t] for t in order],
        {
            name: tuple(sorted(position[t] for t in ends))
            for name, ends in unordered.results.items()
        },
    )
