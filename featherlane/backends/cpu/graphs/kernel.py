"""The CPU: a graph as machine code whose inner loop has the signature of a NumPy generalised ufunc.

Vectors of `width` states, the tiles, go through three steps: rows of the user's arrays are turned
into lanes in registers, the graph runs on vectors (`compute`), and lanes are turned back into rows.
Entries that two places of an output share, and zeros, are computed and kept once: a table says
which vector each entry shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from featherlane.backends.cpu.graphs.blocks import Block
from featherlane.backends.cpu.graphs.gather import helpers
from featherlane.backends.cpu.graphs.layout import Columns, Layout, Step
from featherlane.backends.cpu.graphs.loop import loop, moves_of, tables
from featherlane.backends.cpu.graphs.transpose import masked_declarations, tail, tile
from featherlane.backends.llvm.lower import Lanes, constants, declarations, straight_line, vector_at
from featherlane.program.graph import Graph
from featherlane.program.program import Program, Y

NEVER = "%stop = icmp eq ptr %out, null"  # see straight_line
LEAVE = ["leave:", "ret void"]
Place = tuple[str, int]  # a pointer, and how many vectors behind it
Load = Callable[[int, str], list[str] | None]


def _body(
    graph: Graph,
    t: Lanes,
    load: Load,
    store_to: Mapping[int, Sequence[int]],
    base: str,
    align: int,
    nodes: range | None = None,
) -> list[str]:
    """A graph, or some of its nodes, as straight-line code: store_to[node] are vectors from
    `base` on.
    """

    def store(k: int, name: str) -> list[str]:
        lines = []
        for n, slot in enumerate(store_to.get(k, ())):
            lines.append(vector_at(t, f"%o{k}.{n}", base, slot))
            lines.append(f"store {t.vector} {name}, ptr %o{k}.{n}, align {align}")
        return lines

    return straight_line(graph, t, load, store, nodes)


def _loaded(t: Lanes, name: str, place: Place, align: int) -> list[str]:
    where = vector_at(t, f"{name}.at", *place)
    return [where, f"{name} = load {t.vector}, ptr {name}.at, align {align}"]


def _spread(one: Lanes, t: Lanes, name: str, place: Place) -> list[str]:
    """One number in all lanes."""
    return [
        *_loaded(one, f"{name}.one", place, one.bytes),
        f"{name} = shufflevector {one.vector} {name}.one, {one.vector} poison, "
        f"<{t.width} x i32> zeroinitializer",
    ]


def _block(layout: Layout, step: Step, name: str, block: Block) -> list[str]:
    """A part of a graph, for each tile."""
    t = step.lanes

    def load(node: int, to: str) -> list[str] | None:
        if step.graph.op[node] == "input":
            return _loaded(t, to, step.reads[node], t.bytes) if node in step.reads else []
        if node not in step.stores:
            return None
        return _loaded(t, to, ("%o", step.stores[node][0]), t.bytes)

    nodes = range(block.first, block.last)
    body = _body(step.graph, t, load, step.stores, "%o", t.bytes, nodes)
    return _for_tiles(layout, name, body)


def _routine(layout: Layout, step: Step, name: str) -> list[str]:
    """A group of columns. What columns share is read where it was left."""
    one, t = layout.lanes, step.lanes

    def load(node: int, to: str) -> list[str]:
        base, i = step.reads[node]
        if base == "%each":
            return _loaded(t, to, (base, i), one.bytes)
        place = "%out", i
        return _loaded(t, to, place, t.bytes) if t == one else _spread(one, t, to, place)

    body = _body(step.graph, t, load, step.stores, "%result", one.bytes)
    head = f"define internal void @{name}(ptr %out, ptr %each, ptr %result) noinline {{"
    return [head, NEVER, *body, "ret void", *LEAVE, "}"]


def _columns(layout: Layout, step: Step, columns: Columns, name: str, routine: str) -> list[str]:
    """One routine for all groups of columns of each tile."""
    t = step.lanes

    def vectors(name: str, first: int, step: int) -> list[str]:
        return [
            vector_at(layout.lanes, f"%first.{name}", "%o", first),
            f"%step.{name} = mul i64 %c, {step}",
            f"%{name} = getelementptr inbounds {t.vector}, ptr %first.{name}, i64 %step.{name}",
        ]

    body = [
        "br label %column",
        "column:",
        "%c = phi i64 [ 0, %tile ], [ %next, %column ]",
        *vectors("each", columns.each, columns.size),
        *vectors("result", columns.result, len(step.graph.outputs[Y].nodes)),
        f"call void @{routine}(ptr %o, ptr %each, ptr %result)",
        "%next = add i64 %c, 1",
        f"%more = icmp slt i64 %next, {columns.groups}",
        "br i1 %more, label %column, label %end",
    ]
    return _for_tiles(layout, name, body, done=True)


def _for_tiles(layout: Layout, name: str, body: list[str], done: bool = False) -> list[str]:
    """A function over tiles. The body finds their inputs at %i and their other vectors at %o, and
    goes on to %end by itself if it is `done`.
    """
    vector = layout.lanes.vector
    return [
        f"define internal void @{name}(ptr noalias %in, ptr noalias %out, i64 %tiles) noinline {{",
        "entry:",
        NEVER,
        "br label %tile",
        "tile:",
        "%n = phi i64 [ 0, %entry ], [ %n1, %end ]",
        f"%ni = mul i64 %n, {layout.input_vectors}",
        f"%no = mul i64 %n, {layout.vectors}",
        f"%i = getelementptr inbounds {vector}, ptr %in, i64 %ni",
        f"%o = getelementptr inbounds {vector}, ptr %out, i64 %no",
        *body,
        *([] if done else ["br label %end"]),
        "end:",
        "%n1 = add i64 %n, 1",
        "%again = icmp slt i64 %n1, %tiles",
        "br i1 %again, label %tile, label %leave",
        *LEAVE,
        "}",
    ]


def _compute(layout: Layout) -> list[str]:
    """@compute runs the blocks of each step, or its routine over its columns."""
    lines, names = [], []
    for k, step in enumerate(layout.steps):
        if step.columns is None:
            for n, block in enumerate(step.blocks):
                names.append(f"step{k}.block{n}")
                lines += _block(layout, step, names[-1], block)
        else:
            names.append(f"step{k}.columns")
            lines += _routine(layout, step, f"step{k}.routine")
            lines += _columns(layout, step, step.columns, names[-1], f"step{k}.routine")
    return [
        *lines,
        "define internal void @compute(ptr %in, ptr %out, i64 %tiles) noinline {",
        *[f"call void @{name}(ptr %in, ptr %out, i64 %tiles)" for name in names],
        "ret void",
        "}",
    ]


def source(program: Program, dtype: np.dtype, width: int, columns: int = 1) -> str:
    """The LLVM IR of a program's loop. columns: of a routine that are computed side by side, where
    the states of a vector leave room (`width` is 1).
    """
    t, c = Lanes(np.dtype(dtype), width), Lanes(np.dtype(dtype), width * columns)
    layout = Layout(program, t, c)
    inputs, outputs = layout.inputs, layout.outputs
    moves = moves_of(inputs, outputs)
    lines = []
    for lanes in dict.fromkeys(step.lanes for step in layout.steps):
        graphs = [step.graph for step in layout.steps if step.lanes == lanes]
        lines += declarations(lanes) + constants(graphs, lanes)
    lines += tables(t, outputs, len(inputs))
    tiles = set()
    for move in moves:
        if move.array.size >= width:
            tiles |= {
                (way, width, width) for way in (("out", "stream") if move.output else ("in",))
            }
        if rest := tail(move.array.size, width):
            tiles.add(("out" if move.output else "in", *rest))
    for way, count, used in sorted(tiles):
        lines += tile(t, way, count, used)
    for count in sorted({count for _, count, used in tiles if used < count}):
        lines += masked_declarations(t, count)
    lines += _compute(layout)
    lines.append(loop(t, moves, (layout.input_vectors, layout.vectors), layout.tiles))
    return "\n".join([*lines, "!0 = !{i32 1}"]) + helpers(t)
