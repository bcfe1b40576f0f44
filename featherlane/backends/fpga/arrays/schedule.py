"""The schedule of arrays: each is a pipeline of a kernel, which is time-multiplexed over the slots
of its members, and begins when the values that it reads are there.

All cycles are known before: a value is read in the cycle in which its reader's slot wants it, so
that no array waits for a whole task of another one, and nothing is asked whether it is there. A
value waits a cycle in a register on its way from one array to another. Where slots do not fill an
interval, an array stands still for what is left of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga.devices import Device, operators
from featherlane.program.analysis.modulo import pipelined, remaining
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.graph import Output
from featherlane.program.program import X, Y

MULTIPLY = "multiply"  # the first word of the kinds of multipliers
HOP = 1  # cycles of the register between two arrays
# Of the multipliers of an array none, or one more of each kind if its path is shorter by it: 4 %
# more in all arrays took 3 to 14 % more DSPs, and were no faster (docs/accelerators.md).
SPARE = (0.0, 1e-6)


class Folding(NamedTuple):
    """Slots, one after the other, lanes, beside each other, and the cycles of a slot."""

    slots: int
    lanes: int
    interval: int


def folding(members: int, interval: int) -> Folding:
    """Returns the folding of members at an initiation interval: on as few lanes as it has room for,
    in slots as long as all of them fit. In the rest of the interval, less than a slot, lanes pause.
    """
    lanes = ceil(members / interval)
    slots = ceil(members / lanes)
    return Folding(slots, lanes, interval // slots)


class ReadValue(NamedTuple):
    """A value that an array reads: an input of its datapath, and the node of the whole datapath
    that it is in each slot.
    """

    node: int
    sources: tuple[int, ...]


class SentValue(NamedTuple):
    """A value that an array sends: a node of its datapath, the cycle of a slot in which it is
    read, and the node of the whole datapath that it is in each slot.
    """

    node: int
    cycle: int
    targets: tuple[int, ...]


class ArrayClock(NamedTuple):
    """The cycles in which an array runs: whole slots, up to the last one of a period that is
    complete; then it pauses.
    """

    period: int
    slot_cycles: int

    @property
    def pause(self) -> int:
        """The cycles at the end of each period in which the array stands still."""
        return self.period % self.slot_cycles

    @property
    def running(self) -> int:
        """Cycles of a period before the pause."""
        return self.period - self.pause

    def cycle(self, run: int) -> int:
        """The first cycle in which the array runs after it has run for `run` cycles."""
        periods, rest = divmod(run, self.running)
        return periods * self.period + rest

    def run(self, cycle: int) -> int:
        """The number of cycles before `cycle` in which the array runs."""
        periods, rest = divmod(cycle, self.period)
        return periods * self.running + min(rest, self.running)


@dataclass(frozen=True, eq=False)
class ScheduledArray:
    """A kernel in a pipeline.

    kernel: its members in the order of their slots. datapath: the kernel's, with an input for each
    of `reads`, which comes in the cycle of a slot in which it starts, and an output for each of
    `gives`. pipeline: its interval is that of a slot; its cycles are those in which the array runs.
    period: the cycles from one state to the next; begin: the cycle of the first slot.
    """

    name: str
    kernel: SlotKernel
    datapath: Datapath
    pipeline: Pipeline
    period: int
    begin: int
    reads: tuple[ReadValue, ...]

    @property
    def clock(self) -> ArrayClock:
        """The cycles in which it runs."""
        return ArrayClock(self.period, self.pipeline.interval)

    @property
    def slots(self) -> int:
        """Members that are computed one after the other."""
        return len(self.kernel.members)

    @property
    def gives(self) -> list[SentValue]:
        """The values that this array sends, with the cycle of a slot and their destinations."""
        outputs = self.datapath.graph.outputs
        return [
            SentValue(outputs[name].nodes[0], self.pipeline.read_in(name), targets)
            for name, targets in zip(outputs, self.kernel.gives, strict=True)
        ]

    def cycle(self, slot: int, cycle: int) -> int:
        """The cycle, counted from the first one of a state, that is a cycle of a slot."""
        return self.begin + self.clock.cycle(slot * self.pipeline.interval + cycle)

    @property
    def last(self) -> int:
        """The cycle in which its last result is there."""
        return self.cycle(self.slots - 1, self.pipeline.latency)


def scheduled(
    datapath: Datapath,
    kernels: Sequence[SlotKernel],
    interval: int,
    device: Device,
    runs: int | None = None,
    arrival: Mapping[str, int] = MappingProxyType({}),
    left: Mapping[str, int] = MappingProxyType({}),
) -> list[ScheduledArray]:
    """Returns the arrays of kernels that together compute a datapath, in an order in which none
    needs a later one. runs: schedules that are tried of each, as of
    `modulo.pipelined`; arrival, left: by the names of inputs, the cycles in which they come, of
    outputs, the cycles that are left behind them.
    """
    graph, scheduler = datapath.graph, _Scheduler(interval, device, runs)
    scheduler.left = {k: n for name, n in left.items() for k in graph.outputs[name].nodes}
    scheduler.look_back(kernels)
    for k, (op, value) in enumerate(zip(graph.op, graph.value, strict=True)):
        if not graph.args[k]:
            scheduler.ready[k] = arrival.get(value[0], 0) if op == "input" else 0
    arrays: list[ScheduledArray] = []
    for kernel in kernels:
        for lane in scheduler.lanes(kernel):
            arrays.append(scheduler.array(f"array_{len(arrays)}", lane))
    return arrays


@dataclass
class _Scheduler:
    """Places arrays one after the other. ready: of the nodes that are placed, the first cycle in
    which each can be read; left: of those that arrays read, the cycles until all is done.
    """

    interval: int
    device: Device
    runs: int | None
    ready: dict[int, int] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)

    def lanes(self, kernel: SlotKernel) -> Iterator[SlotKernel]:
        """Yields the kernels of the members of each lane, those first whose values come first."""
        numbers = range(len(kernel.members))
        there = lambda n: max((self.ready.get(k, 0) for k in kernel.members[n].reads), default=0)
        order, lanes = sorted(numbers, key=there), folding(len(numbers), self.interval).lanes
        for lane in range(lanes):
            yield kernel.of(order[lane::lanes])

    def array(self, name: str, kernel: SlotKernel) -> ScheduledArray:
        """Returns a kernel as an array that begins as soon as it can."""
        slot_cycles = folding(len(kernel.members), self.interval).interval
        datapath, ready = _with_ports(kernel.datapath), self._ready(kernel)
        starts = (x - n * slot_cycles for cycles in ready.values() for n, x in enumerate(cycles))
        begin = max(min(starts, default=0), 0)
        units = operators(datapath, self.device)
        kinds = {unit.kind for unit in units if unit}
        pipeline = pipelined(
            datapath.graph,
            units,
            self.device.clock,
            slot_cycles,
            arrival=self._arrival(ready, begin, slot_cycles),
            spare=SPARE,
            ports=[(output,) for output in datapath.graph.outputs],
            runs=self.runs,
            tail=self._behind(kernel, slot_cycles),
            limited={kind for kind in kinds if not kind.startswith(MULTIPLY)},
        )
        pipeline = with_late_inputs(pipeline)
        pipeline.verify()
        placed = ScheduledArray(
            name, kernel, datapath, pipeline, self.interval, begin, _reads(kernel, datapath)
        )
        for sent in placed.gives:
            for slot, target in enumerate(sent.targets):
                self.ready[target] = placed.cycle(slot, sent.cycle) + HOP
        return placed

    def _ready(self, kernel: SlotKernel) -> dict[str, list[int]]:
        """The first cycles in which the values of each input can be read, by slot."""
        return {
            f"x{i}": [self.ready[k] for k in port.nodes]
            for i, port in enumerate(kernel.ports)
            if not port.table
        }

    def _arrival(
        self, ready: Mapping[str, Sequence[int]], begin: int, slot_cycles: int
    ) -> dict[str, int]:
        """The cycle of a slot in which each input is there in all slots, if the first slot begins
        in a cycle.
        """
        clock = ArrayClock(self.interval, slot_cycles)
        return {
            entry: max(0, *(clock.run(x - begin) - n * slot_cycles for n, x in enumerate(cycles)))
            for entry, cycles in ready.items()
        }

    def look_back(self, kernels: Sequence[SlotKernel]) -> None:
        """Finds `left`, as if there were units for all operations."""
        for kernel in reversed(kernels):
            slots, lanes, slot_cycles = folding(len(kernel.members), self.interval)
            datapath, lane = _with_ports(kernel.datapath), kernel.of(range(slots))
            units = operators(datapath, self.device)
            behind = remaining(
                datapath.graph, units, self.device.clock, self._behind(lane, slot_cycles)
            )
            for i, port in enumerate(kernel.ports):
                for slot, k in enumerate(() if port.table else port.nodes):
                    cycles = behind[f"x{i}"] - slot // lanes * slot_cycles + HOP
                    self.left[k] = max(self.left.get(k, 0), cycles)

    def _behind(self, kernel: SlotKernel, slot_cycles: int) -> dict[str, int]:
        """The cycles that are left behind the outputs of the first slot."""
        return {
            f"y{n}": max(slot * slot_cycles + self.left.get(k, 0) for slot, k in enumerate(targets))
            for n, targets in enumerate(kernel.gives)
        }


def _reads(kernel: SlotKernel, datapath: Datapath) -> tuple[ReadValue, ...]:
    """The inputs of an array, with the nodes that they are in each slot."""
    graph = datapath.graph
    entry = {k: int(graph.value[k][0].removeprefix("x")) for k in graph.nodes_of("input")}
    return tuple(ReadValue(k, kernel.ports[i].nodes) for k, i in entry.items())


def _with_ports(datapath: Datapath) -> Datapath:
    """The datapath of a kernel with an input for each entry of X, and an output for each of Y."""
    graph = datapath.graph
    value = list(graph.value)
    for k in graph.nodes_of("input"):
        value[k] = f"x{graph.value[k][1]}", 0
    inputs = {f"x{i}": () for i in range(graph.inputs[X][0])}
    outputs = {f"y{n}": Output((), (k,)) for n, k in enumerate(graph.outputs[Y].nodes)}
    return replace(datapath, graph=graph.replaced(value=value, inputs=inputs, outputs=outputs))


def with_late_inputs(pipeline: Pipeline) -> Pipeline:
    """Returns the pipeline in which each input comes in the cycle in which it is read first: before
    it waits where it comes from.
    """
    graph, start = pipeline.graph, list(pipeline.start)
    first = [pipeline.latency] * len(graph)
    for name, out in graph.outputs.items():
        for k in out.nodes:
            first[k] = min(first[k], pipeline.read_in(name))
    wires = lambda k: pipeline.operators[k] is None
    for k in reversed(range(len(graph))):
        for a in graph.args[k]:
            first[a] = min(first[a], first[k] if wires(k) else start[k])
    for k, args in enumerate(graph.args):
        if graph.op[k] == "input":
            start[k] = first[k]
        elif wires(k) and args:
            start[k] = max(start[a] if wires(a) else pipeline.ready(a) for a in args)
    return replace(pipeline, start=tuple(start))
