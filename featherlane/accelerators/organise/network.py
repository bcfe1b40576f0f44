"""The network of a robot's functions: a station for what needs no factor of M, one for what does,
and the links of each function between them (Dadu-RBD 2023, figures 9 and 14).

    pass      q, v, f_ext, a, minv -> tau, M, dtau_dq, dtau_dv, da_dq, da_dv
    factor    M, tau of the pass, tau -> Minv, a

The derivatives of FD pass twice: their first pass is FD; a and Minv then come back to `pass`, with
q and v that waited, before any new task. What is taken late, as M^-1, waits in a FIFO until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from featherlane.accelerators.choices import SHARING, DesignSpec
from featherlane.accelerators.organise.array_stations import StationArrays
from featherlane.accelerators.organise.pass_graph import (
    FACTORS,
    FROM_FACTOR,
    PASS,
    SHARES,
    parts_of,
)
from featherlane.backends.fixed.cut import cut
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga.arrays.station import array_station
from featherlane.backends.fpga.devices import operators
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.memories.design import Formatted, units_without_stream
from featherlane.backends.fpga.memories.scheduler import PortTimes
from featherlane.backends.fpga.network.cycles import latencies
from featherlane.backends.fpga.network.slicing import with_slices
from featherlane.backends.fpga.network.structure import (
    DECODE,
    ENCODE,
    Channel,
    End,
    Entry,
    Network,
    Port,
    Station,
    Value,
)
from featherlane.backends.fpga.verilog import Design, without_stream
from featherlane.program.analysis.modulo import pipelined
from featherlane.program.analysis.pipeline import Pipeline
from featherlane.program.passes.guards import LOST

CODES = {name: code for code, name in enumerate(SHARES)}
AGAIN = len(CODES)  # the micro-instruction of a second pass
ID, FD, M, MINV, DID, DIFD, DFD = CODES.values()
CROSSING = "pass_to_factor"  # what the factor reads of the pass beside M and torques
GROUPS = (
    ("tau",),
    ("M", CROSSING),
    ("dtau_dq", "dtau_dv"),
    ("da_dq", "da_dv"),
)  # that leave together
STATE = ("q", "v", "f_ext")  # what both passes read
RESULTS: dict[int, tuple[str, ...]] = {
    DIFD: ("da",), AGAIN: ("da", "da_dtau"), FD: ("a",), MINV: ("Minv",), DID: ("dtau",),
    ID: ("tau",), M: ("M",),
}  # fmt: skip
"""The links of each result, the first one leading."""
ENOUGH = 1 << 20  # places of a network whose latencies are asked for
STATIONS = 0.75  # of the memories larger than blocks of RAM; the others are for links
LATE = ("minv", "pass_tau", "tau")  # inputs of stations that wait in FIFOs
MadeStation = Callable[[str, str, Sequence[tuple[str, ...]], Mapping[str, int]], Design]
"""Makes the circuits of a station: of the name of the design, of the station, of its ports of
outputs that leave together, and the cycles of inputs that come later than the first ones."""


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

    def station(design: str, part: str, *ports: Any) -> Design:
        pipeline = _scheduled(spec, interval, runs, parts[part], *ports)
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
    """Returns the network of the functions of a spec whose stations are arrays. The others are
    those of `network`.
    """
    stations = arrays.stations

    def station_of(design: str, part: str, *ports: Any) -> Design:
        options = interval, spec.target, *ports, LATE, runs, crossing(labels)
        return array_station(design, *stations[part], *options)

    parts = {part: station.datapath for part, station in stations.items()}
    return _network(name, parts, spec, interval, station_of, labels)


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

    def station(design: str, part: str, ports: Any, arrival: Mapping[str, int]) -> Design:
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
    make_station: MadeStation,
    labels: Labels,
) -> Network:
    """Returns the network of stations that compute parts of a datapath."""
    codes = {function: CODES[function] for function in SHARES if function in spec.functions}
    organised = _Organised(name, parts, interval, make_station, frozenset(codes.values()))
    structure = organised.stations, organised.links, codes, organised.results
    network = with_depth(Network(name, *structure, ENOUGH, spec.tag_bits, labels))
    sliced = with_slices(network, spec.target)
    network = network if sliced is network else with_depth(sliced)
    network.verify()
    return network


def with_depth(network: Network) -> Network:
    """Returns a network in which tasks under way never wait for a place, and no more of them."""
    depth = _depth(replace(network, depth=ENOUGH))
    links = {
        name: replace(link, depth=depth if link.depth else 0)
        for name, link in network.links.items()
    }
    return replace(network, links=links, depth=depth)


def _depth(network: Network) -> int:
    """The tasks under way when none ever waits for a place: a task of several passes comes the
    less often.
    """
    return max(
        ceil((cycles + network.interval + 2) / (network.interval * SHARES[function].passes)) + 2
        for function, cycles in latencies(network).items()
    )


class _Organised:
    """The stations and links of a design."""

    def __init__(
        self,
        name: str,
        parts: Mapping[str, Datapath],
        interval: int,
        make_station: MadeStation,
        codes: frozenset[int],
    ) -> None:
        self.parts, self.codes, self.interval = parts, codes, interval
        self.instructions = codes | ({AGAIN} if DFD in codes else frozenset())
        self.links: dict[str, Channel] = {}
        self.results = {i: RESULTS[i] for i in RESULTS if i in self.instructions}
        self.designs: dict[str, Design] = {}
        self.ports: dict[str, tuple[dict[str, Port], dict[str, Port]]] = {}
        for part in (PASS, FACTORS):
            if part in parts:
                self.ports[part] = {}, {}
                self.designs[part] = make_station(f"{name}_{part}", part, *self._ports(part))
        self._decoded()
        if FACTORS in parts:
            self._factored()
        self._encoded()
        self.stations = {part: self._station(part) for part in self.ports}

    # Pipelines and ports

    def _ports(self, part: str) -> tuple[list[tuple[str, ...]], dict[str, int]]:
        """The outputs of a station that leave together, and the inputs that come later than the
        first ones, with their cycles.
        """
        outputs = self.parts[part].graph.outputs
        groups = [(*FROM_FACTOR, LOST)] if part == FACTORS else GROUPS
        ports = [tuple(name for name in group if name in outputs) for group in groups]
        torques = part == FACTORS and "pass_tau" in self.parts[part].graph.inputs
        return [port for port in ports if port], {"pass_tau": self._behind_M()} if torques else {}

    def _behind_M(self) -> int:
        """The cycle of the factor in which the torques of the pass are there, if M came first."""
        taken = self.designs[PASS].pipeline.taken
        return -(-max(taken["tau"] - taken["M"], 0) // self.interval) * self.interval

    def _input(self, part: str, name: str, inputs: Sequence[str]) -> Port:
        """The port of some inputs of a station."""
        ports, datapath = self.ports[part][0], self.parts[part]
        if name not in ports:
            graph = datapath.graph
            nodes = [k for n in inputs for k in graph.nodes_of("input") if graph.value[k][0] == n]
            cycle = min((self._start(part, name) for name in inputs), default=0)
            values = tuple(Value(graph.value[k], datapath.format(k)) for k in nodes)
            ports[name] = Port(name, values, tuple(nodes), cycle)
        return ports[name]

    def _start(self, part: str, name: str) -> int:
        """The cycle in which an input of a station is there."""
        pipeline = self.designs[part].pipeline
        graph = pipeline.graph  # of arrays: of what lies between them
        nodes = [k for k in graph.nodes_of("input") if graph.value[k][0] == name]
        return min((pipeline.start[k] for k in nodes), default=0)

    def _output(self, part: str, name: str, entries: Sequence[Entry]) -> Port:
        """The port of some entries of outputs of a station."""
        datapath, outputs = self.parts[part], self.parts[part].graph.outputs
        nodes = [outputs[n].nodes[position] for n, position in entries]
        values = tuple(
            Value(entry, datapath.format(k)) for entry, k in zip(entries, nodes, strict=True)
        )
        taken = self.designs[part].pipeline.taken
        port = Port(name, values, tuple(nodes), max((taken[n] for n, _ in entries), default=0))
        return self.ports[part][1].setdefault(name, port)

    def _whole(self, part: str, outputs: Sequence[str]) -> list[Entry]:
        """The entries of outputs, each node once, without constants."""
        graph, entries = self.parts[part].graph, dict[int, Entry]()
        for name in outputs:
            for position, k in enumerate(graph.outputs[name].nodes):
                if graph.op[k] != "constant":
                    entries.setdefault(k, (name, position))
        return list(entries.values())

    # Links

    def _link(
        self,
        name: str,
        source: End,
        target: End,
        values: Sequence[Value],
        wanted: Sequence[Value],
        puts: set[int],
        takes: set[int] | None = None,
        leads: bool = False,
        depth: int = ENOUGH,
    ) -> None:
        put = frozenset(puts & self.instructions)
        take = frozenset((puts if takes is None else takes) & self.instructions)
        if put and (values or leads):
            becomes = {DFD: AGAIN} if DFD in put and AGAIN in take else {}
            formats = tuple(value.form for value in wanted)
            ends = source, target, tuple(values), formats
            self.links[name] = Channel(name, *ends, put, take, leads, depth, becomes)

    def _decoded(self) -> None:
        """Makes the channels of the inputs of tasks."""
        state = self._input(PASS, "state", STATE)
        everything = {ID, FD, M, MINV, DID, DIFD, DFD}

        def decode(name: str, part: str, port: Port, puts: set[int], **options: object) -> None:
            ends = End(DECODE, name), End(part, port.name)
            self._link(f"given_{name}", *ends, port.values, port.values, puts, **options)  # type: ignore[arg-type]

        decode("state", PASS, state, everything, leads=True, depth=0)
        ends = End(DECODE, "state"), End(PASS, "state")
        self._link("waiting", *ends, state.values, state.values, {DFD}, {AGAIN})
        decode("a", PASS, self._input(PASS, "a", ("a",)), {ID, DID, DIFD}, depth=0)
        minv = self._input(PASS, "minv", ("minv",))
        decode("minv", PASS, minv, {DIFD}, depth=ENOUGH if minv.cycle else 0)
        if FACTORS in self.parts:
            decode("tau", FACTORS, self._input(FACTORS, "tau", ("tau",)), {FD, DFD})

    def _factored(self) -> None:
        """Makes the channels to the station of the factor, and back."""
        for output, ports, takes in (
            ("M", ("pass_M", CROSSING), {MINV, FD, DFD}),
            ("tau", ("pass_tau",), {FD, DFD}),
        ):
            target = self._input(FACTORS, ports[0], ports)
            source = self._output(PASS, f"{output}_to_factor", _positions(output, target))
            self._between(PASS, source, FACTORS, target, takes, leads=output == "M")
        for output in FROM_FACTOR:
            target = self._input(PASS, output.lower(), (output.lower(),))
            if output in self.parts[FACTORS].graph.outputs:
                source = self._output(FACTORS, f"{output}_again", _positions(output, target))
                self._between(FACTORS, source, PASS, target, {DFD}, {AGAIN}, leads=output == "a")

    def _between(
        self,
        source: str,
        output: Port,
        target: str,
        port: Port,
        puts: set[int],
        takes: set[int] | None = None,
        leads: bool = False,
    ) -> None:
        ends = End(source, output.name), End(target, port.name)
        self._link(output.name, *ends, output.values, port.values, puts, takes, leads)

    def _encoded(self) -> None:
        """Makes the channels of results."""
        factor = self.parts.get(FACTORS)
        lost = (LOST,) if factor is not None and LOST in factor.graph.outputs else ()
        for name, part, outputs, puts in (
            ("tau", PASS, ("tau",), {ID}),
            ("M", PASS, ("M",), {M}),
            ("dtau", PASS, ("dtau_dq", "dtau_dv"), {DID}),
            ("da", PASS, ("da_dq", "da_dv"), {DIFD, AGAIN}),
            ("a", FACTORS, ("a", *lost), {FD}),
            ("Minv", FACTORS, ("Minv", *lost), {MINV}),
            ("da_dtau", FACTORS, ("Minv", *lost), {DFD}),
        ):
            if puts & self.instructions:
                port = self._output(part, f"{name}_out", self._whole(part, outputs))
                ends = End(part, port.name), End(ENCODE, name)
                takes = {AGAIN} if name == "da_dtau" else puts
                leads = name != "da_dtau"
                self._link(name, *ends, port.values, port.values, puts, takes, leads)

    # Stations

    def _station(self, part: str) -> Station:
        taken, interval = self.designs[PASS].pipeline.taken, self.interval
        offset = (interval - 2 - taken["M"]) % interval if part == FACTORS else 0
        entries = [
            n for n, link in self.links.items() if link.target.station == part and link.leads
        ]
        entries.sort(key=lambda n: self.links[n].depth == 0)  # those that come back first
        inputs, outputs = self.ports[part]
        inputs = {n: port for n, port in inputs.items() if port.values}
        return Station(part, self.designs[part], inputs, outputs, tuple(entries), offset)


def _scheduled(
    spec: DesignSpec,
    interval: int,
    runs: int | None,
    datapath: Datapath,
    ports: Sequence[tuple[str, ...]],
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


def _positions(output: str, port: Port) -> list[Entry]:
    """The entries of an output that an input port reads."""
    return [(n if n == CROSSING else output, position) for (n, position), _ in port.values]


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
