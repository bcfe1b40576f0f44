"""A part of a graph computed on its own: what it shares with the rest is computed twice."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from featherlane.program.graph import Graph, Output

DEAR = ("sin", "cos", "sqrt", "div")  # rather kept than computed again


def _between(graph: Graph, roots: Iterable[int], known: Container[int]) -> list[int]:
    """The roots and what they depend on, through none of the known nodes, in their order."""
    todo = list(roots)
    found = set(todo)
    while todo:
        k = todo.pop()
        new = set() if k in known else set(graph.args[k]) - found
        found |= new
        todo += new
    return sorted(found)


def apart(graph: Graph, roots: Sequence[int], handed: Iterable[int]) -> tuple[Graph, list[int]]:
    """What computes the nodes `roots` from inputs, the nodes `handed` and what is dear, as a
    routine of one call; and the nodes of which the row "each" of that call is made.
    """
    known = {k for k, op in enumerate(graph.op) if op in DEAR or op == "input"}.union(handed)
    routine, place = Graph(), {}
    given: list[int] = []
    for k in _between(graph, roots, known):
        op, routine.current_stage = graph.op[k], graph.stage[k]
        if k in known:
            place[k] = routine.node("input", value=("each", len(given)))
            given.append(k)
        elif op == "constant":
            place[k] = routine.node(op, value=graph.value[k])
        else:
            place[k] = getattr(routine, op)(*[place[a] for a in graph.args[k]])
    routine.inputs = {"shared": (0,), "each": (len(given),)}
    routine.outputs["result"] = Output((1, len(roots)), tuple(place[k] for k in roots))
    return routine, given
