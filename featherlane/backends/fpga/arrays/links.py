"""The links between arrays: registers in which values wait for the slots that read them, and
multiplexers that choose what each slot reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.arrays.schedule import ScheduledArray
from featherlane.backends.fpga.labels import NO_LABELS, Labels, of_slots
from featherlane.backends.fpga.text import Signal
from featherlane.backends.fpga.waiting import WaitingValues


class Links(WaitingValues):
    """The values that cross between arrays. What arrays give are inputs, in the cycles in which
    they come.
    """

    computed = "given"
    comment = "What waits between the arrays of {}, and what each slot reads"

    def __init__(
        self,
        name: str,
        whole: Datapath,
        arrays: Sequence[ScheduledArray],
        interval: int,
        ports: Sequence[Collection[str]] = (),
        late: Mapping[str, int] = MappingProxyType({}),
        labels: Labels = NO_LABELS,
    ) -> None:
        """ports: names of outputs that leave together, as soon as they are there; without ports all
        leave in the last cycle. late: inputs that come later than in cycle 0, and when. labels:
        for names and comments.
        """
        self.whole, self.arrays = whole, arrays
        graph = whole.graph
        arrivals = {k: 0 for k, args in enumerate(graph.args) if not args}
        arrivals |= {k: late.get(graph.value[k][0], 0) for k in graph.nodes_of("input")}
        arrivals |= {
            k: array.cycle(slot, sent.cycle)
            for array in arrays
            for sent in array.gives
            for slot, k in enumerate(sent.targets)
        }
        there = {
            name: max((arrivals[k] for k in out.nodes), default=0)
            for name, out in graph.outputs.items()
        }
        taken = {name: max(there[n] for n in port) for port in ports for name in port}
        latency = max(there.values(), default=0)
        timing = arrays[0].pipeline.clock, interval, latency
        self.whole_labels = labels
        super().__init__(name, "inputs", whole, arrivals, timing, taken, labels)
        self._write()

    def labels_of(self, array: ScheduledArray) -> Labels:
        """The labels of an array: those of all its slots."""
        slots = {read.node: read.sources for read in array.reads}
        members = array.kernel.members
        for n, k in enumerate(array.kernel.node_map):
            slots.setdefault(k, tuple(member.nodes[n] for member in members))
        return of_slots(self.whole_labels, self.whole.graph, array.datapath.graph, slots)

    def port(self, array: ScheduledArray, k: int) -> Signal:
        """The signal at an input of an array."""
        name, _ = array.datapath.graph.value[k]
        return Signal(f"{array.name}_{name}", array.datapath.format(k).width)

    def _write(self) -> None:
        """Makes the module."""
        for array in self.arrays:
            for node, sources in array.reads:
                cycles = [array.cycle(s, array.pipeline.start[node]) for s in range(array.slots)]
                reads = {c: self.place[k] for c, k in zip(cycles, sources, strict=True)}
                self._choose(self.port(array, node), reads)
        self._write_registers()
