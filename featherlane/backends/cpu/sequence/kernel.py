"""A plan as machine code: the inner loop of a generalised ufunc that calls those of its kernels.

Blocks of states go through all kernels and all steps of time while their numbers are in the caches.
Nothing is allocated, and Python is not asked, between the first kernel and the last.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np

from featherlane.backends.cpu.compile import SLOTS, Kernel
from featherlane.backends.cpu.graphs.gather import first_strides
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.cpu.scratch import Workspaces
from featherlane.backends.cpu.sequence.plan import Clear, Copy, Loop, Plan, Run, Step, Use
from featherlane.backends.llvm.macros import expanded

IN_CACHE = 192 << 10  # bytes of the workspace of a block of states
MOST = 64  # states of a block: enough for kernels to begin and end rarely


def compile_plan(
    plan: Plan, parts: Sequence[Kernel], key: str, dtype: np.dtype, single: bool
) -> Kernel:
    """The kernel of a plan; single: for one state. parts: its kernels in their order."""
    width = parts[0].width
    text = lambda: _source(plan, parts, dtype, 1 if single else _together(plan, width, dtype))
    code = loaded(f"{key} {dtype} {width}", text, ("loop", SLOTS, "kernels"))
    addresses = (ctypes.c_int64 * len(parts)).from_address(code.place("kernels"))
    addresses[:] = [part.code.address for part in parts]
    return Kernel(code, dtype, width, tuple(parts))


def _together(plan: Plan, width: int, dtype: np.dtype) -> int:
    """The states of a block."""
    fit = IN_CACHE // max(plan.temporary_numbers * dtype.itemsize, 1)
    return max(min(fit, MOST) // width * width, width)


def _source(plan: Plan, parts: Sequence[Kernel], dtype: np.dtype, together: int) -> str:
    """The LLVM IR of @loop. Its text depends on the counts of the kernels, which `key` tells."""
    slots = sum(parts[run.kernel].slots * times for run, times in plan.times())
    lines = _Lines(plan, dtype.itemsize, together)
    body = "\n".join(lines.function())
    return f"""
@kernels = global [{len(parts)} x ptr] zeroinitializer, align 8
@{SLOTS} = constant i64 {slots}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
{expanded(COPY.replace("SIZE", str(dtype.itemsize)).replace("INT", f"i{8 * dtype.itemsize}"))}
{expanded(body)}
{lines.workspaces.functions()}"""


def _offset(array: str, number: int) -> str:
    """Lines that set %array.o to where entry (%r, %c) of state %s is, by the strides of array 0 or
    1 from state to state, row to row and column to column, which alternate.
    """
    s, r, c = (
        f"$(mul i64 %{k}, $(item i64 %strides {2 * n + number}))" for n, k in enumerate("src")
    )
    return f"%{array}.sr = add i64 {s}, {r}\n  %{array}.o = add i64 %{array}.sr, {c}"


COPY = f"""
; Copies rows x columns numbers of each state between arrays of any strides.
define internal void @copy(ptr %from, ptr %to, ptr %strides,
                           i64 %states, i64 %rows, i64 %columns) {{
  each %s 0 %states
  each %r 0 %rows
  each %c 0 %columns
  {_offset("from", 0)}
  {_offset("to", 1)}
  %from.at = at %from %from.o
  %to.at = at %to %to.o
  %x = load INT, ptr %from.at, align SIZE
  store INT %x, ptr %to.at, align SIZE
  again %c
  again %r
  again %s
  ret void
}}
"""


class _Lines:
    """The lines of @loop, with macros. Names: %base.n and %step.n of the user's array n, the bytes
    from state to state; %core.n.i its other strides; %memory the workspace of a block.
    """

    def __init__(self, plan: Plan, itemsize: int, together: int) -> None:
        self.plan, self.itemsize, self.together = plan, itemsize, together
        self.user = {**plan.inputs, **plan.outputs}
        self.number = {name: n for n, name in enumerate(self.user)}
        self.places: dict[str, int] = {}  # bytes into the numbers of a block
        at = 0
        for name, shape in plan.temporaries.items():
            self.places[name] = at
            at += math.prod(shape) * itemsize * together
        self.calls = 0  # of kernels and copies, each with a record of strides
        self.strides: list[str] = []
        self.workspaces = Workspaces({"memory": max(at, itemsize)})

    def function(self) -> list[str]:
        body = [line for step in self.plan.steps for line in self._step(step)]
        most = max(len(run.uses) for run, _ in self.plan.times())
        return [
            "define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {",
            "%states = item i64 %dims 0",
            *self.workspaces.entry(),
            f"%own.args = alloca ptr, i64 {max(most, 1)}",
            "%own.dims = alloca i64, i64 1",
            *self._user_arrays(),
            *self.strides,
            "when sgt i64 %states, 0: begin, leave",
            "begin:",
            *self.workspaces.taken(otherwise="leave"),
            f"%up = add i64 %states, {self.together - 1}",
            f"%blocks = udiv i64 %up, {self.together}",
            "each %block 0 %blocks",
            f"%first = mul i64 %block, {self.together}",
            "%left = sub i64 %states, %first",
            f"%few = icmp slt i64 %left, {self.together}",
            f"%count = select i1 %few, i64 %left, i64 {self.together}",
            "put i64 %count %own.dims 0",
            *body,
            "again %block",
            *self.workspaces.given(),
            "br label %leave",
            "leave:",
            "ret void",
            "}",
        ]

    def _user_arrays(self) -> list[str]:
        lines, firsts = [], first_strides([*self.user.values()])
        for n, (shape, first) in enumerate(zip(self.user.values(), firsts, strict=True)):
            lines.append(f"%base.{n} = item ptr %args {n}")
            lines.append(f"%step.{n} = item i64 %steps {n}")
            cores = enumerate(range(first, first + len(shape)))
            lines += [f"%core.{n}.{axis} = item i64 %steps {at}" for axis, at in cores]
        return lines

    def _strides(self, use: Use) -> tuple[str, list[str]]:
        """The bytes from state to state, and from entry to entry along each axis."""
        shape = self.plan.shape(use)
        if use.array in self.user:
            skip = len(self.user[use.array]) - len(shape)
            n = self.number[use.array]
            return f"%step.{n}", [f"%core.{n}.{axis + skip}" for axis in range(len(shape))]
        inner = [self.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return str(self.itemsize * math.prod(shape)), list(map(str, inner))

    def _address(self, use: Use, name: str) -> list[str]:
        """Lines that set %name to where the first state of the block has what is used."""
        if use.array not in self.user:
            return [f"%{name} = at %memory {self.places[use.array]}"]
        n = self.number[use.array]
        lines = [f"%{name}.s = mul i64 %step.{n}, %first"]
        if use.row is None:
            return [*lines, f"%{name} = at %base.{n} %{name}.s"]
        counter, slope, offset = use.row
        return [
            *lines,
            f"%{name}.k = add i64 $(mul i64 %{counter}, {slope}), {offset}",
            f"%{name}.r = mul i64 %{name}.k, %core.{n}.0",
            f"%{name} = at %base.{n} $(add i64 %{name}.s, %{name}.r)",
        ]

    def _step(self, step: Step) -> list[str]:
        if isinstance(step, Loop):
            body = [line for inner in step.body for line in self._step(inner)]
            total = [
                f"%{step.total} = add i64 %{step.counter}, $(mul i64 %{step.outer}, {step.times})"
            ]
            head = f"each %{step.counter} 0 {step.times}"
            return [head, *(total if step.total else []), *body, f"again %{step.counter}"]
        self.calls += 1
        if isinstance(step, Clear):
            name = step.use.array
            size = math.prod(self.plan.shapes[name]) * self.itemsize * self.together
            to = self._address(step.use, f"x{self.calls}")
            memset = (
                f"call void @llvm.memset.p0.i64(ptr %x{self.calls}, i8 0, i64 {size}, i1 false)"
            )
            return [*to, memset]
        return self._run(step) if isinstance(step, Run) else self._copy(step)

    def _record(self, strides: Sequence[str]) -> str:
        """A list of strides, filled once in a call."""
        name = f"%strides.{self.calls}"
        self.strides.append(f"{name} = alloca i64, i64 {len(strides)}")
        self.strides += [f"put i64 {x} {name} {k}" for k, x in enumerate(strides)]
        return name

    def _run(self, run: Run) -> list[str]:
        pairs = [self._strides(use) for use in run.uses]
        strides = self._record([step for step, _ in pairs] + [x for _, core in pairs for x in core])
        lines, own = [], f"x{self.calls}"
        for k, use in enumerate(run.uses):
            lines += self._address(use, f"{own}.{k}")
            lines.append(f"put ptr %{own}.{k} %own.args {k}")
        lines.append(f"%{own}.loop = item ptr @kernels {run.kernel}")
        arguments = f"ptr %own.args, ptr %own.dims, ptr {strides}, ptr null"
        return [*lines, f"call void %{own}.loop({arguments})"]

    def _copy(self, copy: Copy) -> list[str]:
        own, shape = f"x{self.calls}", (1, 1, *self.plan.shape(copy.target))[-2:]
        strides = []
        for use in copy:
            step, cores = self._strides(use)
            strides.append([step, *["0", "0", *cores][-2:]])
        record = self._record([x for pair in zip(*strides, strict=True) for x in pair])
        ends = [f"{own}.from", f"{own}.to"]
        lines = [x for use, end in zip(copy, ends, strict=True) for x in self._address(use, end)]
        sizes = f"i64 %count, i64 {shape[0]}, i64 {shape[1]}"
        arguments = f"ptr %{ends[0]}, ptr %{ends[1]}, ptr {record}, {sizes}"
        return [*lines, f"call void @copy({arguments})"]
