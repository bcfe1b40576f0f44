"""Machine code for numbers and lists of Python among the arguments of a call: it copies them to
arrays in the function's dtype, and tries the call again.

They follow the arrays of the call: in float32 only if one of those is, as in
`functions.arguments.alike`. np.float64 and np.float32 are numbers of their dtype. Integers count
below 2^53, which both dtypes round once. Nothing here runs code of Python, so lists stand still.
"""

from __future__ import annotations

from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.call import cpython
from featherlane.backends.cpu.call.cpython import (
    ArrayRecord,
    BoundSelf,
    CallTable,
    PyArrayObject,
    PyTupleObject,
)
from featherlane.backends.llvm.records import field, read

TYPE = PyArrayObject.ob_type.offset
EXACT = 1 << 53  # integers below this one are numbers of float64

OTHERWISE = f"""
; A call that is no call with arrays as they should be: with arrays in the place of numbers and
; lists, or in Python.
define internal ptr @otherwise(ptr %self, ptr %args, i64 %count, ptr %keywords) {{
  %result = call ptr @with_arrays(ptr %self, ptr %args, i64 %count, ptr %keywords)
  return ptr %result when ne ptr %result, {address("py_none")}
  %bound = at %self {PyTupleObject.OB_ITEM}
  %other = item ptr %bound {field(BoundSelf, "pass_on")}
  ret ptr $(call ptr {address("vectorcall")}(ptr %other, ptr %args, i64 %count, ptr %keywords))
}}

; The result of a call after its numbers and lists have become arrays, None if there are none, or
; if the call is not taken. Calls whose first input has no leading dimension are tried, too.
define internal ptr @with_arrays(ptr %self, ptr %args, i64 %count, ptr %keywords) {{
  %bound = at %self {PyTupleObject.OB_ITEM}
  {read(BoundSelf, "%bound", "names:ptr")}
  %table = at $(item ptr %bound {field(BoundSelf, "table")}) {cpython.OB_SVAL}
  {read(CallTable, "%table", "inputs number dtype:ptr taken")}
  %none = at {address("py_none")} 0
  %named = call i64 @named_arguments(ptr %keywords)
  need ule i64 %count, %taken
  need $(call i1 @are_known(ptr %names, ptr %keywords, i64 %named))
  %all = add i64 %count, %named
  %values = alloca ptr, i64 %all
  %facts = alloca [2 x i64]
  put i64 0 %facts 0
  put i64 0 %facts 1
  call void @copy(ptr %values, ptr %args, i64 0, i64 %all)
  each %k 0 %all
  %input = call i64 @input_of(ptr %names, i64 %count, ptr %keywords, i64 %k)
  when uge i64 %input, %inputs: k.end
  %value = item ptr %values %k
  %array = call ptr @as_array(ptr %table, i64 %input, ptr %value)
  when eq ptr %array, null: failed
  put ptr %array %values %k
  %single = icmp eq ptr $(field ptr %value {TYPE}), {address("float32_type")}
  %is_array = icmp eq ptr $(field ptr %value {TYPE}), {address("array_type")}
  when %is_array: old, other
old:
  %same = icmp eq ptr $(field ptr %value {PyArrayObject.descr.offset}), %dtype
  %core = item i64 $(call ptr @record(ptr %table, i64 %input)) {field(ArrayRecord, "ndim")}
  %ndim = zext i32 $(field i32 %value {PyArrayObject.nd.offset}) to i64
  %leads = icmp ugt i64 %ndim, %core
  %later = and i1 %leads, $(icmp ne i64 %input, 0)
  br label %note
other:
  %converted = icmp ne ptr %array, %value
  br label %note
note:
  %typed = phi i1 [ %same, %old ], [ %single, %other ]
  %changed = phi i1 [ %later, %old ], [ %converted, %other ]
  put i64 $(or i64 $(item i64 %facts 0), $(zext i1 %typed to i64)) %facts 0
  put i64 $(or i64 $(item i64 %facts 1), $(zext i1 %changed to i64)) %facts 1
  again %k
  %double = icmp eq i64 %number, {cpython.NPY_DOUBLE}
  %follows = or i1 %double, $(icmp ne i64 $(item i64 %facts 0), 0)
  when $(and i1 %follows, $(icmp ne i64 $(item i64 %facts 1), 0)): attempt, leave
attempt:
  %result = call ptr @attempt(ptr %self, ptr %values, i64 %count, ptr %keywords)
  br label %leave
leave:
  %answer = phi ptr [ %result, %attempt ], [ %none, %k.done ]
  call void @drop(ptr %values, ptr %args, i64 %all)
  ret ptr %answer
failed:
  call void @drop(ptr %values, ptr %args, i64 %k)
  ret ptr null
no:
  ret ptr {address("py_none")}
}}
"""

ARGUMENTS = f"""
; The number of arguments by name.
define internal i64 @named_arguments(ptr %keywords) {{
  return i64 0 when eq ptr %keywords, null
  ret i64 $(field i64 %keywords {PyTupleObject.OB_SIZE})
}}

; Whether all names of arguments are names of a function's.
define internal i1 @are_known(ptr %names, ptr %keywords, i64 %named) {{
  need ule i64 %named, $(field i64 %names {PyTupleObject.OB_SIZE})
  %keys = at %keywords {PyTupleObject.OB_ITEM}
  each %k 0 %named
  need sge i64 $(call i64 @find(ptr %names, ptr $(item ptr %keys %k))), 0
  again %k
  ret i1 true
no:
  ret i1 false
}}

; The number of the input that argument k is, no number of an input if it is an option.
define internal i64 @input_of(ptr %names, i64 %count, ptr %keywords, i64 %k) {{
  return i64 %k when ult i64 %k, %count
  %keys = at %keywords {PyTupleObject.OB_ITEM}
  %slot = call i64 @find(ptr %names, ptr $(item ptr %keys $(sub i64 %k, %count)))
  ret i64 $(sub i64 %slot, 2)
}}

; Gives up the references to values that are in the place of arguments.
define internal void @drop(ptr %values, ptr %args, i64 %count) {{
  each %k 0 %count
  %value = item ptr %values %k
  when eq ptr %value, $(item ptr %args %k): k.end
  call void {address("decref")}(ptr %value)
  again %k
  ret void
}}
"""

AS_ARRAY = f"""
; A new array for a number or a list that has the shape of an input, else the value itself. Null
; without memory.
define internal ptr @as_array(ptr %table, i64 %input, ptr %value) {{
  %record = call ptr @record(ptr %table, i64 %input)
  {read(CallTable, "%table", "number")}
  {read(ArrayRecord, "%record", "ndim")}
  %x = alloca double
  when eq i64 %ndim, 0: scalar, list
scalar:
  need $(call i1 @scalar(i64 %number, ptr %value, ptr %x))
  br label %new
list:
  need ne ptr $(call ptr @items(ptr %value, i64 $(item i64 %record {cpython.SHAPE}))), null
  br label %new
new:
  %array = call ptr @new_array(ptr %table, ptr %record, i64 0)
  when eq ptr %array, null: failed
  %data = field ptr %array {PyArrayObject.data.offset}
  when eq i64 %ndim, 0: one, several
one:
  %stored = call ptr @store(i64 %number, ptr %x, ptr %data)
  br label %check
several:
  %shape = word %record {cpython.SHAPE}
  %filled = call ptr @fill(i64 %number, ptr %value, i64 %ndim, ptr %shape, ptr %data)
  br label %check
check:
  %end = phi ptr [ %stored, %one ], [ %filled, %several ]
  return ptr %array when ne ptr %end, null
  call void {address("decref")}(ptr %array)
  br label %no
no:
  ret ptr %value
failed:
  ret ptr null
}}

; Copies a list of lists of numbers; returns the address behind them, null if it is something else.
define internal ptr @fill(i64 %number, ptr %value, i64 %ndim, ptr %shape, ptr %to) {{
  %x = alloca double
  when eq i64 %ndim, 0: scalar
  %size = item i64 %shape 0
  %items = call ptr @items(ptr %value, i64 %size)
  need ne ptr %items, null
  %inner = sub i64 %ndim, 1
  %rest = word %shape 1
  %place = alloca ptr
  put ptr %to %place 0
  each %k 0 %size
  %start = item ptr %place 0
  %part = item ptr %items %k
  %next = call ptr @fill(i64 %number, ptr %part, i64 %inner, ptr %rest, ptr %start)
  need ne ptr %next, null
  put ptr %next %place 0
  again %k
  ret ptr $(item ptr %place 0)
scalar:
  need $(call i1 @real(ptr %value, ptr %x))
  ret ptr $(call ptr @store(i64 %number, ptr %x, ptr %to))
no:
  ret ptr null
}}

; The items of a list or tuple of so many items, null for anything else.
define internal ptr @items(ptr %value, i64 %size) {{
  %type = field ptr %value {TYPE}
  when eq ptr %type, {address("tuple_type")}: tuple
  need eq ptr %type, {address("list_type")}
  need eq i64 $(field i64 %value {PyTupleObject.OB_SIZE}), %size
  ret ptr $(field ptr %value {cpython.LIST_ITEMS})
tuple:
  need eq i64 $(field i64 %value {PyTupleObject.OB_SIZE}), %size
  ret ptr $(at %value {PyTupleObject.OB_ITEM})
no:
  ret ptr null
}}
"""

NUMBERS = f"""
; Reads a number that is an argument; false if it is none, or of the other dtype.
define internal i1 @scalar(i64 %number, ptr %value, ptr %to) {{
  %type = field ptr %value {TYPE}
  %single = icmp eq i64 %number, {cpython.NPY_FLOAT}
  when eq ptr %type, {address("float32_type")}: float32
  %other = and i1 %single, $(icmp eq ptr %type, {address("float64_type")})
  %good = xor i1 %other, true
  need %good
  ret i1 $(call i1 @real(ptr %value, ptr %to))
float32:
  need %single
  put double $(fpext float $(field float %value {cpython.NUMBER}) to double) %to 0
  ret i1 true
no:
  ret i1 false
}}

; Reads a float or an int; false if the value is none, or too large an int.
define internal i1 @real(ptr %value, ptr %to) {{
  %type = field ptr %value {TYPE}
  when eq ptr %type, {address("float_type")}: float
  when eq ptr %type, {address("float64_type")}: float
  need eq ptr %type, {address("int_type")}
  %whole = call i64 {address("int_value")}(ptr %value)
  when eq i64 %whole, -1: perhaps, known
perhaps:
  when eq ptr $(call ptr {address("error_occurred")}()), null: known
  call void {address("error_clear")}()
  ret i1 false
known:
  need ult i64 $(add i64 %whole, {EXACT}), {2 * EXACT}
  put double $(sitofp i64 %whole to double) %to 0
  ret i1 true
float:
  put double $(field double %value {cpython.NUMBER}) %to 0
  ret i1 true
no:
  ret i1 false
}}

; Stores a number in a dtype; returns the address behind it, null if it is infinite in float32, of
; which Python warns.
define internal ptr @store(i64 %number, ptr %from, ptr %to) {{
  %x = item double %from 0
  when eq i64 %number, {cpython.NPY_DOUBLE}: double
  %y = fptrunc double %x to float
  %bounded = fcmp une float %y, 0x7FF0000000000000
  need $(and i1 %bounded, $(fcmp une float %y, 0xFFF0000000000000))
  store float %y, ptr %to, align 4
  ret ptr $(at %to 4)
double:
  put double %x %to 0
  ret ptr $(at %to 8)
no:
  ret ptr null
}}
"""

FUNCTIONS = OTHERWISE + ARGUMENTS + AS_ARRAY + NUMBERS
