"""The interpreter on dual numbers: the value of every node, and its derivative along directions.

Dual numbers x + x' e with e^2 = 0 carry a derivative through each operation by the chain rule, so
that it is exact but for rounding: there is no step to choose (Griewank and Walther 2008, chapter
3). These derivatives are of numbers and share nothing with those of `program.derivatives`, which
make graphs: one tests the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.program.graph import Graph
from featherlane.program.op import OPS
from featherlane.program.program import GraphFunction, Program, X, Y

Array = Any
Arrays = Mapping[str, Array]
Functions = Sequence[GraphFunction]


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
    row = OPS[op]
    assert row.evaluate is not None
    x = [dual.value for dual in operands]
    with np.errstate(all="ignore"):  # inf and NaN are results like others
        value = row.evaluate(*x)
        if all(dual.rate is None for dual in operands):
            return Dual(value)
        return Dual(value, row.rate(x, [0.0 if d.rate is None else d.rate for d in operands]))
