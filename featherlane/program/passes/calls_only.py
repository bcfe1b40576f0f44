"""Operations of the main graph as calls, for backends that run nothing but calls."""

from __future__ import annotations

from featherlane.program.graph import Graph, Output, entered, placed
from featherlane.program.op import ARITHMETIC, OPS
from featherlane.program.program import GraphFunction, Program, X, Y


def calls_only(program: Program) -> Program:
    """The program with one function more for each operation that main has, which is called instead.

    Conditions may only be read by a `select` in the same function: there are none in main.
    """
    main = program.main
    used = sorted(ARITHMETIC.intersection(main.op))
    if not used:
        return program
    number = {op: len(program.functions) + n for n, op in enumerate(used)}
    new, place = Graph(), list[int]()
    new.inputs = dict(main.inputs)
    for k, (op, args) in enumerate(zip(main.op, main.args, strict=True)):
        operands, new.current_tag = [place[a] for a in args], main.tag[k]
        called = op in ARITHMETIC
        place.append(
            new.call(number[op], operands, 1) + 1 if called else entered(main, new, k, operands)
        )
    new.outputs = placed(main.outputs, place)
    return Program(new, (*program.functions, *map(_function, used)))


def _function(op: str) -> GraphFunction:
    graph = Graph()
    operands = graph.declare(X, (OPS[op].arity or 0,))
    graph.outputs[Y] = Output((1,), (graph.node(op, *operands),))
    return GraphFunction(op, graph)
