"""The stations and links of a robot's functions: a station for what needs no factor of M, one for
what does, and the links of each function between them (Dadu-RBD 2023, figures 9 and 14).

    pass      q, v, f_ext, a, minv -> tau, M, dtau_dq, dtau_dv, da_dq, da_dv
    factor    M, tau of the pass, tau -> Minv, a

The derivatives of FD pass twice: their first pass is FD; a and Minv then come back to `pass`, with
q and v that waited, before any new task. What is taken late, as M^-1, waits in a FIFO until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from featherlane.accelerators.choices import DesignSpec
from featherlane.accelerators.organise.pass_graph import FACTORS, FROM_FACTOR, PASS, SHARES
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.labels import Labels
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
from featherlane.backends.fpga.verilog import Design
from featherlane.program.passes.guards import LOST

CODES = {name: code for code, name in enumerate(SHARES)}
AGAIN = len(CODES)  # the micro-instruction of a second pass
ID, FD, M, MINV, DID, DIFD, DFD = CODES.values()
CROSSING = "pass_to_factor"  # what the factor reads of the pass beside M and torques
# Outputs that leave together
GROUPS = ("tau",), ("M", CROSSING), ("dtau_dq", "dtau_dv"), ("da_dq", "da_dv")
STATE = ("q", "v", "f_ext")  # what both passes read
RESULTS: dict[int, tuple[str, ...]] = {
    DIFD: ("da",), AGAIN: ("da", "da_dtau"), FD: ("a",), MINV: ("Minv",), DID: ("dtau",),
    ID: ("tau",), M: ("M",),
}  # fmt: skip
"""The links of each result, the first one leading."""
ENOUGH = 1 << 20  # places of links whose number is not known yet
Outputs = Sequence[tuple[str, ...]]  # the names of outputs that leave together
MakeStation = Callable[[str, str, Outputs, Mapping[str, int]], Design]
"""Makes the circuits of a station: of the name of the design, of the station, of its ports of
outputs that leave together, and the cycles of inputs that come later than the first ones."""


def linked_stations(
    name: str,
    parts: Mapping[str, Datapath],
    spec: DesignSpec,
    interval: int,
    make_station: MakeStation,
    labels: Labels,
) -> Network:
    """Returns the network of the functions of a spec, with more places in each link than tasks
    need. parts: the datapaths of the stations.
    """
    codes = {function: CODES[function] for function in SHARES if function in spec.functions}
    instructions = frozenset(codes.values()) | ({AGAIN} if DFD in codes.values() else frozenset())
    functions = _FunctionLinks(parts, interval, instructions)
    for part in (PASS, FACTORS):
        if part in parts:
            functions.ports[part] = {}, {}
            ports = functions.ports_of_design(part)
            functions.designs[part] = make_station(f"{name}_{part}", part, *ports)
    functions.link_inputs()
    if FACTORS in parts:
        functions.link_factor()
    functions.link_results()
    stations = {part: functions.station(part) for part in functions.ports}
    results = {i: RESULTS[i] for i in RESULTS if i in instructions}
    options = ENOUGH, spec.tag_bits, labels
    return Network(name, stations, functions.links, codes, results, *options)


class LinkUse(NamedTuple):
    """The use of a link. puts, takes: the micro-instructions with which tasks put a word and take
    one, the same ones if None. leads: whether it brings tasks to its target. depth: places.
    """

    puts: set[int]
    takes: set[int] | None = None
    leads: bool = False
    depth: int = ENOUGH


@dataclass(frozen=True)
class _FunctionLinks:
    """The links of functions, as they are added to stations.

    parts: the datapaths of stations. instructions: the micro-instructions of the functions.
    designs: the circuits of stations; ports: the inputs and outputs of each, by name.
    """

    parts: Mapping[str, Datapath]
    interval: int
    instructions: frozenset[int]
    designs: dict[str, Design] = field(default_factory=dict)
    ports: dict[str, tuple[dict[str, Port], dict[str, Port]]] = field(default_factory=dict)
    links: dict[str, Channel] = field(default_factory=dict)

    # Ports of stations

    def ports_of_design(self, part: str) -> tuple[Outputs, dict[str, int]]:
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
        use: LinkUse,
    ) -> None:
        """Adds a channel, if one of the functions uses it. values, wanted: as they are put and as
        they are taken.
        """
        put = frozenset(use.puts & self.instructions)
        take = frozenset((use.puts if use.takes is None else use.takes) & self.instructions)
        if put and (values or use.leads):
            becomes = {DFD: AGAIN} if DFD in put and AGAIN in take else {}
            formats = tuple(value.form for value in wanted)
            ends = source, target, tuple(values), formats
            self.links[name] = Channel(name, *ends, put, take, use.leads, use.depth, becomes)

    def link_inputs(self) -> None:
        """Makes the channels of the inputs of tasks."""
        state = self._input(PASS, "state", STATE)
        a, minv = (self._input(PASS, name, (name,)) for name in ("a", "minv"))
        waits, uses = ENOUGH if minv.cycle else 0, {ID, FD, M, MINV, DID, DIFD, DFD}
        self._link_input("state", PASS, state, LinkUse(uses, leads=True, depth=0))
        ends = End(DECODE, "state"), End(PASS, "state")
        self._link("waiting", *ends, state.values, state.values, LinkUse({DFD}, {AGAIN}))
        self._link_input("a", PASS, a, LinkUse({ID, DID, DIFD}, depth=0))
        self._link_input("minv", PASS, minv, LinkUse({DIFD}, depth=waits))
        if FACTORS in self.parts:
            tau = self._input(FACTORS, "tau", ("tau",))
            self._link_input("tau", FACTORS, tau, LinkUse({FD, DFD}))

    def _link_input(self, name: str, part: str, port: Port, use: LinkUse) -> None:
        """Adds the channel of a part of the words of inputs to a station."""
        ends = End(DECODE, name), End(part, port.name)
        self._link(f"given_{name}", *ends, port.values, port.values, use)

    def link_factor(self) -> None:
        """Makes the channels to the station of the factor, and back."""
        for output, ports, uses in (
            ("M", ("pass_M", CROSSING), {MINV, FD, DFD}),
            ("tau", ("pass_tau",), {FD, DFD}),
        ):
            target = self._input(FACTORS, ports[0], ports)
            source = self._output(PASS, f"{output}_to_factor", _positions(output, target))
            self._between(PASS, source, FACTORS, target, LinkUse(uses, leads=output == "M"))
        for output in FROM_FACTOR:
            target = self._input(PASS, output.lower(), (output.lower(),))
            if output in self.parts[FACTORS].graph.outputs:
                source = self._output(FACTORS, f"{output}_again", _positions(output, target))
                use = LinkUse({DFD}, {AGAIN}, leads=output == "a")
                self._between(FACTORS, source, PASS, target, use)

    def _between(self, source: str, output: Port, target: str, port: Port, use: LinkUse) -> None:
        """Adds the channel from an output of a station to an input of another one."""
        ends = End(source, output.name), End(target, port.name)
        self._link(output.name, *ends, output.values, port.values, use)

    def link_results(self) -> None:
        """Makes the channels of results."""
        factor = self.parts.get(FACTORS)
        lost = (LOST,) if factor is not None and LOST in factor.graph.outputs else ()
        for name, part, outputs, use in (
            ("tau", PASS, ("tau",), LinkUse({ID}, leads=True)),
            ("M", PASS, ("M",), LinkUse({M}, leads=True)),
            ("dtau", PASS, ("dtau_dq", "dtau_dv"), LinkUse({DID}, leads=True)),
            ("da", PASS, ("da_dq", "da_dv"), LinkUse({DIFD, AGAIN}, leads=True)),
            ("a", FACTORS, ("a", *lost), LinkUse({FD}, leads=True)),
            ("Minv", FACTORS, ("Minv", *lost), LinkUse({MINV}, leads=True)),
            ("da_dtau", FACTORS, ("Minv", *lost), LinkUse({DFD}, {AGAIN})),
        ):
            if use.puts & self.instructions:
                port = self._output(part, f"{name}_out", self._whole(part, outputs))
                ends = End(part, port.name), End(ENCODE, name)
                self._link(name, *ends, port.values, port.values, use)

    # Stations

    def station(self, part: str) -> Station:
        """A station with the links that bring its tasks. The factor takes one in the
        cycle after that in which M is put into its link.
        """
        taken, interval = self.designs[PASS].pipeline.taken, self.interval
        offset = (interval - 2 - taken["M"]) % interval if part == FACTORS else 0
        entries = [
            n for n, link in self.links.items() if link.target.station == part and link.leads
        ]
        entries.sort(key=lambda n: self.links[n].depth == 0)  # those that come back first
        inputs, outputs = self.ports[part]
        inputs = {n: port for n, port in inputs.items() if port.values}
        return Station(part, self.designs[part], inputs, outputs, tuple(entries), offset)


def _positions(output: str, port: Port) -> list[Entry]:
    """The entries of an output that an input port reads."""
    return [(n if n == CROSSING else output, position) for (n, position), _ in port.values]
