"""CasADi: `to_casadi` makes a Function of a graph, with the package's derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from inspect import signature
from typing import Any, NamedTuple

from featherlane.api.model import Model
from featherlane.errors import instead
from featherlane.functions.table import BY_NAME, Variant
from featherlane.functions.variants import (
    check_variant,
    input_shapes,
    output_shapes,
    variant_key,
    variant_of_graph,
)
from featherlane.interop.casadi_derivatives import (
    WEIGHT,
    Derivatives,
    ModelDerivatives,
    numbered,
    size,
)
from featherlane.interop.casadi_functions import (
    BY_JACOBIAN,
    GraphOfMatrices,
    MatrixOf,
    compiled,
    expressed,
    pattern_of,
)
from featherlane.program.graph import Graph, graph_key

Matrices = tuple[MatrixOf, ...]
MOST_ADJOINTS = 10_000  # nodes: the Jacobians of larger products would compile for minutes


def to_casadi(
    source: Graph | Model,
    function: str | None = None,
    *,
    name: str | None = None,
    inline: bool = False,
    **options: Any,
) -> Any:
    """Returns a casadi.Function with the inputs and outputs of a graph, or of a function of a
    model.

    In MX expressions, calls remain calls. Their Jacobians, products with adjoints and Hessians are
    derivatives of the graph, or analytic derivatives where the package has them, and run as machine
    code inside this process; with `inline=True`, they are expressions of CasADi, which can be
    saved, sent to other processes and generated as C. In SX expressions, and with `expand`, the
    function becomes its operations, and derivatives are CasADi's.

    Derivatives with respect to q are with respect to its nq entries. Arrays of more than two
    dimensions become columns in C order. Raises CompileError, with the name of the operation, for a
    graph with an operation that CasADi lacks.

    Arguments:
        source: a graph, or a model
        function: the name of a function of the model; None: source is a graph
        name: the name of the casadi.Function; None: that of the function
        inline: whether derivatives are expressions of CasADi
        options: those of `Model.graph`, if source is a model

    Examples:
        >>> from featherlane.interop.casadi import to_casadi
        >>> to_casadi(arm, "inverse_dynamics")
        Function(inverse_dynamics:(q[2],v[2],a[2])->(tau[2]) SXFunction)
    """
    if isinstance(source, Graph):
        return _of_graph(source, name or "graph").function(inline)
    if function is None or function not in BY_NAME:
        raise ValueError(f"there is no function {function!r}{instead(function, BY_NAME)}")
    signature(source.graph).bind(function, **options)
    variant = variant_of_graph(source, function, **options)
    check_variant(source, variant)
    return _of_model(source, variant, name or function).function(inline)


# The latest derivatives, whose parts are traced as CasADi asks for them
_derivatives = lru_cache(maxsize=2)(Derivatives)
_model_derivatives = lru_cache(maxsize=2)(ModelDerivatives)


def _of_graph(graph: Graph, label: str) -> _CasadiFunction:
    outputs = {name: out.shape for name, out in graph.outputs.items()}
    return _CasadiFunction(
        label, graph.inputs, outputs, graph_key(graph), lambda: _derivatives(graph)
    )


def _of_model(model: Model, variant: Variant, label: str) -> _CasadiFunction:
    shapes = input_shapes(model, variant), output_shapes(model, variant)
    derivatives = lambda: _model_derivatives(model, variant)
    return _CasadiFunction(label, *shapes, variant_key(model, variant), derivatives)


class _CasadiFunction(NamedTuple):
    """A function and its derivatives as functions of CasADi."""

    label: str
    input_shapes: Mapping[str, Sequence[int]]
    output_shapes: Mapping[str, Sequence[int]]
    key: str
    derivatives: Callable[[], Derivatives]

    @property
    def inputs(self) -> Matrices:
        names = numbered("x", len(self.input_shapes))
        pairs = zip(self.input_shapes.items(), names, strict=True)
        return tuple(MatrixOf(name, size(shape), x) for (name, shape), x in pairs)

    @property
    def outputs(self) -> Matrices:
        names = numbered("y", len(self.output_shapes))
        pairs = zip(self.output_shapes.items(), names, strict=True)
        free = lambda name: f"{name}_out" if name in self.input_shapes else name
        return tuple(MatrixOf(free(name), size(shape), y) for (name, shape), y in pairs)

    def _of(self, name: str, inputs: Matrices, outputs: Matrices, part: str) -> GraphOfMatrices:
        graph = lambda: getattr(self.derivatives(), part)
        return GraphOfMatrices(name, inputs, outputs, graph, f"{self.key} CasADi {part}")

    @property
    def _value(self) -> GraphOfMatrices:
        return self._of(self.label, self.inputs, self.outputs, "value")

    @property
    def _results(self) -> Matrices:
        """The results as inputs of derivatives, which do not read them."""
        return tuple(MatrixOf(f"out_{y.name}", y.size, None) for y in self.outputs)

    @property
    def _jacobian(self) -> GraphOfMatrices:
        blocks = _jacobians(self.outputs, self.inputs)
        inputs = (*self.inputs, *self._results)
        return self._of(f"jac_{self.label}", inputs, blocks, "jacobian")

    @property
    def _adjoint(self) -> GraphOfMatrices:
        inputs = (*self.inputs, *self._results, *map(_adjoint, self.outputs))
        outputs = tuple(map(_adjoint, self.inputs))
        return self._of(f"adj1_{self.label}", inputs, outputs, "adjoint")

    @property
    def _adjoint_jacobian(self) -> GraphOfMatrices:
        _, inputs, outputs, *_ = self._adjoint
        results = tuple(MatrixOf(f"out_{y.name}", y.size, None) for y in outputs)
        blocks = _jacobians(outputs, inputs)
        return self._of(f"jac_adj1_{self.label}", (*inputs, *results), blocks, "adjoint_jacobian")

    @property
    def _has_second(self) -> bool:
        """Whether the Jacobians of products with adjoints are the package's, not CasADi's."""
        return pattern_of(self._adjoint).nodes <= MOST_ADJOINTS

    def _compiled_adjoint(self) -> Any:
        second = self._adjoint_jacobian if self._has_second else None
        return compiled(self._adjoint, second and (lambda: compiled(second)))

    def _expressed_adjoint(self) -> Any:
        if not self._has_second:
            return expressed(self._adjoint)
        second = expressed(self._adjoint_jacobian)
        return expressed(self._adjoint, custom_jacobian=second, **BY_JACOBIAN)

    def function(self, inline: bool) -> Any:
        """The function of values, with its derivatives."""
        adjoint = self._expressed_adjoint() if inline else self._compiled_adjoint()
        return expressed(
            self._value,
            custom_jacobian=(expressed if inline else compiled)(self._jacobian),
            cache={adjoint.name(): adjoint},
            enable_forward=False,
            # One adjoint is a product, several are products of the Jacobian with a matrix
            jac_penalty=1.5 / sum(math.prod(y.size) for y in self.outputs),
        )


def _adjoint(matrix: MatrixOf) -> MatrixOf:
    name, size, array = matrix
    return MatrixOf(f"adj_{name}", size, f"{WEIGHT}{array}")


def _jacobians(outputs: Matrices, inputs: Matrices) -> Matrices:
    """The Jacobians of all outputs by all inputs, which are zero for inputs that nothing reads."""
    return tuple(
        MatrixOf(
            f"jac_{y.name}_{x.name}",
            (math.prod(y.size), math.prod(x.size)),
            x.array and f"d{y.array}_d{x.array}",
        )
        for y in outputs
        for x in inputs
    )
