"""Rematerialisation at a boundary: what calls read is computed a second time, from few values.

An algorithm with two parts, such as forward dynamics and then its derivatives, leaves thousands of
values that wait from the first part for the second. Where it tells a `boundary`, the second part
becomes a function of its own, which computes them again from what the boundary hands over.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import chain

from featherlane.errors import CompileError
from featherlane.program.calls import calls_of
from featherlane.program.graph import Graph, Output, entered, placed, simplify
from featherlane.program.passes.order import depth_first
from featherlane.program.program import GraphFunction, Program, X, Y

DEAR = ("sin", "cos", "sqrt", "div")  # rather kept than computed again


def _part(graph: Graph, roots: list[int], known: Container[int]) -> tuple[Graph, list[int]]:
    """The graph that computes the nodes `roots`, one after another, from known ones, and those
    that it reads.
    """
    op = ["input" if k in known else op for k, op in enumerate(graph.op)]
    args = [() if k in known else args for k, args in enumerate(graph.args)]
    outputs = {Y: Output((len(roots),), tuple(roots))}
    part = graph.replaced(op=op, args=args, value=list(graph.value), outputs=outputs)
    operands = [k for k, needed in enumerate(part.live()) if needed and k in known]
    part.inputs = {X: (len(operands),)}
    for i, k in enumerate(operands):
        part.value[k] = X, i
    return simplify(part, depth_first(part, roots)), operands


def recompute(program: Program) -> Program:
    """The program in which one more function, the first, computes what differs from call to call,
    from the inputs, the boundary and what is dear. Without a boundary nothing changes.
    """
    main, handed = program.main, program.boundary
    calls = main.nodes_of("call")
    if not handed or not calls:
        return program
    if calls[0] < max(handed):
        raise CompileError("a boundary comes once, before all calls")
    known = {k for k, op in enumerate(main.op) if op in DEAR or op == "input"}.union(handed)
    rows = [row for own in calls_of(main) if not own.single for row in own.rows]
    roots = [k for k in dict.fromkeys(chain(*rows)) if main.args[k]]
    part, operands = _part(main, roots, known)
    before = {name: getattr(main, name)[: calls[0]] for name in ("op", "args", "value", "tag")}
    new, place = main.replaced(**before), [*range(calls[0])]
    first = new.call(0, operands, len(roots)) + 1
    again = {k: first + i for i, k in enumerate(roots)}
    for k in range(calls[0], len(main)):
        new.current_tag = main.tag[k]
        own = again if main.op[k] == "call" else {}
        args = [own.get(a, place[a]) for a in main.args[k]]
        place.append(entered(main, new, k, args, functions=1))
    new.outputs = placed(main.outputs, place)
    return Program(new, (GraphFunction("again", part), *program.functions))
