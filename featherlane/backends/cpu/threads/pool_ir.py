"""A team of threads in machine code: one who calls, and workers who come to help.

A call's states are claimed in parts, by whoever is there: nobody waits for a thread that comes
late, and large parts go first, so that all end at nearly the same time. Workers never return to
Python: between calls they watch for the next one for a short time and then sleep, each on a lock
of its own. Only one call at a time has the team; others do their work alone.

The gate is one word: how many workers may still enter, and below it how many are inside. The call
is over when it has closed the gate and nobody is inside.
"""

from __future__ import annotations

import re

from featherlane.backends.llvm import targets
from featherlane.backends.llvm.macros import expanded

WORDS_OF_LINE = 8
WAITING = 1 << 31  # in the gate: the caller sleeps until the last worker has left
INSIDE = WAITING - 1
SHARE = 4  # each part is that fraction of what would be left for each thread
SHORTEST = 4  # of the time that a worker watches after a call for which it has watched, the part
# that it watches after others


class Word:
    """Words of a team's memory. What is written often has a line of its own."""

    GATE, BUSY, NEXT, CLAIMED = (WORDS_OF_LINE * k for k in range(4))
    SIZE = WORDS_OF_LINE * 4  # workers
    STOP, SPINS, DONE, ACQUIRE, RELEASE = range(SIZE + 1, SIZE + 6)
    TASK = WORDS_OF_LINE * 5
    ARGS, DIMS, STEPS, THREADS = range(TASK + 1, TASK + 5)
    WORKERS = WORDS_OF_LINE * 6


class Worker:
    """Words of a worker, one line each: whether it sleeps, on which lock, and for how many pauses
    it watches before.
    """

    ASLEEP, LOCK, WATCH = range(3)


class Task:
    """Words of what is shared: a loop, the number of its arrays, the team, the states of a vector
    and of the smallest part, of which others are multiples, those that make a thread worth its
    while, those from which on workers are woken, and the threads at most.
    """

    LOOP, ARRAYS, TEAM, WIDTH, PART, EACH, COLD, THREADS, SIZE = range(9)


def memory(workers: int) -> int:
    """The words of a team with so many workers at most."""
    return Word.WORKERS + WORDS_OF_LINE * workers


SHARED = f"""
; As a loop, with a task as its data: with the team if that is worth it and free, else alone.
define void @share(ptr %args, ptr %dims, ptr %steps, ptr %task) {{
entry:
  %team = item ptr %task {Task.TEAM}
  %states = item i64 %dims 0
  %threads = call i64 @wanted(ptr %team, ptr %task, i64 %states)
  %several = icmp ugt i64 %threads, 1
  need %several
  %busy = getelementptr inbounds i64, ptr %team, i64 {Word.BUSY}
  %taken = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  %ours = extractvalue {{ i64, i1 }} %taken, 1
  need %ours
  put ptr %task %team {Word.TASK}
  put ptr %args %team {Word.ARGS}
  put ptr %dims %team {Word.DIMS}
  put ptr %steps %team {Word.STEPS}
  put i64 %threads %team {Word.THREADS}
  put i64 0 %team {Word.NEXT}
  put i64 0 %team {Word.CLAIMED}
  %places = sub i64 %threads, 1
  %open = shl i64 %places, 32
  store atomic i64 %open, ptr %team seq_cst, align 8
  call void @work(ptr %team)
  call void @finish(ptr %team)
  store atomic i64 0, ptr %busy release, align 8
  ret void
no:
  %loop = item ptr %task {Task.LOOP}
  call void %loop(ptr %args, ptr %dims, ptr %steps, ptr null)
  ret void
}}

; The threads for so many states.
define internal i64 @wanted(ptr %team, ptr %task, i64 %states) {{
entry:
  %worker = getelementptr inbounds i64, ptr %team, i64 {Word.WORKERS}
  %asleep = load atomic i64, ptr %worker monotonic, align 8
  %sleeps = icmp ne i64 %asleep, 0
  %cold = item i64 %task {Task.COLD}
  %few = icmp ult i64 %states, %cold
  %leave = and i1 %sleeps, %few
  br i1 %leave, label %alone, label %count
count:
  %each = item i64 %task {Task.EACH}
  %rest = sub i64 %each, 1
  %up = add i64 %states, %rest
  %worth = udiv i64 %up, %each
  %most = item i64 %task {Task.THREADS}
  %size = item i64 %team {Word.SIZE}
  %all = add i64 %size, 1
  %bounded = call i64 @llvm.umin.i64(i64 %worth, i64 %most)
  %threads = call i64 @llvm.umin.i64(i64 %bounded, i64 %all)
  ret i64 %threads
alone:
  ret i64 1
}}

; Nobody may enter any more; until all have left.
define internal void @finish(ptr %team) {{
entry:
  %closed = atomicrmw and ptr %team, i64 {INSIDE} acq_rel
  %spins = item i64 %team {Word.SPINS}
  each %k 0 %spins
  %now = load atomic i64, ptr %team acquire, align 8
  %gone = icmp eq i64 %now, 0
  br i1 %gone, label %over, label %wait
wait:
  PAUSE
  again %k
  %before = atomicrmw or ptr %team, i64 {WAITING} acq_rel
  %empty = icmp eq i64 %before, 0
  br i1 %empty, label %reset, label %sleep
sleep:
  %done = item ptr %team {Word.DONE}
  %acquire = item ptr %team {Word.ACQUIRE}
  %got = call i32 %acquire(ptr %done, i32 1)
  br label %reset
reset:
  store atomic i64 0, ptr %team release, align 8
  br label %over
over:
  ret void
}}
"""

WORK = f"""
; Parts of the states, as long as there are some.
define internal void @work(ptr %team) {{
entry:
  %task = item ptr %team {Word.TASK}
  %given = item ptr %team {Word.ARGS}
  %dims = item ptr %team {Word.DIMS}
  %steps = item ptr %team {Word.STEPS}
  %loop = item ptr %task {Task.LOOP}
  %arrays = item i64 %task {Task.ARRAYS}
  %states = item i64 %dims 0
  %args = alloca ptr, i64 %arrays
  %count = alloca i64
  br label %part
part:
  call void @wake(ptr %team)
  %first = call i64 @claim(ptr %team, ptr %task, i64 %states, ptr %count)
  %some = icmp ult i64 %first, %states
  need %some
  each %k 0 %arrays
  %base = item ptr %given %k
  %step = item i64 %steps %k
  %far = mul i64 %first, %step
  %at = getelementptr inbounds i8, ptr %base, i64 %far
  put ptr %at %args %k
  again %k
  call void %loop(ptr %args, ptr %count, ptr %steps, ptr %dims)
  br label %part
no:
  ret void
}}

; The states of the smallest part: there is one for each thread.
define internal i64 @least(ptr %task, i64 %threads, i64 %states) {{
  %part = item i64 %task {Task.PART}
  %width = item i64 %task {Task.WIDTH}
  %all = mul i64 %threads, %width
  %more = add i64 %states, %all
  %up = sub i64 %more, 1
  %vectors = udiv i64 %up, %all
  %fair = mul i64 %vectors, %width
  %least = call i64 @llvm.umin.i64(i64 %part, i64 %fair)
  ret i64 %least
}}

; The first state of a part of %count, or one behind the last.
define internal i64 @claim(ptr %team, ptr %task, i64 %states, ptr %count) {{
entry:
  %at = getelementptr inbounds i64, ptr %team, i64 {Word.CLAIMED}
  %threads = item i64 %team {Word.THREADS}
  %least = call i64 @least(ptr %task, i64 %threads, i64 %states)
  %shares = mul i64 %threads, {SHARE}
  %unit = mul i64 %shares, %least
  br label %try
try:
  %first = load atomic i64, ptr %at monotonic, align 8
  %some = icmp ult i64 %first, %states
  need %some
  %left = sub i64 %states, %first
  %units = udiv i64 %left, %unit
  %parts = call i64 @llvm.umax.i64(i64 %units, i64 1)
  %size = mul i64 %parts, %least
  %taken = call i64 @llvm.umin.i64(i64 %size, i64 %left)
  %next = add i64 %first, %taken
  %claim = cmpxchg ptr %at, i64 %first, i64 %next monotonic monotonic
  %ours = extractvalue {{ i64, i1 }} %claim, 1
  br i1 %ours, label %done, label %try
done:
  put i64 %taken %count 0
  ret i64 %first
no:
  ret i64 %states
}}

; The next worker that is wanted and sleeps.
define internal void @wake(ptr %team) {{
entry:
  %at = getelementptr inbounds i64, ptr %team, i64 {Word.NEXT}
  %threads = item i64 %team {Word.THREADS}
  %wanted = sub i64 %threads, 1
  br label %next
next:
  %called = load atomic i64, ptr %at monotonic, align 8
  %any = icmp ult i64 %called, %wanted
  need %any
  %k = atomicrmw add ptr %at, i64 1 monotonic
  %exists = icmp ult i64 %k, %wanted
  need %exists
  %worker = call ptr @worker(ptr %team, i64 %k)
  %asleep = load atomic i64, ptr %worker seq_cst, align 8
  %sleeps = icmp ne i64 %asleep, 0
  br i1 %sleeps, label %call, label %next
call:
  %awake = call i1 @rouse(ptr %worker)
  br i1 %awake, label %ring, label %next
ring:
  %lock = item ptr %worker {Worker.LOCK}
  %release = item ptr %team {Word.RELEASE}
  call void %release(ptr %lock)
  br label %no
no:
  ret void
}}

; Whether it was us who ended its sleep.
define internal i1 @rouse(ptr %worker) {{
  %was = cmpxchg ptr %worker, i64 1, i64 0 seq_cst seq_cst
  %ours = extractvalue {{ i64, i1 }} %was, 1
  ret i1 %ours
}}

define internal ptr @worker(ptr %team, i64 %k) {{
  %line = mul i64 %k, {WORDS_OF_LINE}
  %word = add i64 %line, {Word.WORKERS}
  %worker = getelementptr inbounds i64, ptr %team, i64 %word
  ret ptr %worker
}}
"""

SERVE = f"""
; The life of a worker, until the team stops.
define void @serve(ptr %team, i64 %k) {{
entry:
  %worker = call ptr @worker(ptr %team, i64 %k)
  %longest = item i64 %worker {Worker.WATCH}
  %shortest = udiv i64 %longest, {SHORTEST}
  %stop = getelementptr inbounds i64, ptr %team, i64 {Word.STOP}
  br label %watch
watch:
  %pauses = phi i64 [ %longest, %entry ], [ %longest, %help ],
                    [ %fewer, %called ], [ %fewer, %late ]
  %entered = call i1 @enter(ptr %team, i64 %pauses)
  br i1 %entered, label %help, label %tired
help:
  call void @work(ptr %team)
  call void @leave(ptr %team)
  br label %watch
tired:
  %half = lshr i64 %pauses, 1
  %fewer = call i64 @llvm.umax.i64(i64 %half, i64 %shortest)
  call void @sleep(ptr %team, ptr %worker)
  %told = load atomic i64, ptr %stop acquire, align 8
  %goes_on = icmp eq i64 %told, 0
  br i1 %goes_on, label %late, label %end
late:
  %in_time = call i1 @enter(ptr %team, i64 0)
  br i1 %in_time, label %called, label %watch
called:
  call void @work(ptr %team)
  call void @leave(ptr %team)
  br label %watch
end:
  ret void
}}

; Through the gate if it opens within so many pauses.
define internal i1 @enter(ptr %team, i64 %pauses) {{
entry:
  br label %watch
watch:
  %k = phi i64 [ 0, %entry ], [ %k1, %wait ]
  %gate = load atomic i64, ptr %team monotonic, align 8
  %open = icmp ugt i64 %gate, {(1 << 32) - 1}
  br i1 %open, label %try, label %closed
try:
  %inside = sub i64 %gate, {(1 << 32) - 1}
  %passed = cmpxchg ptr %team, i64 %gate, i64 %inside acq_rel monotonic
  %ours = extractvalue {{ i64, i1 }} %passed, 1
  br i1 %ours, label %yes, label %closed
closed:
  %k1 = add i64 %k, 1
  %more = icmp ule i64 %k1, %pauses
  need %more
  br label %wait
wait:
  PAUSE
  br label %watch
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal void @leave(ptr %team) {{
entry:
  %before = atomicrmw sub ptr %team, i64 1 acq_rel
  %last = icmp eq i64 %before, {WAITING + 1}
  need %last
  %done = item ptr %team {Word.DONE}
  %release = item ptr %team {Word.RELEASE}
  call void %release(ptr %done)
  br label %no
no:
  ret void
}}

; Until it is called, if the gate has not been opened just now.
define internal void @sleep(ptr %team, ptr %worker) {{
entry:
  store atomic i64 1, ptr %worker seq_cst, align 8
  %gate = load atomic i64, ptr %team seq_cst, align 8
  %stop = getelementptr inbounds i64, ptr %team, i64 {Word.STOP}
  %told = load atomic i64, ptr %stop seq_cst, align 8
  %open = icmp ugt i64 %gate, {(1 << 32) - 1}
  %ends = icmp ne i64 %told, 0
  %up = or i1 %open, %ends
  br i1 %up, label %stay, label %lie
stay:
  %awake = call i1 @rouse(ptr %worker)
  br i1 %awake, label %end, label %lie
lie:
  %lock = item ptr %worker {Worker.LOCK}
  %acquire = item ptr %team {Word.ACQUIRE}
  %got = call i32 %acquire(ptr %lock, i32 1)
  br label %end
end:
  ret void
}}

; Ends the service of all workers.
define void @dismiss(ptr %team) {{
entry:
  %stop = getelementptr inbounds i64, ptr %team, i64 {Word.STOP}
  store atomic i64 1, ptr %stop seq_cst, align 8
  %size = item i64 %team {Word.SIZE}
  each %k 0 %size
  %worker = call ptr @worker(ptr %team, i64 %k)
  %slept = call i1 @rouse(ptr %worker)
  br i1 %slept, label %ring, label %rung
ring:
  %lock = item ptr %worker {Worker.LOCK}
  %release = item ptr %team {Word.RELEASE}
  call void %release(ptr %lock)
  br label %rung
rung:
  again %k
  ret void
}}

; So many pauses, to find out how long one is.
define void @pauses(i64 %count) {{
entry:
  each %k 0 %count
  PAUSE
  again %k
  ret void
}}
"""

DECLARED = """
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""


def source() -> str:
    """The LLVM IR of @share, @serve, @dismiss and @pauses."""
    text = "".join([DECLARED, SHARED, WORK, SERVE])
    name, given = ("x86.sse2.pause", "") if targets.host().x86 else ("aarch64.hint", "i32 1")
    kind = given.split(" ")[0]
    pause = f"call void @llvm.{name}({given})"
    return expanded(f"declare void @llvm.{name}({kind})\n" + re.sub(r"\bPAUSE\b", pause, text))
