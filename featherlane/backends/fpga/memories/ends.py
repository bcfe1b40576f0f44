"""Registers before and behind units with operand memories: inputs that wait until a lane takes
them, and results that wait until all are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.memories.operations import INPUT
from featherlane.backends.fpga.memories.schedule import MemorySchedule, results_of
from featherlane.backends.fpga.text import Signal
from featherlane.backends.fpga.waiting import WaitingValues


class StreamEnds(WaitingValues):
    """The inputs and results of a schedule. What units show are inputs, in the cycles in which they
    are shown.
    """

    computed = "shown"
    comment = "What waits before the units of {}, and behind them"

    def __init__(
        self,
        name: str,
        narrow: Datapath,
        schedule: MemorySchedule,
        device: Device,
        labels: Labels = NO_LABELS,
        late: Collection[str] = (),
    ) -> None:
        """narrow: the datapath in the formats of the circuit. late: the inputs that come as late as
        lanes take them, by whole intervals.
        """
        self.whole, self.schedule, self.coded = narrow, schedule, device.trees
        results = {k for out in narrow.graph.outputs.values() for k in out.nodes}
        shown = {
            k: schedule.shown(n)
            for n, operation in enumerate(schedule.operations)
            if operation.kind != INPUT
            for k in operation.gives
        }
        starts = self._starts(late)
        arrivals = {
            k: shown.get(k, starts.get(k, 0))
            for k, args in enumerate(narrow.graph.args)
            if not args or k in results
        }
        timing = device.clock, schedule.interval, schedule.latency
        super().__init__(name, "ends", narrow, arrivals, timing, schedule.taken, labels)
        self._write()

    def _starts(self, late: Collection[str]) -> dict[int, int]:
        """The cycle, a multiple of the interval, in which each late input comes."""
        schedule, first = self.schedule, dict[str, int]()
        entries = [
            (op.gives[0], self.whole.graph.value[op.gives[0]][0], schedule.reads[n][0])
            for n, op in enumerate(schedule.operations)
            if op.kind == INPUT
        ]
        for _, name, cycle in entries:
            first[name] = min(first.get(name, cycle), cycle)
        for name in first:
            for result, k in results_of(self.whole):  # an input may be a result
                if self.whole.graph.op[k] == "input" and self.whole.graph.value[k][0] == name:
                    read = schedule.taken.get(result, schedule.latency)
                    first[name] = min(first[name], read)
        interval = schedule.interval
        return {k: first[name] // interval * interval for k, name, _ in entries if name in late}

    def lane(self, unit: int) -> Signal:
        """The signal that a lane takes."""
        units = self.schedule.binding.unit
        operations = zip(self.schedule.operations, units, strict=True)
        widths = [self.whole.format(op.gives[0]).width for op, u in operations if u == unit]
        return Signal(f"lane_{unit}", max(widths))

    def _write(self) -> None:
        """Makes the module."""
        lanes = defaultdict[int, dict[int, int]](dict)
        for n, operation in enumerate(self.schedule.operations):
            if operation.kind == INPUT:
                (cycle,), unit = self.schedule.reads[n], self.schedule.binding.unit[n]
                lanes[unit][cycle] = self.place[operation.gives[0]]
        for unit, reads in lanes.items():
            self._choose(self.lane(unit), reads)
        self._write_registers()
