"""Constant and copy propagation through calls."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from featherlane.program.calls import OperandTable, operand_tables
from featherlane.program.graph import Graph, Output
from featherlane.program.program import GraphFunction, Program, Y
from featherlane.program.rewrite import rewrite


def _shared(tables: OperandTable, known: np.ndarray) -> dict[int, float]:
    """The parameters that are the same known number in all calls."""
    values = known[tables.operands]
    return {int(i): float(values[0, i]) for i in np.flatnonzero((values == values[0]).all(axis=0))}


def _with_numbers(graph: Graph, numbers: Mapping[int, float]) -> Graph:
    """A function's graph with numbers in place of some of its parameters."""
    rules = {}
    for k, (op, value) in enumerate(zip(graph.op, graph.value, strict=True)):
        if op == "input" and value[1] in numbers:
            rules[k] = lambda new, number=numbers[value[1]]: new.constant(number)
    return rewrite(graph, rules)


def _folded(program: Program, tables: list[OperandTable]) -> tuple[list[Graph], np.ndarray]:
    """The graphs of functions with the numbers folded in that all calls share, and the number that
    each node of main is known to be, or NaN. Repeats until no further node becomes known.
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
        for table in tables:
            f, numbers = table.function, _shared(table, known)
            if numbers == used[f]:
                continue
            used[f], graphs[f] = numbers, _with_numbers(program.functions[f].graph, numbers)
            for i, node in enumerate(graphs[f].outputs[Y].nodes):
                if (number := graphs[f].number(node)) is not None:
                    known[table.nodes + 1 + i] = number
                    again = True
    return graphs, known


def _copies(main: Graph, tables: list[OperandTable], graphs: list[Graph]) -> np.ndarray:
    """For each node of main the first node that it is a copy of, through functions that return a
    parameter. Constants are not propagated as copies: a parameter would be a constant in some calls
    and none in others.
    """
    same = np.arange(len(main))
    for table in tables:
        graph = graphs[table.function]
        for i, node in enumerate(graph.outputs[Y].nodes):
            if graph.op[node] == "input":
                operands = table.operands[:, graph.value[node][1]]
                if main.op[operands[0]] != "constant":
                    same[table.nodes + 1 + i] = operands
    while ((further := same[same]) != same).any():
        same = further
    return same


def propagate(program: Program) -> Program:
    """The program in which numbers that all calls of a function share are folded into it, and
    copies are read at their source. Functions keep all their parameters and results.
    """
    main, tables = program.main, operand_tables(program.main)
    graphs, known = _folded(program, tables)
    same = _copies(main, tables, graphs)
    args = list(main.args)
    for table in tables:
        for k, operands in zip(table.nodes.tolist(), same[table.operands].tolist(), strict=True):
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
