"""What a graph leaves to be done, as tasks that wait for tasks: what paths and schedules read.

A task is one operation of the graph, or all operations of one stage: a matrix-vector product, a
submodule of a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from featherlane.graph.graph import Graph
from featherlane.graph.op import OPS

GIVEN = {"input", "constant"}  # kinds of what is there without work
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Tasks:
    """Tasks by number, in an order of evaluation.

    kinds[k] is what latencies are looked up by, needs[k] the earlier tasks whose results task k
    takes, names[k] the stage that it is or belongs to, or the name of the input; results are, by
    the name of an output, the tasks that it waits for.
    """

    kinds: list[str] = field(default_factory=list)
    needs: list[tuple[int, ...]] = field(default_factory=list)
    names: list[Any] = field(default_factory=list)
    results: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kinds)

    def work(self) -> list[int]:
        """The tasks that are more than an input or a constant."""
        return [k for k, kind in enumerate(self.kinds) if kind not in GIVEN]

    def users(self) -> list[list[int]]:
        """For each task the tasks that need it."""
        users: list[list[int]] = [[] for _ in self.kinds]
        for k, needs in enumerate(self.needs):
            for a in needs:
                users[a].append(k)
        return users

    def each(self, table: Mapping[str, Entry], given: Entry) -> list[Entry]:
        """The entry of each task in a table by kinds, `given` for inputs and constants.

        Raises ValueError for a kind that the table lacks.
        """
        if missing := sorted(set(self.kinds) - set(table) - GIVEN):
            known = ", ".join(table) or "nothing"
            raise ValueError(f"no entry for {', '.join(missing)}: the table has {known}")
        return [given if kind in GIVEN else table[kind] for kind in self.kinds]


def tasks(graph: Graph) -> Tasks:
    """The operations that the outputs need, of the kinds that `cost` counts, one task each."""
    return _collect(graph, lambda k: k, lambda stage: "")


def grouped(graph: Graph, kind: Callable[[Any], str] = lambda stage: stage.kind) -> Tasks:
    """The stages that the outputs need, of kind(stage), one task each.

    Inputs, constants and operations outside of any stage are tasks of their own. Raises ValueError
    where two stages need each other.
    """

    def group(k: int) -> Hashable:
        return k if graph.stage[k] is None or not graph.args[k] else ("stage", graph.stage[k])

    return _collect(graph, group, kind)


def _collect(graph: Graph, group: Callable[[int], Hashable], kind: Callable[[Any], str]) -> Tasks:
    found, needed = Tasks(), graph.live()
    of_group: dict[Hashable, int] = {}
    of_node: dict[int, int] = {}
    for k, op in enumerate(graph.op):
        if not needed[k]:
            continue
        args = {of_node[a] for a in graph.args[k]}
        if OPS[op].kind == "sign":  # costs nothing: whoever needs it changes the sign
            (of_node[k],) = args
            continue
        key = group(k)
        t = of_node[k] = of_group.setdefault(key, len(found))
        if t == len(found):
            alone = op if op in GIVEN else OPS[op].kind
            found.kinds.append(alone if key == k else kind(graph.stage[k]))
            found.names.append(graph.value[k][0] if op == "input" else graph.stage[k])
            found.needs.append(())
        if max(args, default=0) > t:
            other = found.names[max(args)]
            raise ValueError(f"stages {found.names[t]} and {other} need each other")
        found.needs[t] = tuple(sorted({*found.needs[t], *args} - {t}))
    for name, (_, nodes) in graph.outputs.items():
        found.results[name] = tuple(sorted({of_node[k] for k in nodes}))
    return found
