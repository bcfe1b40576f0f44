"""The body of a kernel: a thread computes a stretch of a graph for one state, in registers.

Rows of the user's arrays go in and out through shared memory, a warp's states together. Values that
other kernels compute or need lie in scratch memory, where the threads of a warp have neighbouring
numbers: all slots of 32 states, then those of the next 32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda import rows, tabled_rows
from featherlane.backends.cuda.kernel_stage import (
    BLOCK_BYTES,
    Entry,
    KernelStage,
    Key,
)
from featherlane.backends.cuda.ptx import (
    EMIT,
    RELOAD,
    WARP,
    Text,
    straight_line,
)
from featherlane.backends.cuda.rows import (
    ALL,
    CHUNK,
    PITCH,
    GlobalRows,
    Share,
    Warp,
    odd,
    together,
)
from featherlane.program.op import CONDITIONS

INPUT_BYTES = 20 << 10  # of it for inputs of a warp; rows of longer ones are read as they lie
WARP_BYTES = 24 << 10  # for a warp, where results leave in parts: more would idle processors
RESULT_BYTES = 24 << 10  # of it for whole rows of results of a warp; others leave by tables
# As ptx.RELOAD, for what does not lie in shared memory: with 128, kernels of large functions load
# up to four times as much from scratch memory
RELOAD_FAR = 512
TOGETHER = "bar.warp.sync 0xffffffff"  # what a thread of the warp wrote, the others may read


class StoreBatch(NamedTuple):
    """Values that are copied out together: their slots in shared memory by node, the entries of
    each output that take them, and the node after which all are known.
    """

    slots: dict[int, int]
    outputs: dict[Key, list[tuple[int, int]]]
    last: int


def _whole_rows(outputs: Mapping[int, Sequence[Entry]], numbers: Mapping[Key, int]) -> list[Key]:
    """The outputs all of whose entries this kernel computes: their rows are laid out in shared
    memory as in the user's array.
    """
    counts = Counter(x for entries in outputs.values() for x, _ in entries)
    return [x for x, count in counts.items() if count == numbers[x]]


def _parts(outputs: Mapping[int, Sequence[Entry]], most: int) -> list[StoreBatch]:
    parts = []
    for nodes in rows.flushes(sorted(outputs), most):
        slots = {node: slot for slot, node in enumerate(nodes)}
        entries: dict[Key, list[tuple[int, int]]] = {}
        for node, slot in slots.items():
            for name, e in outputs[node]:
                entries.setdefault(name, []).append((e, slot))
        parts.append(
            StoreBatch(slots, {x: sorted(pairs) for x, pairs in entries.items()}, nodes[-1])
        )
    return parts


class Slots(NamedTuple):
    """An array in scratch memory. base: register with the address of the thread's first number."""

    base: str


class Thread(NamedTuple):
    """Registers of what a thread works on: its warp; the addresses of the warp's shared memory and
    of the thread's first slot of scratch memory; the number of the column.
    """

    warp: Warp
    place: str
    scratch: str
    column: str


class KernelBody:
    """The instructions of a stage, but for where its arrays begin. numbers: the entries of each
    array; in_slots: the arrays that lie in scratch memory, the others are the user's. Shared memory
    of a warp: rows of inputs, rows of results that leave as they are, then other results that leave
    together.
    """

    def __init__(
        self,
        stage: KernelStage,
        name: str,
        dtype: np.dtype,
        numbers: Mapping[Key, int],
        in_slots: Set[Key] = frozenset(),
    ) -> None:
        self.stage, self.name, self.size = stage, name, dtype.itemsize
        self.numbers, self.in_slots = numbers, in_slots
        self.tables: list[str] = []
        self.nodes: dict[Entry, list[int]] = {}  # that are an entry of an input
        for k, place in stage.inputs.items():
            self.nodes.setdefault(place, []).append(k)
        at = self._place_inputs()
        self._place_results(at)

    barrier = TOGETHER  # of the threads that share memory

    def _place_inputs(self) -> int:
        """Gives inputs places in shared memory, and returns where the last one ends."""
        length = lambda x: (self.numbers[x], x)
        self.read = sorted({x for x, _ in self.stage.inputs.values()}, key=length)
        self.places, at = dict[Key, int](), 0  # bytes of a warp's memory before an array
        for x in self.read:
            size = WARP * self.numbers[x] * self.size
            if x not in self.in_slots and at + size <= INPUT_BYTES:
                self.places[x] = at
                at += size
        return at

    def _place_results(self, at: int) -> None:
        """Places results behind the inputs, which end at `at`."""
        first, outputs = at, self.stage.outputs
        self.whole = list[Key]()  # outputs whose rows are copied out as they are
        for x in sorted(_whole_rows(outputs, self.numbers), key=lambda x: (self.numbers[x], x)):
            size = WARP * odd(self.numbers[x]) * self.size
            if x not in self.in_slots and at + size <= min(first + RESULT_BYTES, BLOCK_BYTES):
                self.whole.append(x)
                self.places[x] = at
                at += size
        elsewhere = self.in_slots | {*self.whole}
        tabled = {k: [e for e in to if e[0] not in elsewhere] for k, to in outputs.items()}
        tabled = {k: to for k, to in tabled.items() if to}
        most = min(max(WARP_BYTES, at + WARP_BYTES // 3), BLOCK_BYTES)
        self.parts = _parts(tabled, (most - at) // (PITCH * self.size)) if tabled else []
        self.before_slots = at
        most = max((len(part.slots) for part in self.parts), default=0)
        self.bytes = -(-(at + most * PITCH * self.size) // CHUNK) * CHUNK

    @property
    def arrays_used(self) -> list[Key]:
        """The arrays that it reads or writes."""
        outputs = (x for entries in self.stage.outputs.values() for x, _ in entries)
        return [*dict.fromkeys((*self.read, *outputs))]

    def write(self, text: Text, thread: Thread, arrays: Mapping[Key, GlobalRows | Slots]) -> None:
        """Writes the instructions. arrays: where those that are used begin."""
        self.text, self.thread, self.warp = text, thread, thread.warp
        self.arrays = {x: array for x, array in arrays.items() if isinstance(array, GlobalRows)}
        self.bases = {x: array.base for x, array in arrays.items() if isinstance(array, Slots)}
        self._begin_columns()
        self._load_rows()
        self._compute()

    def _begin_columns(self) -> None:
        """Computes the addresses of this column's operands and results."""
        t, columns, row = self.text, self.stage.columns, WARP * self.size
        self.each = self.results = scratch = self.thread.scratch
        if columns is not None:
            number = self.thread.column
            each = t.set("w", "mad.wide.u32", number, columns.size * row, scratch)
            self.each = t.set("w", "add.u64", each, columns.each * row)
            result = t.set("w", "mad.wide.u32", number, columns.results * row, scratch)
            self.results = t.set("w", "add.u64", result, columns.result * row)

    def _at(self, place: int) -> str:
        """An address in the warp's shared memory."""
        return self.text.set("r", "add.u32", self.thread.place, place)

    def _load_rows(self, share: Share = ALL) -> None:
        """Brings inputs, or a warp's share of them, to shared memory."""
        t, lane = self.text, self.warp.lane
        self.rows: dict[Key, str] = {}  # where this thread's row of an input is
        for x in self.read:
            if x in self.places:
                start, size = self._at(self.places[x]), self.numbers[x] * self.size
                rows.load_rows(t, self.warp, self.arrays[x], start, share)
                self.rows[x] = t.set("r", "mad.lo.u32", lane, size, start)
            elif x not in self.in_slots:  # threads beyond the last state read its row
                last = t.set("r", "sub.u32", self.warp.states, 1)
                offset = t.set("w", "cvt.u64.u32", t.set("r", "min.u32", lane, last))
                base, stride = self.arrays[x].base, self.arrays[x].stride
                self.rows[x] = t.set("w", "mad.lo.u64", offset, stride, base)
        if self.places:
            t.do(self.barrier)

    def _load(self, k: int) -> dict[int, str]:
        """Brings a value that this kernel does not compute, and those that come along with it."""
        t, stage, row = self.text, self.stage, WARP * self.size
        if (op := stage.graph.op[k]) in CONDITIONS:
            return {k: EMIT[op](t, *map(self._value, stage.graph.args[k]))}
        if k in stage.numbers:
            return {k: t.number(stage.numbers[k])}
        if k in stage.inputs:
            return self._load_input(*stage.inputs[k])
        if k in stage.operands:
            at = f"{self.each}+{stage.operands[k] * row}"
        else:
            at = f"{self.thread.scratch}+{stage.slots[k] * row}"
        return {k: rows.load(t, "global", 1, at)[0]}

    def _value(self, k: int) -> str:
        """A constant, or a loaded value."""
        if self.stage.graph.op[k] == "constant":
            return self.text.number(float(self.stage.graph.value[k]))
        return self._load(k)[k]

    def _load_input(self, name: Key, e: int) -> dict[int, str]:
        """Brings an entry of an input; of one in shared memory, the numbers beside it too."""
        space, wide, size = "global", 1, self.size
        if name in self.in_slots:
            start, size = self.bases[name], WARP * size
        else:
            start = self.rows[name]
            if name in self.places:
                space, wide = "shared", together(self.numbers[name], size)
        first = e // wide * wide
        registers = rows.load(self.text, space, wide, f"{start}+{first * size}")
        numbered = enumerate(registers, first)
        return {k: x for i, x in numbered for k in self.nodes.get((name, i), ())}

    def _compute(self) -> None:
        """Writes the stage's graph, and stores each value wherever later stages and results have
        it.
        """
        t, stage, size = self.text, self.stage, self.size
        slots = self._at(self.before_slots)
        row = t.set("r", "mad.lo.u32", self.warp.lane, size, slots)
        results = {x: self._thread_row(x) for x in self.whole}
        waiting = iter(self.parts)
        part = next(waiting, None)

        def done(k: int, register: str) -> None:
            """Stores a computed value wherever it is read: in slots, rows, and the part that is
            copied out when its last value is there.
            """
            nonlocal part
            for slot in stage.stores.get(k, ()):
                rows.store(t, "global", [register], f"{self.results}+{slot * WARP * size}")
            for x, e in stage.outputs.get(k, ()):
                if x in results:
                    rows.store(t, "shared", [register], f"{results[x]}+{e * size}")
                elif x in self.in_slots:
                    rows.store(t, "global", [register], f"{self.bases[x]}+{e * WARP * size}")
            if part is None or k not in part.slots:
                return
            rows.store(t, "shared", [register], f"{row}+{part.slots[k] * PITCH * size}")
            if k == part.last:
                self._copy_out(part, slots)
                part = next(waiting, None)

        wanted = {*stage.stores, *stage.outputs}
        straight_line(stage.graph, t, stage.nodes, wanted, self._load, done, self._reload)
        if self.whole:
            t.do(TOGETHER)
        for x in self.whole:
            rows.store_rows(t, self.warp, self.arrays[x], self._at(self.places[x]))

    def _reload(self, k: int) -> int:
        entry = self.stage.inputs.get(k)
        return RELOAD if entry is not None and entry[0] in self.places else RELOAD_FAR

    def _thread_row(self, x: Key) -> str:
        """The address in shared memory of the thread's row of an output."""
        start, size = self._at(self.places[x]), odd(self.numbers[x]) * self.size
        return self.text.set("r", "mad.lo.u32", self.warp.lane, size, start)

    def _copy_out(self, part: StoreBatch, slots: str) -> None:
        """Copies values to the user's arrays, all threads of the warp together."""
        self.text.do(TOGETHER)
        for name, pairs in part.outputs.items():
            self._copy_entries(name, pairs, slots)
        self.text.do(TOGETHER)

    def _copy_entries(self, name: Key, pairs: Sequence[tuple[int, int]], slots: str) -> None:
        """Copies slots of shared memory to entries of one of the user's arrays."""
        entries = tabled_rows.OutputEntries(self.arrays[name], pairs)
        table = f"{self.name}_table{len(self.tables)}"
        self.tables.append(tabled_rows.table(table, entries))
        tabled_rows.copy_out(self.text, self.warp, entries, table, slots)
