"""The links between arrays: registers in which values wait for the slots that read them, and
multiplexers that choose what each slot reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.arrays.schedule import ScheduledArray
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.netlist import WIRE, Field, Netlist
from featherlane.backends.fpga.part import Part
from featherlane.backends.fpga.text import Signal
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.graph import Graph, Output

GIVEN = "given"  # the input that stands for what arrays give


class Links(Netlist):
    """The values that cross between arrays, as a datapath that computes nothing: what arrays give
    are inputs, in the cycles in which they come. place: of nodes of the whole datapath, those here.
    """

    def __init__(
        self,
        name: str,
        whole: Datapath,
        arrays: Sequence[ScheduledArray],
        interval: int,
        ports: Sequence[Collection[str]] = (),
        late: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """ports: names of outputs that leave together, as soon as they are there; without ports all
        leave in the last cycle. late: inputs that come later than in cycle 0, and when.
        """
        self.whole, self.arrays = whole, arrays
        graph, formats, start = Graph(), list[Format | None](), list[int]()
        self.place: dict[int, int] = {}

        def enter(k: int, op: str, value: object, cycle: int) -> None:
            self.place[k] = len(graph)
            graph.op.append(op)
            graph.args.append(())
            graph.value.append(value)
            graph.tag.append(None)
            formats.append(whole.formats[k])
            start.append(cycle)

        for k, op in enumerate(whole.graph.op):
            if not whole.graph.args[k]:
                value = whole.graph.value[k]
                enter(k, op, value, late.get(value[0], 0) if op == "input" else 0)
        for array in arrays:
            for sent in array.gives:
                for slot, k in enumerate(sent.targets):
                    enter(k, "input", (GIVEN, k), array.cycle(slot, sent.cycle))
        graph.inputs = {**whole.graph.inputs, GIVEN: (len(whole.graph),)}
        graph.outputs = {
            name: Output(out.shape, tuple(self.place[k] for k in out.nodes))
            for name, out in whole.graph.outputs.items()
        }
        there = {
            name: max((start[k] for k in out.nodes), default=0)
            for name, out in graph.outputs.items()
        }
        taken = {name: max(there[n] for n in port) for port in ports for name in port}
        n = len(graph)
        columns = (None,) * n, arrays[0].pipeline.clock, interval, tuple(start)
        latency = max(there.values(), default=0)
        pipeline = Pipeline(graph, *columns, (0,) * n, (-1,) * n, latency, taken)
        pipeline.verify()
        super().__init__(name, Datapath(graph, tuple(formats)), pipeline, timely=True)
        self._read: defaultdict[int, set[int]] = defaultdict(set)
        self.part = Part(f"{name}_inputs", self)
        self._write()

    @cached_property
    def inputs(self) -> list[Field]:
        """The fields of a word of the design's inputs."""
        return [f for f in super().inputs if self.graph.value[f.node][0] != GIVEN]

    @property
    def registers(self) -> list[set[int]]:  # type: ignore[override]
        """The registers of each value that something reads."""
        return [self._read[k] for k in range(len(self.graph))]

    def port(self, array: ScheduledArray, k: int) -> Signal:
        """The signal at an input of an array."""
        name, _ = array.datapath.graph.value[k]
        return Signal(f"{array.name}_{name}", array.datapath.format(k).width)

    def _write(self) -> None:
        """Makes the module."""
        interval = self.pipeline.interval
        for array in self.arrays:
            for node, sources in array.reads:
                cycles = [array.cycle(s, array.pipeline.start[node]) for s in range(array.slots)]
                choices = {
                    cycle % interval: self._taken(k, cycle)
                    for cycle, k in zip(cycles, sources, strict=True)
                }
                self.part.choose(self.port(array, node), choices)
        for name, out in self.graph.outputs.items():
            for k in out.nodes:
                self._wait(k, self.pipeline.read_in(name))
        for k, registers in self._read.items():
            source, ready = self.signal(k), self.pipeline.ready(k)
            if max(registers) > WIRE:
                source = self.part.read(k, ready)
            for register in range(max(registers) + 1):
                source = self.part.capture(self.signal(k, register), source.name, ready)

    def _taken(self, k: int, cycle: int) -> Signal:
        here = self.place[k]
        self._wait(here, cycle)
        return self.part.read(here, cycle)

    def _wait(self, k: int, cycle: int) -> None:
        if not self.is_constant(k):
            self._read[k].add(self.pipeline.register(k, cycle))

    @property
    def gives(self) -> list[Signal]:
        """The outputs of the module: inputs of arrays, and results in registers."""
        drives = self.part.drives
        ports = {self.port(array, read.node).name for array in self.arrays for read in array.reads}
        ports |= {field.signal.name for field in self.outputs}
        return [signal for name, signal in drives.items() if name in ports]

    def module(self) -> Module:
        """The module."""
        comment = f"What waits between the arrays of {self.name}, and what each slot reads"
        return self.part.module(self.gives, comment)
