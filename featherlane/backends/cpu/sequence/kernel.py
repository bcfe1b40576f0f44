"""A plan as machine code: the inner loop of a generalised ufunc that calls those of its kernels.

Blocks of states go through all kernels and all steps of time while their numbers are in the caches.
Nothing is allocated and no Python runs between the first kernel and the last.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np

from featherlane.backends import cache
from featherlane.backends.cpu.compile import SLOTS, Kernel
from featherlane.backends.cpu.graphs.gather import first_strides
from featherlane.backends.cpu.linked import loaded
from featherlane.backends.cpu.scratch import LoopWorkspaces
from featherlane.backends.cpu.sequence import factors, matrices
from featherlane.backends.cpu.strides import LINE
from featherlane.backends.llvm import jit
from featherlane.backends.llvm.lower import Lanes, load_entries, scalar_at, store_entries
from featherlane.backends.llvm.macros import expanded
from featherlane.program.plan import (
    AddRuns,
    ArrayRow,
    Clear,
    Copy,
    CopyRows,
    Diagonal,
    Every,
    KernelRun,
    LoadRows,
    Loop,
    Matrices,
    MatrixBlock,
    MatrixWork,
    Multiply,
    OfFactors,
    Plan,
    PlanStep,
    Scale,
    Shift,
    Use,
)

IN_CACHE = 192 << 10  # bytes of the workspace of a block of states
MOST = 64  # states of a block: enough for kernels to begin and end rarely
# Bytes of one number of all states of a block that walks along rows of time: with more states they
# would be evicted from the first-level cache before the next step, which uses the same lines
WALKING = 128
AHEAD = 2  # iterations before its use in which a row of time is prefetched from memory


def compile_plan(
    plan: Plan, parts: Sequence[Kernel], key: str, dtype: np.dtype, single: bool
) -> Kernel:
    """The kernel of a plan. parts: the kernels of its runs, in order; single: for one state."""
    width = parts[0].width
    key = f"{key} {cache.digest(repr(plan).encode())}"
    text = lambda: _source(
        plan, parts, dtype, 1 if single else _states_of_block(plan, width, dtype)
    )
    code = loaded(f"{key} {dtype} {width} {single}", text, ("loop", SLOTS, "kernels"))
    addresses = (ctypes.c_int64 * len(parts)).from_address(code.address_of("kernels"))
    addresses[:] = [part.code.address for part in parts]
    return Kernel(code, dtype, width, tuple(parts))


def _states_of_block(plan: Plan, width: int, dtype: np.dtype) -> int:
    """The states of a block."""
    fit = IN_CACHE // max(plan.temporary_numbers * dtype.itemsize, 1)
    walks = any(use.row for run, _ in plan.times() for use in run.uses)
    most = WALKING // dtype.itemsize if walks else MOST
    return max(min(fit, most) // width * width, width)


def _source(plan: Plan, parts: Sequence[Kernel], dtype: np.dtype, together: int) -> str:
    """The LLVM IR of @loop. It depends on the counts of the kernels, which are determined by
    `key`.
    """
    slots = sum(parts[run.kernel].slots * times for run, times in plan.times())
    lines = _Lines(plan, dtype, together)
    body = "\n".join(lines.function())
    work = matrices.functions(lines.lanes) if lines.has_matrices else ""
    work += factors.functions(lines.lanes) if lines.has_factors else ""
    return f"""
@kernels = global [{len(parts)} x ptr] zeroinitializer, align 8
@{SLOTS} = constant i64 {slots}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
{expanded(PREFETCH)}
{expanded(_copy(dtype.itemsize))}
{work}
{expanded(body)}
{lines.workspaces.functions()}"""


def _copy(size: int) -> str:
    """@copy, for numbers of so many bytes."""
    integer = f"i{8 * size}"
    return f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Copies rows x columns numbers of each state between arrays of any strides: those of both arrays,
; in turn, from state to state, row to row and column to column.
define internal void @copy(ptr %from, ptr %to, ptr %strides,
                           i64 %states, i64 %rows, i64 %columns) noinline {{
  %from.c = item i64 %strides 4
  %to.c = item i64 %strides 5
  %dense = and i1 $(icmp eq i64 %from.c, {size}), $(icmp eq i64 %to.c, {size})
  %bytes = mul i64 %columns, {size}
  each %s 0 %states
  %from.s = at %from $(mul i64 %s, $(item i64 %strides 0))
  %to.s = at %to $(mul i64 %s, $(item i64 %strides 1))
  each %r 0 %rows
  %from.r = at %from.s $(mul i64 %r, $(item i64 %strides 2))
  %to.r = at %to.s $(mul i64 %r, $(item i64 %strides 3))
  when %dense: whole, entries
whole:
  call void @llvm.memcpy.p0.p0.i64(ptr %to.r, ptr %from.r, i64 %bytes, i1 false)
  br label %copied
entries:
  each %c 0 %columns
  %from.at = at %from.r $(mul i64 %c, %from.c)
  %to.at = at %to.r $(mul i64 %c, %to.c)
  %x = load {integer}, ptr %from.at, align {size}
  store {integer} %x, ptr %to.at, align {size}
  again %c
  br label %copied
copied:
  again %r
  again %s
  ret void
}}
"""


PREFETCH = f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

; Asks for a row of each state of a block, which is read or written soon.
define internal void @prefetch(ptr %rows, i64 %step, i64 %bytes, i64 %states) noinline {{
  each %s 0 %states
  %row = at %rows $(mul i64 %s, %step)
  br label %line
line:
  %o = phi i64 [ 0, %s.body ], [ %next, %line ]
  call void @llvm.prefetch.p0(ptr $(at %row %o), i32 0, i32 3, i32 1)
  %next = add i64 %o, {LINE}
  when slt i64 %next, %bytes: line, lines
lines:
  again %s
  ret void
}}
"""


def _row_number(row: ArrayRow, name: str) -> list[str]:
    """Lines that set %name.k to the number of a row."""
    return [f"%{name}.k = add i64 $(mul i64 %{row.counter}, {row.slope}), {row.offset}"]


class _Lines:
    """The lines of @loop, with macros. Names: %base.n and %step.n of the user's array n, the bytes
    from state to state; %core.n.i its other strides; %memory the workspace of a block.
    """

    def __init__(self, plan: Plan, dtype: np.dtype, together: int) -> None:
        self.plan, self.itemsize, self.together = plan, dtype.itemsize, together
        self.lanes = Lanes(dtype, jit.widest(dtype))
        self.has_matrices = self.has_factors = False
        self.user = {**plan.inputs, **plan.outputs}
        self.number = {name: n for n, name in enumerate(self.user)}
        self.offsets: dict[str, int] = {}  # in the numbers of a block, in bytes
        at = 0
        for name, shape in plan.temporaries.items():
            self.offsets[name] = at
            at += math.prod(shape) * self.itemsize * together
        for name, shape in plan.scratch.items():
            self.offsets[name] = at
            at += math.prod(shape) * self.itemsize
        uses = [use for run, _ in plan.times() for use in run.uses]
        self.by_state = {use.array for use in uses if use.row is None}  # also those used by rows
        self.calls = 0  # of kernels and copies, each with a record of strides
        self.strides: list[str] = []
        self.records = 0
        self.workspaces = LoopWorkspaces({"memory": max(at, self.itemsize)})

    def function(self) -> list[str]:
        """The kernel's function: a loop over blocks of states around all steps of the plan."""
        body = [line for step in self.plan.steps for line in self._step(step)]
        most = max((len(run.uses) for run, _ in self.plan.times()), default=1)
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
            *self.workspaces.acquire(otherwise="leave"),
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
            *self.workspaces.release(),
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
        whole = self.plan.shapes[use.array] if use.array in self.by_state else shape
        return str(self.itemsize * math.prod(whole)), list(map(str, inner))

    def _address(self, use: Use, name: str) -> list[str]:
        """Lines that set %name to the address of an array, or its row, of the block's first
        state.
        """
        row = [] if use.row is None else _row_number(use.row, name)
        if use.array not in self.user:
            place = self.offsets[use.array]
            if use.row is None:
                return [f"%{name} = at %memory {place}"]
            states = 1 if use.array in self.by_state else self.together
            size = math.prod(self.plan.shape(use)) * self.itemsize * states
            row.append(f"%{name}.r = mul i64 %{name}.k, {size}")
            return [*row, f"%{name} = at %memory $(add i64 %{name}.r, {place})"]
        n = self.number[use.array]
        lines = [f"%{name}.s = mul i64 %step.{n}, %first"]
        if use.row is None:
            return [*lines, f"%{name} = at %base.{n} %{name}.s"]
        return [
            *lines,
            *row,
            f"%{name}.r = mul i64 %{name}.k, %core.{n}.0",
            f"%{name} = at %base.{n} $(add i64 %{name}.s, %{name}.r)",
        ]

    def _step(self, step: PlanStep) -> list[str]:
        """The instructions of a step of the plan."""
        if isinstance(step, Loop):
            body = [line for inner in step.body for line in self._step(inner)]
            total = [
                f"%{step.total} = add i64 %{step.counter}, $(mul i64 %{step.outer}, {step.times})"
            ]
            head = f"each %{step.counter} 0 {step.times}"
            return [head, *(total if step.total else []), *body, f"again %{step.counter}"]
        self.calls += 1
        if isinstance(step, Every):
            return self._every(step, f"e{self.calls}")
        if isinstance(step, Matrices):
            return self._matrices(step)
        if isinstance(step, Clear):
            name = step.use.array
            size = math.prod(self.plan.shapes[name]) * self.itemsize * self.together
            to = self._address(step.use, f"x{self.calls}")
            memset = (
                f"call void @llvm.memset.p0.i64(ptr %x{self.calls}, i8 0, i64 {size}, i1 false)"
            )
            return [*to, memset]
        return self._run(step) if isinstance(step, KernelRun) else self._copy(step)

    def _every(self, step: Every, name: str) -> list[str]:
        """A branch around the body."""
        return [
            *_row_number(step.row, name),
            f"%{name}.rest = urem i64 %{name}.k, {step.steps}",
            f"when eq i64 %{name}.rest, 0: {name}.do, {name}.done",
            f"{name}.do:",
            *[line for inner in step.body for line in self._step(inner)],
            f"br label %{name}.done",
            f"{name}.done:",
        ]

    def _record(self, strides: Sequence[str]) -> str:
        """A list of strides, which a call fills once."""
        self.records += 1
        name = f"%strides.{self.records}"
        self.strides.append(f"{name} = alloca i64, i64 {len(strides)}")
        self.strides += [f"put i64 {x} {name} {k}" for k, x in enumerate(strides)]
        return name

    def _run(self, run: KernelRun) -> list[str]:
        pairs = [self._strides(use) for use in run.uses]
        strides = self._record([step for step, _ in pairs] + [x for _, core in pairs for x in core])
        lines, prefix = [], f"x{self.calls}"
        for k, use in enumerate(run.uses):
            lines += self._address(use, f"{prefix}.{k}")
            lines.append(f"put ptr %{prefix}.{k} %own.args {k}")
        lines.append(f"%{prefix}.loop = item ptr @kernels {run.kernel}")
        arguments = f"ptr %own.args, ptr %own.dims, ptr {strides}, ptr null"
        ahead = [x for k, use in enumerate(run.uses) for x in self._ahead(use, f"{prefix}.{k}")]
        return [*lines, *ahead, f"call void %{prefix}.loop({arguments})"]

    def _ahead(self, use: Use, name: str) -> list[str]:
        """Lines that prefetch the row that is used AHEAD iterations later than the one at %name."""
        if use.row is None or use.array not in self.user:
            return []
        n, rows = self.number[use.array], AHEAD * use.row.slope
        size = math.prod(self.plan.shape(use)) * self.itemsize
        return [
            f"%{name}.a = at %{name} $(mul i64 %core.{n}.0, {rows})",
            f"call void @prefetch(ptr %{name}.a, i64 %step.{n}, i64 {size}, i64 %count)",
        ]

    def _copy(self, copy: Copy) -> list[str]:
        prefix, shape = f"x{self.calls}", (1, 1, *self.plan.shape(copy.target))[-2:]
        strides = []
        for use in copy:
            step, cores = self._strides(use)
            strides.append([step, *["0", "0", *cores][-2:]])
        record = self._record([x for pair in zip(*strides, strict=True) for x in pair])
        ends = [f"{prefix}.from", f"{prefix}.to"]
        lines = [x for use, end in zip(copy, ends, strict=True) for x in self._address(use, end)]
        sizes = f"i64 %count, i64 {shape[0]}, i64 {shape[1]}"
        arguments = f"ptr %{ends[0]}, ptr %{ends[1]}, ptr {record}, {sizes}"
        return [*lines, f"call void @copy({arguments})"]

    def _matrices(self, step: Matrices) -> list[str]:
        """A loop over the states of a block."""
        self.has_matrices, prefix = True, f"m{self.calls}"
        lines = [f"each %{prefix} 0 %count"]
        if any(getattr(work, "power", 0) for work in step.work):
            lines += self._number("dt", f"{prefix}.dt1", prefix)
        for k, work in enumerate(step.work):
            lines += self._work(work, f"{prefix}.{k}", prefix)
        return [*lines, f"again %{prefix}"]

    def _number(self, name: str, to: str, state: str) -> list[str]:
        """Lines that set %to to the number of a state in an array of the user."""
        return [
            *self._address(Use(name), f"{to}.first"),
            f"%{to}.at = at %{to}.first $(mul i64 %step.{self.number[name]}, %{state})",
            f"%{to} = load {self.lanes.scalar}, ptr %{to}.at, align {self.itemsize}",
        ]

    def _part(self, part: MatrixBlock, name: str, state: str) -> tuple[list[str], str]:
        """Lines that set %name to a part of the matrix of a state; and the arguments for it."""
        size = math.prod(self.plan.shapes[part.array]) * self.itemsize
        first = self.offsets[part.array] + part.start * self.itemsize
        each = 0 if part.array in self.plan.scratch else size
        lines = [f"%{name}.s = mul i64 %{state}, {each}"]
        lines.append(f"%{name} = at %memory $(add i64 %{name}.s, {first})")
        return lines, f"ptr %{name}, i64 {part.pitch}"

    def _work(self, work: MatrixWork, name: str, state: str) -> list[str]:
        """The instructions of a piece of work on matrices of one state. name: prefix of their
        values.
        """
        if isinstance(work, CopyRows | LoadRows):
            return self._block(work, name, state)
        if isinstance(work, OfFactors):
            return self._factor(work, name, state)
        t = self.lanes.scalar
        lines, target = self._part(work.target, f"{name}.c", state)
        if isinstance(work, Multiply):
            more, _ = self._part(work.left, f"{name}.a", state)
            most, right = self._part(work.right, f"{name}.b", state)
            pitches = (1, work.left.pitch) if work.transposed else (work.left.pitch, 1)
            left = f"ptr %{name}.a, i64 {pitches[0]}, i64 {pitches[1]}"
            sizes = f"i64 {work.rows}, i64 {work.inner}, i64 {work.columns}"
            call = "multiply" if work.more else "product"
            return [
                *[*lines, *more, *most],
                f"call void @{call}({target}, {left}, {right}, {sizes})",
            ]
        if isinstance(work, AddRuns):
            return [*lines, *self._add_runs(work, name, state)]
        if isinstance(work, Shift):
            lines += self._number(work.by, f"{name}.by", state)
            sizes = f"i64 {work.size}, {t} %{name}.by"
            return [*lines, f"call void @diagonal({target}, {sizes})"]
        if isinstance(work, Scale) and work.source is None:
            rows, columns = work.rows, work.columns
            if work.target.pitch == columns:
                rows, columns = 1, rows * columns
            return [*lines, f"call void @clear({target}, i64 {rows}, i64 {columns})"]
        number = Lanes(self.lanes.dtype, 1).number(work.factor)
        power = f"%{state}.dt{work.power}"
        factor = f"{t} $(fmul {t} {number}, {power})" if work.power else f"{t} {number}"
        if isinstance(work, Diagonal):
            return [*lines, f"call void @diagonal({target}, i64 {work.size}, {factor})"]
        assert work.source is not None
        more, source = self._part(work.source, f"{name}.a", state)
        rows, columns = work.rows, work.columns
        if work.target.pitch == work.source.pitch == columns:  # one row
            rows, columns = 1, rows * columns
        sizes, name = f"i64 {rows}, i64 {columns}", "add" if work.more else "scale"
        call = f"call void @{name}({target}, {source}, {sizes}, {factor})"
        return [*lines, *more, call]

    def _add_runs(self, work: AddRuns, name: str, state: str) -> list[str]:
        """Additions of the numbers of short runs, and calls for those that fill a vector."""
        t, lines, start = self.lanes, self._part(work.source, f"{name}.a", state)[0], 0
        one = Lanes(t.dtype, 1)
        for k, (row, column, count) in enumerate(work.runs):
            at = [f"%{name}.{x}{k}" for x in "ca"]
            offsets = row * work.target.pitch + column, start
            if count >= t.width:
                pointers = zip(at, "ca", offsets, strict=True)
                lines += [scalar_at(t, p, f"%{name}.{x}", o) for p, x, o in pointers]
                sizes = f"i64 1, i64 {count}, {t.scalar} {one.number(1.0)}"
                lines.append(f"call void @add(ptr {at[0]}, i64 0, ptr {at[1]}, i64 0, {sizes})")
            for j in range(count if count < t.width else 0):
                old, x = (f"{p}.{j}" for p in at)
                lines += load_entries(one, old, f"%{name}.c", offsets[0] + j)
                lines += load_entries(one, x, f"%{name}.a", offsets[1] + j)
                lines.append(f"{x}.sum = fadd {one.vector} {old}, {x}")
                lines += store_entries(one, f"{x}.to", f"{x}.sum", f"%{name}.c", offsets[0] + j)
            start += count
        return lines

    def _factor(self, work: OfFactors, name: str, state: str) -> list[str]:
        """A call of a function of `factors`: its blocks, then its sizes."""
        self.has_factors = True
        lines, arguments = [], []
        for k, x in enumerate(work):
            if isinstance(x, MatrixBlock):
                more, block = self._part(x, f"{name}.{k}", state)
                lines += more
                arguments.append(block)
            else:
                arguments.append(f"i64 {x}")
        return [*lines, f"call void @{type(work).__name__.lower()}({', '.join(arguments)})"]

    def _block(self, copy: CopyRows | LoadRows, name: str, state: str) -> list[str]:
        """A copy of rows to, or from, the matrix of a state."""
        if isinstance(copy, CopyRows):
            array, block = copy.target, copy.source
        else:
            array, block = copy.source, copy.target
        rows, columns = (1, *self.plan.shapes[array])[-2:]
        step, cores = self._strides(Use(array))
        pitch = str(block.pitch * self.itemsize)
        sides: tuple[Sequence[str], ...] = (
            ("0", pitch, str(self.itemsize)),
            (step, *["0", *cores][-2:]),
        )
        ends = [f"ptr %{name}.a", f"ptr %{name}.user"]
        if isinstance(copy, LoadRows):
            sides, ends = sides[::-1], ends[::-1]
        pairs = zip(*sides, strict=True)
        record = self._record([x for pair in pairs for x in pair])
        lines, _ = self._part(block, f"{name}.a", state)
        lines += [
            *self._address(Use(array), f"{name}.first"),
            f"%{name}.user = at %{name}.first $(mul i64 {step}, %{state})",
        ]
        arguments = f"{', '.join(ends)}, ptr {record}, i64 1, i64 {rows}, i64 {columns}"
        return [*lines, f"call void @copy({arguments})"]
