"""The calls of a program as arrays, for a backend that runs them one after another or in lanes."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from featherlane.program.calls import operand_tables
from featherlane.program.graph import Graph
from featherlane.program.program import Program


class FunctionCalls(NamedTuple):
    """The calls of one function, a row each: operands and results as nodes of the main graph, and
    the constant operands as numbers.
    """

    graph: Graph
    operands: np.ndarray
    constants: np.ndarray
    results: np.ndarray


class CallList(NamedTuple):
    """All calls of a program. order: (calls, 2), the function and the row of each call, in an
    order of evaluation; inputs: first node and shape of each; outputs: shape of each and its
    entries, nodes or numbers; size: nodes of the main graph.
    """

    functions: list[FunctionCalls]
    order: np.ndarray
    inputs: list[tuple[int, tuple[int, ...]]]
    outputs: list[tuple[tuple[int, ...], list[int | float]]]
    size: int


def call_list(program: Program) -> CallList:
    """The calls of a program, after the pass `dead_results` has put constant operands last."""
    main, functions, order = program.main, list[FunctionCalls](), list[tuple[int, int, int]]()
    for f, nodes, operands in operand_tables(main):
        graph, count = program.functions[f].graph, len(program.functions[f].results)
        values = [main.op[a] != "constant" for a in operands[0]]
        numbers = operands[:, [not value for value in values]]
        constants = np.array([float(main.value[a]) for a in numbers.flat]).reshape(numbers.shape)
        results = nodes[:, None] + 1 + np.arange(count)
        functions.append(FunctionCalls(graph, operands[:, values], constants, results))
        order += [(k, f, c) for c, k in enumerate(nodes.tolist())]
    shapes = list(main.inputs.values())
    starts = accumulate(map(math.prod, shapes[:-1]), initial=0)
    entry = lambda k: float(main.value[k]) if main.op[k] == "constant" else k
    outputs = [(shape, [*map(entry, nodes)]) for shape, nodes in main.outputs.values()]
    rows = np.array([call[1:] for call in sorted(order)], int).reshape(-1, 2)
    return CallList(functions, rows, [*zip(starts, shapes, strict=False)], outputs, len(main))
