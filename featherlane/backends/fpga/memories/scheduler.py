"""Modulo scheduling of a datapath of units with operand memories.

Operations are placed from the last results backwards, the one with the longest path in front of it
first, so that a result is there shortly before it is read. An output shows a result until the next
one on its unit; meanwhile each memory that needs it takes it, in a phase in which it takes nothing
else. Where there is no such phase, another value makes room, if the memory can take that one in
another phase; else the memory takes the value from a delayed copy of the output.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.memories.binding import Binding, Port, add_to
from featherlane.backends.fpga.memories.operations import INPUT, UnitOperation
from featherlane.backends.fpga.memories.schedule import (
    DEEPEST,
    MemorySchedule,
    Tap,
    Write,
    ports_of,
    results_of,
)
from featherlane.errors import CompileError

ATTEMPTS = 30  # schedules that are begun
TRIES = 2  # intervals by which an operation may be earlier than it must be
DELAYED_COPY = 4.0  # cycles that a path may be longer to save a delayed copy
WAIT = 0.05  # cycles that a path may be longer to let an operand wait a cycle less


class PortTimes(NamedTuple):
    """The bounds that a schedule keeps. ports: names of outputs that are read together, all in the
    last cycle if there are none; arrival: the cycles before which inputs are not there, by name.
    """

    ports: Sequence[Collection[str]] = ()
    arrival: Mapping[str, int] = MappingProxyType({})


NO_TIMES = PortTimes()


class BoundOperations(NamedTuple):
    """The operations of a datapath on their units. cycles: as in `MemorySchedule`; depths: of the
    result of each operation, as `operations.by_arrival` returns them.
    """

    datapath: Datapath
    operations: Sequence[UnitOperation]
    binding: Binding
    interval: int
    cycles: Sequence[int]
    depths: Sequence[int]
    times: PortTimes = NO_TIMES

    @property
    def early(self) -> dict[str, int]:
        """The cycles by which outputs are read before the last one: as with unlimited units."""
        depth = {k: self.depths[n] for n, op in enumerate(self.operations) for k in op.gives}
        ready = dict[str, int]()
        for name, k in results_of(self.datapath):
            ready[name] = max(ready.get(name, 0), depth[k])
        last = max(ready.values(), default=0)
        early = dict[str, int]()
        for port in self.times.ports:
            early |= dict.fromkeys(port, last - max(ready.get(name, 0) for name in port))
        return early


def scheduled(bound: BoundOperations) -> MemorySchedule:
    """Returns the schedule of bound operations.

    Where the results of a unit leave no cycle for another one, all operations are placed again, and
    those of this unit an interval earlier, so that their results can be taken in more cycles.
    Raises CompileError if there is no schedule after several attempts.
    """
    datapath, operations, binding, interval, cycles, *_ = bound
    slack, n = Counter[int](), 0
    for _ in range(ATTEMPTS):
        scheduler = _Scheduler(bound, slack)
        refused = scheduler.place_all()
        if refused is None:
            break
        n = refused
        slack[binding.unit[n]] += interval
    else:
        node, unit = operations[n].gives[0], binding.unit[n]
        raise CompileError(f"unit {unit} has no cycle for node {node} at interval {interval}")
    first = min(cycle for reads in scheduler.reads.values() for cycle in reads)
    first -= _wait(bound, scheduler.reads, first)
    reads = [tuple(cycle - first for cycle in scheduler.reads[n]) for n in range(len(operations))]
    writes = [write._replace(cycle=write.cycle - first) for write in scheduler.writes.values()]
    taken = {name: 1 - first - early for name, early in bound.early.items()}
    return MemorySchedule(
        datapath, operations, binding, interval, cycles, reads, writes, 1 - first, taken
    )


def _wait(bound: BoundOperations, reads: Mapping[int, Sequence[int]], first: int) -> int:
    """The cycles, whole intervals, by which all must be later, so that inputs are there."""
    late = 0
    for n, operation in enumerate(bound.operations):
        if operation.kind == INPUT:
            name, _ = bound.datapath.graph.value[operation.gives[0]]
            late = max(late, bound.times.arrival.get(name, 0) - (reads[n][0] - first))
    return -(-late // bound.interval) * bound.interval


class _Need(NamedTuple):
    """A value that a port needs, and the first and the last cycle in which it is read there."""

    port: Port
    value: int
    first: int
    last: int


class _Slot(NamedTuple):
    """A place for an operation: its output shows the result from a cycle on. cost: in cycles of
    latency. writes: the operands that other ports take from it, and those of other results of the
    unit that are taken in other cycles than before.
    """

    cost: float
    shown: int
    writes: tuple[Write, ...]


class _Scheduler:
    """The operations that are placed, by number; cycles are counted backwards from the last one.

    reads, shown: cycles of placed operations. writes: by port and value. busy: the phases of each
    unit in which it reads a term. results: the operations of each unit by the phase from which they
    are shown. taken: of each port, what it takes by phase. taps: of each port, its
    writes by the delayed copy that they take from.
    """

    def __init__(self, bound: BoundOperations, slack: Mapping[int, int]) -> None:
        """slack: cycles by which the operations of a unit are earlier than they must be."""
        datapath, operations, binding, self.interval, self.cycles, self.depth, _ = bound
        self.operations, self.binding, self.slack = operations, binding, slack
        self.reads = dict[int, tuple[int, ...]]()
        self.shown = dict[int, int]()
        self.writes = dict[tuple[Port, int], Write]()
        self.busy = defaultdict[int, set[int]](set)
        self.results = defaultdict[int, dict[int, int]](dict)
        self.taken = defaultdict[Port, dict[int, Write]](dict)
        self.taps = defaultdict[Port, Counter[Tap]](Counter)
        self.copies = defaultdict[tuple[int, int], Counter[int]](Counter)  # of outputs, by delay
        self.ports = [[*ports_of(datapath, x, binding, n)] for n, x in enumerate(operations)]
        self.maker = {
            k: (n, place)
            for n, op in enumerate(operations)
            for k, place in op.places(datapath).items()
        }
        self.read_by = defaultdict[int, set[int]](set)  # operations, by the one whose result it is
        self.read_at = defaultdict[int, dict[Port, list[int]]](lambda: defaultdict(list))
        for n, ports in enumerate(self.ports):
            for _, _, value in ports:
                self.read_by[self.maker[value][0]].add(n)
        early, self.ends = bound.early, dict[int, int]()  # the last cycles of results
        for name, k in results_of(datapath):
            n = self.maker[k][0]
            self.ends[n] = min(self.ends.get(n, 0), -early.get(name, 0))
        self.waiting = defaultdict[int, list[int]](list)  # lengths of a unit's other operations
        for n, operation in enumerate(operations):
            self.waiting[binding.unit[n]].append(operation.cycles)
        self.length = 0.0

    def place_all(self) -> int | None:
        """Places all operations, each after those that read its results. Returns the first one that
        has no slot, None if all are placed.
        """
        left = [len(self.read_by[n]) for n in range(len(self.operations))]
        queue = [(-self.depth[n], n) for n, count in enumerate(left) if not count]
        queue.sort()
        while queue:
            _, n = heappop(queue)
            if not self._place(n):
                return n
            for m in {self.maker[value][0] for _, _, value in self.ports[n]}:
                left[m] -= 1
                if not left[m]:
                    heappush(queue, (-self.depth[m], m))
        return None

    def _place(self, n: int) -> bool:
        """Places an operation in the best slot, and returns whether there is one."""
        operation, unit = self.operations[n], self.binding.unit[n]
        self.waiting[unit].remove(operation.cycles)
        needs = [
            _Need(port, value, *self._read_range(port, value))
            for value in operation.gives
            for port in self.read_at[value]
        ]
        last = min(need.first - 1 for need in needs) if needs else 0
        last = min(last, self.ends.get(n, 0))
        last -= self.slack[unit]
        slots = (
            self._slot(n, shown, last, needs)
            for shown in range(last, last - TRIES * self.interval, -1)
        )
        best = min((slot for slot in slots if slot), default=None)
        if best is not None:
            self._take(n, best)
        return best is not None

    def _slot(self, n: int, shown: int, last: int, needs: Sequence[_Need]) -> _Slot | None:
        """The slot of an operation whose result is shown from a cycle on, if it can be."""
        unit, phase = self.binding.unit[n], shown % self.interval
        phases = {(cycle % self.interval) for cycle in self._read_cycles(n, shown)}
        if phases & self.busy[unit] or phase in self.results[unit]:
            return None
        if not _fit(self.waiting[unit], self._gaps(self.busy[unit] | phases)):
            return None
        window, cut = self._window(unit, phase)
        chosen = list[Write]()
        changed = defaultdict[Port, set[int]](set)
        for write in cut:
            changed[write.port].add(write.cycle % self.interval)
        for write in cut:
            other = self.shown[self.maker[write.value][0]]
            need = _Need(write.port, write.value, *self._read_range(write.port, write.value))
            span = (shown - other) % self.interval
            tap = write.tap._replace(delay=0)
            if not self._choose(need, tap, other, span, chosen, changed):
                return None
        for need in needs:
            output, shift = self.maker[need.value][1]
            tap = Tap(unit, output, shift=shift)
            if not self._choose(need, tap, shown, window, chosen, changed):
                return None
        copies = {
            write.tap.whole
            for write in chosen
            if write.tap.delay and write.tap.delay not in self.copies[write.tap[:2]]
        }
        longer = max(0.0, self.depth[n] - shown - self.length)
        cost = longer + DELAYED_COPY * len(copies) + WAIT * (last - shown)
        return _Slot(cost, shown, tuple(chosen))

    def _read_cycles(self, n: int, shown: int) -> tuple[int, ...]:
        """The cycles in which an operation reads its terms."""
        operation = self.operations[n]
        end = shown - self.cycles[self.binding.unit[n]] + 1
        return tuple(range(end - operation.cycles, end))

    def _gaps(self, busy: set[int]) -> list[int]:
        """The lengths of the sequences of free phases."""
        first = min(busy)
        order = sorted((phase - first) % self.interval for phase in busy)
        return [b - a - 1 for a, b in zip(order, [*order[1:], self.interval], strict=True)]

    def _window(self, unit: int, phase: int) -> tuple[int, list[Write]]:
        """The cycles for which a unit would show a result from a phase on, and the writes of the
        result before it that come too late then.
        """
        results = self.results[unit]
        if not results:
            return self.interval, []
        window = min((other - phase) % self.interval for other in results)
        before, n = min(((phase - other) % self.interval, n) for other, n in results.items())
        late = [
            write
            for value in self.operations[n].gives
            for port in self.read_at[value]
            if (write := self.writes[port, value]).cycle - write.tap.delay >= self.shown[n] + before
        ]
        return window, late

    def _read_range(self, port: Port, value: int) -> tuple[int, int]:
        cycles = self.read_at[value][port]
        return min(cycles), max(cycles)

    def _choose(
        self,
        need: _Need,
        tap: Tap,
        shown: int,
        window: int,
        chosen: list[Write],
        changed: dict[Port, set[int]],
    ) -> bool:
        """Chooses the write of an operand into the memory of a port, and returns whether there is
        one. changed: phases of a port that become free.
        """
        port = need.port
        taken = self.taken[port].keys() - changed[port]
        taken |= {write.cycle % self.interval for write in chosen if write.port == port}
        of_port = (x.delay for x in self.taps[port] if x._replace(delay=0) == tap)
        copies = sorted(of_port), sorted(self.copies[tap[:2]]), range(1, need.first - shown)
        for delay in chain((0,), *copies):
            first = max(shown + delay, need.last - DEEPEST)
            cycles = range(first, min(shown + delay + window, need.first))
            cycle = next((c for c in cycles if c % self.interval not in taken), None)
            if cycle is None and not delay:
                cycle = self._made_free(port, cycles, tap.unit, taken, chosen, changed[port])
            if cycle is not None:
                chosen.append(Write(port, need.value, tap._replace(delay=delay), cycle))
                return True
        return False

    def _made_free(
        self,
        port: Port,
        cycles: Sequence[int],
        unit: int,
        taken: Collection[int],
        chosen: list[Write],
        changed: set[int],
    ) -> int | None:
        """Makes one of some cycles free for a port: moves the write that it has there, of a value
        of another unit, to another phase. Returns the cycle, None if no write can be moved.
        """
        for cycle in cycles:
            phase = cycle % self.interval
            write = self.taken[port].get(phase)
            if write is None or phase in changed or write.tap.unit == unit:
                continue
            for other in self._cycles_of(write):
                if other % self.interval not in taken:
                    changed.add(phase)
                    chosen.append(write._replace(cycle=other))
                    return cycle
        return None

    def _cycles_of(self, write: Write) -> range:
        """The cycles in any of which a port could take the value of a write, with its delay."""
        n = self.maker[write.value][0]
        shown, results = self.shown[n], self.results[write.tap.unit]
        window = min((other - shown) % self.interval or self.interval for other in results)
        first, last = self._read_range(write.port, write.value)
        start = shown + write.tap.delay
        return range(max(start, last - DEEPEST), min(start + window, first))

    def _take(self, n: int, slot: _Slot) -> None:
        """Places an operation in a slot."""
        unit, shown = self.binding.unit[n], slot.shown
        self.reads[n], self.shown[n] = self._read_cycles(n, shown), shown
        self.busy[unit] |= {cycle % self.interval for cycle in self.reads[n]}
        self.results[unit][shown % self.interval] = n
        for write in slot.writes:
            if old := self.writes.get((write.port, write.value)):
                del self.taken[write.port][old.cycle % self.interval]
                self._count_copy(old, -1)
        for write in slot.writes:
            self.writes[write.port, write.value] = write
            self.taken[write.port][write.cycle % self.interval] = write
            self._count_copy(write, 1)
        self.length = max(self.length, self.depth[n] - shown)
        for term, port, value in self.ports[n]:
            self.read_at[value][port].append(self.reads[n][term])

    def _count_copy(self, write: Write, more: int) -> None:
        """Counts the writes from a delayed copy, and those of its port."""
        tap = write.tap
        if tap.delay:
            add_to(self.copies[tap[:2]], tap.delay, more)
            add_to(self.taps[write.port], tap, more)


def _fit(lengths: Sequence[int], gaps: list[int]) -> bool:
    """Whether operations of these lengths fit into gaps, the longest first, each into the first gap
    that has room.
    """
    for length in sorted(lengths, reverse=True):
        gap = next((n for n, room in enumerate(gaps) if room >= length), None)
        if gap is None:
            return False
        gaps[gap] -= length
    return True
