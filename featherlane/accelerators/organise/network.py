"""The network of a robot's functions: the circuits of its stations, which are datapaths of shared
multipliers, arrays, or units with operand memories, and the number of tasks under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from featherlane.accelerators.choices import SHARING, DesignSpec
from featherlane.accelerators.organise.array_stations import StationArrays
from featherlane.accelerators.organise.function_links import (
    ENOUGH,
    MakeStation,
    Outputs,
    linked_stations,
)
from featherlane.accelerators.organise.pass_graph import PASS, SHARES, parts_of
from featherlane.backends.fixed.cut import cut
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga.arrays.station import StationPorts, array_station
from featherlane.backends.fpga.devices import operators
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.memories.design import Formatted, units_without_stream
from featherlane.backends.fpga.memories.scheduler import PortTimes
from featherlane.backends.fpga.network.cycles import latencies
from featherlane.backends.fpga.network.slicing import with_slices
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.verilog import Design, without_stream
from featherlane.program.analysis.modulo import pipelined
from featherlane.program.analysis.pipeline import Pipeline

STATIONS = 0.75  # of the memories larger than blocks of RAM; the others are for links
LATE = ("minv", "pass_tau", "tau")  # inputs of stations that wait in FIFOs


def network(
    name: str,
    datapath: Datapath,
    spec: DesignSpec,
    interval: int,
    runs: int | None = None,
    labels: Labels = NO_LABELS,
) -> Network:
    """Returns the network of the functions of a spec. datapath: of a pass of all of them
    (`pass_graph.all_functions_graph`); runs: schedules that are tried, as of `modulo.pipelined`;
    labels: for names and comments.
    """
    parts = cut(datapath, parts_of(datapath.graph))

    def station(design: str, part: str, ports: Outputs, arrival: Mapping[str, int]) -> Design:
        pipeline = _scheduled(spec, interval, runs, parts[part], ports, arrival)
        return without_stream(
            design, parts[part], pipeline, spec.target.tile, labels=crossing(labels)
        )

    return _network(name, parts, spec, interval, station, labels)


def array_network(
    name: str,
    arrays: StationArrays,
    spec: DesignSpec,
    interval: int,
    runs: int | None = None,
    labels: Labels = NO_LABELS,
) -> Network:
    """Returns the network of the functions of a spec whose stations are arrays. runs, labels: as of
    `network`.
    """
    stations = arrays.stations

    def station(design: str, part: str, ports: Outputs, arrival: Mapping[str, int]) -> Design:
        datapath, kernels = stations[part]
        of_station, named = StationPorts(ports, arrival, LATE), crossing(labels)
        options = interval, spec.target, of_station, named
        return array_station(design, datapath, kernels, *options, runs=runs)

    parts = {part: arrays_of.datapath for part, arrays_of in stations.items()}
    return _network(name, parts, spec, interval, station, labels)


def memory_network(
    name: str,
    datapath: Datapath,
    spec: DesignSpec,
    interval: int,
    labels: Labels = NO_LABELS,
) -> Network:
    """Returns the network of the functions of a spec whose stations are units with operand
    memories. datapath: of a pass of all of them, with runs (`runs.accumulated`).
    """
    parts = parts_of(datapath.graph)
    wide, narrow = cut(datapath, parts), cut(narrowed(datapath), parts)
    nodes = {part: len(inside.graph) for part, inside in wide.items()}

    def station(design: str, part: str, ports: Outputs, arrival: Mapping[str, int]) -> Design:
        both = Formatted(wide[part], narrow[part])
        every = spec.target.blocks, int(STATIONS * spec.target.large)
        blocks, large = (count * nodes[part] // sum(nodes.values()) for count in every)
        device = spec.target._replace(blocks=blocks, large=large)
        options = interval, device, PortTimes(ports, arrival), LATE
        return units_without_stream(design, both, *options, labels=crossing(labels))

    return _network(name, narrow, spec, interval, station, labels)


def crossing(labels: Labels) -> Labels:
    """Returns the labels with those of results of the pass that the factor takes as inputs."""
    taken = {(f"{PASS}_{name}", n): text for (name, n), text in labels.entries.items()}
    return labels._replace(entries={**labels.entries, **taken})


def _network(
    name: str,
    parts: Mapping[str, Datapath],
    spec: DesignSpec,
    interval: int,
    make_station: MakeStation,
    labels: Labels,
) -> Network:
    """Returns the network of stations that compute parts of a datapath."""
    network = with_depth(linked_stations(name, parts, spec, interval, make_station, labels))
    sliced = with_slices(network, spec.target)
    network = network if sliced is network else with_depth(sliced)
    network.verify()
    return network


def with_depth(network: Network) -> Network:
    """Returns the network with as many credits, and places in links, as let no task wait."""
    depth = _depth(replace(network, depth=ENOUGH))
    links = {
        name: replace(link, depth=depth if link.depth else 0)
        for name, link in network.links.items()
    }
    return replace(network, links=links, depth=depth)


def _depth(network: Network) -> int:
    """The most tasks that are under way if none waits for a credit: those of several passes are
    taken less often.
    """
    return max(
        ceil((cycles + network.interval + 2) / (network.interval * SHARES[function].passes)) + 2
        for function, cycles in latencies(network).items()
    )


def _scheduled(
    spec: DesignSpec,
    interval: int,
    runs: int | None,
    datapath: Datapath,
    ports: Outputs,
    arrival: Mapping[str, int],
) -> Pipeline:
    """The pipeline of a station, in which inputs that wait in FIFOs come as late as they can."""
    graph = datapath.graph
    units = operators(datapath, spec.target, spec.has_units_apart(interval))
    pools, spare = SHARING[spec.sharing](graph), sorted({0.0, spec.spare})
    options = spec.target.clock, interval, pools, arrival, spare, ports, runs
    pipeline = pipelined(graph, units, *options)
    for name in LATE:
        if name in graph.inputs:
            pipeline = later(pipeline, name)
    pipeline.verify()
    return pipeline


def later(pipeline: Pipeline, name: str) -> Pipeline:
    """Returns the pipeline in which an input comes as late as its readers allow, by whole
    intervals.
    """
    graph = pipeline.graph
    nodes = {k for k in graph.nodes_of("input") if graph.value[k][0] == name}
    reads = [pipeline.latency]
    behind = set(nodes)  # and wires behind them
    for k, args in enumerate(graph.args):
        if behind & {*args}:
            if pipeline.operators[k] is None:
                behind.add(k)
            else:
                reads.append(pipeline.start[k])
    for output, out in graph.outputs.items():
        if behind & {*out.nodes}:
            reads.append(pipeline.read_in(output))
    cycle = min(reads) // pipeline.interval * pipeline.interval
    starts = tuple(cycle if k in behind else s for k, s in enumerate(pipeline.start))
    return replace(pipeline, start=starts)
