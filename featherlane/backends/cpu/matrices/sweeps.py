"""Sweeps over the tree for many right-hand sides at once, which are the columns of a matrix.

A row of the matrix belongs to a freedom, and is read and written when the sweep reaches it. A
spatial vector for each column passes from row to row, a force inward and a motion outward, all in
one frame. These vectors are in slots of memory, one slot for each open branch of the tree.
"""

from __future__ import annotations

from collections import namedtuple

from featherlane.backends.cpu.graphs.transpose import exchange
from featherlane.backends.llvm.lower import (
    Lanes,
    broadcast,
    fma,
    load_entries,
    scalar_at,
    store_entries,
)
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.records import record_loop

# The numbers S and V of a freedom come first in a, six each, then its 1/D and -1/D.
# inward: u = t - S . p and p += V u along a row of right-hand sides t, with the force p;
# outward: x = d u - V . a and a += S x, with the motion a;
# unit: inward where t is a row of the identity, for columns before `end`;
# merge: adds one slot to another; clear: a slot of zeros; zero: a part of a row
OPERATIONS = ("inward", "unit", "merge", "clear", "zero", "outward")
# The stride of a from number to number, which number of a freedom is d, the stride of c from row to
# row, and the columns and vectors of a row
SweepHeader = namedtuple("SweepHeader", "a_along d c_row columns vectors")
# An operation, its row, the slots that it reads and writes, its vectors v0 <= v < v1 (except a last
# vector that overlaps the one before), and the column where @unit ends
SweepRecord = namedtuple("SweepRecord", "operation i read write v0 v1 end")
PARAMETERS = (
    "ptr %f, i64 %a_along, ptr %d.f, ptr %row, ptr %from, ptr %to, i64 %v0, i64 %v1, i64 %tail, "
    "i64 %i, i64 %end"
)


def _operation(name: str, before: list[str], body: list[str], after: list[str]) -> list[str]:
    """A function whose body runs for each vector v0 <= v < v1."""
    lines = [
        f"define internal void @{name}({PARAMETERS}) noinline {{",
        "entry:",
        *before,
        "br label %test",
        "test:",
        "%v = phi i64 [ %v0, %entry ], [ %v.next, %each ]",
        "when slt i64 %v, %v1: each, done",
        "each:",
        *body,
        "%v.next = add i64 %v, 1",
        "br label %test",
        "done:",
        *after,
        "ret void",
        "}",
    ]
    return [expanded("\n".join(lines))]


def _factors(t: Lanes) -> list[str]:
    """%S0 to %S5 and %V0 to %V5 and their negatives, in all lanes."""
    lines = []
    for n, name in enumerate(f"%{x}{k}" for x in "SV" for k in range(6)):
        lines.append(scalar_at(t, f"%f{n}", "%f", f"$(mul i64 %a_along, {n})"))
        lines += [*broadcast(t, name, f"%f{n}"), f"{name}.minus = fneg {t.vector} {name}"]
    return lines


def _in_slots(t: Lanes, v: str, tag: str) -> list[str]:
    """%read and %write: the addresses of the spatial vectors of vector v of the columns, in
    slots.
    """
    lines = [f"%slot{tag} = mul i64 {v}, {6 * t.width}"]
    pairs = (("read", "from"), ("write", "to"))
    return lines + [scalar_at(t, f"%{x}{tag}", f"%{slot}", f"%slot{tag}") for x, slot in pairs]


def _spatial(t: Lanes, name: str, base: str, tag: str = "") -> list[str]:
    """Loads the six numbers of a spatial vector."""
    return [x for k in range(6) for x in load_entries(t, f"%{name}{k}{tag}", base, k * t.width)]


def _add_scaled(t: Lanes, x: str, by: str, tag: str) -> list[str]:
    """%write = p + by x, with the spatial vectors p and `by`."""
    lines = []
    for k in range(6):
        lines += fma(t, f"%q{k}{tag}", f"%{by}{k}", x, f"%p{k}{tag}")
        lines += store_entries(t, f"%q.at{k}{tag}", f"%q{k}{tag}", f"%write{tag}", k * t.width)
    return lines


def _subtract_dot(t: Lanes, first: str, by: str, tag: str) -> tuple[list[str], str]:
    """The value first - by . p, with the spatial vectors `by` and p."""
    lines, value = [], first
    for k in range(6):
        lines += fma(t, f"%s{k}{tag}", f"%{by}{k}.minus", f"%p{k}{tag}", value)
        value = f"%s{k}{tag}"
    return lines, value


def _pass(t: Lanes, way: str, v: str, entry: str, column: str, tag: str) -> list[str]:
    """One vector of a row, which begins at a column, on the way inward or outward."""
    lines = [*_in_slots(t, v, tag), *_spatial(t, "p", f"%read{tag}", tag)]
    dot, add = ("S", "V") if way == "inward" else ("V", "S")
    if way == "outward":
        lines.append(f"%du{tag} = fmul {t.vector} %d, {entry}")
        entry = f"%du{tag}"
    subtraction, value = _subtract_dot(t, entry, dot, tag)
    lines += [*subtraction, *_add_scaled(t, value, add, tag)]
    return lines + store_entries(t, f"%x.at{tag}", value, "%row", column)


def _row(t: Lanes, way: str) -> list[str]:
    """@inward and @outward. The last vector of a row ends with the row and overlaps the one before:
    it is read first and written last, as vector v1.
    """
    before = [
        *_factors(t),
        *(broadcast(t, "%d", "%d.f") if way == "outward" else []),
        *load_entries(t, "%t.tail", "%row", "%tail"),
    ]
    body = [
        f"%column = mul i64 %v, {t.width}",
        *load_entries(t, "%t", "%row", "%column"),
        *_pass(t, way, "%v", "%t", "%column", ""),
    ]
    return _operation(way, before, body, _pass(t, way, "%v1", "%t.tail", "%tail", ".tail"))


def _first_column(t: Lanes) -> list[str]:
    """%column: the first column of vector v, so that the vector ends within the row."""
    return [
        f"%column.v = mul i64 %v, {t.width}",
        "%column = select i1 $(icmp slt i64 %column.v, %tail), i64 %column.v, i64 %tail",
    ]


def _broadcast_integer(t: Lanes, name: str, number: str) -> list[str]:
    """An integer in all lanes."""
    kind, part = t.integers, f"i{t.bits}"
    scalar = f"trunc i64 {number} to i32" if t.bits == 32 else f"add i64 {number}, 0"
    return [
        f"{name}.s = {scalar}",
        f"{name}.v = insertelement {kind} poison, {part} {name}.s, i32 0",
        f"{name} = shufflevector {kind} {name}.v, {kind} poison, <{t.width} x i32> zeroinitializer",
    ]


def _lane_numbers(t: Lanes) -> str:
    return "<" + ", ".join(f"i{t.bits} {k}" for k in range(t.width)) + ">"


def _unit(t: Lanes) -> list[str]:
    """@unit."""
    integer = lambda name, number: _broadcast_integer(t, name, number)
    before = [*_factors(t), *integer("%own", "%i"), *integer("%beyond", "%end")]
    subtraction, u = _subtract_dot(t, "%t", "S", "")
    body = [
        *_first_column(t),
        *integer("%column.0", "%column"),
        f"%column.n = add {t.integers} %column.0, {_lane_numbers(t)}",
        f"%is = icmp eq {t.integers} %column.n, %own",
        f"%t = select {t.booleans} %is, {t.vector} {t.splat(1.0)}, {t.vector} zeroinitializer",
        *_in_slots(t, "%v", ""),
        *_spatial(t, "p", "%read"),
        *subtraction,
        f"%in = icmp slt {t.integers} %column.n, %beyond",
        f"%u = select {t.booleans} %in, {t.vector} {u}, {t.vector} zeroinitializer",
        *_add_scaled(t, "%u", "V", ""),
        *store_entries(t, "%u.at", "%u", "%row", "%column"),
    ]
    return _operation("unit", before, body, [])


def _fill_slot(t: Lanes, name: str, before: list[str], values: list[str]) -> list[str]:
    """@merge or @clear: writes six vectors to a slot."""
    stores = [store_entries(t, f"%q.at{k}", values[k], "%write", k * t.width) for k in range(6)]
    body = [*_in_slots(t, "%v", ""), *before, *[line for lines in stores for line in lines]]
    return _operation(name, [], body, [])


def _merge(t: Lanes) -> list[str]:
    sums = _spatial(t, "p", "%read")
    for k in range(6):
        sums += load_entries(t, f"%m{k}", "%write", k * t.width)
        sums.append(f"%s{k} = fadd {t.vector} %m{k}, %p{k}")
    return _fill_slot(t, "merge", sums, [f"%s{k}" for k in range(6)])


def _operands(t: Lanes) -> list[str]:
    """The arguments of an operation, from its record."""
    lines = [scalar_at(t, "%f", "%a", "%i")]
    products = (
        ("%d.f", "%f", "%a_along, %d"),
        ("%row", "%c", "%i, %c_row"),
        ("%from", "%b", "%slot, %read"),
        ("%to", "%b", "%slot, %write"),
    )
    return lines + [scalar_at(t, to, base, f"$(mul i64 {by})") for to, base, by in products]


def kernel(t: Lanes) -> list[str]:
    """@sweep: runs the records of a program. Each is an operation on one row of c, with the column
    of a that has the numbers of the row's freedom, and with slots of b.
    """
    rows = [*_row(t, "inward"), *_row(t, "outward"), *_unit(t)]
    slots = [*_merge(t), *_fill_slot(t, "clear", [], ["zeroinitializer"] * 6)]
    store = store_entries(t, "%z.at", "zeroinitializer", "%row", "%column")
    slots += _operation("zero", [], [*_first_column(t), *store], [])
    setup = [f"%slot = mul i64 %vectors, {6 * t.width}", f"%tail = sub i64 %columns, {t.width}"]
    choices = [f"i64 {k}, label %{name}" for k, name in enumerate(OPERATIONS)]
    body = [*_operands(t), "switch i64 %operation, label %next [", *choices, "]"]
    for name in OPERATIONS:
        body += [f"{name}:", f"call void @{name}({PARAMETERS})", "br label %next"]
    return rows + slots + record_loop("sweep", SweepHeader, SweepRecord, setup, body)


MirrorHeader = namedtuple("MirrorHeader", "c_row")  # the stride of c from row to row
# The offsets of a block above the diagonal and of its counterpart below it, and the columns by
# which the first is to the right of the diagonal
MirrorRecord = namedtuple("MirrorRecord", "above below apart")


def mirror(t: Lanes) -> list[str]:
    """@mirror: copies the upper triangle of c to the lower one, in transposed blocks as wide as a
    vector. In a block that the diagonal crosses, entries above it stay.
    """
    rows, align = range(t.width), t.dtype.itemsize
    body = [f"%o{r} = mul i64 %c_row, {r}" for r in rows]
    for x in ("above", "below"):
        body.append(scalar_at(t, f"%{x}.0", "%c", f"%{x}"))
        body += [scalar_at(t, f"%{x}{r}", f"%{x}.0", f"%o{r}") for r in rows]
    body += [f"%x{r} = load {t.vector}, ptr %above{r}, align {align}" for r in rows]
    moves, transposed = exchange(t, [f"%x{r}" for r in rows], t.width, "x")
    body += [
        *moves,
        f"when slt i64 %apart, {t.width}: part, whole",
        "whole:",
        *[f"store {t.vector} {transposed[r]}, ptr %below{r}, align {align}" for r in rows],
        "br label %next",
        "part:",
        *_store_below_diagonal(t, transposed),
        "br label %next",
    ]
    return record_loop("mirror", MirrorHeader, MirrorRecord, [], body)


def _store_below_diagonal(t: Lanes, rows: list[str]) -> list[str]:
    align, lines = t.dtype.itemsize, _broadcast_integer(t, "%far", "%apart")
    for r, value in enumerate(rows):
        lines += [
            f"%edge{r} = add {t.integers} %far, {t.splat_integer(r)}",
            f"%in{r} = icmp sle {t.integers} {_lane_numbers(t)}, %edge{r}",
            f"%old{r} = load {t.vector}, ptr %below{r}, align {align}",
            f"%new{r} = select {t.booleans} %in{r}, {t.vector} {value}, {t.vector} %old{r}",
            f"store {t.vector} %new{r}, ptr %below{r}, align {align}",
        ]
    return lines
