"""The operations of a datapath of units with operand memories, and what their units need.

A run of products is an operation of several cycles; the sine and the cosine of an angle are one
operation, and so is an input, which a lane of the input word gives to all that read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fixed.align import aligned_from, shift_of
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.runs import RunTerm, is_linear, runs_of
from featherlane.errors import CompileError
from featherlane.program.graph import Graph

# Kinds of units; behind that of sine and cosine stand the formats of the angle and of both
MULTIPLY, INPUT, SINE_COSINE = "multiply", "input", "sine_cosine"


class UnitOperation(NamedTuple):
    """An operation of a unit. gives: the nodes of its results, and behind them those of aligned
    operands that have bits of these. terms: what it reads, a term a cycle; an angle is a term
    alone, and an input has none. fraction, initial: of a run.
    """

    kind: str
    gives: tuple[int, ...]
    terms: tuple[RunTerm, ...] = ()
    fraction: int = 0
    initial: int = 0

    @property
    def cycles(self) -> int:
        """The cycles in which its unit takes no other operation."""
        return max(len(self.terms), 1)


def has_product(operation: UnitOperation) -> bool:
    """Whether a run has a product, and not sums alone."""
    return any(term.b is not None for term in operation.terms)


def operations_of(datapath: Datapath) -> list[UnitOperation]:
    """Returns the operations of a datapath with runs (`runs.accumulated`), in an order of
    evaluation. Raises CompileError for an operation without a unit.
    """
    graph = datapath.graph
    operations = [
        UnitOperation(MULTIPLY, (run.root,), run.terms, run.fraction, run.initial)
        for run in runs_of(datapath)
    ]
    angles = defaultdict[tuple[int, Format], list[int]](list)
    copies = defaultdict[int, list[int]](list)
    for k, op in enumerate(graph.op):
        if op == "input":
            operations.append(UnitOperation(INPUT, (k,)))
        elif op in ("sin", "cos"):
            angles[graph.args[k][0], datapath.format(k)].append(k)
        elif (source := aligned_from(graph, k)) is not None:
            copies[source].append(k)
        elif not is_linear(graph, k) and not _is_constant(graph, k):
            raise CompileError(
                f"node {k} ({op}): units with operand memories compute sums, products, sines and "
                "cosines alone; datapath='shared' has circuits for others"
            )
    for (angle, out), nodes in angles.items():
        kind = f"{SINE_COSINE} {datapath.format(angle)} {out}"
        operations.append(UnitOperation(kind, tuple(nodes), (RunTerm(False, angle),)))
    complete = (
        op._replace(gives=(*op.gives, *(copy for k in op.gives for copy in copies[k])))
        for op in operations
    )
    return sorted(complete, key=lambda operation: operation.gives)


def _is_constant(graph: Graph, k: int) -> bool:
    """Whether a node is a constant, or a power of two with a constant exponent."""
    return graph.op[k] == "constant" or (
        graph.op[k] == "power_of_two" and graph.op[graph.args[k][0]] == "constant"
    )


def by_arrival(
    datapath: Datapath, operations: Sequence[UnitOperation], cycles: Mapping[str, int]
) -> tuple[list[UnitOperation], list[int]]:
    """Returns operations with the terms in the order in which their operands are there, and the
    first cycle in which each result is, with unlimited units.

    cycles: of a unit of each kind, from the last term that it reads to its output. An operand is
    read a cycle later than it is shown.
    """
    ready, sorted_operations, depths = dict[int, int](), list[UnitOperation](), list[int]()

    def arrival(term: RunTerm) -> int:
        return max((ready[k] + 1 for k in operands(datapath, term) if k is not None), default=0)

    for operation in operations:
        terms = tuple(sorted(operation.terms, key=arrival))
        first = max((arrival(term) - m for m, term in enumerate(terms)), default=0)
        last = max(first, 0) + operation.cycles - 1
        depths.append(last + cycles[operation.kind])
        ready |= dict.fromkeys(operation.gives, depths[-1])
        sorted_operations.append(operation._replace(terms=terms))
    return sorted_operations, depths


class Place(NamedTuple):
    """The place where a unit shows a value: at an output, 1 for a cosine beside the sine, of which
    the value drops so many places.
    """

    output: int
    shift: int


def place_of(datapath: Datapath, k: int) -> Place:
    """The place where its unit shows a node."""
    source = aligned_from(datapath.graph, k)
    shift = shift_of(datapath, k) or 0
    return Place(int(datapath.graph.op[k if source is None else source] == "cos"), shift)


def operands(datapath: Datapath, term: RunTerm) -> tuple[int | None, int | None]:
    """The values that a term reads at its first port and at its second one; None is a constant,
    which only the second one may be.
    """
    is_constant = lambda k: k is None or datapath.graph.op[k] == "constant"
    if is_constant(term.a):
        assert not is_constant(term.b), "a product of constants is a constant"
        return term.b, None
    return term.a, None if is_constant(term.b) else term.b
