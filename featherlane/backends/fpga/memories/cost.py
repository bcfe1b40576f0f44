"""The cost of a design of units with operand memories: DSPs and blocks of RAM counted, LUTs and
flip-flops estimated.

What several units have alike, synthesis makes once: a bit of micro-code that is the same in each
phase, the registers of the phase and of the counter, and the multiplexer of ports that take the
same values in the same phases.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from featherlane.backends.fpga import cost as of_design
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.memories.design import MemoryDesign
from featherlane.backends.fpga.memories.layout import UnitLayout
from featherlane.backends.fpga.memories.microcode import IN_PAIRS
from featherlane.backends.fpga.memories.operand_memory import OperandMemory
from featherlane.backends.fpga.memories.operations import MULTIPLY
from featherlane.backends.fpga.memories.unit_control import initial_columns
from featherlane.backends.fpga.memories.verilog import unit_name
from featherlane.backends.fpga.piece_costs import carried, chain_resources, memory_luts, tree
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.units import choices
from featherlane.backends.fpga.units.accumulator import Accumulator
from featherlane.backends.fpga.units.post_adder import STEP

# LUTs of a multiplexer by those that it has with the device's cells for multiplexers, where
# these are no instances: the flow for boards finds nearly all of them, synthesis alone fewer
WITH_CELLS, ALONE = 1.1, 1.25


def cost(design: MemoryDesign, device: Device) -> DesignCost:
    """Returns what a design needs of a device."""
    parts = defaultdict[tuple[str, str], Resources](Resources)
    name = design.netlist.part.name
    ends = of_design.cost(replace(design, units={name: design.units[name]}), _without_rings(device))
    parts |= ends.parts
    seen = set[object]()
    for unit in design.layouts:
        module = unit_name(f"{design.name}_", unit)
        for kind, needed in _unit(design, unit, device, seen):
            parts[module, kind] += needed
    return DesignCost(device, dict(parts), 0, shared=True)


def _without_rings(device: Device) -> Device:
    """Returns the device as what waits before and behind units sees it: in chains of registers, of
    which a device that has rings of memory for long delays makes no shift registers.
    """
    if not device.ring:
        return device
    return device._replace(ring=0.0, shift_register=(1, sys.maxsize))


def _unit(
    design: MemoryDesign, unit: UnitLayout, device: Device, seen: set[object]
) -> Iterator[tuple[str, Resources]]:
    """Yields what the parts of a unit need beside what was seen in other units."""
    widths = design.formats.outputs[unit.unit]
    yield "control", _control(unit, device, seen)
    for place, memory in enumerate(unit.memories):
        yield "memories", _memory(memory, device)
        choice = memory.taps, unit.control.column(f"from_{place}")
        if device.joins or choice not in seen:
            width = max(memory.width, memory.lent)
            luts = width * choice_luts(memory.inputs, device)
            yield "multiplexers", Resources(luts=luts)
        seen.add(choice)
    yield "multiplexers", Resources(luts=widths[0] * choice_luts(len(unit.slices), device))
    if unit.kind == MULTIPLY:
        m = design.formats.accumulators[unit.unit]
        yield "multiply", accumulator_resources(m, device)
        if m.loads_early:  # a LUT of each bit of initial sums that differs
            columns = initial_columns(unit.initials, m.bits)
            yield "multiply", Resources(luts=sum(len({*column}) > 1 for column in columns))
    elif unit.kind in design.clusters:
        for (_, kind), needed in of_design.cost(design.clusters[unit.kind], device).parts.items():
            yield kind, needed
    yield "results", Resources(ffs=sum(widths))
    for n, width in enumerate(widths):
        delays = [tap.delay - 1 for tap in unit.copies if tap.output == n]
        luts, ffs = chain_resources(device, delays)
        if device.ring:  # copies are no rings, in which synthesis finds no shift registers
            luts, ffs = 0.0, max(delays, default=-1) + 1
        yield "copies", Resources(luts=luts * width, ffs=ffs * width)


def _control(unit: UnitLayout, device: Device, seen: set[object]) -> Resources:
    """The memory of micro-code, fields whose bits differ by phase, and the registers of the phase
    and of both counters.
    """
    control = unit.control
    packing, phases = control.packing, len(control.rows)
    counters = max((phases - 1).bit_length(), 1)
    counters += max(((ring - 1).bit_length() for ring in unit.rings), default=0)
    counters += unit.turn_bits
    if (alike := ("counters", counters)) in seen:  # synthesis merges registers that are alike
        counters = 0
    seen.add(alike)
    if unit.in_block:
        return Resources(ffs=counters + packing.width, memories=control.blocks)
    if control.packed:
        blocks = ceil(phases / 2**device.inputs)  # of LUTs that take the phase
        luts = ceil(packing.width / 2) if phases <= IN_PAIRS else packing.width * blocks
        return Resources(luts=luts, ffs=packing.width + counters)
    new = {column for column in packing.columns if 0 < column < (1 << phases) - 1} - seen
    seen |= new
    beyond = max((phases - 1).bit_length() - device.inputs, 0)
    return Resources(luts=len(new) * 2**beyond, ffs=len(new) + counters)


def _memory(memory: OperandMemory, device: Device) -> Resources:
    """A memory with the subtraction in front of it, or the sums of one that turns, and the register
    behind it.
    """
    if not memory.taps:
        return Resources(luts=memory.width / 2, ffs=memory.width)
    bits = memory.turn_bits if memory.turns else (memory.ring - 1).bit_length()
    masked = memory.is_ring and memory.constants
    address = carried(device, bits) + (bits if masked else 0)
    if memory.is_block:
        return Resources(luts=address, memories=memory.blocks, large=int(memory.large))
    if memory.cells is not None:
        address *= 2
    luts = memory_luts(memory.width, memory.words, device)
    return Resources(luts=address + luts, ffs=memory.width)


def choice_luts(inputs: int, device: Device) -> float:
    """The LUTs of a bit of a multiplexer with a binary selector: a LUT chooses among four inputs,
    or two if it has four, and several are joined by multiplexers of the device.
    """
    if device.trees:
        return WITH_CELLS * tree(inputs)
    if device.joins:
        return choices.luts(inputs)
    return ALONE * ceil(inputs / 2) if inputs > 1 else 0


def accumulator_resources(m: Accumulator, device: Device) -> Resources:
    """An accumulator: DSPs, and the registers of control and of bits between them; or a multiplier,
    registers and an adder, with LUTs of what it subtracts unless its cells invert that.
    """
    if m.cell:
        return Resources(m.dsps, carried(device, m.bits), m.bits)
    if not m.stages:
        product = min(m.a + m.b, m.bits)
        return Resources(m.dsps, carried(device, m.bits + 1) + m.bits, product + m.bits)
    later = len(m.stages) - 1
    moved = sum(stage.step > 0 for stage in m.stages)
    aligned = sum((later - n + 1) for n, stage in enumerate(m.stages) if stage.step)
    ffs = 3 * later * (later + 1) / 2 + aligned * min(STEP, 1 + 16 * (moved > 1))
    return Resources(m.dsps, 3.0 * later, ffs)
