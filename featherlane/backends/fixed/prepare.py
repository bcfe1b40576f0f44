"""Graphs of functions made ready for circuits: nothing in them but operations of a datapath."""

from __future__ import annotations

from featherlane.backends.fixed.datapath import OPERATIONS
from featherlane.backends.fixed.ranges import place
from featherlane.errors import CompileError
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS
from featherlane.program.passes.balance import balanced
from featherlane.program.passes.guards import flagged
from featherlane.program.passes.reciprocals import normalised
from featherlane.program.rewrite import simplify

# Cycles at which sums are balanced. Sums in another order round otherwise: to have one meaning on
# all devices, a function has one order.
DELAYS = {
    **dict.fromkeys(("add", "sub", "less", "less_equal"), 0.5),
    **dict.fromkeys(("sin", "cos"), 8.0),
    "mul": 3.0,
    "div": 10.0,
}
UNTAGGED = {"input", "constant", *CONDITIONS}  # what `passes.outline` needs no call for


def prepared(graph: Graph) -> Graph:
    """Returns a flat graph as a datapath takes it: live nodes of OPERATIONS, each tagged by its
    call; NaN guards count as "lost", divisions are by numbers from 1 to 2.

    Raises CompileError with the operation and its tag for what a datapath does not compute, and for
    an operation that no call computed.
    """
    return balanced(rewritten(graph), DELAYS)


def rewritten(graph: Graph) -> Graph:
    """Returns a flat graph as `prepared` does, with sums as they were traced."""
    made = simplify(normalised(flagged(graph)))
    _check(made)
    return made


def _check(graph: Graph) -> None:
    for k, (op, tag) in enumerate(zip(graph.op, graph.tag, strict=True)):
        where = place(graph, k)
        if op not in OPERATIONS:
            friction = (
                "; joint friction needs it, model.with_physics(friction=0) has none"
                if op == "sqrt"
                else ""
            )
            told = f"there is no circuit for {op}, only for {_known()}{friction}"
            raise CompileError(f"{where}: {told}")
        if op not in UNTAGGED and not getattr(tag, "call", 0):
            raise CompileError(f"{where} was computed outside of all calls")
        if op == "constant" and graph.number(k) in (None, float("inf"), float("-inf")):
            raise CompileError(f"{where} is {graph.value[k]}: wanted a finite number")


def _known() -> str:
    return ", ".join(sorted(OPERATIONS - {"input", "constant"}))
