"""Values that wait in registers between the units of a design, as a datapath that computes nothing.

It has the constants and inputs of a whole datapath, and an input for each node that units compute,
in the cycle in which that comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.netlist import WIRE, Field, Netlist
from featherlane.backends.fpga.part import Part
from featherlane.backends.fpga.text import Signal
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.graph import Graph, Output


class WaitingValues(Netlist):
    """The module of what waits. place: of nodes of the whole datapath, those here."""

    computed = ""  # the input that stands for what units compute
    comment = ""  # above the module, behind the name of the design
    coded = False  # whether multiplexers have registers of the number of what they choose

    def __init__(
        self,
        name: str,
        module: str,
        whole: Datapath,
        arrivals: Mapping[int, int],
        timing: tuple[float, int, int],
        taken: Mapping[str, int] = MappingProxyType({}),
        labels: Labels = NO_LABELS,
    ) -> None:
        """arrivals: the cycle in which each node comes; timing: nanoseconds a cycle, the interval
        and the latency; taken: as in `Pipeline`; labels: of the whole.
        """
        self.place = {k: here for here, k in enumerate(arrivals)}
        graph, n = self._graph(whole), len(arrivals)
        clock, interval, latency = timing
        columns = tuple(arrivals.values()), (0,) * n, (-1,) * n
        pipeline = Pipeline(graph, (None,) * n, clock, interval, *columns, latency, dict(taken))
        pipeline.verify()
        datapath = Datapath(graph, tuple(whole.formats[k] for k in arrivals))
        entries = {(self.computed, k): labels.node(whole.graph, k) for k in arrivals}
        labels = labels._replace(entries={**labels.entries, **entries})
        super().__init__(name, datapath, pipeline, timely=True, labels=labels)
        self._read: defaultdict[int, set[int]] = defaultdict(set)
        self._operands = set[str]()
        self.part = Part(f"{name}_{module}", self)

    def _graph(self, whole: Datapath) -> Graph:
        graph, source = Graph(), whole.graph
        for k in self.place:
            is_computed = bool(source.args[k])
            graph.op.append("input" if is_computed else source.op[k])
            graph.args.append(())
            graph.value.append((self.computed, k) if is_computed else source.value[k])
            graph.tag.append(None)
        graph.inputs = {**source.inputs, self.computed: (len(source),)}
        graph.outputs = {
            name: Output(out.shape, tuple(self.place[k] for k in out.nodes))
            for name, out in source.outputs.items()
        }
        return graph

    @cached_property
    def inputs(self) -> list[Field]:
        """The fields of a word of the design's inputs."""
        return [f for f in super().inputs if self.graph.value[f.node][0] != self.computed]

    @property
    def registers(self) -> list[set[int]]:  # type: ignore[override]
        """The registers of each value that something reads."""
        return [self._read[k] for k in range(len(self.graph))]

    def _wait(self, k: int, cycle: int) -> None:
        """Notes that a value is read in a cycle."""
        if not self.is_constant(k):
            self._read[k].add(self.pipeline.register(k, cycle))

    def _choose(self, operand: Signal, reads: Mapping[int, int]) -> None:
        """Writes what a unit reads: the value of a node, by the cycle."""
        choices = dict[int, Signal]()
        for cycle, k in reads.items():
            self._wait(k, cycle)
            choices[cycle % self.pipeline.interval] = self.part.read(k, cycle)
        self.part.choose(operand, choices, coded=self.coded)
        self._operands.add(operand.name)

    def _write_registers(self) -> None:
        """Writes the registers up to the last one of each value that is read: by results, and by
        all that was noted before.
        """
        for name, out in self.graph.outputs.items():
            for k in out.nodes:
                self._wait(k, self.pipeline.read_in(name))
        for k, registers in self._read.items():
            source, ready = self.signal(k), self.pipeline.ready(k)
            if max(registers) > WIRE:
                source = self.part.read(k, ready)
            for register in range(max(registers) + 1):
                source = self.part.capture(self.signal(k, register), source.name, ready)

    @property
    def gives(self) -> list[Signal]:
        """The outputs of the module: what units read, and results in registers."""
        names = {field.signal.name for field in self.outputs} | self._operands
        return [signal for name, signal in self.part.drives.items() if name in names]

    def module(self) -> Module:
        """The module."""
        return self.part.module(self.gives, self.comment.format(self.name))
