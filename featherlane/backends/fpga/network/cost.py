"""The cost of a network on a device: its stations, and the FIFOs and control between them.

FIFOs lie in memories of LUTs, by the device's table of these, or in slices in UltraRAMs
(`slice_costs`); what chooses among words, and what brings a number into another format, is counted
bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from featherlane.backends.fpga import cost as of_design
from featherlane.backends.fpga.arrays import design as of_arrays
from featherlane.backends.fpga.arrays.design import ArrayDesign
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.memories import cost as of_memories
from featherlane.backends.fpga.memories.design import MemoryDesign
from featherlane.backends.fpga.network import slice_costs, words
from featherlane.backends.fpga.network.structure import Channel, Network, Station
from featherlane.backends.fpga.piece_costs import fifo_resources, masked_choice, multiplexer
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.verilog import Design


def cost(design: Design | Network, device: Device) -> DesignCost:
    """Returns the cost of a pipeline, of either kind of datapath, of arrays, or of a network."""
    if isinstance(design, Network):
        return _of_network(design, device)
    if isinstance(design, MemoryDesign):
        return of_memories.cost(design, device)
    return (of_arrays if isinstance(design, ArrayDesign) else of_design).cost(design, device)  # type: ignore[arg-type]


def _of_network(network: Network, device: Device) -> DesignCost:
    """The cost of a network; its parts are those of the stations' modules, and the module and kind
    of the FIFOs and the control between them.
    """
    parts: dict[tuple[str, str], Resources] = {}
    packed = 0
    for station in network.stations.values():
        of_design = cost(station.design, device)
        parts |= of_design.parts
        packed += of_design.packed
    parts |= between(network, device)
    needs = {key: needed for key, needed in parts.items() if any(needed)}
    return DesignCost(device, needs, packed, network.interval > 1)


def between(network: Network, device: Device) -> Iterator[tuple[tuple[str, str], Resources]]:
    """Yields what lies between the datapaths of stations: the module, the kind, and its need."""
    name = network.name
    for station in network.stations.values():
        yield (f"{name}_{station.name}", "control"), _of_station(network, station, device)
    for link in network.links.values():
        if link.depth:
            yield (f"{name}_link_{link.name}", "fifo"), fifo(network, link, device)
            yield (f"{name}_feedback", link.name), _conversions(link, device)
    for part, needed in _modules_of_control(network, device):
        yield (f"{name}_{part}", "control"), needed


def fifo(network: Network, link: Channel, device: Device) -> Resources:
    """The resources of the FIFO of a link."""
    if link.sliced:
        return slice_costs.memory(network, link, device)
    lead = network.code_bits + network.tag_bits if link.leads else 0
    return fifo_resources(link.bits + lead, link.depth, device)


def _of_station(network: Network, station: Station, device: Device) -> Resources:
    """Registers of what is taken, what chooses it, the tasks inside, and the phase."""
    needed = sum(
        _of_inputs(network, station, device), start=_tasks_inside(network, station, device)
    )
    return needed + Resources(luts=4, ffs=(station.interval - 1).bit_length())


def _tasks_inside(network: Network, station: Station, device: Device) -> Resources:
    """The chain of registers of whether there is a task, and that of its tag, which lies in shift
    registers from one cycle to the next in which it is read.
    """
    longest, _ = device.shift_register
    read = {port.cycle for port in station.outputs.values()} | {
        port.cycle - 1 - network.read_ahead(station.name, port.name)
        for port in station.inputs.values()
        if port.cycle
    }
    before, stages = -1, 0
    for cycle in sorted(read):
        stages += ceil((cycle - before) / longest)
        before = cycle
    return Resources(luts=(network.code_bits + network.tag_bits) * stages, ffs=before + 1)


def _of_inputs(network: Network, station: Station, device: Device) -> Iterator[Resources]:
    """Yields, for each input of a station, its register and what chooses among the links to it:
    their words, or the slices of these in front of a register that gathers them.
    """
    for port in station.inputs.values():
        links = [x for x in network.into(station.name) if x.target.port == port.name]
        chosen = port.bits
        if network.read_ahead(station.name, port.name):
            yield slice_costs.register(network, port.bits)
            chosen = network.slices.slice_bits(port.bits)
        luts = chosen * multiplexer(device, {link.name for link in links}, len(links) - 1)
        yield Resources(luts=luts, ffs=port.bits)


def _conversions(link: Channel, device: Device) -> Resources:
    """The resources that bring numbers into the formats of a link's target: a choice between
    three, where the comparisons are of a few bits.
    """
    luts = 0.0
    for value, wanted in zip(link.values, link.wanted, strict=True):
        if value.form != wanted:
            tests = value.form.width - value.form.fraction > wanted.width - wanted.fraction
            luts += tests * device.bits["select"] * wanted.width
    return Resources(luts=luts)


def _modules_of_control(network: Network, device: Device) -> Iterator[tuple[str, Resources]]:
    """Yields the modules around the stations, by name."""
    tag_bits = network.code_bits + network.tag_bits
    yield "encode", _encode(network, tag_bits, device)
    yield "decode", _decode(network)
    yield "schedule", _schedule(network, tag_bits)
    yield "links", Resources(luts=sum(1 for link in network.links.values() if link.depth))


def _encode(network: Network, tag_bits: int, device: Device) -> Resources:
    """The module that puts the words of results together: it chooses the next result that is there
    by a round robin among the links that lead, and then its tag and its numbers.
    """
    numbers, leading = words.layout(network).result_bits - tag_bits, len(network.leading)
    mask = leading if leading > 1 else 0
    tag = ceil(2 * leading / (device.inputs - 1)) * tag_bits
    robin = Resources(luts=tag + 3 * (leading + mask), ffs=tag_bits + 1 + mask)
    if network.slices_results:
        return robin + slice_costs.results(network, numbers, device)
    results = network.results.values()
    widths = [sum(network.links[name].bits for name in names) for names in results]
    sources = [sum(width > bit for width in widths) for bit in range(numbers)]
    return robin + Resources(luts=masked_choice(sources, device), ffs=numbers)


def _decode(network: Network) -> Resources:
    """The LUTs that make numbers zero which a station takes with each task, although its function
    has them not.
    """
    every = {*network.codes.values()}
    masked = sum(
        links[0].bits
        for links in words.decoded(network).values()
        if any(link.depth == 0 for link in links)
        and not {i for link in links for i in link.puts} >= every
    )
    return Resources(luts=masked)


def _schedule(network: Network, tag_bits: int) -> Resources:
    """The counter of credits, and what chooses among the entries of stations, with their tags."""
    entries = sum(len(station.entries) for station in network.stations.values())
    bits, tags = network.depth.bit_length(), (entries - len(network.stations)) * tag_bits
    return Resources(luts=2 * bits + 2 * entries + tags, ffs=bits)
