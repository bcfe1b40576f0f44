"""Clusters: operations that are neither sums nor products of numbers, each with those that read its
results and nothing else. A circuit computes a cluster as one operation of its operands.

A reciprocal is a cluster: the exponent of a divisor, the shift that normalises it, 1 / m and the
shift back. So are the sine and the cosine of an angle, a shift by an exponent that comes from
elsewhere, and a selection with its comparison. Conditions lie in each cluster that reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
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
    constants = {*graph.nodes_of("constant")}
    left_out = {k for k in graph.nodes_of("power_of_two") if constants.issuperset(graph.args[k])}
    left_out |= linear_nodes(graph)
    others = [
        k
        for k, op in enumerate(graph.op)
        if op not in ("input", "constant", *CONDITIONS)
        and k not in left_out
        and aligned_from(graph, k) is None
    ]
    exponents = {k for k in others if graph.op[k] in SUMS or graph.op[k] == "power_of_two"}
    uses, results = graph.uses(), {k for out in graph.outputs.values() for k in out.nodes}
    home = dict[int, int]()  # the first node of the cluster of each node
    operands = dict[int, dict[int, None]]()  # of each cluster, by its first node
    of_angle = dict[tuple[int, ...], int]()
    for k in others:
        if graph.op[k] in ("sin", "cos"):
            home[k] = of_angle.setdefault(graph.args[k], k)
            operands.setdefault(home[k], dict.fromkeys(graph.args[k]))
            continue
        read = _read(graph, k)
        behind = {a for n in read for a in (operands[home[n]] if n in home else (n,))}
        alike = [
            c
            for c in (home[n] for n in read if n in home)
            if operands[c].keys() == behind
            and all(n in operands[c] or home.get(n) == c for n in read)
        ]
        home[k] = alike[0] if alike else k
        if not alike:
            operands[k] = dict.fromkeys(read)
            for c in {home[n] for n in read if n in home and n in exponents}:
                inside = {n for n in home if home[n] == c}
                alone = all(inside | {k} >= {*uses[n]} and n not in results for n in inside)
                if inside <= exponents and alone:
                    home |= dict.fromkeys(inside, k)
                    operands[k] = operands[c] | operands[k]
                    for n in inside:
                        operands[k].pop(n, None)
    members = defaultdict[int, list[int]](list)
    for k, first in home.items():
        members[first].append(k)

    def cluster(nodes: Sequence[int], read: Iterable[int]) -> Cluster:
        inside = {*nodes}
        shown = {graph.args[k][1] for k in nodes if graph.op[k] == "div"} | results
        gives = [k for k in nodes if k in shown or not inside.issuperset(uses[k])]
        every = inside.union(*(_conditions(graph, k) for k in nodes))
        return Cluster(tuple(sorted(every)), tuple(read), tuple(gives))

    clusters = list[Cluster]()
    for first, nodes in members.items():
        whole = cluster(nodes, operands[first])
        if len(whole.gives) <= MOST_RESULTS:
            clusters.append(whole)
        else:
            clusters += [cluster([k], _read(graph, k)) for k in nodes]
    return sorted(clusters, key=lambda c: c.gives)


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
