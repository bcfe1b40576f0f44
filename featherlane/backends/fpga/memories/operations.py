"""The operations of a datapath of units with operand memories, and what their units need.

A run of products is an operation of several cycles; a cluster of other operations (`clusters`) is
one of one cycle, and so is an input, which a lane of the input word gives to all that read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fixed.align import aligned_from, shift_of
from featherlane.backends.fixed.clusters import MOST_RESULTS, clusters_of, datapath_of
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.runs import RunTerm, runs_of
from featherlane.program.graph import graph_key

# Kinds of units; that of a cluster is its name and a number
MULTIPLY, INPUT = "multiply", "input"
OUTPUTS = MOST_RESULTS  # of a unit
PORTS = 4  # of a unit: a selection reads two numbers, and compares two


class ClusterTerm(NamedTuple):
    """The operands of a cluster, which its unit reads in one cycle."""

    values: tuple[int, ...]


class UnitOperation(NamedTuple):
    """An operation of a unit. gives: the nodes of its results, and behind them those of aligned
    operands that have bits of these. terms: what it reads, a term a cycle; an input has none.
    fraction, initial: of a run.
    """

    kind: str
    gives: tuple[int, ...]
    terms: tuple[RunTerm | ClusterTerm, ...] = ()
    fraction: int = 0
    initial: int = 0

    @property
    def cycles(self) -> int:
        """The cycles in which its unit takes no other operation."""
        return max(len(self.terms), 1)

    @property
    def run(self) -> tuple[RunTerm, ...]:
        """The terms of a run, none of another operation."""
        return tuple(term for term in self.terms if isinstance(term, RunTerm))

    def places(self, datapath: Datapath) -> dict[int, Place]:
        """The place where its unit shows each node that it gives."""
        results = dict[int, int]()
        places = dict[int, Place]()
        for k in self.gives:
            source = aligned_from(datapath.graph, k)
            output = results.setdefault(k, len(results)) if source is None else results[source]
            places[k] = Place(output, shift_of(datapath, k) or 0)
        return places


class Place(NamedTuple):
    """The place where a unit shows a value: one of its outputs, of which the value drops so many
    places.
    """

    output: int
    shift: int


def has_product(operation: UnitOperation) -> bool:
    """Whether a run has a product, and not sums alone."""
    return any(term.b is not None for term in operation.run)


def operations_of(datapath: Datapath) -> tuple[list[UnitOperation], dict[str, Datapath]]:
    """Returns the operations of a datapath with runs (`runs.accumulated`), in an order of
    evaluation, and the datapaths of its clusters by their kinds.
    """
    graph = datapath.graph
    operations = [
        UnitOperation(MULTIPLY, (run.root,), run.terms, run.fraction, run.initial)
        for run in runs_of(datapath)
    ]
    operations += [UnitOperation(INPUT, (k,)) for k in graph.nodes_of("input")]
    kinds, alike = dict[str, Datapath](), dict[object, str]()
    for cluster in clusters_of(graph):
        of_cluster = datapath_of(datapath, cluster)
        key = graph_key(of_cluster.graph), of_cluster.formats
        kind = alike.setdefault(key, f"{cluster.name(graph)} {len(alike)}")
        kinds.setdefault(kind, of_cluster)
        operations.append(UnitOperation(kind, cluster.gives, (ClusterTerm(cluster.operands),)))
    copies = defaultdict[int, list[int]](list)
    for k in range(len(graph)):
        if (source := aligned_from(graph, k)) is not None:
            copies[source].append(k)
    complete = (
        op._replace(gives=(*op.gives, *(copy for k in op.gives for copy in copies[k])))
        for op in operations
    )
    return sorted(complete, key=lambda operation: operation.gives), kinds


def by_arrival(
    datapath: Datapath, operations: Sequence[UnitOperation], cycles: Mapping[str, int]
) -> tuple[list[UnitOperation], list[int]]:
    """Returns operations with the terms in the order in which their operands are there, and the
    first cycle in which each result is, with unlimited units.

    cycles: of a unit of each kind, from the last term that it reads to its output. An operand is
    read a cycle later than it is shown.
    """
    ready, sorted_operations, depths = dict[int, int](), list[UnitOperation](), list[int]()

    def arrival(term: RunTerm | ClusterTerm) -> int:
        return max((ready[k] + 1 for k in operands(datapath, term) if k is not None), default=0)

    for operation in operations:
        terms = tuple(sorted(operation.terms, key=arrival))
        first = max((arrival(term) - m for m, term in enumerate(terms)), default=0)
        last = max(first, 0) + operation.cycles - 1
        depths.append(last + cycles[operation.kind])
        ready |= dict.fromkeys(operation.gives, depths[-1])
        sorted_operations.append(operation._replace(terms=terms))
    return sorted_operations, depths


def operands(datapath: Datapath, term: RunTerm | ClusterTerm) -> tuple[int | None, ...]:
    """The values that a term reads at each port; None is a constant, which of a run only the second
    one may be.
    """
    is_constant = lambda k: k is None or datapath.graph.op[k] == "constant"
    if isinstance(term, ClusterTerm):
        return tuple(None if is_constant(k) else k for k in term.values)
    if is_constant(term.a):
        assert not is_constant(term.b), "a product of constants is a constant"
        return term.b, None
    return term.a, None if is_constant(term.b) else term.b
