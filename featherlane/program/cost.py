"""Operations by kind, depth and live values of a graph, in all and by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Protocol

from featherlane.program.op import OPS

FREE = {"data", "sign"}  # kinds without an instruction: they add nothing to the depth
SLOTS = ("add", "mul", "fma", "div", "sqrt")  # the kinds of operation that take a slot
LEAVES = {"input", "constant"}  # these are in memory: they take no register while they wait
Kinds = Counter[str]  # operations by kind


class Counted(Protocol):
    """The attributes of a graph that costs are counted from."""

    op: list[str]
    args: list[tuple[int, ...]]
    tag: list[Any]
    outputs: Any

    def live(self) -> list[bool]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Cost:
    """add, mul, fma, div, sqrt, trig, select: operations of each kind. Signs cost nothing.

    `operations` is additions + multiplications, a fused multiply-add counting as both; `depth` is
    the longest chain of operations, each as one step; `live` the most values that wait for a later
    use at the same time.
    """

    kinds: Counter[str]
    depth: int
    live: int
    stages: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        return self.kinds["add"] + self.kinds["mul"] + 2 * self.kinds["fma"]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        most = f"depth {self.depth}, at most {self.live} live values"
        return f"{self.operations} operations ({kinds}), {most}"


def operations(graph: Counted) -> int:
    """The `operations` of the graph's cost alone, which takes far less time."""
    kinds = Counter(OPS[op].kind for op in compress(graph.op, graph.live()))
    return Cost(kinds, depth=0, live=0).operations


def cost(graph: Counted) -> Cost:
    """The cost of the operations that the outputs need."""
    needed = graph.live()
    kinds: Counter[str] = Counter()
    stages: dict[str, Counter[str]] = {}
    depth = [0] * len(graph)
    for k, op in enumerate(graph.op):
        if not needed[k]:
            continue
        kind = OPS[op].kind
        depth[k] = max((depth[a] for a in graph.args[k]), default=0)
        if kind not in FREE:
            depth[k] += 1
            kinds[kind] += 1
            stages.setdefault(str(graph.tag[k] or ""), Counter())[kind] += 1
    deepest = max((depth[k] for out in graph.outputs.values() for k in out.nodes), default=0)
    return Cost(kinds, deepest, _most_live(graph, needed), stages)


def _most_live(graph: Counted, needed: list[bool]) -> int:
    """The most values that wait for a later use at the same time."""
    last = [-1] * len(graph)
    for k, args in enumerate(graph.args):
        if needed[k]:
            for a in args:
                last[a] = k
    dies: Counter[int] = Counter(k for k in last if k >= 0)
    live = most = 0
    for k in range(len(graph)):
        live -= dies[k]
        if needed[k] and graph.op[k] not in LEAVES and last[k] >= 0:
            live += 1
            most = max(most, live)
        elif graph.op[k] in LEAVES and last[k] >= 0:
            dies[last[k]] -= 1
    return most


def kinds_of(graph: Counted) -> Kinds:
    """The operations by kind of a graph whose nodes are all needed."""
    return Counter(OPS[op].kind for op in graph.op)


def times(kinds: Kinds, count: int) -> Kinds:
    """The operations of so many graphs."""
    return Counter({kind: count * n for kind, n in kinds.items()})


def slots(kinds: Mapping[str, int]) -> int:
    """Arithmetic instructions: each addition, multiplication, fused multiply-add, division and
    square root is one.
    """
    return sum(kinds.get(kind, 0) for kind in SLOTS)
