"""Rematerialisation at a boundary: operands of calls are computed a second time, from few values.

In an algorithm of two parts, such as forward dynamics and then its derivatives, thousands of values
of the first part stay live until the second. Where it states a `boundary`, the second part becomes
a separate function, which recomputes them from the values at the boundary.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import chain

from featherlane.errors import CompileError
from featherlane.program.calls import calls_of
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.order import depth_first
from featherlane.program.program import GraphFunction, Program, X, Y
from featherlane.program.rewrite import entered, placed, simplify

EXPENSIVE = ("sin", "cos", "sqrt", "div")  # retained, not recomputed


def _part(graph: Graph, roots: list[int], known: Container[int]) -> tuple[Graph, list[int]]:
    """The graph that computes the nodes `roots`, one after another, from known nodes, and the known
    nodes that it reads.
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
    """The program in which a further function, the first, recomputes the operands that differ from
    call to call, from the inputs, the boundary and expensive operations. Without a boundary nothing
    changes.
    """
    main, boundary = program.main, program.boundary
    call_nodes = main.nodes_of("call")
    if not boundary or not call_nodes:
        return program
    if call_nodes[0] < max(boundary):
        raise CompileError("a boundary comes once, before all calls")
    known = {k for k, op in enumerate(main.op) if op in EXPENSIVE or op == "input"}.union(boundary)
    rows = [row for calls in calls_of(main) if not calls.single for row in calls.rows]
    roots = [k for k in dict.fromkeys(chain(*rows)) if main.args[k]]
    part, operands = _part(main, roots, known)
    before = {name: getattr(main, name)[: call_nodes[0]] for name in ("op", "args", "value", "tag")}
    new, node_map = main.replaced(**before), [*range(call_nodes[0])]
    first = new.call(0, operands, len(roots)) + 1
    again = {k: first + i for i, k in enumerate(roots)}
    for k in range(call_nodes[0], len(main)):
        new.current_tag = main.tag[k]
        recomputed = again if main.op[k] == "call" else {}
        args = [recomputed.get(a, node_map[a]) for a in main.args[k]]
        node_map.append(entered(main, new, k, args, functions=1))
    new.outputs = placed(main.outputs, node_map)
    return Program(new, (GraphFunction("again", part), *program.functions))
