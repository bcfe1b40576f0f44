"""The interpreter on dual numbers: the value of every node, and its derivative along directions.

Dual numbers x + x' e with e^2 = 0 carry a derivative through each operation by the chain rule, so
that it is exact but for rounding: there is no step to choose (Griewank and Walther 2008, chapter
3). RULES are for numbers and share nothing with the rules of `program.derivatives` for graphs:
each tests the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.program.graph import Graph
from featherlane.program.op import OPS, quarter
from featherlane.program.program import GraphFunction, Program, X, Y

Array = Any
Arrays = Mapping[str, Array]
Functions = Sequence[GraphFunction]
Rule = Callable[[Sequence[Array], Sequence[Array]], Array]


class Dual(NamedTuple):
    """A number and its derivative, which is None where the number depends on no direction."""

    value: Array
    rate: Array | None = None


def evaluate(
    program: Graph | Program, values: Arrays, directions: Arrays
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the outputs (batch, *shape) by name, and their derivatives (..., batch, *shape) along
    directions, all in float64.

    values: an array (batch, *shape) for each input of the program. directions: arrays
    (..., batch, *shape) for the inputs that vary, with the same leading dimensions.
    """
    whole = program if isinstance(program, Program) else Program(program)
    entries = {
        name: _entries(values[name], directions.get(name), shape)
        for name, shape in whole.inputs.items()
    }
    duals = [dual for each in entries.values() for dual in each]
    batch = np.broadcast_shapes(*(np.shape(dual.value) for dual in duals))
    moving = np.broadcast_shapes(batch, *(np.shape(d.rate) for d in duals if d.rate is not None))
    wanted = [k for out in whole.outputs.values() for k in out.nodes]
    results = iter(_run(whole.main, entries, whole.functions, wanted))
    value, rate = {}, {}
    for name, out in whole.outputs.items():
        duals_of_output = [next(results) for _ in out.nodes]
        value[name] = _stacked([dual.value for dual in duals_of_output], batch, out.shape)
        rates = [0.0 if dual.rate is None else dual.rate for dual in duals_of_output]
        rate[name] = _stacked(rates, moving, out.shape)
    return value, rate


def _entries(value: Array, direction: Array | None, shape: tuple[int, ...]) -> list[Dual]:
    """Returns the entries of an input (..., *shape), each with its direction."""
    size = math.prod(shape)

    def flat(x: Array) -> list[Array]:
        x = np.asarray(x, float)
        return [*np.moveaxis(x.reshape(*x.shape[: x.ndim - len(shape)], size), -1, 0)]

    rates = [None] * size if direction is None else flat(direction)
    return [Dual(x, rate) for x, rate in zip(flat(value), rates, strict=True)]


def _stacked(parts: Sequence[Array], batch: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    flat = np.stack([np.broadcast_to(x, batch) for x in parts], -1) if parts else np.empty(0)
    return flat.reshape(*batch, *shape)


def _run(
    graph: Graph, entries: Mapping[str, Sequence[Dual]], functions: Functions, wanted: Sequence[int]
) -> list[Dual]:
    """Returns the wanted nodes of a graph. A node is dropped after its last use."""
    last_use = {a: k for k, args in enumerate(graph.args) for a in args} | dict.fromkeys(wanted)
    known: list[Any] = []
    for k, (op, args, value) in enumerate(zip(graph.op, graph.args, graph.value, strict=True)):
        operands = [known[a] for a in args]
        if op == "input":
            name, position = value
            known.append(entries[name][position])
        elif op == "constant":
            known.append(Dual(np.float64(value)))
        elif op == "call":
            called = functions[value].graph
            known.append(_run(called, {X: operands}, functions, called.outputs[Y].nodes))
        elif op == "result":
            known.append(operands[0][value])
        else:
            known.append(_applied(op, operands))
        for a in args:
            if last_use[a] == k:
                known[a] = None
    return [known[k] for k in wanted]


def _applied(op: str, operands: Sequence[Dual]) -> Dual:
    evaluate_op = OPS[op].evaluate
    assert evaluate_op is not None
    x = [dual.value for dual in operands]
    with np.errstate(all="ignore"):  # inf and NaN are results like others
        value = evaluate_op(*x)
        if all(dual.rate is None for dual in operands):
            return Dual(value)
        return Dual(value, RULES[op](x, [0.0 if d.rate is None else d.rate for d in operands]))


RULES: dict[str, Rule] = {
    "neg": lambda x, d: -d[0],
    "abs": lambda x, d: np.sign(x[0]) * d[0],
    "add": lambda x, d: d[0] + d[1],
    "sub": lambda x, d: d[0] - d[1],
    "mul": lambda x, d: x[0] * d[1] + d[0] * x[1],
    "fma": lambda x, d: x[0] * d[1] + d[0] * x[1] + d[2],
    "div": lambda x, d: (d[0] - x[0] / x[1] * d[1]) / x[1],
    "sqrt": lambda x, d: d[0] / (2 * np.sqrt(x[0])),
    "sin": lambda x, d: np.cos(x[0]) * d[0],
    "cos": lambda x, d: -np.sin(x[0]) * d[0],
    "exp": lambda x, d: np.exp(x[0]) * d[0],
    "expm1": lambda x, d: np.exp(x[0]) * d[0],
    "log": lambda x, d: d[0] / x[0],
    "log1p": lambda x, d: d[0] / (1 + x[0]),
    "tanh": lambda x, d: d[0] / np.cosh(x[0]) ** 2,
    "asin": lambda x, d: d[0] / np.sqrt((1 - x[0]) * (1 + x[0])),
    "acos": lambda x, d: -d[0] / np.sqrt((1 - x[0]) * (1 + x[0])),
    "atan2": lambda x, d: (x[1] * d[0] - x[0] * d[1]) / (x[0] ** 2 + x[1] ** 2),
    "power_of_two": lambda x, d: None,
    "exponent": lambda x, d: None,
    "copysign": lambda x, d: np.copysign(1.0, x[0]) * np.copysign(1.0, x[1]) * d[0],
    "round": lambda x, d: None,
    "quarter": lambda x, d: quarter(x[0], d[1], d[2]),
    "less": lambda x, d: None,
    "less_equal": lambda x, d: None,
    "select": lambda x, d: np.where(x[0], d[1], d[2]),
}
"""The derivative of each operation on numbers, from its operands x and their derivatives d; None
for steps, which are constant between jumps, and for conditions, which are no numbers.
"""
