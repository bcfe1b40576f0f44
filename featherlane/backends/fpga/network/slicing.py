"""The choice of the links whose words lie in UltraRAMs, in slices.

Slices take fewer LUTs than words in memories of LUTs, and what chooses among words shrinks by their
number. But a word is some cycles later in each link that is sliced, so that links stay in LUTs
where these are few beside what the device has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.network import cycles
from featherlane.backends.fpga.network.cost import between
from featherlane.backends.fpga.network.structure import ENCODE, Channel, Network, Slicing
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.errors import CompileError

STEPS = 4, 8, 16  # slices of a word: a choice among more takes more LUTs a bit
WORTH = 0.1  # of a device's LUTs: what lies between stations takes that before it is sliced


def with_slices(network: Network, device: Device) -> Network:
    """Returns the network with the links sliced that take fewer LUTs so, the largest ones first, as
    far as stations leave the device UltraRAMs for them.
    """
    slicing, needs = _slicing(network.interval, device), _needs(network, device)
    if slicing is None or needs.luts < WORTH * device.luts:
        return network
    sliced = replace(network, slicing=slicing)
    left = device.large - sum(station.design.large for station in network.stations.values())
    for group in sorted(_groups(network), key=_bits, reverse=True):
        tried = in_slices(sliced, (link.name for link in group))
        if not _works(tried):
            continue
        its_needs = _needs(tried, device)
        if its_needs.luts < needs.luts and its_needs.large <= left:
            sliced, needs = tried, its_needs
    return sliced if any(link.sliced for link in sliced.links.values()) else network


def _needs(network: Network, device: Device) -> Resources:
    """The resources of what lies between stations."""
    return sum((needed for _, needed in between(network, device)), start=NOTHING)


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


def _slicing(interval: int, device: Device) -> Slicing | None:
    """The slices of words that come once an interval; None if that is too short, or there are no
    UltraRAMs.
    """
    fitting = [steps for steps in STEPS if steps + 2 <= interval]
    if device.large_block is None or not fitting:
        return None
    return Slicing(max(fitting), device.large_block[1])


def _groups(network: Network) -> list[list[Channel]]:
    """The links with places, in groups that are sliced together."""
    groups: dict[str, list[Channel]] = {}
    for link in network.links.values():
        if link.depth and link.bits:
            group = network.beside(link)
            groups.setdefault(group[0].name, group)
    return [group for group in groups.values() if all(link.depth and link.values for link in group)]


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
