"""Products of matrices, tile by tile: each tile may be a product of different rows and columns.

The same few lines of machine code serve sums of six terms and of hundreds: the addresses of the
factors of a tile are a record of a program.
"""

from __future__ import annotations

from collections import namedtuple

from featherlane.backends.llvm.lower import Lanes, broadcast, fma, load_entries, scalar_at
from featherlane.backends.llvm.records import record_loop

ROWS, VECTORS = 4, 2  # of a tile: its sums and their factors fill 16 vector registers
EACH = [(r, v) for r in range(ROWS) for v in range(VECTORS)]
# The strides of the matrices, in numbers: of a from row to row and along a row, of b and c from row
# to row; and the address of the masks
TileHeader = namedtuple("TileHeader", "a_row a_along b_row c_row masks")
# A tile: the offsets of its rows in a and of its columns in b, the length of the sums, its offset
# in c, and the number of the mask of the entries that are stored, -1 for all
TileRecord = namedtuple("TileRecord", "a_at b_at length c_at mask")


def kernel(t: Lanes) -> list[str]:
    """@tiles: c = a b, tile by tile."""
    body = [*_rows(t), *_begin_sum(t), *_add_products(t), *_end_sum(t), *_store(t)]
    setup = ["%mask.all = inttoptr i64 %masks to ptr"]
    return record_loop("tiles", TileHeader, TileRecord, setup, body)


def _rows(t: Lanes) -> list[str]:
    """Pointers to the first entry of each row of the tile."""
    return [
        *[scalar_at(t, f"%{x}.0", f"%{x}", f"%{x}_at") for x in "abc"],
        *[scalar_at(t, f"%a.{r}", f"%a.{r - 1}", "%a_row") for r in range(1, ROWS)],
        *[scalar_at(t, f"%c.{r}", f"%c.{r - 1}", "%c_row") for r in range(1, ROWS)],
        "when sgt i64 %length, 0: term, summed",
    ]


def _sums(t: Lanes, to: str) -> list[str]:
    """The sums so far: zeros at first, else %y."""
    zeros = "zeroinitializer, %begin"
    return [f"%{to}{r}.{v} = phi {t.vector} [ {zeros} ], [ %y{r}.{v}, %term ]" for r, v in EACH]


def _begin_sum(t: Lanes) -> list[str]:
    return [
        "term:",
        "%k = phi i64 [ 0, %begin ], [ %k1, %term ]",
        "%b.k = phi ptr [ %b.0, %begin ], [ %b.next, %term ]",
        "%a.k = phi i64 [ 0, %begin ], [ %a.next, %term ]",
        *_sums(t, "x"),
    ]


def _add_products(t: Lanes) -> list[str]:
    """Adds to each sum the product of an entry of a and a vector of b."""
    lines = []
    for v in range(VECTORS):
        lines += load_entries(t, f"%b{v}", "%b.k", v * t.width)
    for r in range(ROWS):
        lines += [scalar_at(t, f"%a.k{r}", f"%a.{r}", "%a.k"), *broadcast(t, f"%a{r}", f"%a.k{r}")]
        for v in range(VECTORS):
            lines += fma(t, f"%y{r}.{v}", f"%a{r}", f"%b{v}", f"%x{r}.{v}")
    return lines


def _end_sum(t: Lanes) -> list[str]:
    return [
        "%k1 = add i64 %k, 1",
        scalar_at(t, "%b.next", "%b.k", "%b_row"),
        "%a.next = add i64 %a.k, %a_along",
        "when slt i64 %k1, %length: term, summed",
        "summed:",
        *_sums(t, "z"),
    ]


def _store(t: Lanes) -> list[str]:
    """Stores the tile, or the entries of it that its mask selects."""
    align = t.dtype.itemsize
    return [
        *[scalar_at(t, f"%c.{r}.{v}", f"%c.{r}", v * t.width) for r, v in EACH],
        "when sge i64 %mask, 0: part, whole",
        "whole:",
        *[f"store {t.vector} %z{r}.{v}, ptr %c.{r}.{v}, align {align}" for r, v in EACH],
        "br label %next",
        "part:",
        f"%mask.o = mul i64 %mask, {len(EACH)}",
        f"%mask.from = getelementptr inbounds {t.integers}, ptr %mask.all, i64 %mask.o",
        *[line for n, (r, v) in enumerate(EACH) for line in _store_masked(t, n, f"{r}.{v}")],
        "br label %next",
    ]


def _store_masked(t: Lanes, n: int, at: str) -> list[str]:
    align = t.dtype.itemsize
    return [
        f"%m.at{at} = getelementptr inbounds {t.integers}, ptr %mask.from, i64 {n}",
        f"%m{at} = load {t.integers}, ptr %m.at{at}, align {align}",
        f"%in{at} = icmp ne {t.integers} %m{at}, zeroinitializer",
        f"%old{at} = load {t.vector}, ptr %c.{at}, align {align}",
        f"%new{at} = select {t.booleans} %in{at}, {t.vector} %z{at}, {t.vector} %old{at}",
        f"store {t.vector} %new{at}, ptr %c.{at}, align {align}",
    ]
