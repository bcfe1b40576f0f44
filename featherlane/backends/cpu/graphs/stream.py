"""Results that exceed the caches bypass them: whole cache lines are written by non-temporal stores,
which neither read a line nor cache it.

Where rows are aligned to whole vectors, tiles are stored directly in this way. Other rows are
collected in a stage, a buffer in the first-level cache, and copied out in whole lines, for any
alignment of the user's array and any length of its rows. A line that the next group of tiles will
complete stays in the stage, so that only the first and the last line of an array are written in
part. Long rows, and those of tiles that exceed the stage, pass in strips, each through its own
part, and the first and the last line of each row are written in part. (Non-temporal stores of 16
bytes without a stage send lines that several rows share incomplete: seven times slower in float32;
docs/performance.md, "What else was tried".)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from featherlane.backends.cpu.strides import LINE
from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.macros import expanded

# Bytes of all results of a call above which their stores bypass the caches: M of iiwa14 at 262,144
# states takes 37 ns instead of 57, derivatives with constraints of HyQ at 1,024 states 3.8 us
# instead of 6.0 (docs/performance.md, "Other changes")
STREAM = 6 << 20
STAGE = 24 << 10  # bytes of a stage at most, so that it stays in the first-level cache
# Bytes of rows that pass in strips: M of HyQ (2.6 kB) takes 0.33 us at 8,192 states instead of
# 0.37, in float32 (1.3 kB) as long in strips as without
LONG_ROW = 2 << 10
STRIP = 1 << 10  # bytes of a strip of a row: whole lines


class OutputStage(NamedTuple):
    """The path of output `number`, `size` entries a state, to memory; `tiles` in a round. all_rows:
    the bytes of one state in all outputs.
    """

    t: Lanes
    number: int
    size: int
    tiles: int
    all_rows: int

    @property
    def row(self) -> int:
        """The bytes of one state."""
        return self.size * self.t.dtype.itemsize

    @property
    def group(self) -> int:
        """The tiles that are copied out of the stage together: as many as fit, since loading data
        just after it was stored is slow. 0 if not even one fits, or if rows are long.
        """
        if self.row >= LONG_ROW:
            return 0
        tile = self.t.width * self.row
        counts = [n for n in range(1, self.tiles + 1) if self.tiles % n == 0]
        return max((n for n in counts if n * tile <= STAGE), default=0)

    @property
    def in_strips(self) -> bool:
        """Whether rows that are not aligned pass the stage in strips."""
        return not self.group and self.size >= self.t.width

    @property
    def bytes(self) -> int:
        """The bytes of the stage: the rows of a group, between two lines that are not complete; or
        a strip of each row of a tile, behind a line that is not complete.
        """
        rows = self.group * self.t.width * self.row
        if self.in_strips:
            return self.t.width * (STRIP + LINE)
        return -(-rows // LINE) * LINE + 2 * LINE if self.group else 0

    def choose(self) -> list[str]:
        """%stream: whether the output is dense and those of the call are large, so that it bypasses
        the caches; %direct or %indirect: whether without a stage; %staged: by groups of tiles.
        %pitch: the bytes from row to row of written tiles. In a part of a shared call, %data points
        to the number of states of the whole call.
        """
        n, whole = self.number, "true" if self.group else "false"
        return [
            f"%address{n} = ptrtoint ptr %base{n} to i64",
            f"%off{n} = and i64 $(or i64 %address{n}, %step{n}), {self.t.bytes - 1}",
            f"%aligned{n} = icmp eq i64 %off{n}, 0",
            f"%call{n} = select i1 $(icmp ne ptr %data, null), ptr %data, ptr %dims",
            f"%total{n} = mul i64 $(load i64, ptr %call{n}, align 8), {self.all_rows}",
            f"%stream{n} = and i1 %dense{n}, $(icmp sgt i64 %total{n}, {STREAM})",
            f"%direct{n} = and i1 %stream{n}, %aligned{n}",
            f"%follow{n} = icmp eq i64 %step{n}, {self.row}",
            f"%indirect{n} = and i1 %stream{n}, $(xor i1 %aligned{n}, true)",
            f"%staged{n} = and i1 %indirect{n}, $(and i1 %follow{n}, {whole})",
            f"%pitch{n} = select i1 %staged{n}, i64 {self.row}, i64 %step{n}",
        ]

    def place(self) -> list[str]:
        """%row: the address to which a tile is written, in the user's array, or in the stage at the
        same offset in a cache line.
        """
        n = self.number
        return [
            f"%far{n} = mul i64 %write.state, %step{n}",
            f"%turn{n} = urem i64 %write.tile, {max(self.group, 1)}",
            f"%behind{n} = mul i64 %turn{n}, {self.t.width}",
            f"%first{n} = sub i64 %write.state, %behind{n}",
            f"%start{n} = add i64 %address{n}, $(mul i64 %first{n}, %step{n})",
            f"%phase{n} = and i64 %start{n}, {LINE - 1}",
            f"%near{n} = add i64 %phase{n}, $(mul i64 %behind{n}, {self.row})",
            f"%from{n} = select i1 %staged{n}, ptr %stage{n}, ptr %base{n}",
            f"%row{n} = at %from{n} $(select i1 %staged{n}, i64 %near{n}, i64 %far{n})",
        ]

    def strips(self, lanes: str) -> list[str]:
        """Moves the whole vectors of a tile's rows, in strips."""
        n, t = self.number, self.t
        return [
            f"%states{n} = select i1 %write.partial, i64 %write.left, i64 {t.width}",
            f"call void @strips(ptr %row{n}, i64 %step{n}, i64 %states{n}, ptr {lanes}, "
            f"ptr @table{n}, i64 {self.size // t.width}, ptr %stage{n})",
        ]

    def flush(self) -> list[str]:
        """After the last tile of a group: copies the group from the stage to the user's array."""
        n = self.number
        rows = f"ptr %base{n}, i64 %step{n}, ptr %stage{n}, i64 %first{n}, i64 %e{n}"
        lines = [
            f"%full{n} = icmp eq i64 %turn{n}, {self.group - 1}",
            f"%ends{n} = or i1 %full{n}, $(icmp eq i64 %write.next, %tiles)",
            f"when $(and i1 %staged{n}, %ends{n}): flush{n}, flushed{n}",
            f"flush{n}:",
            f"%whole{n} = add i64 %write.state, {self.t.width}",
            f"%last{n} = icmp sge i64 %whole{n}, %n",
            f"%e{n} = select i1 %last{n}, i64 %n, i64 %whole{n}",
            f"call void @flush({rows}, i1 %last{n})",
            f"br label %flushed{n}",
            f"flushed{n}:",
        ]
        return lines if self.group else []


def fence(outputs: list[int]) -> list[str]:
    """Orders non-temporal stores before the store that tells other threads that the call is
    done.
    """
    lines, known = [], "false"
    for n in outputs:
        lines.append(f"%any{n} = or i1 {known}, %stream{n}")
        known = f"%any{n}"
    lines += [f"br i1 {known}, label %fence, label %quiet", "fence:", "fence seq_cst"]
    return [*lines, "br label %quiet", "quiet:"]


def functions(t: Lanes, stages: Iterable[OutputStage]) -> str:
    """@bypass copies bytes: whole lines by non-temporal stores, single numbers before the first
    line and behind the last one. @flush copies the items %b to %e, states or numbers of a row, out
    of the stage by it, up to the last whole line (which may be before the array: then nothing is
    copied), and moves the rest to the beginning of the stage. @strips moves the whole vectors of a
    tile whose rows pass the stage in strips.
    """
    strips = _strips(t) if any(stage.in_strips for stage in stages) else ""
    return expanded(_bypass(t) + _flush(t) + strips)


def _bypass(t: Lanes) -> str:
    """The function that copies bytes around the cache, whole lines by non-temporal stores."""
    line, align = t.of(LINE // t.dtype.itemsize), t.dtype.itemsize
    return f"""
define internal void @bypass(ptr %to, ptr %from, i64 %bytes) noinline {{
entry:
  %rest = and i64 $(sub i64 0, $(ptrtoint ptr %to to i64)), {LINE - 1}
  %before = select i1 $(icmp slt i64 %bytes, %rest), i64 %bytes, i64 %rest
  br label %head
{_single_numbers(t, "head", "0, %entry", "%before")}
  br label %line
line:
  %line.i = phi i64 [ %head.i, %head.done ], [ %line.next, %line.move ]
  %line.next = add i64 %line.i, {LINE}
  when sle i64 %line.next, %bytes: line.move, tail
line.move:
  %source = at %from %line.i
  %target = at %to %line.i
  %x = load {line}, ptr %source, align {align}
  store {line} %x, ptr %target, align {LINE}, !nontemporal !0
  br label %line
{_single_numbers(t, "tail", "%line.i, %line", "%bytes")}
  ret void
}}"""


def _single_numbers(t: Lanes, name: str, first: str, end: str) -> str:
    """A loop that copies single numbers, from byte `first` on to `end`."""
    align = t.dtype.itemsize
    return f"""{name}:
  %{name}.i = phi i64 [ {first} ], [ %{name}.next, %{name}.move ]
  when sge i64 %{name}.i, {end}: {name}.done, {name}.move
{name}.move:
  %{name}.source = at %from %{name}.i
  %{name}.target = at %to %{name}.i
  %{name}.x = load {t.scalar}, ptr %{name}.source, align {align}
  store {t.scalar} %{name}.x, ptr %{name}.target, align {align}
  %{name}.next = add i64 %{name}.i, {align}
  br label %{name}
{name}.done:"""


def _flush(t: Lanes) -> str:
    """The function that copies the whole lines of a stage of results, and the rest after the last
    one.
    """
    line = t.of(LINE // t.dtype.itemsize)
    return f"""
define internal void @flush(
    ptr %base, i64 %step, ptr %stage, i64 %b, i64 %e, i1 %last) noinline {{
  %begin = ptrtoint ptr %base to i64
  %b.bytes = mul i64 %b, %step
  %e.bytes = mul i64 %e, %step
  %start = add i64 %begin, %b.bytes
  %end = add i64 %begin, %e.bytes
  %first = and i64 %start, -{LINE}
  %open = and i64 %end, -{LINE}
  %done = select i1 $(icmp ult i64 %first, %begin), i64 %begin, i64 %first
  %until = select i1 %last, i64 %end, i64 %open
  %from = at %stage $(sub i64 %done, %first)
  %to = at %base $(sub i64 %done, %begin)
  call void @bypass(ptr %to, ptr %from, i64 $(sub i64 %until, %done))
  %rest = at %stage $(sub i64 %open, %first)
  %x = load {line}, ptr %rest, align {LINE}
  store {line} %x, ptr %stage, align {LINE}
  ret void
}}"""


def _strips(t: Lanes) -> str:
    """The function that moves %vectors of each of the rows of %states, strip by strip: each row has
    a part of the stage, in which a strip begins at the same offset in a line as in the array.
    """
    vectors, part = STRIP // t.bytes, STRIP + LINE
    return f"""
define internal void @strips(ptr %rows, i64 %step, i64 %states, ptr %lanes, ptr %table,
                             i64 %vectors, ptr %stage) noinline {{
  %offsets = alloca [{t.width} x i64], align 64
  repeat %r
  %address = add i64 $(ptrtoint ptr %rows to i64), $(mul i64 %r, %step)
  %phase = and i64 %address, {LINE - 1}
  put i64 $(add i64 $(mul i64 %r, {part}), %phase) %offsets %r
  again %r {t.width}
  %count = udiv i64 $(add i64 %vectors, {vectors - 1}), {vectors}
  repeat %strip
  %before = mul i64 %strip, {vectors}
  %left = sub i64 %vectors, %before
  %last = icmp sle i64 %left, {vectors}
  %now = select i1 %last, i64 %left, i64 {vectors}
  %b = mul i64 %before, {t.width}
  %e = add i64 %b, $(mul i64 %now, {t.width})
  %entries = getelementptr inbounds i32, ptr %table, i64 %b
  call void @tile_out_{t.width}_{t.width}(
      ptr %stage, ptr %offsets, ptr %lanes, ptr %entries, i64 %now)
  repeat %state
  %row = at %rows $(mul i64 %state, %step)
  %part = at %stage $(mul i64 %state, {part})
  call void @flush(
      ptr %row, i64 {t.dtype.itemsize}, ptr %part, i64 %b, i64 %e, i1 %last)
  again %state %states
  again %strip %count
  ret void
}}"""
