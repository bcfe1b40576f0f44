"""Registers before and behind units with operand memories: inputs that wait until a lane takes
them, and results that wait until all are there.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.memories.operations import INPUT
from featherlane.backends.fpga.memories.schedule import MemorySchedule
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.netlist import WIRE, Field, Netlist
from featherlane.backends.fpga.part import Part
from featherlane.backends.fpga.text import Signal
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.graph import Graph, Output

SHOWN = "shown"  # the input that stands for what units show


class StreamEnds(Netlist):
    """The inputs and results of a schedule, as a datapath that computes nothing: what units show
    are inputs, in the cycles in which they are shown. place: of nodes of the datapath, those here.
    """

    def __init__(self, name: str, narrow: Datapath, schedule: MemorySchedule, clock: float) -> None:
        """narrow: the datapath in the formats of the circuit; clock: nanoseconds a cycle."""
        self.whole, self.schedule = narrow, schedule
        graph, formats, start = Graph(), list[Format | None](), list[int]()
        results = {k for out in narrow.graph.outputs.values() for k in out.nodes}
        shown = {
            k: schedule.shown(n)
            for n, operation in enumerate(schedule.operations)
            if operation.kind != INPUT
            for k in operation.gives
        }
        self.place: dict[int, int] = {}
        for k, op in enumerate(narrow.graph.op):
            if not narrow.graph.args[k] or k in results:
                is_shown = bool(narrow.graph.args[k])
                self.place[k] = len(graph)
                graph.op.append("input" if is_shown else op)
                graph.args.append(())
                graph.value.append((SHOWN, k) if is_shown else narrow.graph.value[k])
                graph.tag.append(None)
                formats.append(narrow.formats[k])
                start.append(shown.get(k, 0))
        graph.inputs = {**narrow.graph.inputs, SHOWN: (len(narrow.graph),)}
        graph.outputs = {
            name: Output(out.shape, tuple(self.place[k] for k in out.nodes))
            for name, out in narrow.graph.outputs.items()
        }
        n = len(graph)
        columns = clock, schedule.interval, tuple(start), (0,) * n, (-1,) * n, schedule.latency
        pipeline = Pipeline(graph, (None,) * n, *columns)
        pipeline.verify()
        super().__init__(name, Datapath(graph, tuple(formats)), pipeline, timely=True)
        self._read: defaultdict[int, set[int]] = defaultdict(set)
        self.part = Part(f"{name}_ends", self)
        self._write()

    @cached_property
    def inputs(self) -> list[Field]:
        """The fields of a word of the design's inputs."""
        return [f for f in super().inputs if self.graph.value[f.node][0] != SHOWN]

    @property
    def registers(self) -> list[set[int]]:  # type: ignore[override]
        """The registers of each value that something reads."""
        return [self._read[k] for k in range(len(self.graph))]

    def lane(self, unit: int) -> Signal:
        """The signal that a lane takes."""
        units = self.schedule.binding.unit
        operations = zip(self.schedule.operations, units, strict=True)
        widths = [self.whole.format(op.gives[0]).width for op, u in operations if u == unit]
        return Signal(f"lane_{unit}", max(widths))

    def _write(self) -> None:
        """Makes the module."""
        lanes = defaultdict[int, dict[int, Signal]](dict)
        for n, operation in enumerate(self.schedule.operations):
            if operation.kind == INPUT:
                (cycle,), unit = self.schedule.reads[n], self.schedule.binding.unit[n]
                k = self.place[operation.gives[0]]
                self._wait(k, cycle)
                lanes[unit][cycle % self.schedule.interval] = self.part.read(k, cycle)
        for unit, choices in lanes.items():
            self.part.choose(self.lane(unit), choices)
        for name, out in self.graph.outputs.items():
            for k in out.nodes:
                self._wait(k, self.pipeline.read_in(name))
        for k, registers in self._read.items():
            source, ready = self.signal(k), self.pipeline.ready(k)
            if max(registers) > WIRE:
                source = self.part.read(k, ready)
            for register in range(max(registers) + 1):
                source = self.part.capture(self.signal(k, register), source.name, ready)

    def _wait(self, k: int, cycle: int) -> None:
        if not self.is_constant(k):
            self._read[k].add(self.pipeline.register(k, cycle))

    @property
    def gives(self) -> list[Signal]:
        """The outputs of the module: what lanes take, and results in registers."""
        fields = {field.signal.name for field in self.outputs}
        drives = self.part.drives
        return [s for name, s in drives.items() if name in fields or name.startswith("lane_")]

    def module(self) -> Module:
        """The module."""
        comment = f"What waits before the units of {self.name}, and behind them"
        return self.part.module(self.gives, comment)
