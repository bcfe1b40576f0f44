"""Plans: sequences of kernels that read and write arrays, with copies, matrix work and loops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from featherlane.program.program import Program

Shape = tuple[int, ...]


class ArrayRow(NamedTuple):
    """A row of an array along its first axis, time: number `slope` k + `offset` in iteration k of
    the loop `counter`.
    """

    counter: str
    slope: int = 1
    offset: int = 0


class Use(NamedTuple):
    """An array that a kernel reads or writes: whole, or one row of it."""

    array: str
    row: ArrayRow | None = None


class KernelRun(NamedTuple):
    """A call of kernel number `kernel` for all states of a block: inputs, then outputs."""

    kernel: int
    uses: tuple[Use, ...]


class Copy(NamedTuple):
    """Copies an array to another one of the same shape."""

    source: Use
    target: Use


class Clear(NamedTuple):
    """Zeros in a temporary."""

    use: Use


class MatrixBlock(NamedTuple):
    """A block of a matrix in a temporary: its first entry, and the entries from row to row."""

    array: str
    start: int
    pitch: int


class Multiply(NamedTuple):
    """Sets the target to left times right, rows x inner and inner x columns, or adds that to it if
    `more`. transposed: left is the transpose of its block.
    """

    target: MatrixBlock
    left: MatrixBlock
    right: MatrixBlock
    rows: int
    inner: int
    columns: int
    transposed: bool = False
    more: bool = True


class Scale(NamedTuple):
    """Sets the target to factor dt^power times the source, or adds that to it if `more`. Without a
    source the target becomes zero.
    """

    target: MatrixBlock
    source: MatrixBlock | None
    rows: int
    columns: int
    factor: float = 1.0
    power: int = 0
    more: bool = False


class Diagonal(NamedTuple):
    """Adds factor dt^power to the first entries of a diagonal."""

    target: MatrixBlock
    size: int
    factor: float = 1.0
    power: int = 0


class Shift(NamedTuple):
    """Adds the number of an input to the first entries of a diagonal."""

    target: MatrixBlock
    size: int
    by: str


class AddRuns(NamedTuple):
    """Adds the numbers of a row, in their order, to runs of a matrix: row, first column, count."""

    target: MatrixBlock
    source: MatrixBlock
    runs: tuple[tuple[int, int, int], ...]


class CopyRows(NamedTuple):
    """Copies rows of a matrix in a temporary into a whole matrix of the user."""

    source: MatrixBlock
    target: str


class LoadRows(NamedTuple):
    """Copies a whole matrix, or one row, of the user into rows of a matrix in a temporary."""

    source: str
    target: MatrixBlock


class Factor(NamedTuple):
    """Replaces `size` rows by L^-1 times them, where L L^T is the matrix of their first columns,
    of which the upper triangle is read. The diagonal of L^T becomes its inverse, see
    `functions.riccati.Cholesky`. before: the matrix of the first columns, as it was; definite: 1,
    or what says that a pivot was not positive, which is renewed.
    """

    target: MatrixBlock
    before: MatrixBlock
    definite: MatrixBlock
    size: int
    columns: int


class Substitute(NamedTuple):
    """Replaces rows by L^-T times them, with the factor of `size` rows from `Factor`."""

    target: MatrixBlock
    factor: MatrixBlock
    size: int
    columns: int


class Mirror(NamedTuple):
    """Copies the upper triangle of a square matrix to its lower one."""

    target: MatrixBlock
    size: int


OfFactors = Factor | Substitute | Mirror
MatrixWork = Multiply | Scale | Diagonal | Shift | AddRuns | CopyRows | LoadRows | OfFactors


class Matrices(NamedTuple):
    """Work on matrices, for one state after another; the time step, of which factors may have a
    power, is the input "dt".
    """

    work: tuple[MatrixWork, ...]


class Loop(NamedTuple):
    """A body that runs `times` times. counter: the name by which rows in the body are chosen;
    total: the name of the counter outer * n + inner of two nested loops, or "".
    """

    counter: str
    times: int
    body: tuple[PlanStep, ...]
    total: str = ""
    outer: str = ""


class Every(NamedTuple):
    """A body that runs where a row's number is a multiple of `steps`."""

    row: ArrayRow
    steps: int
    body: tuple[PlanStep, ...]


PlanStep = KernelRun | Copy | Clear | Matrices | Loop | Every


@dataclass(frozen=True)
class Plan:
    """A sequence of steps. inputs, outputs: the user's arrays, with their shapes for one state;
    temporaries: arrays in the workspace; scratch: matrices there that every state overwrites.
    """

    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]
    steps: Sequence[PlanStep]
    temporaries: Mapping[str, Shape] = field(default_factory=dict)
    scratch: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, Shape]:
        return {**self.inputs, **self.outputs, **self.temporaries, **self.scratch}

    def shape(self, use: Use) -> Shape:
        """The shape of an array, or of a row of it."""
        whole = self.shapes[use.array]
        return whole if use.row is None else whole[1:]

    @property
    def temporary_numbers(self) -> int:
        """The number of entries that one state has in the workspace."""
        return sum(map(math.prod, self.temporaries.values()))

    def times(self) -> Iterator[tuple[KernelRun, int]]:
        """Yields each run of a kernel, and how often it happens, at most."""
        yield from _times(self.steps, 1)


class Composite(NamedTuple):
    """A plan with the programs, or plans, that its runs call."""

    plan: Plan
    pieces: Sequence[Program | Composite]


def _times(steps: Sequence[PlanStep], times: int) -> Iterator[tuple[KernelRun, int]]:
    for step in steps:
        if isinstance(step, KernelRun):
            yield step, times
        elif isinstance(step, Loop):
            yield from _times(step.body, times * step.times)
        elif isinstance(step, Every):
            yield from _times(step.body, -(-times // step.steps))
