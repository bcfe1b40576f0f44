"""The derivatives A and B of a step: the chain rule through the tableau of its integrator.

The text `differentiate` stands for all integrators and for both ways in which its matrices, with a
column for each entry of [q, v, controls], are computed: as scalars here, which small robots take,
and as products of matrices in functions/matrix_sensitivities.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.integrators import (
    Tableau,
    arrival,
    combined,
    moved,
    plus_times,
    times,
)
from featherlane.algorithms.lie_group_joints import MotionMaps, RateMaps
from featherlane.robot.spatial import dot
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar

Rows = list[list[Scalar]]
Matrix = TypeVar("Matrix")
Motion = TypeVar("Motion")
Acceleration = TypeVar("Acceleration")
Weights = Sequence[float]
END = 0  # in the place of a stage's number: the end of the step


class StepSensitivities(Protocol[Matrix, Motion, Acceleration]):
    """Derivatives by [q, v, controls] of a step's beginning: of v there, of each stage, and of the
    end. A `Motion` is the derivative of a motion u, which is read once.
    """

    @property
    def beginning(self) -> Matrix:
        """dv of the beginning, [0 1 0]."""

    @property
    def first_acceleration(self) -> Acceleration:
        """da of the beginning, [da/dq da/dv da/du]."""

    def motion(self, row: Weights, rates: Sequence[Matrix]) -> Motion:
        """du = dt sum_j row_j dr_j."""

    def velocity(self, stage: int, row: Weights, accelerations: Sequence[Acceleration]) -> Matrix:
        """dv_k = dv + dt sum_j row_j da_j."""

    def configuration(self, stage: int, du: Motion) -> Matrix:
        """dq_k = Ad dq + J_r du."""

    def rate(self, stage: int, du: Motion, dv: Matrix) -> Matrix:
        """dr_k, the derivative of `local_rate`."""

    def acceleration(self, stage: int, dq: Matrix, dv: Matrix) -> Acceleration:
        """da_k = da/dq dq_k + da/dv dv_k + da/du."""


def differentiate(
    method: Tableau, d: StepSensitivities[Matrix, Motion, Acceleration]
) -> tuple[Matrix, Matrix]:
    """Returns the derivatives of q and v at the end of a step: those of equations (1) and (2) of
    integrators.py, stage by stage.
    """
    rates, accelerations = [d.beginning], [d.first_acceleration]
    for k, row in enumerate(method.a, 2):
        du, dv = d.motion(row, rates), d.velocity(k, row, accelerations)
        dq = d.configuration(k, du)
        rates.append(d.rate(k, du, dv) if method.series else dv)
        accelerations.append(d.acceleration(k, dq, dv))
    dv = d.velocity(END, method.b, accelerations)
    du = d.motion(method.b, [dv] if method.semi_implicit else rates)
    return d.configuration(END, du), dv


def nonzero(row: Weights, *vectors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns the weights of a row other than 0, each with the vectors that it belongs to."""
    return [pair for pair in zip(row, *vectors, strict=True) if pair[0]]


def stage_names(method: Tableau, row: Weights) -> tuple[list[str], list[str]]:
    """Returns the names of the rates and accelerations of the stages that a row combines: v and a
    of the first stage; where the order needs no series, the rate of a stage is its velocity.
    """
    rate = "rate" if method.series else "v"
    stages = [k for k, weight in enumerate(row, 1) if weight]
    return ["v" if k == 1 else f"{rate}{k}" for k in stages], [f"a{number(k)}" for k in stages]


def number(stage: int) -> str:
    """Returns the suffix of the names of a stage's arrays: none for the first stage."""
    return "" if stage == 1 else str(stage)


class ScalarSensitivities:
    """`StepSensitivities` as columns of scalars. arrays: those of the step and of its stages, by
    name, in semi-implicit steps the slopes of mean accelerations; u: the motion of the step.
    """

    def __init__(self, method: Tableau, tree: Tree, arrays: Mapping[str, Any], u: Scalars) -> None:
        self.method, self.tree, self.arrays = method, tree, arrays
        later = range(2, method.stages + 1)
        self.motions = {k: MotionMaps(tree, arrays[f"u{k}"]) for k in later}
        self.motions[END] = MotionMaps(tree, u, method.semi_implicit)
        self.rates = {
            k: RateMaps(tree, arrays[f"u{k}"], arrays[f"v{k}"], method.series)
            for k in (later if method.series else ())
        }
        n, m = tree.nv, 2 * tree.nv + len(arrays["da_du"][0])
        units = [[1.0 if i == j else 0.0 for i in range(m)] for j in range(m)]
        self.dq, self.beginning = [x[:n] for x in units], [x[n : 2 * n] for x in units]

    @property
    def first_acceleration(self) -> Rows:
        return transposed(beside(*self._slopes(1)))

    def _slopes(self, stage: int) -> list[Rows]:
        return [self.arrays[f"{x}{number(stage)}"] for x in ("da_dq", "da_dv", "da_du")]

    def _combined(self, row: Weights, columns: Sequence[Rows]) -> list[tuple[Scalar, Scalars]]:
        """Returns for each column dt times a factor, and the vector that goes with it."""
        pairs = nonzero(row, columns)
        weights = [weight for weight, _ in pairs]
        sums = [combined(weights, x) for x in zip(*[x for _, x in pairs], strict=True)]
        return [(factor * self.arrays["dt"], x) for factor, x in sums]

    def motion(self, row: Weights, rates: Sequence[Rows]) -> Rows:
        return [times(h, x) for h, x in self._combined(row, rates)]

    def velocity(self, stage: int, row: Weights, accelerations: Sequence[Rows]) -> Rows:
        added = self._combined(row, accelerations)
        return [plus_times(v, h, x) for v, (h, x) in zip(self.beginning, added, strict=True)]

    def configuration(self, stage: int, du: Rows) -> Rows:
        maps = self.motions[stage]
        return [maps.change(*pair) for pair in zip(self.dq, du, strict=True)]

    def rate(self, stage: int, du: Rows, dv: Rows) -> Rows:
        maps = self.rates[stage]
        return [maps.change(*pair) for pair in zip(du, dv, strict=True)]

    def acceleration(self, stage: int, dq: Rows, dv: Rows) -> Rows:
        by_q, by_v, by_u = self._slopes(stage)
        still: Rows = [[0.0] * self.tree.nv for _ in range(2 * self.tree.nv)]
        return [
            [dot(a, x) + dot(b, y) + z for a, b, z in zip(by_q, by_v, control, strict=True)]
            for x, y, control in zip(dq, dv, [*still, *transposed(by_u)], strict=True)
        ]


def beside(*blocks: Sequence[Scalars]) -> Rows:
    """Returns matrices of as many rows side by side."""
    return [[x for row in rows for x in row] for rows in zip(*blocks, strict=True)]


def transposed(A: Sequence[Scalars]) -> Rows:
    return [list(column) for column in zip(*A, strict=True)]


def step_derivatives(method: Tableau, names: Sequence[str]) -> Callable[..., Any]:
    """Makes the function that ends a step and differentiates it: q, v, A and B of the arrays of
    the step and its stages, which have these names.
    """

    def derivatives(tree: Tree, *inputs: Any) -> tuple[Any, Any, Rows, Rows]:
        arrays = dict(zip(names, inputs, strict=True))
        rates, accelerations = stage_names(method, method.b)
        at_end = [arrays[name] for name in ("v", *rates, *accelerations, "dt")]
        u, v_next = arrival(tree, method.combination(method.b), *at_end)
        changes = differentiate(method, ScalarSensitivities(method, tree, arrays, u))
        rows, n = [row for columns in changes for row in transposed(columns)], 2 * tree.nv
        q_next = moved(tree, method, arrays["q"], u)
        return q_next, v_next, [row[:n] for row in rows], [row[n:] for row in rows]

    return derivatives
