"""The schedule of a datapath of units with operand memories: the cycle of each term, the cycle in
which each operand is written into the memory of its port, and the rules for both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.memories.binding import Binding, Port
from featherlane.backends.fpga.memories.operations import UnitOperation, operands

DEEPEST = 1023  # the most cycles between a write and the last read: two blocks of RAM


class Tap(NamedTuple):
    """The output of a unit, delayed by some cycles, of which so many places are dropped."""

    unit: int
    output: int
    delay: int = 0
    shift: int = 0

    @property
    def whole(self) -> Tap:
        """The tap with all places."""
        return self._replace(shift=0)


class Write(NamedTuple):
    """A value that the memory of a port takes from a tap, at the end of a cycle."""

    port: Port
    value: int
    tap: Tap
    cycle: int


@dataclass(frozen=True, eq=False)
class MemorySchedule:
    """When operations read their terms, and when operands are written.

    cycles: of each unit, from the last term that it reads to its output. reads: the cycle of each
    term of an operation, for inputs that in which a lane takes it. latency: the cycle in which all
    results are read, but for outputs that are read earlier, in the cycles `taken` by name.
    """

    datapath: Datapath
    operations: Sequence[UnitOperation]
    binding: Binding
    interval: int
    cycles: Sequence[int]
    reads: Sequence[tuple[int, ...]]
    writes: Sequence[Write]
    latency: int
    taken: Mapping[str, int] = field(default_factory=dict)

    def shown(self, n: int) -> int:
        """The cycle from which the output of its unit shows the result of an operation."""
        return self.reads[n][-1] + self.cycles[self.binding.unit[n]]

    def tap_of(self, k: int) -> Tap:
        """The tap that shows a value without delay."""
        return self._taps[k]

    @cached_property
    def _taps(self) -> dict[int, Tap]:
        """The tap without delay of each value."""
        return {
            k: Tap(unit, output, shift=shift)
            for unit, operation in zip(self.binding.unit, self.operations, strict=True)
            for k, (output, shift) in operation.places(self.datapath).items()
        }

    def verify(self) -> None:
        """Raises ValueError, with the node and the cycle, where a unit reads two terms in a phase,
        runs of a unit are mixed, an operand is not in its memory, a memory takes two values in a
        phase or one that is not shown, or a result is late.
        """
        _Verifier(self).check()

    def port_values(self, n: int) -> Iterator[tuple[int, Port, int]]:
        """Yields the cycle, port and value of each operand that an operation reads."""
        ports = ports_of(self.datapath, self.operations[n], self.binding, n)
        for term, port, value in ports:
            yield self.reads[n][term], port, value


def ports_of(
    datapath: Datapath, operation: UnitOperation, binding: Binding, n: int
) -> Iterator[tuple[int, Port, int]]:
    """Yields the number of the term, the port and the value of each operand of operation n."""
    for m, (term, swap) in enumerate(zip(operation.terms, binding.swapped[n], strict=True)):
        for place, value in enumerate(operands(datapath, term)):
            if value is not None:
                yield m, (binding.unit[n], place ^ swap), value


def results_of(datapath: Datapath) -> Iterator[tuple[str, int]]:
    """Yields the name of the output and the node of each result, but for constants."""
    for name, out in datapath.graph.outputs.items():
        for k in out.nodes:
            if datapath.graph.op[k] != "constant":
                yield name, k


class _Verifier:
    """The rules of a schedule, which depend on no scheduler."""

    def __init__(self, schedule: MemorySchedule) -> None:
        self.schedule, self._until = schedule, dict[int, int]()
        self.on_unit = defaultdict[int, list[int]](list)
        for n, unit in enumerate(schedule.binding.unit):
            self.on_unit[unit].append(n)

    def check(self) -> None:
        """Raises ValueError for the first rule that is broken."""
        schedule = self.schedule
        for n, operation in enumerate(schedule.operations):
            reads, unit = schedule.reads[n], schedule.binding.unit[n]
            if schedule.binding.kinds[unit] != operation.kind:
                raise ValueError(f"node {operation.gives[0]} is on unit {unit} of another kind")
            if len(reads) != operation.cycles or min(reads) < 0:
                raise ValueError(f"node {operation.gives[0]} is read in cycles {reads}")
            if reads != tuple(range(reads[0], reads[0] + len(reads))):
                raise ValueError(f"the terms of node {operation.gives[0]} have gaps: {reads}")
        for unit, operations in self.on_unit.items():
            self._check_phases(unit, operations)
        maker = {k: n for n, op in enumerate(schedule.operations) for k in op.gives}
        for name, k in results_of(schedule.datapath):
            n = maker[k]
            if schedule.shown(n) >= schedule.taken.get(name, schedule.latency):
                raise ValueError(f"node {k} is shown in cycle {schedule.shown(n)}: too late")
        self._check_writes()
        self._check_operands()

    def _check_phases(self, unit: int, operations: Sequence[int]) -> None:
        """Checks that each phase of a unit has a term or none."""
        busy = dict[int, int]()
        for n in operations:
            for cycle in self.schedule.reads[n]:
                other = busy.setdefault(cycle % self.schedule.interval, n)
                if other != n:
                    k, before = (self.schedule.operations[m].gives[0] for m in (n, other))
                    raise ValueError(f"unit {unit} reads nodes {before} and {k} in one phase")

    def _check_writes(self) -> None:
        """Checks that a memory takes a value in each phase or none, while its tap shows it."""
        schedule, interval = self.schedule, self.schedule.interval
        shown = dict[int, int]()  # the cycles for which each value is shown
        for operations in self.on_unit.values():
            cycles = [schedule.shown(n) for n in operations]
            for n, cycle in zip(operations, cycles, strict=True):
                until = min((c - cycle) % interval or interval for c in cycles)
                shown |= dict.fromkeys(schedule.operations[n].gives, cycle)
                self._until |= dict.fromkeys(schedule.operations[n].gives, until)
        taken = dict[tuple[Port, int], int]()
        for write in schedule.writes:
            key = write.port, write.cycle % interval
            other = taken.setdefault(key, write.value)
            if other != write.value:
                raise ValueError(f"port {write.port} takes nodes {other} and {write.value} at once")
            age = write.cycle - write.tap.delay - shown[write.value]
            if write.tap._replace(delay=0) != schedule.tap_of(write.value):
                raise ValueError(f"{write} takes node {write.value} from another unit")
            if not 0 <= age < self._until[write.value]:
                raise ValueError(f"{write}: the tap shows another value in this cycle")

    def _check_operands(self) -> None:
        """Checks that a memory has each operand when it is read."""
        cycles = {(write.port, write.value): write.cycle for write in self.schedule.writes}
        for n in range(len(self.schedule.operations)):
            for cycle, port, value in self.schedule.port_values(n):
                taken = cycles.get((port, value))
                if taken is None or not 0 < cycle - taken <= DEEPEST:
                    raise ValueError(
                        f"port {port} reads node {value} in cycle {cycle}, which it takes in "
                        f"{taken}: wanted 1 to {DEEPEST} cycles before"
                    )
