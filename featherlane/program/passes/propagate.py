"""Constants and copies, propagated through calls."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from featherlane.program.calls import OperandTable, operand_tables
from featherlane.program.graph import Graph, Output, rewrite
from featherlane.program.program import GraphFunction, Program, Y


def _shared(rows: OperandTable, known: np.ndarray) -> dict[int, float]:
    """The parameters that are one known number in all calls."""
    values = known[rows.operands]
    return {int(i): float(values[0, i]) for i in np.flatnonzero((values == values[0]).all(axis=0))}


def _with_numbers(graph: Graph, numbers: Mapping[int, float]) -> Graph:
    """A function's graph with numbers in place of some of its parameters."""
    rules = {}
    for k, (op, value) in enumerate(zip(graph.op, graph.value, strict=True)):
        if op == "input" and value[1] in numbers:
            rules[k] = lambda new, number=numbers[value[1]]: new.constant(number)
    return rewrite(graph, rules)


def _folded(program: Program, rows: list[OperandTable]) -> tuple[list[Graph], np.ndarray]:
    """The graphs of functions with the numbers in them that all calls share, and for each node of
    main the number that it is then known to be, or NaN: until nothing more is known.
    """
    main = program.main
    graphs = [function.graph for function in program.functions]
    known = np.full(len(main), np.nan)
    for k, op in enumerate(main.op):
        if op == "constant" and main.value[k] != "nan":
            known[k] = main.value[k]
    used: list[dict[int, float]] = [{} for _ in graphs]
    again = True
    while again:
        again = False
        for own in rows:
            f, numbers = own.function, _shared(own, known)
            if numbers == used[f]:
                continue
            used[f], graphs[f] = numbers, _with_numbers(program.functions[f].graph, numbers)
            for i, node in enumerate(graphs[f].outputs[Y].nodes):
                if (number := graphs[f].number(node)) is not None:
                    known[own.nodes + 1 + i] = number
                    again = True
    return graphs, known


def _copies(main: Graph, rows: list[OperandTable], graphs: list[Graph]) -> np.ndarray:
    """Of each node of main the first that it is equal to, as functions hand parameters on. Numbers
    stay where they are: a parameter would be one in some calls and not in others.
    """
    same = np.arange(len(main))
    for own in rows:
        graph = graphs[own.function]
        for i, node in enumerate(graph.outputs[Y].nodes):
            if graph.op[node] == "input":
                operands = own.operands[:, graph.value[node][1]]
                if main.op[operands[0]] != "constant":
                    same[own.nodes + 1 + i] = operands
    while ((further := same[same]) != same).any():
        same = further
    return same


def propagate(program: Program) -> Program:
    """The program in which numbers that all calls of a function share are folded into it, and what
    a call only hands on is read where it comes from. Parameters and results stay as many.
    """
    main, rows = program.main, operand_tables(program.main)
    graphs, known = _folded(program, rows)
    same = _copies(main, rows, graphs)
    args = list(main.args)
    for own in rows:
        for k, operands in zip(own.nodes.tolist(), same[own.operands].tolist(), strict=True):
            args[k] = tuple(operands)
    new = main.replaced(args=args, **{x: list(getattr(main, x)) for x in ("op", "value", "tag")})
    new.outputs = {
        name: Output(shape, tuple(_final(new, int(same[k]), known) for k in nodes))
        for name, (shape, nodes) in main.outputs.items()
    }
    functions = zip(program.functions, graphs, strict=True)
    return Program(new, tuple(GraphFunction(f.name, graph) for f, graph in functions))


def _final(main: Graph, k: int, known: np.ndarray) -> int:
    """The node of an output entry: a constant where its number is known."""
    return k if np.isnan(known[k]) else main.constant(float(known[k]))
