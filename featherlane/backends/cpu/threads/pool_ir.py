"""The thread pool in machine code: a caller shares the states of a call with workers.

Threads claim parts of the states from a counter, large parts first, so that all end at nearly the
same time and nobody waits for a late thread. Workers never return to Python: between calls they
spin for a short time, watching for the next call, and then sleep, each on a separate lock. One call
at a time uses the pool; a call that finds it busy runs in the calling thread alone. Measurements
are in docs/performance.md, "Two threads".

The gate is one word: the number of workers that may still enter (upper half), and the number of
workers inside (lower half). The call is over when its caller has closed the gate and nobody is
inside.
"""

from __future__ import annotations

from collections import namedtuple

from featherlane.backends.cpu.strides import LINE
from featherlane.backends.llvm import targets
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import field, read

LINE_WORDS = LINE // 8
WAITING = 1 << 31  # a bit of the gate: the caller sleeps until the last worker has left
INSIDE = WAITING - 1  # the bits of the gate that count the workers inside
CLOSED = (1 << 32) - 1  # gates above this value are open
PART_SHARE = 4  # a part is 1 / PART_SHARE of the remaining states of each thread
# A worker that had to be woken watches half as long afterwards, down to 1 / LEAST_WATCH of the
# longest time (docs/choices.md, "How threads share a call")
LEAST_WATCH = 4

# The words of a pool's memory, by cache line: a word that is written often has a separate line
_LINES = (
    ("gate",),
    ("busy",),
    ("next",),  # the number of the worker that is woken next
    ("claimed",),  # the states that have been claimed
    ("size", "stop", "spins", "done", "acquire", "release"),  # workers; locks and their functions
    ("task", "args", "dims", "steps", "threads"),  # of the call that has the pool
)
WORKERS = LINE_WORDS * len(_LINES)  # the offset of the lines of the workers


def pool_word(name: str) -> int:
    """The number of a word in a pool's memory."""
    ((line, names),) = [(k, names) for k, names in enumerate(_LINES) if name in names]
    return LINE_WORDS * line + names.index(name)


# The line of a worker: whether it sleeps, its lock, and the pauses for which it watches before
WorkerWords = namedtuple("WorkerWords", "asleep lock watch")
# An inner loop with so many arrays, which a pool shares: the states of a vector; of the smallest
# part, of which other parts are multiples; the fewest states that are worth a thread; the fewest
# states for which sleeping workers are woken; and the most threads that take part
SharedTask = namedtuple("SharedTask", "loop arrays pool width part each cold threads")


def memory(workers: int) -> int:
    """The words of a pool of at most so many workers."""
    return WORKERS + LINE_WORDS * workers


RING = f"""
  %release = item ptr %pool {pool_word("release")}
  call void %release(ptr $(item ptr %worker {field(WorkerWords, "lock")}))"""


SHARE = f"""
; An inner loop whose data is a SharedTask: runs it with the pool if that pays and the pool is free,
; else in this thread.
define void @share(ptr %args, ptr %dims, ptr %steps, ptr %task) {{
  %pool = item ptr %task {field(SharedTask, "pool")}
  %states = item i64 %dims 0
  %threads = call i64 @wanted(ptr %pool, ptr %task, i64 %states)
  need ugt i64 %threads, 1
  %busy = word %pool {pool_word("busy")}
  %taken = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  need $(extractvalue {{ i64, i1 }} %taken, 1)
  put ptr %task %pool {pool_word("task")}
  put ptr %args %pool {pool_word("args")}
  put ptr %dims %pool {pool_word("dims")}
  put ptr %steps %pool {pool_word("steps")}
  put i64 %threads %pool {pool_word("threads")}
  put i64 0 %pool {pool_word("next")}
  put i64 0 %pool {pool_word("claimed")}
  store atomic i64 $(shl i64 $(sub i64 %threads, 1), 32), ptr %pool seq_cst, align 8
  call void @work(ptr %pool)
  call void @finish(ptr %pool)
  store atomic i64 0, ptr %busy release, align 8
  ret void
no:
  %loop = item ptr %task {field(SharedTask, "loop")}
  call void %loop(ptr %args, ptr %dims, ptr %steps, ptr null)
  ret void
}}
"""


WANTED = f"""
; The threads for so many states: 1 if the first worker sleeps and few states do not pay for waking.
define internal i64 @wanted(ptr %pool, ptr %task, i64 %states) {{
  %asleep = load atomic i64, ptr $(word %pool {WORKERS}) monotonic, align 8
  %few = icmp ult i64 %states, $(item i64 %task {field(SharedTask, "cold")})
  when $(and i1 $(icmp ne i64 %asleep, 0), %few): alone
  %each = item i64 %task {field(SharedTask, "each")}
  %worth = udiv i64 $(add i64 %states, $(sub i64 %each, 1)), %each
  %most = item i64 %task {field(SharedTask, "threads")}
  %all = add i64 $(item i64 %pool {pool_word("size")}), 1
  %bounded = call i64 @llvm.umin.i64(i64 %worth, i64 %most)
  ret i64 $(call i64 @llvm.umin.i64(i64 %bounded, i64 %all))
alone:
  ret i64 1
}}
"""


def _finish(pause: str) -> str:
    """The end of a shared call. pause: an instruction for loops that spin."""
    return f"""
; Closes the gate and waits until all workers have left: spins, then sleeps.
define internal void @finish(ptr %pool) {{
  %closed = atomicrmw and ptr %pool, i64 {INSIDE} acq_rel
  %spins = item i64 %pool {pool_word("spins")}
  each %k 0 %spins
  when eq i64 $(load atomic i64, ptr %pool acquire, align 8), 0: over
  {pause}
  again %k
  %before = atomicrmw or ptr %pool, i64 {WAITING} acq_rel
  when eq i64 %before, 0: reset
  %done = item ptr %pool {pool_word("done")}
  %acquire = item ptr %pool {pool_word("acquire")}
  %got = call i32 %acquire(ptr %done, i32 1)
  br label %reset
reset:
  store atomic i64 0, ptr %pool release, align 8
  br label %over
over:
  ret void
}}
"""


WORK = f"""
; Claims parts of the states and runs the loop on them, until none is left.
define internal void @work(ptr %pool) {{
  %task = item ptr %pool {pool_word("task")}
  %whole = item ptr %pool {pool_word("args")}
  %dims = item ptr %pool {pool_word("dims")}
  %steps = item ptr %pool {pool_word("steps")}
  %loop = item ptr %task {field(SharedTask, "loop")}
  %arrays = item i64 %task {field(SharedTask, "arrays")}
  %states = item i64 %dims 0
  %args = alloca ptr, i64 %arrays
  %count = alloca i64
  br label %part
part:
  call void @wake(ptr %pool)
  %first = call i64 @claim(ptr %pool, ptr %task, i64 %states, ptr %count)
  need ult i64 %first, %states
  each %k 0 %arrays
  %base = item ptr %whole %k
  put ptr $(at %base $(mul i64 %first, $(item i64 %steps %k))) %args %k
  again %k
  call void %loop(ptr %args, ptr %count, ptr %steps, ptr %dims)
  br label %part
no:
  ret void
}}

; The states of the smallest part: the task's, or fewer so that each thread gets one.
define internal i64 @least(ptr %task, i64 %threads, i64 %states) {{
  {read(SharedTask, "%task", "part width")}
  %all = mul i64 %threads, %width
  %vectors = udiv i64 $(sub i64 $(add i64 %states, %all), 1), %all
  ret i64 $(call i64 @llvm.umin.i64(i64 %part, i64 $(mul i64 %vectors, %width)))
}}

; Claims a part: its first state, its states in %count. Behind the last state if none is left.
define internal i64 @claim(ptr %pool, ptr %task, i64 %states, ptr %count) {{
  %at = word %pool {pool_word("claimed")}
  %threads = item i64 %pool {pool_word("threads")}
  %least = call i64 @least(ptr %task, i64 %threads, i64 %states)
  %unit = mul i64 $(mul i64 %threads, {PART_SHARE}), %least
  br label %try
try:
  %first = load atomic i64, ptr %at monotonic, align 8
  need ult i64 %first, %states
  %left = sub i64 %states, %first
  %parts = call i64 @llvm.umax.i64(i64 $(udiv i64 %left, %unit), i64 1)
  %taken = call i64 @llvm.umin.i64(i64 $(mul i64 %parts, %least), i64 %left)
  %claim = cmpxchg ptr %at, i64 %first, i64 $(add i64 %first, %taken) monotonic monotonic
  when $(extractvalue {{ i64, i1 }} %claim, 1): done, try
done:
  put i64 %taken %count 0
  ret i64 %first
no:
  ret i64 %states
}}

; Wakes the next worker that is wanted and sleeps.
define internal void @wake(ptr %pool) {{
  %at = word %pool {pool_word("next")}
  %wanted = sub i64 $(item i64 %pool {pool_word("threads")}), 1
  br label %next
next:
  need ult i64 $(load atomic i64, ptr %at monotonic, align 8), %wanted
  %k = atomicrmw add ptr %at, i64 1 monotonic
  need ult i64 %k, %wanted
  %worker = call ptr @worker(ptr %pool, i64 %k)
  when ne i64 $(load atomic i64, ptr %worker seq_cst, align 8), 0: call, next
call:
  when $(call i1 @rouse(ptr %worker)): ring, next
ring:{RING}
  br label %no
no:
  ret void
}}

; Marks a worker as awake; whether it was this thread that did so.
define internal i1 @rouse(ptr %worker) {{
  %was = cmpxchg ptr %worker, i64 1, i64 0 seq_cst seq_cst
  ret i1 $(extractvalue {{ i64, i1 }} %was, 1)
}}

; The words of worker k.
define internal ptr @worker(ptr %pool, i64 %k) {{
  ret ptr $(word %pool $(add i64 $(mul i64 %k, {LINE_WORDS}), {WORKERS}))
}}
"""


SERVE = f"""
; The life of worker k, until the pool stops.
define void @serve(ptr %pool, i64 %k) {{
entry:
  %worker = call ptr @worker(ptr %pool, i64 %k)
  %longest = item i64 %worker {field(WorkerWords, "watch")}
  %shortest = udiv i64 %longest, {LEAST_WATCH}
  %stop = word %pool {pool_word("stop")}
  br label %watch
watch:
  %pauses = phi i64 [ %longest, %entry ], [ %longest, %help ],
                    [ %fewer, %called ], [ %fewer, %late ]
  when $(call i1 @enter(ptr %pool, i64 %pauses)): help, tired
help:
  call void @work(ptr %pool)
  call void @leave(ptr %pool)
  br label %watch
tired:
  %fewer = call i64 @llvm.umax.i64(i64 $(lshr i64 %pauses, 1), i64 %shortest)
  call void @sleep(ptr %pool, ptr %worker)
  when eq i64 $(load atomic i64, ptr %stop acquire, align 8), 0: late, end
late:
  when $(call i1 @enter(ptr %pool, i64 0)): called, watch
called:
  call void @work(ptr %pool)
  call void @leave(ptr %pool)
  br label %watch
end:
  ret void
}}
"""


def _enter(pause: str) -> str:
    """The gate for workers. pause: as of `_finish`."""
    return f"""
; Enters through the gate if it opens within so many pauses.
define internal i1 @enter(ptr %pool, i64 %pauses) {{
entry:
  br label %watch
watch:
  %k = phi i64 [ 0, %entry ], [ %k1, %wait ]
  %gate = load atomic i64, ptr %pool monotonic, align 8
  when ugt i64 %gate, {CLOSED}: try, closed
try:
  %passed = cmpxchg ptr %pool, i64 %gate, i64 $(sub i64 %gate, {CLOSED}) acq_rel monotonic
  when $(extractvalue {{ i64, i1 }} %passed, 1): yes, closed
closed:
  %k1 = add i64 %k, 1
  need ule i64 %k1, %pauses
  br label %wait
wait:
  {pause}
  br label %watch
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


LEAVE = f"""
; Leaves; the last worker wakes a caller that waits for it.
define internal void @leave(ptr %pool) {{
  %before = atomicrmw sub ptr %pool, i64 1 acq_rel
  need eq i64 %before, {WAITING + 1}
  %done = item ptr %pool {pool_word("done")}
  %release = item ptr %pool {pool_word("release")}
  call void %release(ptr %done)
  br label %no
no:
  ret void
}}
"""


SLEEP = f"""
; Sleeps until it is woken, unless the gate has just opened or the pool has stopped.
define internal void @sleep(ptr %pool, ptr %worker) {{
  store atomic i64 1, ptr %worker seq_cst, align 8
  %gate = load atomic i64, ptr %pool seq_cst, align 8
  %stop = word %pool {pool_word("stop")}
  %stopped = load atomic i64, ptr %stop seq_cst, align 8
  when $(or i1 $(icmp ugt i64 %gate, {CLOSED}), $(icmp ne i64 %stopped, 0)): stay, lie
stay:
  when $(call i1 @rouse(ptr %worker)): end, lie
lie:
  %lock = item ptr %worker {field(WorkerWords, "lock")}
  %acquire = item ptr %pool {pool_word("acquire")}
  %got = call i32 %acquire(ptr %lock, i32 1)
  br label %end
end:
  ret void
}}
"""


DISMISS = f"""
; Ends the service of all workers.
define void @dismiss(ptr %pool) {{
  store atomic i64 1, ptr $(word %pool {pool_word("stop")}) seq_cst, align 8
  %size = item i64 %pool {pool_word("size")}
  each %k 0 %size
  %worker = call ptr @worker(ptr %pool, i64 %k)
  when $(call i1 @rouse(ptr %worker)): ring, rung
ring:{RING}
  br label %rung
rung:
  again %k
  ret void
}}
"""


def _pauses(pause: str) -> str:
    """The function that measures how long a pause is."""
    return f"""
; Pauses so many times, which tells how long a pause is.
define void @pauses(i64 %count) {{
  each %k 0 %count
  {pause}
  again %k
  ret void
}}
"""


def _workers_side(pause: str) -> str:
    """The functions that workers run. pause: as of `_finish`."""
    return "".join([SERVE, _enter(pause), LEAVE, SLEEP, DISMISS, _pauses(pause)])


DECLARED = """
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""
X86_PAUSE = "\ndeclare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
ARM_PAUSE = "\ndeclare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
# By the architecture in LLVM's names; others spin without
PAUSES = {"x86_64": X86_PAUSE, "amd64": X86_PAUSE, "aarch64": ARM_PAUSE, "arm64": ARM_PAUSE}


def source() -> str:
    """The LLVM IR of @share, @serve, @dismiss and @pauses."""
    declared, pause = PAUSES.get(targets.host().triple.split("-")[0], ("", ""))
    return expanded(
        declared + DECLARED + SHARE + WANTED + _finish(pause) + WORK + _workers_side(pause)
    )
