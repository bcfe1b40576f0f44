"""The inner loop of a generalised ufunc: rows of the user's arrays to lanes, a round of tiles (each
one vector of states), lanes to rows.

A last tile with fewer states repeats its last state in the lanes left over, so that nothing is
read or written out of bounds, no garbage raises a floating-point flag, and every state is computed
by the same instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.cpu.graphs.stream import Stage, fence, functions
from featherlane.backends.cpu.graphs.transpose import MARK, tail, tile_name
from featherlane.backends.llvm.lower import Lanes, vector_at

ON_STACK = 1 << 19  # bytes of scratch; threads have a megabyte of stack at least
PAGE = 4096  # bytes: two places that far apart, or a multiple, can slow each other down


class Array(NamedTuple):
    """An input or output array as the loop sees it: its core shape, and where its entries lie in
    the scratch.
    """

    name: str
    shape: tuple[int, ...]
    slots: tuple[int, ...]  # by entry, in vectors
    zero: int | None = None  # the slot that shows zeros

    @property
    def size(self) -> int:
        return len(self.slots)


class Move(NamedTuple):
    """One array of the loop: its number among the arguments and where its core strides begin."""

    array: Array
    number: int
    first_stride: int
    output: bool


def moves_of(inputs: list[Array], outputs: list[Array]) -> list[Move]:
    stride, moves = len(inputs) + len(outputs), []
    for k, array in enumerate([*inputs, *outputs]):
        moves.append(Move(array, k, stride, k >= len(inputs)))
        stride += len(array.shape)
    return moves


def _prologue(t: Lanes, move: Move, stage: Stage | None) -> list[str]:
    """Before the loop: base pointer, strides, and whether the entries of a row are contiguous; for
    an output whether it goes through a stage, and so how far its rows are apart.
    """
    n, shape = move.number, move.array.shape
    lines = [
        f"%a{n} = getelementptr inbounds ptr, ptr %args, i64 {n}",
        f"%base{n} = load ptr, ptr %a{n}, align 8",
        f"%s{n} = getelementptr inbounds i64, ptr %steps, i64 {n}",
        f"%step{n} = load i64, ptr %s{n}, align 8",
        f"%offsets{n} = alloca [{t.width} x i64], align 64",
    ]
    dense, expected = [], t.dtype.itemsize
    for axis in reversed(range(len(shape))):
        lines.append(
            f"%c{n}.{axis} = getelementptr inbounds i64, ptr %steps, i64 {move.first_stride + axis}"
        )
        lines.append(f"%core{n}.{axis} = load i64, ptr %c{n}.{axis}, align 8")
        lines.append(f"%is{n}.{axis} = icmp eq i64 %core{n}.{axis}, {expected}")
        dense.append(f"%is{n}.{axis}")
        expected *= shape[axis]
    known = "true"
    for k, test in enumerate(dense):
        lines.append(f"%dense{n}.{k} = and i1 {known}, {test}")
        known = f"%dense{n}.{k}"
    lines.append(f"%dense{n} = or i1 {known}, false")
    return lines + (stage.choice() if stage else [f"%pitch{n} = add i64 %step{n}, 0"])


def _transfer(t: Lanes, move: Move, lanes: str) -> list[str]:
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
            lines.append(vector_at(t, f"%to{at}", lanes, first))
        call = f"call void @{tile_name(way, columns, used)}"
        return [*lines, f"{call}(ptr %rows{at}, ptr %offsets{n}, {given}, i64 {count})"]

    lines = [f"br i1 %dense{n}, label %fast{n}, label %slow{n}", f"fast{n}:"]
    way, full = "out" if move.output else "in", array.size // t.width
    if full:
        whole = (t.width, t.width, full, 0)
        if move.output:
            lines += [
                f"br i1 %direct{n}, label %past{n}, label %through{n}",
                f"past{n}:",
                *tiles("stream", *whole),
                f"br label %tail{n}",
                f"through{n}:",
                *tiles(way, *whole),
                f"br label %tail{n}",
                f"tail{n}:",
            ]
        else:
            lines += tiles(way, *whole)
    if rest := tail(array.size, t.width):
        lines += tiles(way, *rest, 1, full * t.width)
    sizes = (1,) * (2 - len(array.shape)) + array.shape
    steps = [f"%core{n}.{axis}" for axis in range(len(array.shape))]
    steps = ["0"] * (2 - len(steps)) + steps
    rows = f"ptr %row{n}, ptr %offsets{n}, i64 {sizes[0]}, i64 {sizes[1]}"
    given = f"{rows}, i64 {steps[0]}, i64 {steps[1]}"
    slow = (
        f"@scatter({given}, ptr {lanes}, ptr {table})"
        if move.output
        else f"@gather({given}, ptr {lanes})"
    )
    return [
        *lines,
        f"br label %ready{n}",
        f"slow{n}:",
        f"call void {slow}",
        f"br label %ready{n}",
        f"ready{n}:",
    ]


def scratch(name: str, size: int) -> list[str]:
    """`size` bytes: on the stack, or for a robot of very many joints on the heap. They begin with
    a page: elsewhere some functions take up to a third longer, by where the stack happens to begin.
    """
    if size <= ON_STACK:
        return [f"%{name} = alloca [{max(size, 1)} x i8], align {PAGE}"]
    return [
        f"%{name}.raw = call ptr @scratch_new(i64 {size + PAGE})",
        f"%{name}.at = ptrtoint ptr %{name}.raw to i64",
        f"%{name}.up = add i64 %{name}.at, {PAGE - 1}",
        f"%{name}.page = and i64 %{name}.up, -{PAGE}",
        f"%{name} = inttoptr i64 %{name}.page to ptr",
    ]


def _each_tile(
    t: Lanes,
    way: str,
    moves: Sequence[Move],
    scratch: str,
    vectors: int,
    stages: Mapping[int, Stage],
) -> list[str]:
    """The rows of some arrays to or from the lanes of each tile of a round. way: "read" or
    "write".
    """
    lines = [
        f"br label %{way}.start",
        f"{way}.start:",
        f"br label %{way}",
        f"{way}:",
        f"%{way}.tile = phi i64 [ 0, %{way}.start ], [ %{way}.next, %{way}.ready ]",
        f"%{way}.states = mul i64 %{way}.tile, {t.width}",
        f"%{way}.state = add i64 %b, %{way}.states",
        f"%{way}.next = add i64 %{way}.tile, 1",
        f"%{way}.left = sub i64 %n, %{way}.state",
        f"%{way}.partial = icmp slt i64 %{way}.left, {t.width}",
        f"%{way}.first = icmp eq i64 %{way}.state, 0",
        f"%{way}.measure = or i1 %{way}.partial, %{way}.first",
        f"br i1 %{way}.measure, label %{way}.rows, label %{way}.go",
        f"{way}.rows:",
        f"%{way}.count = select i1 %{way}.partial, i64 %{way}.left, i64 {t.width}",
        f"%{way}.last = sub i64 %{way}.count, 1",
    ]
    for move in moves:
        k = move.number
        lines.append(f"call void @offsets(ptr %offsets{k}, i64 %pitch{k}, i64 %{way}.last)")
    lines += [
        f"br label %{way}.go",
        f"{way}.go:",
        f"%{way}.at = mul i64 %{way}.tile, {vectors}",
        f"%{way}.lanes = getelementptr inbounds {t.vector}, ptr {scratch}, i64 %{way}.at",
    ]
    for move in moves:
        k = move.number
        if move.output:
            stage = stages[k]
            lines += [*stage.place(), *_transfer(t, move, f"%{way}.lanes"), *stage.flush()]
        elif move.array.size:
            lines.append(f"%far{k} = mul i64 %{way}.state, %step{k}")
            lines.append(f"%row{k} = getelementptr inbounds i8, ptr %base{k}, i64 %far{k}")
            lines.append(vector_at(t, f"%lanes{k}", f"%{way}.lanes", move.array.slots[0]))
            lines += _transfer(t, move, f"%lanes{k}")
    return [
        *lines,
        f"br label %{way}.ready",
        f"{way}.ready:",
        f"%{way}.more = icmp slt i64 %{way}.next, %tiles",
        f"br i1 %{way}.more, label %{way}, label %{way}.done",
        f"{way}.done:",
    ]


def loop(t: Lanes, moves: Sequence[Move], vectors: tuple[int, int], tiles: int) -> list[str]:
    """@loop: rounds of up to so many tiles, each with vectors for its inputs and for the rest."""
    parts = [("in", vectors[0] * tiles * t.bytes), ("out", vectors[1] * tiles * t.bytes)]
    outputs = [move for move in moves if move.output]
    stages = {m.number: Stage(t, m.number, m.array.size, tiles) for m in outputs}
    parts += [(f"stage{n}", stage.bytes) for n, stage in stages.items()]
    lines = ["define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {", "entry:"]
    lines += ["%n = load i64, ptr %dims, align 8"]
    for name, size in parts:
        lines += scratch(name, size)
    for move in moves:
        lines += _prologue(t, move, stages.get(move.number))
    lines += [
        "%any = icmp sgt i64 %n, 0",
        "br i1 %any, label %begin, label %end",
        "begin:",
        "br label %round",
        "round:",
        "%b = phi i64 [ 0, %begin ], [ %b1, %write.done ]",
        "%todo = sub i64 %n, %b",
        f"%up = add i64 %todo, {t.width - 1}",
        f"%needed = sdiv i64 %up, {t.width}",
        f"%few = icmp slt i64 %needed, {tiles}",
        f"%tiles = select i1 %few, i64 %needed, i64 {tiles}",
        *_each_tile(t, "read", [m for m in moves if not m.output], "%in", vectors[0], {}),
        "call void @compute(ptr %in, ptr %out, i64 %tiles)",
        *_each_tile(t, "write", outputs, "%out", vectors[1], stages),
        f"%b1 = add i64 %b, {t.width * tiles}",
        "%more = icmp slt i64 %b1, %n",
        "br i1 %more, label %round, label %ended",
        "ended:",
        *fence(list(stages)),
        "br label %end",
        "end:",
    ]
    for name, size in parts:
        if size > ON_STACK:
            lines.append(f"call void @scratch_free(ptr %{name}.raw)")
    return [*lines, "ret void", "}", *functions(t)]


def tables(t: Lanes, outputs: list[Array], first: int) -> list[str]:
    """Where each entry of an output lies. A tile of nothing but zeros is marked at its first."""
    lines = []
    for k, array in enumerate(outputs):
        offsets = [slot * t.bytes for slot in array.slots]
        for tile in range(array.size // t.width):
            at = tile * t.width
            if set(array.slots[at : at + t.width]) == {array.zero}:
                offsets[at] |= MARK
        entries = ", ".join(f"i32 {offset}" for offset in offsets)
        lines.append(
            f"@table{first + k} = private constant [{array.size} x i32] [{entries}], align 4"
        )
    return lines
