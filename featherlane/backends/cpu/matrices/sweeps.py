"""Sweeps along a tree for many right-hand sides at once, which are the columns of a matrix.

A row of the matrix belongs to a freedom, and is read and written as the sweep passes it. What goes
along are six numbers for each column, a force inward and a motion outward, all in one frame; they
lie in slots, one for each branch that waits.
"""

from __future__ import annotations

from featherlane.backends.cpu.graphs.transpose import exchange
from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.words import SIGNATURE, address, each_record, numbers, splat

FACTOR = 12  # the numbers S and V of a freedom; behind them are those by which a solution begins
OPERATIONS = ("inward", "unit", "merge", "clear", "zero", "outward")
"""inward: u = t - S . p and p += V u in a row, outward: x = d u - V . a and a += S x. unit: inward
where t is a row of the identity, for columns before `end`. merge: adds a slot to another. clear: a
slot of zeros; zero: a part of a row.
"""
HEADER = ("a.along", "d.at", "c.row", "columns", "vectors")
RECORD = ("operation", "i", "from.slot", "to.slot", "v0", "v1", "end")
GIVEN = (
    "(ptr %f, i64 %along, ptr %d.f, ptr %row, ptr %from.all, ptr %to.all, i64 %v0, i64 %v1, "
    "i64 %tail, i64 %i, i64 %end)"
)


def _fma(t: Lanes, to: str, a: str, b: str, c: str) -> str:
    return f"{to} = call {t.vector} @llvm.fma.{t.suffix}({t.vector} {a}, {t.vector} {b}, " + (
        f"{t.vector} {c})"
    )


def _function(name: str, before: list[str], body: list[str], after: list[str]) -> list[str]:
    """An operation: `body` for each vector %v from %v0 to before %v1."""
    return [
        f"define internal void @{name}{GIVEN} noinline {{",
        "entry:",
        *before,
        "br label %test",
        "test:",
        "%v = phi i64 [ %v0, %entry ], [ %v.next, %each ]",
        "%more = icmp slt i64 %v, %v1",
        "br i1 %more, label %each, label %done",
        "each:",
        *body,
        "%v.next = add i64 %v, 1",
        "br label %test",
        "done:",
        *after,
        "ret void",
        "}",
    ]


def _factors(t: Lanes) -> list[str]:
    """%S0 to %S5 and %V0 to %V5 with their negatives, in all lanes."""
    lines = []
    for n in range(FACTOR):
        name = "SV"[n // 6] + str(n % 6)
        lines += [f"%o{n} = mul i64 %along, {n}", address(t, f"f{n}", "%f", f"%o{n}")]
        lines += [*splat(t, name, f"%f{n}"), f"%{name}.minus = fneg {t.vector} %{name}"]
    return lines


def _slots(t: Lanes, v: str, tag: str) -> list[str]:
    """%from{tag} and %to{tag}: where the six numbers of a vector of columns are."""
    lines = [f"%slot{tag} = mul i64 {v}, {6 * t.width}"]
    return lines + [address(t, f"{x}{tag}", f"%{x}.all", f"%slot{tag}") for x in ("from", "to")]


def _six(t: Lanes, base: str, tag: str) -> list[str]:
    """%p0 to %p5 of a slot."""
    lines = []
    for k in range(6):
        lines.append(address(t, f"p.at{k}{tag}", base, k * t.width))
        lines.append(f"%p{k}{tag} = load {t.vector}, ptr %p.at{k}{tag}, align {t.dtype.itemsize}")
    return lines


def _along(t: Lanes, x: str, by: str, tag: str) -> list[str]:
    """%to has %p + `by` x."""
    lines = []
    for k in range(6):
        lines.append(_fma(t, f"%q{k}{tag}", f"%{by}{k}", x, f"%p{k}{tag}"))
        lines.append(address(t, f"q.at{k}{tag}", f"%to{tag}", k * t.width))
        store = f"store {t.vector} %q{k}{tag}, ptr %q.at{k}{tag}, align {t.dtype.itemsize}"
        lines.append(store)
    return lines


def _less(t: Lanes, first: str, by: str, tag: str) -> tuple[list[str], str]:
    """first - by . p."""
    lines, sum = [], first
    for k in range(6):
        lines.append(_fma(t, f"%s{k}{tag}", f"%{by}{k}.minus", f"%p{k}{tag}", sum))
        sum = f"%s{k}{tag}"
    return lines, sum


def _met(t: Lanes, way: str, v: str, given: str, column: str, tag: str) -> list[str]:
    """One vector of a row, inward or outward."""
    lines = [*_slots(t, v, tag), *_six(t, f"%from{tag}", tag)]
    by, on = ("S", "V") if way == "inward" else ("V", "S")
    if way == "outward":
        lines.append(f"%du{tag} = fmul {t.vector} %d, {given}")
        given = f"%du{tag}"
    less, found = _less(t, given, by, tag)
    return [
        *lines,
        *less,
        *_along(t, found, on, tag),
        address(t, f"x.at{tag}", "%row", column),
        f"store {t.vector} {found}, ptr %x.at{tag}, align {t.dtype.itemsize}",
    ]


def _row(t: Lanes, way: str) -> list[str]:
    """The last vector ends with the row and shares columns with the one before: it is read first
    and written last, as vector %v1.
    """
    align = t.dtype.itemsize
    before = [
        *_factors(t),
        *(splat(t, "d", "%d.f") if way == "outward" else []),
        address(t, "tail.at", "%row", "%tail"),
        f"%t.tail = load {t.vector}, ptr %tail.at, align {align}",
    ]
    body = [
        f"%column = mul i64 %v, {t.width}",
        address(t, "t.at", "%row", "%column"),
        f"%t = load {t.vector}, ptr %t.at, align {align}",
        *_met(t, way, "%v", "%t", "%column", ""),
    ]
    return _function(way, before, body, _met(t, way, "%v1", "%t.tail", "%tail", ".tail"))


def _columns(t: Lanes) -> list[str]:
    """%column: where vector %v begins, which does not go beyond the row."""
    return [
        f"%column.v = mul i64 %v, {t.width}",
        "%within = icmp slt i64 %column.v, %tail",
        "%column = select i1 %within, i64 %column.v, i64 %tail",
    ]


def _every(t: Lanes, name: str, number: str) -> list[str]:
    """%name: a whole number in all lanes."""
    kind, part = t.integers, f"i{t.bits}"
    short = f"trunc i64 {number} to i32" if t.bits == 32 else f"add i64 {number}, 0"
    return [
        f"%{name}.s = {short}",
        f"%{name}.v = insertelement {kind} poison, {part} %{name}.s, i32 0",
        f"%{name} = shufflevector {kind} %{name}.v, {kind} poison, "
        f"<{t.width} x i32> zeroinitializer",
    ]


def _lanes(t: Lanes) -> str:
    return "<" + ", ".join(f"i{t.bits} {k}" for k in range(t.width)) + ">"


def _unit(t: Lanes) -> list[str]:
    before = [*_factors(t), *_every(t, "own", "%i"), *_every(t, "beyond", "%end")]
    less, u = _less(t, "%t", "S", "")
    which = f"select <{t.width} x i1>"
    body = [
        *_columns(t),
        *_every(t, "column.0", "%column"),
        f"%column.n = add {t.integers} %column.0, {_lanes(t)}",
        f"%is = icmp eq {t.integers} %column.n, %own",
        f"%t = {which} %is, {t.vector} {t.splat(1.0)}, {t.vector} zeroinitializer",
        *_slots(t, "%v", ""),
        *_six(t, "%from", ""),
        *less,
        f"%in = icmp slt {t.integers} %column.n, %beyond",
        f"%u = {which} %in, {t.vector} {u}, {t.vector} zeroinitializer",
        *_along(t, "%u", "V", ""),
        address(t, "u.at", "%row", "%column"),
        f"store {t.vector} %u, ptr %u.at, align {t.dtype.itemsize}",
    ]
    return _function("unit", before, body, [])


def _six_stores(t: Lanes, x: list[str]) -> list[str]:
    """The six numbers of slot %to."""
    lines = []
    for k in range(6):
        lines.append(address(t, f"q.at{k}", "%to", k * t.width))
        lines.append(f"store {t.vector} {x[k]}, ptr %q.at{k}, align {t.dtype.itemsize}")
    return lines


def _of_slots(t: Lanes) -> list[str]:
    """@merge and @clear."""
    slots = _slots(t, "%v", "")
    sums = []
    for k in range(6):
        sums.append(address(t, f"m.at{k}", "%to", k * t.width))
        sums.append(f"%m{k} = load {t.vector}, ptr %m.at{k}, align {t.dtype.itemsize}")
        sums.append(f"%s{k} = fadd {t.vector} %m{k}, %p{k}")
    merged = _six_stores(t, [f"%s{k}" for k in range(6)])
    merge = _function("merge", [], [*slots, *_six(t, "%from", ""), *sums, *merged], [])
    clear = _function("clear", [], [*slots, *_six_stores(t, ["zeroinitializer"] * 6)], [])
    return merge + clear


def _zero(t: Lanes) -> list[str]:
    store = f"store {t.vector} zeroinitializer, ptr %z.at, align {t.dtype.itemsize}"
    return _function("zero", [], [*_columns(t), address(t, "z.at", "%row", "%column"), store], [])


def kernel(t: Lanes) -> list[str]:
    """@sweep: the records of a program one after another, each an operation on one row of c with a
    column of a, where all numbers of a freedom are, and slots of b.

    The program begins with the step of a from number to number, where the numbers are by which a
    solution begins, the step of c from row to row, and the columns and vectors of a row. A record
    is an operation, its row, two slots, its vectors (where a row has a last one by itself, those
    before), and the column before which those of @unit end.
    """
    lines = [*_row(t, "inward"), *_row(t, "outward"), *_unit(t), *_of_slots(t), *_zero(t)]
    lines += [
        f"define internal void @sweep{SIGNATURE} noinline {{",
        "entry:",
        *numbers(HEADER, "%program"),
        f"%slot = mul i64 %vectors, {6 * t.width}",
        f"%tail = sub i64 %columns, {t.width}",
        *each_record(len(HEADER), RECORD, "next"),
        address(t, "f", "%a", "%i"),
        "%d.o = mul i64 %a.along, %d.at",
        address(t, "d.f", "%f", "%d.o"),
        "%row.o = mul i64 %i, %c.row",
        address(t, "row", "%c", "%row.o"),
    ]
    for x in ("from", "to"):
        lines += [f"%{x}.o = mul i64 %slot, %{x}.slot", address(t, x, "%b", f"%{x}.o")]
    choices = [f"i64 {k}, label %{name}" for k, name in enumerate(OPERATIONS)]
    lines += ["switch i64 %operation, label %next [", *choices, "]"]
    given = "(ptr %f, i64 %a.along, ptr %d.f, ptr %row, ptr %from, ptr %to, i64 %v0, i64 %v1, "
    given += "i64 %tail, i64 %i, i64 %end)"
    for name in OPERATIONS:
        lines += [f"{name}:", f"call void @{name}{given}", "br label %next"]
    return [*lines, "next:", "%n1 = add i64 %n, 1", "br label %record", "leave:", "ret void", "}"]


BLOCKS = ("above", "below", "apart")


def mirror(t: Lanes) -> list[str]:
    """@mirror: what is above the diagonal of c, below it, in blocks as wide as a vector.

    The program begins with the step of c from row to row. A record is where a block above begins,
    where its counterpart below, and how many columns the first is to the right of the diagonal; a
    block that the diagonal passes keeps what is above it.
    """
    w, align, each = t.width, t.dtype.itemsize, range(t.width)
    lines = [
        f"define internal void @mirror{SIGNATURE} noinline {{",
        "entry:",
        *numbers(("c.row",), "%program"),
        *each_record(1, BLOCKS, "next"),
        *[f"%o{r} = mul i64 %c.row, {r}" for r in each],
    ]
    for x in ("above", "below"):
        lines.append(address(t, f"{x}.0", "%c", f"%{x}"))
        lines += [address(t, f"{x}{r}", f"%{x}.0", f"%o{r}") for r in each]
    lines += [f"%x{r} = load {t.vector}, ptr %above{r}, align {align}" for r in each]
    moves, turned = exchange(t, [f"%x{r}" for r in each], w, "t")
    lines += [
        *moves,
        f"%passed = icmp slt i64 %apart, {w}",
        "br i1 %passed, label %part, label %all",
    ]
    lines.append("all:")
    lines += [f"store {t.vector} {turned[r]}, ptr %below{r}, align {align}" for r in each]
    lines += ["br label %next", "part:", *_every(t, "far", "%apart")]
    for r in each:
        lines += [
            f"%edge{r} = add {t.integers} %far, {t.splat_integer(r)}",
            f"%in{r} = icmp sle {t.integers} {_lanes(t)}, %edge{r}",
            f"%old{r} = load {t.vector}, ptr %below{r}, align {align}",
            f"%new{r} = select <{w} x i1> %in{r}, {t.vector} {turned[r]}, {t.vector} %old{r}",
            f"store {t.vector} %new{r}, ptr %below{r}, align {align}",
        ]
    return [
        *lines,
        "br label %next",
        "next:",
        "%n1 = add i64 %n, 1",
        "br label %record",
        "leave:",
        "ret void",
        "}",
    ]
