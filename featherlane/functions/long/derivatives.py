"""First derivatives of the dynamics of long robots, and the Coriolis matrix.

Numbers that belong to one freedom each are recorded (`algorithms/rows/derivatives`); the entries of
a derivative are products of matrices of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.algorithms.rows import derivatives as rows
from featherlane.backends.cpu.matrices import tables
from featherlane.backends.cpu.matrices.plan import MatrixEvaluator, MatrixJob, MatrixPlan, PlanStage
from featherlane.backends.cpu.threads.share import Evaluator
from featherlane.functions.long import freedoms, mass_matrix
from featherlane.functions.long.recording import recording
from featherlane.functions.table import TABLE, Variant
from featherlane.functions.variants import input_shapes
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of

AT = "forward_dynamics_derivatives_at"


def _turns_armature(model: Robot, variant: Variant) -> bool:
    """Whether free joints have armature along their lines, or may get it with a call."""
    if "armature" in variant.parameters:
        return any(kind.turning_armature for kind in model.types)
    return any(tree_of(model).turned_armature)


def _parts(model: Robot, variant: Variant) -> list[list[tables.MaskedProduct]]:
    """The products whose sums are dtau/dq and dtau/dv, see `ByPosition` and `ByVelocity`."""
    tree = tree_of(model)
    f, springs = freedoms.masks(tree), tree.springs or "stiffness" in variant.parameters
    S, _, onto, below, above, freedom, _ = freedoms.offsets(rows.ByPosition())
    by_position = [
        tables.MaskedProduct(f.before, S, onto, 6),
        tables.MaskedProduct(f.before.T, below, above, 12),
        tables.MaskedProduct(f.joint, S, freedom, 7 if springs or tree.stops else 6),
    ]
    onto, _, above, within = freedoms.offsets(rows.ByVelocity())
    by_velocity = [
        tables.MaskedProduct(f.before | (f.joint & ~f.same), S, onto, 6),
        tables.MaskedProduct(f.before.T, below, above, 9),
        tables.MaskedProduct(f.same, S, onto, 7),
    ]
    if _turns_armature(model, variant):
        by_velocity[0] = by_velocity[0]._replace(where=f.before)
        by_velocity[2] = by_velocity[2]._replace(right=within)
        by_velocity.append(tables.MaskedProduct(f.joint & ~f.same, S, within, 6))
    return [by_position, by_velocity]


def inverse_derivatives(model: Robot, variant: Variant, dtype: Any) -> MatrixEvaluator:
    """dtau/dq and dtau/dv."""
    variant = variant._replace(method=variant.method or "serial")
    return freedoms.products(model, variant, dtype, _parts(model, variant))


def coriolis_matrix(model: Robot, variant: Variant, dtype: Any) -> MatrixEvaluator:
    """C, see `ByCoriolis`."""
    f = freedoms.masks(tree_of(model))
    S, onto, below, above, within = freedoms.offsets(rows.ByCoriolis())
    parts = [
        tables.MaskedProduct(f.before | f.joint, S, onto, 6),
        tables.MaskedProduct(f.before.T, below, above, 9),
    ]
    if _turns_armature(model, variant):
        parts[0] = parts[0]._replace(where=f.before)
        parts.append(tables.MaskedProduct(f.joint, S, within, 6))
    return freedoms.products(model, variant, dtype, [parts])


class DerivativesFromInverse:
    """da/dq and da/dv of a state with known M^-1: -M^-1 dtau/dx."""

    def __init__(self, model: Robot, variant: Variant, dtype: Any) -> None:
        inverse = variant._replace(name="inverse_dynamics_derivatives")
        self.derivatives = inverse_derivatives(model, inverse, dtype)
        n, dtype = model.nv, np.dtype(dtype)
        self.size = size = tables.padded_size(n, dtype)
        inputs = dict.fromkeys(("left", "right"), (size, size))
        job = MatrixJob(tables.dense_product(size, n, dtype), "left", "right", "dx")
        self.product = MatrixEvaluator(MatrixPlan(inputs, {"dx": None}, n, size, [], [job]), dtype)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        """arrays: q, v, a, M^-1, wrenches and parameters."""
        q, v, a, minv, *others = arrays
        self.derivatives(q, v, a, *others, out=out)
        inverse = np.broadcast_to(minv, out[0].shape)
        for at in np.ndindex(out[0].shape[:-2]):
            left = self._padded(-inverse[at])
            for dx in out:
                self.product(left, self._padded(dx[at]), out=[dx[at]])

    def _padded(self, x: np.ndarray) -> np.ndarray:
        """A copy, since the product is written to where x lies, padded to whole tiles. Its rows are
        dense, as jobs read them, which those of `np.pad` are not always.
        """
        copy = np.zeros((self.size, self.size), x.dtype)
        copy[: len(x), : len(x)] = x
        return copy


class ForwardDerivatives:
    """da/dq, da/dv and da/dtau = M^-1 at a = FD(q, v, tau), or at a known a, of any robot."""

    def __init__(self, model: Robot, variant: Variant, dtype: Any) -> None:
        inverse = Variant("mass_matrix_inverse", parameters=variant.parameters)
        self.known = variant.name == AT
        forward = variant._replace(name="forward_dynamics")
        self.forward = mass_matrix.forward_dynamics(model, forward, dtype)
        self.inverse = mass_matrix.mass_matrix_inverse(model, inverse, dtype)
        self.from_inverse = DerivativesFromInverse(model, variant, dtype)
        self.parameters = len(variant.parameters)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        """arrays: q, v, tau or a, wrenches and parameters."""
        q, v, a, *others = arrays
        if not self.known:
            a = np.empty(out[0].shape[:-1], out[0].dtype)
            self.forward(*arrays, out=[a])
        self.inverse(q, *others[len(others) - self.parameters :], out=[out[2]])
        self.from_inverse(q, v, a, out[2], *others, out=out[:2])


def _forward_derivatives_by_sweeps(model: Robot, variant: Variant, dtype: Any) -> MatrixEvaluator:
    """da/dq, da/dv and da/dtau where the freedoms are in the order of sweeps: all of a state while
    it is in the caches, with each column of dtau/dx solved for.
    """
    forward = variant._replace(name="forward_dynamics", method="aba")
    inverse = Variant("mass_matrix_inverse", parameters=variant.parameters)
    first = variant._replace(name="inverse_dynamics_derivatives", method="serial")
    M = mass_matrix.swept_mass_matrix(model, inverse, dtype)
    recorded = recording(model, first, dtype, TABLE[first.name].rows[first.method])
    inputs, by_freedom = tuple(input_shapes(model, variant)), ("by_position", "by_velocity")
    with_acceleration = tuple("acceleration" if name == "tau" else name for name in inputs)
    stages = [
        PlanStage(recorded, with_acceleration, by_freedom),
        M.stage(("q", *variant.parameters)),
    ]
    if variant.name != AT:
        accelerations = recording(model, forward, dtype)
        stages.insert(0, PlanStage(accelerations, inputs, ("acceleration",)))
    *derivatives, last = TABLE[variant.name].outputs
    jobs = []
    for parts, rows_of_part, name in zip(
        _parts(model, variant), by_freedom, derivatives, strict=True
    ):
        program = tables.products(parts, M.size, recorded.dtype)
        jobs += [MatrixJob(program, by_freedom[0], rows_of_part, name), M.solve_negative(name)]
    return freedoms.pipeline(model, variant, stages, [*jobs, *M.invert(last)], M.size, room=M.room)


def forward_derivatives(model: Robot, variant: Variant, dtype: Any) -> Evaluator:
    """da/dq, da/dv and da/dtau."""
    in_order = not tree_of(model).coupled and freedoms.sweep_order(tree_of(model))[1] is None
    make = _forward_derivatives_by_sweeps if in_order else ForwardDerivatives
    return make(model, variant, dtype)
