"""The CPU: a graph as machine code whose inner loop has the signature of a NumPy generalised ufunc.

Vectors of `width` states, the tiles, go through three steps: rows of the user's arrays are
transposed into lanes in registers, the graph runs on vectors (`compute`), and lanes are transposed
back into rows. A value that several entries of an output share, such as zero, is stored once: a
table has the vector of each entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from featherlane.backends.cpu.graphs.blocks import CodeBlock
from featherlane.backends.cpu.graphs.gather import helpers
from featherlane.backends.cpu.graphs.layout import (
    ColumnLayout,
    MemoryLayout,
    TileStep,
    memory_layout,
)
from featherlane.backends.cpu.graphs.loop import ArrayMove, loop, moves_of, tables
from featherlane.backends.cpu.graphs.transpose import masked_declarations, tail, tile
from featherlane.backends.llvm import lower
from featherlane.backends.llvm.lower import Lanes, Load
from featherlane.backends.llvm.macros import expanded
from featherlane.program.graph import Graph
from featherlane.program.program import Program, Y

LEAVE = ["leave:", "ret void", "}"]


def _body(
    graph: Graph,
    t: Lanes,
    load: Load,
    store_to: Mapping[int, Sequence[int]],
    base: str,
    align: int,
    nodes: range | None = None,
) -> list[str]:
    """Nodes of a graph as straight-line code. store_to: by node, the vectors from `base` on."""

    def store(k: int, name: str) -> list[str]:
        slots = enumerate(store_to.get(k, ()))
        stores = [lower.store_vector(t, f"%o{k}.{n}", name, base, slot, align) for n, slot in slots]
        return [line for lines in stores for line in lines]

    return lower.straight_line(graph, t, load, store, nodes)


def _spread(one: Lanes, t: Lanes, name: str, slot: int) -> list[str]:
    """One number in all lanes."""
    return [
        *lower.load_vector(one, f"{name}.one", "%out", slot),
        f"{name} = shufflevector {one.vector} {name}.one, {one.vector} poison, "
        f"<{t.width} x i32> zeroinitializer",
    ]


def _block(step: TileStep, name: str, block: CodeBlock) -> list[str]:
    """A function that computes the nodes of a block for one tile."""
    t = step.lanes

    def load(node: int, to: str) -> list[str] | None:
        if step.graph.op[node] == "input":
            return lower.load_vector(t, to, *step.reads[node]) if node in step.reads else []
        return lower.load_vector(t, to, "%o", step.stores[node][0]) if node in step.stores else None

    nodes = range(block.first, block.last)
    body = _body(step.graph, t, load, step.stores, "%o", t.bytes, nodes)
    return _for_one_tile(name, body)


def _routine(layout: MemoryLayout, step: TileStep, name: str) -> list[str]:
    """The function of a group of columns. Operands that columns share are read from the scratch."""
    one, t = layout.lanes, step.lanes

    def load(node: int, to: str) -> list[str]:
        base, slot = step.reads[node]
        if base == "%each":
            return lower.load_vector(t, to, base, slot, one.bytes)
        return lower.load_vector(t, to, "%out", slot) if t == one else _spread(one, t, to, slot)

    body = _body(step.graph, t, load, step.stores, "%result", one.bytes)
    head = f"define internal void @{name}(ptr %out, ptr %each, ptr %result) noinline {{"
    return [head, lower.never("%out"), *body, "br label %leave", *LEAVE]


def _columns(
    layout: MemoryLayout, step: TileStep, columns: ColumnLayout, name: str, routine: str
) -> list[str]:
    """One routine for all groups of columns of each tile."""
    t = step.lanes

    def vectors(name: str, first: int, step: int) -> list[str]:
        return [
            lower.vector_at(layout.lanes, f"%first.{name}", "%o", first),
            f"%step.{name} = mul i64 %c, {step}",
            f"%{name} = getelementptr inbounds {t.vector}, ptr %first.{name}, i64 %step.{name}",
        ]

    body = [
        expanded("repeat %c"),
        *vectors("each", columns.each, columns.size),
        *vectors("result", columns.result, len(step.graph.outputs[Y].nodes)),
        f"call void @{routine}(ptr %o, ptr %each, ptr %result)",
        expanded(f"again %c {columns.groups}"),
    ]
    return _for_one_tile(name, body)


def _for_one_tile(name: str, body: list[str]) -> list[str]:
    """A function of one tile, whose body has its inputs at %i and other vectors at %o."""
    head = f"define internal void @{name}(ptr noalias %i, ptr noalias %o) noinline {{"
    return [head, lower.never("%o"), *body, "br label %leave", *LEAVE]


def _over_tiles(layout: MemoryLayout, k: int, name: str) -> list[str]:
    """Calls such a function for each tile. The loop is outside of it: LLVM's passes over loops
    would take 7 % of the time of compilation if the loop held all operations of a block.
    """
    vector, n = layout.lanes.vector, f"%n{k}"
    return [
        expanded(f"repeat {n}"),
        f"{n}.in = mul i64 {n}, {layout.input_vectors}",
        f"{n}.out = mul i64 {n}, {layout.vectors}",
        f"{n}.i = getelementptr inbounds {vector}, ptr %in, i64 {n}.in",
        f"{n}.o = getelementptr inbounds {vector}, ptr %out, i64 {n}.out",
        f"call void @{name}(ptr {n}.i, ptr {n}.o)",
        expanded(f"again {n} %tiles"),
    ]


def _compute(layout: MemoryLayout) -> list[str]:
    """@compute runs the blocks of each step, or its routine over its columns."""
    lines, names = [], []
    for k, step in enumerate(layout.steps):
        if step.columns is None:
            for n, block in enumerate(step.blocks):
                names.append(f"step{k}.block{n}")
                lines += _block(step, names[-1], block)
        else:
            names.append(f"step{k}.columns")
            lines += _routine(layout, step, f"step{k}.routine")
            lines += _columns(layout, step, step.columns, names[-1], f"step{k}.routine")
    return [
        *lines,
        "define internal void @compute(ptr %in, ptr %out, i64 %tiles) noinline {",
        *[line for k, name in enumerate(names) for line in _over_tiles(layout, k, name)],
        "ret void",
        "}",
    ]


def _tile_functions(t: Lanes, moves: Sequence[ArrayMove]) -> list[str]:
    """The functions that transpose tiles of the arrays, and what they call."""
    tiles = set()
    for move in moves:
        ways = ("out", "stream") if move.output else ("in",)
        if move.array.size >= t.width:
            tiles |= {(way, t.width, t.width) for way in ways}
        if rest := tail(move.array.size, t.width):
            tiles.add((ways[0], *rest))
    masked = sorted({columns for _, columns, used in tiles if used < columns})
    return [
        *[line for shape in sorted(tiles) for line in tile(t, *shape)],
        *[line for columns in masked for line in masked_declarations(t, columns)],
    ]


def source(program: Program, dtype: np.dtype, width: int, columns: int = 1) -> str:
    """The LLVM IR of a program's loop. columns: the columns of a routine that share a vector, where
    the states leave lanes empty (`width` is 1).
    """
    t, c = Lanes(np.dtype(dtype), width), Lanes(np.dtype(dtype), width * columns)
    layout = memory_layout(program, t, c)
    inputs, outputs = layout.inputs, layout.outputs
    moves = moves_of(inputs, outputs)
    lines: list[str] = []
    for lanes in dict.fromkeys(step.lanes for step in layout.steps):
        graphs = [step.graph for step in layout.steps if step.lanes == lanes]
        lines += lower.declarations(lanes) + lower.constants(graphs, lanes)
    lines += tables(t, outputs, len(inputs))
    lines += [*_tile_functions(t, moves), *_compute(layout)]
    lines.append(loop(t, moves, (layout.input_vectors, layout.vectors), layout.tiles))
    return "\n".join([*lines, "!0 = !{i32 1}"]) + helpers(t)
