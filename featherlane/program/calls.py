"""The calls of each function in a main graph: operands that all calls share, and operands that
vary from call to call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from featherlane.program.graph import Graph


class Calls(NamedTuple):
    """The calls of one function.

    nodes: the call nodes; shared: the operand of each parameter whose operand is the same in all
    calls; varying: the other parameters; rows: for each call, its operands of `varying`. A single
    call shares nothing: all its operands are its row.
    """

    function: int
    nodes: list[int]
    shared: dict[int, int]
    varying: list[int]
    rows: list[list[int]]

    @property
    def single(self) -> bool:
        return len(self.nodes) == 1


def calls_of(graph: Graph) -> list[Calls]:
    """The calls of each function that is called, by the numbers of functions."""
    return [_calls(graph, f, nodes) for f, nodes in sorted(_nodes(graph).items())]


def _nodes(graph: Graph) -> dict[int, list[int]]:
    """The call nodes of each function."""
    nodes: dict[int, list[int]] = {}
    for k in graph.nodes_of("call"):
        nodes.setdefault(graph.value[k], []).append(k)
    return nodes


def _calls(graph: Graph, function: int, nodes: list[int]) -> Calls:
    columns = [*zip(*(graph.args[k] for k in nodes), strict=True)]
    is_shared = [len(nodes) > 1 and len(set(column)) == 1 for column in columns]
    shared = {i: columns[i][0] for i, is_same in enumerate(is_shared) if is_same}
    varying = [i for i, is_same in enumerate(is_shared) if not is_same]
    rows = [[graph.args[k][i] for i in varying] for k in nodes]
    return Calls(function, nodes, shared, varying, rows)


class OperandTable(NamedTuple):
    """The calls of one function as arrays: nodes (calls,), operands (calls, parameters)."""

    function: int
    nodes: np.ndarray
    operands: np.ndarray


def operand_tables(graph: Graph) -> list[OperandTable]:
    """The calls of each function that is called, by the numbers of functions."""
    return [
        OperandTable(
            f,
            np.array(calls),
            np.array([graph.args[k] for k in calls], int).reshape(len(calls), -1),
        )
        for f, calls in sorted(_nodes(graph).items())
    ]
