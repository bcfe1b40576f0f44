"""Kernels as circuits: pipelines at the intervals that their turns leave them, on lanes where a
state's interval has no room for all turns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from math import ceil
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga.cost import cost
from featherlane.backends.fpga.devices import Device, operators
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.backends.fpga.slots import SlotArray, Sum, slot_array
from featherlane.backends.fpga.verilog import Design, design
from featherlane.program.analysis.modulo import pipelined
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.program import Y


class Turns(NamedTuple):
    """Slots, one after the other, lanes, beside each other, and the cycles of a slot."""

    slots: int
    lanes: int
    interval: int


def turns(members: int, interval: int) -> Turns:
    """Returns how members take turns at an interval: on as few lanes as it has room for."""
    lanes = ceil(members / interval)
    slots = ceil(members / lanes)
    return Turns(slots, lanes, interval // slots)


class Built(NamedTuple):
    """A kernel as a circuit: with what feeds it if several members take turns, and what it takes
    of the device.
    """

    circuit: SlotArray | Design
    turns: Turns
    needs: Resources

    @property
    def pipeline(self) -> Pipeline:
        """The schedule of the kernel."""
        found = self.circuit
        return found.design.pipeline if isinstance(found, SlotArray) else found.pipeline


def built(
    datapath: Datapath,
    kernels: Mapping[Hashable, SlotKernel],
    interval: int,
    device: Device,
    clock: float = 8.0,
) -> dict[Hashable, Built]:
    """Returns the circuits of kernels that together compute a datapath, at an interval. Sums over
    the members of a kernel are part of its circuit.
    """
    totals = {part: list(_totals(datapath, part, kernels)) for part in kernels}
    inside = {total.node for own in totals.values() for total in own}
    found: dict[Hashable, Built] = {}
    for number, (part, kernel) in enumerate(kernels.items()):
        gives = {k for nodes in kernel.gives for k in nodes}
        if gives <= inside:
            continue
        each = turns(len(kernel.members), interval)
        pipeline = _pipeline(kernel.datapath, each.interval, device, clock)
        name = f"array_{number}"
        if len(kernel.members) == 1:
            alone = design(name, kernel.datapath, pipeline, device.tile)
            found[part] = Built(alone, each, cost(alone, device).total)
            continue
        array = slot_array(name, kernel, pipeline, each.lanes, totals[part], device.tile)
        found[part] = Built(array, each, array.needs(device))
    return found


def _pipeline(datapath: Datapath, interval: int, device: Device, clock: float) -> Pipeline:
    return pipelined(datapath.graph, operators(datapath, device, clock), clock, interval)


def needs(circuits: Mapping[Hashable, Built]) -> Resources:
    """Returns what circuits take together."""
    return sum((each.needs for each in circuits.values()), start=NOTHING)


def _totals(
    datapath: Datapath, part: Hashable, kernels: Mapping[Hashable, SlotKernel]
) -> Iterator[Sum]:
    """Yields the entries of a kernel of which nothing but the sum over its members is read, by a
    kernel that has only additions.
    """
    kernel = kernels[part]
    if len(kernel.members) == 1:
        return
    entries = {frozenset(nodes): entry for entry, nodes in enumerate(kernel.gives)}
    others = [k for name, own in kernels.items() if name != part for k in _read(own)]
    ends = {k for out in datapath.graph.outputs.values() for k in out.nodes}
    for other in kernels.values():
        graph = other.datapath.graph
        if len(other.members) > 1 or {*graph.op} - {"input"} != {"add"}:
            continue
        for node, k in zip(other.members[0].gives, graph.outputs[Y].nodes, strict=True):
            terms = frozenset(other.members[0].reads[i] for i in _entries(other.datapath, k))
            entry = entries.get(terms)
            if entry is not None and all(others.count(x) == 1 and x not in ends for x in terms):
                yield Sum(entry, node, datapath.format(node))


def _read(kernel: SlotKernel) -> set[int]:
    return {k for port in kernel.ports for k in port.nodes}


def _entries(datapath: Datapath, k: int) -> list[int]:
    """The entries of the input that a sum adds."""
    graph = datapath.graph
    if graph.op[k] == "input":
        return [graph.value[k][1]]
    return [i for a in graph.args[k] for i in _entries(datapath, a)]


def latency(kernels: Mapping[Hashable, SlotKernel], circuits: Mapping[Hashable, Built]) -> int:
    """Returns the cycles from the inputs of a state to its last results, where each circuit waits
    for whole tasks of those before it.
    """
    ready: dict[int, int] = {}
    for part, kernel in kernels.items():
        begin = max((ready.get(k, 0) for k in _read(kernel)), default=0)
        gives = [k for nodes in kernel.gives for k in nodes]
        if part in circuits:
            found = circuits[part].circuit
            begin += found.latency
        ready |= dict.fromkeys(gives, begin)
    return max(ready.values(), default=0)
