"""The grammar of a graph, which is checked between passes and before a backend reads it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from featherlane.errors import CompileError
from featherlane.program.graph import Graph
from featherlane.program.op import ARITHMETIC, CONDITIONS, OPS
from featherlane.program.program import GraphFunction, Program


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


def _call(graph: Graph, k: int) -> Iterator[str]:
    if not isinstance(graph.value[k], int):
        yield f"its value is {graph.value[k]!r}, wanted the number of a function"


def _result(graph: Graph, k: int) -> Iterator[str]:
    call, value = graph.args[k][0], graph.value[k]
    if graph.op[call] != "call" or value != k - call - 1:
        yield f"it is result {value!r} of node {call}, {graph.op[call]}: results follow their call"


def _operation(graph: Graph, k: int) -> Iterator[str]:
    if graph.value[k] is not None:
        yield f"it has the value {graph.value[k]!r}: operations have none"
    for position, a in enumerate(graph.args[k]):
        condition = graph.op[k] == "select" and position == 0
        if condition and graph.op[a] not in CONDITIONS:
            yield f"its condition is node {a}, {graph.op[a]}: wanted less or less_equal"
        if not condition and graph.op[a] in CONDITIONS:
            yield f"its operand {a} is a condition: only select takes one"


def _node(graph: Graph, k: int, allowed: Collection[str] | None) -> Iterator[str]:
    op, args = graph.op[k], graph.args[k]
    if op not in OPS:
        yield "no such operation"
    elif allowed is not None and op not in allowed:
        yield "this operation is not allowed here"
    elif OPS[op].arity is not None and len(args) != OPS[op].arity:
        yield f"it has {len(args)} operands, wanted {OPS[op].arity}"
    elif unknown := [a for a in args if not 0 <= a < k]:
        yield f"its operand {unknown[0]} is not an earlier node"
    else:
        yield from VALUED.get(op, _operation)(graph, k)


VALUED = {"constant": _constant, "input": _input, "call": _call, "result": _result}


SIMPLE = ARITHMETIC - {"select"}  # operations that `verify` checks at a glance


def _outputs(graph: Graph) -> Iterator[str]:
    for name, (shape, nodes) in graph.outputs.items():
        if len(nodes) != math.prod(shape):
            wanted = math.prod(shape)
            yield f"output {name!r} of shape {shape} has {len(nodes)} entries, wanted {wanted}"
        for k in nodes:
            if not 0 <= k < len(graph):
                yield f"output {name!r} has the entry {k}: there is no such node"
            elif graph.op[k] in CONDITIONS:
                entry = f"output {name!r} has the entry {k} ({graph.op[k]})"
                yield f"{entry}: a condition is no number"


def verify(
    graph: Graph,
    allowed: Collection[str] | None = None,
    functions: Sequence[tuple[int, int]] | None = None,
) -> None:
    """Check that a backend may trust the graph; with `allowed`, that it has these operations only;
    with `functions`, the parameters and results of each, that its calls are of these.

    Raises CompileError with the number of the first bad node, its operation and what is wrong.
    """
    lengths = {len(column) for column in (graph.op, graph.args, graph.value, graph.tag)}
    if len(lengths) > 1:
        raise CompileError(f"the columns of the graph differ in length: {sorted(lengths)}")
    simple = {op: OPS[op].arity for op in SIMPLE.intersection(OPS if allowed is None else allowed)}
    calls = allowed is None or "call" in allowed
    conditions = {k for op in CONDITIONS for k in graph.nodes_of(op)}
    k, end = 0, len(graph)
    while k < end:
        op, args, value = graph.op[k], graph.args[k], graph.value[k]
        if op in simple and len(args) == simple[op] and value is None:
            sound = min(args) >= 0 and max(args) < k and conditions.isdisjoint(args)
        elif op == "call" and args and type(value) is int:
            sound = calls and min(args) >= 0 and max(args) < k
        else:
            sound = op == "constant" and not args and type(value) is float and value == value
        for wrong in () if sound else _node(graph, k, allowed):
            raise CompileError(f"node {k} ({op}): {wrong}")
        k += 1
        if op == "call" and functions is not None:
            k += _checked_results(graph, k - 1, functions)
    for wrong in _outputs(graph):
        raise CompileError(wrong)


def _checked_results(graph: Graph, k: int, functions: Sequence[tuple[int, int]]) -> int:
    """Returns how many well-formed results follow call k, which need no further check. Raises
    CompileError for a call that does not fit its function.
    """
    f = graph.value[k]
    if not 0 <= f < len(functions):
        raise CompileError(f"node {k} (call): there is no function {f} before it")
    parameters, count = functions[f]
    rest, after = slice(k + 1, k + 1 + count), slice(k + 1 + count, k + 2 + count)
    whole = graph.op[rest] == ["result"] * count and graph.op[after] != ["result"]
    if len(graph.args[k]) != parameters or not whole:
        counts, wanted = (len(graph.args[k]), len(graph.results(k))), functions[f]
        raise CompileError(
            f"node {k} (call): it has {counts} operands and results, wanted {wanted}"
        )
    well_formed = graph.args[rest] == [(k,)] * count and graph.value[rest] == [*range(count)]
    return count if well_formed else 0


def verify_program(program: Program, allowed: Collection[str] | None = None) -> None:
    """Check all graphs of a program, and that each call has the operands and results of its
    function, which is an earlier one of the program.

    Raises CompileError as `verify` does, with the name of the function in front.
    """
    known: list[tuple[int, int]] = []  # the parameters and results of each function so far
    for function in (*program.functions, GraphFunction("main", program.main)):
        try:
            verify(function.graph, allowed, known)
        except CompileError as error:
            raise CompileError(f"{function.name}: {error}") from None
        if function.graph is not program.main:
            known.append((function.parameters, len(function.results)))
