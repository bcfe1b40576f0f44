"""Rematerialisation at a boundary: what calls read is computed a second time, from few values.

An algorithm with two parts, such as forward dynamics and then its derivatives, leaves thousands of
values that wait from the first part for the second. Where it tells a `boundary`, the second part
becomes a function of its own, which computes them again from what the boundary hands over.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import chain

from featherlane.errors import CompileError
from featherlane.program.calls import calls_of
from featherlane.program.graph import Graph, Output, entered, rewrite
from featherlane.program.passes.order import depth_first
from featherlane.program.program import GraphFunction, Program, X, Y

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


def _part(graph: Graph, roots: Sequence[int], known: Container[int]) -> tuple[Graph, list[int]]:
    """The graph that computes the nodes `roots`, one after another, from known ones, and those
    that it reads.
    """
    part, place = Graph(), dict[int, int]()
    operands: list[int] = []
    for k in _between(graph, roots, known):
        part.current_tag = graph.tag[k]
        if k in known:
            place[k] = part.node("input", value=(X, len(operands)))
            operands.append(k)
        else:
            place[k] = entered(graph, part, k, [place[a] for a in graph.args[k]])
    part.inputs = {X: (len(operands),)}
    part.outputs[Y] = Output((len(roots),), tuple(place[k] for k in roots))
    return rewrite(part, order=depth_first(part, [place[k] for k in roots])), operands


def recompute(program: Program) -> Program:
    """The program in which one more function, the first, computes what differs from call to call,
    from the inputs, the boundary and what is dear. Without a boundary nothing changes.
    """
    main, handed = program.main, program.boundary
    calls = [k for k, op in enumerate(main.op) if op == "call"]
    if not handed or not calls:
        return program
    if calls[0] < max(handed):
        raise CompileError("a boundary comes once, before all calls")
    known = {k for k, op in enumerate(main.op) if op in DEAR or op == "input"}.union(handed)
    rows = [row for own in calls_of(main) if not own.single for row in own.rows]
    roots = [k for k in dict.fromkeys(chain(*rows)) if main.args[k]]
    part, operands = _part(main, roots, known)
    new, place = Graph(), list[int]()
    new.inputs = dict(main.inputs)
    again: dict[int, int] = {}
    for k, (op, args) in enumerate(zip(main.op, main.args, strict=True)):
        if k == calls[0]:
            first = new.call(0, [place[a] for a in operands], len(roots)) + 1
            again = {k: first + i for i, k in enumerate(roots)}
        new.current_tag = main.tag[k]
        own = again if op == "call" else {}
        place.append(entered(main, new, k, [own.get(a, place[a]) for a in args], functions=1))
    for name, (shape, nodes) in main.outputs.items():
        new.outputs[name] = Output(shape, tuple(place[k] for k in nodes))
    return Program(new, (GraphFunction("again", part), *program.functions))
