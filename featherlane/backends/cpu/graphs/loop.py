"""The inner loop of a generalised ufunc, by rounds of tiles (vectors of states): transposes rows of
the user's arrays into lanes, computes, and transposes lanes into rows.

A last tile with fewer states repeats its last state in the remaining lanes. So nothing is read or
written out of bounds, no garbage raises a floating-point flag, and every state is computed by the
same instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.cpu.graphs.gather import argument, density, first_strides, matrix_strides
from featherlane.backends.cpu.graphs.stream import OutputStage, fence, functions
from featherlane.backends.cpu.graphs.transpose import MARK, tail, tile_name
from featherlane.backends.cpu.scratch import LoopWorkspaces
from featherlane.backends.llvm.lower import Lanes, vector_at
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.targets import PROBED


class ArraySlots(NamedTuple):
    """An input or output: its core shape, and the slots of its entries in the workspace, in
    vectors. zero: the slot of entries that are always zero.
    """

    name: str
    shape: tuple[int, ...]
    slots: tuple[int, ...]
    zero: int | None = None

    @property
    def size(self) -> int:
        return len(self.slots)


class ArrayMove(NamedTuple):
    """The transfer of an array to or from lanes: its argument number and its first core stride."""

    array: ArraySlots
    number: int
    first_stride: int
    output: bool


def moves_of(inputs: list[ArraySlots], outputs: list[ArraySlots]) -> list[ArrayMove]:
    arrays = [*inputs, *outputs]
    strides = first_strides([array.shape for array in arrays])
    numbered = enumerate(zip(arrays, strides, strict=True))
    return [ArrayMove(array, k, stride, k >= len(inputs)) for k, (array, stride) in numbered]


def _prologue(t: Lanes, move: ArrayMove, stage: OutputStage | None) -> list[str]:
    """Reads an array's address and strides, tests whether states are contiguous (%dense)."""
    n, shape = move.number, move.array.shape
    lines, known = density(n, shape, t.dtype.itemsize, move.first_stride, "true")
    return [
        *argument(n),
        f"%offsets{n} = alloca [{t.width} x i64], align 64",
        *lines,
        f"%dense{n} = or i1 {known}, false",
        *(stage.choose() if stage else [f"%pitch{n} = add i64 %step{n}, 0"]),
    ]


def _tiles(
    t: Lanes, move: ArrayMove, lanes: str, way: str, columns: int, used: int, count: int, first: int
) -> list[str]:
    """Calls the function that transposes `count` tiles, from entry `first` on."""
    n, at = move.number, f"{move.number}.{first}.{way}"
    lines = [f"%rows{at} = getelementptr inbounds {t.scalar}, ptr %row{n}, i64 {first}"]
    if move.output:
        other = f"ptr {lanes}, ptr %tab{at}"
        lines.append(f"%tab{at} = getelementptr inbounds i32, ptr @table{n}, i64 {first}")
    else:
        other = f"ptr %to{at}, ptr null"
        lines.append(vector_at(t, f"%to{at}", lanes, first))
    call = f"call void @{tile_name(way, columns, used)}"
    return [*lines, f"{call}(ptr %rows{at}, ptr %offsets{n}, {other}, i64 {count})"]


def _transposed(t: Lanes, move: ArrayMove, lanes: str, stage: OutputStage | None) -> list[str]:
    """Moves the dense rows of one array to or from lanes, tile by tile."""
    way, full = "out" if move.output else "in", move.array.size // t.width
    lines, whole = [], (t.width, t.width, full, 0)
    if full and stage:
        lines += _to_memory(t, move, lanes, stage, whole)
    elif full:
        lines += _tiles(t, move, lanes, way, *whole)
    if rest := tail(move.array.size, t.width):
        lines += _tiles(t, move, lanes, way, *rest, 1, full * t.width)
    return lines


def _to_memory(
    t: Lanes, move: ArrayMove, lanes: str, stage: OutputStage, whole: tuple[int, int, int, int]
) -> list[str]:
    """Moves the whole tiles of an output by the path that its stage has chosen."""
    n = move.number
    paths = {f"%direct{n}": _tiles(t, move, lanes, "stream", *whole)}
    if stage.in_strips:
        paths[f"%indirect{n}"] = stage.strips(lanes)
    lines = [f"when {test}: path{k}.{n}" for k, test in enumerate(paths)]
    lines += [*_tiles(t, move, lanes, "out", *whole), f"br label %tail{n}"]
    for k, path in enumerate(paths.values()):
        lines += [f"path{k}.{n}:", *path, f"br label %tail{n}"]
    return [*lines, f"tail{n}:"]


def _transfer(t: Lanes, move: ArrayMove, lanes: str, stage: OutputStage | None = None) -> list[str]:
    """Inside the loop: moves the rows of one array to or from lanes."""
    n, shape = move.number, move.array.shape
    rows, columns = (1, 1, *shape)[-2:]
    row, column = matrix_strides(n, len(shape))
    entries = f"ptr %row{n}, ptr %offsets{n}, i64 {rows}, i64 {columns}, i64 {row}, i64 {column}"
    slow = f"@gather({entries}, ptr {lanes})"
    if move.output:
        slow = f"@scatter({entries}, ptr {lanes}, ptr @table{n})"
    return [
        f"br i1 %dense{n}, label %fast{n}, label %slow{n}",
        f"fast{n}:",
        *_transposed(t, move, lanes, stage),
        f"br label %ready{n}",
        f"slow{n}:",
        f"call void {slow}",
        f"br label %ready{n}",
        f"ready{n}:",
    ]


def _each_tile(
    t: Lanes,
    way: str,
    moves: Sequence[ArrayMove],
    base: str,
    vectors: int,
    stages: Mapping[int, OutputStage],
) -> list[str]:
    """Moves the rows of some arrays to or from the lanes of each tile of a round. way: "read" or
    "write"; base: the first tile's vectors, of which each tile has `vectors`.
    """
    lines = _rows_of_tile(t, way, [move.number for move in moves])
    lines += [
        f"%{way}.at = mul i64 %{way}.tile, {vectors}",
        f"%{way}.lanes = getelementptr inbounds {t.vector}, ptr {base}, i64 %{way}.at",
    ]
    for move in moves:
        k = move.number
        if move.output:
            stage = stages[k]
            lines += [*stage.place(), *_transfer(t, move, f"%{way}.lanes", stage), *stage.flush()]
        elif move.array.size:
            lines.append(f"%row{k} = at %base{k} $(mul i64 %{way}.state, %step{k})")
            lines.append(vector_at(t, f"%lanes{k}", f"%{way}.lanes", move.array.slots[0]))
            lines += _transfer(t, move, f"%lanes{k}")
    return [
        *lines,
        f"br label %{way}.ready",
        f"{way}.ready:",
        f"when slt i64 %{way}.next, %tiles: {way}, {way}.done",
        f"{way}.done:",
    ]


def _rows_of_tile(t: Lanes, way: str, arrays: Sequence[int]) -> list[str]:
    """Begins the loop over tiles. %offsets of the rows of each array change with the first tile,
    and with the last one if it has fewer states.
    """
    return [
        f"br label %{way}.start",
        f"{way}.start:",
        f"br label %{way}",
        f"{way}:",
        f"%{way}.tile = phi i64 [ 0, %{way}.start ], [ %{way}.next, %{way}.ready ]",
        f"%{way}.state = add i64 %b, $(mul i64 %{way}.tile, {t.width})",
        f"%{way}.next = add i64 %{way}.tile, 1",
        f"%{way}.left = sub i64 %n, %{way}.state",
        f"%{way}.partial = icmp slt i64 %{way}.left, {t.width}",
        f"when $(or i1 %{way}.partial, $(icmp eq i64 %{way}.state, 0)): {way}.rows, {way}.go",
        f"{way}.rows:",
        f"%{way}.count = select i1 %{way}.partial, i64 %{way}.left, i64 {t.width}",
        f"%{way}.last = sub i64 %{way}.count, 1",
        *[f"call void @offsets(ptr %offsets{k}, i64 %pitch{k}, i64 %{way}.last)" for k in arrays],
        f"br label %{way}.go",
        f"{way}.go:",
    ]


def loop(t: Lanes, moves: Sequence[ArrayMove], vectors: tuple[int, int], tiles: int) -> str:
    """@loop: rounds of up to so many tiles. vectors: of a tile, of its inputs and of other
    values.
    """
    outputs = [move for move in moves if move.output]
    all_rows = sum(m.array.size for m in outputs) * t.dtype.itemsize
    stages = {m.number: OutputStage(t, m.number, m.array.size, tiles, all_rows) for m in outputs}
    sizes = {"in": vectors[0] * tiles * t.bytes, "out": vectors[1] * tiles * t.bytes}
    sizes |= {f"stage{n}": stage.bytes for n, stage in stages.items()}
    workspaces = LoopWorkspaces(sizes)
    lines = [
        f"define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {PROBED} {{",
        "entry:",
        "%n = load i64, ptr %dims, align 8",
        *workspaces.entry(),
        *[line for move in moves for line in _prologue(t, move, stages.get(move.number))],
        "when sgt i64 %n, 0: begin, leave",
        "begin:",
        *workspaces.acquire(otherwise="leave"),
        *_begin_round(t, tiles),
        *_each_tile(t, "read", [m for m in moves if not m.output], "%in", vectors[0], {}),
        "call void @compute(ptr %in, ptr %out, i64 %tiles)",
        *_each_tile(t, "write", outputs, "%out", vectors[1], stages),
        f"%b1 = add i64 %b, {t.width * tiles}",
        "when slt i64 %b1, %n: round, ended",
        "ended:",
        *fence(list(stages)),
        *workspaces.release(),
        "br label %leave",
        "leave:",
        "ret void",
        "}",
    ]
    return expanded("\n".join(lines)) + functions(t, stages.values()) + workspaces.functions()


def _begin_round(t: Lanes, tiles: int) -> list[str]:
    return [
        "br label %first",
        "first:",
        "br label %round",
        "round:",
        "%b = phi i64 [ 0, %first ], [ %b1, %write.done ]",
        f"%up = add i64 $(sub i64 %n, %b), {t.width - 1}",
        f"%needed = sdiv i64 %up, {t.width}",
        f"%tiles = select i1 $(icmp slt i64 %needed, {tiles}), i64 %needed, i64 {tiles}",
    ]


def tables(t: Lanes, outputs: list[ArraySlots], first: int) -> list[str]:
    """Lists the offsets of each output's entries as @table; tiles of zeros alone are marked."""
    lines = []
    for k, array in enumerate(outputs):
        offsets = [slot * t.bytes for slot in array.slots]
        for at in range(0, array.size // t.width * t.width, t.width):
            if set(array.slots[at : at + t.width]) == {array.zero}:
                offsets[at] |= MARK
        entries = ", ".join(f"i32 {offset}" for offset in offsets)
        constant = f"private constant [{array.size} x i32] [{entries}], align 4"
        lines.append(f"@table{first + k} = {constant}")
    return lines
