"""What a graph leaves to be done, as tasks that wait for tasks: what paths and schedules read.

A task is one operation of the graph, or all operations of one stage: a matrix-vector product, a
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

    kinds[k] is what latencies are looked up by, needs[k] the earlier tasks whose results task k
    takes, names[k] the stage that it is or belongs to; results are, by the name of an output, the
    tasks that it waits for. Entries of inputs are tasks of kind "input", with the input's name;
    constants are there without a task.
    """

    kinds: list[str] = field(default_factory=list)
    needs: list[tuple[int, ...]] = field(default_factory=list)
    names: list[Any] = field(default_factory=list)
    results: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kinds)

    def work(self) -> list[int]:
        """The tasks that are no inputs."""
        return [k for k, kind in enumerate(self.kinds) if kind != "input"]

    def users(self) -> list[list[int]]:
        """For each task the tasks that need it."""
        users: list[list[int]] = [[] for _ in self.kinds]
        for k, needs in enumerate(self.needs):
            for a in needs:
                users[a].append(k)
        return users

    def each(self, table: Mapping[str, Entry], given: Entry) -> list[Entry]:
        """The entry of each task in a table by kinds, `given` for inputs.

        Raises ValueError for a kind that the table lacks.
        """
        if missing := sorted(set(self.kinds) - set(table) - {"input"}):
            known = ", ".join(table) or "nothing"
            raise ValueError(f"no entry for {', '.join(missing)}: the table has {known}")
        return [given if kind == "input" else table[kind] for kind in self.kinds]


def tasks(graph: Graph) -> Tasks:
    """The operations that the outputs need, of the kinds that `cost` counts, one task each."""
    return _collect(graph, lambda k: k, lambda stage: "")


def grouped(graph: Graph, kind: Callable[[Any], str] = lambda stage: stage.kind) -> Tasks:
    """The stages that the outputs need, of kind(stage), one task each.

    Inputs and operations outside of any stage are tasks of their own. Raises ValueError where two
    stages need each other.
    """

    def group(k: int) -> Hashable:
        return k if graph.tag[k] is None or not graph.args[k] else ("stage", graph.tag[k])

    return _collect(graph, group, kind)


def _collect(graph: Graph, group: Callable[[int], Hashable], kind: Callable[[Any], str]) -> Tasks:
    """What costs nothing is no task: constants are there, and who needs a sign changes it."""
    found, needed = Tasks(), graph.live()
    of_group: dict[Hashable, int] = {}
    of_node: dict[int, int | None] = {}
    waits: list[set[int]] = []
    for k, op in enumerate(graph.op):
        if not needed[k]:
            continue
        args = {t for a in graph.args[k] if (t := of_node[a]) is not None}
        if op == "constant" or OPS[op].kind == "sign":
            of_node[k] = args.pop() if args else None
            continue
        key = group(k)
        t = of_node[k] = of_group.setdefault(key, len(waits))
        if t == len(waits):
            alone = op if op == "input" else OPS[op].kind
            found.kinds.append(alone if key == k else kind(graph.tag[k]))
            found.names.append(graph.value[k][0] if op == "input" else graph.tag[k])
            waits.append(set())
        waits[t] |= args - {t}
    for name, (_, nodes) in graph.outputs.items():
        ends = {t for k in nodes if (t := of_node[k]) is not None}
        found.results[name] = tuple(sorted(ends))
    return _ordered(found, waits)


def _ordered(found: Tasks, waits: list[set[int]]) -> Tasks:
    """The tasks with those first that others wait for, else in the order in which they began."""
    sorter, order = TopologicalSorter(dict(enumerate(waits))), list[int]()
    try:
        sorter.prepare()
    except CycleError as error:
        first, second = (found.names[t] for t in error.args[1][:2])
        raise ValueError(f"stages {first} and {second} need each other") from None
    ready = list(sorter.get_ready())
    heapify(ready)
    while ready:
        order.append(heappop(ready))
        sorter.done(order[-1])
        for t in sorter.get_ready():
            heappush(ready, t)
    place = {t: k for k, t in enumerate(order)}
    return Tasks(
        [found.kinds[t] for t in order],
        [tuple(sorted(place[a] for a in waits[t])) for t in order],
        [found.names[t] for t in order],
        {name: tuple(sorted(place[t] for t in ends)) for name, ends in found.results.items()},
    )
