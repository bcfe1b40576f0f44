"""The entry point of every compiled function: a callable of CPython whose body is machine code.

A call through Python and a ufunc costs 8 us, more than the dynamics of an arm; this one costs 0.2
(docs/performance.md, "Single states"). `source` is a function with CPython's vectorcall convention
that parses its arguments itself. If they are NumPy arrays of exactly the right dtype and core
shape, with at most one leading dimension, or numbers for inputs without dimensions, it creates the
results or takes the arrays of `out=`, and runs the loop. Lists of Python become arrays first
(`numbers_as_arrays`). It passes all other calls to a Python callable. One piece of code serves all
functions: it compares with a table in the tuple that it is bound to, see `cpython.callable_of`.
Other entry points stand before it: `time_steps`, `choices` and `wrenches_at_frames`.
"""

from __future__ import annotations

from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.call import (
    check_arrays,
    choices,
    cpython,
    numbers_as_arrays,
    time_steps,
    wrenches_at_frames,
)
from featherlane.backends.cpu.call.cpython import BoundSelf, CallTable, PyArrayObject, PyTupleObject
from featherlane.backends.cpu.threads.pool_ir import SharedTask, pool_word
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import field, read, words

DECLARED = "declare i64 @llvm.umax.i64(i64, i64)\n"

FRAME = f"""
  %bound = at %self {PyTupleObject.OB_ITEM}
  {read(BoundSelf, "%bound", "packed:ptr names:ptr")}
  %table = at $(item ptr %bound {field(BoundSelf, "table")}) {cpython.OB_SVAL}
  {read(CallTable, "%table", "inputs outputs places")}
  %arrays = add i64 %inputs, %outputs
  {read(CallTable, "%table", "strides")}
  %slots = alloca ptr, i64 %places
  %pointers = alloca ptr, i64 %arrays
  %ends = alloca ptr, i64 %arrays
  %steps = alloca i64, i64 %strides
  %new = alloca ptr, i64 %outputs
  %numbers = alloca double, i64 %inputs
"""
BIND_INPUTS = """
  need $(call i1 @bind(ptr %names, ptr %table, ptr %args, i64 %count, ptr %keywords, ptr %slots))
  %asked = call i64 @threads_asked(ptr $(item ptr %slots 1))
  need sge i64 %asked, 0
  %objects = word %slots 2
  %most = call i64 @largest_batch(ptr %table, i64 %asked)
"""
CHECK_INPUTS = f"""
  need sge i64 %batch, 0
  call void @copy(ptr %steps, ptr %table, i64 {words(CallTable)}, i64 %strides)
  %read = call i1 @read_arrays(ptr %table, i64 0, i64 %inputs, ptr %objects, i64 %batch,
                               ptr %pointers, ptr %ends, ptr %steps, ptr %numbers)
  need %read
  need $(call i1 @turns(ptr %table, ptr %pointers))
"""
RESULTS = f"""
  %out = item ptr %slots 0
  when eq ptr %out, {address("py_none")}: make
  %outs = call ptr @out_arrays(ptr %slots, ptr %packed, i64 %outputs)
  need ne ptr %outs, null
  %written = call i1 @read_arrays(ptr %table, i64 %inputs, i64 %outputs, ptr %outs, i64 %batch,
                                  ptr %pointers, ptr %ends, ptr %steps, ptr null)
  need %written
  %disjoint = call i1 @disjoint(i64 %inputs, i64 %arrays, ptr %pointers, ptr %ends)
  need %disjoint
  br label %run
make:
  %enough = call i1 @new_arrays(ptr %table, i64 %batch, ptr %new, ptr %pointers, ptr %steps)
  when %enough: run
  ret ptr null
"""
RUN_LOOP = f"""
run:
  %results = phi ptr [ %new, %make ], [ %outs, %disjoint.yes ]
  %own = alloca [{words(SharedTask)} x i64]
  %task = call ptr @task_of(ptr %table, i64 %asked, ptr %own)
  %failed = at {address("scratch_failures")} 0
  %failures = load atomic i64, ptr %failed monotonic, align 8
  call void @run(ptr %table, i64 %batch, ptr %pointers, ptr %steps, ptr %task)
  when ne i64 $(load atomic i64, ptr %failed monotonic, align 8), %failures: no_memory
  ret ptr $(call ptr @answer(ptr %packed, ptr %results, i64 %outputs, ptr %out))
no_memory:
  %theirs = icmp ne ptr %out, {address("py_none")}
  call void @release(ptr %new, i64 $(select i1 %theirs, i64 0, i64 %outputs))
  ret ptr $(call ptr {address("error_no_memory")}())
"""


def _front(head: str, batch_size: str, refused: str) -> str:
    """A function that serves a call. batch_size: the function that finds the number of states;
    refused: the instruction that ends a call which is not taken.
    """
    return f"""
{head}(ptr %self, ptr %args, i64 %count, ptr %keywords) {{
{FRAME}{BIND_INPUTS}
  %batch = call i64 @{batch_size}(ptr %table, ptr %objects, i64 %most)
{CHECK_INPUTS}{RESULTS}{RUN_LOOP}
no:
  {refused}
}}
"""


BIND = f"""
; Puts the arguments into slots: out, threads, inputs, and options that have chosen this function;
; None stands for what is absent.
define internal i1 @bind(ptr %names, ptr %table, ptr %args, i64 %count, ptr %keywords,
                         ptr %slots) {{
  {read(CallTable, "%table", "taken places")}
  need ule i64 %count, %taken
  %none = at {address("py_none")} 0
  each %c 0 %places
  put ptr %none %slots %c
  again %c
  call void @copy(ptr $(word %slots 2), ptr %args, i64 0, i64 %count)
  when eq ptr %keywords, null: yes
  %values = word %args %count
  %keys = at %keywords {PyTupleObject.OB_ITEM}
  %size = field i64 %keywords {PyTupleObject.OB_SIZE}
  %positional = add i64 %count, 2
  each %k 0 %size
  %slot = call i64 @find(ptr %names, ptr $(item ptr %keys %k))
  %option = icmp ult i64 %slot, 2
  %input = and i1 $(icmp ult i64 %slot, %places), $(icmp uge i64 %slot, %positional)
  need $(or i1 %option, %input)
  put ptr $(item ptr %values %k) %slots %slot
  again %k
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

; The number of an interned string in a tuple, -1 if it is not there.
define internal i64 @find(ptr %names, ptr %key) {{
  %size = field i64 %names {PyTupleObject.OB_SIZE}
  %list = at %names {PyTupleObject.OB_ITEM}
  each %n 0 %size
  when eq ptr $(item ptr %list %n), %key: found
  again %n
  ret i64 -1
found:
  ret i64 %n
}}

; Copies `count` words, from number `first` on.
define internal void @copy(ptr %to, ptr %from, i64 %first, i64 %count) {{
  each %k 0 %count
  put i64 $(item i64 %from $(add i64 %first, %k)) %to %k
  again %k
  ret void
}}
"""

RUN = f"""
; The threads that are asked for, 0 for None; -1 if the call is handed on.
define internal i64 @threads_asked(ptr %threads) {{
  return i64 0 when eq ptr %threads, {address("py_none")}
  return i64 1 when eq ptr %threads, {address("py_one")}
  need eq ptr $(field ptr %threads {PyArrayObject.ob_type.offset}), {address("int_type")}
  %value = call i64 {address("int_value")}(ptr %threads)
  return i64 %value when sgt i64 %value, 0
  call void {address("error_clear")}()
  br label %no
no:
  ret i64 -1
}}

; The states of the largest call that is not handed on: any number if there are workers to share it,
; or if one thread is asked for and there is a loop for several states.
define internal i64 @largest_batch(ptr %table, i64 %asked) {{
  %most = item i64 %table {field(CallTable, "most")}
  %alone = and i1 $(icmp eq i64 %asked, 1), $(icmp ugt i64 %most, 1)
  %any = select i1 %alone, i64 -1, i64 %most
  %bound = select i1 $(icmp ult i64 %asked, 2), i64 %any, i64 0
  %task = item ptr %table {field(CallTable, "task")}
  need ne ptr %task, null
  %workers = item i64 $(item ptr %task {field(SharedTask, "pool")}) {pool_word("size")}
  %wanted = call i64 @llvm.umax.i64(i64 %asked, i64 2)
  %staffed = icmp uge i64 $(add i64 %workers, 1), %wanted
  ret i64 $(select i1 %staffed, i64 -1, i64 %bound)
no:
  ret i64 %bound
}}

; The task for the thread pool, null for one thread. For several threads that are asked for it is a
; copy in %own that takes as many.
define internal ptr @task_of(ptr %table, i64 %asked, ptr %own) {{
  %task = item ptr %table {field(CallTable, "task")}
  %known = select i1 $(icmp eq i64 %asked, 1), ptr null, ptr %task
  %several = icmp ugt i64 %asked, 1
  when $(and i1 %several, $(icmp ne ptr %known, null)): copy, same
copy:
  call void @copy(ptr %own, ptr %task, i64 0, i64 {words(SharedTask)})
  put i64 1 %own {field(SharedTask, "each")}
  put i64 0 %own {field(SharedTask, "cold")}
  put i64 %asked %own {field(SharedTask, "threads")}
  ret ptr %own
same:
  ret ptr %known
}}

; Runs the loop for one state, or that for more, or shares the latter. A long call releases the
; interpreter's lock meanwhile, and a shared one too: a worker needs that lock to get memory while
; tracemalloc counts it, and the caller waits for the worker.
define internal void @run(ptr %table, i64 %batch, ptr %pointers, ptr %steps, ptr %shared) {{
  %states = alloca i64
  %several = icmp sgt i64 %batch, 1
  %count = select i1 %several, i64 %batch, i64 1
  put i64 %count %states 0
  {read(CallTable, "%table", "single:ptr loop:ptr share:ptr")}
  %task = select i1 %several, ptr %shared, ptr null
  %own = select i1 %several, ptr %loop, ptr %single
  %run = select i1 $(icmp eq ptr %task, null), ptr %own, ptr %share
  %long = icmp uge i64 %count, $(item i64 %table {field(CallTable, "unlocked")})
  %alone = icmp eq ptr %task, null
  %each = item i64 $(select i1 %alone, ptr %table, ptr %task) {field(SharedTask, "each")}
  %worth = icmp ugt i64 %count, %each
  %divided = select i1 %alone, i1 false, i1 %worth
  when $(or i1 %long, %divided): unlocked
  call void %run(ptr %pointers, ptr %states, ptr %steps, ptr %task)
  ret void
unlocked:
  %thread = call ptr {address("gil_release")}()
  call void %run(ptr %pointers, ptr %states, ptr %steps, ptr %task)
  call void {address("gil_take")}(ptr %thread)
  ret void
}}
"""

ANSWER = f"""
; What the call returns, as a new reference: an array, or all arrays in a tuple, which is `out` if
; that has the type. References to new arrays are handed over.
define internal ptr @answer(ptr %packed, ptr %arrays, i64 %count, ptr %out) {{
entry:
  %new = icmp eq ptr %out, {address("py_none")}
  %first = item ptr %arrays 0
  when eq i64 %count, 1: one, several
several:
  when eq ptr $(field ptr %out {PyArrayObject.ob_type.offset}), %packed: one, pack
one:
  %result = phi ptr [ %first, %entry ], [ %out, %several ]
  when %new: done
  call void {address("incref")}(ptr %result)
  br label %done
done:
  ret ptr %result
pack:
  %tuple = call ptr {address("object_new")}(ptr %packed, i64 %count)
  when ne ptr %tuple, null: fill, failed
fill:
  %hash = at %tuple {PyTupleObject.OB_HASH}
  call void @forget_hash(ptr %hash, i64 {(PyTupleObject.OB_ITEM - PyTupleObject.OB_HASH) // 8})
  %items = at %tuple {PyTupleObject.OB_ITEM}
  each %k 0 %count
  %array = item ptr %arrays %k
  put ptr %array %items %k
  when %new: kept
  call void {address("incref")}(ptr %array)
  br label %kept
kept:
  again %k
  ret ptr %tuple
failed:
  when %new: empty, no
empty:
  call void @release(ptr %arrays, i64 %count)
  br label %no
no:
  ret ptr null
}}

; From Python 3.14 on a tuple keeps its hash, which is -1 until it is computed.
define internal void @forget_hash(ptr %hash, i64 %count) {{
  each %k 0 %count
  put i64 -1 %hash %k
  again %k
  ret void
}}
"""


CALL = _front(
    "define ptr @call",
    "batch_size",
    "ret ptr $(call ptr @otherwise(ptr %self, ptr %args, i64 %count, ptr %keywords))",
)
ATTEMPT = f"""
; What @call returns; None for calls that it does not take. Any input says the number of states.
{_front("define internal ptr @attempt", "any_batch_size", f"ret ptr {address('py_none')}")}
"""
ENTRIES = ("call", "call_in_time", "choose", "call_with_wrenches")
PARTS = CALL, ATTEMPT, BIND, check_arrays.FUNCTIONS, RUN, ANSWER


def source() -> str:
    """The LLVM IR of the entry points."""
    files = numbers_as_arrays, time_steps, choices, wrenches_at_frames
    return expanded("".join([DECLARED, *PARTS, *(file.FUNCTIONS for file in files)]))
