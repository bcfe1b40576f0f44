"""The CPU: a graph as machine code whose inner loop has the signature of a NumPy generalised ufunc.

A block of `width` states goes through three steps: rows of the user's arrays are turned into lanes
in registers, the graph runs once on vectors (`compute`), and lanes are turned back into rows.
Entries that two places of an output share, and zeros, are computed and kept once: a table says
which vector each entry shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.backends import direct
from featherlane.backends.llvm import Lanes, declarations, straight_line, vector_at
from featherlane.backends.loop import Array, helpers, loop, moves_of, tables
from featherlane.backends.tiles import tail, tile
from featherlane.graph.graph import Graph
from featherlane.graph.routine import Program

NEVER = "%stop = icmp eq ptr %out, null"  # see straight_line
LEAVE = ["leave:", "ret void"]


class _Layout:
    """Which vector of the scratch each value lives in: inputs in one part, all that is computed in
    the other.
    """

    def __init__(self, program: Program) -> None:
        self.program, main = program, program.main
        self.inputs, self.loads = _input_slots(main, program.inputs)
        self.stores: dict[int, list[int]] = {}  # by node of the main graph
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
    arrays: list[Array] = []
    loads: dict[tuple[str, int], int] = {}
    for name, shape in shapes.items():
        slots = tuple(range(len(loads), len(loads) + int(np.prod(shape))))
        arrays.append(Array(name, shape, slots))
        loads |= {(name, i): slot for i, slot in enumerate(slots)}
    return arrays, loads


def _body(
    graph: Graph,
    t: Lanes,
    load_from: Callable[[Any], tuple[str, int] | None],
    store_to: Mapping[int, Sequence[int]],
    base: str,
) -> list[str]:
    """A graph as straight-line code: load_from(value of an input) and store_to[node] are places in
    the scratch.
    """

    def load(k: int, name: str) -> list[str]:
        place = load_from(graph.value[k])
        if place is None:  # a routine's result, which is not there yet
            return []
        where = vector_at(t, f"{name}.at", *place)
        return [where, f"{name} = load {t.vector}, ptr {name}.at, align {t.bytes}"]

    def store(k: int, name: str) -> list[str]:
        lines = []
        for n, slot in enumerate(store_to.get(k, ())):
            lines.append(vector_at(t, f"%o{k}.{n}", base, slot))
            lines.append(f"store {t.vector} {name}, ptr %o{k}.{n}, align {t.bytes}")
        return lines

    return straight_line(graph, t, load, store)


def _routine(layout: _Layout, t: Lanes, k: int) -> list[str]:
    """@routine{k}: one column. What columns share is read where the main graph left it."""
    program, routine = layout.program, layout.program.routines[k]
    shared, each, _ = program.names(k)
    place: dict[tuple[str, int], tuple[str, int]] = {}
    for i, node in enumerate(program.main.outputs[shared].nodes):
        place["shared", i] = "%out", layout.stores[node][0]
    for i in range(program.main.outputs[each].shape[1]):
        place["each", i] = "%each", i
    results: dict[int, list[int]] = {}
    for i, node in enumerate(routine.outputs["result"].nodes):
        results.setdefault(node, []).append(i)
    head = f"define internal void @routine{k}(ptr %out, ptr %each, ptr %result) noinline {{"
    body = _body(routine, t, place.get, results, "%result")
    return [head, NEVER, *body, "ret void", *LEAVE, "}"]


def _columns(layout: _Layout, t: Lanes, k: int) -> list[str]:
    """The loop of one routine over its columns."""
    calls, size = layout.program.main.outputs[layout.program.names(k)[1]].shape
    gives = len(layout.program.routines[k].outputs["result"].nodes)

    def vectors(name: str, first: int, step: int) -> list[str]:
        return [
            f"%n{name}{k} = mul i64 %c{k}, {step}",
            f"%i{name}{k} = add i64 %n{name}{k}, {first}",
            f"%{name}{k} = getelementptr inbounds {t.vector}, ptr %out, i64 %i{name}{k}",
        ]

    return [
        f"br label %before{k}",
        f"before{k}:",
        f"br label %loop{k}",
        f"loop{k}:",
        f"%c{k} = phi i64 [ 0, %before{k} ], [ %next{k}, %loop{k} ]",
        *vectors("each", layout.each[k], size),
        *vectors("result", layout.result[k], gives),
        f"call void @routine{k}(ptr %out, ptr %each{k}, ptr %result{k})",
        f"%next{k} = add i64 %c{k}, 1",
        f"%more{k} = icmp slt i64 %next{k}, {calls}",
        f"br i1 %more{k}, label %loop{k}, label %done{k}",
        f"done{k}:",
    ]


def _compute(layout: _Layout, t: Lanes) -> list[str]:
    """@compute runs the main graph and then each routine over its columns."""
    count = range(len(layout.program.routines))
    inputs = {value: ("%in", slot) for value, slot in layout.loads.items()}
    return [
        *[line for k in count for line in _routine(layout, t, k)],
        "define internal void @compute(ptr noalias %in, ptr noalias %out) noinline {",
        NEVER,
        *_body(layout.program.main, t, inputs.get, layout.stores, "%out"),
        *[line for k in count for line in _columns(layout, t, k)],
        "ret void",
        *LEAVE,
        "}",
    ]


def source(program: Program, dtype: np.dtype, width: int) -> str:
    """The LLVM IR of a program's loop."""
    t = Lanes(np.dtype(dtype), width)
    layout = _Layout(program)
    inputs, outputs = layout.inputs, layout.outputs
    moves = moves_of(inputs, outputs)
    lines = declarations(t) + tables(t, outputs, len(inputs))
    tiles = set()
    for move in moves:
        if move.array.size >= width:
            tiles |= {
                (way, width, width) for way in (("out", "stream") if move.output else ("in",))
            }
        if rest := tail(move.array.size, width):
            tiles.add(("out" if move.output else "in", *rest))
    for way, columns, used in sorted(tiles):
        lines += tile(t, way, columns, used)
    for columns in sorted({columns for _, columns, used in tiles if used < columns}):
        v, mask = t.of(columns), f"<{columns} x i1>"
        lines.append(f"declare {v} @llvm.masked.load.v{columns}f{t.bits}.p0(ptr, i32, {mask}, {v})")
        lines.append(
            f"declare void @llvm.masked.store.v{columns}f{t.bits}.p0({v}, ptr, i32, {mask})"
        )
    lines += _compute(layout, t)
    lines += loop(t, moves, sum(a.size for a in inputs), layout.size)
    text = "\n".join([*lines, "!0 = !{i32 1}"]) + helpers(t)
    return text + direct.text([a.shape for a in inputs], [a.shape for a in outputs], t.dtype)
