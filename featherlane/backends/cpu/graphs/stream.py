"""Results that the caches cannot hold go past them: whole lines of memory, by stores that neither
read a line nor keep it.

Where rows are aligned to whole vectors, tiles are written so directly. Others are put together in a
stage, memory of our own that stays in the first cache, and go from there in lines, wherever the
user's array begins and however long its rows are. A line that the next group of tiles will finish
waits for it in the stage, so that only the first and the last line of an array are written in
parts. (Without a stage, by stores of 16 bytes, lines of which rows have a part each are sent
unfinished: up to seven times slower than plain stores.)
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.backends.llvm.lower import Lanes

STREAM = 4 << 20  # bytes of a result above which its stores bypass the caches
STAGE = 24 << 10  # bytes of a stage; what does not fit into the first cache is not worth it
LINE = 64  # bytes of a line of the caches


class Stage(NamedTuple):
    """The way of output `number`, `size` entries for each state, to memory; `tiles` in a round."""

    t: Lanes
    number: int
    size: int
    tiles: int

    @property
    def row(self) -> int:
        return self.size * self.t.dtype.itemsize

    @property
    def group(self) -> int:
        """The tiles that go on together: as many as fit, since what was just stored is slow to
        read. None if not even one fits.
        """
        tile = self.t.width * self.row
        counts = [n for n in range(1, self.tiles + 1) if self.tiles % n == 0]
        return max((n for n in counts if n * tile <= STAGE), default=0)

    @property
    def bytes(self) -> int:
        """Rows between parts of two lines."""
        rows = self.group * self.t.width * self.row
        return -(-rows // LINE) * LINE + 2 * LINE if self.group else 0

    def choice(self) -> list[str]:
        """From the output's base, step and density: whether it is large and dense, %stream, and so
        goes past the caches, %direct or %staged. %pitch is the step from row to row of where tiles
        are written. Of a call in parts, %data points to the states of the whole.
        """
        n = self.number
        return [
            f"%address{n} = ptrtoint ptr %base{n} to i64",
            f"%bits{n} = or i64 %address{n}, %step{n}",
            f"%off{n} = and i64 %bits{n}, {self.t.bytes - 1}",
            f"%aligned{n} = icmp eq i64 %off{n}, 0",
            f"%part{n} = icmp ne ptr %data, null",
            f"%call{n} = select i1 %part{n}, ptr %data, ptr %dims",
            f"%whole{n}.states = load i64, ptr %call{n}, align 8",
            f"%total{n} = mul i64 %whole{n}.states, %step{n}",
            f"%large{n} = icmp sgt i64 %total{n}, {STREAM}",
            f"%stream{n} = and i1 %dense{n}, %large{n}",
            f"%direct{n} = and i1 %stream{n}, %aligned{n}",
            f"%follow{n} = icmp eq i64 %step{n}, {self.row}",
            f"%other{n} = xor i1 %aligned{n}, true",
            f"%fits{n} = and i1 %other{n}, {'true' if self.group else 'false'}",
            f"%stageable{n} = and i1 %follow{n}, %fits{n}",
            f"%staged{n} = and i1 %stream{n}, %stageable{n}",
            f"%pitch{n} = select i1 %staged{n}, i64 {self.row}, i64 %step{n}",
        ]

    def place(self) -> list[str]:
        """%row, where a tile is written: in the user's array, or in the stage, as far behind the
        beginning of a line as there.
        """
        n = self.number
        return [
            f"%far{n} = mul i64 %write.state, %step{n}",
            f"%turn{n} = urem i64 %write.tile, {max(self.group, 1)}",
            f"%behind{n} = mul i64 %turn{n}, {self.t.width}",
            f"%first{n} = sub i64 %write.state, %behind{n}",
            f"%before{n} = mul i64 %first{n}, %step{n}",
            f"%start{n} = add i64 %address{n}, %before{n}",
            f"%phase{n} = and i64 %start{n}, {LINE - 1}",
            f"%rows{n} = mul i64 %behind{n}, {self.row}",
            f"%near{n} = add i64 %phase{n}, %rows{n}",
            f"%from{n} = select i1 %staged{n}, ptr %stage{n}, ptr %base{n}",
            f"%at{n} = select i1 %staged{n}, i64 %near{n}, i64 %far{n}",
            f"%row{n} = getelementptr inbounds i8, ptr %from{n}, i64 %at{n}",
        ]

    def flush(self) -> list[str]:
        """After a tile, if it is the last of its group: from the stage to the user's array."""
        n = self.number
        given = f"ptr %base{n}, i64 %step{n}, ptr %stage{n}, i64 %first{n}, i64 %e{n}"
        lines = [
            f"%full{n} = icmp eq i64 %turn{n}, {self.group - 1}",
            f"%closes{n} = icmp eq i64 %write.next, %tiles",
            f"%ends{n} = or i1 %full{n}, %closes{n}",
            f"%now{n} = and i1 %staged{n}, %ends{n}",
            f"br i1 %now{n}, label %flush{n}, label %flushed{n}",
            f"flush{n}:",
            f"%whole{n} = add i64 %write.state, {self.t.width}",
            f"%last{n} = icmp sge i64 %whole{n}, %n",
            f"%e{n} = select i1 %last{n}, i64 %n, i64 %whole{n}",
        ]
        call = f"call void @flush({given}, i1 %last{n})"
        return [*lines, call, f"br label %flushed{n}", f"flushed{n}:"] if self.group else []


def fence(outputs: list[int]) -> list[str]:
    """After the last round: whoever is told that we are done sees what went past the caches."""
    lines, known = [], "false"
    for n in outputs:
        lines.append(f"%any{n} = or i1 {known}, %stream{n}")
        known = f"%any{n}"
    lines += [f"br i1 {known}, label %fence, label %quiet", "fence:", "fence seq_cst"]
    return [*lines, "br label %quiet", "quiet:"]


def functions(t: Lanes) -> list[str]:
    """@past copies bytes: single numbers up to the first whole line and behind the last one. @flush
    gives it what the stage holds of rows %b to %e, up to the last whole line (which may lie before
    the array: then nothing is copied), and moves the rest to the beginning of the stage.
    """
    return ["", *_past(t).split("\n"), *_flush(t).split("\n")]


def _past(t: Lanes) -> str:
    line, align = t.of(LINE // t.dtype.itemsize), t.dtype.itemsize
    return f"""define internal void @past(ptr %to, ptr %from, i64 %bytes) noinline {{
entry:
  %to.at = ptrtoint ptr %to to i64
  %short = sub i64 0, %to.at
  %rest = and i64 %short, {LINE - 1}
  %few = icmp slt i64 %bytes, %rest
  %before = select i1 %few, i64 %bytes, i64 %rest
  br label %head
{_numbers(t, "head", "0, %entry", "%before")}
  br label %line
line:
  %line.i = phi i64 [ %head.i, %head.done ], [ %line.next, %line.move ]
  %line.next = add i64 %line.i, {LINE}
  %line.more = icmp sle i64 %line.next, %bytes
  br i1 %line.more, label %line.move, label %tail
line.move:
  %source = getelementptr inbounds i8, ptr %from, i64 %line.i
  %target = getelementptr inbounds i8, ptr %to, i64 %line.i
  %x = load {line}, ptr %source, align {align}
  store {line} %x, ptr %target, align {LINE}, !nontemporal !0
  br label %line
{_numbers(t, "tail", "%line.i, %line", "%bytes")}
  ret void
}}"""


def _numbers(t: Lanes, name: str, first: str, end: str) -> str:
    """A loop over single numbers, from byte `first` on to `end`."""
    align = t.dtype.itemsize
    return f"""{name}:
  %{name}.i = phi i64 [ {first} ], [ %{name}.next, %{name}.move ]
  %{name}.stop = icmp sge i64 %{name}.i, {end}
  br i1 %{name}.stop, label %{name}.done, label %{name}.move
{name}.move:
  %{name}.source = getelementptr inbounds i8, ptr %from, i64 %{name}.i
  %{name}.target = getelementptr inbounds i8, ptr %to, i64 %{name}.i
  %{name}.x = load {t.scalar}, ptr %{name}.source, align {align}
  store {t.scalar} %{name}.x, ptr %{name}.target, align {align}
  %{name}.next = add i64 %{name}.i, {align}
  br label %{name}
{name}.done:"""


def _flush(t: Lanes) -> str:
    line = t.of(LINE // t.dtype.itemsize)
    return f"""define internal void @flush(
    ptr %base, i64 %step, ptr %stage, i64 %b, i64 %e, i1 %last) noinline {{
  %begin = ptrtoint ptr %base to i64
  %b.bytes = mul i64 %b, %step
  %e.bytes = mul i64 %e, %step
  %start = add i64 %begin, %b.bytes
  %end = add i64 %begin, %e.bytes
  %first = and i64 %start, -{LINE}
  %open = and i64 %end, -{LINE}
  %fresh = icmp ult i64 %first, %begin
  %done = select i1 %fresh, i64 %begin, i64 %first
  %upto = select i1 %last, i64 %end, i64 %open
  %skip = sub i64 %done, %first
  %from = getelementptr inbounds i8, ptr %stage, i64 %skip
  %there = sub i64 %done, %begin
  %to = getelementptr inbounds i8, ptr %base, i64 %there
  %bytes = sub i64 %upto, %done
  call void @past(ptr %to, ptr %from, i64 %bytes)
  %used = sub i64 %open, %first
  %left = getelementptr inbounds i8, ptr %stage, i64 %used
  %x = load {line}, ptr %left, align {LINE}
  store {line} %x, ptr %stage, align {LINE}
  ret void
}}"""
