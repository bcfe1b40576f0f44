"""The mass matrix and its inverse of robots of many links, and forward dynamics through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.rows.inertia import ByArticulation, ByInertia
from featherlane.backends.cpu.matrices import tables
from featherlane.backends.cpu.matrices.plan import Job, Pipeline, Plan, Stage
from featherlane.backends.cpu.steps.run import Recorded
from featherlane.functions.compile import input_shapes
from featherlane.functions.long.freedoms import freedoms, numbers_of, products, states, sweep_order
from featherlane.functions.long.recording import recording
from featherlane.functions.table import ROWS, TABLE, Variant
from featherlane.robot.model import Model
from featherlane.robot.parameters import BASE
from featherlane.robot.tree_of import tree_of

Evaluator = Callable[..., None]  # (*arrays, out=) with the broadcasting of a generalised ufunc


def starts(widths: Sequence[int]) -> list[int]:
    """Where each of some numbers that lie one behind the other begins."""
    return [sum(widths[:k]) for k in range(len(widths))]


def mass_matrix(model: Model, variant: Variant, dtype: Any) -> Pipeline:
    """S_i . F_j for i before j or in its joint, F_i . S_j for the others: the same sum."""
    f = freedoms(tree_of(model))
    S, _, F, _ = starts(ByInertia())
    above = np.triu(f.before | f.joint, 1)
    meetings = [
        tables.Meeting(above, S, F, 6),
        tables.Meeting(above.T, F, S, 6),
        tables.Meeting(f.same, S, F, 7),
    ]
    return products(model, variant, dtype, [meetings])


class Articulated(NamedTuple):
    """The mass matrix as sweeps meet it. owners: the entry of v of each freedom in their order,
    None if it is the same.
    """

    run: Recorded
    order: tables.Order
    owners: np.ndarray | None

    @property
    def size(self) -> int:
        return numbers_of(self.run)

    @property
    def room(self) -> dict[str, int]:
        return {"slots": tables.room(self.order, self.size, self.run.dtype)}

    def stage(self, reads: Iterable[str]) -> Stage:
        """Gives "factor"."""
        return Stage(self.run, tuple(reads), ("factor",))

    def inverted(self, name: str) -> list[Job]:
        """The jobs that make a matrix the inverse."""
        given = self.size, starts(ByArticulation())[2], self.run.dtype
        invert = tables.inverting(self.order, *given), tables.mirroring(given[0], given[2])
        return [Job(program, "factor", "slots", name) for program in invert]

    def negatively_solved(self, name: str) -> Job:
        """That which multiplies a matrix by the inverse and -1."""
        minus = starts(ByArticulation())[3]
        solve = tables.solving(self.order, self.size, minus, self.run.dtype)
        return Job(solve, "factor", "slots", name)


def articulated(model: Model, variant: Variant, dtype: Any) -> Articulated:
    """variant: of "mass_matrix_inverse"."""
    run = recording(model, variant, dtype, ROWS[variant.name, None])
    return Articulated(run, *sweep_order(tree_of(model)))


def _inverse_by_sweeps(model: Model, variant: Variant, dtype: Any) -> Pipeline:
    """A unit torque at each freedom, solved for."""
    factor, inputs = articulated(model, variant, dtype), input_shapes(model, variant)
    (name,) = TABLE[variant.name].outputs
    stages, made = [factor.stage(inputs)], factor.inverted(name)
    outputs = {name: factor.owners}
    plan = Plan(inputs, outputs, model.nv, factor.size, stages, made, factor.room)
    return Pipeline(plan, factor.run.dtype)


def weightless(variant: Variant) -> Variant:
    """With gravity as an input, if it is not one already."""
    names = variant.parameters
    return variant if "gravity" in names else variant._replace(parameters=(*names, "gravity"))


BIAS = ("v", "f_ext", "gravity", *BASE)  # what the mass matrix does not depend on


class JointSpace:
    """Forward dynamics through the mass matrix (JSIIA): the bias and all columns of M are a batch
    of scanned inverse dynamics, M is factored as L L^T. A state whose M is not positive definite
    gives NaN.
    """

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        inverse = weightless(variant)._replace(name="inverse_dynamics", method="scan")
        self.names = tuple(input_shapes(model, inverse))
        self.run = recording(model, inverse, dtype, method="serial")
        self.gravity = np.array(model.gravity, dtype)
        self.unit = np.eye(model.nv + 1, model.nv, -1, dtype=dtype)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        cores = [len(core) for core in self.run.inputs[: len(arrays)]]
        for at, own in states(arrays, cores, out[0].shape[:-1]):
            out[0][at] = self._solved(*own)

    def _solved(self, *arrays: np.ndarray) -> np.ndarray:
        """Of one state."""
        given = dict(zip(self.names, (*arrays, self.gravity), strict=False))
        tau, given["a"] = given["a"], self.unit
        rows = np.empty_like(self.unit)
        inputs = [self._first(x) if name in BIAS else x for name, x in given.items()]
        self.run(*inputs, out=[rows])
        return solve(rows[1:], tau - rows[0])

    def _first(self, x: np.ndarray) -> np.ndarray:
        """x for the bias, and zeros for the columns."""
        rows = np.zeros((len(self.unit), *x.shape), x.dtype)
        rows[0] = x
        return rows


class Inverse:
    """The inverse of the mass matrix where joints share coordinates."""

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        self.matrix = mass_matrix(model, variant._replace(name="mass_matrix"), dtype)
        self.unit = np.eye(model.nv, dtype=dtype)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        M = np.empty_like(out[0])
        self.matrix(*arrays, out=[M])
        for at in np.ndindex(M.shape[:-2]):
            out[0][at] = solve(M[at], self.unit)


def mass_matrix_inverse(model: Model, variant: Variant, dtype: Any) -> Evaluator:
    return (Inverse if tree_of(model).coupled else _inverse_by_sweeps)(model, variant, dtype)


def forward_dynamics(model: Model, variant: Variant, dtype: Any) -> Evaluator:
    """By the articulated bodies, where these do not share coordinates."""
    if tree_of(model).coupled:
        return JointSpace(model, variant, dtype)
    return recording(model, variant._replace(method="aba"), dtype)


BLOCK = 64  # rows that are solved for at once
LOST = 8  # rounding errors of an entry of M that a pivot is not if it is no larger


def solve(M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """M^-1 right of one symmetric M; NaN if it is not positive definite, or only for rounding."""
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)
    if (np.diag(L) ** 2 < LOST * np.finfo(M.dtype).eps * np.diag(M)).any():
        return np.full_like(right, np.nan)
    x = right.copy()
    starts = range(0, len(x), BLOCK)
    for at in starts:
        own = slice(at, at + BLOCK)
        x[own] = np.linalg.solve(L[own, own], x[own] - L[own, :at] @ x[:at])
    for at in reversed(starts):
        own, after = slice(at, at + BLOCK), slice(at + BLOCK, None)
        x[own] = np.linalg.solve(L[own, own].T, x[own] - L[after, own].T @ x[after])
    return x
