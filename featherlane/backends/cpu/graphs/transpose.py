"""Tiles: `width` rows of up to `columns` entries, transposed in registers by exchanging ever larger
blocks.
"""

from __future__ import annotations

from functools import partial

from featherlane.backends.cpu.strides import power_of_two
from featherlane.backends.llvm.lower import Lanes, scalar_at, vector_at
from featherlane.backends.llvm.macros import expanded

MARK = 1 << 31  # a bit in the table of an output: the tile that begins here has only zeros
MASKED = "@llvm.masked.{}.v{}f{}.p0"


def exchange(t: Lanes, vectors: list[str], columns: int, tag: str) -> tuple[list[str], list[str]]:
    """Transposes each columns x columns block that the vectors hold side by side."""
    lines, step = [], 1
    while step < columns:
        transposed = list(vectors)
        for g in range(columns):
            if g & step:
                continue
            a, b = vectors[g], vectors[g + step]
            low = [x if not x & step else t.width + x - step for x in range(t.width)]
            high = [x + step if not x & step else t.width + x for x in range(t.width)]
            for k, lanes in ((g, low), (g + step, high)):
                transposed[k] = f"%{tag}{step}.{k}"
                pair = f"{t.vector} {a}, {t.vector} {b}"
                lines.append(f"{transposed[k]} = shufflevector {pair}, {t.lane_mask(lanes)}")
        vectors, step = transposed, 2 * step
    return lines, vectors


def _concatenate(t: Lanes, parts: list[str], size: int, to: str) -> list[str]:
    """Joins vectors of `size` numbers to one, in pairs of ever larger ones."""
    lines = []
    while len(parts) > 1:
        joined = []
        for k in range(0, len(parts), 2):
            name = f"{to}.{2 * size}.{k}" if len(parts) > 2 else to
            pair = f"{t.of(size)} {parts[k]}, {t.of(size)} {parts[k + 1]}"
            lines.append(f"{name} = shufflevector {pair}, {t.lane_mask(range(2 * size))}")
            joined.append(name)
        parts, size = joined, 2 * size
    return lines


def _used(columns: int, used: int) -> str:
    """The mask of a masked load or store: the entries that are used."""
    bits = ", ".join(f"i1 {'true' if c < used else 'false'}" for c in range(columns))
    return f"<{columns} x i1> <{bits}>"


def masked_declarations(t: Lanes, columns: int) -> list[str]:
    """The intrinsics that tiles with unused columns call."""
    v, mask = t.of(columns), f"<{columns} x i1>"
    return [
        f"declare {v} {MASKED.format('load', columns, t.bits)}(ptr, i32, {mask}, {v})",
        f"declare void {MASKED.format('store', columns, t.bits)}({v}, ptr, i32, {mask})",
    ]


def tile_name(way: str, columns: int, used: int) -> str:
    return f"tile_{way}_{columns}_{used}"


def tile(t: Lanes, way: str, columns: int, used: int) -> list[str]:
    """A function that transposes `count` tiles side by side: `used` <= `columns` entries of each of
    `width` rows. The pointers to the rows stay in registers from one tile to the next.

    way: "in" from rows to lanes, or "out" from lanes to rows, or "stream" by non-temporal stores to
    rows that are aligned to whole vectors.
    """
    arguments = "ptr %rows, ptr %offsets, ptr noalias %lanes, ptr %table, i64 %count"
    rows, stream = range(t.width), way == "stream"
    moves = _rows_to_lanes if way == "in" else partial(_lanes_to_rows, stream=stream)
    lines = [
        f"define internal void @{tile_name(way, columns, used)}({arguments}) noinline {{",
        *[f"%b{r} = at %rows $(item i64 %offsets {r})" for r in rows],
        "repeat %n",
        f"%column = mul i64 %n, {columns}",
        *[scalar_at(t, f"%r{r}", f"%b{r}", "%column") for r in rows],
        *moves(t, columns, used),
        "again %n %count",
        "ret void",
        "}",
    ]
    return [expanded("\n".join(lines))]


def _rows_to_lanes(t: Lanes, columns: int, used: int) -> list[str]:
    """Instructions that load a row of each state into columns, a vector of states each."""
    small, align, lines = t.of(columns), t.dtype.itemsize, []
    for r in range(t.width):
        to = f"%v{r}" if columns == t.width else f"%s{r}"
        if used == columns:
            lines.append(f"{to} = load {small}, ptr %r{r}, align {align}")
        else:
            call = f"call {small} {MASKED.format('load', columns, t.bits)}"
            mask = f"{_used(columns, used)}, {small} zeroinitializer"
            lines.append(f"{to} = {call}(ptr %r{r}, i32 {align}, {mask})")
    if columns < t.width:
        for g in range(columns):
            parts = [f"%s{r}" for r in range(g, t.width, columns)]
            lines += _concatenate(t, parts, columns, f"%v{g}")
    moves, transposed = exchange(t, [f"%v{g}" for g in range(columns)], columns, "x")
    lines += [*moves, f"%to = getelementptr inbounds {t.vector}, ptr %lanes, i64 %column"]
    for c in range(used):
        lines.append(vector_at(t, f"%d{c}", "%to", c))
        lines.append(f"store {t.vector} {transposed[c]}, ptr %d{c}, align {t.bytes}")
    return lines


def _store_row(t: Lanes, value: str, to: str, columns: int, stream: bool) -> str:
    how = f"align {t.bytes}, !nontemporal !0" if stream else f"align {t.dtype.itemsize}"
    return f"store {t.of(columns)} {value}, ptr {to}, {how}"


def _lanes_to_rows(t: Lanes, columns: int, used: int, stream: bool) -> list[str]:
    """Instructions that store columns, a vector of states each, as a row of each state."""
    moves, transposed = exchange(t, [f"%v{c}" for c in range(columns)], columns, "x")
    lines = [*_load_columns(t, columns, used, stream), *moves]
    for r in range(t.width):
        row, part = transposed[r % columns], r // columns
        if columns < t.width:
            lanes = t.lane_mask(range(part * columns, (part + 1) * columns))
            lines.append(f"%s{r} = shufflevector {t.vector} {row}, {t.vector} poison, {lanes}")
            row = f"%s{r}"
        if used == columns:
            lines.append(_store_row(t, row, f"%r{r}", columns, stream))
        else:
            call = f"call void {MASKED.format('store', columns, t.bits)}"
            value = f"{t.of(columns)} {row}, ptr %r{r}, i32 {t.dtype.itemsize}"
            lines.append(f"{call}({value}, {_used(columns, used)})")
    return lines


def _load_columns(t: Lanes, columns: int, used: int, stream: bool) -> list[str]:
    """Loads the vector of each column, whose offset in bytes is in the table. A tile with MARK
    stores zeros without being transposed: 6 to 8 % of M (docs/performance.md, "What else was
    tried").
    """
    rows = [f"%r{r}" for r in range(t.width)]
    zeros = [
        "when slt i32 %i0, 0: zeros, some",
        "zeros:",
        *[_store_row(t, "zeroinitializer", row, columns, stream) for row in rows],
        "br label %n.end",
        "some:",
    ]
    lines = ["%entries = getelementptr inbounds i32, ptr %table, i64 %column"]
    for c in range(columns):
        at = f"getelementptr inbounds i32, ptr %entries, i64 {min(c, used - 1)}"
        lines.append(f"%i{c} = load i32, ptr $({at}), align 4")
        if c == 0 and used == columns == t.width:
            lines += zeros
        lines.append(f"%a{c} = at %lanes $(zext i32 %i{c} to i64)")
        lines.append(f"%v{c} = load {t.vector}, ptr %a{c}, align {t.bytes}")
    return lines


def tail(size: int, width: int) -> tuple[int, int] | None:
    """(columns, used columns) of the tile for the entries beyond full tiles; None if there are
    none.
    """
    used = size % width
    return (power_of_two(used), used) if used else None
