"""The cost of links whose words lie in UltraRAMs, in slices: counts of Yosys for UltraScale+.

A word takes the LUTs that choose the slice which is written, 0.25 to 0.38 a bit, where memories of
LUTs take half a LUT, or one if they have more than 32 places.
"""

from __future__ import annotations

from math import ceil

from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.network.structure import ENCODE, Channel, Network, Slicing
from featherlane.backends.fpga.piece_costs import fifo_resources, masked_choice
from featherlane.backends.fpga.resources import Resources

CONTROL = 28  # LUTs of the counters and conditions of a link, counts of Yosys


def memory(network: Network, link: Channel, device: Device) -> Resources:
    """The resources of a link in slices, with what leads in LUTs, and registers behind it."""
    slicing, bits = network.slices, link.wanted_bits
    words, width = device.large_block or (1, 1)
    in_slice = slicing.slice_bits(network.padding(link) + bits)
    blocks = ceil(in_slice / width) * ceil(link.depth * slicing.steps / words)
    counters = 4 * link.depth.bit_length() + 2 * (slicing.steps.bit_length() - 1) + 1
    luts = choice_luts(slicing, network.padding(link), bits)
    needed = Resources(luts=luts + CONTROL, ffs=bits + counters, large=blocks)
    if not network.gives_slices(link):
        needed += register(network, bits) + Resources(luts=3, ffs=1)
    if link.leads:
        needed += fifo_resources(network.code_bits + network.tag_bits, link.depth, device)
    return needed


def choice_luts(slicing: Slicing, padding: int, bits: int) -> int:
    """The LUTs that choose the slice of a word that is written: one of six inputs for four chunks,
    and another one for all of these.
    """
    luts, in_column = 0, slicing.steps * slicing.chunk
    begin, end = padding, padding + bits
    for column in range(slicing.columns(end)):
        first, last = (min(max(x - column * in_column, 0), in_column) for x in (begin, end))
        for place in range(slicing.chunk):  # the chunks of a word that have a bit there
            low, high = (-(-(x - place) // slicing.chunk) for x in (first, last))
            groups = -(-high // 4) - low // 4 if high > low else 0
            luts += groups + (groups > 0 and slicing.steps > 4)
    return luts


def register(network: Network, bits: int) -> Resources:
    """The resources of a register for words that come in slices."""
    steps = (network.slices.steps + 1).bit_length()
    return Resources(luts=network.slices.steps + 2, ffs=bits + steps)


def results(network: Network, numbers: int, device: Device) -> Resources:
    """The resources that choose the slices of results with so many bits of numbers, and the
    register behind these.
    """
    slicing, links, ends = network.slices, network.into(ENCODE), list[tuple[int, int]]()
    for link in links:
        first = network.result_offset(link) // (slicing.steps * slicing.chunk) * slicing.chunk
        ends.append((first, first + slicing.slice_bits(network.padding(link) + link.wanted_bits)))
    bits = range(slicing.slice_bits(numbers))
    sources = [sum(first <= bit < end for first, end in ends) for bit in bits]
    chosen = Resources(luts=masked_choice(sources, device), ffs=len(links))
    return register(network, numbers) + chosen
