"""The step of a Riccati recursion for a large robot, as a plan: loops over rows of the matrices of
one problem after another, where the unrolled step of `riccati` would be more code than a processor
fetches in the time in which it multiplies.

Columns belong to [du; dx], then one to gradients and, where trajectories may have gaps, one to the
share of gaps in them (see `riccati.Crossed`). Rows of controls are eliminated: those of states
remain as the value at the knot. Of symmetric matrices the upper triangle is computed.

Semi-implicit steps are S = T [E; G]: E takes [du; dx] to dq, G to the change of the next velocity,
and T adds dt times that to dq. T is the unit matrix but for dt and a block for each Lie-group
joint, so products have half of the rows and of the terms of those with S.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from featherlane.functions.hessian_runs import Runs
from featherlane.program.plan import (
    AddRuns,
    Copy,
    CopyRows,
    Diagonal,
    Factor,
    KernelRun,
    LoadRows,
    Matrices,
    MatrixBlock,
    MatrixWork,
    Mirror,
    Multiply,
    Plan,
    PlanStep,
    Scale,
    Shape,
    Shift,
    Substitute,
    Use,
)

Array = Any  # np.ndarray of numbers, or traced
PANEL = 8  # rows of a symmetric product, left of whose first one nothing is computed
SUMS, BOUNDED = 0, 1  # the kernels of a plan: `sums_inputs`, `bounded_inputs`


class RiccatiSizes(NamedTuple):
    """The sizes of the step. forces: rows of constraints whose forces have costs of their own."""

    states: int
    controls: int
    forces: int
    limited: bool
    gaps: bool
    summed: int  # numbers that the recursion gathers
    hessian: Runs  # entries of the cost's Hessian by [du; dx] that may differ from zero
    blocks: tuple[tuple[int, int], ...] | None = None  # of T: size, row; None for any step

    @property
    def freedoms(self) -> int:
        return self.states // 2

    @property
    def extra(self) -> int:
        """Returns the columns beside those of [du; dx]."""
        return 2 if self.gaps else 1

    @property
    def all(self) -> int:
        return self.controls + self.states

    @property
    def entries(self) -> int:
        """Returns the number of entries of the cost's Hessian."""
        return sum(count for _, _, count in self.hessian)

    def packed_cost(self, gradient: Array, hessian: Array) -> Array:
        """Returns `cost` of a gradient and a Hessian by [du; dx]."""
        rows = [row for row, _, count in self.hessian for _ in range(count)]
        columns = [k for _, first, count in self.hessian for k in range(first, first + count)]
        return np.concatenate([hessian[..., rows, columns], gradient], -1)

    @property
    def work_shapes(self) -> dict[str, Shape]:
        """Returns the shapes of what is computed of a knot before this step: `steps` takes [du; dx]
        to the dx at the knot's end, or is G, with the blocks of T in `maps`; `cost` has the entries
        of the Hessian in `hessian`, and then the gradient; forces change by `forces` [du; dx], and
        their cost has the Hessian `stiffness`; `shift` has the gap in each column.
        """
        z, f, arrays = self.all, self.forces, dict[str, Shape]()
        arrays["steps"] = (self.states if self.blocks is None else self.freedoms, z)
        if self.blocks:
            arrays["maps"] = 2, sum(size * size for size, _ in self.blocks)
        if self.gaps:
            arrays["shift"] = self.states, self.extra
        arrays["cost"] = (self.entries + z,)
        return {**arrays, **({"forces": (f, z), "stiffness": (f, f)} if f else {})}

    @property
    def value(self) -> Shape:
        return self.states, self.states + self.extra

    @property
    def inputs(self) -> dict[str, Shape]:
        arrays = {"value": self.value, "sums": (self.summed,), **self.work_shapes, "damping": ()}
        if self.limited:
            arrays |= {"limits": (2, self.controls), "tau": (self.controls,)}
        arrays |= {"gap": (self.states,)} if self.gaps else {}
        return {**arrays, **({} if self.blocks is None else {"dt": ()})}

    @property
    def outputs(self) -> dict[str, Shape]:
        m, n = self.controls, self.states
        return {"value_before": self.value, "sums_before": (self.summed,), "k": (m,), "K": (m, n)}

    @property
    def temporaries(self) -> dict[str, Shape]:
        """Returns the shapes of what kernels read and write between work on matrices."""
        m, n, e = self.controls, self.states, self.extra
        arrays: dict[str, Shape] = {"eliminated": (m, m + e), "definite": (), "k_now": (m,)}
        if self.gaps:
            arrays |= {"ahead": (n, e), "share": (n,)}
        if self.limited:
            arrays |= {"rows": (m, self.all + e), "free_rows": (m, self.all + e)}
        return arrays

    @property
    def sums_inputs(self) -> dict[str, Shape]:
        """Returns the inputs of the kernel that gathers what is expected of the feedback."""
        names = ["sums", "eliminated", "k_now", "definite", "damping"]
        names += ["gap", "ahead", "share"] if self.gaps else []
        return {name: {**self.inputs, **self.temporaries}[name] for name in names}

    @property
    def bounded_inputs(self) -> dict[str, Shape]:
        """Returns the inputs of the kernel that finds the controls between limits."""
        names = "rows", "damping", "limits", "tau"
        return {name: {**self.inputs, **self.temporaries}[name] for name in names}


def riccati_plan(size: RiccatiSizes, lanes: int) -> Plan:
    """Returns the plan for vectors of so many lanes. Its runs call the kernels SUMS and BOUNDED."""
    work = _RiccatiWork(size, lanes)
    steps: list[PlanStep] = []
    expand, eliminate = [*work.expand()], [*work.eliminate()]
    if size.limited:
        uses = tuple(map(Use, (*size.bounded_inputs, "free_rows", "k_now")))
        steps = [Matrices(tuple(expand)), KernelRun(BOUNDED, uses), Matrices(tuple(eliminate))]
    else:
        steps = [Matrices((*expand, *eliminate))]
    uses = tuple(map(Use, (*size.sums_inputs, "sums_before")))
    steps += [KernelRun(SUMS, uses), Copy(Use("k_now"), Use("k"))]
    temporaries, scratch = size.temporaries, work.matrices
    if size.limited:  # other work comes between its rows' computation and their elimination
        temporaries["Q"] = scratch.pop("Q")
    return Plan(size.inputs, size.outputs, steps, temporaries, scratch)


class _RiccatiWork:
    """The work on matrices. V: the value at the knot's end, then T^T V T; S: `steps`; P: V times
    the step; Q: the value of [du; dx], of which Y is what is left of rows of controls.
    """

    def __init__(self, size: RiccatiSizes, lanes: int) -> None:
        self.size, self.lanes = size, lanes
        self.columns = self._whole(size.all + size.extra)
        self.pitch = self._whole(size.all + lanes)  # with room for a vector from the last column on
        n, m, f, z = size.states, size.controls, size.forces, size.all
        rows = {"S": n, "P": n, "Q": z, "Y": m, "F": f, "PF": f}
        self.matrices: dict[str, Shape] = {x: (k, self.pitch) for x, k in rows.items() if k}
        self.matrices |= {"V": (n, self._whole(n + lanes)), "H": (m, m), "U": (m, m)}
        self.matrices["packed"] = 1, size.entries + z
        if f:
            self.matrices["R"] = f, f
        if size.gaps:
            self.matrices["D"] = n, lanes
        if size.limited:
            self.matrices["step"] = m, lanes
        if size.blocks:
            most = max(rows for rows, _ in size.blocks)
            self.matrices |= {"M": size.work_shapes["maps"], "B": (most, self.matrices["V"][1])}
            wide = self._whole(most)
            self.matrices |= {"right": (most, wide), "C": (n, wide)}

    def _whole(self, columns: int) -> int:
        """Returns the columns of whole vectors."""
        return -(-columns // self.lanes) * self.lanes

    def _at(self, array: str, row: int = 0, column: int = 0) -> MatrixBlock:
        """Returns a part of a matrix from an entry on."""
        pitch = {**self.size.temporaries, **self.matrices}[array][1]
        return MatrixBlock(array, row * pitch + column, pitch)

    def _column(self, array: str) -> MatrixBlock:
        """Returns an array of numbers as a column."""
        return MatrixBlock(array, 0, 1)

    def _panels(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yields panels of rows: the first one and their number, and the first column of vectors
        that reach their diagonal.
        """
        for r in range(first, end, PANEL):
            yield r, min(PANEL, end - r), r // self.lanes * self.lanes

    def _symmetric(
        self, left: str, right: str, inner: int, first: int = 0, more: bool = True
    ) -> Iterator[MatrixWork]:
        """Adds left^T right to Q, or sets it to that, rows and columns from `first` on."""
        m = self.size.controls
        for r, rows, c in (*self._panels(first, m), *self._panels(max(first, m), self.size.all)):
            factors = self._at("Q", r, c), self._at(left, 0, r), self._at(right, 0, c)
            yield Multiply(*factors, rows, inner, self.columns - c, transposed=True, more=more)

    def _load(self, array: str, target: str) -> Iterator[MatrixWork]:
        """Loads an array, with zeros beside it: subnormal numbers in unused lanes would be slow."""
        rows, columns = self.size.inputs[array]
        yield LoadRows(array, self._at(target))
        beside = self.matrices[target][1] - columns
        yield Scale(self._at(target, 0, columns), None, rows, beside)

    def expand(self) -> Iterator[MatrixWork]:
        """Computes the upper triangle of Q, and copies of it for kernels."""
        size, (n, m) = self.size, (self.size.states, self.size.controls)
        z, e, at = size.all, size.extra, self._at
        yield from self._load("value", "V")
        if size.gaps:
            yield Scale(self._column("share"), at("V", 0, n + 1), n, 1)
            yield from self._load("shift", "D")
            yield Multiply(at("V", 0, n), at("V"), at("D"), n, n, self.lanes)
            yield Scale(at("ahead"), at("V", 0, n), n, e)
        yield from self._load("steps", "S")
        yield Scale(at("Q"), None, m, m)  # left of panels, where rows are scaled and added, too
        yield from (self._any_step if size.blocks is None else self._semi_implicit)()
        yield from self._costs()
        yield Scale(at("eliminated"), at("Q"), m, m)
        yield Scale(at("eliminated", 0, m), at("Q", 0, z), m, e)
        if size.limited:
            yield Scale(at("rows"), at("Q"), m, z + e)

    def _any_step(self) -> Iterator[MatrixWork]:
        """Sets Q to S^T V S."""
        n, z, at = self.size.states, self.size.all, self._at
        yield Multiply(at("P"), at("V"), at("S"), n, n, self.columns, more=False)
        yield Scale(at("P", 0, z), at("V", 0, n), n, self.size.extra, more=True)
        yield from self._symmetric("S", "P", n, more=False)

    def _semi_implicit(self) -> Iterator[MatrixWork]:
        """Sets Q to [E; G]^T T^T V T [E; G]."""
        size, n, at = self.size, self.size.freedoms, self._at
        m, z, e, beside = size.controls, size.all, size.extra, self._whole(size.states)
        if size.blocks:
            yield LoadRows("maps", at("M"))
        if beside > size.states:  # whole vectors of the square end before the other columns
            yield Scale(at("V", 0, beside), at("V", 0, size.states), size.states, e)
        yield from self._rows_through_T(beside + e)
        yield from self._columns_through_T()
        yield Multiply(at("P"), at("V", n, n), at("S"), n, n, self.columns, more=False)
        yield Scale(at("P", 0, m), at("V", n), n, n, more=True)
        yield Scale(at("P", 0, z), at("V", n, beside), n, e, more=True)
        yield from self._symmetric("S", "P", n, more=False)
        for r, rows, c in self._panels(m, m + n):
            factors = at("Q", r, c), at("V", n, r - m), at("S", 0, c)
            yield Multiply(*factors, rows, n, self.columns - c, transposed=True)
        yield Scale(at("Q", m, m), at("V"), n, n, more=True)
        yield Scale(at("Q", m, z), at("V", 0, beside), n, e, more=True)

    def _simple(self) -> Iterator[tuple[int, int]]:
        """Yields the first entry and the number of motions between those of Lie-group joints."""
        first = 0
        for size, row in (*(self.size.blocks or ()), (0, self.size.freedoms)):
            if row > first:
                yield first, row - first
            first = row + size

    def _blocks(self) -> Iterator[tuple[int, int, MatrixBlock, MatrixBlock]]:
        """Yields the number of motions of each Lie-group joint, the first one, and its blocks of T,
        by q and by v.
        """
        entry = 0
        for size, row in self.size.blocks or ():
            by_q, by_v = (MatrixBlock("M", entry + k * self.matrices["M"][1], size) for k in (0, 1))
            yield size, row, by_q, by_v
            entry += size * size

    def _rows_through_T(self, columns: int) -> Iterator[MatrixWork]:
        """Replaces V by T^T V, in its first columns."""
        n, at, whole = self.size.freedoms, self._at, self._whole(columns)
        for first, count in self._simple():
            yield Scale(at("V", n + first), at("V", first), count, columns, power=1, more=True)
        for size, row, by_q, by_v in self._blocks():
            rows, product = at("V", row), at("B")
            yield Multiply(at("V", n + row), by_v, rows, size, size, whole, transposed=True)
            yield Multiply(product, by_q, rows, size, size, whole, transposed=True, more=False)
            yield Scale(rows, product, size, columns)

    def _columns_through_T(self) -> Iterator[MatrixWork]:
        """Replaces V by V T, but for its upper right block, which nothing reads."""
        n, at = self.size.freedoms, self._at
        for first, count in self._simple():
            yield Scale(at("V", n, n + first), at("V", n, first), n, count, power=1, more=True)
        for size, column, by_q, by_v in self._blocks():
            whole, factor = self._whole(size), at("right")
            yield Scale(factor, None, size, whole)
            yield Scale(factor, by_v, size, size)
            left = at("V", n, column)
            yield Multiply(at("V", n, n + column), left, factor, n, size, whole)
            yield Scale(factor, by_q, size, size)
            left, product = at("V", 0, column), at("C")
            yield Multiply(product, left, factor, 2 * n, size, whole, more=False)
            yield Scale(left, product, 2 * n, size)

    def _costs(self) -> Iterator[MatrixWork]:
        """Adds the cost to Q."""
        size, at = self.size, self._at
        yield LoadRows("cost", at("packed"))
        yield AddRuns(at("Q"), at("packed"), size.hessian)
        gradient = MatrixBlock("packed", size.entries, 1)
        yield Scale(at("Q", 0, size.all), gradient, size.all, 1, more=True)
        yield from self._costs_of_forces()

    def _costs_of_forces(self) -> Iterator[MatrixWork]:
        f, at = self.size.forces, self._at
        if f:
            yield from self._load("forces", "F")
            yield LoadRows("stiffness", at("R"))
            yield Multiply(at("PF"), at("R"), at("F"), f, f, self.columns, more=False)
            yield from self._symmetric("F", "PF", f)

    def eliminate(self) -> Iterator[MatrixWork]:
        """Eliminates the rows of controls of Q, and computes the feedback and the value."""
        size, (n, m) = self.size, (self.size.states, self.size.controls)
        z, at = size.all, self._at
        if size.limited:
            yield from self._take_free_rows()
        else:
            yield Shift(at("Q"), m, "damping")
        yield Scale(at("H"), at("Q"), m, m)
        yield from self._factor(m)
        yield from self._symmetric("Y", "Q", m, first=m)
        yield Mirror(at("Q", m, m), n)
        yield CopyRows(at("Q", m, m), "value_before")
        yield from self._substitute(m)
        yield CopyRows(at("Y", 0, m), "K")
        if not size.limited:
            yield Scale(self._column("k_now"), at("Y", 0, z), m, 1)

    def _factor(self, m: int) -> Iterator[MatrixWork]:
        """Factors the first rows of Q, some at a time; Y becomes what is left of them, negative."""
        at, definite = self._at, self._column("definite")
        yield Scale(definite, None, 1, 1)
        yield Diagonal(definite, 1)
        for r in range(0, m, PANEL):
            rows, behind = min(PANEL, m - r), r + PANEL
            block = at("Q", r, r), at("H", r, r), definite
            yield Factor(*block, rows, self.columns - r)
            yield Scale(at("Y", r), at("Q", r), rows, self.columns, -1.0)
            if behind < m:
                c = behind // self.lanes * self.lanes
                factors = at("Q", behind, c), at("Y", r, behind), at("Q", r, c)
                sizes = m - behind, rows, self.columns - c
                yield Multiply(*factors, *sizes, transposed=True)
        yield Scale(at("U"), at("Y"), m, m)

    def _substitute(self, m: int) -> Iterator[MatrixWork]:
        """Replaces Y by L^-T Y, some rows at a time."""
        at, c = self._at, m // self.lanes * self.lanes
        columns = self.columns - c
        for r in reversed(range(0, m, PANEL)):
            rows = min(PANEL, m - r)
            yield Substitute(at("Y", r, c), at("Q", r, r), rows, columns)
            if r:
                factors = at("Y", 0, c), at("U", 0, r), at("Y", r, c)
                yield Multiply(*factors, r, rows, columns)

    def _take_free_rows(self) -> Iterator[MatrixWork]:
        """Adds to the gradient by the state what k changes, and leaves the rows of Q that are free
        to move.
        """
        size, at = self.size, self._at
        n, m, z = size.states, size.controls, size.all
        yield Scale(at("step"), None, m, self.lanes)
        yield Scale(at("step"), self._column("k_now"), m, 1)
        factors = at("Q", m, z), at("rows", 0, m), at("step")
        yield Multiply(*factors, n, m, self.lanes, transposed=True)
        yield Scale(at("Q"), at("free_rows"), m, z + size.extra)
