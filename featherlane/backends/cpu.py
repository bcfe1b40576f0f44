"""The CPU: a graph as machine code whose inner loop has the signature of a NumPy generalised ufunc.

A block of `width` states goes through three steps: rows of the user's arrays are turned into lanes in registers
(`tile_in`), the graph runs once on vectors (`compute`), and lanes are turned back into rows (`tile_out`). Entries that
two places of an output share, and zeros, are computed and kept once: a table says which vector each entry shows.
A last block with fewer states repeats its last state in the lanes left over, so that nothing is read or written out
of bounds, no garbage raises a floating-point flag, and every state is computed by the same instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from featherlane.backends.llvm import Lanes, declarations, straight_line
from featherlane.graph.graph import Graph
from featherlane.graph.routine import Program


STREAM = 4 << 20  # bytes of a result above which its stores bypass the caches


class Array(NamedTuple):
    """An input or output array as the loop sees it: its core shape, and where its entries lie in the scratch."""

    name: str
    shape: tuple[int, ...]
    slots: tuple[int, ...]  # by entry, in vectors

    @property
    def size(self) -> int:
        return len(self.slots)


class _Layout:
    """Which vector of the scratch each value lives in: inputs in one part, all that is computed in the other."""

    def __init__(self, program: Program) -> None:
        self.program, main = program, program.main
        self.inputs, self.loads = _input_slots(main, program.inputs)
        self.stores: dict[int, list[int]] = {}  # for nodes of the main graph
        self.size = 0
        self.each: list[int] = []
        self.result: list[int] = []
        results: dict[tuple[str, int], int] = {}
        for k in range(len(program.routines)):
            shared, each, result = program.names(k)
            for node in main.outputs[shared].nodes:
                self._once(node)
            self.each.append(self.size)
            for node in main.outputs[each].nodes:
                self.stores.setdefault(node, []).append(self._next())
            self.result.append(self.size)
            for i in range(int(np.prod(main.inputs[result]))):
                results[result, i] = self._next()
        self.outputs = [
            Array(name, out.shape, tuple(self._shown(n, results) for n in out.nodes))
            for name, out in program.outputs.items()
        ]

    def _next(self) -> int:
        self.size += 1
        return self.size - 1

    def _shown(self, node: int, results: dict[tuple[str, int], int]) -> int:
        value = self.program.main.value[node]
        return results[value] if value in results else self._once(node)

    def _once(self, node: int) -> int:
        """The slot of a value that needs but one."""
        if node not in self.stores:
            self.stores[node] = [self._next()]
        return self.stores[node][0]


def _input_slots(
    graph: Graph, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[list[Array], dict[tuple[str, int], int]]:
    arrays, loads = [], {}
    for name, shape in shapes.items():
        slots = tuple(range(len(loads), len(loads) + int(np.prod(shape))))
        arrays.append(Array(name, shape, slots))
        loads |= {(name, i): slot for i, slot in enumerate(slots)}
    return arrays, loads


def _vector_at(t: Lanes, name: str, base: str, slot: int) -> str:
    return f"{name} = getelementptr inbounds {t.vector}, ptr {base}, i64 {slot}"


def _body(
    graph: Graph, t: Lanes, load_from: Callable[[Any], tuple[str, int] | None], store_to: Mapping[int, Sequence[int]], base: str
) -> list[str]:
    """A graph as straight-line code: load_from(value of an input) and store_to[node] are places in the scratch."""

    def load(k: int, name: str) -> list[str]:
        place = load_from(graph.value[k])
        if place is None:  # a routine's result, which is not there yet
            return []
        where = _vector_at(t, f"{name}.at", *place)
        return [where, f"{name} = load {t.vector}, ptr {name}.at, align {t.bytes}"]

    def store(k: int, name: str) -> list[str]:
        lines = []
        for n, slot in enumerate(store_to.get(k, ())):
            lines.append(_vector_at(t, f"%o{k}.{n}", base, slot))
            lines.append(f"store {t.vector} {name}, ptr %o{k}.{n}, align {t.bytes}")
        return lines

    return straight_line(graph, t, load, store)


def _compute(layout: _Layout, t: Lanes) -> list[str]:
    """@compute runs the main graph and then each routine over its columns."""
    program, main, lines = layout.program, layout.program.main, []
    for k, routine in enumerate(program.routines):
        shared = [layout.stores[n][0] for n in main.outputs[program.names(k)[0]].nodes]
        place = {"shared": lambda i, shared=shared: ("%out", shared[i]), "each": lambda i: ("%each", i)}
        results: dict[int, list[int]] = {}
        for i, n in enumerate(routine.outputs["result"].nodes):
            results.setdefault(n, []).append(i)
        lines.append(f"define internal void @routine{k}(ptr %out, ptr %each, ptr %result) noinline {{")
        lines += _body(routine, t, lambda value, place=place: place[value[0]](value[1]), results, "%result")
        lines += ["ret void", "}"]
    lines.append("define internal void @compute(ptr noalias %in, ptr noalias %out) noinline {")
    inputs = {value: ("%in", slot) for value, slot in layout.loads.items()}
    lines += _body(main, t, inputs.get, layout.stores, "%out")
    for k in range(len(program.routines)):
        calls, size = main.outputs[program.names(k)[1]].shape
        gives = len(program.routines[k].outputs["result"].nodes)
        before = f"before{k}"
        lines += [
            f"br label %{before}",
            f"{before}:",
            f"br label %loop{k}",
            f"loop{k}:",
            f"%c{k} = phi i64 [ 0, %{before} ], [ %next{k}, %loop{k} ]",
            f"%ce{k} = mul i64 %c{k}, {size}",
            f"%ei{k} = add i64 %ce{k}, {layout.each[k]}",
            f"%each{k} = getelementptr inbounds {t.vector}, ptr %out, i64 %ei{k}",
            f"%cr{k} = mul i64 %c{k}, {gives}",
            f"%ri{k} = add i64 %cr{k}, {layout.result[k]}",
            f"%result{k} = getelementptr inbounds {t.vector}, ptr %out, i64 %ri{k}",
            f"call void @routine{k}(ptr %out, ptr %each{k}, ptr %result{k})",
            f"%next{k} = add i64 %c{k}, 1",
            f"%more{k} = icmp slt i64 %next{k}, {calls}",
            f"br i1 %more{k}, label %loop{k}, label %done{k}",
            f"done{k}:",
        ]
    return [*lines, "ret void", "}"]


# Tiles: `width` rows of up to `columns` entries, transposed in registers by exchanging ever larger blocks.


def _exchange(t: Lanes, vectors: list[str], columns: int, tag: str) -> tuple[list[str], list[str]]:
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
                lines.append(
                    f"{turned[k]} = shufflevector {t.vector} {a}, {t.vector} {b}, <{t.width} x i32> <{indices}>"
                )
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


def _tile_name(way: str, columns: int, used: int) -> str:
    return f"tile_{way}_{columns}_{used}"


def _tile(t: Lanes, way: str, columns: int, used: int) -> list[str]:
    """A function that moves `count` tiles side by side: `used` <= `columns` entries of each of `width` rows.

    way: "in" or "out", or "stream" for stores that bypass the caches, to rows aligned to whole vectors.
    It keeps the pointers to the rows in registers from one tile to the next.
    """
    arguments = "ptr %rows, ptr %offsets, ptr noalias %lanes, ptr %table, i64 %count"
    lines = [f"define internal void @{_tile_name(way, columns, used)}({arguments}) noinline {{", "entry:"]
    for r in range(t.width):
        lines.append(f"%w{r} = getelementptr inbounds i64, ptr %offsets, i64 {r}")
        lines.append(f"%f{r} = load i64, ptr %w{r}, align 8")
        lines.append(f"%b{r} = getelementptr inbounds i8, ptr %rows, i64 %f{r}")
    lines += ["br label %tile", "tile:", "%n = phi i64 [ 0, %entry ], [ %n1, %tile ]"]
    lines.append(f"%column = mul i64 %n, {columns}")
    for r in range(t.width):
        lines.append(f"%r{r} = getelementptr inbounds {t.scalar}, ptr %b{r}, i64 %column")
    lines += _rows_to_lanes(t, columns, used) if way == "in" else _lanes_to_rows(t, columns, used, way == "stream")
    lines += ["%n1 = add i64 %n, 1", "%more = icmp slt i64 %n1, %count"]
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
    moves, turned = _exchange(t, [f"%v{g}" for g in range(columns)], columns, "x")
    lines += [*moves, f"%to = getelementptr inbounds {t.vector}, ptr %lanes, i64 %column"]
    for c in range(used):
        lines.append(_vector_at(t, f"%d{c}", "%to", c))
        lines.append(f"store {t.vector} {turned[c]}, ptr %d{c}, align {t.bytes}")
    return lines


def _lanes_to_rows(t: Lanes, columns: int, used: int, stream: bool) -> list[str]:
    """The table names the vector of each entry, as an offset in bytes."""
    small, align = t.of(columns), t.dtype.itemsize
    lines = ["%entries = getelementptr inbounds i32, ptr %table, i64 %column"]
    for c in range(columns):
        lines.append(f"%t{c} = getelementptr inbounds i32, ptr %entries, i64 {min(c, used - 1)}")
        lines.append(f"%i{c} = load i32, ptr %t{c}, align 4")
        lines.append(f"%j{c} = zext i32 %i{c} to i64")
        lines.append(f"%a{c} = getelementptr inbounds i8, ptr %lanes, i64 %j{c}")
        lines.append(f"%v{c} = load {t.vector}, ptr %a{c}, align {t.bytes}")
    moves, turned = _exchange(t, [f"%v{c}" for c in range(columns)], columns, "x")
    lines += moves
    for r in range(t.width):
        source, part = turned[r % columns], r // columns
        if columns < t.width:
            indices = ", ".join(f"i32 {part * columns + c}" for c in range(columns))
            shuffle = f"shufflevector {t.vector} {source}, {t.vector} poison"
            lines.append(f"%s{r} = {shuffle}, <{columns} x i32> <{indices}>")
            source = f"%s{r}"
        if stream:
            lines.append(f"store {small} {source}, ptr %r{r}, align {t.bytes}, !nontemporal !0")
        elif used == columns:
            lines.append(f"store {small} {source}, ptr %r{r}, align {align}")
        else:
            mask = f"<{columns} x i1> {_mask(columns, used)}"
            call = f"call void @llvm.masked.store.v{columns}f{t.bits}.p0"
            lines.append(f"{call}({small} {source}, ptr %r{r}, i32 {align}, {mask})")
    return lines


def _tail(size: int, width: int) -> tuple[int, int] | None:
    """The tile of what is left of `size` entries after full tiles: its columns (a power of two), and those used."""
    used = size % width
    return (1 << (used - 1).bit_length(), used) if used else None


def _helpers(t: Lanes) -> str:
    """Row offsets of a block, and the slow way for arrays whose rows are not contiguous."""
    move = f"""
  %r = phi i64 [ 0, %entry ], [ %r1, %next_row ]
  %offset_at = getelementptr inbounds i64, ptr %offsets, i64 %r
  %offset = load i64, ptr %offset_at, align 8
  %row = getelementptr inbounds i8, ptr %rows, i64 %offset
  br label %first
first:
  %i = phi i64 [ 0, %each_row ], [ %i1, %next_first ]
  %oi = mul i64 %i, %step1
  br label %second
second:
  %j = phi i64 [ 0, %first ], [ %j1, %second ]
  %oj = mul i64 %j, %step2
  %o = add i64 %oi, %oj
  %entry_at = getelementptr inbounds i8, ptr %row, i64 %o
  %ij = mul i64 %i, %size2
  %e = add i64 %ij, %j
  MOVE
  %j1 = add i64 %j, 1
  %more2 = icmp slt i64 %j1, %size2
  br i1 %more2, label %second, label %next_first
next_first:
  %i1 = add i64 %i, 1
  %more1 = icmp slt i64 %i1, %size1
  br i1 %more1, label %first, label %next_row
next_row:
  %r1 = add i64 %r, 1
  %more = icmp slt i64 %r1, {t.width}
  br i1 %more, label %each_row, label %done
done:
  ret void
}}"""
    arguments = "ptr %rows, ptr %offsets, i64 %size1, i64 %size2, i64 %step1, i64 %step2"
    align = t.dtype.itemsize
    gather = f"""%slot = mul i64 %e, {t.width}
  %lane = add i64 %slot, %r
  %to = getelementptr inbounds {t.scalar}, ptr %lanes, i64 %lane
  %x = load {t.scalar}, ptr %entry_at, align {align}
  store {t.scalar} %x, ptr %to, align {align}"""
    scatter = f"""%table_at = getelementptr inbounds i32, ptr %table, i64 %e
  %slot = load i32, ptr %table_at, align 4
  %slot64 = zext i32 %slot to i64
  %vector = getelementptr inbounds i8, ptr %lanes, i64 %slot64
  %from = getelementptr inbounds {t.scalar}, ptr %vector, i64 %r
  %x = load {t.scalar}, ptr %from, align {align}
  store {t.scalar} %x, ptr %entry_at, align {align}"""
    return f"""
define internal void @offsets(ptr %to, i64 %step, i64 %last) noinline {{
entry:
  br label %each
each:
  %r = phi i64 [ 0, %entry ], [ %r1, %each ]
  %small = icmp slt i64 %r, %last
  %row = select i1 %small, i64 %r, i64 %last
  %offset = mul i64 %row, %step
  %at = getelementptr inbounds i64, ptr %to, i64 %r
  store i64 %offset, ptr %at, align 8
  %r1 = add i64 %r, 1
  %more = icmp slt i64 %r1, {t.width}
  br i1 %more, label %each, label %done
done:
  ret void
}}
define internal void @gather({arguments}, ptr noalias %lanes) noinline {{
entry:
  br label %each_row
each_row:{move.replace("MOVE", gather)}
define internal void @scatter({arguments}, ptr noalias %lanes, ptr %table) noinline {{
entry:
  br label %each_row
each_row:{move.replace("MOVE", scatter)}
"""


class _Move(NamedTuple):
    """One array of the loop: its number among the arguments and where its core strides begin."""

    array: Array
    number: int
    first_stride: int
    output: bool


def _moves(inputs: list[Array], outputs: list[Array]) -> list[_Move]:
    stride, moves = len(inputs) + len(outputs), []
    for k, array in enumerate([*inputs, *outputs]):
        moves.append(_Move(array, k, stride, k >= len(inputs)))
        stride += len(array.shape)
    return moves


def _prologue(t: Lanes, move: _Move) -> list[str]:
    """Before the loop: base pointer, strides, and whether the entries of a row are contiguous."""
    n, shape = move.number, move.array.shape
    lines = [
        f"%a{n} = getelementptr inbounds ptr, ptr %args, i64 {n}",
        f"%base{n} = load ptr, ptr %a{n}, align 8",
        f"%s{n} = getelementptr inbounds i64, ptr %steps, i64 {n}",
        f"%step{n} = load i64, ptr %s{n}, align 8",
        f"%offsets{n} = alloca [{t.width} x i64], align 64",
        f"%jump{n} = mul i64 %step{n}, {t.width}",
    ]
    dense, expected = [], t.dtype.itemsize
    for axis in reversed(range(len(shape))):
        lines.append(f"%c{n}.{axis} = getelementptr inbounds i64, ptr %steps, i64 {move.first_stride + axis}")
        lines.append(f"%core{n}.{axis} = load i64, ptr %c{n}.{axis}, align 8")
        lines.append(f"%is{n}.{axis} = icmp eq i64 %core{n}.{axis}, {expected}")
        dense.append(f"%is{n}.{axis}")
        expected *= shape[axis]
    known = "true"
    for k, test in enumerate(dense):
        lines.append(f"%dense{n}.{k} = and i1 {known}, {test}")
        known = f"%dense{n}.{k}"
    lines.append(f"%dense{n} = or i1 {known}, false")
    if move.output:  # results that the caches cannot hold go past them
        lines += [
            f"%address{n} = ptrtoint ptr %base{n} to i64",
            f"%bits{n} = or i64 %address{n}, %step{n}",
            f"%off{n} = and i64 %bits{n}, {t.bytes - 1}",
            f"%aligned{n} = icmp eq i64 %off{n}, 0",
            f"%total{n} = mul i64 %n, %step{n}",
            f"%large{n} = icmp sgt i64 %total{n}, {STREAM}",
            f"%stream{n} = and i1 %aligned{n}, %large{n}",
        ]
    return lines


def _transfer(t: Lanes, move: _Move, lanes: str) -> list[str]:
    """Inside the loop: the rows of one array to or from its lanes."""
    n, array = move.number, move.array
    table = f"@table{n}" if move.output else "null"

    def tiles(way: str, columns: int, used: int, count: int, first: int) -> list[str]:
        at = f"{n}.{first}.{way}"
        lines = [f"%rows{at} = getelementptr inbounds {t.scalar}, ptr %row{n}, i64 {first}"]
        if move.output:
            given = f"ptr {lanes}, ptr %tab{at}"
            lines.append(f"%tab{at} = getelementptr inbounds i32, ptr {table}, i64 {first}")
        else:
            given = f"ptr %to{at}, ptr null"
            lines.append(_vector_at(t, f"%to{at}", lanes, first))
        call = f"call void @{_tile_name(way, columns, used)}"
        return [*lines, f"{call}(ptr %rows{at}, ptr %offsets{n}, {given}, i64 {count})"]

    lines = [f"br i1 %dense{n}, label %fast{n}, label %slow{n}", f"fast{n}:"]
    way, full = "out" if move.output else "in", array.size // t.width
    if full:
        whole = (t.width, t.width, full, 0)
        if move.output:
            lines += [f"br i1 %stream{n}, label %past{n}, label %through{n}", f"past{n}:", *tiles("stream", *whole)]
            lines += [f"br label %tail{n}", f"through{n}:", *tiles(way, *whole), f"br label %tail{n}", f"tail{n}:"]
        else:
            lines += tiles(way, *whole)
    if tail := _tail(array.size, t.width):
        lines += tiles(way, *tail, 1, full * t.width)
    sizes = (1,) * (2 - len(array.shape)) + array.shape
    steps = [f"%core{n}.{axis}" for axis in range(len(array.shape))]
    steps = ["0"] * (2 - len(steps)) + steps
    given = f"ptr %row{n}, ptr %offsets{n}, i64 {sizes[0]}, i64 {sizes[1]}, i64 {steps[0]}, i64 {steps[1]}"
    slow = f"@scatter({given}, ptr {lanes}, ptr {table})" if move.output else f"@gather({given}, ptr {lanes})"
    return [*lines, f"br label %ready{n}", f"slow{n}:", f"call void {slow}", f"br label %ready{n}", f"ready{n}:"]


def _loop(t: Lanes, moves: Sequence[_Move], size_in: int, size_out: int) -> list[str]:
    lines = ["define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {", "entry:"]
    lines += ["%n = load i64, ptr %dims, align 8"]
    lines += [f"%in = alloca [{max(size_in, 1)} x {t.vector}], align 64"]
    lines += [f"%out = alloca [{max(size_out, 1)} x {t.vector}], align 64"]
    for move in moves:
        lines += _prologue(t, move)
    lines += ["%any = icmp sgt i64 %n, 0", "br i1 %any, label %begin, label %end", "begin:"]
    lines += ["br label %block", "block:"]
    lines += ["%b = phi i64 [ 0, %begin ], [ %b1, %after ]"]
    for move in moves:
        k = move.number
        lines.append(f"%row{k} = phi ptr [ %base{k}, %begin ], [ %nextrow{k}, %after ]")
    lines += ["%left = sub i64 %n, %b", f"%partial = icmp slt i64 %left, {t.width}"]
    lines += ["%first = icmp eq i64 %b, 0", "%measure = or i1 %partial, %first"]
    lines += ["br i1 %measure, label %rows, label %go", "rows:"]
    lines += [f"%count = select i1 %partial, i64 %left, i64 {t.width}", "%last = sub i64 %count, 1"]
    for move in moves:
        k = move.number
        lines.append(f"call void @offsets(ptr %offsets{k}, i64 %step{k}, i64 %last)")
    lines += ["br label %go", "go:"]
    for move in moves:
        if not move.output and move.array.size:
            lines.append(f"%lanes{move.number} = getelementptr inbounds {t.vector}, ptr %in, i64 {move.array.slots[0]}")
            lines += _transfer(t, move, f"%lanes{move.number}")
    lines.append("call void @compute(ptr %in, ptr %out)")
    for move in moves:
        if move.output:
            lines += _transfer(t, move, "%out")
    lines += ["br label %after", "after:", f"%b1 = add i64 %b, {t.width}"]
    for move in moves:
        k = move.number
        lines.append(f"%nextrow{k} = getelementptr inbounds i8, ptr %row{k}, i64 %jump{k}")
    lines += ["%more = icmp slt i64 %b1, %n", "br i1 %more, label %block, label %end", "end:", "ret void", "}"]
    return lines


def _tables(t: Lanes, outputs: list[Array], first: int) -> list[str]:
    lines = []
    for k, array in enumerate(outputs):
        entries = ", ".join(f"i32 {slot * t.bytes}" for slot in array.slots)
        lines.append(f"@table{first + k} = private constant [{array.size} x i32] [{entries}], align 4")
    return lines


def source(program: Program, dtype: np.dtype, width: int) -> str:
    """The LLVM IR of a program's loop."""
    t = Lanes(np.dtype(dtype), width)
    layout = _Layout(program)
    inputs, outputs = layout.inputs, layout.outputs
    moves = _moves(inputs, outputs)
    lines = declarations(t) + _tables(t, outputs, len(inputs))
    tiles = set()
    for move in moves:
        if move.array.size >= width:
            tiles |= {(way, width, width) for way in (("out", "stream") if move.output else ("in",))}
        if tail := _tail(move.array.size, width):
            tiles.add(("out" if move.output else "in", *tail))
    for way, columns, used in sorted(tiles):
        lines += _tile(t, way, columns, used)
    for columns in sorted({columns for _, columns, used in tiles if used < columns}):
        v, mask = t.of(columns), f"<{columns} x i1>"
        lines.append(f"declare {v} @llvm.masked.load.v{columns}f{t.bits}.p0(ptr, i32, {mask}, {v})")
        lines.append(f"declare void @llvm.masked.store.v{columns}f{t.bits}.p0({v}, ptr, i32, {mask})")
    lines += _compute(layout, t)
    lines += _loop(t, moves, sum(a.size for a in inputs), layout.size)
    return "\n".join([*lines, "!0 = !{i32 1}"]) + _helpers(t)


# The machine


def _features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


def widest(dtype: np.dtype) -> int:
    """The lanes of the host's widest vectors."""
    has = _features()
    bits = 512 if has.get("avx512f") and has.get("avx512vl") else 256 if has.get("avx") else 128
    return bits // (8 * np.dtype(dtype).itemsize)


def target() -> str:
    """The processor that code is made for."""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic", codemodel="jitdefault"
    )


def machine_code(ir: str) -> bytes:
    """An object file for this machine."""
    machine = target_machine()
    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    return machine.emit_object(module)


class Code:
    """Machine code in memory, for as long as this object lives."""

    _jit: llvm.LLJIT | None = None
    _count = 0

    def __init__(self, image: bytes) -> None:
        if Code._jit is None:
            target_machine()  # initialises LLVM
            Code._jit = llvm.create_lljit_compiler()
        Code._count += 1
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol("loop")
        self._library = builder.link(Code._jit, f"featherlane{Code._count}")
        self.address: int = self._library["loop"]
