"""CasADi: `to_casadi` makes a Function of a graph, with the package's derivatives inside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from featherlane.algorithms.tangent import configuration_rate
from featherlane.api.model import Model
from featherlane.functions.table import TABLE
from featherlane.interop.wrapped import required
from featherlane.program.derivatives.graphs import jacobian
from featherlane.program.graph import Graph, simplify
from featherlane.program.nested import nest
from featherlane.program.trace import call, trace

casadi = required("casadi", "casadi")
OPERATIONS: dict[str, Any] = {  # operations of graphs that CasADi spells in another way
    "neg": lambda a: -a,
    "abs": casadi.fabs,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "less": lambda a, b: a < b,
    "select": lambda condition, a, b: casadi.if_else(condition, a, b),
}
ANALYTIC = {  # by function, then input: where its Jacobian is, by entries of v
    "inverse_dynamics": {
        "q": ("inverse_dynamics_derivatives", "dtau_dq"),
        "v": ("inverse_dynamics_derivatives", "dtau_dv"),
        "a": ("mass_matrix", "M"),
    },
    "forward_dynamics": {
        "q": ("forward_dynamics_derivatives", "da_dq"),
        "v": ("forward_dynamics_derivatives", "da_dv"),
        "tau": ("forward_dynamics_derivatives", "da_dtau"),
    },
}


def to_casadi(
    source: Graph | Model, function: str | None = None, *, name: str | None = None, **options: Any
) -> Any:
    """A casadi.Function with the inputs and outputs of a graph, or of a function of a model.

    function, options: as in `Model.graph`, where source is a model. Jacobians come from the graph's
    derivatives, or from analytic ones where the package has them; those of Jacobians are CasADi's. q counts by its nq entries.
    Arrays of more than two dimensions become columns in C order.
    """
    if isinstance(source, Graph):
        graph, jacobians, told = source, _jacobians(source), name or "graph"
    elif function is None or function not in TABLE:
        raise ValueError(f"function is {function!r}: wanted one of {', '.join(TABLE)}")
    else:
        graph = source.graph(function, **options)
        jacobians, told = _analytic(source, function, graph, options), name or function
    graph = simplify(graph)
    symbols, results = _walked(graph)
    inputs, outputs = [*graph.inputs], [_free(x, graph.inputs) for x in graph.outputs]
    taken, (dense,) = _walked(jacobians, symbols), [[*symbols.values()]]
    known = [casadi.SX.sym(f"out_{o}", *x.shape) for o, x in zip(outputs, results, strict=True)]
    own = casadi.Function(
        f"jac_{told}",
        [*dense, *known],
        taken[1],
        [*inputs, *[f"out_{o}" for o in outputs]],
        [f"jac_{o}_{x}" for o in outputs for x in inputs],
    )
    # A Jacobian is asked for as a whole: products with it would be CasADi's derivatives again
    whole = {"custom_jacobian": own, "enable_forward": False, "enable_reverse": False}
    return casadi.Function(
        told, dense, results, inputs, outputs, {**whole, "jac_penalty": 0, "never_inline": True}
    )


def _free(name: str, taken: Any) -> str:
    return f"{name}_out" if name in taken else name


def _walked(graph: Graph, symbols: dict[str, Any] | None = None) -> tuple[dict[str, Any], list]:
    """The symbols of a graph's inputs, and its outputs as expressions of them."""
    if symbols is None:
        symbols = {x: casadi.SX.sym(x, *_size(shape)) for x, shape in graph.inputs.items()}
    rows = {x: casadi.vec(s.T) for x, s in symbols.items()}  # entries in C order
    values: list[Any] = []
    for op, args, value in zip(graph.op, graph.args, graph.value, strict=True):
        if op == "constant":
            values.append(casadi.SX(float(value)))
        elif op == "input":
            values.append(rows[value[0]][value[1]])
        else:
            apply = OPERATIONS.get(op) or getattr(casadi, op, None)
            if apply is None:
                raise ValueError(f"CasADi has no operation {op!r}, which the graph uses")
            values.append(apply(*[values[a] for a in args]))
    results = []
    for out in graph.outputs.values():
        n, m = _size(out.shape)
        entries = casadi.vertcat(*[values[k] for k in out.nodes])
        results.append(casadi.reshape(entries, m, n).T)
    return symbols, results


def _size(shape: Sequence[int]) -> tuple[int, int]:
    return (shape[0], shape[1]) if len(shape) == 2 else (math.prod(shape), 1)


# The graph of all Jacobians: an output for each output and each input, as CasADi orders entries


def _column_order(shape: Sequence[int]) -> list[int]:
    """The places in C order of the entries in the order of columns."""
    n, m = _size(shape)
    return [i * m + j for j in range(m) for i in range(n)]


def _blocks(graph: Graph, block: Any) -> Graph:
    """block(of, wrt, given): the Jacobian as rows of entries in C order."""

    def run(*inputs: Any) -> dict[str, Any]:
        given, made = dict(zip(graph.inputs, inputs, strict=True)), {}
        for of, out in graph.outputs.items():
            for wrt, shape in graph.inputs.items():
                rows, columns = block(of, wrt, given), _column_order(shape)
                made[f"{of} {wrt}"] = [[rows[i][j] for j in columns] for i in _column_order(out.shape)]
        return made

    return trace(run, graph.inputs)


def _jacobians(graph: Graph) -> Graph:
    return _blocks(graph, lambda of, wrt, given: _rows(graph, of, wrt, given))


def _rows(graph: Graph, of: str, wrt: str, given: dict[str, Any]) -> Any:
    entries = _flat(call(jacobian(graph, of, wrt), **given)[f"d{of}_d{wrt}"])
    return nest(entries, (math.prod(graph.outputs[of].shape), math.prod(graph.inputs[wrt])))


def _flat(x: Any) -> list[Any]:
    return [entry for part in x for entry in _flat(part)] if isinstance(x, list) else [x]


def _analytic(model: Model, function: str, graph: Graph, options: dict[str, Any]) -> Graph:
    """The Jacobians of a model's function, from the functions of `ANALYTIC` where there are any."""
    known = ANALYTIC.get(function, {})
    others = {
        name: model.graph(name, **({} if name == "mass_matrix" else options))
        for name in {name for name, _ in known.values()}
        if not {"params", "method"} & options.keys()
    }

    def block(of: str, wrt: str, given: dict[str, Any]) -> Any:
        name, out = known.get(wrt, ("", ""))
        if name in others:
            rows = call(others[name], **given)[out]
            return _by_entries(model, given["q"], rows) if wrt == "q" else rows
        return _rows(graph, of, wrt, given)

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
    return [[sum((r * n for r, n in zip(row, ns, strict=True)), 0.0) for ns in scaled] for row in rows]
