"""The front of every compiled function: a callable of CPython whose body is machine code.

A call through Python and a ufunc costs 8 us, more than the dynamics of an arm. `source` is a
function with CPython's fast calling convention that looks at its arguments itself. If they are
NumPy arrays of exactly the right dtype and core shape, with at most one leading dimension, it makes
the results or takes the arrays of `out=`, and runs the loop. All else it hands on to a Python
callable. It is one piece of code for all functions: what it compares with is a table of numbers in
the tuple that it is bound to, see `direct.callable_of`.
"""

from __future__ import annotations

from featherlane.backends.cpu.call.check_arrays import MAKE, TAKE
from featherlane.backends.cpu.call.cpython import Array, Head, Self, Tuple
from featherlane.backends.cpu.threads.pool_ir import Task, Word
from featherlane.backends.llvm.macros import expanded

DECLARED = """
@array_type = external global i8
@tuple_type = external global i8
@int_type = external global i8
@py_none = external global i8
@py_one = external global i8
declare ptr @array_new(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare i32 @array_set_base(ptr, ptr)
declare ptr @vectorcall(ptr, ptr, i64, ptr)
declare ptr @object_new(ptr, i64)
declare void @incref(ptr)
declare void @decref(ptr)
declare i64 @int_value(ptr)
declare void @error_clear()
declare i64 @llvm.umax.i64(i64, i64)
declare ptr @gil_release()
declare void @gil_take(ptr)
"""

CALL = f"""
define ptr @call(ptr %self, ptr %given, i64 %count, ptr %keywords) {{
entry:
  %own = getelementptr inbounds i8, ptr %self, i64 {Tuple.ITEMS}
  %packed = item ptr %own {Self.PACKED}
  %names = item ptr %own {Self.NAMES}
  %bytes = item ptr %own {Self.TABLE}
  %table = getelementptr inbounds i8, ptr %bytes, i64 {Self.BYTES}
  %inputs = item i64 %table {Head.INPUTS}
  %outputs = item i64 %table {Head.OUTPUTS}
  %arrays = add i64 %inputs, %outputs
  %strides = item i64 %table {Head.STRIDES}
  %options = add i64 %inputs, 2
  %slots = alloca ptr, i64 %options
  %pointers = alloca ptr, i64 %arrays
  %ends = alloca ptr, i64 %arrays
  %steps = alloca i64, i64 %strides
  %made = alloca ptr, i64 %outputs
  %bound = call i1 @bind(ptr %names, i64 %inputs, ptr %given, i64 %count, ptr %keywords, ptr %slots)
  need %bound
  %threads = item ptr %slots 1
  %asked = call i64 @asked(ptr %threads)
  %known = icmp sge i64 %asked, 0
  need %known
  %objects = getelementptr inbounds ptr, ptr %slots, i64 2
  %most = call i64 @most(ptr %table, i64 %asked)
  %lead = call i64 @lead(ptr %table, ptr %objects, i64 %most)
  %led = icmp sge i64 %lead, 0
  need %led
  call void @copy(ptr %steps, ptr %table, i64 {Head.SIZE}, i64 %strides)
  %read = call i1 @take(ptr %table, i64 0, i64 %inputs, ptr %objects, i64 %lead,
                        ptr %pointers, ptr %ends, ptr %steps)
  need %read
  %out = item ptr %slots 0
  %fresh = icmp eq ptr %out, @py_none
  br i1 %fresh, label %make, label %look
look:
  %inside = call ptr @inside(ptr %slots, ptr %packed, i64 %outputs)
  %some = icmp ne ptr %inside, null
  need %some
  %written = call i1 @take(ptr %table, i64 %inputs, i64 %outputs, ptr %inside, i64 %lead,
                           ptr %pointers, ptr %ends, ptr %steps)
  need %written
  %apart = call i1 @apart(i64 %inputs, i64 %arrays, ptr %pointers, ptr %ends)
  need %apart
  br label %run
make:
  %enough = call i1 @make(ptr %table, i64 %lead, ptr %made, ptr %pointers, ptr %steps)
  br i1 %enough, label %run, label %failed
failed:
  ret ptr null
run:
  %shown = phi ptr [ %made, %make ], [ %inside, %apart.yes ]
  %task = alloca [{Task.SIZE} x i64]
  %shared = call ptr @shared(ptr %table, i64 %asked, ptr %task)
  call void @run(ptr %table, i64 %lead, ptr %pointers, ptr %steps, ptr %shared)
  %answer = call ptr @answer(ptr %packed, ptr %shown, i64 %outputs, ptr %out)
  ret ptr %answer
no:
  %other = item ptr %own {Self.PASS_ON}
  %passed = call ptr @vectorcall(ptr %other, ptr %given, i64 %count, ptr %keywords)
  ret ptr %passed
}}
"""

BIND = f"""
; The arguments in their slots, None where there is none: out, threads, inputs.
define internal i1 @bind(ptr %names, i64 %inputs, ptr %given, i64 %count, ptr %keywords,
                         ptr %slots) {{
entry:
  %few = icmp ule i64 %count, %inputs
  need %few
  %options = add i64 %inputs, 2
  each %c 0 %options
  put ptr @py_none %slots %c
  again %c
  %first = getelementptr inbounds ptr, ptr %slots, i64 2
  call void @copy(ptr %first, ptr %given, i64 0, i64 %count)
  %none = icmp eq ptr %keywords, null
  br i1 %none, label %yes, label %named
named:
  %values = getelementptr inbounds ptr, ptr %given, i64 %count
  %keys = getelementptr inbounds i8, ptr %keywords, i64 {Tuple.ITEMS}
  %size = field i64 %keywords {Tuple.SIZE}
  %positional = add i64 %count, 2
  each %k 0 %size
  %key = item ptr %keys %k
  %slot = call i64 @find(ptr %names, ptr %key)
  %option = icmp ult i64 %slot, 2
  %later = icmp ult i64 %slot, %options
  %free = icmp uge i64 %slot, %positional
  %input = and i1 %later, %free
  %ours = or i1 %option, %input
  need %ours
  %value = item ptr %values %k
  put ptr %value %slots %slot
  again %k
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

; Where an interned string is in a tuple, or its length.
define internal i64 @find(ptr %names, ptr %key) {{
entry:
  %all = field i64 %names {Tuple.SIZE}
  %list = getelementptr inbounds i8, ptr %names, i64 {Tuple.ITEMS}
  each %n 0 %all
  %name = item ptr %list %n
  %same = icmp eq ptr %name, %key
  br i1 %same, label %found, label %other
other:
  again %n
  ret i64 -1
found:
  ret i64 %n
}}

define internal void @copy(ptr %to, ptr %from, i64 %first, i64 %count) {{
entry:
  each %k 0 %count
  %at = add i64 %first, %k
  %x = item i64 %from %at
  put i64 %x %to %k
  again %k
  ret void
}}
"""

RUN = f"""
; The threads that are asked for: 0 if that is left to us, -1 if this is nothing for us.
define internal i64 @asked(ptr %threads) {{
entry:
  %any = icmp eq ptr %threads, @py_none
  br i1 %any, label %ours, label %number
ours:
  ret i64 0
number:
  %one = icmp eq ptr %threads, @py_one
  br i1 %one, label %alone, label %several
alone:
  ret i64 1
several:
  %type = field ptr %threads {Array.TYPE}
  %is = icmp eq ptr %type, @int_type
  need %is
  %value = call i64 @int_value(ptr %threads)
  %positive = icmp sgt i64 %value, 0
  br i1 %positive, label %some, label %wrong
some:
  ret i64 %value
wrong:
  call void @error_clear()
  br label %no
no:
  ret i64 -1
}}

; The states of the largest call that we take: any if there are workers to share it with.
define internal i64 @most(ptr %table, i64 %asked) {{
entry:
  %most = item i64 %table {Head.MOST}
  %few = icmp ult i64 %asked, 2
  %bound = select i1 %few, i64 %most, i64 0
  %task = item ptr %table {Head.TASK}
  %some = icmp ne ptr %task, null
  need %some
  %team = item ptr %task {Task.TEAM}
  %workers = item i64 %team {Word.SIZE}
  %wanted = call i64 @llvm.umax.i64(i64 %asked, i64 2)
  %all = add i64 %workers, 1
  %staffed = icmp uge i64 %all, %wanted
  %any = select i1 %staffed, i64 -1, i64 %bound
  ret i64 %any
no:
  ret i64 %bound
}}

; Null for one thread, else what the team is told, of which %own is to be a copy for several that
; are asked for.
define internal ptr @shared(ptr %table, i64 %asked, ptr %own) {{
entry:
  %task = item ptr %table {Head.TASK}
  %none = icmp eq i64 %asked, 1
  %known = select i1 %none, ptr null, ptr %task
  %several = icmp ugt i64 %asked, 1
  %some = icmp ne ptr %known, null
  %copied = and i1 %several, %some
  br i1 %copied, label %copy, label %same
copy:
  call void @copy(ptr %own, ptr %task, i64 0, i64 {Task.SIZE})
  put i64 1 %own {Task.EACH}
  put i64 0 %own {Task.COLD}
  put i64 %asked %own {Task.THREADS}
  ret ptr %own
same:
  ret ptr %known
}}

; Without the interpreter's lock where others could do something in that time.
define internal void @run(ptr %table, i64 %lead, ptr %pointers, ptr %steps, ptr %task) {{
entry:
  %states = alloca i64
  %batch = icmp sgt i64 %lead, 0
  %count = select i1 %batch, i64 %lead, i64 1
  put i64 %count %states 0
  %own = item ptr %table {Head.LOOP}
  %share = item ptr %table {Head.SHARE}
  %alone = icmp eq ptr %task, null
  %loop = select i1 %alone, ptr %own, ptr %share
  %many = item i64 %table {Head.UNLOCKED}
  %long = icmp uge i64 %count, %many
  br i1 %long, label %unlocked, label %locked
locked:
  call void %loop(ptr %pointers, ptr %states, ptr %steps, ptr %task)
  ret void
unlocked:
  %thread = call ptr @gil_release()
  call void %loop(ptr %pointers, ptr %states, ptr %steps, ptr %task)
  call void @gil_take(ptr %thread)
  ret void
}}
"""

ANSWER = f"""
; A new reference to the array, or to all of them in a tuple, which is that of `out` if it has the
; type. References to new arrays are handed over.
define internal ptr @answer(ptr %packed, ptr %arrays, i64 %count, ptr %out) {{
entry:
  %fresh = icmp eq ptr %out, @py_none
  %first = item ptr %arrays 0
  %single = icmp eq i64 %count, 1
  br i1 %single, label %one, label %several
several:
  %type = field ptr %out {Array.TYPE}
  %ready = icmp eq ptr %type, %packed
  br i1 %ready, label %one, label %pack
one:
  %result = phi ptr [ %first, %entry ], [ %out, %several ]
  br i1 %fresh, label %done, label %share
share:
  call void @incref(ptr %result)
  br label %done
done:
  ret ptr %result
pack:
  %tuple = call ptr @object_new(ptr %packed, i64 %count)
  %some = icmp ne ptr %tuple, null
  br i1 %some, label %fill, label %failed
fill:
  %hash = getelementptr inbounds i8, ptr %tuple, i64 {Tuple.HASH}
  call void @unknown(ptr %hash, i64 {(Tuple.ITEMS - Tuple.HASH) // 8})
  %items = getelementptr inbounds i8, ptr %tuple, i64 {Tuple.ITEMS}
  each %k 0 %count
  %array = item ptr %arrays %k
  put ptr %array %items %k
  br i1 %fresh, label %kept, label %keep
keep:
  call void @incref(ptr %array)
  br label %kept
kept:
  again %k
  ret ptr %tuple
failed:
  br i1 %fresh, label %empty, label %no
empty:
  call void @drop(ptr %arrays, i64 %count)
  br label %no
no:
  ret ptr null
}}

; From Python 3.14 on a tuple keeps its hash, which is -1 before it is asked for.
define internal void @unknown(ptr %hash, i64 %count) {{
entry:
  each %k 0 %count
  put i64 -1 %hash %k
  again %k
  ret void
}}
"""


def source() -> str:
    """The LLVM IR of @call."""
    return expanded("".join([DECLARED, CALL, BIND, TAKE, MAKE, RUN, ANSWER]))
