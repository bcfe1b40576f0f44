"""Clusters: operations that are neither sums nor products of numbers, each with those that read its
results and nothing else. A circuit computes a cluster as one operation of its operands.

A reciprocal is a cluster: the exponent of a divisor, the shift that normalises it, 1 / m and the
shift back. So are the sine and the cosine of an angle, a shift by an exponent that comes from
elsewhere, and a selection with its comparison. Conditions lie in each cluster that reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from featherlane.backends.fixed.align import aligned_from
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.program.graph import Graph, Output
from featherlane.program.op import CONDITIONS
from featherlane.scalar import Tag

SUMS = frozenset(["add", "sub", "neg"])
MOST_RESULTS = 4  # of a cluster
OPERAND, RESULT = "operand", "result"  # the input and the output of the datapath of a cluster
# What a cluster is called, by the first of these operations that it has; others are exponents
NAMES = {
    "div": "reciprocal", "sin": "sine_cosine", "cos": "sine_cosine", "select": "selection",
    "mul": "shift", "abs": "magnitude", "power_of_two": "power",
}  # fmt: skip


class Cluster(NamedTuple):
    """The nodes of a cluster but for constants, in order; the nodes that it reads; those that
    others read, or outputs, and the divisor of a reciprocal, so that all of these are alike.
    """

    nodes: tuple[int, ...]
    operands: tuple[int, ...]
    gives: tuple[int, ...]

    def name(self, graph: Graph) -> str:
        """A word for the results."""
        ops = {graph.op[k] for k in self.nodes}
        return next((name for op, name in NAMES.items() if op in ops), "exponent")


def linear_nodes(graph: Graph) -> set[int]:
    """The nodes that accumulators compute: sums, signs, and products of two numbers; but not sums
    of exponents that nothing but powers of two reads.
    """
    powers = {*graph.nodes_of("power_of_two")}
    linear = {
        k
        for k, (op, args) in enumerate(zip(graph.op, graph.args, strict=True))
        if op in SUMS or (op == "mul" and not powers & {*args})
    }
    exponents = {*graph.nodes_of("exponent")}
    constants = {*graph.nodes_of("constant")}
    for k in sorted(linear):
        args = {*graph.args[k]}
        if graph.op[k] in SUMS and args & exponents and args <= exponents | constants:
            exponents.add(k)
    uses, results = graph.uses(), {k for out in graph.outputs.values() for k in out.nodes}
    inner = powers.copy()
    for k in sorted(exponents & linear, reverse=True):
        if k not in results and inner.issuperset(uses[k]):
            inner.add(k)
    return linear - inner


def clusters_of(graph: Graph) -> list[Cluster]:
    """Returns the clusters of a graph, each after those whose results it reads. A node belongs to
    the cluster of one of its operands if it depends on the operands of that alone. A shift has the
    sum that makes its exponent, of which a constant is an operand, since it is another in others.
    """
    partition = _Partition.of(graph)
    for k in _nodes_of_clusters(graph):
        partition.add(k)
    clusters = list[Cluster]()
    for root, nodes in partition.members().items():
        whole = partition.cluster(nodes, partition.operands[root])
        if len(whole.gives) <= MOST_RESULTS:
            clusters.append(whole)
        else:
            clusters += [partition.cluster([k], _read(graph, k)) for k in nodes]
    return sorted(clusters, key=lambda c: c.gives)


def _nodes_of_clusters(graph: Graph) -> list[int]:
    """The nodes that clusters compute, without conditions, which each cluster computes itself."""
    constants = {*graph.nodes_of("constant")}
    others = {k for k in graph.nodes_of("power_of_two") if constants.issuperset(graph.args[k])}
    others |= linear_nodes(graph)
    return [
        k
        for k, op in enumerate(graph.op)
        if op not in ("input", "constant", *CONDITIONS)
        and k not in others
        and aligned_from(graph, k) is None
    ]


@dataclass(frozen=True)
class _Partition:
    """A partition of nodes into clusters, each named by one of its nodes, the root; nodes are added
    in the order of the graph.

    uses: the nodes that read each node; results: the nodes that are outputs of the graph. root: of
    the cluster of each node. operands: of each cluster by its root, in the order of the keys.
    of_angle: the root of the sine and the cosine of an angle.
    """

    graph: Graph
    uses: Sequence[Sequence[int]]
    results: Set[int]
    root: dict[int, int]
    operands: dict[int, dict[int, None]]
    of_angle: dict[tuple[int, ...], int]

    @classmethod
    def of(cls, graph: Graph) -> _Partition:
        """The partition of no nodes yet."""
        results = {k for out in graph.outputs.values() for k in out.nodes}
        return cls(graph, graph.uses(), results, {}, {}, {})

    def add(self, k: int) -> None:
        """Adds a node to the cluster that computes it, or makes it the root of a new one."""
        if self.graph.op[k] in ("sin", "cos"):
            angle = self.graph.args[k]
            self.root[k] = self.of_angle.setdefault(angle, k)
            self.operands.setdefault(self.root[k], dict.fromkeys(angle))
            return
        read = _read(self.graph, k)
        alike = self._with_operands_of(read)
        if alike is not None:
            self.root[k] = alike
            return
        self.root[k] = k
        self.operands[k] = dict.fromkeys(read)
        for exponent in {self.root[n] for n in read if n in self.root and self._is_exponent(n)}:
            if self._is_read_by_alone(exponent, k):
                self._absorb(exponent, k)

    def _with_operands_of(self, read: Sequence[int]) -> int | None:
        """The first cluster whose operands are all that numbers depend on, each of which is one of
        these operands or computed by that cluster.
        """
        root, operands = self.root, self.operands
        behind = {a for n in read for a in (operands[root[n]] if n in root else (n,))}
        for c in (root[n] for n in read if n in root):
            if operands[c].keys() == behind and all(
                n in operands[c] or root.get(n) == c for n in read
            ):
                return c
        return None

    def _is_exponent(self, k: int) -> bool:
        """Whether a node of a cluster computes the exponent of a shift, or its power of two."""
        return self.graph.op[k] in SUMS or self.graph.op[k] == "power_of_two"

    def _nodes(self, root: int) -> set[int]:
        """The nodes of a cluster so far."""
        return {n for n, its_root in self.root.items() if its_root == root}

    def _is_read_by_alone(self, exponent: int, k: int) -> bool:
        """Whether a cluster computes exponents and nothing else, all of them for node k alone."""
        inside = self._nodes(exponent)
        readers = inside | {k}
        return all(
            self._is_exponent(n) and n not in self.results and readers.issuperset(self.uses[n])
            for n in inside
        )

    def _absorb(self, exponent: int, k: int) -> None:
        """Moves the nodes of a cluster into that of node k, whose operands they are no more."""
        inside = self._nodes(exponent)
        self.root.update(dict.fromkeys(inside, k))
        operands = self.operands[exponent] | self.operands[k]
        self.operands[k] = {n: None for n in operands if n not in inside}

    def members(self) -> dict[int, list[int]]:
        """The nodes of each cluster, in order."""
        members = defaultdict[int, list[int]](list)
        for k, root in self.root.items():
            members[root].append(k)
        return members

    def cluster(self, nodes: Sequence[int], operands: Iterable[int]) -> Cluster:
        """Some nodes as a cluster, with the conditions that they depend on."""
        graph, inside = self.graph, {*nodes}
        divisors = {graph.args[k][1] for k in nodes if graph.op[k] == "div"}
        gives = [
            k
            for k in nodes
            if k in divisors or k in self.results or not inside.issuperset(self.uses[k])
        ]
        every = inside.union(*(_conditions(graph, k) for k in nodes))
        return Cluster(tuple(sorted(every)), tuple(operands), tuple(gives))


def _read(graph: Graph, k: int) -> list[int]:
    """The numbers that a node reads, through conditions, but for constants that are not added to
    exponents.
    """
    read = dict[int, None]()
    for a in graph.args[k]:
        if graph.op[a] in CONDITIONS:
            read |= dict.fromkeys(_read(graph, a))
        elif graph.op[a] != "constant" or graph.op[k] in SUMS:
            read[a] = None
    return [*read]


def _conditions(graph: Graph, k: int) -> set[int]:
    """The conditions that a node depends on."""
    mine = {a for a in graph.args[k] if graph.op[a] in CONDITIONS}
    return mine.union(*(_conditions(graph, a) for a in mine))


def datapath_of(datapath: Datapath, cluster: Cluster) -> Datapath:
    """Returns the datapath of a cluster alone: of its operands in their order to what it gives."""
    source, graph = datapath.graph, Graph()
    formats, place = list[Format | None](), dict[int, int]()
    tag = Tag(cluster.name(source), "", 0, 1)

    def enter(k: int, op: str, args: Iterable[int], value: Any) -> None:
        """Enters a node that stands for node k: two of other formats may be alike."""
        place[k] = len(graph)
        for column, x in zip(
            (graph.op, graph.args, graph.value, graph.tag, formats),
            (op, tuple(args), value, tag, datapath.formats[k]),
            strict=True,
        ):
            column.append(x)  # type: ignore[attr-defined]

    graph.inputs = {OPERAND: (len(cluster.operands),)}
    for n, k in enumerate(cluster.operands):
        enter(k, "input", (), (OPERAND, n))
        if source.op[k] == "power_of_two":  # an input has its integer, which is the exponent
            enter(k, "power_of_two", (place[k],), None)
    for k in cluster.nodes:
        for a in (*source.args[k], k):
            if a not in place:
                enter(a, source.op[a], (place[x] for x in source.args[a]), source.value[a])
    graph.outputs = {RESULT: Output((len(cluster.gives),), tuple(place[k] for k in cluster.gives))}
    return Datapath(graph, tuple(formats))
