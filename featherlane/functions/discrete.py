"""Graphs in the form of discrete dynamics x+ = f(x, u, p), with their Jacobians, for solvers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from featherlane.program.derivatives.graphs import jacobian
from featherlane.program.graph import Graph
from featherlane.program.nested import nest
from featherlane.program.trace import call, trace
from featherlane.robot.parameters import PARAMETERS

CONTROLS = ("u", "tau")
CONSTANTS = ("p", "dt", "f_ext", *PARAMETERS)


class Groups(NamedTuple):
    """The inputs of a graph by the vector that they are parts of, in order: controls are "u" and
    "tau"; parameters are "p", "dt", "f_ext" and the robot's; all others are the state.
    """

    x: tuple[str, ...]
    u: tuple[str, ...]
    p: tuple[str, ...]


def groups(graph: Graph) -> Groups:
    names = [*graph.inputs]
    u = tuple(k for k in names if k in CONTROLS)
    p = tuple(k for k in names if k in CONSTANTS)
    return Groups(tuple(k for k in names if k not in u + p), u, p)


def entries(graph: Graph, names: Sequence[str]) -> int:
    """Returns the number of entries of these inputs together."""
    return sum(math.prod(graph.inputs[k]) for k in names)


def discrete(graph: Graph, with_jacobian: bool) -> Graph:
    """f(x, u, p) as a graph: its output "fun" has all outputs' entries, and "jac" the transposed
    Jacobian, rows by the entries of u and then of x. Vectors without entries are no inputs.
    """
    inputs = groups(graph)
    sizes = {k: entries(graph, names) for k, names in inputs._asdict().items()}

    def run(*vectors: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for which, vector in zip([k for k, n in sizes.items() if n], vectors, strict=True):
            rest = [*vector]
            for name in getattr(inputs, which):
                shape = graph.inputs[name]
                size = math.prod(shape)
                values[name], rest = nest(rest[:size], shape), rest[size:]
        outputs = {"fun": [*chain(*map(_flat, call(graph, **values).values()))]}
        if with_jacobian:
            columns = [_columns(graph, x, values) for x in (*inputs.u, *inputs.x)]
            outputs["jac"] = [*chain(*columns)]
        return outputs

    return trace(run, {k: n for k, n in sizes.items() if n})


def _columns(graph: Graph, wrt: str, values: dict[str, Any]) -> list[list[Any]]:
    """For each entry of an input the derivatives of all outputs."""
    size, rows = math.prod(graph.inputs[wrt]), list[Any]()
    for of, out in graph.outputs.items():
        flat = _flat(call(jacobian(graph, of, wrt), **values)[f"d{of}_d{wrt}"])
        rows += nest(flat, (math.prod(out.shape), size))
    return [[row[j] for row in rows] for j in range(size)]


def _flat(x: Any) -> list[Any]:
    return [entry for part in x for entry in _flat(part)] if isinstance(x, list) else [x]
