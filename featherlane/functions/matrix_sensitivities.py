"""The derivatives of a step as work on matrices, for robots whose columns would not fit into the
caches a tile of states at a time: what `ScalarSensitivities` computes column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from featherlane.algorithms.step_derivatives import (
    END,
    StepSensitivities,
    Weights,
    differentiate,
    nonzero,
    number,
    stage_names,
)
from featherlane.functions.step_functions import MOTION_MAPS, RATE_MAPS
from featherlane.functions.table import BY_CONTROLS, Variant, shapes
from featherlane.program.plan import (
    CopyRows,
    Diagonal,
    KernelRun,
    MatrixBlock,
    MatrixWork,
    Multiply,
    Scale,
    Shape,
    Use,
)
from featherlane.robot.model import Robot

LANES = 16  # a multiple of the lanes of all vectors


class SensitivityMatrix(NamedTuple):
    """nv rows, with columns [q, v, controls], of a matrix in the scratch memory of a plan."""

    array: str
    row: int = 0


class SlopesOfDynamics(NamedTuple):
    """The derivatives of an acceleration, whose blocks are the arrays of a stage."""

    stage: int


Acceleration = SensitivityMatrix | SlopesOfDynamics


class ScaledMatrix(NamedTuple):
    """A matrix times a factor and a power of dt."""

    matrix: SensitivityMatrix
    factor: float
    power: int


class MatrixSensitivities:
    """Makes the part of a plan that is a call of "step_derivatives". controls: columns of da_du;
    kernel: gives the number of a function's kernel in the plan.
    """

    def __init__(
        self, model: Robot, variant: Variant, controls: int, kernel: Callable[[Variant], int]
    ) -> None:
        assert variant.tableau is not None
        self.model, self.variant, self.method = model, variant, variant.tableau
        self.n, self.controls = model.nv, controls
        used = 2 * self.n + controls
        self.columns = -(-used // LANES) * LANES  # whole vectors; what is beyond `used` is zero
        self.beyond = self.columns - used
        self.kernel = kernel
        types = [(model.types[i], model.first_v[i]) for i in model.independent]
        self.lie_groups = [(kind.nv, k) for kind, k in types if kind.commutator is not None]
        self.temporaries, self.scratch = dict[str, Shape](), dict[str, Shape]()
        self.runs, self.work = list[KernelRun](), list[MatrixWork]()

    def make(self) -> tuple[list[KernelRun], list[MatrixWork]]:
        """Returns the kernels of the step's end and of maps, and then the work on matrices."""
        self.scratch["D"] = 2 * self.n, self.columns
        self._end_of_step()
        sensitivities: StepSensitivities[SensitivityMatrix, ScaledMatrix, Acceleration] = self
        differentiate(self.method, sensitivities)
        D = SensitivityMatrix("D")
        A, B = CopyRows(self._all(D), "A"), CopyRows(self._all(D, 0, 2 * self.n), "B")
        return self.runs, [*self.work, A, B]

    def _end_of_step(self) -> None:
        rates, accelerations = stage_names(self.method, self.method.b)
        arrays = "q", "v", *rates, *accelerations, "dt", "q_next", "v_next", self._motion(END)
        self._run(Variant("advance", tableau=self.method.combination(self.method.b)), *arrays)
        self.temporaries[self._motion(END)] = (self.n,)

    def _run(self, variant: Variant, *arrays: str) -> None:
        self.runs.append(KernelRun(self.kernel(variant), tuple(map(Use, arrays))))

    def _motion(self, stage: int) -> str:
        return "motion" if stage == END else f"u{stage}"

    # Parts of matrices

    def _new(self, name: str, stage: int) -> SensitivityMatrix:
        """Returns a matrix of a stage; those of q and v at the end are the halves of D."""
        if stage == END and name in ("Dq", "Dv"):
            return SensitivityMatrix("D", self.n if name == "Dv" else 0)
        array = f"{name}{stage or ''}"
        self.scratch[array] = self.n, self.columns
        return SensitivityMatrix(array)

    def _all(self, matrix: SensitivityMatrix, row: int = 0, column: int = 0) -> MatrixBlock:
        """Returns a part of a matrix with all columns, from a row and a column on."""
        start = (matrix.row + row) * self.columns + column
        return MatrixBlock(matrix.array, start, self.columns)

    def _slopes(self, stage: int) -> tuple[MatrixBlock, MatrixBlock, MatrixBlock]:
        sizes = self.n, self.n, self.controls
        names = [f"{name}{number(stage)}" for name in BY_CONTROLS]
        by_q, by_v, by_u = (MatrixBlock(x, 0, size) for x, size in zip(names, sizes, strict=True))
        return by_q, by_v, by_u

    def _sum(
        self,
        target: SensitivityMatrix,
        row: Weights,
        terms: Sequence[Acceleration],
    ) -> None:
        """Sets the target to dt sum_j row_j term_j; slopes of dynamics come first."""
        for k, (weight, term) in enumerate(nonzero(row, terms)):
            if isinstance(term, SlopesOfDynamics):
                self._beside(target, term.stage, weight)
            else:
                sizes = self.n, self.columns, weight, 1
                self.work.append(Scale(self._all(target), self._all(term), *sizes, more=k > 0))

    def _beside(self, target: SensitivityMatrix, stage: int, weight: float) -> None:
        """Sets the target to dt weight [da/dq da/dv da/du]."""
        n, (by_q, by_v, by_u) = self.n, self._slopes(stage)
        at = [self._all(target, 0, column) for column in (0, n, 2 * n)]
        self.work += [
            Scale(at[0], by_q, n, n, weight, 1),
            Scale(at[1], by_v, n, n, weight, 1),
            Scale(at[2], by_u, n, self.controls, weight, 1),
            Scale(self._all(target, 0, self.columns - self.beyond), None, n, self.beyond),
        ]

    # Blocks of Lie-group joints

    def _maps(self, stage: int) -> None:
        """Runs the kernel of the maps of Lie-group joints along the motion to a stage, or of the
        step.
        """
        straight = stage == END and self.method.semi_implicit
        variant = Variant("straight_maps" if straight else "motion_maps")
        u, sizes = self._motion(stage), MOTION_MAPS
        inputs = [u]
        if stage != END and self.method.series:
            inputs, sizes = [u, f"v{stage}"], {**MOTION_MAPS, **RATE_MAPS}
            variant = Variant("stage_maps", tableau=self.method.combination(()))
        arrays = [self._map(name, stage) for name in sizes]
        of_blocks = shapes(self.model, sizes, self.variant).values()
        self.temporaries |= dict(zip(arrays, of_blocks, strict=True))
        self._run(variant, *inputs, *arrays)

    def _map(self, name: str, stage: int) -> str:
        return f"{name}{stage or ''}"

    def _blocks(self, array: str) -> Iterator[tuple[MatrixBlock, int, int]]:
        """Yields the block of each Lie-group joint, the joint's size and its first entry of v."""
        at = 0
        for size, k in self.lie_groups:
            yield MatrixBlock(array, at, size), size, k
            at += size * size

    def _through(self, target: SensitivityMatrix, blocks: str, source: ScaledMatrix) -> None:
        """Sets rows of Lie-group joints to their blocks times those of the source."""
        matrix, factor, power = source
        if self.lie_groups:
            product = self._new(f"{blocks}.product", END)
        for block, size, k in self._blocks(blocks):
            rows = self._all(product, k)
            self.work += [
                Scale(rows, None, size, self.columns),
                Multiply(rows, block, self._all(matrix, k), size, size, self.columns),
                Scale(self._all(target, k), rows, size, self.columns, factor, power),
            ]

    # See `StepSensitivities`

    @cached_property
    def beginning(self) -> SensitivityMatrix:
        base = self._new("base", END)
        zeros = Scale(self._all(base), None, self.n, self.columns)
        self.work += [zeros, Diagonal(self._all(base, 0, self.n), self.n)]
        return base

    @property
    def first_acceleration(self) -> SlopesOfDynamics:
        return SlopesOfDynamics(1)

    def motion(self, row: Weights, rates: Sequence[SensitivityMatrix]) -> ScaledMatrix:
        terms = nonzero(row, rates)
        if len(terms) == 1:
            ((weight, matrix),) = terms
            return ScaledMatrix(matrix, weight, 1)
        Du = self._new(f"Du.{len(row)}", END)
        self._sum(Du, row, rates)
        return ScaledMatrix(Du, 1.0, 0)

    def velocity(
        self,
        stage: int,
        row: Weights,
        accelerations: Sequence[Acceleration],
    ) -> SensitivityMatrix:
        Dv = self._new("Dv", stage)
        self._sum(Dv, row, accelerations)
        self.work.append(Diagonal(self._all(Dv, 0, self.n), self.n))
        return Dv

    def configuration(self, stage: int, du: ScaledMatrix) -> SensitivityMatrix:
        Dq, n = self._new("Dq", stage), self.n
        if self.lie_groups:
            self._maps(stage)
        matrix, factor, power = du
        self.work += [
            Scale(self._all(Dq), self._all(matrix), n, self.columns, factor, power),
            Diagonal(self._all(Dq), n),
        ]
        self._through(Dq, self._map("jacobian", stage), du)
        for block, size, k in self._blocks(self._map("adjoint", stage)):
            self.work.append(Scale(self._all(Dq, k, k), block, size, size, more=True))
        return Dq

    def rate(self, stage: int, du: ScaledMatrix, dv: SensitivityMatrix) -> SensitivityMatrix:
        Dr = self._new("Dr", stage)
        self.work.append(Scale(self._all(Dr), self._all(dv), self.n, self.columns))
        self._through(Dr, self._map("rate_by_u", stage), du)
        for block, size, k in self._blocks(self._map("rate_by_v", stage)):
            rows = self._all(Dr, k), block, self._all(dv, k)
            self.work.append(Multiply(*rows, size, size, self.columns))
        return Dr

    def acceleration(
        self, stage: int, dq: SensitivityMatrix, dv: SensitivityMatrix
    ) -> SensitivityMatrix:
        Da, n, m = self._new("Da", stage), self.n, self.columns
        by_q, by_v, by_u = self._slopes(stage)
        self.work += [
            Scale(self._all(Da), None, n, m),
            Multiply(self._all(Da), by_q, self._all(dq), n, n, m),
            Multiply(self._all(Da), by_v, self._all(dv), n, n, m),
            Scale(self._all(Da, 0, 2 * n), by_u, n, self.controls, more=True),
        ]
        return Da
