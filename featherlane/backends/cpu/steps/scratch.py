"""Workspaces of step programs. Each begins with the program's constants and zeros, so each program
has a separate pool. A thread uses one workspace at a time, and then returns it to the pool.
"""

from __future__ import annotations

from featherlane.backends.cpu.loaded import LoopWords
from featherlane.backends.cpu.scratch import ALLOCATE, WAITING
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import field, words

KEPT = 16  # workspaces of a pool, one for each thread that may compute at once

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
    """@scratch_take takes a workspace from the pool, @scratch_give returns it, @forget frees all in
    the pool.
    """
    return expanded(FUNCTIONS)
