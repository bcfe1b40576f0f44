"""Products of matrices by tiles, which may be of any two matrices in each tile.

The same few lines of machine code serve sums of six terms and of hundreds: where a tile's factors
lie is a record of a program.
"""

from __future__ import annotations

from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.words import SIGNATURE, each_record, numbers, splat

ROWS, VECTORS = 4, 2  # of a tile: with what its sums are made of they fill sixteen registers
HEADER = ("a.row", "a.along", "b.row", "c.row", "masks")
RECORD = ("a.o", "b.o", "length", "c.o", "mask")


def kernel(t: Lanes) -> list[str]:
    """@tiles: c = a b, tile by tile.

    The program begins with the steps of a from row to row and along a row, of b and c from row to
    row, and the address of the masks. A record is where a tile's rows begin in a, its columns in b,
    the length of the sums, where it lies in c, and which mask says what of it is stored, or -1.
    """
    each = [(r, v) for r in range(ROWS) for v in range(VECTORS)]
    sums = lambda name: [f"%{name}{r}.{v}" for r, v in each]
    align = t.dtype.itemsize
    pointer = f"getelementptr inbounds {t.scalar}, ptr"
    lines = [
        f"define internal void @tiles{SIGNATURE} noinline {{",
        "entry:",
        *numbers(HEADER, "%program"),
        "%mask.all = inttoptr i64 %masks to ptr",
        *each_record(len(HEADER), RECORD, "stored"),
        f"%a.0 = {pointer} %a, i64 %a.o",
        f"%b.0 = {pointer} %b, i64 %b.o",
        f"%c.0 = {pointer} %c, i64 %c.o",
        *[f"%a.{r} = {pointer} %a.{r - 1}, i64 %a.row" for r in range(1, ROWS)],
        *[f"%c.{r} = {pointer} %c.{r - 1}, i64 %c.row" for r in range(1, ROWS)],
        "%any = icmp sgt i64 %length, 0",
        "br i1 %any, label %term, label %summed",
        "term:",
        "%k = phi i64 [ 0, %begin ], [ %k1, %term ]",
        "%b.k = phi ptr [ %b.0, %begin ], [ %b.next, %term ]",
        "%a.k = phi i64 [ 0, %begin ], [ %a.next, %term ]",
        *[
            f"{x} = phi {t.vector} [ zeroinitializer, %begin ], [ {y}, %term ]"
            for x, y in zip(sums("x"), sums("y"), strict=True)
        ],
    ]
    for v in range(VECTORS):
        lines.append(f"%b.k{v} = {pointer} %b.k, i64 {v * t.width}")
        lines.append(f"%b{v} = load {t.vector}, ptr %b.k{v}, align {align}")
    for r in range(ROWS):
        lines += [f"%a.k{r} = {pointer} %a.{r}, i64 %a.k", *splat(t, f"a{r}", f"%a.k{r}")]
        for v in range(VECTORS):
            given = f"{t.vector} %a{r}, {t.vector} %b{v}, {t.vector} %x{r}.{v}"
            lines.append(f"%y{r}.{v} = call {t.vector} @llvm.fma.{t.suffix}({given})")
    lines += [
        "%k1 = add i64 %k, 1",
        f"%b.next = {pointer} %b.k, i64 %b.row",
        "%a.next = add i64 %a.k, %a.along",
        "%more = icmp slt i64 %k1, %length",
        "br i1 %more, label %term, label %summed",
        "summed:",
        *[
            f"{z} = phi {t.vector} [ zeroinitializer, %begin ], [ {y}, %term ]"
            for z, y in zip(sums("z"), sums("y"), strict=True)
        ],
        *[f"%c.{r}.{v} = {pointer} %c.{r}, i64 {v * t.width}" for r, v in each],
        "%masked = icmp sge i64 %mask, 0",
        "br i1 %masked, label %some.of, label %all.of",
        "all.of:",
        *[f"store {t.vector} %z{r}.{v}, ptr %c.{r}.{v}, align {align}" for r, v in each],
        "br label %stored",
        "some.of:",
        f"%mask.o = mul i64 %mask, {ROWS * VECTORS}",
        f"%mask.from = getelementptr inbounds {t.integers}, ptr %mask.all, i64 %mask.o",
    ]
    for n, (r, v) in enumerate(each):
        end = f"{r}.{v}"
        lines += [
            f"%m.at{end} = getelementptr inbounds {t.integers}, ptr %mask.from, i64 {n}",
            f"%m{end} = load {t.integers}, ptr %m.at{end}, align {align}",
            f"%in{end} = icmp ne {t.integers} %m{end}, zeroinitializer",
            f"%old{end} = load {t.vector}, ptr %c.{end}, align {align}",
            f"%new{end} = select <{t.width} x i1> %in{end}, {t.vector} %z{end}, "
            f"{t.vector} %old{end}",
            f"store {t.vector} %new{end}, ptr %c.{end}, align {align}",
        ]
    return [
        *lines,
        "br label %stored",
        "stored:",
        "%n1 = add i64 %n, 1",
        "br label %record",
        "leave:",
        "ret void",
        "}",
    ]
