"""When arrays work: each is a pipeline of a kernel, whose members take turns, and begins when the
values that it reads are there.

All cycles are known before: a value is read in the cycle in which its reader's turn wants it, so
that no array waits for a whole task of another one, and nothing is asked whether it is there. A
value waits a cycle in a register on its way from one array to another.
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

HOP = 1  # cycles of the register between two arrays
SPARE = (0.04,)  # of the units of an array: its operations wait less for a phase


class Turns(NamedTuple):
    """Slots, one after the other, lanes, beside each other, and the cycles of a slot."""

    slots: int
    lanes: int
    interval: int


def turns(members: int, interval: int) -> Turns:
    """Returns how members take turns at an interval: on as few lanes as it has room for. A slot has
    the same phases in each turn, so that the interval is a multiple of its cycles.
    """
    lanes = ceil(members / interval)
    slots = ceil(members / lanes)
    whole = next(n for n in range(slots, interval + 1) if interval % n == 0)
    return Turns(slots, lanes, interval // whole)


class Read(NamedTuple):
    """What an array reads: an input of its datapath, and the node of the whole that it is in each
    slot.
    """

    node: int
    sources: tuple[int, ...]


class Given(NamedTuple):
    """What an array gives: a node of its datapath, the cycle of a slot in which it is read, and the
    node of the whole that it is in each slot.
    """

    node: int
    cycle: int
    targets: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Array:
    """A kernel in a pipeline.

    kernel: its members in the order of their slots. datapath: the kernel's, with an input for each
    of `reads`, which comes in the cycle of a slot in which it starts, and an output for each of
    `gives`. pipeline: its interval is that of a slot. begin: the cycle of the first slot.
    """

    name: str
    kernel: SlotKernel
    datapath: Datapath
    pipeline: Pipeline
    begin: int
    reads: tuple[Read, ...]

    @property
    def slots(self) -> int:
        """Members that take turns."""
        return len(self.kernel.members)

    @property
    def gives(self) -> list[Given]:
        """What leaves."""
        outputs = self.datapath.graph.outputs
        return [
            Given(outputs[name].nodes[0], self.pipeline.read_in(name), targets)
            for name, targets in zip(outputs, self.kernel.gives, strict=True)
        ]

    def cycle(self, slot: int, cycle: int) -> int:
        """The cycle of the state that is a cycle of a slot."""
        return self.begin + slot * self.pipeline.interval + cycle

    @property
    def last(self) -> int:
        """The cycle in which its last result is there."""
        return self.cycle(self.slots - 1, self.pipeline.latency)


def scheduled(
    datapath: Datapath,
    kernels: Sequence[SlotKernel],
    interval: int,
    device: Device,
    clock: float,
    runs: int | None = None,
    arrival: Mapping[str, int] = MappingProxyType({}),
    left: Mapping[str, int] = MappingProxyType({}),
) -> list[Array]:
    """Returns the arrays of kernels that together compute a datapath, in an order in which none
    needs a later one. clock: nanoseconds; runs: schedules that are tried of each, as of
    `modulo.pipelined`; arrival, left: by the names of inputs, the cycles in which they come, of
    outputs, the cycles that are left behind them.
    """
    graph, scheduler = datapath.graph, _Scheduler(interval, device, clock, runs)
    scheduler.left = {k: n for name, n in left.items() for k in graph.outputs[name].nodes}
    scheduler.look_back(kernels)
    for k, (op, value) in enumerate(zip(graph.op, graph.value, strict=True)):
        if not graph.args[k]:
            scheduler.ready[k] = arrival.get(value[0], 0) if op == "input" else 0
    found: list[Array] = []
    for kernel in kernels:
        for lane in scheduler.lanes(kernel):
            found.append(scheduler.array(f"array_{len(found)}", lane))
    return found


@dataclass
class _Scheduler:
    """Places arrays one after the other. ready: of the nodes that are placed, the first cycle in
    which each can be read; left: of those that arrays read, the cycles until all is done.
    """

    interval: int
    device: Device
    clock: float
    runs: int | None
    ready: dict[int, int] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)

    def lanes(self, kernel: SlotKernel) -> Iterator[SlotKernel]:
        """Yields the kernels of the members of each lane, those first whose values come first."""
        numbers = range(len(kernel.members))
        there = lambda n: max((self.ready.get(k, 0) for k in kernel.members[n].reads), default=0)
        order, lanes = sorted(numbers, key=there), turns(len(numbers), self.interval).lanes
        for lane in range(lanes):
            yield kernel.of(order[lane::lanes])

    def array(self, name: str, kernel: SlotKernel) -> Array:
        """Returns a kernel as an array that begins as soon as it can."""
        turn = turns(len(kernel.members), self.interval).interval
        datapath = _with_ports(kernel.datapath)
        first = {  # the cycle of the first slot in which each entry can be read
            f"x{i}": max(self.ready[k] - slot * turn for slot, k in enumerate(port.nodes))
            for i, port in enumerate(kernel.ports)
            if not port.table
        }
        begin = max(min(first.values(), default=0), 0)
        pipeline = pipelined(
            datapath.graph,
            operators(datapath, self.device, self.clock),
            self.clock,
            turn,
            arrival={entry: max(cycle - begin, 0) for entry, cycle in first.items()},
            spare=SPARE,
            ports=[(output,) for output in datapath.graph.outputs],
            runs=self.runs,
            left=self._behind(kernel, turn),
        )
        pipeline = with_late_inputs(pipeline)
        pipeline.verify()
        found = Array(name, kernel, datapath, pipeline, begin, _reads(kernel, datapath))
        for given in found.gives:
            for slot, target in enumerate(given.targets):
                self.ready[target] = found.cycle(slot, given.cycle) + HOP
        return found

    def look_back(self, kernels: Sequence[SlotKernel]) -> None:
        """Finds `left`, where units are not counted."""
        for kernel in reversed(kernels):
            slots, lanes, turn = turns(len(kernel.members), self.interval)
            datapath, lane = _with_ports(kernel.datapath), kernel.of(range(slots))
            units = operators(datapath, self.device, self.clock)
            behind = remaining(datapath.graph, units, self.clock, self._behind(lane, turn))
            for i, port in enumerate(kernel.ports):
                for slot, k in enumerate(() if port.table else port.nodes):
                    cycles = behind[f"x{i}"] - slot // lanes * turn + HOP
                    self.left[k] = max(self.left.get(k, 0), cycles)

    def _behind(self, kernel: SlotKernel, turn: int) -> dict[str, int]:
        """The cycles that are left behind the outputs of the first slot."""
        return {
            f"y{n}": max(slot * turn + self.left.get(k, 0) for slot, k in enumerate(targets))
            for n, targets in enumerate(kernel.gives)
        }


def _reads(kernel: SlotKernel, datapath: Datapath) -> tuple[Read, ...]:
    """What the inputs of an array are in each slot."""
    graph = datapath.graph
    entry = {k: int(graph.value[k][0].removeprefix("x")) for k in graph.nodes_of("input")}
    return tuple(Read(k, kernel.ports[i].nodes) for k, i in entry.items())


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
