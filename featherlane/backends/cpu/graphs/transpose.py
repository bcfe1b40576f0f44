"""Tiles: `width` rows of up to `columns` entries, transposed in registers by exchanging ever larger
blocks.
"""

from __future__ import annotations

from featherlane.backends.llvm.lower import Lanes, vector_at

MARK = 1 << 31  # of a tile of zeros, in the table of an output


def exchange(t: Lanes, vectors: list[str], columns: int, tag: str) -> tuple[list[str], list[str]]:
    """Transposes each columns x columns block that the vectors hold side by side."""
    lines, step = [], 1
    while step < columns:
        turned = list(vectors)
        for g in range(columns):
            if g & step:
                continue
            a, b = vectors[g], vectors[g + step]
            low = [x if not x & step else t.width + x - step for x in range(t.width)]
            high = [x + step if not x & step else t.width + x for x in range(t.width)]
            for k, mask in ((g, low), (g + step, high)):
                turned[k] = f"%{tag}{step}.{k}"
                indices = ", ".join(f"i32 {m}" for m in mask)
                pair = f"{t.vector} {a}, {t.vector} {b}"
                chosen = f"<{t.width} x i32> <{indices}>"
                lines.append(f"{turned[k]} = shufflevector {pair}, {chosen}")
        vectors, step = turned, 2 * step
    return lines, vectors


def _join(t: Lanes, parts: list[str], size: int, to: str) -> list[str]:
    """Vectors of `size` numbers side by side in one."""
    lines = []
    while len(parts) > 1:
        joined = []
        for k in range(0, len(parts), 2):
            name = f"{to}.{2 * size}.{k}" if len(parts) > 2 else to
            indices = ", ".join(f"i32 {m}" for m in range(2 * size))
            lines.append(
                f"{name} = shufflevector {t.of(size)} {parts[k]}, {t.of(size)} {parts[k + 1]}, "
                f"<{2 * size} x i32> <{indices}>"
            )
            joined.append(name)
        parts, size = joined, 2 * size
    return lines


def _mask(columns: int, used: int) -> str:
    return "<" + ", ".join(f"i1 {'true' if c < used else 'false'}" for c in range(columns)) + ">"


def tile_name(way: str, columns: int, used: int) -> str:
    return f"tile_{way}_{columns}_{used}"


def tile(t: Lanes, way: str, columns: int, used: int) -> list[str]:
    """A function that moves `count` tiles side by side: `used` <= `columns` entries of each of
    `width` rows.

    way: "in" or "out", or "stream" for stores that bypass the caches, to rows aligned to whole
    vectors. It keeps the pointers to the rows in registers from one tile to the next.
    """
    arguments = "ptr %rows, ptr %offsets, ptr noalias %lanes, ptr %table, i64 %count"
    lines = [
        f"define internal void @{tile_name(way, columns, used)}({arguments}) noinline {{",
        "entry:",
    ]
    for r in range(t.width):
        lines.append(f"%w{r} = getelementptr inbounds i64, ptr %offsets, i64 {r}")
        lines.append(f"%f{r} = load i64, ptr %w{r}, align 8")
        lines.append(f"%b{r} = getelementptr inbounds i8, ptr %rows, i64 %f{r}")
    lines += ["br label %tile", "tile:", "%n = phi i64 [ 0, %entry ], [ %n1, %moved ]"]
    lines.append(f"%column = mul i64 %n, {columns}")
    for r in range(t.width):
        lines.append(f"%r{r} = getelementptr inbounds {t.scalar}, ptr %b{r}, i64 %column")
    lines += (
        _rows_to_lanes(t, columns, used)
        if way == "in"
        else _lanes_to_rows(t, columns, used, way == "stream")
    )
    lines += [
        "br label %moved",
        "moved:",
        "%n1 = add i64 %n, 1",
        "%more = icmp slt i64 %n1, %count",
    ]
    return [*lines, "br i1 %more, label %tile, label %done", "done:", "ret void", "}"]


def _rows_to_lanes(t: Lanes, columns: int, used: int) -> list[str]:
    small, align, lines = t.of(columns), t.dtype.itemsize, []
    for r in range(t.width):
        to = f"%v{r}" if columns == t.width else f"%s{r}"
        if used == columns:
            lines.append(f"{to} = load {small}, ptr %r{r}, align {align}")
        else:
            mask = f"<{columns} x i1> {_mask(columns, used)}, {small} zeroinitializer"
            call = f"call {small} @llvm.masked.load.v{columns}f{t.bits}.p0"
            lines.append(f"{to} = {call}(ptr %r{r}, i32 {align}, {mask})")
    if columns < t.width:
        for g in range(columns):
            lines += _join(t, [f"%s{r}" for r in range(g, t.width, columns)], columns, f"%v{g}")
    moves, turned = exchange(t, [f"%v{g}" for g in range(columns)], columns, "x")
    lines += [*moves, f"%to = getelementptr inbounds {t.vector}, ptr %lanes, i64 %column"]
    for c in range(used):
        lines.append(vector_at(t, f"%d{c}", "%to", c))
        lines.append(f"store {t.vector} {turned[c]}, ptr %d{c}, align {t.bytes}")
    return lines


def _stored(t: Lanes, kind: str, value: str, to: str, stream: bool) -> str:
    how = f"align {t.bytes}, !nontemporal !0" if stream else f"align {t.dtype.itemsize}"
    return f"store {kind} {value}, ptr {to}, {how}"


def _lanes_to_rows(t: Lanes, columns: int, used: int, stream: bool) -> list[str]:
    """The table names the vector of each entry, as an offset in bytes; zeros need no turning."""
    small, align = t.of(columns), t.dtype.itemsize
    lines = ["%entries = getelementptr inbounds i32, ptr %table, i64 %column"]
    for c in range(columns):
        lines.append(f"%t{c} = getelementptr inbounds i32, ptr %entries, i64 {min(c, used - 1)}")
        lines.append(f"%i{c} = load i32, ptr %t{c}, align 4")
        if c == 0 and used == columns == t.width:
            lines += ["%nothing = icmp slt i32 %i0, 0", "br i1 %nothing, label %zeros, label %some"]
            lines.append("zeros:")
            for r in range(t.width):
                lines.append(_stored(t, small, "zeroinitializer", f"%r{r}", stream))
            lines += ["br label %moved", "some:"]
        lines.append(f"%j{c} = zext i32 %i{c} to i64")
        lines.append(f"%a{c} = getelementptr inbounds i8, ptr %lanes, i64 %j{c}")
        lines.append(f"%v{c} = load {t.vector}, ptr %a{c}, align {t.bytes}")
    moves, turned = exchange(t, [f"%v{c}" for c in range(columns)], columns, "x")
    lines += moves
    for r in range(t.width):
        source, part = turned[r % columns], r // columns
        if columns < t.width:
            indices = ", ".join(f"i32 {part * columns + c}" for c in range(columns))
            shuffle = f"shufflevector {t.vector} {source}, {t.vector} poison"
            lines.append(f"%s{r} = {shuffle}, <{columns} x i32> <{indices}>")
            source = f"%s{r}"
        if used == columns:
            lines.append(_stored(t, small, source, f"%r{r}", stream))
        else:
            mask = f"<{columns} x i1> {_mask(columns, used)}"
            call = f"call void @llvm.masked.store.v{columns}f{t.bits}.p0"
            lines.append(f"{call}({small} {source}, ptr %r{r}, i32 {align}, {mask})")
    return lines


def tail(size: int, width: int) -> tuple[int, int] | None:
    """The tile of what is left of `size` entries after full tiles: its columns (a power of two),
    and those used.
    """
    used = size % width
    return (1 << (used - 1).bit_length(), used) if used else None
