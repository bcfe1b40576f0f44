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
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga.devices import Device, width
from featherlane.backends.fpga.netlist import WIRE, Netlist, constant_integer
from featherlane.backends.fpga.part import OperandChoice
from featherlane.backends.fpga.piece_costs import (
    carried,
    fifo_resources,
    multiplexer,
    tree,
    waiting,
)
from featherlane.backends.fpga.resources import NAMES, NOTHING, Resources
from featherlane.backends.fpga.shifts import power_operand, shift_range, stage_bits
from featherlane.backends.fpga.unit_costs import function_resources, product_resources
from featherlane.backends.fpga.verilog import Design

PLACE = 1.4  # LUTs a bit of the counter of places in rings, counts of Yosys


class DesignCost(NamedTuple):
    """The resources that a design takes. parts: by module and kind of unit; packed: flip-flops that
    fit into DSPs; shared: whether operations share units; is_least: whether it has only what any
    schedule takes, of multipliers and LUTs.
    """

    device: Device
    parts: Mapping[tuple[str, str], Resources]
    packed: int
    shared: bool = False
    is_least: bool = False

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
            100 * total.large / there.large if there.large else 0.0,
        )

    @property
    def fits(self) -> bool:
        return self.excess <= 1

    @property
    def excess(self) -> float:
        """The largest share as a factor of what a design may take of the device."""
        limits = (*self.most, 100.0, 100.0)
        return max(share / most for share, most in zip(self.shares, limits, strict=True))

    @property
    def most(self) -> tuple[float, float, float]:
        """Percent of the multipliers, LUTs and flip-flops that such a design may take."""
        return self.device.most_shared if self.shared else self.device.most

    def percentages(self, digits: int, limits: bool = False) -> str:
        """The shares in words. limits: with what a design may take, if that is not all."""
        return f"{self.shares_in_words(digits, limits)} of {self.device.name}"

    def shares_in_words(self, digits: int, limits: bool = False) -> str:
        """The shares as in `percentages`, without the device."""
        *_, blocks, large = (f"{n:.{digits}f} %" for n in self.shares)
        dsps, luts, ffs = (
            f"{share:.{digits}f} % of the {name}"
            + f" (limit {most:g} %)" * (limits and min(self.most) < 100)
            for share, name, most in zip(
                self.shares, ("DSPs", "LUTs", "flip-flops"), self.most, strict=False
            )
        )
        if self.is_least:
            return f"at least {dsps}" + f" and {luts}" * bool(self.total.luts)
        ram = f", {blocks} of the blocks of RAM" if self.total.memories else ""
        ram += f", {large} of the UltraRAMs" if self.total.large else ""
        return f"{dsps}{ram}, {luts} and {ffs}"

    def __str__(self) -> str:
        total = self.total
        columns = [n for n, count in enumerate(total) if n < 3 or count]
        rows: list[tuple[str, ...]] = [("part", *NAMES)]
        for name, part in [*self.kinds.items(), ("all", total)]:
            rows.append((name, *(f"{count:,.0f}" for count in part)))
        rows.append((f"of {self.device.name}", *(f"{share:.1f} %" for share in self.shares)))
        return "\n".join(
            f"{row[0]:<16}" + "".join(f"{row[n + 1]:>15}" for n in columns) for row in rows
        )


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
            needed, inside = product_resources(unit._replace(operands=operands), device, held[name])
            parts[name, "multiply"] += needed
            packed += inside
        for function in module.functions:
            kind = "reciprocal" if function.op == "div" else "sine_cosine"
            parts[name, kind] += function_resources(function, device)
        for shifter in module.shifters:
            luts = device.bits["shift"] * sum(shifter.stages) + carried(device, shifter.counted)
            parts[name, "shift"] += Resources(luts=luts, ffs=shifter.registers)
        luts = sum(_choice(choice, design.interval, device) for choice in first)
        parts[name, "multiplexers"] += Resources(luts=luts)
        codes = sum(_code(choice, design.interval, device) for choice in module.choices.values())
        luts = PLACE * module.places + codes
        parts[name, "control"] += Resources(luts=luts, ffs=module.control)
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
            luts = circuit_luts(netlist.datapath, device, k, operator.kind)
            yield home, operator.kind, Resources(luts=luts, ffs=operator.cycles * bits)


def circuit_luts(datapath: Datapath, device: Device, k: int, kind: str) -> float:
    """Returns the LUTs of an operation that has its circuit alone. kind: of its operator."""
    op, args, out = datapath.graph.op[k], datapath.graph.args[k], datapath.formats[k]
    if op == "exponent":
        return device.bits[kind] * datapath.format(args[0]).width
    if kind == "shift":
        return device.bits[kind] * sum(_stages(datapath, k))
    if op not in ("add", "sub") or out is None:
        return device.bits.get(kind, 0.0) * width(datapath, k)
    if args[0] == args[1]:
        return 0.0  # wires
    constants = [constant_integer(datapath, n) for n in args if datapath.graph.op[n] == "constant"]
    if constants and device.carry == 1:  # inverters where a bit of the constant is 1, or of all
        if op == "sub" and datapath.graph.op[args[0]] == "constant":
            return float(out.width)
        return float((constants[0] & (1 << out.width) - 1).bit_count())
    a, b = (datapath.format(n) for n in args)
    lowest = -min(a.fraction, b.fraction)
    if op == "sub" and b.fraction > a.fraction:
        lowest = -b.fraction  # what is subtracted from zeros carries, too
    top = max(a.width - a.fraction, b.width - b.fraction) + 1
    return device.bits["add"] * carried(device, min(top, out.width - out.fraction) - lowest)


def _stages(datapath: Datapath, k: int) -> list[int]:
    """The bits of the stages of a product with a power of two."""
    power = power_operand(datapath, k)
    assert power is not None, f"node {k} is no shift"
    shifts, number = shift_range(datapath, k, power), datapath.graph.args[k][1 - power]
    whole = datapath.format(number).width + shifts.most
    return stage_bits(shifts.places.bit_length(), whole, datapath.format(k).width)


# The stream and multiplexers


def _stream(design: Design, device: Device) -> Resources:
    """The resources around the datapath: the register of its inputs, a bit that travels with each
    state, and the FIFO of results with its counters.
    """
    phases, travelling = max((design.interval - 1).bit_length(), 1), design.latency + 1
    around = Resources(luts=phases, ffs=design.input_bits + travelling + phases)
    return fifo_resources(design.output_bits, design.depth, device) + around


def _choice(choice: OperandChoice, interval: int, device: Device) -> float:
    """The LUTs of a multiplexer, bit by bit: those that take the same bits are one."""
    selections = {
        tuple(
            source.value >> bit & 1 if source.value is not None
            else (source.name, min(bit, source.width - 1)) if bit >= source.constant else 0
            for _, source in choice.sources
        )
        for bit in range(choice.width)
    }  # fmt: skip
    if choice.coded:
        return sum(tree(len({*bits})) for bits in selections)
    phases = (interval - 1).bit_length()
    return sum(multiplexer(device, {*bits}, phases) for bits in selections)


def _code(choice: OperandChoice, interval: int, device: Device) -> int:
    """The LUTs that make the number of a signal of the phase."""
    return choice.code_bits << max((interval - 1).bit_length() - device.inputs, 0)
