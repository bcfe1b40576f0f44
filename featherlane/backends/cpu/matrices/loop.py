"""Functions of step programs and matrices as machine code: the inner loop of a generalised ufunc.

Stages, which are inner loops themselves, compute the numbers of a block of states; then jobs,
kernels with three arrays and a program, compute the matrices of one state after another while its
numbers are in the caches. Lanes of jobs hold neighbouring columns, so that a state has the same
bits in every batch.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from featherlane.backends.cpu.loaded import LoopWords
from featherlane.backends.cpu.matrices import gemm, sweeps
from featherlane.backends.cpu.steps import scratch
from featherlane.backends.llvm.lower import Lanes, declarations
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import field, read, words

KERNELS = ("tiles", "sweep", "mirror")


# A plan: the number of the user's arrays, the states of a block, the most operands of a stage, and
# the records of each kind: their number, and their address
PlanTable = namedtuple(
    "PlanTable", "arrays together most stages stage_list jobs job_list results result_list"
)
# A stage: its inner loop, and its operands: their number, and their address
StageRecord = namedtuple("StageRecord", "loop operands operand_list")
# The address of an array: the number of an array of the user; or -1, for numbers at `offset` bytes
# of the workspace, `step` bytes from state to state
ArrayAddress = namedtuple("ArrayAddress", "array offset step")
# An operand of a stage: its address; the number of strides of one state, and their position among
# the stage's; the strides, or for an array of the user the number of its first one
OperandRecord = namedtuple("OperandRecord", "array offset step cores to core0 core1")
# A job: its kernel, the addresses of its three arrays, and the address of its program and the
# number of its records
JobRecord = namedtuple(
    "JobRecord", "kernel a a_offset a_step b b_offset b_step c c_offset c_step program records"
)
# A result: the number of its array, and of its first stride; the rows of the user's matrix, and of
# the matrix that jobs fill; the address of `count` numbers, the user's row of each row that jobs
# fill; whether the two matrices are the same
ResultRecord = namedtuple("ResultRecord", "array strides n size owners count same")

PLACE = f"""
; Where an array of state first + s begins, by its ArrayPlace.
define internal ptr @place(ptr %memory, ptr %bases, ptr %strides, ptr %place, i64 %first, i64 %s) {{
  {read(ArrayAddress, "%place", "array offset step")}
  when slt i64 %array, 0: workspace, user
workspace:
  ret ptr $(at %memory $(add i64 %offset, $(mul i64 %step, %s)))
user:
  %base = item ptr %bases %array
  %stride = item i64 %strides %array
  ret ptr $(at %base $(mul i64 %stride, $(add i64 %first, %s)))
}}
"""


def _scatter(t: Lanes) -> str:
    """@scatter: adds the rows and columns that jobs filled to their rows and columns of the user's
    matrix. Rows of several freedoms may belong to one coordinate.
    """
    align = t.dtype.itemsize
    return f"""
define internal void @scatter(ptr %from, ptr %to, ptr %record, i64 %row, i64 %along) noinline {{
  {read(ResultRecord, "%record", "n size owners:ptr count")}
  each %r 0 %n
  %r.o = mul i64 %r, %row
  each %c 0 %n
  %z = at %to $(add i64 %r.o, $(mul i64 %c, %along))
  store {t.scalar} {t.number(0.0)}, ptr %z, align {align}
  again %c
  again %r
  each %i 0 %count
  %i.o = mul i64 $(item i64 %owners %i), %row
  %i.at = mul i64 %i, %size
  each %j 0 %count
  %j.o = mul i64 $(item i64 %owners %j), %along
  %x.at = getelementptr inbounds {t.scalar}, ptr %from, i64 $(add i64 %i.at, %j)
  %x = load {t.scalar}, ptr %x.at, align {align}
  %y.at = at %to $(add i64 %i.o, %j.o)
  %y = load {t.scalar}, ptr %y.at, align {align}
  store {t.scalar} $(fadd {t.scalar} %y, %x), ptr %y.at, align {align}
  again %j
  again %i
  ret void
}}
"""


def _temporary(t: Lanes) -> str:
    """@temporary: a new matrix for a result, or null if there is no memory; the user's matrix
    itself if its rows are contiguous and in order.
    """
    size = t.dtype.itemsize
    return f"""
define internal ptr @temporary(ptr %record, ptr %steps, ptr %own) noinline {{
  {read(ResultRecord, "%record", "strides size same")}
  %row = item i64 %steps %strides
  %along = item i64 %steps $(add i64 %strides, 1)
  %bytes = mul i64 %size, {size}
  %contiguous = and i1 $(icmp eq i64 %along, {size}), $(icmp eq i64 %row, %bytes)
  return ptr %own when $(and i1 %contiguous, $(icmp ne i64 %same, 0))
  ret ptr $(call ptr @scratch_aligned(i64 $(mul i64 %bytes, %size)))
}}
"""


STAGE = f"""
; Runs a stage on some states.
define internal void @stage(ptr %record, ptr %memory, ptr %bases, ptr %strides, ptr %steps,
                            i64 %first, i64 %count, ptr %args, ptr %own.steps) noinline {{
  {read(StageRecord, "%record", "loop:ptr operands operand_list:ptr")}
  %dims = alloca i64, i64 1
  put i64 %count %dims 0
  each %o 0 %operands
  %operand = record %operand_list %o {words(OperandRecord)}
  {read(OperandRecord, "%operand", "array")}
  %x = call ptr @place(ptr %memory, ptr %bases, ptr %strides, ptr %operand, i64 %first, i64 0)
  put ptr %x %args %o
  %own = icmp slt i64 %array, 0
  %stride = item i64 %strides $(select i1 %own, i64 0, i64 %array)
  {read(OperandRecord, "%operand", "step")}
  put i64 $(select i1 %own, i64 %step, i64 %stride) %own.steps %o
  {read(OperandRecord, "%operand", "cores to core0")}
  %mine = word %operand {field(OperandRecord, "core0")}
  %theirs = word %steps $(select i1 %own, i64 0, i64 %core0)
  %core.from = select i1 %own, ptr %mine, ptr %theirs
  each %c 0 %cores
  put i64 $(item i64 %core.from %c) %own.steps $(add i64 %to, %c)
  again %c
  again %o
  call void %loop(ptr %args, ptr %dims, ptr %own.steps, ptr null)
  ret void
}}
"""


def _job() -> str:
    """@job: runs a job on one state."""
    places = "".join(
        f"""
  %{x}.at = getelementptr inbounds i64, ptr %record, i64 {field(JobRecord, x)}
  %{x} = call ptr @place(ptr %memory, ptr %bases, ptr %strides, ptr %{x}.at, i64 %first, i64 %s)"""
        for x in "abc"
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
  {read(JobRecord, "%record", "kernel")}{places}
  {read(JobRecord, "%record", "program:ptr records")}
  switch i64 %kernel, label %none [ {cases} ]{calls}
none:
  ret void
}}
"""


FRAME = f"""
define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %unused) {{
  %states = item i64 %dims 0
  when sgt i64 %states, 0: begin, leave
begin:
  %table = item ptr @work {field(LoopWords, "program")}
  {read(PlanTable, "%table", "arrays together most stages stage_list:ptr jobs job_list:ptr")}
  {read(PlanTable, "%table", "results result_list:ptr")}
  %bases = alloca ptr, i64 %arrays
  %strides = alloca i64, i64 %arrays
  %temporaries = alloca ptr, i64 %results
  %own.args = alloca ptr, i64 %most
  %own.steps = alloca i64, i64 $(mul i64 %most, 3)
  %memory = call ptr @scratch_take()
  when eq ptr %memory, null: leave
"""
USER_ARRAYS = f"""
  each %k 0 %arrays
  put ptr $(item ptr %args %k) %bases %k
  put i64 $(item i64 %steps %k) %strides %k
  again %k
  each %t 0 %results
  put ptr null %temporaries %t
  again %t
  each %l 0 %results
  %own.result = record %result_list %l {words(ResultRecord)}
  %l.array = item i64 %own.result {field(ResultRecord, "array")}
  %user = item ptr %args %l.array
  %temporary = call ptr @temporary(ptr %own.result, ptr %steps, ptr %user)
  when eq ptr %temporary, null: release
  when ne ptr %temporary, %user: replaced, direct
replaced:
  put ptr %temporary %temporaries %l
  put ptr %temporary %bases %l.array
  put i64 0 %strides %l.array
  br label %direct
direct:
  again %l
"""
STATES = f"""
  %parts = udiv i64 $(sub i64 $(add i64 %states, %together), 1), %together
  each %part 0 %parts
  %first = mul i64 %part, %together
  %left = sub i64 %states, %first
  %count = select i1 $(icmp slt i64 %together, %left), i64 %together, i64 %left
  each %g 0 %stages
  %stage = record %stage_list %g {words(StageRecord)}
  call void @stage(ptr %stage, ptr %memory, ptr %bases, ptr %strides, ptr %steps, i64 %first,
                   i64 %count, ptr %own.args, ptr %own.steps)
  again %g
  each %s 0 %count
  each %j 0 %jobs
  %job = record %job_list %j {words(JobRecord)}
  call void @job(ptr %job, ptr %memory, ptr %bases, ptr %strides, i64 %first, i64 %s)
  again %j
"""
RESULTS = f"""
  each %d 0 %results
  %full = item ptr %temporaries %d
  when eq ptr %full, null: done
  %result = record %result_list %d {words(ResultRecord)}
  %d.array = item i64 %result {field(ResultRecord, "array")}
  %d.strides = item i64 %result {field(ResultRecord, "strides")}
  %row = item i64 %steps %d.strides
  %along = item i64 %steps $(add i64 %d.strides, 1)
  %theirs = item ptr %args %d.array
  %step = item i64 %steps %d.array
  %to = at %theirs $(mul i64 %step, $(add i64 %first, %s))
  call void @scatter(ptr %full, ptr %to, ptr %result, i64 %row, i64 %along)
  br label %done
done:
  again %d
  again %s
  again %part
  br label %release
release:
  each %f 0 %results
  call void @scratch_drop(ptr $(item ptr %temporaries %f))
  again %f
  call void @scratch_give(ptr %memory)
  br label %leave
leave:
  ret void
}}
"""


def source(dtype: np.dtype, width: int) -> str:
    """The LLVM IR of @loop and @forget, whose table is in @work (see `steps/scratch`)."""
    t = Lanes(dtype, width)
    kernels = [*gemm.kernel(t), *sweeps.kernel(t), *sweeps.mirror(t)]
    functions = PLACE + _scatter(t) + _temporary(t) + STAGE + _job()
    loop = expanded(functions + FRAME + USER_ARRAYS + STATES + RESULTS)
    return "\n".join([*declarations(t), *kernels, scratch.functions(), loop]) + "\n"
