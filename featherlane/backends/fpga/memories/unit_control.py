"""The micro-code of a unit with operand memories, from a schedule: which fields it has, and what
they are in each phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from featherlane.backends.fpga.memories.formats import UnitFormats
from featherlane.backends.fpga.memories.microcode import Microcode
from featherlane.backends.fpga.memories.operand_memory import OperandMemory
from featherlane.backends.fpga.memories.schedule import MemorySchedule, Write
from featherlane.backends.fpga.memories.turning import address
from featherlane.backends.fpga.units.accumulator import controls

FREE_SIGNS = "minus", "ends_minus"  # controls that matter only while terms are added


@dataclass(frozen=True)
class UnitControl:
    """Fills in the micro-code of a unit. operations: those of the unit, by their numbers in the
    schedule. Fields are kept in the order in which they are added.
    """

    schedule: MemorySchedule
    formats: UnitFormats
    unit: int
    operations: Sequence[int]
    code: Microcode

    def add_memory(
        self, place: int, memory: OperandMemory, written: Sequence[Write], chosen: Sequence[Write]
    ) -> None:
        """Adds the fields of the memory of a port. written: what is written into it; chosen: what
        its multiplexer chooses, for other ports, too, that share it.
        """
        if memory.taps:
            self._add_fields(place, memory)
        else:
            self.code.field(f"constant_{place}", len(memory.constants), free=True)
        self._set_writes(place, memory, written)
        for write in chosen:
            self.code.set(write.cycle, f"from_{place}", memory.taps.index(write.tap))
        self._set_reads(place, memory, {write.value: write.cycle for write in written})
        self._set_constants(place, memory)

    def _add_fields(self, place: int, memory: OperandMemory) -> None:
        """Adds the fields of a memory that takes values. Where words of rings and in slots are
        written in each phase, what is none of its values lies where it is not read.
        """
        code, turning = self.code, memory.ring if memory.cells is not None else 0
        code.field(f"write_{place}", 1 if code.packed and not turning else 2)
        code.field(f"from_{place}", memory.inputs, free=True)
        code.field(f"fixed_{place}", 1 + (memory.is_ring and bool(memory.constants)), free=True)
        code.field(f"back_{place}", memory.ring if memory.is_ring else 0, free=True)
        for name in ("to", "at"):
            code.field(f"{name}_{place}", turning, free=True)
        code.field(f"slot_{place}", memory.slots, free=True)
        code.field(f"age_{place}", memory.turns, free=True)

    def _set_writes(self, place: int, memory: OperandMemory, written: Sequence[Write]) -> None:
        """Sets when a value is written, and into which cell of a memory that turns."""
        for write in written:
            self.code.set(write.cycle, f"write_{place}")
            if memory.cells is not None:
                to = self._address(memory, write.value, write.cycle)
                self.code.set(write.cycle, f"to_{place}", to)

    def _set_reads(self, place: int, memory: OperandMemory, written: dict[int, int]) -> None:
        """Sets where each value that is read lies: by how many cycles ago it was written, or by the
        cell of a memory that turns.
        """
        code, interval = self.code, self.schedule.interval
        for n in self.operations:
            for cycle, port, value in self.schedule.port_values(n):
                if port != (self.unit, place):
                    continue
                since = written[value]
                code.set(cycle, f"fixed_{place}", 0)
                code.set(cycle, f"back_{place}", cycle - since)
                code.set(cycle, f"slot_{place}", since % interval)
                code.set(cycle, f"age_{place}", cycle // interval - since // interval)
                if memory.cells is not None:
                    code.set(cycle, f"at_{place}", self._address(memory, value, cycle))

    def _set_constants(self, place: int, memory: OperandMemory) -> None:
        """Sets which constant is read, and where it lies: behind the values of a ring, or in the
        upper half of slots.
        """
        schedule, code = self.schedule, self.code
        for n in self.operations:
            for cycle, term in zip(schedule.reads[n], schedule.operations[n].terms, strict=False):
                constant = self.formats.constants(n, term).get(place)
                if constant is not None:
                    number = memory.constants.index(constant)
                    code.set(cycle, f"constant_{place}", number)
                    code.set(cycle, f"fixed_{place}")
                    code.set(cycle, f"back_{place}", -number)
                    code.set(cycle, f"slot_{place}", memory.slots // 2 + number)

    def _address(self, memory: OperandMemory, value: int, cycle: int) -> int:
        assert memory.cells is not None, "a ring has no cells"
        return address(memory.cells[value], cycle, self.schedule.interval, memory.ring)

    def add_results(self) -> None:
        """Adds when the unit takes its results into the registers of its outputs."""
        self.code.field("take", 2)
        for n in self.operations:
            self.code.set(self.schedule.shown(n) - 1, "take")

    def add_accumulator(self, slices: Sequence[object], initials: Sequence[int]) -> None:
        """Adds what controls an accumulator: the slice of a sum that is its result, what it starts
        with, and the first, the last and the negative ones of its terms.
        """
        code, m = self.code, self.formats.accumulators[self.unit]
        varying = initial_bits(initials, m.bits)
        code.field("slice", len(slices), free=True)
        code.field("initial_value", 1 << len(varying), free=True)
        for name in controls(m):
            code.field(name, 2, free=name in FREE_SIGNS)
        for n in self.operations:
            run = self.formats.runs[n]
            first = self.schedule.reads[n][0] + 1 + m.control - m.loads_early
            row = initials.index(run.initial)
            value = sum(column[row] << at for at, column in enumerate(varying))
            code.set(self.schedule.shown(n) - 1, "slice", slices.index(run.slice))
            code.set(first, "initial_value", value)
            code.set(first, "start")
            self._set_terms(n, 1 + m.control)

    def _set_terms(self, n: int, later: int) -> None:
        """Sets the last and the negative terms of a sum, so many cycles behind their reads."""
        terms, reads = self.schedule.operations[n].run, self.schedule.reads[n]
        self.code.set(reads[-1] + later, "last")
        for cycle, term in zip(reads, terms, strict=True):
            self.code.set(cycle + later, "minus", term.negative)
            self.code.set(cycle + later, "ends_minus", terms[-1].negative)


def initial_columns(initials: Sequence[int], bits: int) -> list[tuple[int, ...]]:
    """Each of so many bits of what sums start with, for all values of this."""
    return [tuple(x >> bit & 1 for x in initials) for bit in range(bits)]


def initial_bits(initials: Sequence[int], bits: int) -> list[tuple[int, ...]]:
    """The columns that differ among values, each once: micro-code has a bit for each."""
    columns = initial_columns(initials, bits)
    return [*dict.fromkeys(column for column in columns if len({*column}) > 1)]
