"""Graphs as CasADi's scalar expressions (SX)."""

from __future__ import annotations

from typing import Any

from featherlane.errors import CompileError
from featherlane.interop.wrapped import required
from featherlane.program.graph import Graph

casadi = required("casadi", "casadi")


def _less_equal(a: Any, b: Any) -> Any:
    """a <= b: CasADi simplifies a <= a to 1, but it is 0 if a is NaN."""
    return casadi.fabs(a) <= casadi.inf if a is b else a <= b


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
    "less": lambda a, b: a < b,
    "less_equal": _less_equal,
    "select": lambda condition, a, b: casadi.if_else(condition, a, b),
}


def expressions(graph: Graph, symbols: dict[str, Any]) -> dict[str, list[Any]]:
    """The entries of each output of a graph of vectors, from those of its inputs."""
    values: list[Any] = []
    for op, args, value in zip(graph.op, graph.args, graph.value, strict=True):
        if op == "constant":
            values.append(casadi.SX(float(value)))
        elif op == "input":
            values.append(symbols[value[0]][value[1]])
        else:
            apply = OPERATIONS.get(op) or getattr(casadi, op, None)
            if apply is None:
                raise CompileError(f"CasADi has no operation {op!r}, which the graph uses")
            values.append(apply(*[values[a] for a in args]))
    return {name: [values[k] for k in out.nodes] for name, out in graph.outputs.items()}
