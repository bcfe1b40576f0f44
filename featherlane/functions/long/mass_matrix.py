"""The mass matrix and its inverse of long robots, and forward dynamics through them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.rows import inertia
from featherlane.backends.cpu.matrices import tables
from featherlane.backends.cpu.matrices.plan import MatrixEvaluator, MatrixJob, PlanStage
from featherlane.backends.cpu.steps.run import StepEvaluator
from featherlane.backends.cpu.threads.share import Evaluator
from featherlane.functions.long import freedoms
from featherlane.functions.long.recording import recording
from featherlane.functions.table import TABLE, Variant
from featherlane.functions.variants import input_shapes
from featherlane.robot.model import Robot
from featherlane.robot.parameters import BASE
from featherlane.robot.tree_of import tree_of


def mass_matrix(model: Robot, variant: Variant, dtype: Any) -> MatrixEvaluator:
    """M_ij = S_i . F_j for i before j or in its joint, else F_i . S_j: the same sum of products."""
    f = freedoms.masks(tree_of(model))
    S, _, F, _ = freedoms.offsets(inertia.ByInertia())
    above = np.triu(f.before | f.joint, 1)
    parts = [
        tables.MaskedProduct(above, S, F, 6),
        tables.MaskedProduct(above.T, F, S, 6),
        tables.MaskedProduct(f.same, S, F, 7),
    ]
    return freedoms.products(model, variant, dtype, [parts])


class SweptMassMatrix(NamedTuple):
    """The mass matrix as sweeps use it: the recording of `articulated_rows`, the depth-first order
    of the freedoms, and the entry of v of each in that order, None if they are in order.
    """

    run: StepEvaluator
    order: tables.SweepOrder
    owners: np.ndarray | None

    @property
    def size(self) -> int:
        return freedoms.matrix_size(self.run)

    @property
    def room(self) -> dict[str, int]:
        return {"slots": tables.slot_numbers(self.order, self.size, self.run.dtype)}

    def stage(self, reads: Iterable[str]) -> PlanStage:
        """Writes "factor", the numbers of all freedoms."""
        return PlanStage(self.run, tuple(reads), ("factor",))

    def invert(self, name: str) -> list[MatrixJob]:
        """The jobs that make a matrix the inverse."""
        size, d, dtype = self.size, freedoms.offsets(inertia.ByArticulation())[2], self.run.dtype
        inverting = tables.inverting(self.order, size, d, dtype)
        programs = inverting, tables.mirroring(size, dtype)
        return [MatrixJob(program, "factor", "slots", name) for program in programs]

    def solve_negative(self, name: str) -> MatrixJob:
        """The job that multiplies a matrix by minus the inverse."""
        minus = freedoms.offsets(inertia.ByArticulation())[3]
        program = tables.solving(self.order, self.size, minus, self.run.dtype)
        return MatrixJob(program, "factor", "slots", name)


def swept_mass_matrix(model: Robot, variant: Variant, dtype: Any) -> SweptMassMatrix:
    """variant: of "mass_matrix_inverse"."""
    run = recording(model, variant, dtype, TABLE[variant.name].rows[None])
    return SweptMassMatrix(run, *freedoms.sweep_order(tree_of(model)))


def _inverse_by_sweeps(model: Robot, variant: Variant, dtype: Any) -> MatrixEvaluator:
    """Solves for a unit torque at each freedom."""
    M = swept_mass_matrix(model, variant, dtype)
    (name,) = TABLE[variant.name].outputs
    stages = [M.stage(input_shapes(model, variant))]
    return freedoms.pipeline(model, variant, stages, M.invert(name), M.size, M.owners, M.room)


class CoupledInverse:
    """The inverse of the mass matrix where joints share coordinates, state by state."""

    def __init__(self, model: Robot, variant: Variant, dtype: Any) -> None:
        self.matrix = mass_matrix(model, variant._replace(name="mass_matrix"), dtype)
        self.unit = np.eye(model.nv, dtype=dtype)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        M = np.empty_like(out[0])
        self.matrix(*arrays, out=[M])
        for at in np.ndindex(M.shape[:-2]):
            out[0][at] = solve(M[at], self.unit)


def mass_matrix_inverse(model: Robot, variant: Variant, dtype: Any) -> Evaluator:
    return (CoupledInverse if tree_of(model).coupled else _inverse_by_sweeps)(model, variant, dtype)


BIAS = ("v", "f_ext", "gravity", *BASE)  # the inputs that only the bias depends on


class JointSpaceDynamics:
    """Forward dynamics through the mass matrix (JSIIA; Yang, Wu and Pan 2016): the bias and all
    columns of M are one batch of inverse dynamics by scans, M is factored as L L^T. A state whose M
    is not positive definite gives NaN.
    """

    def __init__(self, model: Robot, variant: Variant, dtype: Any) -> None:
        parameters = tuple(dict.fromkeys((*variant.parameters, "gravity")))
        inverse = variant._replace(name="inverse_dynamics", method="scan", parameters=parameters)
        self.names = tuple(input_shapes(model, inverse))
        self.run = recording(model, inverse, dtype, method="serial")
        self.gravity = np.array(model.gravity, dtype)
        self.unit = np.eye(model.nv + 1, model.nv, -1, dtype=dtype)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        cores = [len(core) for core in self.run.inputs[: len(arrays)]]
        for at, state in freedoms.states(arrays, cores, out[0].shape[:-1]):
            out[0][at] = self._accelerations(*state)

    def _accelerations(self, *arrays: np.ndarray) -> np.ndarray:
        """The result of one state."""
        inputs = dict(zip(self.names, (*arrays, self.gravity), strict=False))
        tau, inputs["a"] = inputs["a"], self.unit
        rows = np.empty_like(self.unit)
        batch = [self._bias_alone(x) if name in BIAS else x for name, x in inputs.items()]
        self.run(*batch, out=[rows])
        return solve(rows[1:], tau - rows[0])

    def _bias_alone(self, x: np.ndarray) -> np.ndarray:
        """An input of the batch: x for the bias, zeros for the columns of M."""
        rows = np.zeros((len(self.unit), *x.shape), x.dtype)
        rows[0] = x
        return rows


def forward_dynamics(model: Robot, variant: Variant, dtype: Any) -> Evaluator:
    """By articulated bodies, or through the mass matrix where joints share coordinates."""
    if tree_of(model).coupled:
        return JointSpaceDynamics(model, variant, dtype)
    return recording(model, variant._replace(method="aba"), dtype)


BLOCK = 64  # rows that are solved for at once
LOST = 8  # a pivot of at most so many rounding errors of its entry of M is not positive


def solve(M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """M^-1 right for one symmetric M; NaN if it is not positive definite, or only by rounding."""
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)
    if (np.diag(L) ** 2 < LOST * np.finfo(M.dtype).eps * np.diag(M)).any():
        return np.full_like(right, np.nan)
    x = right.copy()
    starts = range(0, len(x), BLOCK)
    for at in starts:
        block = slice(at, at + BLOCK)
        x[block] = np.linalg.solve(L[block, block], x[block] - L[block, :at] @ x[:at])
    for at in reversed(starts):
        block, after = slice(at, at + BLOCK), slice(at + BLOCK, None)
        x[block] = np.linalg.solve(L[block, block].T, x[block] - L[after, block].T @ x[after])
    return x
