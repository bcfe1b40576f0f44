"""The arrays of a call as the front looks at them: are they what the table of the function says, do
results lie apart, and new arrays for results.
"""

from __future__ import annotations

from featherlane.backends.cpu.call.cpython import RANK, Array, Flag, Head, Record, Tuple

SMALL = 4096  # bytes; larger results begin on a cache line, so that stores do not straddle two
LINE = 64
UINT8 = 2  # NumPy's number of this type

LEAD = f"""
define internal ptr @record(ptr %table, i64 %k) {{
  %first = item i64 %table {Head.RECORDS}
  %start = getelementptr inbounds i64, ptr %table, i64 %first
  %at = mul i64 %k, {Record.SIZE}
  %record = getelementptr inbounds i64, ptr %start, i64 %at
  ret ptr %record
}}

; The states of the first input, 0 if it has no leading dimension, -1 if this is nothing for us.
define internal i64 @lead(ptr %table, ptr %objects, i64 %most) {{
entry:
  %inputs = item i64 %table {Head.INPUTS}
  %without = icmp eq i64 %inputs, 0
  br i1 %without, label %alone, label %first
first:
  %array = item ptr %objects 0
  %type = field ptr %array {Array.TYPE}
  %is = icmp eq ptr %type, @array_type
  need %is
  %record = call ptr @record(ptr %table, i64 0)
  %core = item i64 %record {Record.NDIM}
  %rank = field i32 %array {Array.NDIM}
  %ndim = zext i32 %rank to i64
  %extra = sub i64 %ndim, %core
  %single = icmp eq i64 %extra, 0
  br i1 %single, label %alone, label %batch
batch:
  %rows = icmp eq i64 %extra, 1
  need %rows
  %dims = field ptr %array {Array.DIMS}
  %states = item i64 %dims 0
  %above = sub i64 %states, 1
  %few = icmp ult i64 %above, %most
  need %few
  ret i64 %states
alone:
  ret i64 0
no:
  ret i64 -1
}}
"""

STEP = f"""
; The bytes from one state to the next in an array that is what its record says, else -1. Inputs may
; lack the leading dimension, or stand still in it; results must not.
define internal i64 @step(ptr %table, i64 %number, ptr %array, i64 %lead) {{
entry:
  %type = field ptr %array {Array.TYPE}
  %is = icmp eq ptr %type, @array_type
  need %is
  %dtype = field ptr %array {Array.DTYPE}
  %wanted = item ptr %table {Head.DTYPE}
  %exact = icmp eq ptr %dtype, %wanted
  need %exact
  %record = call ptr @record(ptr %table, i64 %number)
  %flags = field i32 %array {Array.FLAGS}
  %word = zext i32 %flags to i64
  %mask = item i64 %record {Record.MASK}
  %has = and i64 %word, %mask
  %must = item i64 %record {Record.FLAGS}
  %usable = icmp eq i64 %has, %must
  need %usable
  %rank = field i32 %array {Array.NDIM}
  %ndim = zext i32 %rank to i64
  %core = item i64 %record {Record.NDIM}
  %extra = sub i64 %ndim, %core
  %dims = field ptr %array {Array.DIMS}
  %strides = field ptr %array {Array.STRIDES}
  %least = item i64 %record {Record.LEAST}
  %plain = icmp eq i64 %extra, 0
  br i1 %plain, label %still, label %rows
still:
  %alone = icmp eq i64 %lead, 0
  %input = icmp eq i64 %least, 0
  %stands = or i1 %alone, %input
  need %stands
  br label %core_shape
rows:
  %batch = icmp ne i64 %lead, 0
  need %batch
  %leads = icmp eq i64 %extra, 1
  need %leads
  %states = item i64 %dims 0
  %alike = icmp eq i64 %states, %lead
  need %alike
  %stride = item i64 %strides 0
  %far = icmp sge i64 %stride, %least
  need %far
  br label %core_shape
core_shape:
  %step = phi i64 [ 0, %stands.yes ], [ %stride, %far.yes ]
  %core_dims = getelementptr inbounds i64, ptr %dims, i64 %extra
  %core_strides = getelementptr inbounds i64, ptr %strides, i64 %extra
  %shape = getelementptr inbounds i64, ptr %record, i64 {Record.SHAPE}
  %dense = getelementptr inbounds i64, ptr %record, i64 {Record.DENSE}
  each %k 0 %core
  %dim = item i64 %core_dims %k
  %size = item i64 %shape %k
  %right = icmp eq i64 %dim, %size
  need %right
  %jump = item i64 %core_strides %k
  %near = item i64 %dense %k
  %close = icmp eq i64 %jump, %near
  need %close
  again %k
  ret i64 %step
no:
  ret i64 -1
}}
"""

TAKE = f"""{LEAD}{STEP}
; The places of `count` arrays, from that with number `first` on, if all are what the table says.
define internal i1 @take(ptr %table, i64 %first, i64 %count, ptr %objects, i64 %lead,
                         ptr %pointers, ptr %ends, ptr %steps) {{
entry:
  %single = icmp eq i64 %lead, 0
  %above = sub i64 %lead, 1
  %rows = select i1 %single, i64 0, i64 %above
  each %k 0 %count
  %array = item ptr %objects %k
  %number = add i64 %first, %k
  %step = call i64 @step(ptr %table, i64 %number, ptr %array, i64 %lead)
  %fits = icmp sge i64 %step, 0
  need %fits
  %data = field ptr %array {Array.DATA}
  put ptr %data %pointers %number
  put i64 %step %steps %number
  %record = call ptr @record(ptr %table, i64 %number)
  %size = item i64 %record {Record.BYTES}
  %others = mul i64 %rows, %step
  %length = add i64 %others, %size
  %end = getelementptr inbounds i8, ptr %data, i64 %length
  put ptr %end %ends %number
  again %k
  ret i1 true
no:
  ret i1 false
}}

; The arrays of `out`: itself, or those in a tuple of the right length.
define internal ptr @inside(ptr %slot, ptr %packed, i64 %outputs) {{
entry:
  %out = item ptr %slot 0
  %type = field ptr %out {Array.TYPE}
  %array = icmp eq ptr %type, @array_type
  %single = icmp eq i64 %outputs, 1
  %itself = and i1 %array, %single
  br i1 %itself, label %one, label %several
one:
  ret ptr %slot
several:
  %plain = icmp eq ptr %type, @tuple_type
  %ours = icmp eq ptr %type, %packed
  %holds = or i1 %plain, %ours
  need %holds
  %size = field i64 %out {Tuple.SIZE}
  %all = icmp eq i64 %size, %outputs
  need %all
  %items = getelementptr inbounds i8, ptr %out, i64 {Tuple.ITEMS}
  ret ptr %items
no:
  ret ptr null
}}

; Whether no result shares memory with an input or another result.
define internal i1 @apart(i64 %inputs, i64 %arrays, ptr %pointers, ptr %ends) {{
entry:
  each %k %inputs %arrays
  %start = item ptr %pointers %k
  %end = item ptr %ends %k
  each %n 0 %k
  %other_start = item ptr %pointers %n
  %other_end = item ptr %ends %n
  %behind = icmp uge ptr %other_start, %end
  %before = icmp uge ptr %start, %other_end
  %free = or i1 %behind, %before
  need %free
  again %n
  again %k
  ret i1 true
no:
  ret i1 false
}}
"""

MAKE = f"""
; New arrays for the results. False if there is no memory, with the error set and nothing kept.
define internal i1 @make(ptr %table, i64 %lead, ptr %made, ptr %pointers, ptr %steps) {{
entry:
  %inputs = item i64 %table {Head.INPUTS}
  %outputs = item i64 %table {Head.OUTPUTS}
  each %k 0 %outputs
  %number = add i64 %inputs, %k
  %record = call ptr @record(ptr %table, i64 %number)
  %array = call ptr @fresh(ptr %table, ptr %record, i64 %lead)
  %some = icmp ne ptr %array, null
  need %some
  put ptr %array %made %k
  %data = field ptr %array {Array.DATA}
  put ptr %data %pointers %number
  %size = item i64 %record {Record.BYTES}
  put i64 %size %steps %number
  again %k
  ret i1 true
no:
  call void @drop(ptr %made, i64 %k)
  ret i1 false
}}
define internal void @drop(ptr %objects, i64 %count) {{
entry:
  each %k 0 %count
  %object = item ptr %objects %k
  call void @decref(ptr %object)
  again %k
  ret void
}}

define internal ptr @fresh(ptr %table, ptr %record, i64 %lead) {{
entry:
  %dims = alloca [{RANK + 1} x i64]
  %core = item i64 %record {Record.NDIM}
  %batch = icmp sgt i64 %lead, 0
  %extra = zext i1 %batch to i64
  put i64 %lead %dims 0
  %behind = getelementptr inbounds i64, ptr %dims, i64 %extra
  call void @copy(ptr %behind, ptr %record, i64 {Record.SHAPE}, i64 %core)
  %ndim = add i64 %core, %extra
  %rank = trunc i64 %ndim to i32
  %number = item i64 %table {Head.NUMBER}
  %type = trunc i64 %number to i32
  %size = item i64 %record {Record.BYTES}
  %rows = select i1 %batch, i64 %lead, i64 1
  %bytes = mul i64 %rows, %size
  %small = icmp ult i64 %bytes, {SMALL}
  br i1 %small, label %plain, label %large
plain:
  %array = call ptr @array_new(ptr @array_type, i32 %rank, ptr %dims, i32 %type, ptr null, ptr null,
                               i32 0, i32 0, ptr null)
  ret ptr %array
large:
  %aligned = call ptr @aligned(i32 %rank, ptr %dims, i32 %type, i64 %bytes)
  ret ptr %aligned
}}

; An array that begins on a cache line, in the memory of a longer one.
define internal ptr @aligned(i32 %rank, ptr %dims, i32 %type, i64 %bytes) {{
entry:
  %length = alloca i64
  %longer = add i64 %bytes, {LINE}
  put i64 %longer %length 0
  %raw = call ptr @array_new(ptr @array_type, i32 1, ptr %length, i32 {UINT8}, ptr null, ptr null,
                             i32 0, i32 0, ptr null)
  %some = icmp ne ptr %raw, null
  need %some
  %data = field ptr %raw {Array.DATA}
  %address = ptrtoint ptr %data to i64
  %up = add i64 %address, {LINE - 1}
  %line = and i64 %up, -{LINE}
  %start = inttoptr i64 %line to ptr
  %array = call ptr @array_new(ptr @array_type, i32 %rank, ptr %dims, i32 %type, ptr null,
                               ptr %start, i32 0, i32 {Flag.CARRAY}, ptr null)
  %made = icmp ne ptr %array, null
  br i1 %made, label %tie, label %unmade
tie:
  %failed = call i32 @array_set_base(ptr %array, ptr %raw)
  %tied = icmp eq i32 %failed, 0
  br i1 %tied, label %done, label %untied
untied:
  call void @decref(ptr %array)
  ret ptr null
unmade:
  call void @decref(ptr %raw)
  ret ptr null
done:
  ret ptr %array
no:
  ret ptr null
}}
"""
