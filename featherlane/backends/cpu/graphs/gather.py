"""Arrays of any strides as arguments of an inner loop: their strides, and copies entry by entry,
the slow path to and from lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from featherlane.backends.cpu.graphs.transpose import MARK
from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import word

ARRAY = "ptr %rows, ptr %offsets, i64 %size1, i64 %size2, i64 %step1, i64 %step2"


def argument(n: int) -> list[str]:
    """%base and %step of array n: its address, and the bytes from state to state."""
    return word(f"base{n}", "ptr", "%args", n) + word(f"step{n}", "i64", "%steps", n)


def density(
    n: int, shape: tuple[int, ...], itemsize: int, first: int, known: str
) -> tuple[list[str], str]:
    """%core of each axis of array n, whose strides are those of the loop from `first` on; and
    whether `known` holds and the entries of one state are contiguous.
    """
    lines = []
    for axis in reversed(range(len(shape))):
        at = f"{n}.{axis}"
        lines += word(f"core{at}", "i64", "%steps", first + axis)
        lines.append(f"%is{at} = icmp eq i64 %core{at}, {itemsize}")
        lines.append(f"%dense{at} = and i1 {known}, %is{at}")
        known = f"%dense{at}"
        itemsize *= shape[axis]
    return lines, known


def first_strides(shapes: Sequence[Sequence[int]]) -> list[int]:
    """The number of the first core stride of each array among the strides of a loop."""
    return list(accumulate(map(len, shapes[:-1]), initial=len(shapes)))


def matrix_strides(n: int, rank: int) -> list[str]:
    """The strides of array n as a matrix: a vector is one row, a scalar one entry."""
    return ["0", "0", *[f"%core{n}.{axis}" for axis in range(rank)]][-2:]


def helpers(t: Lanes) -> str:
    """@offsets of the rows of a tile; @gather and @scatter its entries one by one."""

    def rows(body: str) -> str:
        return f"""
  repeat %r
  %row = at %rows $(item i64 %offsets %r){each_entry(body)}
  again %r {t.width}
  ret void
}}"""

    align = t.dtype.itemsize
    gather = f"""
  %entry.at = at %row %o
  %lane = add i64 $(mul i64 %e, {t.width}), %r
  %to = getelementptr inbounds {t.scalar}, ptr %lanes, i64 %lane
  store {t.scalar} $(load {t.scalar}, ptr %entry.at, align {align}), ptr %to, align {align}"""
    scatter = f"""
  %entry.at = at %row %o
  %mark = getelementptr inbounds i32, ptr %table, i64 %e
  %slot = zext i32 $(and i32 $(load i32, ptr %mark, align 4), {MARK - 1}) to i64
  %from = getelementptr inbounds {t.scalar}, ptr $(at %lanes %slot), i64 %r
  store {t.scalar} $(load {t.scalar}, ptr %from, align {align}), ptr %entry.at, align {align}"""
    return "\n" + expanded(f"""
define internal void @offsets(ptr %to, i64 %step, i64 %last) noinline {{
  repeat %r
  %row = select i1 $(icmp slt i64 %r, %last), i64 %r, i64 %last
  put i64 $(mul i64 %row, %step) %to %r
  again %r {t.width}
  ret void
}}
define internal void @gather({ARRAY}, ptr noalias %lanes) noinline {{{rows(gather)}
define internal void @scatter({ARRAY}, ptr noalias %lanes, ptr %table) noinline {{{rows(scatter)}
""")


def each_entry(body: str) -> str:
    """Runs the body for each entry %e, at offset %o in bytes, of %size1 x %size2 entries."""
    return f"""
  repeat %i
  %oi = mul i64 %i, %step1
  repeat %j
  %o = add i64 %oi, $(mul i64 %j, %step2)
  %e = add i64 $(mul i64 %i, %size2), %j
{body}
  again %j %size2
  again %i %size1"""


def copy(t: Lanes) -> str:
    """@copy: the entries of a matrix, with any strides on both sides."""
    align = t.dtype.itemsize
    return expanded(f"""
define internal void @copy(ptr %to, ptr %from, i64 %rows, i64 %columns,
                           i64 %to1, i64 %to2, i64 %from1, i64 %from2) noinline {{
  repeat %i
  %ti = mul i64 %i, %to1
  %fi = mul i64 %i, %from1
  repeat %j
  %t = add i64 %ti, $(mul i64 %j, %to2)
  %f = add i64 %fi, $(mul i64 %j, %from2)
  %a = at %to %t
  store {t.scalar} $(load {t.scalar}, ptr $(at %from %f), align {align}), ptr %a, align {align}
  again %j %columns
  again %i %rows
  ret void
}}
""")
