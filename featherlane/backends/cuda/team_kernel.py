"""A kernel of a team: several warps compute one stretch of a graph for the same 32 states.

Each warp has one straight line of code, cut by barriers of the block where phases end. Values that
other warps take go through shared memory, where all slots of 32 states lie side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from featherlane.backends.cuda import rows
from featherlane.backends.cuda.kernel import KernelFrame
from featherlane.backends.cuda.kernel_body import KernelBody
from featherlane.backends.cuda.kernel_stage import KernelStage, Key, Launch, Shape
from featherlane.backends.cuda.ptx import WARP, Text, straight_line
from featherlane.backends.cuda.rows import ALL, PITCH, Share
from featherlane.backends.cuda.schedule import BARRIER, schedule
from featherlane.backends.cuda.tabled_rows import SHORT
from featherlane.backends.cuda.team_memory import layout

# Instructions of `tabled_rows.copy_out` for an entry and 32 states: of long lists, short ones
ENTRY, SHORT_ENTRY = 5, 15
LAUNCH = 1_000  # instructions of a warp that take as long as the launch of a kernel


class TeamWork(NamedTuple):
    """The work of a team. operations: those of the graph; path: those of the longest warp of each
    phase, summed up; longest: instructions of the longest warp, with loads, stores and copies of
    outputs; barriers: of the block; launches: kernels, one after the other.
    """

    operations: int
    path: int
    longest: int
    barriers: int
    launches: int = 1

    @property
    def time(self) -> float:
        """The time of a call with few states, in instructions of a lone warp. The constants for
        barriers and launches were not measured on a GPU.
        """
        return self.longest + BARRIER * self.barriers + LAUNCH * self.launches


class TeamKernel(KernelBody):
    """A stage for a team. memory: bytes of shared memory of a block at most. `write` makes the
    text, when the slots of scratch memory are known.
    """

    barrier = "bar.sync 0"

    def __init__(
        self,
        stage: KernelStage,
        name: str,
        dtype: np.dtype,
        arrays: Mapping[Key, Shape],
        warps: int,
        memory: int,
    ) -> None:
        self.team, self.memory, self.user = warps, memory, arrays
        super().__init__(stage, name, dtype, {x: math.prod(y) for x, y in arrays.items()})
        self.dtype = dtype

    def _place_results(self, at: int) -> None:
        stage, warps, memory, self.before_slots = self.stage, self.team, self.memory, at
        self.schedule = schedule(stage.graph, stage.nodes, warps)
        capacity = (memory - self.before_slots) // (PITCH * self.size)
        self.layout = layout(self.schedule, stage.outputs, capacity)
        bytes_of_slots = PITCH * self.size * self.layout.shared_slots
        self.bytes = -(-(self.before_slots + bytes_of_slots) // 16) * 16
        self.loads = self._loads()
        self.copies = [self._copies(p) for p in range(self.layout.phases)]

    def kernel(self, first: int, slots: int) -> tuple[list[str], Launch]:
        """The text and its launch. first: the slot of scratch memory from which on this kernel
        keeps what it needs alone; slots: all of them.
        """
        self.first = first
        frame = KernelFrame(Text(self.dtype), self.user, slots, self.bytes, self.team)
        self.number = frame.number
        arrays = {x: frame.array(x) for x in self.arrays_used}
        self.write(frame.text, frame.thread, arrays)
        return [*self.tables, *frame.lines(self.name)], frame.launch(self.name)

    def _load_rows(self, share: Share = ALL) -> None:
        """Does nothing: each warp loads its share of the rows in its straight line."""

    def _compute(self) -> None:
        t = self.text
        self.slots = self._at(self.before_slots)
        self.own_slots = t.set("r", "mad.lo.u32", self.warp.lane, self.size, self.slots)
        labels = [t.label() for _ in range(self.team)]
        for w, label in enumerate(labels[1:], 1):
            t.do(f"@{t.set('p', 'setp.eq.u32', self.number, w)} bra {label}")
        for w, label in enumerate(labels):
            t.lines.append(f"{label}:")
            self._line_of(w)
            t.do("ret")

    def _line_of(self, w: int) -> None:
        """The straight line of a warp."""
        self.registers: dict[int, str] = {}  # of what this warp has computed
        super()._load_rows((w, self.team))
        leaves = [k for k in self.stage.stores if k not in self.schedule.needs]
        for k in _share(leaves, w, self.team):
            self._done(k, self._value(k))
        for p in range(self.layout.phases):
            if p:
                self.text.do(self.barrier)
            nodes = self._phase(p)[w]
            straight_line(self.stage.graph, self.text, nodes, {*nodes}, self._load, self._done)
            fills = self.layout.fills.get(p, {})
            for k in _share([*fills], w, self.team):
                self._keep(self._value(k), fills[k])
            for name, pairs in self.copies[p][w].items():
                self._copy_entries(name, sorted(pairs), self.slots)

    def _phase(self, p: int) -> list[list[int]]:
        """The operations of each warp in a phase; the last phases may only copy."""
        phases = self.schedule.phases
        return phases[p] if p < len(phases) else [[] for _ in range(self.team)]

    def _done(self, k: int, register: str) -> None:
        """Keeps a value where others take it from."""
        t = self.text
        self.registers[k] = register
        for slot in self.stage.stores.get(k, ()):
            rows.store(t, "global", [register], self._slot(slot))
        if k in self.layout.shared:
            self._keep(register, self.layout.shared[k])
        elif k in self.layout.scratch:
            rows.store(t, "global", [register], self._slot(self.first + self.layout.scratch[k]))

    def _keep(self, register: str, slot: int) -> None:
        rows.store(self.text, "shared", [register], self._shared(slot))

    def _shared(self, slot: int) -> str:
        """The address of this thread's number in a slot of shared memory."""
        return f"{self.own_slots}+{slot * PITCH * self.size}"

    def _slot(self, slot: int) -> str:
        """The address of this thread's number in a slot of scratch memory."""
        return f"{self.thread.scratch}+{slot * WARP * self.size}"

    def _load(self, k: int) -> dict[int, str]:
        """Loads a value that this warp has not computed in this phase."""
        if k in self.registers:
            return {k: self.registers[k]}
        if k in self.layout.shared:
            return {k: rows.load(self.text, "shared", 1, self._shared(self.layout.shared[k]))[0]}
        if k in self.layout.scratch:
            at = self._slot(self.first + self.layout.scratch[k])
            return {k: rows.load(self.text, "global", 1, at)[0]}
        return super()._load(k)

    def _loads(self) -> list[list[int]]:
        """Instructions by phase and warp, but for copies of outputs: operations, loads and stores
        of what comes from elsewhere, fills.
        """
        needs, kept = self.schedule.needs, {*self.layout.shared, *self.layout.scratch}
        places, loads_of_phases = self.schedule.places, []
        for p in range(self.layout.phases):
            fills = -(-2 * len(self.layout.fills.get(p, ())) // self.team)
            loads = [fills] * self.team
            for w, nodes in enumerate(self._phase(p)):
                taken = {a for k in nodes for a in needs[k] if places[a][1] != w}
                taken |= {a for k in nodes for a in self.stage.graph.args[k] if self._is_far(a)}
                stores = sum((k in kept) + len(self.stage.stores.get(k, ())) for k in nodes)
                loads[w] += len(nodes) + len(taken) + stores
            loads_of_phases.append(loads)
        return loads_of_phases

    def _is_far(self, k: int) -> bool:
        """Whether a value comes from the user's arrays or other kernels."""
        return k in self.stage.inputs or k in self.stage.slots

    def _copies(self, p: int) -> list[dict[Key, list[tuple[int, int]]]]:
        """The entries of outputs that each warp copies in a phase, with their slots: the most to
        warps that compute the least. Their instructions are added to the loads.
        """
        entries: dict[Key, list[tuple[int, int]]] = {}
        for k, slot in self.layout.copies_out.get(p, {}).items():
            for name, e in self.stage.outputs[k]:
                entries.setdefault(name, []).append((e, slot))
        loads = self.loads[p]
        copies: list[dict[Key, list[tuple[int, int]]]] = [{} for _ in range(self.team)]
        for name, pairs in entries.items():
            size, each = (len(pairs), SHORT_ENTRY) if len(pairs) <= SHORT else (WARP, ENTRY)
            for part in _cut(sorted(pairs), size):
                w = loads.index(min(loads))
                copies[w].setdefault(name, []).extend(part)
                loads[w] += size * each
        return copies

    @property
    def work(self) -> TeamWork:
        longest = sum(map(max, self.loads))
        barriers = bool(self.places) + max(self.layout.phases - 1, 0)
        return TeamWork(len(self.schedule.needs), self.schedule.longest, longest, barriers)


def _share(numbers: list[int], w: int, warps: int) -> list[int]:
    """The share of a warp."""
    return numbers[len(numbers) * w // warps : len(numbers) * (w + 1) // warps]


def _cut(pairs: list[tuple[int, int]], size: int) -> Iterator[list[tuple[int, int]]]:
    for first in range(0, len(pairs), size):
        yield pairs[first : first + size]
