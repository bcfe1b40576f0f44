"""The slow way to and from lanes, for arrays whose rows are not contiguous."""

from __future__ import annotations

from featherlane.backends.cpu.graphs.transpose import MARK
from featherlane.backends.llvm.lower import Lanes

ARRAY = "ptr %rows, ptr %offsets, i64 %size1, i64 %size2, i64 %step1, i64 %step2"


def helpers(t: Lanes) -> str:
    """@offsets of the rows of a tile; @gather and @scatter, entry by entry."""
    return f"""
declare ptr @scratch_new(i64)
declare void @scratch_free(ptr)
{_offsets(t)}
define internal void @gather({ARRAY}, ptr noalias %lanes) noinline {{
{_each_entry(t, _gather(t))}
define internal void @scatter({ARRAY}, ptr noalias %lanes, ptr %table) noinline {{
{_each_entry(t, _scatter(t))}
"""


def _offsets(t: Lanes) -> str:
    return f"""define internal void @offsets(ptr %to, i64 %step, i64 %last) noinline {{
entry:
  br label %each
each:
  %r = phi i64 [ 0, %entry ], [ %r1, %each ]
  %small = icmp slt i64 %r, %last
  %row = select i1 %small, i64 %r, i64 %last
  %offset = mul i64 %row, %step
  %at = getelementptr inbounds i64, ptr %to, i64 %r
  store i64 %offset, ptr %at, align 8
  %r1 = add i64 %r, 1
  %more = icmp slt i64 %r1, {t.width}
  br i1 %more, label %each, label %done
done:
  ret void
}}"""


def _each_entry(t: Lanes, body: str) -> str:
    """The body for entry number %e, at %entry_at, of each row %r of a tile."""
    return f"""entry:
  br label %each_row
each_row:
  %r = phi i64 [ 0, %entry ], [ %r1, %next_row ]
  %offset_at = getelementptr inbounds i64, ptr %offsets, i64 %r
  %offset = load i64, ptr %offset_at, align 8
  %row = getelementptr inbounds i8, ptr %rows, i64 %offset
  br label %first
first:
  %i = phi i64 [ 0, %each_row ], [ %i1, %next_first ]
  %oi = mul i64 %i, %step1
  br label %second
second:
  %j = phi i64 [ 0, %first ], [ %j1, %second ]
  %oj = mul i64 %j, %step2
  %o = add i64 %oi, %oj
  %entry_at = getelementptr inbounds i8, ptr %row, i64 %o
  %ij = mul i64 %i, %size2
  %e = add i64 %ij, %j
  {body}
  %j1 = add i64 %j, 1
  %more2 = icmp slt i64 %j1, %size2
  br i1 %more2, label %second, label %next_first
next_first:
  %i1 = add i64 %i, 1
  %more1 = icmp slt i64 %i1, %size1
  br i1 %more1, label %first, label %next_row
next_row:
  %r1 = add i64 %r, 1
  %more = icmp slt i64 %r1, {t.width}
  br i1 %more, label %each_row, label %done
done:
  ret void
}}"""


def _gather(t: Lanes) -> str:
    align = t.dtype.itemsize
    return f"""%slot = mul i64 %e, {t.width}
  %lane = add i64 %slot, %r
  %to = getelementptr inbounds {t.scalar}, ptr %lanes, i64 %lane
  %x = load {t.scalar}, ptr %entry_at, align {align}
  store {t.scalar} %x, ptr %to, align {align}"""


def _scatter(t: Lanes) -> str:
    align = t.dtype.itemsize
    return f"""%table_at = getelementptr inbounds i32, ptr %table, i64 %e
  %marked = load i32, ptr %table_at, align 4
  %slot = and i32 %marked, {MARK - 1}
  %slot64 = zext i32 %slot to i64
  %vector = getelementptr inbounds i8, ptr %lanes, i64 %slot64
  %from = getelementptr inbounds {t.scalar}, ptr %vector, i64 %r
  %x = load {t.scalar}, ptr %from, align {align}
  store {t.scalar} %x, ptr %entry_at, align {align}"""
