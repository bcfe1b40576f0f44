"""A part of a graph computed on its own: what it shares with the rest is computed twice."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from copy import copy

from featherlane.graph.graph import Graph, Output, Rule, rewrite, simplify

DEAR = ("sin", "cos", "sqrt", "div")  # rather kept than computed again


def _needed(graph: Graph, roots: Iterable[int], known: Container[int]) -> set[int]:
    """The known nodes that the roots depend on, through none of the others."""
    found: set[int] = set()
    seen = set(roots)
    todo = list(seen)
    while todo:
        k = todo.pop()
        if k in known:
            found.add(k)
        else:
            new = set(graph.args[k]) - seen
            seen |= new
            todo += new
    return {k for k in found if graph.op[k] != "constant"}


def apart(graph: Graph, roots: Sequence[int], handed: Iterable[int]) -> tuple[Graph, list[int]]:
    """What computes the nodes `roots` from inputs, the nodes `handed` and what is dear, as a
    routine of one call; and the nodes of which the row "each" of that call is made.
    """
    leaves = {k for k, args in enumerate(graph.args) if not args}
    known = leaves.union(handed, (k for k, op in enumerate(graph.op) if op in DEAR))
    given = sorted(_needed(graph, roots, known))

    def read(i: int) -> Rule:
        return lambda new, *args: new.node("input", value=("each", i))

    whole = copy(graph)
    whole.outputs = {"result": Output((1, len(roots)), tuple(roots))}
    routine = simplify(rewrite(whole, {k: read(i) for i, k in enumerate(given)}))
    routine.inputs = {"shared": (0,), "each": (len(given),)}
    return routine, given
