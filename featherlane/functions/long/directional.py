"""Derivatives of robots of many links along directions, in forward mode: by parameters, second
derivatives and products with Hessians.

A function is recorded once, and so are its derivatives along directions (`graph.tangents`), which
fill the lanes of vectors as states do: a unit direction for each column of a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.algorithms.tangent import configuration_near
from featherlane.backends.cpu.steps.run import StepEvaluator
from featherlane.functions.derived import with_parameter
from featherlane.functions.long.derivatives import ForwardDerivatives
from featherlane.functions.long.freedoms import states
from featherlane.functions.long.mass_matrix import Evaluator
from featherlane.functions.table import TABLE, Variant
from featherlane.functions.tracing import scalar_function
from featherlane.functions.variants import input_shapes
from featherlane.program.derivatives.calls import tangent
from featherlane.program.lower import traced
from featherlane.program.program import Program
from featherlane.robot.model import Robot
from featherlane.robot.parameters import parameter_value
from featherlane.robot.tree_of import tree_of

SERIAL = {"inverse_dynamics": "serial", "forward_dynamics": "aba"}  # methods
TOGETHER = 256  # columns whose directions are in memory at once
Seeds = tuple[str, ...]  # the inputs that change along one direction
Arrays = Mapping[str, np.ndarray]


def _tangents(model: Robot, variant: Variant, seeds: Sequence[Seeds]) -> Program:
    """The derivative of a function along one direction after another. The n-th of an input x is the
    input "x_along{n}"; those of q are in the tangent space: q moves by "turn{n}", which is zero.
    """
    function = scalar_function(model, variant)
    assert function is not None
    shapes = input_shapes(model, variant)
    turns = {f"turn{n}": (model.nv,) for n, names in enumerate(seeds) if "q" in names}

    def run(q: Any, *inputs: Any) -> dict[str, Any]:
        for turn in reversed(inputs[len(shapes) - 1 :]):
            q = configuration_near(model, q, turn)
        return function(q, *inputs[: len(shapes) - 1])

    program = traced(run, {**shapes, **turns}, "cpu steps")
    for n, names in enumerate(seeds):
        moving = [f"turn{n}" if name == "q" else name for name in names]
        program = tangent(program, moving, f"_along{n}")
    last = dict([[*program.outputs.items()][-1]])
    return Program(program.main.replaced(outputs=last), program.functions)


class Along:
    """The derivative of a function with one result along directions."""

    def __init__(self, model: Robot, variant: Variant, dtype: Any, *seeds: Seeds) -> None:
        program = _tangents(model, variant, seeds)
        self.names = tuple(program.inputs)
        self.run = StepEvaluator(program, dtype)
        self.rest = {f"turn{n}": np.zeros(model.nv, dtype) for n in range(len(seeds))}

    def __call__(self, inputs: Arrays, *directions: Arrays, out: np.ndarray) -> None:
        """directions: for each of the seeds its arrays by name. out: (columns, entries)."""
        every = {**self.rest, **inputs}
        for n, along in enumerate(directions):
            for name, x in along.items():
                every[f"turn{n}_along{n}" if name == "q" else f"{name}_along{n}"] = x
        self.run(*[every[name] for name in self.names], out=[out])


class _OfStates:
    """An evaluator that goes from state to state."""

    def __init__(self, model: Robot, variant: Variant) -> None:
        shapes = input_shapes(model, variant)
        self.names = tuple(shapes)
        self.cores = [len(core) for core in shapes.values()]
        self.results = [len(size) for size in TABLE[variant.name].outputs.values()]

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        arrays = tuple(map(np.ascontiguousarray, arrays))  # NumPy's sums depend on strides
        lead = out[0].shape[: out[0].ndim - self.results[0]]
        for at, arrays_of_state in states(arrays, self.cores, lead):
            self.state(dict(zip(self.names, arrays_of_state, strict=True)), [x[at] for x in out])

    def state(self, inputs: dict[str, np.ndarray], out: Sequence[np.ndarray]) -> None:
        raise NotImplementedError


class ParameterDerivatives(_OfStates):
    """dtau/dp, a column for each entry of the parameter."""

    def __init__(self, model: Robot, variant: Variant, dtype: Any) -> None:
        super().__init__(model, variant)
        self.p = p = str(variant.wrt)
        base = with_parameter(variant, p)._replace(method="serial")
        self.along = Along(model, base, dtype, (p,))
        self.value = parameter_value(model, p).astype(dtype)

    def state(self, inputs: dict[str, np.ndarray], out: Sequence[np.ndarray]) -> None:
        inputs = {self.p: self.value} | inputs
        columns = out[0].T
        for start in range(0, len(columns), TOGETHER):
            some = columns[start : start + TOGETHER]
            directions = np.eye(len(some), len(columns), start, dtype=some.dtype)
            along = {self.p: directions.reshape(len(some), *self.value.shape)}
            self.along(inputs, along, out=some)


SECOND = (("q", "q"), ("v", "q"), ("v", "v"), ("a", "q"))  # by what, in the order of results


class SecondDerivatives(_OfStates):
    """The derivatives of dtau/dx along one direction."""

    def __init__(self, model: Robot, variant: Variant, dtype: Any) -> None:
        super().__init__(model, variant)
        base = variant._replace(name="inverse_dynamics", method="serial")
        self.along = [Along(model, base, dtype, (x,), (y,)) for x, y in SECOND]
        self.unit = np.eye(model.nv, dtype=dtype)

    def state(self, inputs: dict[str, np.ndarray], out: Sequence[np.ndarray]) -> None:
        direction = inputs.pop("direction")
        for (x, y), along, entries in zip(SECOND, self.along, out, strict=True):
            along(inputs, {x: self.unit}, {y: direction}, out=entries.T)


def _product(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """matrix @ vector in a fixed order: the order of BLAS depends on the processor, on strides and
    on how many threads it has.
    """
    return np.add.reduce(matrix * vector, axis=-1)


def _blocks(x: np.ndarray, seeds: Seeds) -> dict[str, np.ndarray]:
    """The last axis of x, cut into parts of equal size: one for each of the seeds."""
    return dict(zip(seeds, np.split(x, len(seeds), axis=-1), strict=True))


class HessianProduct(_OfStates):
    """The derivative of the gradient of weights . f along one direction: each entry is a column."""

    def __init__(self, model: Robot, variant: Variant, dtype: Any) -> None:
        super().__init__(model, variant)
        of = variant.name.removesuffix("_hessian_product")
        self.seeds: Seeds = tuple(TABLE[of].inputs)
        base = variant._replace(name=of, method=SERIAL[of])
        self.along = Along(model, base, dtype, self.seeds, self.seeds)
        self.unit = np.eye(3 * model.nv, dtype=dtype)

    def state(self, inputs: dict[str, np.ndarray], out: Sequence[np.ndarray]) -> None:
        weights = inputs.pop("weights")
        direction = _blocks(inputs.pop("direction"), self.seeds)
        columns = np.empty((len(self.unit), len(weights)), out[0].dtype)
        self.along(inputs, _blocks(self.unit, self.seeds), direction, out=columns)
        out[0][...] = _product(columns, weights)


class ThroughInverse(_OfStates):
    """The product with the Hessian of forward dynamics by that of inverse dynamics, for robots
    whose joints share coordinates: from ID(q, v, a) = tau, D^2 a [x, y] = -M^-1 D^2 ID [x', y']
    along directions x' with the acceleration Da [x].
    """

    def __init__(self, model: Robot, variant: Variant, dtype: Any) -> None:
        super().__init__(model, variant)
        self.seeds = seeds = tuple(TABLE["inverse_dynamics"].inputs)
        base = variant._replace(name="inverse_dynamics", method="serial")
        self.along = Along(model, base, dtype, seeds, seeds)
        first = variant._replace(name="forward_dynamics_derivatives")
        self.taken = tuple(input_shapes(model, first))
        self.derivatives = ForwardDerivatives(model, first, dtype)
        self.unit = np.eye(3 * model.nv, dtype=dtype)

    def state(self, inputs: dict[str, np.ndarray], out: Sequence[np.ndarray]) -> None:
        weights, d = inputs.pop("weights"), np.split(inputs.pop("direction"), 3)
        arrays = [inputs[name] for name in self.taken]
        da = np.empty((3, len(weights), len(weights)), out[0].dtype)
        self.derivatives(*arrays, out=list(da))
        inputs["a"] = np.empty_like(inputs.pop("tau"))
        self.derivatives.forward(*arrays, out=[inputs["a"]])
        changes = _blocks(self.unit, self.seeds) | {"a": np.concatenate(da, axis=1).T}
        along = np.add.reduce([_product(x, y) for x, y in zip(da, d, strict=True)])
        direction = dict(zip(self.seeds, (*d[:2], along), strict=True))
        columns = np.empty((len(self.unit), len(weights)), out[0].dtype)
        self.along(inputs, changes, direction, out=columns)
        out[0][...] = _product(columns, -_product(da[2], weights))


def forward_hessian_product(model: Robot, variant: Variant, dtype: Any) -> Evaluator:
    return (ThroughInverse if tree_of(model).coupled else HessianProduct)(model, variant, dtype)
