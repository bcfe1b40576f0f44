"""What a sequence computes: which kernels read and write which arrays, and which of it repeats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from featherlane.program.program import Program

Shape = tuple[int, ...]


class Row(NamedTuple):
    """A row of an array along its first axis, time: number `slope` k + `offset` in round k of the
    loop `counter`.
    """

    counter: str
    slope: int = 1
    offset: int = 0


class Use(NamedTuple):
    """An array that a kernel reads or writes: whole, or one row of it. A temporary that is used by
    rows is used by nothing else: row by row, it has the states of a block.
    """

    array: str
    row: Row | None = None


class Run(NamedTuple):
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


class Part(NamedTuple):
    """A block of a matrix in a temporary: the entry where it begins, and those from row to row."""

    array: str
    start: int
    pitch: int


class Multiply(NamedTuple):
    """Adds left times right, rows x inner and inner x columns, to the target."""

    target: Part
    left: Part
    right: Part
    rows: int
    inner: int
    columns: int


class Scale(NamedTuple):
    """The target becomes factor dt^power times the source, or gets that added. Without a source:
    zeros.
    """

    target: Part
    source: Part | None
    rows: int
    columns: int
    factor: float = 1.0
    power: int = 0
    more: bool = False


class Diagonal(NamedTuple):
    """Adds factor dt^power to the first entries of a diagonal."""

    target: Part
    size: int
    factor: float = 1.0
    power: int = 0


class Block(NamedTuple):
    """Copies rows of a matrix in a temporary into a whole matrix of the user's."""

    source: Part
    target: str


Work = Multiply | Scale | Diagonal | Block


class Matrices(NamedTuple):
    """Work on matrices, for one state after another; the time step is the input "dt"."""

    work: tuple[Work, ...]


class Loop(NamedTuple):
    """The body, `times` times over. counter: its name, for the rows that the body uses. Rows of
    "outer * n + inner" are those of the counter `total`, if it has a name.
    """

    counter: str
    times: int
    body: tuple[Step, ...]
    total: str = ""
    outer: str = ""


Step = Run | Copy | Clear | Matrices | Loop


@dataclass(frozen=True)
class Plan:
    """inputs, outputs: the user's arrays, with their shapes for one state; steps: what happens, in
    order; temporaries: arrays in the workspace; scratch: matrices there that each state uses anew.
    """

    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]
    steps: Sequence[Step]
    temporaries: Mapping[str, Shape] = field(default_factory=dict)
    scratch: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, Shape]:
        return {**self.inputs, **self.outputs, **self.temporaries, **self.scratch}

    def shape(self, use: Use) -> Shape:
        """The shape of what is used."""
        whole = self.shapes[use.array]
        return whole if use.row is None else whole[1:]

    @property
    def temporary_numbers(self) -> int:
        """The numbers of one state in the workspace."""
        return sum(map(math.prod, self.temporaries.values()))

    def times(self) -> Iterator[tuple[Run, int]]:
        """Yields each run of a kernel, and how often it happens."""
        yield from _times(self.steps, 1)


class Composite(NamedTuple):
    """A plan with the programs, or plans, that its runs call."""

    plan: Plan
    pieces: Sequence[Program | Composite]


def _times(steps: Sequence[Step], times: int) -> Iterator[tuple[Run, int]]:
    for step in steps:
        if isinstance(step, Run):
            yield step, times
        elif isinstance(step, Loop):
            yield from _times(step.body, times * step.times)
