"""One thread computes one state: all values in registers, rows in and out through shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda import rows
from featherlane.backends.cuda.ptx import HEADER, WARP, Text, entry, straight_line
from featherlane.backends.cuda.rows import PITCH, Array, Shown, Warp, pitch
from featherlane.program.graph import Graph

MEMORY = "memory"  # the shared memory of a block
BLOCK_BYTES = 48 << 10  # of shared memory that every processor has without being asked for more
WARP_BYTES = 32 << 10  # of it for the outputs of a warp at a time
MOST_WARPS = 4  # of a block


class Launch(NamedTuple):
    """A kernel and how it is launched: threads and bytes of shared memory of a block, and the
    states that a block computes.
    """

    kernel: str
    threads: int
    shared: int
    states: int


class Kernels(NamedTuple):
    """PTX text, and what is launched one after the other. inputs, outputs: names and shapes of one
    state. Arguments of each kernel: address and bytes from state to state of each array, inputs
    first, then the number of states.
    """

    text: str
    launches: tuple[Launch, ...]
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]


class _Part(NamedTuple):
    """Values that leave together: their slots by node, and the entries that show them."""

    slots: dict[int, int]
    shown: list[tuple[str, list[tuple[int, int]]]]
    last: int  # the node after which all are known


def _parts(graph: Graph, most: int) -> list[_Part]:
    nodes = sorted({n for out in graph.outputs.values() for n in out.nodes})
    parts = []
    for own in rows.flushes(nodes, most):
        slots = {node: slot for slot, node in enumerate(own)}
        shown = []
        for name, out in graph.outputs.items():
            pairs = [(e, slots[n]) for e, n in enumerate(out.nodes) if n in slots]
            shown += [(name, pairs)] if pairs else []
        parts.append(_Part(slots, shown, own[-1]))
    return parts


def kernels(graph: Graph, name: str, dtype: np.dtype) -> Kernels:
    """The kernel of a lowered graph."""
    return _StateKernel(graph, name, np.dtype(dtype)).made()


class _StateKernel:
    """The kernel in the making. Shared memory of a warp: the rows of inputs, then the slots of the
    outputs that leave together.
    """

    def __init__(self, graph: Graph, name: str, dtype: np.dtype) -> None:
        self.graph, self.name, self.text = graph, name, Text(dtype)
        self.size = dtype.itemsize
        self.inputs = {x: math.prod(shape) for x, shape in graph.inputs.items()}
        self.outputs = {x: math.prod(out.shape) for x, out in graph.outputs.items()}
        self.places, at = dict[str, int](), 0  # bytes of a warp's memory before an input
        for x, entries in self.inputs.items():
            self.places[x] = at
            at += WARP * pitch(entries) * self.size
        self.parts = _parts(graph, WARP_BYTES // (PITCH * self.size))
        self.before_slots = at
        slots = max((len(part.slots) for part in self.parts), default=0)
        self.bytes = -(-(at + slots * PITCH * self.size) // 16) * 16
        self.warps = max(min(BLOCK_BYTES // max(self.bytes, 1), MOST_WARPS), 1)
        self.tables: list[str] = []

    def made(self) -> Kernels:
        self._begin()
        self._bring()
        self._compute()
        self.text.do("ret")
        names = [*self.inputs, *self.outputs]
        pairs = [(("u64", f"a{k}"), ("u64", f"s{k}")) for k in range(len(names))]
        parameters = [x for pair in pairs for x in pair] + [("u64", "count")]
        shared = f".extern .shared .align 16 .b8 {MEMORY}[];"
        lines = [*HEADER, shared, *self.tables, *entry(self.name, parameters, self.text)]
        launch = Launch(self.name, WARP * self.warps, self.bytes * self.warps, WARP * self.warps)
        outputs = {x: out.shape for x, out in self.graph.outputs.items()}
        return Kernels("\n".join([*lines, ""]), (launch,), dict(self.graph.inputs), outputs)

    def _begin(self) -> None:
        """Which states this warp has, and where their rows are."""
        t = self.text
        thread = t.set("r", "mov.u32", "%tid.x")
        lane, warp = t.set("r", "and.b32", thread, WARP - 1), t.set("r", "shr.u32", thread, 5)
        block = t.set("r", "mov.u32", "%ctaid.x")
        tile = t.set("r", "mad.lo.u32", block, self.warps, warp)
        first = t.set("w", "mul.wide.u32", tile, WARP)
        count = t.set("w", "ld.param.u64", "[count]")
        nothing = t.set("p", "setp.ge.u64", first, count)
        t.do(f"@{nothing} ret")
        left = t.set("w", "min.u64", t.set("w", "sub.u64", count, first), WARP)
        self.warp = Warp(lane, t.set("r", "cvt.u32.u64", left))
        self.place = t.set("r", "mad.lo.u32", warp, self.bytes, t.set("r", "mov.u32", MEMORY))
        sizes = {**self.inputs, **self.outputs}
        self.arrays: dict[str, Array] = {}
        for k, (x, entries) in enumerate(sizes.items()):
            stride = t.set("w", "ld.param.u64", f"[s{k}]")
            base = t.set("w", "mad.lo.u64", first, stride, t.set("w", "ld.param.u64", f"[a{k}]"))
            self.arrays[x] = Array(x, entries, base, stride)

    def _at(self, place: int) -> str:
        """An address in the warp's shared memory."""
        return self.text.set("r", "add.u32", self.place, place)

    def _bring(self) -> None:
        t, lane = self.text, self.warp.lane
        self.rows: dict[str, str] = {}  # where this thread's row of an input is
        for x, entries in self.inputs.items():
            start = self._at(self.places[x])
            rows.bring(t, self.warp, self.arrays[x], start)
            self.rows[x] = t.set("r", "mad.lo.u32", lane, pitch(entries) * self.size, start)
        t.do("bar.warp.sync 0xffffffff")

    def _compute(self) -> None:
        t, size = self.text, self.size
        slots = self._at(self.before_slots)
        own = t.set("r", "mad.lo.u32", self.warp.lane, size, slots)
        waiting = iter(self.parts)
        part = next(waiting, None)

        def load(k: int) -> str:
            name, entry = self.graph.value[k]
            return t.set("f", f"ld.shared.{t.type}", f"[{self.rows[name]}+{entry * size}]")

        def done(k: int, register: str) -> None:
            nonlocal part
            if part is None or k not in part.slots:
                return
            t.do(f"st.shared.{t.type} [{own}+{part.slots[k] * PITCH * size}], {register}")
            if k == part.last:
                self._show(part, slots)
                part = next(waiting, None)

        straight_line(self.graph, t, load, done)

    def _show(self, part: _Part, slots: str) -> None:
        """Copies a part of the outputs to the user's arrays, all threads together."""
        self.text.do("bar.warp.sync 0xffffffff")
        for name, pairs in part.shown:
            shown = Shown(self.arrays[name], pairs)
            table = f"{self.name}_table{len(self.tables)}"
            self.tables.append(rows.table(table, shown))
            rows.show(self.text, self.warp, shown, table, slots)
        self.text.do("bar.warp.sync 0xffffffff")
