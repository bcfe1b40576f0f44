"""Results that exceed the caches bypass them: whole cache lines are written by non-temporal stores,
which neither read a line nor cache it.

Where rows are aligned to whole vectors, tiles are stored directly in this way. Other rows are
collected in a stage, a buffer in the first-level cache, and copied out in whole lines, for any
alignment of the user's array and any length of its rows. A line that the next group of tiles will
complete stays in the stage, so that only the first and the last line of an array are written in
part. (Non-temporal stores of 16 bytes without a stage send lines that several rows share
incomplete: seven times slower in float32; docs/performance.md, "What else was tried".)
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.backends.cpu.strides import LINE
from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.macros import expanded

# Bytes of a result above which its stores bypass the caches: M of iiwa14 at 262,144 states takes
# 37 ns instead of 57 (docs/performance.md, "What else was tried")
STREAM = 4 << 20
STAGE = 24 << 10  # bytes of a stage at most, so that it stays in the first-level cache


class OutputStage(NamedTuple):
    """The path of output `number`, `size` entries a state, to memory; `tiles` in a round."""

    t: Lanes
    number: int
    size: int
    tiles: int

    @property
    def row(self) -> int:
        """The bytes of one state."""
        return self.size * self.t.dtype.itemsize

    @property
    def group(self) -> int:
        """The tiles that are copied out of the stage together: as many as fit, since loading data
        just after it was stored is slow. 0 if not even one fits.
        """
        tile = self.t.width * self.row
        counts = [n for n in range(1, self.tiles + 1) if self.tiles % n == 0]
        return max((n for n in counts if n * tile <= STAGE), default=0)

    @property
    def bytes(self) -> int:
        """The bytes of the stage: the rows of a group, between two lines that are not complete."""
        rows = self.group * self.t.width * self.row
        return -(-rows // LINE) * LINE + 2 * LINE if self.group else 0

    def choose(self) -> list[str]:
        """%stream: whether the output is large and dense, so that it bypasses the caches; %direct
        or %staged: by which path. %pitch: the bytes from row to row of written tiles. In a part of
        a shared call, %data points to the number of states of the whole call.
        """
        n = self.number
        return [
            f"%address{n} = ptrtoint ptr %base{n} to i64",
            f"%off{n} = and i64 $(or i64 %address{n}, %step{n}), {self.t.bytes - 1}",
            f"%aligned{n} = icmp eq i64 %off{n}, 0",
            f"%call{n} = select i1 $(icmp ne ptr %data, null), ptr %data, ptr %dims",
            f"%total{n} = mul i64 $(load i64, ptr %call{n}, align 8), %step{n}",
            f"%stream{n} = and i1 %dense{n}, $(icmp sgt i64 %total{n}, {STREAM})",
            f"%direct{n} = and i1 %stream{n}, %aligned{n}",
            f"%follow{n} = icmp eq i64 %step{n}, {self.row}",
            f"%fits{n} = and i1 $(xor i1 %aligned{n}, true), {'true' if self.group else 'false'}",
            f"%staged{n} = and i1 %stream{n}, $(and i1 %follow{n}, %fits{n})",
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


def functions(t: Lanes) -> str:
    """@bypass copies bytes: whole lines by non-temporal stores, single numbers before the first
    line and behind the last one. @flush copies the states %b to %e out of the stage by it, up to
    the last whole line (which may be before the array: then nothing is copied), and moves the rest
    to the beginning of the stage.
    """
    return expanded(_bypass(t) + _flush(t))


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
