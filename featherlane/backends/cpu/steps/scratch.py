"""Workspaces of programs of steps: each begins with the program's constants and zeros, so that a
program keeps its own. One thread at a time has one, and it waits for the next call.
"""

from __future__ import annotations

from featherlane.backends.cpu.loaded import LoopWords
from featherlane.backends.cpu.scratch import ALLOCATE, WAITING
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import field, words

KEPT = 16  # workspaces that wait for the next call, one for each thread at a time

FUNCTIONS = f"""
@work = global [{words(LoopWords)} x i64] zeroinitializer, align 8
@kept = internal global [{KEPT} x ptr] zeroinitializer, align 8
{ALLOCATE}{WAITING.format(waiting="@kept", first=0, places=KEPT)}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; A workspace that waits, or a new one; null if there is no memory.
define internal ptr @scratch_take() noinline {{
  %found = call ptr @scratch_found()
  return ptr %found when ne ptr %found, null
  %bytes = item i64 @work {field(LoopWords, "bytes")}
  %start = item ptr @work {field(LoopWords, "start")}
  %new = call ptr @scratch_aligned(i64 %bytes)
  return ptr null when eq ptr %new, null
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %start, i64 %bytes, i1 false)
  ret ptr %new
}}

; Frees the workspaces that wait.
define void @forget() {{
  repeat %k
  call void @scratch_drop(ptr $(call ptr @scratch_found()))
  again %k {KEPT}
  ret void
}}
"""


def functions() -> str:
    """@scratch_take gives a workspace that nobody else has, @scratch_give returns it, @forget frees
    all that wait.
    """
    return expanded(FUNCTIONS)
