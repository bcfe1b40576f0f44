"""The calls of a program as arrays, for a backend that runs them one after another or in lanes."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from featherlane.program.calls import rows_of
from featherlane.program.graph import Graph
from featherlane.program.program import Program


class FunctionCalls(NamedTuple):
    """The calls of one function, by row: the nodes that it reads, its constants, its results."""

    graph: Graph
    reads: np.ndarray
    constants: np.ndarray
    gives: np.ndarray


class CallList(NamedTuple):
    """All calls. order: (calls, 2), the function and which of its calls, as they may run one by
    one; inputs: the first node and the shape of each; outputs: the shape and the entries of each,
    nodes or numbers; size: of the main graph.
    """

    functions: list[FunctionCalls]
    order: np.ndarray
    inputs: list[tuple[int, tuple[int, ...]]]
    outputs: list[tuple[tuple[int, ...], list[int | float]]]
    size: int


def call_list(program: Program) -> CallList:
    """The calls of a program as `passes.dead_results` leaves it."""
    main, functions, order = program.main, list[FunctionCalls](), list[tuple[int, int, int]]()
    for f, nodes, operands in rows_of(main):
        graph, count = program.functions[f].graph, len(program.functions[f].results)
        values = [main.op[a] != "constant" for a in operands[0]]
        numbers = operands[:, [not value for value in values]]
        constants = np.array([float(main.value[a]) for a in numbers.flat]).reshape(numbers.shape)
        gives = nodes[:, None] + 1 + np.arange(count)
        functions.append(FunctionCalls(graph, operands[:, values], constants, gives))
        order += [(k, f, c) for c, k in enumerate(nodes.tolist())]
    shapes = list(main.inputs.values())
    starts = accumulate(map(math.prod, shapes[:-1]), initial=0)
    entry = lambda k: float(main.value[k]) if main.op[k] == "constant" else k
    outputs = [(shape, [*map(entry, nodes)]) for shape, nodes in main.outputs.values()]
    rows = np.array([own[1:] for own in sorted(order)], int).reshape(-1, 2)
    return CallList(functions, rows, [*zip(starts, shapes, strict=False)], outputs, len(main))
