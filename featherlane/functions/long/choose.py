"""Robots of many links: what runs each of their functions.

An algorithm is recorded as calls (`callwise`) instead of being one piece of code. Serial algorithms
have a state in each lane; those that are parallel in the links fill the lanes that states leave
with blocks of links. Matrices over the joints are made by tiles and sweeps (`pipeline`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu.steps.run import Recorded
from featherlane.backends.llvm import jit
from featherlane.functions.compile import scalar_function
from featherlane.functions.long.derivatives import (
    DerivativesFrom,
    coriolis_matrix,
    forward_derivatives,
    inverse_derivatives,
)
from featherlane.functions.long.directional import (
    ParameterDerivatives,
    SecondDerivatives,
    forward_hessian_product,
    inverse_hessian_product,
)
from featherlane.functions.long.mass_matrix import (
    Evaluator,
    JointSpace,
    forward_dynamics,
    mass_matrix,
    mass_matrix_inverse,
)
from featherlane.functions.long.recording import recording
from featherlane.functions.table import Variant
from featherlane.robot.model import Model
from featherlane.robot.tree import is_chain
from featherlane.robot.tree_of import tree_of


def evaluator(model: Model, variant: Variant) -> Callable[[np.dtype], Evaluator] | None:
    """What makes the evaluator of a variant for a dtype; None where it is derived from graphs."""
    if variant.method is None and variant.name in BY_COLUMNS:
        make = BY_COLUMNS[variant.name]
        return lambda dtype: make(model, variant, dtype)
    if variant.method == "jsiia":
        return lambda dtype: JointSpace(model, variant, dtype)
    if variant.name == "inverse_dynamics_derivatives":
        return lambda dtype: inverse_derivatives(model, variant, dtype)
    if variant.method is None and variant.name == "inverse_dynamics":
        return lambda dtype: Chosen(model, variant, dtype)
    if scalar_function(model, variant) is None:
        return None
    return lambda dtype: recording(model, variant, dtype)


BY_COLUMNS: dict[str, Callable[[Model, Variant, Any], Evaluator]] = {
    "mass_matrix": mass_matrix,
    "mass_matrix_inverse": mass_matrix_inverse,
    "forward_dynamics": forward_dynamics,
    "forward_dynamics_derivatives": forward_derivatives,
    "forward_dynamics_derivatives_from": DerivativesFrom,
    "coriolis_matrix": coriolis_matrix,
    "inverse_dynamics_parameter_derivatives": ParameterDerivatives,
    "inverse_dynamics_second_derivatives": SecondDerivatives,
    "inverse_dynamics_hessian_product": inverse_hessian_product,
    "forward_dynamics_hessian_product": forward_hessian_product,
}


class Chosen:
    """The method that is expected to be the fastest for so many states. What a state's result is
    rounded to may so depend on how many there are; a named method has the same bits always.
    """

    def __init__(self, model: Model, variant: Variant, dtype: np.dtype) -> None:
        self.model, self.variant, self.dtype = model, variant, dtype
        self._width = jit.widest(dtype)
        self._links = tree_of(model).nbodies if is_chain(tree_of(model)) else None
        self._made: dict[str, Recorded] = {}

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        name = self._fastest(math.prod(out[0].shape[:-1]))
        if name not in self._made:
            made = recording(self.model, self.variant._replace(method=name), self.dtype)
            self._made.setdefault(name, made)
        self._made[name](*arrays, out=out)

    @property
    def single(self) -> Any:
        """What has code for single states, if one was asked for."""
        name = self._fastest(1)
        return self._made[name].single if name in self._made else None

    def _fastest(self, batch: int) -> str:
        """On trees always the serial one."""
        return "serial" if self._links is None else fastest(self._links, batch, self._width)


class Cost(NamedTuple):
    """ns of a call: `call`, and for each link and vector of states a + b f^c, where f is the share
    of the lanes that states take.
    """

    call: float
    a: float
    b: float
    c: float

    def of(self, links: int, vectors: int, share: float) -> float:
        return self.call + links * vectors * (self.a + self.b * share**self.c)


COSTS = {  # fitted to random chains on a Zen 5 with AVX-512, see docs/links.md: only ratios count
    "serial": Cost(0.0, 29.0, 17.0, 1.0),
    "scan": Cost(1000.0, 0.0, 72.0, 0.8),
}


def fastest(links: int, batch: int, width: int) -> str:
    """The method from which the least time is expected for inverse dynamics of a chain. width:
    lanes of a vector.
    """
    states = min(1 << max(batch - 1, 0).bit_length(), width)
    size = links, -(-batch // width), states / width
    return min(COSTS, key=lambda method: COSTS[method].of(*size))
