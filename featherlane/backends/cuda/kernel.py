"""One kernel: a thread computes a stretch of a graph for one state, in registers.

Rows of the user's arrays go in and out through shared memory, a warp's states together. Values that
other kernels compute or need lie in scratch memory, where the threads of a warp have neighbouring
numbers: all slots of 32 states, then those of the next 32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda import rows
from featherlane.backends.cuda.ptx import EMIT, WARP, Text, entry, straight_line
from featherlane.backends.cuda.rows import PITCH, Array, Shown, Warp, pitch
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS

MEMORY = "memory"  # the shared memory of a block
BLOCK_BYTES = 48 << 10  # of shared memory that every processor has without being asked for more
INPUT_BYTES = 30 << 10  # of it for inputs of a warp; rows of longer ones are read as they lie
MOST_WARPS = 4  # of a block

Shape = tuple[int, ...]
Key = tuple[str, str]  # of one of the user's arrays: "input" or "output", and its name
Entry = tuple[Key, int]


class Columns(NamedTuple):
    """Calls of one function, side by side: each computes with the same threads' slots, but for
    those of its own, `size` from one call to the next, and writes `results` of its own.
    """

    calls: int
    each: int  # the slot where the operands of the first call begin
    size: int
    result: int  # the slot where the results of the first call begin
    results: int


class Stage(NamedTuple):
    """The work of one kernel: `nodes` of a graph. By node: inputs are entries of the user's
    arrays, numbers, slots, or operands of a column; stores are the slots that keep a value, behind
    those of the column if there are columns; shown are the entries of outputs that show one.
    """

    graph: Graph
    nodes: range
    inputs: Mapping[int, Entry]
    numbers: Mapping[int, float]
    slots: Mapping[int, int]
    operands: Mapping[int, int]
    stores: Mapping[int, Sequence[int]]
    shown: Mapping[int, Sequence[Entry]]
    columns: Columns | None = None


class Launch(NamedTuple):
    """A kernel and how it is launched: threads and bytes of shared memory of a block, the states
    that a block computes, and the blocks for the same states.
    """

    kernel: str
    threads: int
    shared: int
    states: int
    columns: int


class Part(NamedTuple):
    """Values that leave together: their slots in shared memory by node, the entries of each output
    that show them, and the node after which all are known.
    """

    slots: dict[int, int]
    shown: dict[Key, list[tuple[int, int]]]
    last: int


def _parts(shown: Mapping[int, Sequence[Entry]], most: int) -> list[Part]:
    parts = []
    for own in rows.flushes(sorted(shown), most):
        slots = {node: slot for slot, node in enumerate(own)}
        entries: dict[Key, list[tuple[int, int]]] = {}
        for node, slot in slots.items():
            for name, e in shown[node]:
                entries.setdefault(name, []).append((e, slot))
        parts.append(Part(slots, {x: sorted(pairs) for x, pairs in entries.items()}, own[-1]))
    return parts


class StageKernel:
    """The text of a stage. arrays: the entries of each of the user's arrays, of which all kernels
    get the addresses; slots: of scratch memory. Shared memory of a warp: the rows of inputs, then
    outputs that leave together.
    """

    barrier = "bar.warp.sync 0xffffffff"  # of the threads that share memory

    def __init__(
        self, stage: Stage, name: str, dtype: np.dtype, arrays: Mapping[Key, Shape], slots: int
    ) -> None:
        self._declare(stage, name, dtype, arrays)
        self.all_slots, at = slots, self._place_inputs()
        self.parts = _parts(stage.shown, (BLOCK_BYTES - at) // (PITCH * self.size))
        self.before_slots = at
        most = max((len(part.slots) for part in self.parts), default=0)
        self.bytes = -(-(at + most * PITCH * self.size) // 16) * 16
        self.warps = max(min(BLOCK_BYTES // max(self.bytes, 1), MOST_WARPS), 1)
        self._begin()
        self._bring()
        self._compute()
        self.text.do("ret")

    def _declare(
        self, stage: Stage, name: str, dtype: np.dtype, arrays: Mapping[Key, Shape]
    ) -> None:
        """Begins a kernel without text."""
        self.stage, self.name, self.text, self.size = stage, name, Text(dtype), dtype.itemsize
        self.numbers = {x: math.prod(shape) for x, shape in arrays.items()}
        self.shares = bool(stage.slots or stage.operands or stage.stores)
        self.tables: list[str] = []

    def _place_inputs(self) -> int:
        """Gives inputs places in shared memory, and returns where the last one ends."""
        self.places, at = dict[Key, int](), 0  # bytes of a warp's memory before an input
        entries = self.stage.inputs.values()
        self.read = sorted({x for x, _ in entries}, key=self.numbers.__getitem__)
        for x in self.read:
            size = WARP * pitch(self.numbers[x]) * self.size
            if at + size <= INPUT_BYTES:
                self.places[x] = at
                at += size
        return at

    def lines(self) -> list[str]:
        pairs = [(("u64", f"a{k}"), ("u64", f"s{k}")) for k in range(len(self.numbers))]
        parameters = [*(x for pair in pairs for x in pair), ("u64", "scratch"), ("u64", "count")]
        return [*self.tables, *entry(self.name, parameters, self.text)]

    @property
    def launch(self) -> Launch:
        states, columns = WARP * self.warps, self.stage.columns
        count = columns.calls if columns else 1
        return Launch(self.name, states, self.bytes * self.warps, states, count)

    def _begin(self) -> None:
        """Which states this warp has, and where their rows and slots are."""
        t, written = self.text, (x for to in self.stage.shown.values() for x, _ in to)
        used = {*self.read, *written}
        thread = t.set("r", "mov.u32", "%tid.x")
        lane, warp = t.set("r", "and.b32", thread, WARP - 1), t.set("r", "shr.u32", thread, 5)
        tile, self.place = self._own(t.set("r", "mov.u32", "%ctaid.x"), warp)
        first = t.set("w", "mul.wide.u32", tile, WARP)
        count = t.set("w", "ld.param.u64", "[count]")
        t.do(f"@{t.set('p', 'setp.ge.u64', first, count)} ret")
        left = t.set("w", "min.u64", t.set("w", "sub.u64", count, first), WARP)
        self.warp = Warp(lane, t.set("r", "cvt.u32.u64", left))
        self.arrays: dict[Key, Array] = {}
        for k, (x, numbers) in enumerate(self.numbers.items()):
            if x in used:
                stride = t.set("w", "ld.param.u64", f"[s{k}]")
                start = t.set("w", "ld.param.u64", f"[a{k}]")
                base = t.set("w", "mad.lo.u64", first, stride, start)
                self.arrays[x] = Array(numbers, base, stride)
        if self.shares:
            scratch = t.set("w", "ld.param.u64", "[scratch]")
            start = t.set("w", "mad.wide.u32", tile, self.all_slots * WARP * self.size, scratch)
            self.scratch = t.set("w", "mad.wide.u32", lane, self.size, start)
            self._begin_columns()

    def _own(self, block: str, warp: str) -> tuple[str, str]:
        """The number of the 32 states of a warp, and where its shared memory begins."""
        t, memory = self.text, self.text.set("r", "mov.u32", MEMORY)
        place = t.set("r", "mad.lo.u32", warp, self.bytes, memory)
        return t.set("r", "mad.lo.u32", block, self.warps, warp), place

    def _begin_columns(self) -> None:
        """Where this column's operands and results are."""
        t, columns, row = self.text, self.stage.columns, WARP * self.size
        if columns is None:
            self.each = self.results = self.scratch
            return
        number = t.set("r", "mov.u32", "%ctaid.y")
        each = t.set("w", "mad.wide.u32", number, columns.size * row, self.scratch)
        self.each = t.set("w", "add.u64", each, columns.each * row)
        result = t.set("w", "mad.wide.u32", number, columns.results * row, self.scratch)
        self.results = t.set("w", "add.u64", result, columns.result * row)

    def _at(self, place: int) -> str:
        """An address in the warp's shared memory."""
        return self.text.set("r", "add.u32", self.place, place)

    def _bring(self, warp: int = 0, warps: int = 1) -> None:
        """Brings a warp's share of the inputs to shared memory."""
        t, lane = self.text, self.warp.lane
        self.rows: dict[Key, str] = {}  # where this thread's row of an input is
        for x in self.read:
            if x in self.places:
                start, size = self._at(self.places[x]), pitch(self.numbers[x]) * self.size
                n = self.numbers[x]
                part = range(n * warp // warps, n * (warp + 1) // warps)
                rows.bring(t, self.warp, self.arrays[x], start, part)
                self.rows[x] = t.set("r", "mad.lo.u32", lane, size, start)
            else:  # threads beyond the last state read its row
                last = t.set("r", "sub.u32", self.warp.states, 1)
                own = t.set("w", "cvt.u64.u32", t.set("r", "min.u32", lane, last))
                base, stride = self.arrays[x].base, self.arrays[x].stride
                self.rows[x] = t.set("w", "mad.lo.u64", own, stride, base)
        if self.places:
            t.do(self.barrier)

    def _load(self, k: int) -> str:
        """Brings a value that this kernel does not compute."""
        t, stage = self.text, self.stage
        if stage.graph.op[k] in CONDITIONS:
            return EMIT[stage.graph.op[k]](t, *map(self._value, stage.graph.args[k]))
        if k in stage.numbers:
            return t.number(stage.numbers[k])
        if k in stage.inputs:
            name, e = stage.inputs[k]
            space = "shared" if name in self.places else "global"
            return t.set("f", f"ld.{space}.{t.type}", f"[{self.rows[name]}+{e * self.size}]")
        if k in stage.operands:
            at = self._slot(self.each, stage.operands[k])
        else:
            at = self._slot(self.scratch, stage.slots[k])
        return t.set("f", f"ld.global.{t.type}", at)

    def _value(self, k: int) -> str:
        """A constant, or what is brought."""
        if self.stage.graph.op[k] == "constant":
            return self.text.number(float(self.stage.graph.value[k]))
        return self._load(k)

    def _slot(self, start: str, slot: int) -> str:
        """A slot of scratch memory as an operand."""
        return f"[{start}+{slot * WARP * self.size}]"

    def _compute(self) -> None:
        t, stage, size = self.text, self.stage, self.size
        slots = self._at(self.before_slots)
        own = t.set("r", "mad.lo.u32", self.warp.lane, size, slots)
        waiting = iter(self.parts)
        part = next(waiting, None)

        def done(k: int, register: str) -> None:
            nonlocal part
            for slot in stage.stores.get(k, ()):
                t.do(f"st.global.{t.type} {self._slot(self.results, slot)}, {register}")
            if part is None or k not in part.slots:
                return
            t.do(f"st.shared.{t.type} [{own}+{part.slots[k] * PITCH * size}], {register}")
            if k == part.last:
                self._show(part, slots)
                part = next(waiting, None)

        wanted = {*stage.stores, *stage.shown}
        straight_line(stage.graph, t, stage.nodes, wanted, self._load, done)

    def _show(self, part: Part, slots: str) -> None:
        """Copies a part of the outputs to the user's arrays, all threads together."""
        self.text.do(self.barrier)
        for name, pairs in part.shown.items():
            self._show_entries(name, pairs, slots)
        self.text.do(self.barrier)

    def _show_entries(self, name: Key, pairs: Sequence[tuple[int, int]], slots: str) -> None:
        """Copies slots of shared memory to entries of one of the user's arrays."""
        shown = Shown(self.arrays[name], pairs)
        table = f"{self.name}_table{len(self.tables)}"
        self.tables.append(rows.table(table, shown))
        rows.show(self.text, self.warp, shown, table, slots)
