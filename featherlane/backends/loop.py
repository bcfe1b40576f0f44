"""The inner loop of a generalised ufunc: rows of the user's arrays to lanes, one block of states,
lanes to rows.

A last block with fewer states repeats its last state in the lanes left over, so that nothing is
read or written out of bounds, no garbage raises a floating-point flag, and every state is computed
by the same instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from featherlane.backends.llvm import Lanes, vector_at
from featherlane.backends.tiles import tail, tile_name

ON_STACK = 1 << 19  # bytes of scratch; threads have a megabyte of stack at least
STREAM = 4 << 20  # bytes of a result above which its stores bypass the caches


class Array(NamedTuple):
    """An input or output array as the loop sees it: its core shape, and where its entries lie in
    the scratch.
    """

    name: str
    shape: tuple[int, ...]
    slots: tuple[int, ...]  # by entry, in vectors

    @property
    def size(self) -> int:
        return len(self.slots)


def helpers(t: Lanes) -> str:
    """Row offsets of a block, and the slow way for arrays whose rows are not contiguous."""
    move = f"""
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
  MOVE
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
    arguments = "ptr %rows, ptr %offsets, i64 %size1, i64 %size2, i64 %step1, i64 %step2"
    align = t.dtype.itemsize
    gather = f"""%slot = mul i64 %e, {t.width}
  %lane = add i64 %slot, %r
  %to = getelementptr inbounds {t.scalar}, ptr %lanes, i64 %lane
  %x = load {t.scalar}, ptr %entry_at, align {align}
  store {t.scalar} %x, ptr %to, align {align}"""
    scatter = f"""%table_at = getelementptr inbounds i32, ptr %table, i64 %e
  %slot = load i32, ptr %table_at, align 4
  %slot64 = zext i32 %slot to i64
  %vector = getelementptr inbounds i8, ptr %lanes, i64 %slot64
  %from = getelementptr inbounds {t.scalar}, ptr %vector, i64 %r
  %x = load {t.scalar}, ptr %from, align {align}
  store {t.scalar} %x, ptr %entry_at, align {align}"""
    return f"""
declare ptr @scratch_new(i64)
declare void @scratch_free(ptr)
define internal void @offsets(ptr %to, i64 %step, i64 %last) noinline {{
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
}}
define internal void @gather({arguments}, ptr noalias %lanes) noinline {{
entry:
  br label %each_row
each_row:{move.replace("MOVE", gather)}
define internal void @scatter({arguments}, ptr noalias %lanes, ptr %table) noinline {{
entry:
  br label %each_row
each_row:{move.replace("MOVE", scatter)}
"""


class Move(NamedTuple):
    """One array of the loop: its number among the arguments and where its core strides begin."""

    array: Array
    number: int
    first_stride: int
    output: bool


def moves_of(inputs: list[Array], outputs: list[Array]) -> list[Move]:
    stride, moves = len(inputs) + len(outputs), []
    for k, array in enumerate([*inputs, *outputs]):
        moves.append(Move(array, k, stride, k >= len(inputs)))
        stride += len(array.shape)
    return moves


def _prologue(t: Lanes, move: Move) -> list[str]:
    """Before the loop: base pointer, strides, and whether the entries of a row are contiguous."""
    n, shape = move.number, move.array.shape
    lines = [
        f"%a{n} = getelementptr inbounds ptr, ptr %args, i64 {n}",
        f"%base{n} = load ptr, ptr %a{n}, align 8",
        f"%s{n} = getelementptr inbounds i64, ptr %steps, i64 {n}",
        f"%step{n} = load i64, ptr %s{n}, align 8",
        f"%offsets{n} = alloca [{t.width} x i64], align 64",
        f"%jump{n} = mul i64 %step{n}, {t.width}",
    ]
    dense, expected = [], t.dtype.itemsize
    for axis in reversed(range(len(shape))):
        lines.append(
            f"%c{n}.{axis} = getelementptr inbounds i64, ptr %steps, i64 {move.first_stride + axis}"
        )
        lines.append(f"%core{n}.{axis} = load i64, ptr %c{n}.{axis}, align 8")
        lines.append(f"%is{n}.{axis} = icmp eq i64 %core{n}.{axis}, {expected}")
        dense.append(f"%is{n}.{axis}")
        expected *= shape[axis]
    known = "true"
    for k, test in enumerate(dense):
        lines.append(f"%dense{n}.{k} = and i1 {known}, {test}")
        known = f"%dense{n}.{k}"
    lines.append(f"%dense{n} = or i1 {known}, false")
    if move.output:  # results that the caches cannot hold go past them
        lines += [
            f"%address{n} = ptrtoint ptr %base{n} to i64",
            f"%bits{n} = or i64 %address{n}, %step{n}",
            f"%off{n} = and i64 %bits{n}, {t.bytes - 1}",
            f"%aligned{n} = icmp eq i64 %off{n}, 0",
            f"%total{n} = mul i64 %n, %step{n}",
            f"%large{n} = icmp sgt i64 %total{n}, {STREAM}",
            f"%stream{n} = and i1 %aligned{n}, %large{n}",
        ]
    return lines


def _transfer(t: Lanes, move: Move, lanes: str) -> list[str]:
    """Inside the loop: the rows of one array to or from its lanes."""
    n, array = move.number, move.array
    table = f"@table{n}" if move.output else "null"

    def tiles(way: str, columns: int, used: int, count: int, first: int) -> list[str]:
        at = f"{n}.{first}.{way}"
        lines = [f"%rows{at} = getelementptr inbounds {t.scalar}, ptr %row{n}, i64 {first}"]
        if move.output:
            given = f"ptr {lanes}, ptr %tab{at}"
            lines.append(f"%tab{at} = getelementptr inbounds i32, ptr {table}, i64 {first}")
        else:
            given = f"ptr %to{at}, ptr null"
            lines.append(vector_at(t, f"%to{at}", lanes, first))
        call = f"call void @{tile_name(way, columns, used)}"
        return [*lines, f"{call}(ptr %rows{at}, ptr %offsets{n}, {given}, i64 {count})"]

    lines = [f"br i1 %dense{n}, label %fast{n}, label %slow{n}", f"fast{n}:"]
    way, full = "out" if move.output else "in", array.size // t.width
    if full:
        whole = (t.width, t.width, full, 0)
        if move.output:
            lines += [
                f"br i1 %stream{n}, label %past{n}, label %through{n}",
                f"past{n}:",
                *tiles("stream", *whole),
            ]
            lines += [
                f"br label %tail{n}",
                f"through{n}:",
                *tiles(way, *whole),
                f"br label %tail{n}",
                f"tail{n}:",
            ]
        else:
            lines += tiles(way, *whole)
    if rest := tail(array.size, t.width):
        lines += tiles(way, *rest, 1, full * t.width)
    sizes = (1,) * (2 - len(array.shape)) + array.shape
    steps = [f"%core{n}.{axis}" for axis in range(len(array.shape))]
    steps = ["0"] * (2 - len(steps)) + steps
    rows = f"ptr %row{n}, ptr %offsets{n}, i64 {sizes[0]}, i64 {sizes[1]}"
    given = f"{rows}, i64 {steps[0]}, i64 {steps[1]}"
    slow = (
        f"@scatter({given}, ptr {lanes}, ptr {table})"
        if move.output
        else f"@gather({given}, ptr {lanes})"
    )
    return [
        *lines,
        f"br label %ready{n}",
        f"slow{n}:",
        f"call void {slow}",
        f"br label %ready{n}",
        f"ready{n}:",
    ]


def _scratch(t: Lanes, name: str, size: int) -> list[str]:
    """`size` vectors: on the stack, or for a robot of very many joints on the heap."""
    if size * t.bytes <= ON_STACK:
        return [f"%{name} = alloca [{max(size, 1)} x {t.vector}], align 64"]
    return [
        f"%{name}.raw = call ptr @scratch_new(i64 {size * t.bytes + 64})",
        f"%{name}.at = ptrtoint ptr %{name}.raw to i64",
        f"%{name}.up = add i64 %{name}.at, 63",
        f"%{name}.line = and i64 %{name}.up, -64",
        f"%{name} = inttoptr i64 %{name}.line to ptr",
    ]


def loop(t: Lanes, moves: Sequence[Move], size_in: int, size_out: int) -> list[str]:
    lines = ["define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {", "entry:"]
    lines += ["%n = load i64, ptr %dims, align 8"]
    lines += _scratch(t, "in", size_in) + _scratch(t, "out", size_out)
    for move in moves:
        lines += _prologue(t, move)
    lines += ["%any = icmp sgt i64 %n, 0", "br i1 %any, label %begin, label %end", "begin:"]
    lines += ["br label %block", "block:"]
    lines += ["%b = phi i64 [ 0, %begin ], [ %b1, %after ]"]
    for move in moves:
        k = move.number
        lines.append(f"%row{k} = phi ptr [ %base{k}, %begin ], [ %nextrow{k}, %after ]")
    lines += ["%left = sub i64 %n, %b", f"%partial = icmp slt i64 %left, {t.width}"]
    lines += ["%first = icmp eq i64 %b, 0", "%measure = or i1 %partial, %first"]
    lines += ["br i1 %measure, label %rows, label %go", "rows:"]
    lines += [f"%count = select i1 %partial, i64 %left, i64 {t.width}", "%last = sub i64 %count, 1"]
    for move in moves:
        k = move.number
        lines.append(f"call void @offsets(ptr %offsets{k}, i64 %step{k}, i64 %last)")
    lines += ["br label %go", "go:"]
    for move in moves:
        if not move.output and move.array.size:
            lines.append(vector_at(t, f"%lanes{move.number}", "%in", move.array.slots[0]))
            lines += _transfer(t, move, f"%lanes{move.number}")
    lines.append("call void @compute(ptr %in, ptr %out)")
    for move in moves:
        if move.output:
            lines += _transfer(t, move, "%out")
    lines += ["br label %after", "after:", f"%b1 = add i64 %b, {t.width}"]
    for move in moves:
        k = move.number
        lines.append(f"%nextrow{k} = getelementptr inbounds i8, ptr %row{k}, i64 %jump{k}")
    lines += [
        "%more = icmp slt i64 %b1, %n",
        "br i1 %more, label %block, label %end",
        "end:",
    ]
    for name, size in (("in", size_in), ("out", size_out)):
        if size * t.bytes > ON_STACK:
            lines.append(f"call void @scratch_free(ptr %{name}.raw)")
    return [*lines, "ret void", "}"]


def tables(t: Lanes, outputs: list[Array], first: int) -> list[str]:
    lines = []
    for k, array in enumerate(outputs):
        entries = ", ".join(f"i32 {slot * t.bytes}" for slot in array.slots)
        lines.append(
            f"@table{first + k} = private constant [{array.size} x i32] [{entries}], align 4"
        )
    return lines
