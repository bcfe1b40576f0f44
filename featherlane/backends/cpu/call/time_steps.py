"""The entry point of steps in time: a call with a time step that is positive and finite, as
`api.time_steps.checked_time_steps` wants it, goes on to @call.
"""

from __future__ import annotations

from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.call import cpython
from featherlane.backends.cpu.call.cpython import (
    BoundSelf,
    CallTable,
    PyArrayObject,
    PyTupleObject,
)
from featherlane.backends.llvm.records import field, read

CALL_IN_TIME = f"""
define ptr @call_in_time(ptr %self, ptr %args, i64 %count, ptr %keywords) {{
  need $(call i1 @in_time(ptr %self, ptr %args, i64 %count, ptr %keywords))
  ret ptr $(call ptr @call(ptr %self, ptr %args, i64 %count, ptr %keywords))
no:
  %bound = at %self {PyTupleObject.OB_ITEM}
  %other = item ptr %bound {field(BoundSelf, "pass_on")}
  ret ptr $(call ptr {address("vectorcall")}(ptr %other, ptr %args, i64 %count, ptr %keywords))
}}

; Whether the time step of a call is one, if the function has any.
define internal i1 @in_time(ptr %self, ptr %args, i64 %count, ptr %keywords) {{
  %bound = at %self {PyTupleObject.OB_ITEM}
  {read(BoundSelf, "%bound", "names:ptr")}
  %table = at $(item ptr %bound {field(BoundSelf, "table")}) {cpython.OB_SVAL}
  {read(CallTable, "%table", "time_step")}
  return i1 true when slt i64 %time_step, 0
  %list = at %names {PyTupleObject.OB_ITEM}
  %name = item ptr %list $(add i64 %time_step, 2)
  %dt = call ptr @argument(ptr %args, i64 %count, ptr %keywords, i64 %time_step, ptr %name)
  need ne ptr %dt, null
  ret i1 $(call i1 @are_time_steps(ptr %table, ptr %dt))
no:
  ret i1 false
}}

; The argument at a position or of an interned name, null if there is none.
define internal ptr @argument(ptr %args, i64 %count, ptr %keywords, i64 %position, ptr %name) {{
  %place = call i64 @place(i64 %count, ptr %keywords, i64 %position, ptr %name)
  need sge i64 %place, 0
  ret ptr $(item ptr %args %place)
no:
  ret ptr null
}}

; Where an argument with a position or an interned name is among all, -1 if there is none.
define internal i64 @place(i64 %count, ptr %keywords, i64 %position, ptr %name) {{
  return i64 %position when ult i64 %position, %count
  need ne ptr %keywords, null
  %k = call i64 @find(ptr %keywords, ptr %name)
  need sge i64 %k, 0
  ret i64 $(add i64 %count, %k)
no:
  ret i64 -1
}}
"""

CHECK = f"""
; Whether a number, or each of an array without or with one dimension, is positive and finite.
define internal i1 @are_time_steps(ptr %table, ptr %dt) {{
  {read(CallTable, "%table", "number dtype:ptr")}
  %x = alloca double
  %double = icmp eq i64 %number, {cpython.NPY_DOUBLE}
  when eq ptr $(field ptr %dt {PyArrayObject.ob_type.offset}), {address("array_type")}: array
  need $(call i1 @scalar(i64 %number, ptr %dt, ptr %x))
  ret i1 $(call i1 @is_time_step(i1 %double, double $(item double %x 0)))
array:
  need eq ptr $(field ptr %dt {PyArrayObject.descr.offset}), %dtype
  %flags = field i32 %dt {PyArrayObject.flags.offset}
  need ne i32 $(and i32 %flags, {cpython.NPY_ARRAY_ALIGNED}), 0
  %data = field ptr %dt {PyArrayObject.data.offset}
  %ndim = field i32 %dt {PyArrayObject.nd.offset}
  %rows = alloca [2 x i64]
  put i64 1 %rows 0
  put i64 0 %rows 1
  when eq i32 %ndim, 0: check
  need eq i32 %ndim, 1
  put i64 $(item i64 $(field ptr %dt {PyArrayObject.dimensions.offset}) 0) %rows 0
  put i64 $(item i64 $(field ptr %dt {PyArrayObject.strides.offset}) 0) %rows 1
  br label %check
check:
  %count = item i64 %rows 0
  each %k 0 %count
  %at = at %data $(mul i64 %k, $(item i64 %rows 1))
  %value = call double @number_at(i1 %double, ptr %at)
  need $(call i1 @is_time_step(i1 %double, double %value))
  again %k
  ret i1 true
no:
  ret i1 false
}}

; The number of an array at an address.
define internal double @number_at(i1 %double, ptr %at) {{
  when %double: long
  ret double $(fpext float $(field float %at 0) to double)
long:
  ret double $(item double %at 0)
}}

; Whether a number is positive and finite in a dtype.
define internal i1 @is_time_step(i1 %double, double %x) {{
  %single = fpext float $(fptrunc double %x to float) to double
  %seconds = select i1 %double, double %x, double %single
  %positive = fcmp ogt double %seconds, 0.0
  ret i1 $(and i1 %positive, $(fcmp olt double %seconds, 0x7FF0000000000000))
}}
"""

FUNCTIONS = CALL_IN_TIME + CHECK
