"""A station of a network whose circuits are arrays: its outputs leave by ports, and inputs that
wait elsewhere come as late as they can.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.backends.fpga.arrays.binding import bound
from featherlane.backends.fpga.arrays.design import ArrayDesign, arrays_without_stream
from featherlane.backends.fpga.arrays.links import Links
from featherlane.backends.fpga.arrays.schedule import ScheduledArray, scheduled
from featherlane.backends.fpga.devices import Device, operators
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.program.analysis.modulo import earliness


class StationPorts(NamedTuple):
    """The ports of a station. outputs: the names of those that leave together; arrival: the cycles
    of inputs by name, 0 for others; late: inputs that come as late as their readers allow, by whole
    intervals.
    """

    outputs: Sequence[Collection[str]]
    arrival: Mapping[str, int]
    late: Collection[str]


def array_station(
    name: str,
    datapath: Datapath,
    kernels: Sequence[SlotKernel],
    interval: int,
    device: Device,
    ports: StationPorts,
    labels: Labels = NO_LABELS,
    *,
    runs: int | None = None,
) -> ArrayDesign:
    """Returns the arrays of kernels that together compute a datapath, without a stream. labels: for
    names and comments. runs: schedules that are tried, as of `modulo.pipelined`.
    """
    # Of a limb's constants some are powers of two, whose products are wires in the flat datapath.
    alone = replace(datapath, fused=frozenset())
    early = earliness(datapath.graph, operators(alone, device), device.clock)
    left = {name: min(early[other] for other in port) for port in ports.outputs for name in port}
    timed = scheduled(datapath, kernels, interval, device, runs, ports.arrival, left)
    arrays = [bound(array) for array in timed]
    starts = {**ports.arrival, **_latest(datapath, arrays, interval, ports.late)}
    return arrays_without_stream(
        Links(name, datapath, arrays, interval, ports.outputs, starts, labels), device.tile
    )


def _latest(
    datapath: Datapath, arrays: Sequence[ScheduledArray], interval: int, late: Collection[str]
) -> dict[str, int]:
    """The latest cycle, a multiple of the interval, in which inputs may come, by name."""
    graph, read = datapath.graph, _first_reads(arrays)
    first: dict[str, int] = {}
    for k in graph.nodes_of("input"):
        name, _ = graph.value[k]
        if name in late and k in read:
            first[name] = min(first.get(name, read[k]), read[k])
    return {name: cycle // interval * interval for name, cycle in first.items()}


def _first_reads(arrays: Sequence[ScheduledArray]) -> dict[int, int]:
    """The first cycle in which arrays read each node of the whole datapath."""
    first: dict[int, int] = {}
    for array in arrays:
        for node, sources in array.reads:
            for slot, k in enumerate(sources):
                cycle = array.cycle(slot, array.pipeline.start[node])
                first[k] = min(first.get(k, cycle), cycle)
    return first
