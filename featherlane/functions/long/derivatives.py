"""First derivatives of the dynamics of robots of many links, and the Coriolis matrix.

What belongs to a single freedom is recorded (`algorithms.derivative_products`); the entries of a
derivative are products of matrices of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from featherlane.algorithms.rows.derivatives import ByCoriolis, ByPosition, ByVelocity
from featherlane.backends.cpu.matrices import tables
from featherlane.backends.cpu.matrices.plan import Job, Pipeline, Plan, Stage
from featherlane.functions.compile import input_shapes
from featherlane.functions.long.freedoms import freedoms, products, sweep_order
from featherlane.functions.long.mass_matrix import (
    Evaluator,
    articulated,
    forward_dynamics,
    mass_matrix_inverse,
    starts,
)
from featherlane.functions.long.recording import recording
from featherlane.functions.table import ROWS, TABLE, Variant
from featherlane.robot.model import Model
from featherlane.robot.tree_of import tree_of


def _meetings(model: Model) -> list[list[tables.Meeting]]:
    """Of dtau/dq and dtau/dv."""
    f = freedoms(tree_of(model))
    S, _, onto, below, above, own = starts(ByPosition())
    by_position = [
        tables.Meeting(f.before, S, onto, 6),
        tables.Meeting(f.before.T, below, above, 12),
        tables.Meeting(f.joint, S, own, 6),
    ]
    onto, _, above = starts(ByVelocity())
    by_velocity = [
        tables.Meeting(f.before | (f.joint & ~f.same), S, onto, 6),
        tables.Meeting(f.before.T, below, above, 9),
        tables.Meeting(f.same, S, onto, 7),
    ]
    return [by_position, by_velocity]


def inverse_derivatives(model: Model, variant: Variant, dtype: Any) -> Pipeline:
    """dtau/dq and dtau/dv."""
    variant = variant._replace(method=variant.method or "serial")
    return products(model, variant, dtype, _meetings(model))


def coriolis_matrix(model: Model, variant: Variant, dtype: Any) -> Pipeline:
    f = freedoms(tree_of(model))
    S, onto, below, above = starts(ByCoriolis())
    meetings = [
        tables.Meeting(f.before | f.joint, S, onto, 6),
        tables.Meeting(f.before.T, below, above, 9),
    ]
    return products(model, variant, dtype, [meetings])


class DerivativesFrom:
    """da/dq and da/dv of a state with known M^-1: -M^-1 dtau/dx."""

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        inverse = variant._replace(name="inverse_dynamics_derivatives")
        self.derivatives = inverse_derivatives(model, inverse, dtype)
        n, size = model.nv, tables.size(model.nv, np.dtype(dtype))
        inputs = dict.fromkeys(("left", "right"), (size, size))
        product = Job(tables.product(size, n, np.dtype(dtype)), "left", "right", "dx")
        self.size = size
        self.product = Pipeline(Plan(inputs, {"dx": None}, n, size, [], [product]), np.dtype(dtype))

    def __call__(
        self,
        q: np.ndarray,
        v: np.ndarray,
        a: np.ndarray,
        minv: np.ndarray,
        *others: np.ndarray,
        out: Sequence[np.ndarray],
    ) -> None:
        self.derivatives(q, v, a, *others, out=out)
        known = np.broadcast_to(minv, out[0].shape)
        for at in np.ndindex(out[0].shape[:-2]):
            left = self._padded(-known[at])
            for dx in out:
                self.product(left, self._padded(dx[at]), out=[dx[at]])

    def _padded(self, x: np.ndarray) -> np.ndarray:
        """A copy: the product is written to where x is."""
        return np.pad(x, (0, self.size - len(x)))


class ForwardDerivatives:
    """da/dq, da/dv and da/dtau = M^-1, at a = FD(q, v, tau)."""

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        inverse = Variant("mass_matrix_inverse", parameters=variant.parameters)
        self.forward = forward_dynamics(model, variant._replace(name="forward_dynamics"), dtype)
        self.inverse = mass_matrix_inverse(model, inverse, dtype)
        self.through = DerivativesFrom(model, variant, dtype)
        self.parameters = len(variant.parameters)

    def __call__(
        self,
        q: np.ndarray,
        v: np.ndarray,
        tau: np.ndarray,
        *others: np.ndarray,
        out: Sequence[np.ndarray],
    ) -> None:
        a = np.empty(out[0].shape[:-1], out[0].dtype)
        self.forward(q, v, tau, *others, out=[a])
        self.inverse(q, *others[len(others) - self.parameters :], out=[out[2]])
        self.through(q, v, a, out[2], *others, out=out[:2])


def _swept(model: Model, variant: Variant, dtype: Any) -> Pipeline:
    """The same where freedoms are in the order of sweeps: all of a state while it is in the caches,
    each column of dtau/dx solved for.
    """
    forward = variant._replace(name="forward_dynamics", method="aba")
    inverse = Variant("mass_matrix_inverse", parameters=variant.parameters)
    first = variant._replace(name="inverse_dynamics_derivatives", method="serial")
    factor = articulated(model, inverse, dtype)
    rows = recording(model, first, dtype, ROWS[first.name, first.method])
    inputs, size = input_shapes(model, variant), factor.size
    stages = [
        Stage(recording(model, forward, dtype), tuple(inputs), ("acceleration",)),
        Stage(rows, _with_acceleration(inputs), ("by_position", "by_velocity")),
        factor.stage(("q", *variant.parameters)),
    ]
    *derivatives, last = TABLE[variant.name].outputs
    made = []
    for meetings, own, name in zip(_meetings(model), stages[1].gives, derivatives, strict=True):
        program = tables.products(meetings, size, rows.dtype)
        made += [Job(program, stages[1].gives[0], own, name), factor.negatively_solved(name)]
    made += factor.inverted(last)
    outputs = dict.fromkeys(TABLE[variant.name].outputs)
    return Pipeline(Plan(inputs, outputs, model.nv, size, stages, made, factor.room), rows.dtype)


def _with_acceleration(inputs: Iterable[str]) -> tuple[str, ...]:
    return tuple("acceleration" if name == "tau" else name for name in inputs)


def forward_derivatives(model: Model, variant: Variant, dtype: Any) -> Evaluator:
    """da/dq, da/dv and da/dtau."""
    in_order = not tree_of(model).coupled and sweep_order(tree_of(model))[1] is None
    return (_swept if in_order else ForwardDerivatives)(model, variant, dtype)
