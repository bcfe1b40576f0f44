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
from featherlane.backends.cuda.ptx import RELOAD, WARP, Text, entry, straight_line
from featherlane.backends.cuda.rows import PITCH, Array, Shown, Warp, pitch
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS

MEMORY = "memory"  # the shared memory of a block
BLOCK_BYTES = 48 << 10  # of shared memory that every processor has without being asked for more
INPUT_BYTES = 30 << 10  # of it for inputs of a warp; rows of longer ones are read as they lie
MOST_WARPS = 4  # of a block
# As ptx.RELOAD, for what does not lie in shared memory: with 128, kernels of large functions load
# up to four times as much from scratch memory
RELOAD_FAR = 512

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

    def __init__(
        self, stage: Stage, name: str, dtype: np.dtype, arrays: Mapping[Key, Shape], slots: int
    ) -> None:
        self.stage, self.name, self.text, self.all_slots = stage, name, Text(dtype), slots
        self.size = dtype.itemsize
        self.numbers = {x: math.prod(shape) for x, shape in arrays.items()}
        self.places, at = dict[Key, int](), 0  # bytes of a warp's memory before an input
        self.read = sorted({x for x, _ in stage.inputs.values()}, key=self.numbers.__getitem__)
        for x in self.read:
            size = WARP * pitch(self.numbers[x]) * self.size
            if at + size <= INPUT_BYTES:
                self.places[x] = at
                at += size
        self.parts = _parts(stage.shown, (BLOCK_BYTES - at) // (PITCH * self.size))
        self.before_slots = at
        most = max((len(part.slots) for part in self.parts), default=0)
        self.bytes = -(-(at + most * PITCH * self.size) // 16) * 16
        self.warps = max(min(BLOCK_BYTES // max(self.bytes, 1), MOST_WARPS), 1)
        self.tables: list[str] = []
        self._begin()
        self._bring()
        self._compute()
        self.text.do("ret")

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
        t, used = self.text, {*self.read, *(x for part in self.parts for x in part.shown)}
        thread = t.set("r", "mov.u32", "%tid.x")
        lane, warp = t.set("r", "and.b32", thread, WARP - 1), t.set("r", "shr.u32", thread, 5)
        block = t.set("r", "mov.u32", "%ctaid.x")
        tile = t.set("r", "mad.lo.u32", block, self.warps, warp)
        first = t.set("w", "mul.wide.u32", tile, WARP)
        count = t.set("w", "ld.param.u64", "[count]")
        t.do(f"@{t.set('p', 'setp.ge.u64', first, count)} ret")
        left = t.set("w", "min.u64", t.set("w", "sub.u64", count, first), WARP)
        self.warp = Warp(lane, t.set("r", "cvt.u32.u64", left))
        self.place = t.set("r", "mad.lo.u32", warp, self.bytes, t.set("r", "mov.u32", MEMORY))
        self.arrays: dict[Key, Array] = {}
        for k, (x, numbers) in enumerate(self.numbers.items()):
            if x in used:
                stride = t.set("w", "ld.param.u64", f"[s{k}]")
                start = t.set("w", "ld.param.u64", f"[a{k}]")
                base = t.set("w", "mad.lo.u64", first, stride, start)
                self.arrays[x] = Array(numbers, base, stride)
        if self.stage.slots or self.stage.operands or self.stage.stores:
            scratch = t.set("w", "ld.param.u64", "[scratch]")
            start = t.set("w", "mad.wide.u32", tile, self.all_slots * WARP * self.size, scratch)
            self.scratch = t.set("w", "mad.wide.u32", lane, self.size, start)
            self._begin_columns()

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

    def _bring(self) -> None:
        t, lane = self.text, self.warp.lane
        self.rows: dict[Key, str] = {}  # where this thread's row of an input is
        for x in self.read:
            if x in self.places:
                start, size = self._at(self.places[x]), pitch(self.numbers[x]) * self.size
                rows.bring(t, self.warp, self.arrays[x], start)
                self.rows[x] = t.set("r", "mad.lo.u32", lane, size, start)
            else:  # threads beyond the last state read its row
                last = t.set("r", "sub.u32", self.warp.states, 1)
                own = t.set("w", "cvt.u64.u32", t.set("r", "min.u32", lane, last))
                base, stride = self.arrays[x].base, self.arrays[x].stride
                self.rows[x] = t.set("w", "mad.lo.u64", own, stride, base)
        if self.places:
            t.do("bar.warp.sync 0xffffffff")

    def _load(self, k: int) -> str:
        """Brings a value that this kernel does not compute."""
        t, stage, row = self.text, self.stage, WARP * self.size
        if k in stage.numbers:
            return t.number(stage.numbers[k])
        if k in stage.inputs:
            name, e = stage.inputs[k]
            space = "shared" if name in self.places else "global"
            return t.set("f", f"ld.{space}.{t.type}", f"[{self.rows[name]}+{e * self.size}]")
        if k in stage.operands:
            at = f"[{self.each}+{stage.operands[k] * row}]"
        else:
            at = f"[{self.scratch}+{stage.slots[k] * row}]"
        x = t.set("f", f"ld.global.{t.type}", at)
        is_condition = stage.graph.op[k] in CONDITIONS
        return t.set("p", f"setp.ne.{t.type}", x, t.number(0.0)) if is_condition else x

    def _reload(self, k: int) -> int:
        entry = self.stage.inputs.get(k)
        return RELOAD if entry is not None and entry[0] in self.places else RELOAD_FAR

    def _compute(self) -> None:
        t, stage, size = self.text, self.stage, self.size
        slots = self._at(self.before_slots)
        own = t.set("r", "mad.lo.u32", self.warp.lane, size, slots)
        waiting = iter(self.parts)
        part = next(waiting, None)

        def done(k: int, register: str) -> None:
            nonlocal part
            if k in stage.stores and stage.graph.op[k] in CONDITIONS:  # slots keep numbers
                register = t.set("f", f"selp.{t.type}", t.number(1.0), t.number(0.0), register)
            for slot in stage.stores.get(k, ()):
                at = f"[{self.results}+{slot * WARP * size}]"
                t.do(f"st.global.{t.type} {at}, {register}")
            if part is None or k not in part.slots:
                return
            t.do(f"st.shared.{t.type} [{own}+{part.slots[k] * PITCH * size}], {register}")
            if k == part.last:
                self._show(part, slots)
                part = next(waiting, None)

        wanted = {*stage.stores, *stage.shown}
        straight_line(stage.graph, t, stage.nodes, wanted, self._load, done, self._reload)

    def _show(self, part: Part, slots: str) -> None:
        """Copies a part of the outputs to the user's arrays, all threads together."""
        self.text.do("bar.warp.sync 0xffffffff")
        for name, pairs in part.shown.items():
            shown = Shown(self.arrays[name], pairs)
            table = f"{self.name}_table{len(self.tables)}"
            self.tables.append(rows.table(table, shown))
            rows.show(self.text, self.warp, shown, table, slots)
        self.text.do("bar.warp.sync 0xffffffff")
