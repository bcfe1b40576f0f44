"""The grammar of a graph, to be checked between passes and before a backend."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from featherlane.errors import CompileError
from featherlane.program.graph import Graph
from featherlane.program.op import OPS


def _constant(graph: Graph, k: int) -> Iterator[str]:
    value = graph.value[k]
    if value != "nan" and (not isinstance(value, float) or math.isnan(value)):
        yield f"its value is {value!r}, wanted a float or 'nan'"


def _input(graph: Graph, k: int) -> Iterator[str]:
    value = graph.value[k]
    if not isinstance(value, tuple) or len(value) != 2:
        yield f"its value is {value!r}, wanted a name and a position"
    elif value[0] not in graph.inputs:
        yield f"there is no input {value[0]!r}"
    elif not 0 <= value[1] < math.prod(graph.inputs[value[0]]):
        yield f"input {value[0]!r} of shape {graph.inputs[value[0]]} has no entry {value[1]}"


def _operation(graph: Graph, k: int) -> Iterator[str]:
    if graph.value[k] is not None:
        yield f"it has the value {graph.value[k]!r}: only inputs and constants have one"
    for position, a in enumerate(graph.args[k]):
        condition = graph.op[k] == "select" and position == 0
        if condition and graph.op[a] != "less":
            yield f"its condition is node {a}, {graph.op[a]}: wanted less"
        if not condition and graph.op[a] == "less":
            yield f"its operand {a} is a condition: only select takes one"


def _node(graph: Graph, k: int, allowed: Collection[str] | None) -> Iterator[str]:
    op, args = graph.op[k], graph.args[k]
    if op not in OPS:
        yield "no such operation"
    elif allowed is not None and op not in allowed:
        yield "this operation is not allowed here"
    elif len(args) != OPS[op].arity:
        yield f"it has {len(args)} operands, wanted {OPS[op].arity}"
    elif unknown := [a for a in args if not 0 <= a < k]:
        yield f"its operand {unknown[0]} is not an earlier node"
    else:
        yield from {"constant": _constant, "input": _input}.get(op, _operation)(graph, k)


def _outputs(graph: Graph) -> Iterator[str]:
    for name, (shape, nodes) in graph.outputs.items():
        if len(nodes) != math.prod(shape):
            wanted = math.prod(shape)
            yield f"output {name!r} of shape {shape} has {len(nodes)} entries, wanted {wanted}"
        for k in nodes:
            if not 0 <= k < len(graph):
                yield f"output {name!r} has the entry {k}: there is no such node"
            elif graph.op[k] == "less":
                yield f"output {name!r} has the entry {k} (less): a condition is no number"


def verify(graph: Graph, allowed: Collection[str] | None = None) -> None:
    """Check that a backend may trust the graph; with `allowed`, that it has these operations only.

    Raises CompileError with the number of the first bad node, its operation and what is wrong.
    """
    lengths = {len(column) for column in (graph.op, graph.args, graph.value, graph.stage)}
    if len(lengths) > 1:
        raise CompileError(f"the columns of the graph differ in length: {sorted(lengths)}")
    for k in range(len(graph)):
        for wrong in _node(graph, k, allowed):
            raise CompileError(f"node {k} ({graph.op[k]}): {wrong}")
    for wrong in _outputs(graph):
        raise CompileError(wrong)
