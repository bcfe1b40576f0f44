"""A shifter that several products with powers of two share, in each phase for the one that starts
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from featherlane.backends.fpga.netlist import Netlist
from featherlane.backends.fpga.part import Part
from featherlane.backends.fpga.shifts import (
    ShiftRange,
    common_range,
    places_to_shift,
    power_operand,
    shift_range,
    shifted_right,
    stage_bits,
    start_in,
)
from featherlane.backends.fpga.text import Signal, constant, fitted, shifted_left, signed_width
from featherlane.errors import CompileError

SHIFT_CYCLES = 3  # with registers behind the operands, the number of places, and the shift


class ShifterUnit(NamedTuple):
    """A shifter that serves several products with powers of two. stages: the bits of its stages;
    counted: those of the difference that says how far it shifts; registers: all that it has.
    """

    stages: tuple[int, ...]
    counted: int
    registers: int


@dataclass(frozen=True)
class SharedShifter:
    """Writes a shifter into a module. first: the product that starts in each phase. trees: whether
    multiplexers are trees of choices between two.
    """

    netlist: Netlist
    part: Part
    name: str
    first: Mapping[int, int]
    trees: bool

    def write(self, nodes: Sequence[int], comments: Mapping[int, str]) -> ShifterUnit:
        """Writes the shifter and the results of its products."""
        part, name, datapath = self.part, self.name, self.netlist.datapath
        number, exponent = self._operands()
        shifts, start = self._range()
        counting, count = places_to_shift(name, shifts, start, exponent)
        for wire, text in counting:
            part.assign(wire, text)
        operand = part.delay(Signal(f"{name}_operand", number.width), number.name)
        held = part.delay(count._replace(name=f"{count.name}_held"), count.name)
        whole = Signal(f"{name}_whole", number.width + shifts.most)
        part.assign(whole, shifted_left(operand.name, shifts.most))
        width = max(datapath.format(k).width for k in nodes)
        stages, right = shifted_right(name, whole, held, width)
        for wire, text in stages:
            part.assign(wire, text)
        result = part.delay(Signal(f"{name}_result", right.width), right.name)
        for k in nodes:
            to = datapath.format(k)._replace(fraction=0)
            part.assign(self.netlist.signal(k), fitted(result, 0, to), comments[k])
        registers = number, exponent, operand, held, result
        return ShifterUnit(
            tuple(stage_bits(count.width, whole.width, width)),
            counting[0][0].width,
            sum(signal.width for signal in registers),
        )

    def _operands(self) -> list[Signal]:
        """The registers of the number and of the exponent, behind the choices of these."""
        numbers, exponents = dict[int, Signal](), dict[int, Signal]()
        for phase, k in self.first.items():
            power, args = self._power(k), self.netlist.graph.args[k]
            start = self.netlist.pipeline.start[k]
            numbers[phase] = self.part.read(args[1 - power], start)
            exponents[phase] = self.part.read(args[power], start)
        chosen = [
            self.part.choose(
                Signal(f"{self.name}_{port}", max(signal.width for signal in sources.values())),
                sources,
                self.name,
                self.trees,
            )
            for port, sources in (("a", numbers), ("exponent", exponents))
        ]
        return [
            self.part.delay(signal._replace(name=f"{signal.name}_held"), signal.name)
            for signal in chosen
        ]

    def _power(self, k: int) -> int:
        """Which operand of a product is the power of two. Raises CompileError if none is, or the
        product takes other cycles than a shifter.
        """
        power = power_operand(self.netlist.datapath, k)
        if power is None or self.netlist.unit_cycles(k) != SHIFT_CYCLES:
            raise CompileError(
                f"node {k} shares a shifter: wanted a product with a power of two, in "
                f"{SHIFT_CYCLES} cycles"
            )
        return power

    def _range(self) -> tuple[ShiftRange, Signal]:
        """The range of shifts that holds those of all products, and where that of the product of
        this phase begins in it.
        """
        datapath, interval = self.netlist.datapath, self.part.interval
        ranges = {
            phase: shift_range(datapath, k, self._power(k)) for phase, k in self.first.items()
        }
        shifts = common_range(ranges.values())
        starts = {phase: start_in(of, shifts.most) for phase, of in ranges.items()}
        bits = max(map(signed_width, starts.values()))
        second = {(n + 1) % interval: constant(x, bits) for n, x in starts.items()}
        return shifts, self.part.choose(Signal(f"{self.name}_start", bits), second, self.name)
