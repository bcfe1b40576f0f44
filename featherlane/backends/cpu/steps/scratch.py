"""Workspaces of programs of steps: each begins with the program's constants and zeros, so that a
program keeps its own. One thread at a time has one, and it waits for the next call.
"""

from __future__ import annotations

from featherlane.backends.cpu.loaded import LoopWords
from featherlane.backends.cpu.scratch import ALLOCATE
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import field, words

KEPT = 16  # workspaces that wait for the next call, one for each thread at a time

# Looks for a workspace that waits; `again` at the label `next` closes the loop
FIND = """
  repeat %k
  %place = word @kept %k
  %found = atomicrmw xchg ptr %place, ptr null acq_rel
  when eq ptr %found, null: next, have
have:"""

FUNCTIONS = f"""
@work = global [{words(LoopWords)} x i64] zeroinitializer, align 8
@kept = internal global [{KEPT} x ptr] zeroinitializer, align 8
{ALLOCATE}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; A workspace that waits, or a new one; null if there is no memory.
define internal ptr @take() noinline {{{FIND}
  ret ptr %found
next:
  again %k {KEPT}
  %bytes = item i64 @work {field(LoopWords, "bytes")}
  %start = item ptr @work {field(LoopWords, "start")}
  %new = call ptr @scratch_aligned(i64 %bytes)
  return ptr null when eq ptr %new, null
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %start, i64 %bytes, i1 false)
  ret ptr %new
}}

; Puts a workspace into the first free place, or gives it back to the system.
define internal void @give(ptr %workspace) noinline {{
  repeat %k
  %place = word @kept %k
  %pair = cmpxchg ptr %place, ptr null, ptr %workspace acq_rel monotonic
  when $(extractvalue {{ ptr, i1 }} %pair, 1): kept, next
kept:
  ret void
next:
  again %k {KEPT}
  call void @scratch_drop(ptr %workspace)
  ret void
}}

; Frees the workspaces that wait.
define void @forget() {{{FIND}
  call void @scratch_drop(ptr %found)
  br label %next
next:
  again %k {KEPT}
  ret void
}}
"""


def functions() -> str:
    """@take gives a workspace that nobody else has, @give returns it, @forget frees all."""
    return expanded(FUNCTIONS)
