"""The layout of values in memory while generated code of a graph runs: C, WebAssembly, JavaScript.

The operations are cut into blocks, each of which becomes a function, so that compilers need neither
much time nor much stack. Values that one block computes and another reads, and operands and results
of calls, are in the workspace, whose slots are reused after the last read.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from typing import NamedTuple

from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS

# Operations of a block: compilers need time that grows faster than the length of a function
# (docs/c.md, "Code size")
BLOCK = 1000
LEAVES = {"input", "constant", "result", *CONDITIONS}  # nodes without a statement


class LayoutStage(NamedTuple):
    """Nodes that run one after another: operations of one block, or calls."""

    calls: bool
    nodes: list[int]


class WorkspaceLayout(NamedTuple):
    """The stages of a graph in the order in which they run. slots: of each node in the workspace;
    fetched: inputs that are copied there first; size: slots of the workspace.
    """

    stages: list[LayoutStage]
    slots: dict[int, int]
    fetched: list[int]
    size: int


class _Slots:
    """The allocator of the workspace: its free ranges, and the most slots ever in use."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []  # (first, count), by slot
        self.size = 0

    def take(self, count: int) -> int:
        """Allocates `count` consecutive slots; returns the first."""
        for n, (first, free) in enumerate(self.free):
            if free >= count:
                rest = [(first + count, free - count)] if free > count else []
                self.free[n : n + 1] = rest
                return first
        first = self.size
        self.size += count
        return first

    def release(self, slot: int) -> None:
        insort(self.free, (slot, 1))
        n = self.free.index((slot, 1))
        for left in (n, n - 1):  # joined with its right neighbour, then with its left one
            if 0 <= left < len(self.free) - 1 and sum(self.free[left]) == self.free[left + 1][0]:
                first, count = self.free[left]
                self.free[left : left + 2] = [(first, count + self.free[left + 1][1])]


def operands(graph: Graph, k: int) -> Iterator[int]:
    """The numbers that the statement of a node reads. A condition is written out where it is used,
    so its two operands are read there.
    """
    for a in graph.args[k]:
        yield from graph.args[a] if graph.op[a] in CONDITIONS else (a,)


def _stages(graph: Graph, block: int) -> list[LayoutStage]:
    stages: list[LayoutStage] = []
    for k, op in enumerate(graph.op):
        if op in LEAVES:
            continue
        calls = op == "call"
        last = stages[-1] if stages else None
        if last is None or last.calls != calls or (not calls and len(last.nodes) == block):
            stages.append(LayoutStage(calls, []))
        stages[-1].nodes.append(k)
    return stages


def _last_reads(graph: Graph, stages: list[LayoutStage]) -> dict[int, int]:
    """The nodes in the workspace, each with the last node that reads it."""
    stage_of = {k: n for n, stage in enumerate(stages) for k in stage.nodes}
    last: dict[int, int] = {}
    for n, stage in enumerate(stages):
        for k in stage.nodes:
            for a in operands(graph, k):
                op = graph.op[a]
                elsewhere = a in stage_of and stage_of[a] != n
                if op == "result" or elsewhere or (stage.calls and op == "input"):
                    last[a] = k
    ends = (k for out in graph.outputs.values() for k in out.nodes)
    return last | {k: len(graph) for k in ends if graph.op[k] == "result"}


def layout(graph: Graph, block: int = BLOCK) -> WorkspaceLayout:
    """The blocks of a graph, and the slots of its values in the workspace."""
    stages = _stages(graph, block)
    last = _last_reads(graph, stages)
    ending: dict[int, list[int]] = {}
    for a, k in last.items():
        ending.setdefault(k, []).append(a)
    allocator, slots = _Slots(), dict[int, int]()
    fetched = [a for a in last if graph.op[a] == "input"]
    slots |= {a: allocator.take(1) for a in fetched}
    for k in (k for stage in stages for k in stage.nodes):
        for a in ending.get(k, ()):
            allocator.release(slots[a])
        if graph.op[k] == "call":
            results = graph.results(k)
            first = allocator.take(len(results))
            slots |= {r: first + n for n, r in enumerate(results)}
            for r in results:
                if r not in last:
                    allocator.release(slots[r])
        elif k in last:
            slots[k] = allocator.take(1)
    return WorkspaceLayout(stages, slots, fetched, allocator.size)
