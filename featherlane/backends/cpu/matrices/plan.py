"""Functions of robots of many links as recorded steps, and matrices made of what they give.

What a state needs is one call of machine code (`backends.matrices`), which is handed a plan.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import weakref
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from featherlane.backends import cache
from featherlane.backends.cpu.call.ufunc import gufunc
from featherlane.backends.cpu.linked import linked
from featherlane.backends.cpu.matrices import loop
from featherlane.backends.cpu.matrices.loop import Head, Landing
from featherlane.backends.cpu.matrices.tables import Program, address
from featherlane.backends.cpu.steps.run import Recorded, Running, forget
from featherlane.backends.cpu.steps.scratch import FILLED
from featherlane.backends.llvm import jit

IN_CACHE = 1 << 20  # bytes of the numbers of states that are worked on together
LINE = 64  # bytes of a cache line

Shape = tuple[int, ...]


class Stage(NamedTuple):
    """A recorded function, and the names of the arrays that it reads and gives."""

    run: Recorded
    reads: tuple[str, ...]
    gives: tuple[str, ...]


class Job(NamedTuple):
    """A program, and the names of its arrays. b is None where it has none."""

    program: Program
    a: str
    b: str | None
    c: str


class Plan(NamedTuple):
    """inputs: by name, with their shapes. outputs: matrices by name, and for each the entry of v of
    its rows and columns as jobs fill them, or None if they are in order. n: entries of v; size:
    that of matrices as jobs fill them. room: numbers that start as zeros, by name. Stages, then
    jobs run in turn.
    """

    inputs: Mapping[str, Shape]
    outputs: Mapping[str, np.ndarray | None]
    n: int
    size: int
    stages: Sequence[Stage]
    jobs: Sequence[Job]
    room: Mapping[str, int] = {}


class _Array(NamedTuple):
    """Where an array is, as `matrices.Operand` tells it: first of all one of the user, or -1."""

    array: int
    offset: int
    step: int
    strides: Shape

    @property
    def place(self) -> list[int]:
        return [*self[:3]]


class _Tables:
    """A plan as numbers, for so many states together."""

    def __init__(self, plan: Plan, together: int, dtype: np.dtype) -> None:
        self.plan, self.together, self.item = plan, together, dtype.itemsize
        self.arrays: dict[str, _Array] = {}
        self.bytes = 0
        self.kept: list[np.ndarray] = []
        self._user()
        for name, count in plan.room.items():
            self.arrays[name] = self._new(count * self.item, 1, ())
        for stage in plan.stages:
            for name, shape in zip(stage.gives, stage.run.outputs, strict=True):
                self.arrays[name] = self._given(shape)

    def _user(self) -> None:
        every = {**self.plan.inputs, **dict.fromkeys(self.plan.outputs, (self.plan.n,) * 2)}
        core = len(every)
        for k, (name, shape) in enumerate(every.items()):
            self.arrays[name] = _Array(k, 0, 0, tuple(range(core, core + len(shape))))
            core += len(shape)

    def _new(self, size: int, states: int, strides: Shape) -> _Array:
        step = -(-size // LINE) * LINE
        at, self.bytes = self.bytes, self.bytes + step * states
        return _Array(-1, at, step if states > 1 else 0, strides)

    def _given(self, shape: Shape) -> _Array:
        """Numbers of freedoms lie side by side."""
        if len(shape) == 1:
            return self._new(shape[0] * self.item, self.together, (self.item,))
        row = self.plan.size * self.item
        return self._new(shape[1] * row, self.together, (self.item, row))

    def _keep(self, rows: Sequence[Sequence[int]]) -> list[int]:
        """How many rows, and where they are."""
        self.kept.append(np.array(rows, np.int64).reshape(-1))
        return [len(rows), address(self.kept[-1])]

    def _operands(self, names: Sequence[str]) -> list[list[int]]:
        rows, at = [], len(names)
        for name in names:
            x = self.arrays[name]
            strides = x.strides[:1] if x.array >= 0 else x.strides
            rows.append([*x.place, len(x.strides), at, *(*strides, 0, 0)[:2]])
            at += len(x.strides)
        return rows

    def _job(self, job: Job) -> list[int]:
        kernel, numbers, records, _ = job.program
        a, c = self.arrays[job.a], self.arrays[job.c]
        b = self.arrays[job.b or job.a]
        which = loop.KERNELS.index(kernel)
        return [which, *a.place, *b.place, *c.place, address(numbers), records]

    def _landing(self, name: str) -> list[int]:
        x, n, size = self.arrays[name], self.plan.n, self.plan.size
        owners = self.plan.outputs[name]
        same = owners is None and n == size
        count, at = self._keep([[k] for k in (range(n) if owners is None else owners)])
        row = {"ARRAY": x.array, "STRIDES": x.strides[0], "N": n, "MATRIX": size, "OWNERS": at}
        row |= {"COUNT": count, "SAME": int(same)}
        return [row[field] for field, k in sorted(_places(Landing).items(), key=lambda x: x[1])]

    def table(self, running: Sequence[Running]) -> np.ndarray:
        """Of `matrices.Head`."""
        stages, most = [], 1
        for stage, run in zip(self.plan.stages, running, strict=True):
            operands = self._operands((*stage.reads, *stage.gives))
            most = max(most, len(operands))
            stages.append([run.code.address, *self._keep(operands)])
        every = self._keep(stages), self._keep([self._job(job) for job in self.plan.jobs])
        landings = self._keep([self._landing(name) for name in self.plan.outputs])
        user = len(self.plan.inputs) + len(self.plan.outputs)
        words = [user, self.together, most, *every[0], *every[1], *landings]
        assert len(words) == Head.AT_LANDINGS + 1
        return np.array(words, np.int64)


def _places(words: type) -> dict[str, int]:
    return {k: n for k, n in vars(words).items() if k.isupper() and k != "SIZE"}


class Planned:
    """A plan as machine code, for a call of so many states, or of more than all lanes."""

    def __init__(self, plan: Plan, states: int, dtype: np.dtype) -> None:
        width = jit.widest(dtype)
        own = sum(math.prod(shape) for stage in plan.stages for shape in stage.run.outputs)
        fit = IN_CACHE // max(own * dtype.itemsize, LINE) // width * width
        tables = _Tables(plan, states if states < width else max(width, fit), dtype)
        self.dtype = dtype
        self._running = [stage.run.running(states) for stage in plan.stages]
        table = tables.table(self._running)
        start = np.zeros(tables.bytes, np.uint8)
        text = loop.source(dtype, width)
        key = f"matrices {hashlib.sha256(text.encode()).hexdigest()} {jit.target()}"
        image = cache.fetch(key, lambda: jit.machine_code(text))
        self.code = linked(image, ("loop", "work", "forget"))
        self._kept = table, start, tables
        given = {"program": address(table), "bytes": start.nbytes, "start": address(start)}
        place = ctypes.c_int64 * len(FILLED)
        place.from_address(self.code.place("work"))[:] = [given.get(k, 0) for k in FILLED]
        shapes = [*plan.inputs.values()], [(plan.n, plan.n)] * len(plan.outputs)
        self.ufunc, self._alive = gufunc("planned", self.code.address, dtype, *shapes)
        clear = ctypes.CFUNCTYPE(None)(self.code.place("forget"))
        weakref.finalize(self, forget, clear, self.code)


class Pipeline:
    """An evaluator (*arrays, out=) of matrices with the broadcasting of a generalised ufunc."""

    def __init__(self, plan: Plan, dtype: np.dtype) -> None:
        self.plan, self.dtype = plan, dtype
        self._made: dict[int, Planned] = {}

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        self.planned(math.prod(out[0].shape[:-2])).ufunc(*arrays, out=tuple(out))

    @property
    def single(self) -> Planned | None:
        """What runs single states, if it was needed."""
        return self._made.get(1)

    def planned(self, batch: int) -> Planned:
        """The code for so many states."""
        states = min(1 << max(batch - 1, 0).bit_length(), jit.widest(self.dtype))
        if states not in self._made:
            self._made.setdefault(states, Planned(self.plan, states, self.dtype))
        return self._made[states]
