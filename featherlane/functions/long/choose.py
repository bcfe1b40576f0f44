"""Robots of many links: which evaluator computes each of their functions.

An algorithm is recorded as calls of steps (`backends/cpu/steps`) instead of becoming one piece of
code. Serial algorithms have a state in each lane; algorithms that are parallel in the links fill
the lanes that states leave free with blocks of links. Matrices over the joints are made by tiled
products and sweeps (`backends/cpu/matrices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu.steps.run import StepEvaluator
from featherlane.backends.cpu.strides import power_of_two
from featherlane.backends.cpu.threads.share import Evaluator
from featherlane.backends.llvm import jit
from featherlane.functions.long import derivatives, directional, mass_matrix
from featherlane.functions.long.recording import recording
from featherlane.functions.table import Variant
from featherlane.functions.tracing import scalar_function
from featherlane.robot.model import Robot
from featherlane.robot.tree import is_chain
from featherlane.robot.tree_of import tree_of


def evaluator(model: Robot, variant: Variant) -> Callable[[np.dtype], Evaluator] | None:
    """Returns what makes a variant's evaluator for a dtype; None if it is derived from graphs."""
    if variant.method is None and variant.name in BY_MATRICES:
        make = BY_MATRICES[variant.name]
    elif variant.method == "jsiia":
        make = mass_matrix.JointSpaceDynamics
    elif variant.name == "inverse_dynamics_derivatives":
        make = derivatives.inverse_derivatives
    elif variant.method is None and variant.name == "inverse_dynamics":
        make = FastestMethod
    elif scalar_function(model, variant) is None:
        return None
    else:
        make = recording
    return lambda dtype: make(model, variant, dtype)


BY_MATRICES: dict[str, Callable[[Robot, Variant, Any], Evaluator]] = {
    "mass_matrix": mass_matrix.mass_matrix,
    "mass_matrix_inverse": mass_matrix.mass_matrix_inverse,
    "forward_dynamics": mass_matrix.forward_dynamics,
    "forward_dynamics_derivatives": derivatives.forward_derivatives,
    "forward_dynamics_derivatives_at": derivatives.forward_derivatives,
    "forward_dynamics_derivatives_from": derivatives.DerivativesFromInverse,
    "coriolis_matrix": derivatives.coriolis_matrix,
    "inverse_dynamics_parameter_derivatives": directional.ParameterDerivatives,
    "inverse_dynamics_second_derivatives": directional.SecondDerivatives,
    "inverse_dynamics_hessian_product": directional.HessianProduct,
    "forward_dynamics_hessian_product": directional.forward_hessian_product,
}


class FastestMethod:
    """The evaluator of `method="auto"`, which takes the method that is expected to be the fastest
    for so many states. The last bits of a state's result may so depend on the number of states; a
    named method always gives the same bits.
    """

    def __init__(self, model: Robot, variant: Variant, dtype: np.dtype) -> None:
        self.model, self.variant, self.dtype = model, variant, dtype
        self._width = jit.widest(dtype)
        self._links = tree_of(model).nbodies if is_chain(tree_of(model)) else None
        self._recorded: dict[str, StepEvaluator] = {}

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        name = self._fastest(math.prod(out[0].shape[:-1]))
        if name not in self._recorded:
            recorded = recording(self.model, self.variant._replace(method=name), self.dtype)
            self._recorded.setdefault(name, recorded)
        self._recorded[name](*arrays, out=out)

    @property
    def single(self) -> Any:
        """The code for single states, if one was asked for."""
        name = self._fastest(1)
        return self._recorded[name].single if name in self._recorded else None

    def _fastest(self, batch: int) -> str:
        """The method for so many states; on trees always the serial one."""
        return "serial" if self._links is None else fastest(self._links, batch, self._width)


class MethodCost(NamedTuple):
    """The ns of a call: `call`, and a + b f^c for each link and vector, filled to a share f."""

    call: float
    a: float
    b: float
    c: float

    def of(self, links: int, vectors: int, share: float) -> float:
        return self.call + links * vectors * (self.a + self.b * share**self.c)


# Fitted to random chains on a Zen 5 with AVX-512 by `benchmarks/fit_methods.py`; only their ratios
# choose. "auto" is within 15 % of the best method in 110 of 112 cells (docs/links.md, "Which method
# is fast").
COSTS = {
    "serial": MethodCost(0.0, 29.0, 17.0, 1.0),
    "scan": MethodCost(1000.0, 0.0, 72.0, 0.8),
}


def fastest(links: int, batch: int, width: int) -> str:
    """The expected fastest method for inverse dynamics of a chain. width: lanes of a vector."""
    states = min(power_of_two(batch), width)
    size = links, -(-batch // width), states / width
    return min(COSTS, key=lambda method: COSTS[method].of(*size))
