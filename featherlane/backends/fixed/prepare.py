"""Graphs of functions prepared for circuits: lowered to the operations of a datapath."""

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

# The delays in cycles with which sums are balanced. Sums in another order round differently, so the
# order of a function does not depend on the device.
DELAYS = {
    **dict.fromkeys(("add", "sub", "less", "less_equal"), 0.5),
    **dict.fromkeys(("sin", "cos"), 8.0),
    "mul": 3.0,
    "div": 10.0,
}
UNTAGGED = {"input", "constant", *CONDITIONS}  # nodes that `passes.outline` assigns to no call


def prepared(graph: Graph) -> Graph:
    """Returns a flat graph lowered for a datapath: live nodes of OPERATIONS, each tagged by its
    call; NaN guards count as "lost", divisions are by numbers from 1 to 2.

    Raises CompileError, with the operation and its tag, for an operation that datapaths lack, and
    for an operation that no call computed.
    """
    return balanced(rewritten(graph), DELAYS)


def rewritten(graph: Graph) -> Graph:
    """Returns a flat graph lowered as by `prepared`, with sums in the order of the trace."""
    lowered = simplify(normalised(flagged(graph)))
    _check(lowered)
    return lowered


FRICTION = (
    "joint friction needs square roots, which circuits do not have: leave it out, with "
    "--no-friction on the command line, or as model.with_physics(friction=0)"
)


def _check(graph: Graph) -> None:
    for k, (op, tag) in enumerate(zip(graph.op, graph.tag, strict=True)):
        where = place(graph, k)
        if op not in OPERATIONS:
            reason = f"{where}: there is no circuit for {op}"
            cure = f"{FRICTION}; {reason}" if op == "sqrt" else f"{reason}, only for {_known()}"
            raise CompileError(cure)
        if op not in UNTAGGED and not getattr(tag, "call", 0):
            raise CompileError(f"{where} was computed outside of all calls")
        if op == "constant" and graph.number(k) in (None, float("inf"), float("-inf")):
            raise CompileError(f"{where} is {graph.value[k]}: wanted a finite number")


def _known() -> str:
    return ", ".join(sorted(OPERATIONS - {"input", "constant"}))
