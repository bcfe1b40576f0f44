"""The cost of units: multipliers with the sums behind them, and functions."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.piece_costs import carried, chain_resources, table_luts
from featherlane.backends.fpga.resources import Resources
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

# LUTs a bit where two terms overlap that are added to half: Yosys makes a carry-save adder and a
# chain of carries of it. Of two products, or of two sums of products; fitted to its counts of 98
# modules of the iiwa14 and HyQ.
PRODUCTS_AND_HALF, SUMS_AND_HALF = 2.2, 1.5
# LUTs of a table of reciprocals, as a factor: synthesis merges the choice in front of its index
BEHIND_CHOICE = 2.0  # counts for three formats: 2.1 to 2.4


class _Term(NamedTuple):
    """A term of a sum: its first bit, and the one behind its last."""

    first: int
    end: int

    def within(self, low: int, high: int) -> int:
        return max(min(self.end, high) - max(self.first, low), 0)


def _terms(m: Multiplier, tile: Tile) -> list[_Term]:
    """The products of the pieces of both operands."""
    return [_Term(p.offset, p.offset + p.kept) for p in piece_products(m, tile)]


def product_resources(unit: ProductUnit, device: Device, held: set[str]) -> tuple[Resources, int]:
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
        of_bit = (0, max(read) + 1) if device.ring else chain_resources(device, read)
        luts, ffs = luts + bits * of_bit[0], ffs + bits * of_bit[1]
    if device.block:  # with the register behind each table
        return Resources(dsps, luts, ffs - sum(bits for _, bits in tables), len(tables))
    factor = BEHIND_CHOICE if unit.op == "div" else 1.0
    return Resources(dsps, luts + factor * sum(table_luts(*table) for table in tables), ffs)


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
