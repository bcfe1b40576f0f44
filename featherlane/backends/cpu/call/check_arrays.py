"""Machine code for the arrays of a call: comparison with the function's table, overlaps of results
with other arrays, and new arrays for results.
"""

from __future__ import annotations

from featherlane.backends.cpu import results
from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.call import cpython
from featherlane.backends.cpu.call.cpython import (
    ArrayRecord,
    CallTable,
    PyArrayObject,
    PyTupleObject,
)
from featherlane.backends.cpu.strides import LINE, SMALL
from featherlane.backends.llvm.records import field, read

RECORD = f"""
; The record of array k.
define internal ptr @record(ptr %table, i64 %k) {{
  %start = word %table $(item i64 %table {field(CallTable, "records")})
  %record = record %start %k {cpython.RECORD_WORDS}
  ret ptr %record
}}
"""


def _batch_size(name: str, number: str, search: str = "") -> str:
    """The function of a name that finds the number of states. number: that of the input which says
    it; search: the instruction that finds it.
    """
    return f"""
; The number of states: the leading dimension of an input, 0 if it has none. -1 if the call is
; handed on: the input is no array, has several leading dimensions, fewer states than have a loop,
; or more than %most.
define internal i64 @{name}(ptr %table, ptr %objects, i64 %most) {{
  %least = item i64 %table {field(CallTable, "least")}
  when eq i64 $(item i64 %table {field(CallTable, "inputs")}), 0: single
  {search}
  %array = item ptr %objects {number}
  need eq ptr $(field ptr %array {PyArrayObject.ob_type.offset}), {address("array_type")}
  %record = call ptr @record(ptr %table, i64 {number})
  %core = item i64 %record {field(ArrayRecord, "ndim")}
  %leading = sub i64 $(zext i32 $(field i32 %array {PyArrayObject.nd.offset}) to i64), %core
  when eq i64 %leading, 0: single
  need eq i64 %leading, 1
  %states = item i64 $(field ptr %array {PyArrayObject.dimensions.offset}) 0
  need ult i64 $(sub i64 %states, 1), %most
  need uge i64 %states, %least
  ret i64 %states
single:
  need ule i64 %least, 1
  ret i64 0
no:
  ret i64 -1
}}
"""


SEARCH = "%number = call i64 @first_with_states(ptr %table, ptr %objects)"
BATCH_SIZES = f"""
{_batch_size("batch_size", "0")}
{_batch_size("any_batch_size", "%number", SEARCH)}
; The number of the first input with a leading dimension, 0 if there is none.
define internal i64 @first_with_states(ptr %table, ptr %objects) {{
  %inputs = item i64 %table {field(CallTable, "inputs")}
  each %k 0 %inputs
  %array = item ptr %objects %k
  when ne ptr $(field ptr %array {PyArrayObject.ob_type.offset}), {address("array_type")}: k.end
  %record = call ptr @record(ptr %table, i64 %k)
  %core = item i64 %record {field(ArrayRecord, "ndim")}
  %ndim = zext i32 $(field i32 %array {PyArrayObject.nd.offset}) to i64
  when ugt i64 %ndim, %core: leads
  again %k
  ret i64 0
leads:
  ret i64 %k
}}
"""

STATE_STRIDE = f"""
; The bytes from one state of an array to the next, -1 if the array is not what its record says. An
; input may lack the leading dimension, or have the stride 0 there; a result may not.
define internal i64 @state_stride(ptr %table, i64 %number, ptr %array, i64 %batch) {{
  need eq ptr $(field ptr %array {PyArrayObject.ob_type.offset}), {address("array_type")}
  %dtype = field ptr %array {PyArrayObject.descr.offset}
  need eq ptr %dtype, $(item ptr %table {field(CallTable, "dtype")})
  %record = call ptr @record(ptr %table, i64 %number)
  %flags = zext i32 $(field i32 %array {PyArrayObject.flags.offset}) to i64
  %set = and i64 %flags, $(item i64 %record {field(ArrayRecord, "mask")})
  need eq i64 %set, $(item i64 %record {field(ArrayRecord, "flags")})
  %ndim = zext i32 $(field i32 %array {PyArrayObject.nd.offset}) to i64
  %core = item i64 %record {field(ArrayRecord, "ndim")}
  %leading = sub i64 %ndim, %core
  %dims = field ptr %array {PyArrayObject.dimensions.offset}
  %strides = field ptr %array {PyArrayObject.strides.offset}
  %least = item i64 %record {field(ArrayRecord, "least")}
  when eq i64 %leading, 0: one, rows
one:
  %repeated = or i1 $(icmp eq i64 %batch, 0), $(icmp eq i64 %least, 0)
  need %repeated
  br label %core_shape
rows:
  need ne i64 %batch, 0
  need eq i64 %leading, 1
  need eq i64 $(item i64 %dims 0), %batch
  %stride = item i64 %strides 0
  %far = icmp sge i64 %stride, %least
  need %far
  br label %core_shape
core_shape:
  %step = phi i64 [ 0, %repeated.yes ], [ %stride, %far.yes ]
  %core_dims = word %dims %leading
  %core_strides = word %strides %leading
  %shape = word %record {cpython.SHAPE}
  %dense = word %record {cpython.DENSE}
  each %k 0 %core
  need eq i64 $(item i64 %core_dims %k), $(item i64 %shape %k)
  need eq i64 $(item i64 %core_strides %k), $(item i64 %dense %k)
  again %k
  ret i64 %step
no:
  ret i64 -1
}}
"""

TURNS = f"""
; Whether the first quaternion of the first state has a length, if the function reads one: zeros are
; the common mistake.
define internal i1 @turns(ptr %table, ptr %pointers) {{
  {read(CallTable, "%table", "turning quaternion half")}
  return i1 true when slt i64 %turning, 0
  %first = at $(item ptr %pointers %turning) %quaternion
  %second = at %first %half
  %bits = or i128 $(load i128, ptr %first, align 4), $(load i128, ptr %second, align 4)
  ret i1 $(icmp ne i128 %bits, 0)
}}
"""

READ_ARRAYS = f"""
; Writes where `count` arrays, from number `first` on, begin and end and their strides; false if one
; of them is not what the table says. A number in the place of an array without dimensions is stored
; in %numbers, which is null for results.
define internal i1 @read_arrays(ptr %table, i64 %first, i64 %count, ptr %objects, i64 %batch,
                                ptr %pointers, ptr %ends, ptr %steps, ptr %numbers) {{
  %single = icmp eq i64 %batch, 0
  %rows = select i1 %single, i64 0, i64 $(sub i64 %batch, 1)
  each %k 0 %count
  %array = item ptr %objects %k
  %number = add i64 %first, %k
  %stride = call i64 @state_stride(ptr %table, i64 %number, ptr %array, i64 %batch)
  %record = call ptr @record(ptr %table, i64 %number)
  when sge i64 %stride, 0: fits
  need ne ptr %numbers, null
  %place = word %numbers %k
  %stored = call i1 @store_number(ptr %table, i64 %k, ptr %record, ptr %objects, ptr %place)
  need %stored
  br label %note
fits:
  %start = field ptr %array {PyArrayObject.data.offset}
  br label %note
note:
  %data = phi ptr [ %start, %fits ], [ %place, %stored.yes ]
  %step = phi i64 [ %stride, %fits ], [ 0, %stored.yes ]
  put ptr %data %pointers %number
  put i64 %step %steps %number
  %size = item i64 %record {field(ArrayRecord, "bytes")}
  put ptr $(at %data $(add i64 $(mul i64 %rows, %step), %size)) %ends %number
  again %k
  ret i1 true
no:
  ret i1 false
}}

; Stores the number that is input k in the function's dtype; false if it is none, or if the input
; has dimensions. In float32 the first input must be an array, which has that dtype.
define internal i1 @store_number(ptr %table, i64 %k, ptr %record, ptr %objects, ptr %to) {{
  %x = alloca double
  need eq i64 $(item i64 %record {field(ArrayRecord, "ndim")}), 0
  {read(CallTable, "%table", "number")}
  when eq i64 %number, {cpython.NPY_DOUBLE}: typed
  %type = field ptr $(item ptr %objects 0) {PyArrayObject.ob_type.offset}
  need eq ptr %type, {address("array_type")}
  br label %typed
typed:
  need $(call i1 @scalar(i64 %number, ptr $(item ptr %objects %k), ptr %x))
  ret i1 $(icmp ne ptr $(call ptr @store(i64 %number, ptr %x, ptr %to)), null)
no:
  ret i1 false
}}

; The list of the arrays of `out`: the array itself, or the items of a tuple of the right length.
define internal ptr @out_arrays(ptr %slot, ptr %packed, i64 %outputs) {{
  %out = item ptr %slot 0
  %type = field ptr %out {PyArrayObject.ob_type.offset}
  %array = icmp eq ptr %type, {address("array_type")}
  %itself = and i1 %array, $(icmp eq i64 %outputs, 1)
  return ptr %slot when %itself
  need $(or i1 $(icmp eq ptr %type, {address("tuple_type")}), $(icmp eq ptr %type, %packed))
  need eq i64 $(field i64 %out {PyTupleObject.OB_SIZE}), %outputs
  ret ptr $(at %out {PyTupleObject.OB_ITEM})
no:
  ret ptr null
}}

; Whether no result shares memory with an input or another result.
define internal i1 @disjoint(i64 %inputs, i64 %arrays, ptr %pointers, ptr %ends) {{
  each %k %inputs %arrays
  %start = item ptr %pointers %k
  %end = item ptr %ends %k
  each %n 0 %k
  %other_start = item ptr %pointers %n
  %other_end = item ptr %ends %n
  need $(or i1 $(icmp uge ptr %other_start, %end), $(icmp uge ptr %start, %other_end))
  again %n
  again %k
  ret i1 true
no:
  ret i1 false
}}
"""

NEW_ARRAYS = f"""
; Makes new arrays for the results. Without memory: false, with the error set and no array left.
define internal i1 @new_arrays(ptr %table, i64 %batch, ptr %arrays, ptr %pointers, ptr %steps) {{
  {read(CallTable, "%table", "inputs outputs")}
  each %k 0 %outputs
  %number = add i64 %inputs, %k
  %record = call ptr @record(ptr %table, i64 %number)
  %array = call ptr @new_array(ptr %table, ptr %record, i64 %batch)
  need ne ptr %array, null
  put ptr %array %arrays %k
  put ptr $(field ptr %array {PyArrayObject.data.offset}) %pointers %number
  put i64 $(item i64 %record {field(ArrayRecord, "bytes")}) %steps %number
  again %k
  ret i1 true
no:
  call void @release(ptr %arrays, i64 %k)
  ret i1 false
}}
define internal void @release(ptr %objects, i64 %count) {{
  each %k 0 %count
  call void {address("decref")}(ptr $(item ptr %objects %k))
  again %k
  ret void
}}

; A new array of so many states; a large one begins on a cache line.
define internal ptr @new_array(ptr %table, ptr %record, i64 %batch) {{
  %dims = alloca [{cpython.RANK + 1} x i64]
  %core = item i64 %record {field(ArrayRecord, "ndim")}
  %several = icmp sgt i64 %batch, 0
  %leading = zext i1 %several to i64
  put i64 %batch %dims 0
  call void @copy(ptr $(word %dims %leading), ptr %record, i64 {cpython.SHAPE}, i64 %core)
  %nd = trunc i64 $(add i64 %core, %leading) to i32
  %type = trunc i64 $(item i64 %table {field(CallTable, "number")}) to i32
  %size = item i64 %record {field(ArrayRecord, "bytes")}
  %bytes = mul i64 $(select i1 %several, i64 %batch, i64 1), %size
  when ult i64 %bytes, {SMALL}: small, large
small:
  %type_of_arrays = at {address("array_type")} 0
  %array = call ptr {address("array_new")}(ptr %type_of_arrays, i32 %nd, ptr %dims, i32 %type,
                                           ptr null, ptr null, i32 0, i32 0, ptr null)
  ret ptr %array
large:
  ret ptr $(call ptr @new_aligned(i32 %nd, ptr %dims, i32 %type, i64 %bytes))
}}

; An array that begins on a cache line: a view of a longer one, a block.
define internal ptr @new_aligned(i32 %nd, ptr %dims, i32 %type, i64 %bytes) noinline {{
  %type_of_arrays = at {address("array_type")} 0
  %new = at {address("array_new")} 0
  %base = call ptr @block(i64 $(add i64 %bytes, {LINE}))
  need ne ptr %base, null
  %address = ptrtoint ptr $(field ptr %base {PyArrayObject.data.offset}) to i64
  %start = inttoptr i64 $(and i64 $(add i64 %address, {LINE - 1}), -{LINE}) to ptr
  %view = call ptr %new(ptr %type_of_arrays, i32 %nd, ptr %dims, i32 %type, ptr null, ptr %start,
                        i32 0, i32 {cpython.NPY_ARRAY_CARRAY}, ptr null)
  when ne ptr %view, null: set_base, no_view
set_base:
  when eq i32 $(call i32 {address("array_set_base")}(ptr %view, ptr %base)), 0: done
  call void {address("decref")}(ptr %view)
  ret ptr null
no_view:
  call void {address("decref")}(ptr %base)
  ret ptr null
done:
  ret ptr %view
no:
  ret ptr null
}}
"""

ARRAYS = STATE_STRIDE + READ_ARRAYS + TURNS + NEW_ARRAYS
FUNCTIONS = RECORD + BATCH_SIZES + ARRAYS + results.FUNCTIONS
