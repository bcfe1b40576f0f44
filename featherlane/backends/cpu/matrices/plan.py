"""Functions of long robots as a plan: step programs, and matrices computed from their results.

A call of any number of states is one call of machine code (`matrices/loop`), which gets a plan as
data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.graphs.gather import first_strides
from featherlane.backends.cpu.loaded import BatchEvaluator, LoadedLoop, LoopWords
from featherlane.backends.cpu.matrices import loop
from featherlane.backends.cpu.matrices.tables import KernelProgram, address
from featherlane.backends.cpu.steps.run import StepEvaluator
from featherlane.backends.cpu.strides import LINE
from featherlane.backends.llvm import jit

IN_CACHE = 1 << 20  # bytes of the numbers of a block of states

Shape = tuple[int, ...]


class PlanStage(NamedTuple):
    """A step program, and the names of the arrays that it reads and writes."""

    run: StepEvaluator
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class MatrixJob(NamedTuple):
    """A kernel's program, and the names of its arrays; b is None where the kernel has none."""

    program: KernelProgram
    a: str
    b: str | None
    c: str


class MatrixPlan(NamedTuple):
    """The computation for one state: the stages one after another, then the jobs.

    inputs: shapes by name. outputs: for each matrix the entry of v that each row of the matrix
    filled by jobs belongs to, None if they are in order. n: the length of v; size: the rows of
    matrices that jobs fill. room: buffers that start as zeros, their sizes by name.
    """

    inputs: Mapping[str, Shape]
    outputs: Mapping[str, np.ndarray | None]
    n: int
    size: int
    stages: Sequence[PlanStage]
    jobs: Sequence[MatrixJob]
    room: Mapping[str, int] = {}


class _AddressedArray(NamedTuple):
    """The address of an array, and its strides, or their numbers if it is the user's."""

    address: loop.ArrayAddress
    strides: Shape


class _Tables:
    """The tables of a plan, for blocks of so many states. bytes: of the workspace."""

    def __init__(self, plan: MatrixPlan, together: int, dtype: np.dtype) -> None:
        self.plan, self.together, self.item = plan, together, dtype.itemsize
        self.arrays: dict[str, _AddressedArray] = {}
        self.bytes = 0
        self.lists: list[np.ndarray] = []
        self._address_user_arrays()
        for name, count in plan.room.items():
            self.arrays[name] = self._in_workspace(count * self.item, 1, ())
        for stage in plan.stages:
            for name, shape in zip(stage.writes, stage.run.outputs, strict=True):
                self.arrays[name] = self._stage_output(shape)

    def _address_user_arrays(self) -> None:
        shapes = {**self.plan.inputs, **dict.fromkeys(self.plan.outputs, (self.plan.n,) * 2)}
        firsts = first_strides([*shapes.values()])
        for k, ((name, shape), first) in enumerate(zip(shapes.items(), firsts, strict=True)):
            strides = tuple(range(first, first + len(shape)))
            self.arrays[name] = _AddressedArray(loop.ArrayAddress(k, 0, 0), strides)

    def _in_workspace(self, size: int, states: int, strides: Shape) -> _AddressedArray:
        step = -(-size // LINE) * LINE
        at, self.bytes = self.bytes, self.bytes + step * states
        return _AddressedArray(loop.ArrayAddress(-1, at, step if states > 1 else 0), strides)

    def _stage_output(self, shape: Shape) -> _AddressedArray:
        """A vector; or rows that belong to a freedom each, as columns of a matrix, so that the same
        number of neighbouring freedoms is contiguous.
        """
        if len(shape) == 1:
            return self._in_workspace(shape[0] * self.item, self.together, (self.item,))
        row = self.plan.size * self.item
        return self._in_workspace(shape[1] * row, self.together, (self.item, row))

    def _list(self, rows: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Stores a list of records; returns their number and their address."""
        self.lists.append(np.array(rows, np.int64).reshape(-1))
        return len(rows), address(self.lists[-1])

    def _operands(self, names: Sequence[str]) -> list[loop.OperandRecord]:
        records, at = [], len(names)
        for name in names:
            at_address, strides = self.arrays[name]
            core = strides[:1] if at_address.array >= 0 else strides
            records.append(loop.OperandRecord(*at_address, len(strides), at, *(*core, 0, 0)[:2]))
            at += len(strides)
        return records

    def _job(self, job: MatrixJob) -> loop.JobRecord:
        kernel = loop.KERNELS.index(job.program.kernel)
        arrays = [x for name in (job.a, job.b or job.a, job.c) for x in self.arrays[name].address]
        program = address(job.program.numbers), job.program.records
        return loop.JobRecord(*[kernel, *arrays, *program])

    def _result(self, name: str) -> loop.ResultRecord:
        (at_address, strides), n, size = self.arrays[name], self.plan.n, self.plan.size
        owners = self.plan.outputs[name]
        same = owners is None and n == size
        count, at = self._list([[k] for k in (range(n) if owners is None else owners)])
        return loop.ResultRecord(at_address.array, strides[0], n, size, at, count, int(same))

    def table(self, loops: Sequence[LoadedLoop]) -> np.ndarray:
        """The PlanTable, with the code of each stage."""
        stages, most = [], 1
        for stage, stage_loop in zip(self.plan.stages, loops, strict=True):
            operands = self._operands((*stage.reads, *stage.writes))
            most = max(most, len(operands))
            stages.append(loop.StageRecord(stage_loop.code.address, *self._list(operands)))
        lists = stages, map(self._job, self.plan.jobs), map(self._result, self.plan.outputs)
        at = [x for records in lists for x in self._list([*records])]
        user = len(self.plan.inputs) + len(self.plan.outputs)
        return np.array(loop.PlanTable(user, self.together, most, *at), np.int64)


class PlannedLoop(LoadedLoop):
    """A plan as machine code, for a call of so many states, or of more than all lanes."""

    def __init__(self, plan: MatrixPlan, states: int, dtype: np.dtype) -> None:
        width = jit.widest(dtype)
        numbers = sum(math.prod(shape) for stage in plan.stages for shape in stage.run.outputs)
        fit = IN_CACHE // max(numbers * dtype.itemsize, LINE) // width * width
        tables = _Tables(plan, states if states < width else max(width, fit), dtype)
        loops = [stage.run.loop(states) for stage in plan.stages]
        table, start = tables.table(loops), np.zeros(tables.bytes, np.uint8)
        self._memory = plan, loops, tables, table, start  # super().__init__ sets _alive
        work = LoopWords(program=address(table), bytes=start.nbytes, start=address(start))
        shapes = [*plan.inputs.values()], [(plan.n, plan.n)] * len(plan.outputs)
        super().__init__("matrices", lambda: loop.source(dtype, width), work, dtype, *shapes)


class MatrixEvaluator(BatchEvaluator):
    """An evaluator (*arrays, out=) of the matrices of a plan."""

    def __init__(self, plan: MatrixPlan, dtype: np.dtype) -> None:
        super().__init__(dtype, core=2)
        self.plan = plan

    def _make(self, states: int) -> PlannedLoop:
        return PlannedLoop(self.plan, states, self.dtype)
