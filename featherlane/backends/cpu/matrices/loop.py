"""Functions of recorded steps and matrices as machine code: the inner loop of a generalised ufunc.

Stages, which are inner loops themselves, compute numbers of some states at once; then jobs, kernels
with three arrays and a program, make the matrices of one state after another while they are in the
caches. Lanes of jobs hold neighbouring columns: a state has the same bits in every batch.
"""

from __future__ import annotations

import numpy as np

from featherlane.backends.cpu.matrices import gemm, sweeps
from featherlane.backends.cpu.steps import scratch
from featherlane.backends.llvm.lower import Lanes, declarations
from featherlane.backends.llvm.macros import expanded

KERNELS = ("tiles", "sweep", "mirror")


class Head:
    """Words of the table: `ARRAYS` of the user, `TOGETHER` states, `MOST` operands of a stage; how
    many records follow of each kind, and where.
    """

    ARRAYS, TOGETHER, MOST, STAGES, AT_STAGES, JOBS, AT_JOBS, LANDINGS, AT_LANDINGS = range(9)


class Stage:
    """The address of an inner loop, and its operands."""

    LOOP, OPERANDS, AT, SIZE = range(4)


class Operand:
    """An array of the user (`ARRAY`, and at `CORE0` the place of its strides), or -1 and what is
    `OFFSET` bytes from the beginning of the memory, `STEP` from state to state; `AT` is where the
    strides of its `CORES` dimensions go.
    """

    ARRAY, OFFSET, STEP, CORES, AT, CORE0, CORE1, SIZE = range(8)


class Job:
    """Three arrays as those of operands begin, and a program."""

    KERNEL, A, B, C, PROGRAM, RECORDS, SIZE = 0, 1, 4, 7, 10, 11, 12


class Landing:
    """A result: its array, and where its strides are; n of the user, the size of the matrix as jobs
    fill it, the entry of n of each of its first `COUNT` rows and columns, and whether it is the
    user's as it is.
    """

    ARRAY, STRIDES, N, MATRIX, OWNERS, COUNT, SAME, SIZE = range(8)


def _place() -> str:
    return """
define internal ptr @place(ptr %memory, ptr %bases, ptr %strides, ptr %record, i64 %first, i64 %s) {
  %k = item i64 %record 0
  %offset = item i64 %record 1
  %step = item i64 %record 2
  %own = icmp slt i64 %k, 0
  br i1 %own, label %inside, label %given
inside:
  %far = mul i64 %step, %s
  %o = add i64 %offset, %far
  %x = getelementptr inbounds i8, ptr %memory, i64 %o
  ret ptr %x
given:
  %base = item ptr %bases %k
  %stride = item i64 %strides %k
  %state = add i64 %first, %s
  %o.given = mul i64 %stride, %state
  %y = getelementptr inbounds i8, ptr %base, i64 %o.given
  ret ptr %y
}
"""


def _land(t: Lanes) -> str:
    align = t.dtype.itemsize
    return f"""
define internal void @land(ptr %from, ptr %to, ptr %record, i64 %row, i64 %along) noinline {{
entry:
  %n = item i64 %record {Landing.N}
  %size = item i64 %record {Landing.MATRIX}
  %owners = item ptr %record {Landing.OWNERS}
  %count = item i64 %record {Landing.COUNT}
  each %r 0 %n
  %r.o = mul i64 %r, %row
  each %c 0 %n
  %c.o = mul i64 %c, %along
  %o = add i64 %r.o, %c.o
  %z = getelementptr inbounds i8, ptr %to, i64 %o
  store {t.scalar} {t.number(0.0)}, ptr %z, align {align}
  again %c
  again %r
  each %i 0 %count
  %i.to = item i64 %owners %i
  %i.o = mul i64 %i.to, %row
  %i.at = mul i64 %i, %size
  each %j 0 %count
  %j.to = item i64 %owners %j
  %j.o = mul i64 %j.to, %along
  %ij = add i64 %i.at, %j
  %x.at = getelementptr inbounds {t.scalar}, ptr %from, i64 %ij
  %x = load {t.scalar}, ptr %x.at, align {align}
  %y.o = add i64 %i.o, %j.o
  %y.at = getelementptr inbounds i8, ptr %to, i64 %y.o
  %y = load {t.scalar}, ptr %y.at, align {align}
  %sum = fadd {t.scalar} %y, %x
  store {t.scalar} %sum, ptr %y.at, align {align}
  again %j
  again %i
  ret void
}}
"""


def _aside(t: Lanes) -> str:
    """@aside: where a result is filled if the user's array is not like that, else null."""
    size = t.dtype.itemsize
    return f"""
define internal ptr @aside(ptr %record, ptr %steps) noinline {{
entry:
  %at = item i64 %record {Landing.STRIDES}
  %size = item i64 %record {Landing.MATRIX}
  %same = item i64 %record {Landing.SAME}
  %row = item i64 %steps %at
  %at1 = add i64 %at, 1
  %along = item i64 %steps %at1
  %bytes = mul i64 %size, {size}
  %next = icmp eq i64 %along, {size}
  %dense = icmp eq i64 %row, %bytes
  %as.it.is = icmp ne i64 %same, 0
  %both = and i1 %next, %dense
  %here = and i1 %both, %as.it.is
  br i1 %here, label %none, label %make
none:
  ret ptr null
make:
  %all = mul i64 %bytes, %size
  %new = call ptr @scratch_new(i64 %all)
  ret ptr %new
}}
"""


def _stage() -> str:
    """@stage: runs one for some states."""
    return f"""
define internal void @stage(ptr %record, ptr %memory, ptr %bases, ptr %strides, ptr %steps,
                            i64 %first, i64 %count, ptr %args, ptr %own.steps) noinline {{
entry:
  %loop = item ptr %record {Stage.LOOP}
  %operands = item i64 %record {Stage.OPERANDS}
  %table = item ptr %record {Stage.AT}
  %dims = alloca i64, i64 1
  put i64 %count %dims 0
  each %o 0 %operands
  %o.at = mul i64 %o, {Operand.SIZE}
  %operand = getelementptr inbounds i64, ptr %table, i64 %o.at
  %k = item i64 %operand {Operand.ARRAY}
  %x = call ptr @place(ptr %memory, ptr %bases, ptr %strides, ptr %operand, i64 %first, i64 0)
  put ptr %x %args %o
  %own = icmp slt i64 %k, 0
  %k.some = select i1 %own, i64 0, i64 %k
  %stride = item i64 %strides %k.some
  %step = item i64 %operand {Operand.STEP}
  %from = select i1 %own, i64 %step, i64 %stride
  put i64 %from %own.steps %o
  %cores = item i64 %operand {Operand.CORES}
  %to = item i64 %operand {Operand.AT}
  %core0 = item i64 %operand {Operand.CORE0}
  %mine = getelementptr inbounds i64, ptr %operand, i64 {Operand.CORE0}
  %core.some = select i1 %own, i64 0, i64 %core0
  %theirs = getelementptr inbounds i64, ptr %steps, i64 %core.some
  %core.from = select i1 %own, ptr %mine, ptr %theirs
  each %c 0 %cores
  %core = item i64 %core.from %c
  %core.to = add i64 %to, %c
  put i64 %core %own.steps %core.to
  again %c
  again %o
  call void %loop(ptr %args, ptr %dims, ptr %own.steps, ptr null)
  ret void
}}
"""


def _job() -> str:
    """@job: runs one for a state."""
    places = "".join(
        f"""
  %{x}.at = getelementptr inbounds i64, ptr %record, i64 {at}
  %{x} = call ptr @place(ptr %memory, ptr %bases, ptr %strides, ptr %{x}.at, i64 %first, i64 %s)"""
        for x, at in (("a", Job.A), ("b", Job.B), ("c", Job.C))
    )
    cases = " ".join(f"i64 {k}, label %do.{name}" for k, name in enumerate(KERNELS))
    calls = "".join(
        f"""
do.{name}:
  call void @{name}(ptr %a, ptr %b, ptr %c, ptr %program, i64 %records)
  ret void"""
        for name in KERNELS
    )
    return f"""
define internal void @job(ptr %record, ptr %memory, ptr %bases, ptr %strides, i64 %first, i64 %s) {{
entry:
  %kernel = item i64 %record {Job.KERNEL}{places}
  %program = item ptr %record {Job.PROGRAM}
  %records = item i64 %record {Job.RECORDS}
  switch i64 %kernel, label %none [ {cases} ]{calls}
none:
  ret void
}}
"""


LOOP = f"""
define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %unused) {{
entry:
  %states = item i64 %dims 0
  %some = icmp sgt i64 %states, 0
  br i1 %some, label %begin, label %leave
begin:
  %table = item ptr @work {scratch.FILLED.index("program")}
  %arrays = item i64 %table {Head.ARRAYS}
  %together = item i64 %table {Head.TOGETHER}
  %most = item i64 %table {Head.MOST}
  %stages = item i64 %table {Head.STAGES}
  %stage.all = item ptr %table {Head.AT_STAGES}
  %jobs = item i64 %table {Head.JOBS}
  %job.all = item ptr %table {Head.AT_JOBS}
  %landings = item i64 %table {Head.LANDINGS}
  %landing.all = item ptr %table {Head.AT_LANDINGS}
  %bases = alloca ptr, i64 %arrays
  %strides = alloca i64, i64 %arrays
  %asides = alloca ptr, i64 %landings
  %own.args = alloca ptr, i64 %most
  %own.count = mul i64 %most, 3
  %own.steps = alloca i64, i64 %own.count
  %memory = call ptr @take()
  each %k 0 %arrays
  %base = item ptr %args %k
  put ptr %base %bases %k
  %stride = item i64 %steps %k
  put i64 %stride %strides %k
  again %k
  each %l 0 %landings
  %l.o = mul i64 %l, {Landing.SIZE}
  %landing = getelementptr inbounds i64, ptr %landing.all, i64 %l.o
  %aside = call ptr @aside(ptr %landing, ptr %steps)
  put ptr %aside %asides %l
  %set.aside = icmp ne ptr %aside, null
  br i1 %set.aside, label %instead, label %as.given
instead:
  %l.array = item i64 %landing {Landing.ARRAY}
  put ptr %aside %bases %l.array
  put i64 0 %strides %l.array
  br label %as.given
as.given:
  again %l
  %up = add i64 %states, %together
  %up.1 = sub i64 %up, 1
  %parts = udiv i64 %up.1, %together
  each %part 0 %parts
  %first = mul i64 %part, %together
  %left = sub i64 %states, %first
  %whole = icmp slt i64 %together, %left
  %count = select i1 %whole, i64 %together, i64 %left
  each %g 0 %stages
  %g.o = mul i64 %g, {Stage.SIZE}
  %stage = getelementptr inbounds i64, ptr %stage.all, i64 %g.o
  call void @stage(ptr %stage, ptr %memory, ptr %bases, ptr %strides, ptr %steps, i64 %first,
                   i64 %count, ptr %own.args, ptr %own.steps)
  again %g
  each %s 0 %count
  each %j 0 %jobs
  %j.o = mul i64 %j, {Job.SIZE}
  %job = getelementptr inbounds i64, ptr %job.all, i64 %j.o
  call void @job(ptr %job, ptr %memory, ptr %bases, ptr %strides, i64 %first, i64 %s)
  again %j
  each %d 0 %landings
  %full = item ptr %asides %d
  %landed = icmp eq ptr %full, null
  br i1 %landed, label %down, label %land
land:
  %d.o = mul i64 %d, {Landing.SIZE}
  %result = getelementptr inbounds i64, ptr %landing.all, i64 %d.o
  %d.array = item i64 %result {Landing.ARRAY}
  %d.strides = item i64 %result {Landing.STRIDES}
  %d.along = add i64 %d.strides, 1
  %row = item i64 %steps %d.strides
  %along = item i64 %steps %d.along
  %theirs = item ptr %args %d.array
  %their.step = item i64 %steps %d.array
  %state = add i64 %first, %s
  %far = mul i64 %their.step, %state
  %to = getelementptr inbounds i8, ptr %theirs, i64 %far
  call void @land(ptr %full, ptr %to, ptr %result, i64 %row, i64 %along)
  br label %down
down:
  again %d
  again %s
  again %part
  each %f 0 %landings
  %spent = item ptr %asides %f
  call void @scratch_free(ptr %spent)
  again %f
  call void @give(ptr %memory)
  br label %leave
leave:
  ret void
}}
"""


def source(dtype: np.dtype, width: int) -> str:
    """The LLVM IR of @loop and @forget, which find their table in @work (see `backends.kept`)."""
    t = Lanes(dtype, width)
    kernels = (gemm.kernel(t), sweeps.kernel(t), sweeps.mirror(t), scratch.functions())
    lines = declarations(t) + [line for part in kernels for line in part]
    written = _place() + _land(t) + _aside(t) + _stage() + _job() + LOOP
    return "\n".join([*lines, expanded(written)]) + "\n"
