"""Graphs of vectors as functions of CasADi: of scalar expressions, or of machine code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends import cache
from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.interop.casadi_expressions import expressions
from featherlane.interop.wrapped import required
from featherlane.program.graph import Graph, Output
from featherlane.program.program import Program

casadi = required("casadi", "casadi")

Size = tuple[int, int]
ONE_STATE = 1  # lanes
LARGEST_COMPILED = 150_000  # nodes of a graph that compiles in about 20 s on one core


class MatrixOf(NamedTuple):
    """An input or output of a function. array: the graph's vector of its nonzeros, by columns; None
    for an input that nothing reads, and for an output of zeros.
    """

    name: str
    size: Size
    array: str | None


class GraphOfMatrices(NamedTuple):
    """A function that a graph computes. key: what the graph depends on, for the cache."""

    name: str
    inputs: tuple[MatrixOf, ...]
    outputs: tuple[MatrixOf, ...]
    graph: Callable[[], Graph]
    key: str

    @property
    def identity(self) -> str:
        return repr((self.key, self.name, self.inputs, self.outputs, casadi.__version__))


class SparsityPattern(NamedTuple):
    """The sparsity of a graph's outputs. nodes: of the graph; places: of the nonzeros of each
    output, in the order of columns.
    """

    nodes: int
    places: dict[str, list[int]]


def _packed(graph: Graph) -> tuple[Graph, SparsityPattern]:
    """The graph with the nonzeros of its matrices, by columns, in place of the matrices."""
    outputs, places = {}, {}
    for name, (shape, nodes) in graph.outputs.items():
        n = shape[0]
        by_columns = [nodes[k::m] for m in shape[1:] for k in range(m)] or [nodes]
        entries = [k for column in by_columns for k in column]
        is_vector = len(shape) == 1  # products with adjoints are dense
        places[name] = [i for i, k in enumerate(entries) if is_vector or graph.number(k) != 0.0]
        packed = tuple(entries[i] for i in places[name])
        assert len(entries) == n * len(by_columns), "matrices are in C order"
        outputs[name] = Output((len(packed),), packed)
    return graph.replaced(outputs=outputs), SparsityPattern(len(graph), places)


def pattern_of(source: GraphOfMatrices) -> SparsityPattern:
    """The sparsity of a graph, from the cache if it was traced before."""
    make = lambda: json.dumps(_packed(source.graph())[1]).encode()
    return SparsityPattern(*json.loads(cache.fetch(f"{source.key} pattern", make)))


def _sparsity(matrix: MatrixOf, pattern: SparsityPattern) -> Any:
    n, m = matrix.size
    places = [] if matrix.array is None else pattern.places[matrix.array]
    return casadi.Sparsity.triplet(n, m, [p % n for p in places], [p // n for p in places])


def _expressed(source: GraphOfMatrices) -> Any:
    graph, pattern = _packed(source.graph())
    symbols = [casadi.SX.sym(x.name, *x.size) for x in source.inputs]
    pairs = zip(source.inputs, symbols, strict=True)
    values = expressions(graph, {x.array: casadi.vec(s) for x, s in pairs if x.array})
    results = []
    for matrix in source.outputs:
        entries = values[matrix.array] if matrix.array else []
        nonzeros = casadi.vertcat(*entries) if entries else casadi.SX(0, 1)
        results.append(casadi.SX(_sparsity(matrix, pattern), nonzeros))
    names = [x.name for x in source.inputs], [y.name for y in source.outputs]
    return casadi.Function(source.name, symbols, results, *names)


def expressed(source: GraphOfMatrices, **options: Any) -> Any:
    """A function of scalar expressions, from the cache if it is there. options: of
    `casadi.Function`.
    """
    make = lambda: _expressed(source).serialize().encode()
    plain = casadi.Function.deserialize(cache.fetch(f"{source.identity} SX", make).decode())
    if not options:
        return plain
    symbols = [casadi.SX.sym(x.name, *x.size) for x in source.inputs]
    names = plain.name_in(), plain.name_out()
    return casadi.Function(source.name, symbols, plain.call(symbols), *names, options)


BY_JACOBIAN = {"enable_forward": False, "enable_reverse": False, "jac_penalty": 0}
"""Options with which all derivatives are products of Jacobians, as a whole, with matrices."""

# CasADi refers to a callback, but does not keep it alive: these live as long as the process
_callbacks: dict[str, Any] = {}


def compiled(source: GraphOfMatrices, derivative: Callable[[], Any] | None = None) -> Any:
    """A function that runs machine code, or one of expressions if that were too large. derivative:
    the function of its Jacobians, by default CasADi's.
    """
    if pattern_of(source).nodes > LARGEST_COMPILED:
        return expressed(source)
    if source.identity not in _callbacks:
        _callbacks[source.identity] = _MachineCode(source, derivative)
    return _callbacks[source.identity]


class _MachineCode(casadi.Callback):  # type: ignore[name-defined]
    """A function that runs machine code, which is compiled at the first call."""

    def __init__(self, source: GraphOfMatrices, derivative: Callable[[], Any] | None) -> None:
        super().__init__()
        self._source = source
        self._derivative = derivative or (lambda: expressed(source).jacobian())
        pattern = pattern_of(source)
        self._sparsity = [_sparsity(y, pattern) for y in source.outputs]
        self._read = _arrays(source.inputs, [math.prod(x.size) for x in source.inputs])
        self._written = _arrays(source.outputs, [each.nnz() for each in self._sparsity])
        self._function = self._compiled()
        self.construct(source.name, BY_JACOBIAN)

    def _compiled(self) -> Function:
        source, inputs, outputs = self._source, _shapes(self._read), _shapes(self._written)

        def program() -> Program:
            graph, _ = _packed(source.graph())
            written = {name: graph.outputs[name] for name in outputs}
            return Program(graph.replaced(inputs=inputs, outputs=written))

        def kernel(dtype: np.dtype) -> Kernel:
            return compile_program(program, f"{source.key} packed", dtype, ONE_STATE)

        return Function(source.name, inputs, outputs, KernelsByDtype(kernel))

    # What CasADi calls

    def get_n_in(self) -> int:
        return len(self._source.inputs)

    def get_n_out(self) -> int:
        return len(self._source.outputs)

    def get_name_in(self, i: int) -> str:
        return self._source.inputs[i].name

    def get_name_out(self, i: int) -> str:
        return self._source.outputs[i].name

    def get_sparsity_in(self, i: int) -> Any:
        return casadi.Sparsity.dense(*self._source.inputs[i].size)

    def get_sparsity_out(self, i: int) -> Any:
        return self._sparsity[i]

    def has_eval_buffer(self) -> bool:
        return True

    def eval_buffer(self, arg: Any, res: Any) -> int:
        """Reads and writes CasADi's arrays: None is an input of zeros or an unused output."""
        views = [x.spare if (a := arg[x.place]) is None else _view(a) for x in self._read]
        results = [y.spare if (r := res[y.place]) is None else _view(r) for y in self._written]
        if results:
            self._function(*views, out=tuple(results) if len(results) > 1 else results[0])
        return 0

    def has_jacobian(self) -> bool:
        return True

    def get_jacobian(self, *_: Any) -> Any:
        return self._derivative()


_view = np.frombuffer


class _Passed(NamedTuple):
    """An array that a kernel reads or writes. place: among CasADi's arrays; spare: zeros to read,
    or a place to write to, where CasADi has no array.
    """

    place: int
    array: str
    spare: np.ndarray


def _shapes(arrays: list[_Passed]) -> dict[str, tuple[int, ...]]:
    return {x.array: x.spare.shape for x in arrays}


def _arrays(matrices: tuple[MatrixOf, ...], counts: list[int]) -> list[_Passed]:
    """The arrays with entries, by their places."""
    return [
        _Passed(place, matrix.array, np.zeros(count))
        for place, (matrix, count) in enumerate(zip(matrices, counts, strict=True))
        if matrix.array and count
    ]
