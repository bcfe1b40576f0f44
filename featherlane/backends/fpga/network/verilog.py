"""The modules of a network: its stations, the links between them, and those around. Nothing
is decided here: what there is says the `Network`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from featherlane.backends.fpga.module import Module, named, sources
from featherlane.backends.fpga.network import links, slices, words
from featherlane.backends.fpga.network.control import decode, encode, feedback, schedule
from featherlane.backends.fpga.network.stations import done_cycles, station_module
from featherlane.backends.fpga.network.structure import Channel, Network, Port, Station
from featherlane.backends.fpga.network.text import (
    ALWAYS,
    ControlModule,
    both,
    is_one_of,
    taken_by,
    the_one,
)
from featherlane.backends.fpga.stream import add_stream_ports
from featherlane.backends.fpga.text import every


@dataclass(frozen=True)
class Circuit:
    """A network and its modules by their names, those of its stations' designs among them."""

    network: Network
    modules: dict[str, Module]

    @cached_property
    def sources(self) -> dict[str, str]:
        """The text of all modules, by the names of their files."""
        return sources(self.modules)

    @property
    def name(self) -> str:
        return self.network.name


def circuit(network: Network) -> Circuit:
    """Returns the modules of a network."""
    network.verify()
    around = [part(network) for part in (decode, schedule, feedback, encode)]
    stations = {
        station.name: station_module(network, station) for station in network.stations.values()
    }
    modules: dict[str, Module] = {}
    for station in network.stations.values():
        modules |= station.design.modules
    top = _top(network, around, stations)
    of_links = [links.fifo(network), *slices.modules(network)]
    modules |= named(*stations.values(), *around, top, *of_links)
    return Circuit(network, modules)


def _top(
    network: Network, around: list[ControlModule], stations: dict[str, ControlModule]
) -> ControlModule:
    """The top module: stations, links, and the modules around them, with the wires between them."""
    plan = words.layout(network)
    module = ControlModule(network, "", (
        f"Tasks of {len(network.codes)} functions to their results, a pass "
        f"{every(network.interval)}. A word is taken where valid and ready are both 1"
    ))  # fmt: skip
    module.legend = _legend(network)
    add_stream_ports(module, plan.result_bits, plan.input_bits)
    for other in around:
        module.inside(other, {"data": "in_data"})
    for station in network.stations.values():
        _add_station(module, station, stations[station.name])
    for link in network.links.values():
        if link.depth:
            links.connect(module, link, outside=False)
            links.add_put(module, link)
            if not links.is_fed_back(network, link):
                links.add_fifo(module, link)
    return module


def _legend(network: Network) -> list[str]:
    """The meanings of the names of stations: the functions whose tasks pass them."""
    rows = ["Names:"]
    for station in network.stations.values():
        taken = taken_by(network, station)
        functions = [name for name, code in network.codes.items() if code in taken]
        whose = ", ".join(functions) or "all functions"
        rows.append(
            f"{station.design.name}: the station of {whose}; the head of its datapath tells names"
        )
    return rows


def _add_station(module: ControlModule, station: Station, inside: ControlModule) -> None:
    """A station, and what chooses the words that it takes."""
    name = station.name
    renamed = {"ready": f"{name}_ready", "take": f"{name}_take"}
    for part in ("instruction", "tag"):
        renamed[f"taken_{part}"] = f"{name}_{part}"
        renamed |= {f"done_{c}_{part}": f"{name}_done_{c}_{part}" for c in done_cycles(station)}
    renamed |= {f"done_{c}": f"{name}_done_{c}" for c in done_cycles(station)}
    renamed |= {port: f"{name}_{port}_given" for port in station.outputs}
    for port in station.inputs.values():
        renamed[port.name] = f"{name}_{port.name}"
        if port.cycle:
            takes = "read" if module.network.read_ahead(name, port.name) else "take"
            renamed[f"{takes}_{port.name}"] = f"{name}_{port.name}_{takes}"
            renamed[f"in_{port.name}"] = f"{name}_{port.name}_in"
    module.inside(inside, renamed)
    for port in station.inputs.values():
        _add_input(module, station, port)


def _add_input(module: ControlModule, station: Station, port: Port) -> None:
    """The word of an input: of the links that bring it, that of the task's micro-instruction."""
    network, signal = module.network, f"{station.name}_{port.name}"
    task = f"{signal}_in" if port.cycle else f"{station.name}_instruction"
    every = taken_by(network, station)
    channels = [link for link in network.into(station.name) if link.target.port == port.name]
    # A task that brings none has 0, as the acceleration of forward dynamics; what comes late no
    # other task reads.
    read = {i for link in channels for i in link.takes} if port.cycle else every
    if port.cycle and network.read_ahead(station.name, port.name):
        _add_gathered_input(module, station, port, channels)
        return
    choices = [
        (is_one_of(task, link.takes, read, network.code_bits), _source(link)) for link in channels
    ]
    module.assign(signal, the_one(choices, port.bits))
    for link in channels if port.cycle else ():
        when = is_one_of(task, link.takes, every, network.code_bits)
        module.assign(module.declare(f"{link.name}_take"), both(f"{signal}_take", when))


def _add_gathered_input(
    module: ControlModule, station: Station, port: Port, channels: list[Channel]
) -> None:
    """The word of a late input whose links give slices, in a register that they share."""
    network, signal = module.network, f"{station.name}_{port.name}"
    every, chosen = taken_by(network, station), list[tuple[str, str]]()
    for link in channels:
        when = is_one_of(f"{signal}_in", link.takes, every, network.code_bits)
        take = module.wire(f"{link.name}_take", None, both(f"{signal}_read", when))
        taken = ALWAYS
        if len(channels) > 1:
            taken = module.declare(f"{link.name}_taken")
            module.clocked(f"if ({signal}_read) {taken} <= {take};")
        chosen.append((taken, f"{link.name}_slice"))
    bits = slices.slice_bits(network, channels[0])
    module.declare(f"{signal}_loads")
    module.declare(f"{signal}_ends")
    ports = {
        "clock": "clock", "reset": "reset", "start": f"{signal}_read", "word": signal,
        "slice": module.wire(f"{signal}_slice", bits, the_one(chosen, bits)),
        "loads": f"{signal}_loads", "ends": f"{signal}_ends",
    }  # fmt: skip
    _, register, _ = slices.names(network)
    module.instance(register, f"{signal}_gathered", ports, {"WIDTH": port.bits, "SLICE": bits})


def _source(link: Channel) -> str:
    return f"{link.name}_head" if link.depth else link.source.port
