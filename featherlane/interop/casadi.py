"""CasADi: `to_casadi` makes a Function of a graph, with the package's derivatives inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from featherlane.api.model import Model
from featherlane.errors import CompileError, instead
from featherlane.functions.table import BY_NAME
from featherlane.interop.casadi_jacobians import analytic, jacobians, size
from featherlane.interop.wrapped import required
from featherlane.program.graph import Graph
from featherlane.program.rewrite import simplify

casadi = required("casadi", "casadi")


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison without CasADi's simplifications, for which a <= a holds even if a is NaN."""

    def of_two(a: Any, b: Any) -> Any:
        simplifies = casadi.GlobalOptions.getSimplificationOnTheFly()
        casadi.GlobalOptions.setSimplificationOnTheFly(False)
        try:
            return compare(a, b)
        finally:
            casadi.GlobalOptions.setSimplificationOnTheFly(simplifies)

    return of_two


def _rounded(a: Any) -> Any:
    """The nearest integer, halves to even: CasADi has no such function."""
    size = casadi.fabs(a)
    below = casadi.floor(size)
    rest, odd = size - below, below - 2 * casadi.floor(below / 2)  # both are exact
    up = casadi.logic_or(rest > 0.5, casadi.logic_and(rest == 0.5, odd == 1))
    return casadi.copysign(casadi.if_else(up, below + 1, below), a)


def _quarter(k: Any, s: Any, c: Any) -> Any:
    """s, c, -s, -c for k = 0, 1, 2, 3 modulo 4; NaN for a k that is not finite."""
    turns = k - 4 * casadi.floor(k / 4)
    last = casadi.if_else(turns == 3, -c, turns)
    rest = casadi.if_else(turns == 2, -s, last)
    return casadi.if_else(turns == 0, s, casadi.if_else(turns == 1, c, rest))


OPERATIONS: dict[str, Any] = {  # operations of graphs that CasADi spells in another way
    "neg": lambda a: -a,
    "abs": casadi.fabs,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "round": _rounded,
    "quarter": _quarter,
    "power_of_two": lambda a: 2**a,
    "less": _compared(lambda a, b: a < b),
    "less_equal": _compared(lambda a, b: a <= b),
    "select": lambda condition, a, b: casadi.if_else(condition, a, b),
}


def to_casadi(
    source: Graph | Model, function: str | None = None, *, name: str | None = None, **options: Any
) -> Any:
    """Returns a casadi.Function with the inputs and outputs of a graph, or of a function of a
    model.

    function, options: as in `Model.graph`, if source is a model. Jacobians are derivatives of the
    graph, or analytic derivatives where the package has them; Jacobians of Jacobians are CasADi's.
    Derivatives with respect to q are with respect to its nq entries. Arrays of more than two
    dimensions become columns in C order. Raises CompileError, with the name of the operation, for
    a graph with an operation that CasADi lacks.

    Examples:
        >>> from featherlane.interop.casadi import to_casadi
        >>> to_casadi(arm, "inverse_dynamics")
        Function(inverse_dynamics:(q[2],v[2],a[2])->(tau[2]) SXFunction)
    """
    if isinstance(source, Graph):
        graph, blocks, label = source, jacobians(source), name or "graph"
    elif function is None or function not in BY_NAME:
        raise ValueError(f"there is no function {function!r}{instead(function, BY_NAME)}")
    else:
        graph = source.graph(function, **options)
        blocks, label = analytic(source, function, graph, options), name or function
    graph = simplify(graph)
    symbols, results = _walked(graph)
    inputs, outputs = [*graph.inputs], [_free(x, graph.inputs) for x in graph.outputs]
    taken, (dense,) = _walked(blocks, symbols), [[*symbols.values()]]
    known = [casadi.SX.sym(f"out_{o}", *x.shape) for o, x in zip(outputs, results, strict=True)]
    jacobian_function = casadi.Function(
        f"jac_{label}",
        [*dense, *known],
        taken[1],
        [*inputs, *[f"out_{o}" for o in outputs]],
        [f"jac_{o}_{x}" for o in outputs for x in inputs],
    )
    # A Jacobian is asked for as a whole: products with it would be CasADi's derivatives again
    whole = {"custom_jacobian": jacobian_function, "enable_forward": False, "enable_reverse": False}
    return casadi.Function(
        label, dense, results, inputs, outputs, {**whole, "jac_penalty": 0, "never_inline": True}
    )


def _free(name: str, taken: Any) -> str:
    return f"{name}_out" if name in taken else name


def _walked(graph: Graph, symbols: dict[str, Any] | None = None) -> tuple[dict[str, Any], list]:
    """The symbols of a graph's inputs, and its outputs as expressions of them."""
    if symbols is None:
        symbols = {x: casadi.SX.sym(x, *size(shape)) for x, shape in graph.inputs.items()}
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
                raise CompileError(f"CasADi has no operation {op!r}, which the graph uses")
            values.append(apply(*[values[a] for a in args]))
    results = []
    for out in graph.outputs.values():
        n, m = size(out.shape)
        entries = casadi.vertcat(*[values[k] for k in out.nodes])
        results.append(casadi.reshape(entries, m, n).T)
    return symbols, results
