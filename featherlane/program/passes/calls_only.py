"""Operations of the main graph as calls, for backends that run nothing but calls."""

from __future__ import annotations

from featherlane.program.graph import Graph, Output
from featherlane.program.op import ARITHMETIC, OPS
from featherlane.program.program import GraphFunction, Program, X, Y
from featherlane.program.rewrite import entered, placed


def calls_only(program: Program) -> Program:
    """The program in which each operation of main is a call of a function of that operation alone.

    Conditions may only be read by a `select` in the same function, so main must have none.
    """
    main = program.main
    used = sorted(ARITHMETIC.intersection(main.op))
    if not used:
        return program
    number = {op: len(program.functions) + n for n, op in enumerate(used)}
    new, node_map = Graph(), list[int]()
    new.inputs = dict(main.inputs)
    for k, (op, args) in enumerate(zip(main.op, main.args, strict=True)):
        operands, new.current_tag = [node_map[a] for a in args], main.tag[k]
        called = op in ARITHMETIC
        node_map.append(
            new.call(number[op], operands, 1) + 1 if called else entered(main, new, k, operands)
        )
    new.outputs = placed(main.outputs, node_map)
    return Program(new, (*program.functions, *map(_function, used)))


def _function(op: str) -> GraphFunction:
    graph = Graph()
    operands = graph.declare(X, (OPS[op].arity or 0,))
    graph.outputs[Y] = Output((1,), (graph.node(op, *operands),))
    return GraphFunction(op, graph)
