"""The cost of a design on a device: DSPs counted, LUTs and flip-flops estimated from its structure.

DSPs are those of the multipliers that the modules consist of. LUTs are those of adders, bit by bit
where both operands have bits, of multiplexers in front of shared units, by the different signals
that each bit chooses among, and of sums and tables in units. Flip-flops are those of results that
wait, of units without bits that nothing reads, and of the phase. Registers of multipliers that are
expressions are counted outside of DSPs, where Yosys leaves them; `packed` of them fit into DSPs.
Instances of DSPs have theirs inside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import ceil
from typing import NamedTuple

from featherlane.backends.fpga.devices import Device, width
from featherlane.backends.fpga.netlist import WIRE, Netlist, constant_integer
from featherlane.backends.fpga.part import OperandChoice
from featherlane.backends.fpga.resources import NOTHING, Resources
from featherlane.backends.fpga.shared import ProductUnit
from featherlane.backends.fpga.units import functions, post_adder
from featherlane.backends.fpga.units.functions import FunctionUnit
from featherlane.backends.fpga.units.multiplier_cell import CellRegisters
from featherlane.backends.fpga.units.multipliers import (
    Multiplier,
    Tile,
    cell_registers,
    levels,
    piece_products,
    stages,
    tiles,
)
from featherlane.backends.fpga.verilog import Design

# LUTs a bit where two terms overlap that are added to half: Yosys makes a carry-save adder and a
# chain of carries of it. Of two products, or of two sums of products; fitted to its counts of 98
# modules of the iiwa14 and HyQ.
PRODUCTS_AND_HALF, SUMS_AND_HALF = 2.2, 1.5
# LUTs of a table of reciprocals, as a factor: synthesis merges the choice in front of its index
BEHIND_CHOICE = 2.0  # counts for three formats: 2.1 to 2.4
PLACE = 1.4  # LUTs a bit of the counter of places in rings, counts of Yosys
# Yosys's costs of a memory in LUTs, a bit of a choice among such memories, and a block memory
# (techlibs/lattice): it takes the cheaper one. Beside a block, FIFOs keep what is read as it is
# written, and compare places: LUTs a bit of a counter more.
LUT_MEMORY, CHOICE, BLOCK, BESIDE_BLOCK = 4, 0.5, 128, 4.5
COUNTER = 4  # flip-flops of a FIFO, for a bit of its three counters: counts for 12 to 200 places


class DesignCost(NamedTuple):
    """The resources that a design takes. parts: by module and kind of unit; packed: flip-flops that
    fit into DSPs; shared: whether operations share units.
    """

    device: Device
    parts: Mapping[tuple[str, str], Resources]
    packed: int
    shared: bool = False

    @property
    def total(self) -> Resources:
        return sum(self.parts.values(), start=NOTHING)

    @property
    def modules(self) -> dict[str, Resources]:
        """The resources of each module."""
        return self._sums(0)

    @property
    def kinds(self) -> dict[str, Resources]:
        """The resources of units of each kind, of multiplexers, waiting results and control."""
        return self._sums(1)

    def _sums(self, n: int) -> dict[str, Resources]:
        sums = defaultdict[str, Resources](Resources)
        for key, part in self.parts.items():
            sums[key[n]] += part
        return dict(sums)

    @property
    def shares(self) -> Resources:
        """The shares of the device, in percent."""
        total, there = self.total, self.device
        return Resources(
            100 * total.dsps / there.dsps,
            100 * total.luts / there.luts,
            100 * total.ffs / there.ffs,
            100 * total.memories / there.blocks,
        )

    @property
    def fits(self) -> bool:
        return self.excess <= 1

    @property
    def excess(self) -> float:
        """The largest share as a factor of what a design may take of the device."""
        limits = (*self.most, 100.0)
        return max(share / most for share, most in zip(self.shares, limits, strict=True))

    @property
    def most(self) -> tuple[float, float, float]:
        """Percent of the multipliers, LUTs and flip-flops that such a design may take."""
        return self.device.most_shared if self.shared else self.device.most

    def percentages(self, digits: int) -> str:
        """The shares in words."""
        dsps, luts, ffs, blocks = (f"{n:.{digits}f} %" for n in self.shares)
        ram = f", {blocks} of the blocks of RAM" if self.total.memories else ""
        shares = f"{dsps} of the DSPs{ram}, {luts} of the LUTs and {ffs} of the flip-flops"
        return f"{shares} of {self.device.name}"

    def __str__(self) -> str:
        rows = [("part", "DSPs", "LUTs", "FFs")]
        for name, part in [*self.kinds.items(), ("all", self.total)]:
            rows.append((name, f"{part.dsps:,.0f}", f"{part.luts:,.0f}", f"{part.ffs:,.0f}"))
        shares = [f"{n:.1f} %" for n in self.shares[:3]]
        rows.append((f"of {self.device.name}", shares[0], shares[1], shares[2]))
        return "\n".join(f"{name:<16}{a:>12}{b:>14}{c:>14}" for name, a, b, c in rows)


def cost(design: Design, device: Device) -> DesignCost:
    """Returns what a design needs of a device, with the multipliers of this device."""
    parts = defaultdict[tuple[str, str], Resources](Resources)
    packed = 0
    netlist = design.netlist
    held = _held(netlist)
    for name, module in design.units.items():
        first = dict[OperandChoice, str]()  # of multiplexers that are alike there is one
        same = {name: first.setdefault(choice, name) for name, choice in module.choices.items()}
        for unit in module.products:
            operands = tuple(same.get(operand, operand) for operand in unit.operands)
            needed, inside = _product(unit._replace(operands=operands), device, held[name])
            parts[name, "multiply"] += needed
            packed += inside
        for function in module.functions:
            kind = "reciprocal" if function.op == "div" else "sine_cosine"
            parts[name, kind] += function_resources(function, device)
        luts = sum(_choice(choice, design.interval, device) for choice in first)
        parts[name, "multiplexers"] += Resources(luts=luts)
        parts[name, "control"] += Resources(luts=PLACE * module.places, ffs=module.control)
    for name, kind, needed in _nodes(design, netlist, device):
        parts[name, kind] += needed
    if design.depth:
        parts[design.name, "stream"] = _stream(design, device)
    return DesignCost(device, dict(parts), packed, design.interval > 1)


def _held(netlist: Netlist) -> defaultdict[str, set[str]]:
    """The signals of each module of which a register has the value of the cycle before."""
    held = defaultdict[str, set[str]](set)
    for k, registers in enumerate(netlist.registers):
        if netlist.pipeline.interval == 1 and max(registers, default=WIRE) >= 0:
            held[netlist.home[k]].add(netlist.signal(k).name)
    return held


# Results and their circuits


def _nodes(
    design: Design, netlist: Netlist, device: Device
) -> Iterator[tuple[str, str, Resources]]:
    """Yields what each node needs beside shared units: the module, the kind and what it takes."""
    for k, registers in enumerate(netlist.registers):
        if not registers or netlist.is_constant(k) or netlist.is_wires(k):
            continue
        bits, home = netlist.signal(k).width, netlist.home[k]
        if registers - {WIRE}:
            bits -= netlist.unread[k]
            yield home, "waiting", waiting(device, bits, registers - {WIRE})
        operator = netlist.pipeline.operators[k]
        if operator and operator.follows >= 0:
            continue
        if netlist.graph.op[k] == "input":
            late = netlist.late(k)
            if late:
                yield home, "waiting", Resources(ffs=bits * late)
        elif operator and not operator.shared:
            luts_a_bit = _circuit(netlist, device, k, operator.kind)
            yield home, operator.kind, Resources(luts=luts_a_bit, ffs=operator.cycles * bits)


def _circuit(netlist: Netlist, device: Device, k: int, kind: str) -> float:
    """The LUTs of an operation without a unit."""
    datapath = netlist.datapath
    op, args, out = datapath.graph.op[k], datapath.graph.args[k], datapath.formats[k]
    if op == "exponent":
        return device.bits[kind] * datapath.format(args[0]).width
    if op not in ("add", "sub") or out is None:
        return device.bits.get(kind, 0.0) * width(datapath, k)
    if args[0] == args[1]:
        return 0.0  # wires
    constants = [constant_integer(datapath, n) for n in args if datapath.graph.op[n] == "constant"]
    if constants and device.carry == 1:  # an inverter where a bit of the constant is 1
        return float((constants[0] & (1 << out.width) - 1).bit_count())
    a, b = (datapath.format(n) for n in args)
    lowest = -min(a.fraction, b.fraction)
    if op == "sub" and b.fraction > a.fraction:
        lowest = -b.fraction  # what is subtracted from zeros carries, too
    top = max(a.width - a.fraction, b.width - b.fraction) + 1
    return device.bits["add"] * carried(device, min(top, out.width - out.fraction) - lowest)


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


# Memories and the stream


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


def _stream(design: Design, device: Device) -> Resources:
    """The resources around the datapath: the register of its inputs, a bit that travels with each
    state, and the FIFO of results with its counters.
    """
    phases, travelling = max((design.interval - 1).bit_length(), 1), design.latency + 1
    around = Resources(luts=phases, ffs=design.input_bits + travelling + phases)
    return fifo_resources(design.output_bits, design.depth, device) + around


# Multiplexers


def _choice(choice: OperandChoice, interval: int, device: Device) -> float:
    """The LUTs of a multiplexer, bit by bit: those that take the same bits are one."""
    found = {
        tuple(
            source.value >> bit & 1 if source.value is not None
            else (source.name, min(bit, source.width - 1)) if bit >= source.constant else 0
            for _, source in choice.sources
        )
        for bit in range(choice.width)
    }  # fmt: skip
    phases = (interval - 1).bit_length()
    return sum(multiplexer(device, {*bits}, phases) for bits in found)


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


# Units


class _Term(NamedTuple):
    """A term of a sum: its first bit, and the one behind its last."""

    first: int
    end: int

    def within(self, low: int, high: int) -> int:
        return max(min(self.end, high) - max(self.first, low), 0)


def _terms(m: Multiplier, tile: Tile) -> list[_Term]:
    """The products of the pieces of both operands."""
    return [_Term(p.offset, p.offset + p.kept) for p in piece_products(m, tile)]


def _product(unit: ProductUnit, device: Device, held: set[str]) -> tuple[Resources, int]:
    """Returns what a multiplier takes, and how many of its flip-flops fit into DSPs. held: signals
    of which a register has the value of the cycle before; the operands' registers are added.
    """
    m = unit.multiplier
    if m.adds:
        return _chained(unit, device), 0
    terms = _terms(m, device.tile)
    before, behind, sums = stages(m.cycles, levels(m, device.tile))
    # The bit below the result is that of half; a sum of several terms keeps the bits of all.
    low = max(unit.low - 1, 0) if len(terms) == 1 else 0
    last = sums[-1] * (m.result - unit.low)
    if registers := cell_registers(m, device.tile):
        ffs, inside = _beside_cells(m, device.tile, before, behind, registers), 0
    else:
        ffs = _operand_registers(unit, before, held)
        ffs += (products := behind * sum(term.within(low, m.result) for term in terms))
        operands = before * (m.a + (m.b if m.constant is None else 0))
        inside = operands + products + (last if len(sums) == len(terms) == 1 else 0)
    luts = 0.0
    for registers_of_sum in sums[:-1]:
        terms, added = _paired(terms, m.result)
        luts += added
        ffs += registers_of_sum * sum(term.within(low, m.result) for term in terms)
    if len(terms) > 1:
        rate = PRODUCTS_AND_HALF if len(sums) == 1 else SUMS_AND_HALF
        luts += rate * min(term.within(terms[1].first, m.result) for term in terms)
    elif registers:  # the sum with half is outside the cell, and carries below what is read
        luts += carried(device, m.result - unit.half)
    luts += unit.moving
    return Resources(tiles(m, device.tile), luts, ffs + last), inside


def _operand_registers(unit: ProductUnit, before: int, held: set[str]) -> int:
    """The flip-flops of operands, of which some registers are there already."""
    ffs = 0
    for name, port in zip(unit.operands, (unit.multiplier.a, unit.multiplier.b), strict=False):
        ffs += port * max(before - (name in held), 0)
        if before:
            held.add(name)
    return ffs


def _beside_cells(
    m: Multiplier, tile: Tile, before: int, behind: int, inside: CellRegisters
) -> int:  # fmt: skip
    """The flip-flops of a multiplier's products that are not inside its cells."""
    ffs = 0
    for piece in piece_products(m, tile):
        if piece.takes_tile(tile):
            ffs += (behind - inside.behind) * piece.kept
        else:
            ffs += before * (piece.a.bits + (piece.b.bits if piece.part is None else 0))
            ffs += behind * piece.kept
    return ffs


def _chained(unit: ProductUnit, device: Device) -> Resources:
    """The resources of a multiplier that adds in DSPs: registers of bits that only one of them
    gives, the piece of its product that is outside, and the negation of its addend's highest bits.
    """
    m = unit.multiplier
    dsps = post_adder.chain(m, device.tile)
    assert dsps is not None
    ffs = float(max(dsps.base - unit.low, 0) if m.cycles else 0)
    luts = 0.0
    if m.result > post_adder.BITS and m.adds != "plus":
        luts += m.result - post_adder.LOW
    if dsps.rest:
        kept = m.result - dsps.rest.offset
        luts += kept * (kept + 1) / 2
        of_operands, of_products, _ = post_adder.registers(m.cycles)
        ffs += kept * (2 * of_operands + of_products)
    return Resources(len(dsps.steps), luts, ffs)


def _paired(terms: list[_Term], high: int) -> tuple[list[_Term], int]:
    """The sums of neighbouring terms, and their LUTs."""
    sums, luts = [], 0
    for n in range(0, len(terms) - 1, 2):
        x, y = sorted(terms[n : n + 2])
        total = _Term(x.first, max(x.end, y.end) + 1)
        luts += total.within(y.first, high)
        sums.append(total)
    return sums + terms[len(terms) - len(terms) % 2 :], luts


def function_resources(unit: FunctionUnit, device: Device) -> Resources:
    """The resources of a unit for sine and cosine, or for reciprocals."""
    dsps, luts, chains = _inside(unit, device.tile)
    tables = functions.written(unit, device.tile).tables
    ffs = 0
    for bits, read in chains:
        own_luts, own_ffs = (0, max(read) + 1) if device.ring else chain_resources(device, read)
        luts, ffs = luts + bits * own_luts, ffs + bits * own_ffs
    if device.block:  # with the register behind each table
        return Resources(dsps, luts, ffs - sum(bits for _, bits in tables), len(tables))
    factor = BEHIND_CHOICE if unit.op == "div" else 1.0
    return Resources(dsps, luts + factor * sum(table_luts(*table) for table in tables), ffs)


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


@cache
def _inside(unit: FunctionUnit, tile: Tile) -> tuple[int, float, list[tuple[int, set[int]]]]:
    """The DSPs of a unit, the LUTs between its registers, without tables, and its chains of
    registers. A tile with registers has sums that round outside.
    """
    written = functions.written(unit, tile)
    luts = written.luts + (written.rounded if tile.registered else 0)
    for m in written.multipliers:
        terms = _terms(m, tile)
        while len(terms) > 1:
            terms, added = _paired(terms, m.result)
            luts += added
    return sum(tiles(m, tile) for m in written.multipliers), luts, list(written.chains)
