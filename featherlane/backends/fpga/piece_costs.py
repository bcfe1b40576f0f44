"""The cost of the pieces that designs of all kinds are made of: carry chains, chains of registers,
memories, FIFOs, tables and multiplexers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import ceil

from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.statements import MOST_LEAVES, missing_leaves

# Yosys's costs of a memory in LUTs, a bit of a choice among such memories, and a block memory
# (techlibs/lattice): it takes the cheaper one. Beside a block, FIFOs keep what is read as it is
# written, and compare places: LUTs a bit of a counter more.
LUT_MEMORY, CHOICE, BLOCK, BESIDE_BLOCK = 4, 0.5, 128, 4.5
COUNTER = 4  # flip-flops of a FIFO, for a bit of its three counters: counts for 12 to 200 places


def carried(device: Device, bits: int) -> int:
    """The LUTs of a carry chain, in whole elements."""
    return ceil(max(bits, 0) / device.carry) * device.carry


def waiting(device: Device, bits: int, read: Iterable[int]) -> Resources:
    """The resources of a result of so many bits in a chain of which some registers are read."""
    luts, ffs = chain_resources(device, read)
    if device.ring:  # whole memories
        _, wide, of_memory = device.memories[0]
        return Resources(luts=luts / device.ring * ceil(bits / wide) * of_memory, ffs=bits * ffs)
    return Resources(luts=bits * luts, ffs=bits * ffs)


def chain_resources(device: Device, read: Iterable[int]) -> tuple[float, int]:
    """Returns the LUTs and flip-flops, for a bit, of a chain of which some registers are read."""
    longest, shortest = device.shift_register
    luts, ffs = 0.0, 0
    before = -1
    for register in sorted(read):
        length = register - before
        if length < shortest:
            ffs += length
        elif device.ring:
            rings, left = divmod(length, longest)
            rings, left = (rings + 1, 0) if left >= shortest else (rings, left)
            luts += rings * device.ring
            ffs += rings + left
        else:
            luts += ceil(length / longest)
        before = register
    return luts, ffs


def fifo_resources(width: int, depth: int, device: Device) -> Resources:
    """The resources of a FIFO with its counters: in LUTs, or in block memories where synthesis
    finds these cheaper.
    """
    places = depth.bit_length()
    counters = Resources(luts=device.bits["counter"] * places, ffs=COUNTER * places)
    if device.block:
        words, wide = device.block
        blocks = ceil(width / wide) * ceil(depth / words)
        deep, narrow, _ = device.memories[0]
        banks = ceil(depth / deep)
        small = LUT_MEMORY * banks * ceil(width / narrow) + CHOICE * width * (banks - 1)
        if BLOCK * blocks < small:
            beside = Resources(luts=width + BESIDE_BLOCK * places, ffs=width, memories=blocks)
            return counters + beside
    return counters + Resources(luts=memory_luts(width, depth, device))


def memory_luts(width: int, depth: int, device: Device) -> float:
    """The LUTs of a memory that is written in one place and read in another one in each cycle."""
    for places, bits, luts in device.memories:
        if depth <= places:
            return luts * ceil(width / bits)
    places, bits, luts = device.memories[-1]
    banks = ceil(depth / places)
    chosen = multiplexer(device, set(map(str, range(banks))), (banks - 1).bit_length())
    return banks * luts * ceil(width / bits) + chosen * width


@cache
def table_luts(entries: tuple[int, ...], bits: int) -> int:
    """The LUTs of a table in LUTs of six inputs: those of different blocks of 64 entries, but for
    constant and inverted ones, and one that chooses where multiplexers behind LUTs do not.
    """
    luts = 0
    for bit in range(bits):
        column = [x >> bit & 1 for x in entries]
        blocks = {tuple(column[n : n + 64]) for n in range(0, len(column), 64)}
        inverted = (tuple(1 - x for x in block) for block in blocks)
        pairs = {min(pair) for pair in zip(blocks, inverted, strict=True) if len({*pair[0]}) > 1}
        luts += len(pairs) + (len(blocks) > 4)
    return luts


def tree(sources: int) -> int:
    """The LUTs of a bit of a multiplexer that is a tree of choices between two, of which cells
    behind LUTs make the upper ones of trees with 4, 8 or 16 leaves.
    """
    if sources < 2:
        return 0
    half = 1 << (sources - 1).bit_length() - 1
    if sources + missing_leaves(sources) == 2 * half <= MOST_LEAVES:
        return half
    return tree(half) + tree(sources - half) + 1


def multiplexer(device: Device, sources: set[object], phases: int) -> float:
    """The LUTs of a bit of a multiplexer. sources: bits of signals, 0 and 1; phases: the bits that
    choose.
    """
    if len(sources) < 2:
        return 0.0
    signals = len(sources - {0, 1})
    if signals + phases <= device.inputs:
        return 1.0
    for n, luts in device.multiplexers:
        if signals <= n:
            return luts
    n, luts = device.multiplexers[-1]
    return luts * (signals - 1) / (n - 1)


def masked_choice(sources: Iterable[int], device: Device) -> float:
    """The LUTs of a choice by AND and OR, in which each source has a bit that says whether it is
    taken. sources: the number of them, for each bit.
    """
    return float(sum(ceil(max(2 * n - 1, 0) / (device.inputs - 1)) for n in sources))
