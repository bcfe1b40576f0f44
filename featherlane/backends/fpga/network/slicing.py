"""The choice of the links whose words lie in block memories, in slices.

A FIFO in memories of LUTs takes half a LUT a bit, or one if it has more than 32 places; in slices
it takes 0.31, and 0.25 to 0.38 where slices are few, and what chooses among words shrinks by their
number. A word is some cycles later in each link that is sliced, so that links stay in LUTs where
these are few beside what the device has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil

from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.network import cycles
from featherlane.backends.fpga.network.structure import ENCODE, Channel, Network, Slicing
from featherlane.backends.fpga.piece_costs import fifo_resources, memory_luts
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.errors import CompileError

MOST = 16  # slices: a choice among more takes more LUTs a bit
FEWEST = 4
WORTH = 0.02  # of the LUTs of a device: what FIFOs take at least before they are sliced
LUTS = {4: 0.25, 8: 0.375, 16: 0.3125}  # a bit of the choice of a slice, counts of Yosys
CONTROL = 35  # LUTs of the counters and conditions of a link, counts of Yosys


def with_slices(network: Network, device: Device, free_blocks: float) -> Network:
    """Returns the network with the links sliced that take fewer LUTs so, as far as there are
    memories for them. free_blocks: of RAM, of 18 kbit, that stations leave.
    """
    slicing = _slicing(network.interval, device)
    in_luts = [link for link in network.links.values() if link.depth]
    luts = sum(_in_luts(network, link, device) for link in in_luts)
    if slicing is None or luts < WORTH * device.luts:
        return network
    sliced, left = replace(network, slicing=slicing), device.large or free_blocks
    for group in sorted(_groups(network), key=_bits, reverse=True):
        tried = in_slices(sliced, (link.name for link in group))
        needed = sum((memory(tried, link, device) for link in group), start=NOTHING)
        saved = sum(_in_luts(network, link, device) for link in group) - needed.luts
        blocks = needed.large + needed.memories
        if saved > 0 and blocks <= left and _works(tried):
            sliced, left = tried, left - blocks
    return sliced if any(link.sliced for link in sliced.links.values()) else network


def in_slices(network: Network, names: Iterable[str]) -> Network:
    """Returns a network, which has a slicing, with some links sliced, and stations that take their
    words at once when these are there.
    """
    chosen = {*names}
    links = {
        name: replace(link, sliced=link.sliced or name in chosen)
        for name, link in network.links.items()
    }
    stations = dict(network.stations)
    for name in chosen:
        link = links[name]
        if link.leads and link.target.station != ENCODE and not network.links[name].sliced:
            station = stations[link.target.station]
            if link.source.station != station.name and network.first is not station:
                offset = (station.offset - network.slices.cycles) % network.interval
                stations[station.name] = replace(station, offset=offset)
    return replace(network, links=links, stations=stations)


def memory(network: Network, link: Channel, device: Device) -> Resources:
    """The resources of a link in slices, with what leads in LUTs, and registers behind it."""
    slicing, bits = network.slices, link.wanted_bits
    words, width = _block(device) or (1, 1)
    columns = slicing.columns(network.padding(link) + bits)
    blocks = ceil(columns * slicing.chunk / width) * ceil(link.depth * slicing.count / words)
    counters = 4 * link.depth.bit_length() + 2 * (slicing.count.bit_length() - 1) + 1
    needed = Resources(luts=LUTS[slicing.count] * bits + CONTROL, ffs=bits + counters)
    if not network.gives_slices(link):
        needed += register(network, bits) + Resources(luts=3, ffs=1)
    if link.leads:
        needed += fifo_resources(network.code_bits + network.tag_bits, link.depth, device)
    large = slicing.style == "ultra"
    return needed + (Resources(large=blocks) if large else Resources(memories=blocks))


def register(network: Network, bits: int) -> Resources:
    """The resources of a register for words that come in slices."""
    steps = (network.slices.count + 1).bit_length()
    return Resources(luts=network.slices.count + 2 * steps, ffs=bits + steps)


def _in_luts(network: Network, link: Channel, device: Device) -> float:
    """The LUTs of the memory of a link in LUTs."""
    lead = network.code_bits + network.tag_bits if link.leads else 0
    return memory_luts(link.bits + lead, link.depth, device)


def _slicing(interval: int, device: Device) -> Slicing | None:
    """The slices of words that come once an interval; None if that is too short, or there are no
    blocks.
    """
    block, count = _block(device), MOST
    while count + 2 > interval:
        count //= 2
    if block is None or count < FEWEST:
        return None
    return Slicing(count, block[1], "ultra" if device.large_block else "block")


def _block(device: Device) -> tuple[int, int] | None:
    """The words and bits of the memories that slices lie in."""
    return device.large_block or device.block


def _groups(network: Network) -> list[list[Channel]]:
    """The links with places, in groups that are sliced together."""
    groups: dict[str, list[Channel]] = {}
    for link in network.links.values():
        if link.depth and link.bits:
            group = network.beside(link)
            groups.setdefault(group[0].name, group)
    return [
        group for group in groups.values() if all(link.depth and link.values for link in group)
    ]


def _bits(group: list[Channel]) -> int:
    return sum(link.bits for link in group)


def _works(network: Network) -> bool:
    """Tells whether no word comes later than it is taken."""
    try:
        network.verify()
        cycles.latencies(network)
    except CompileError:
        return False
    return True
