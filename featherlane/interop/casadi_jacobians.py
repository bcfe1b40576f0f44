"""The graph of all Jacobians of a graph: an output for each output and each input, as CasADi orders
entries, by columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from featherlane.algorithms.tangent import configuration_rate
from featherlane.api.model import Model
from featherlane.functions.table import CALLED
from featherlane.program.derivatives.graphs import jacobian
from featherlane.program.graph import Graph
from featherlane.program.nested import nest
from featherlane.program.trace import call, trace


def size(shape: Sequence[int]) -> tuple[int, int]:
    return (shape[0], shape[1]) if len(shape) == 2 else (math.prod(shape), 1)


def _column_order(shape: Sequence[int]) -> list[int]:
    """The places in C order of the entries in the order of columns."""
    n, m = size(shape)
    return [i * m + j for j in range(m) for i in range(n)]


def _blocks(graph: Graph, block: Any) -> Graph:
    """block(of, wrt, values): the Jacobian as rows of entries in C order."""

    def run(*inputs: Any) -> dict[str, Any]:
        values, entries = dict(zip(graph.inputs, inputs, strict=True)), {}
        for of, out in graph.outputs.items():
            for wrt, shape in graph.inputs.items():
                rows, columns = block(of, wrt, values), _column_order(shape)
                entries[f"{of} {wrt}"] = [
                    [rows[i][j] for j in columns] for i in _column_order(out.shape)
                ]
        return entries

    return trace(run, graph.inputs)


def jacobians(graph: Graph) -> Graph:
    return _blocks(graph, lambda of, wrt, values: _rows(graph, of, wrt, values))


def _rows(graph: Graph, of: str, wrt: str, values: dict[str, Any]) -> Any:
    entries = _flat(call(jacobian(graph, of, wrt), **values)[f"d{of}_d{wrt}"])
    return nest(entries, (math.prod(graph.outputs[of].shape), math.prod(graph.inputs[wrt])))


def _flat(x: Any) -> list[Any]:
    return [entry for part in x for entry in _flat(part)] if isinstance(x, list) else [x]


def analytic(model: Model, function: str, graph: Graph, options: dict[str, Any]) -> Graph:
    """The Jacobians of a model's function, from its other functions where there are any."""
    known = CALLED[function].jacobians
    others = {
        name: model.graph(name, **({} if name == "mass_matrix" else options))
        for name in {name for name, _ in known.values()}
        if not {"params", "method"} & options.keys()
    }

    def block(of: str, wrt: str, values: dict[str, Any]) -> Any:
        name, out = known.get(wrt, ("", ""))
        if name in others:
            rows = call(others[name], **values)[out]
            return _by_entries(model, values["q"], rows) if wrt == "q" else rows
        return _rows(graph, of, wrt, values)

    return _blocks(graph, block)


def _by_entries(model: Model, q: Any, rows: Any) -> Any:
    """A Jacobian by the entries of q, from one by those of v: times the pseudo-inverse of N in
    dq/dt = N(q) v. The columns of N are orthogonal, and functions do not depend on what N does not
    reach, the lengths of quaternions.
    """
    rate = trace(lambda q, v: configuration_rate(model, q, v), {"q": model.nq, "v": model.nv})
    N = call(jacobian(rate, "out", "v"), q=q, v=[0.0] * model.nv)["dout_dv"]
    squares = [sum((row[j] * row[j] for row in N), 0.0) for j in range(model.nv)]
    scaled = [[row[j] / squares[j] for j in range(model.nv)] for row in N]
    return [
        [sum((r * n for r, n in zip(row, ns, strict=True)), 0.0) for ns in scaled] for row in rows
    ]
