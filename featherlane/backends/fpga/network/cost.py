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
from featherlane.backends.fpga.network.structure import ENCODE, Channel, Network, Station
from featherlane.backends.fpga.piece_costs import fifo_resources, multiplexer
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
    for part, needed in _around(network, device):
        yield (f"{name}_{part}", "control"), needed


def fifo(network: Network, link: Channel, device: Device) -> Resources:
    """The resources of the FIFO of a link."""
    if link.sliced:
        return slice_costs.memory(network, link, device)
    lead = network.code_bits + network.tag_bits if link.leads else 0
    return fifo_resources(link.bits + lead, link.depth, device)


def _of_station(network: Network, station: Station, device: Device) -> Resources:
    """Registers of what is taken, what chooses it, the tasks inside, and the phase."""
    longest, _ = device.shift_register
    cycles = sorted({port.cycle for port in station.outputs.values()})
    late = [
        port.cycle - 1 - network.read_ahead(station.name, port.name)
        for port in station.inputs.values()
        if port.cycle
    ]
    lead, before, luts = network.code_bits + network.tag_bits, -1, 0.0
    for cycle in sorted({*cycles, *late}):
        luts += lead * ceil((cycle - before) / longest)
        before = cycle
    ffs: float = before + 1  # whether there is a task
    for port in station.inputs.values():
        links = [x for x in network.into(station.name) if x.target.port == port.name]
        chosen = port.bits
        if network.read_ahead(station.name, port.name):
            slices = network.slices
            registers = slice_costs.register(network, port.bits)
            luts, ffs = luts + registers.luts, ffs + registers.ffs
            chosen = slices.columns(port.bits) * slices.chunk
        ffs += port.bits
        luts += chosen * multiplexer(device, {link.name for link in links}, len(links) - 1)
    return Resources(luts=luts + 4, ffs=ffs + (station.interval - 1).bit_length())


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


def _chosen_results(network: Network, numbers: int, device: Device) -> float:
    """The LUTs that choose the bits of results, or of their slices: AND and OR of so many."""
    if network.slices_results:
        slices = network.slices
        ends = []
        for link in network.into(ENCODE):
            first = network.result_offset(link) // (slices.steps * slices.chunk)
            columns = slices.columns(network.padding(link) + link.wanted_bits)
            ends.append((first * slices.chunk, (first + columns) * slices.chunk))
        numbers = slices.columns(numbers) * slices.chunk
        there = [sum(first <= bit < end for first, end in ends) for bit in range(numbers)]
    else:
        names = network.results.values()
        widths = [sum(network.links[name].bits for name in some) for some in names]
        there = [sum(width > bit for width in widths) for bit in range(numbers)]
    return float(sum(ceil(max(2 * n - 1, 0) / (device.inputs - 1)) for n in there))


def _around(network: Network, device: Device) -> Iterator[tuple[str, Resources]]:
    """Yields what the modules around the stations need."""
    plan, bits = words.layout(network), network.depth.bit_length()
    numbers = plan.result_bits - sum(plan.tag)
    chosen, registers = _chosen_results(network, numbers, device), Resources()
    if network.slices_results:
        registers = slice_costs.register(network, numbers) + Resources(
            ffs=len(network.into(ENCODE))
        )
    tag = ceil(2 * len(network.leading) / (device.inputs - 1)) * sum(plan.tag)
    leading = len(network.leading)
    mask = leading if leading > 1 else 0
    luts = chosen + tag + 3 * (leading + mask) + registers.luts
    ffs = registers.ffs + (sum(plan.tag) if network.slices_results else plan.result_bits)
    yield "encode", Resources(luts=luts, ffs=ffs + 1 + mask)
    masked = sum(
        links[0].bits
        for links in words.decoded(network).values()
        if any(link.depth == 0 for link in links)
        and not {i for link in links for i in link.puts} >= {*network.codes.values()}
    )
    yield "decode", Resources(luts=masked)
    entries = sum(len(station.entries) for station in network.stations.values())
    chosen_tags = (entries - len(network.stations)) * sum(plan.tag)
    yield "schedule", Resources(luts=2 * bits + 2 * entries + chosen_tags, ffs=bits)
    yield "links", Resources(luts=sum(1 for link in network.links.values() if link.depth))
