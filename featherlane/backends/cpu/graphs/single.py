"""The CPU, one state at a time: numbers are loaded from the user's arrays straight into the lanes
of packed vectors, and stored from there into the results (docs/performance.md, "Single states").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from featherlane.backends.cpu.graphs import gather
from featherlane.backends.cpu.graphs.blocks import cut
from featherlane.backends.cpu.scratch import LoopWorkspaces
from featherlane.backends.llvm import lower
from featherlane.backends.llvm.lower import Lanes
from featherlane.backends.llvm.macros import expanded
from featherlane.backends.llvm.targets import PROBED
from featherlane.program.passes.pack import Packed

ResultEntry = tuple[int, int, int]  # the number of a result, the entry, and the lane of its node
STORED = 32  # bytes of constants that one store writes


class _SingleState:
    """A packed graph as code: arrays, blocks, and slots of values that later blocks read."""

    def __init__(self, packed: Packed, t: Lanes) -> None:
        self.packed, self.t = packed, t
        graph = packed.graph
        self.shapes = [*graph.inputs.values(), *[out.shape for out in graph.outputs.values()]]
        self.inputs = len(graph.inputs)
        self.number = {name: n for n, name in enumerate(graph.inputs)}
        self.blocks, self.slots = cut(graph, ())
        self.slot_of = {k: slot for block in self.blocks for k, slot in block.kept.items()}
        self.entries_of: dict[int, list[ResultEntry]] = {}
        for n, (name, out) in enumerate(graph.outputs.items(), self.inputs):
            for at, (k, lane) in enumerate(zip(out.nodes, packed.lanes[name], strict=True)):
                self.entries_of.setdefault(k, []).append((n, at, lane))

    def load(self, k: int, name: str) -> list[str] | None:
        """For `straight_line`: an input from the user's arrays, or a value from its slot."""
        graph = self.packed.graph
        if graph.op[k] == "input":
            array, entries = graph.value[k]
            entries = (entries,) if isinstance(entries, int) else entries
            return self._input(name, f"%r{self.number[array]}", entries)
        return (
            lower.load_vector(self.t, name, "%kept", self.slot_of[k]) if k in self.slot_of else None
        )

    def _input(self, name: str, array: str, entries: Sequence[int]) -> list[str]:
        """Entry k of `entries` in each lane that is k modulo their number."""
        t, lines, vector = self.t, [], "poison"
        different = list(dict.fromkeys(entries))
        for lane, entry in enumerate(different):
            at = f"{name}.p{lane}"
            lines.append(lower.scalar_at(t, at, array, entry))
            lines.append(f"{name}.s{lane} = load {t.scalar}, ptr {at}, align {t.dtype.itemsize}")
            scalar = f"{t.scalar} {name}.s{lane}, i32 {lane}"
            lines.append(f"{name}.v{lane} = insertelement {t.vector} {vector}, {scalar}")
            vector = f"{name}.v{lane}"
        mask = t.lane_mask(different.index(entries[k % len(entries)]) for k in range(t.width))
        lines.append(f"{name} = shufflevector {t.vector} {vector}, {t.vector} poison, {mask}")
        return lines

    def store(self, k: int, name: str) -> list[str]:
        """For `straight_line`: a value to its slot, and to its entries of results."""
        t, lines = self.t, []
        if k in self.slot_of:
            lines += lower.store_vector(t, f"%k{k}", name, "%kept", self.slot_of[k])
        if self.packed.graph.op[k] == "constant":
            return lines + self._constant(k)
        for n, (array, entry, lane) in enumerate(self.entries_of.get(k, ())):
            to = f"%o{k}.{n}"
            lines.append(lower.scalar_at(t, to, f"%r{array}", entry))
            lines.append(f"{to}.x = extractelement {t.vector} {name}, i32 {lane}")
            lines.append(f"store {t.scalar} {to}.x, ptr {to}, align {t.dtype.itemsize}")
        return lines

    def _constant(self, k: int) -> list[str]:
        """A constant in all its entries, neighbours by one store: most are the zeros of
        matrices.
        """
        t, x, lines = self.t, self.t.number(float(self.packed.graph.value[k])), []
        runs = _runs(self.entries_of.get(k, ()), STORED // t.dtype.itemsize)
        for n, (array, first, size) in enumerate(runs):
            row = ", ".join([f"{t.scalar} {x}"] * size)
            lines.append(lower.scalar_at(t, f"%o{k}.{n}", f"%r{array}", first))
            lines.append(f"store {t.of(size)} <{row}>, ptr %o{k}.{n}, align {t.dtype.itemsize}")
        return lines


def _runs(entries: Sequence[ResultEntry], most: int) -> list[tuple[int, int, int]]:
    """Runs of neighbouring entries of one array: its number, the first entry, and the length."""
    runs: list[tuple[int, int, int]] = []
    for array, entry, _ in entries:
        last, first, size = runs[-1] if runs else (-1, 0, 0)
        if last == array and entry == first + size and size < most:
            runs[-1] = array, first, size + 1
        else:
            runs.append((array, entry, 1))
    return runs


def _block(code: _SingleState, number: int) -> list[str]:
    """A part of the graph as a function of one state's arrays, none of which overlap."""
    block = code.blocks[number]
    arguments = [f"ptr noalias %r{n}" for n in range(len(code.shapes))] + ["ptr noalias %kept"]
    nodes = range(block.first, block.last)
    return [
        f"define internal void @block{number}({', '.join(arguments)}) noinline {{",
        lower.never("%kept"),
        *lower.straight_line(code.packed.graph, code.t, code.load, code.store, nodes),
        "br label %leave",
        "leave:",
        "ret void",
        "}",
    ]


def _strides(code: _SingleState) -> list[str]:
    """Reads addresses and strides, tests whether all arrays are contiguous (%dense)."""
    lines, known = list[str](), "true"
    for n, first in enumerate(gather.first_strides(code.shapes)):
        tests, known = gather.density(n, code.shapes[n], code.t.dtype.itemsize, first, known)
        lines += [*gather.argument(n), *tests]
    return [*lines, f"%dense = or i1 {known}, false"]


def _copied(code: _SingleState, n: int, back: bool) -> str:
    """Copies one array of one state to a contiguous buffer, or back."""
    shape, size = code.shapes[n], code.t.dtype.itemsize
    rows, columns = (1, 1, *shape)[-2:]
    row, column = gather.matrix_strides(n, len(shape))
    user = f"ptr %row{n}", f"i64 {row}, i64 {column}"
    near = f"ptr %near{n}", f"i64 {columns * size}, i64 {size}"
    (to, to_steps), (source, source_steps) = (user, near) if back else (near, user)
    return f"call void @copy({to}, {source}, i64 {rows}, i64 {columns}, {to_steps}, {source_steps})"


def _loop(code: _SingleState) -> str:
    """@loop: state by state. Arrays whose entries are not contiguous are copied."""
    bytes = [math.prod(shape) * code.t.dtype.itemsize for shape in code.shapes]
    starts, arrays = [0, *accumulate(bytes)], range(len(bytes))
    workspaces = LoopWorkspaces({"kept": code.slots * code.t.bytes, "near": starts[-1]})
    lines = [
        f"define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {PROBED} {{",
        "entry:",
        *workspaces.entry(),
        "%n = load i64, ptr %dims, align 8",
        *_strides(code),
        "when sgt i64 %n, 0: begin, leave",
        "begin:",
        *workspaces.acquire(otherwise="leave"),
        *[f"%near{n} = at %near {starts[n]}" for n in arrays],
        "br label %first",
        "first:",
        "br label %state",
        "state:",
        "%b = phi i64 [ 0, %first ], [ %b1, %done ]",
        *_state(code),
        "done:",
        "%b1 = add i64 %b, 1",
        "when slt i64 %b1, %n: state, end",
        "end:",
        *workspaces.release(),
        "br label %leave",
        "leave:",
        "ret void",
        "}",
    ]
    return expanded("\n".join(lines)) + workspaces.functions()


def _state(code: _SingleState) -> list[str]:
    """The instructions for one state, of arrays in rows or, through copies, of any strides."""
    arrays = range(len(code.shapes))
    call = "(" + ", ".join([*[f"ptr %r{n}" for n in arrays], "ptr %kept"]) + ")"
    return [
        *[f"%row{n} = at %base{n} $(mul i64 %b, %step{n})" for n in arrays],
        "br i1 %dense, label %go, label %gather",
        "gather:",
        *[_copied(code, n, back=False) for n in arrays[: code.inputs]],
        "br label %go",
        "go:",
        *[f"%r{n} = select i1 %dense, ptr %row{n}, ptr %near{n}" for n in arrays],
        *[f"call void @block{k}{call}" for k in range(len(code.blocks))],
        "br i1 %dense, label %done, label %scatter",
        "scatter:",
        *[_copied(code, n, back=True) for n in arrays[code.inputs :]],
        "br label %done",
    ]


def source(packed: Packed, lanes: int, dtype: np.dtype) -> str:
    """The LLVM IR of a loop over states, one by one, in vectors of so many lanes."""
    t = Lanes(np.dtype(dtype), lanes)
    code = _SingleState(packed, t)
    lines = lower.declarations(t) + lower.constants([packed.graph], t)
    for number in range(len(code.blocks)):
        lines += _block(code, number)
    return "\n".join([*lines, _loop(code), gather.copy(t)])
