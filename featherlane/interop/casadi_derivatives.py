"""The graphs of derivatives that CasADi asks for: all Jacobians, products with adjoints, and all
Jacobians of these products. All of their inputs and outputs are vectors of entries in CasADi's
order, by columns, or Jacobians of such vectors; their names are numbered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from featherlane.algorithms.tangent import configuration_rate
from featherlane.functions.differentiated import graph_of
from featherlane.functions.operations import Operation
from featherlane.functions.table import CALLED, Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.program.derivatives.graphs import hessian, jacobian, jacobians
from featherlane.program.derivatives.products import adjoints
from featherlane.program.graph import Graph
from featherlane.program.nested import nest
from featherlane.program.rewrite import simplify
from featherlane.program.trace import call, trace
from featherlane.robot.model import Robot

WEIGHT = "w"  # before the name of an output: weights of it; of an input: its adjoint
Matrix = list[list[Any]]
Blocks = dict[str, Any]  # outputs by their names


def size(shape: Sequence[int]) -> tuple[int, int]:
    return (shape[0], shape[1]) if len(shape) == 2 else (math.prod(shape), 1)


def _column_order(shape: Sequence[int]) -> list[int]:
    """The places in C order of the entries in the order of columns."""
    n, m = size(shape)
    return [i * m + j for j in range(m) for i in range(n)]


def _flat(x: Any) -> list[Any]:
    return [entry for part in x for entry in _flat(part)] if isinstance(x, list) else [x]


def numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]


def _nested(vector: Any, shape: Sequence[int]) -> Any:
    """The array of a shape whose entries, by columns, are a vector's."""
    places = zip(_column_order(shape), vector, strict=True)
    return nest([x for _, x in sorted(places, key=lambda at: at[0])], shape)


def in_columns(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """The graph with vectors of these names as inputs and outputs."""
    shapes = [*graph.inputs.values()]

    def run(*vectors: Any) -> Blocks:
        arrays = map(_nested, vectors, shapes)
        results = call(graph, **dict(zip(graph.inputs, arrays, strict=True)))
        flat = [(_flat(x), graph.outputs[y].shape) for y, x in results.items()]
        columns = [[entries[i] for i in _column_order(shape)] for entries, shape in flat]
        return dict(zip(outputs, columns, strict=True))

    vectors = [(math.prod(shape),) for shape in shapes]
    return simplify(trace(run, dict(zip(inputs, vectors, strict=True))))


def _transposed(rows: Matrix) -> Matrix:
    return [list(column) for column in zip(*rows, strict=True)]


def _product(a: Matrix, b: Matrix) -> Matrix:
    columns = _transposed(b)
    return [[_dot(row, column) for column in columns] for row in a]


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), 0.0)


def _sum(a: Matrix, b: Matrix) -> Matrix:
    return [[x + y for x, y in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)]


class Derivatives:
    """The derivatives of a graph with the inputs x0, x1 ... and the outputs y0, y1 ..."""

    def __init__(self, graph: Graph) -> None:
        self.inputs = numbered("x", len(graph.inputs))
        self.outputs = numbered("y", len(graph.outputs))
        self.value = in_columns(graph, self.inputs, self.outputs)

    def _traced(self, blocks: Any, shapes: dict[str, Any]) -> Graph:
        """The graph of a function of named inputs."""
        run = lambda *vectors: blocks(dict(zip(shapes, vectors, strict=True)))
        return simplify(trace(run, shapes))

    @property
    def _weighted_inputs(self) -> dict[str, Any]:
        weights = {WEIGHT + y: self.value.outputs[y].shape for y in self.outputs}
        return {**self.value.inputs, **weights}

    @cached_property
    def jacobian(self) -> Graph:
        """The Jacobians "dy0_dx0" of each output by each input."""
        return self._traced(self._jacobians, self.value.inputs)

    def _jacobians(self, values: dict[str, Any]) -> Blocks:
        return call(jacobians(self.value, self.outputs, self.inputs), **values)

    @cached_property
    def adjoint(self) -> Graph:
        """The derivatives "wx0" by each input of all outputs times weights "wy0"."""
        return adjoints(self.value, self.inputs, WEIGHT)

    @cached_property
    def adjoint_jacobian(self) -> Graph:
        """The Jacobians of `adjoint` by inputs, "dwx0_dx1", and by weights, "dwx0_dwy0"."""

        def blocks(values: dict[str, Any]) -> Blocks:
            first = call(self.jacobian, **{x: values[x] for x in self.inputs})
            by_weights = {
                f"d{WEIGHT}{x}_d{WEIGHT}{y}": _transposed(first[f"d{y}_d{x}"])
                for x in self.inputs
                for y in self.outputs
            }
            return self._hessians(values, first) | by_weights

        return self._traced(blocks, self._weighted_inputs)

    def _hessians(self, values: dict[str, Any], first: Blocks) -> Blocks:
        """The second derivatives of the outputs times the weights. first: the Jacobians."""
        return _hessians(self.value, self.inputs, values)


def _hessians(graph: Graph, inputs: Sequence[str], values: dict[str, Any]) -> Blocks:
    """The second derivatives "dwx0_dx1" of all outputs times their weights."""
    shapes = {x: (len(entries),) for x, entries in values.items()}

    def weighted(*vectors: Any) -> Any:
        named = dict(zip(shapes, vectors, strict=True))
        results = call(graph, **{x: named[x] for x in graph.inputs})
        return sum((_dot(row, named[WEIGHT + y]) for y, row in results.items()), 0.0)

    scalar = trace(weighted, shapes)
    (of,) = scalar.outputs
    second, blocks = call(hessian(scalar, of, inputs), **values), {}
    for n, a in enumerate(inputs):
        for b in inputs[n:]:
            rows = second[f"d2{of}_d{a}d{b}"]
            blocks[f"d{WEIGHT}{a}_d{b}"] = rows
            blocks[f"d{WEIGHT}{b}_d{a}"] = _transposed(rows)
    return blocks


class ModelDerivatives(Derivatives):
    """The derivatives of a function of a model, from its other functions where there are any."""

    def __init__(self, model: Robot, variant: Variant) -> None:
        self.model, self.variant = model, variant
        graph = dynamics_graph(model, variant)
        super().__init__(graph)
        self.shapes = graph.inputs
        self.numbered = dict(zip(graph.inputs, self.inputs, strict=True))
        is_plain = variant.method is None and not variant.parameters
        self.known = CALLED[variant.name].jacobians if is_plain else {}

    def _jacobians(self, values: dict[str, Any]) -> Blocks:
        others = [x for name, x in self.numbered.items() if name not in self.known]
        blocks = call(jacobians(self.value, self.outputs, others), **values) if others else {}
        arrays = {x: _nested(values[self.numbered[x]], shape) for x, shape in self.shapes.items()}
        for x, (name, output) in self.known.items():
            wrenches = None if name == "mass_matrix" else self.variant.wrenches
            rows = call(dynamics_graph(self.model, Variant(name, wrenches)), **arrays)[output]
            by_x = _by_entries(self.model, arrays["q"], rows) if x == "q" else rows
            blocks[f"dy0_d{self.numbered[x]}"] = by_x
        return blocks

    @cached_property
    def adjoint(self) -> Graph:
        graph = graph_of(Operation(self.model, self.variant).adjoints([*self.numbered]))
        weights = [WEIGHT + y for y in self.outputs]
        return in_columns(graph, [*self.inputs, *weights], [WEIGHT + x for x in self.inputs])

    def _hessians(self, values: dict[str, Any], first: Blocks) -> Blocks:
        if self.variant.name == "forward_dynamics" and self.known:
            return self._of_accelerations(values, first)
        return super()._hessians(values, first)

    def _of_accelerations(self, values: dict[str, Any], first: Blocks) -> Blocks:
        """The second derivatives of forward dynamics, from those of inverse dynamics.

        ID(x, FD(x, tau)) = tau for all x and tau, so w . d2 FD = l . d2 ID along the changes of
        (x, FD), with l = -M^-1 w. ID is linear in the acceleration.
        """
        variant = self.variant._replace(name="inverse_dynamics")
        inverse = in_columns(dynamics_graph(self.model, variant), self.inputs, self.outputs)
        tau = self.numbered["tau"]  # in inverse dynamics the place of the acceleration
        minv, w = first[f"dy0_d{tau}"], values[f"{WEIGHT}y0"]
        a = call(self.value, **values)["y0"]
        there = {**values, tau: a, f"{WEIGHT}y0": [-_dot(row, w) for row in minv]}
        second = _hessians(inverse, self.inputs, there)
        name = lambda a, b: f"d{WEIGHT}{a}_d{b}"
        blocks = {name(tau, tau): [[0.0] * len(w) for _ in w]}
        for x in [x for x in self.inputs if x != tau]:
            by_a = second[name(x, tau)]
            blocks[name(x, tau)] = _product(by_a, minv)
            blocks[name(tau, x)] = _transposed(blocks[name(x, tau)])
            for y in self.inputs:
                if y != tau:
                    moved = _product(by_a, first[f"dy0_d{y}"])
                    turned = _transposed(_product(second[name(y, tau)], first[f"dy0_d{x}"]))
                    blocks[name(x, y)] = _sum(_sum(second[name(x, y)], moved), turned)
        return blocks


def _by_entries(model: Robot, q: Any, rows: Matrix) -> Matrix:
    """A Jacobian by the entries of q, from one by those of v: times the pseudo-inverse of N in
    dq/dt = N(q) v. The columns of N are orthogonal, and functions do not depend on what N does not
    reach, the lengths of quaternions.
    """
    rate = trace(lambda q, v: configuration_rate(model, q, v), {"q": model.nq, "v": model.nv})
    N = call(jacobian(rate, "out", "v"), q=q, v=[0.0] * model.nv)["dout_dv"]
    squares = [sum((row[j] * row[j] for row in N), 0.0) for j in range(model.nv)]
    scaled = [[row[j] / squares[j] for j in range(model.nv)] for row in N]
    return [[_dot(row, columns) for columns in scaled] for row in rows]
