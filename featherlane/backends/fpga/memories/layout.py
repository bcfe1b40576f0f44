"""The layout of a datapath of units with operand memories: what each unit consists of, and its
micro-code. The printer of SystemVerilog and the cost model read the same layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fpga.memories.binding import Port
from featherlane.backends.fpga.memories.formats import Slice, UnitFormats
from featherlane.backends.fpga.memories.operations import (
    MULTIPLY,
    operands,
)
from featherlane.backends.fpga.memories.schedule import MemorySchedule, Tap
from featherlane.backends.fpga.text import signed_width

SHALLOW = 32  # values in the ring of a memory of LUTs; a longer one is a block of RAM
SHORTEST = 16  # values in a ring


class OperandMemory(NamedTuple):
    """The memory of a port: the bits of a word, the values of its ring, the constants behind the
    ring, and the taps from which values come; without taps it has constants alone, and no ring.
    shallow: the words that a memory of LUTs has at most.
    """

    width: int
    ring: int
    constants: tuple[int, ...]
    taps: tuple[Tap, ...]
    shallow: int

    @property
    def words(self) -> int:
        return 2 * self.ring if self.constants else self.ring

    @property
    def is_block(self) -> bool:
        """Whether it is a block of RAM, and not of LUTs."""
        return bool(self.taps) and (self.ring > SHALLOW or self.words > self.shallow)


class Microcode:
    """Fields of control by phase. A field that is not set in a phase is 0 there."""

    def __init__(self, interval: int) -> None:
        self.bits = dict[str, int]()
        self.rows: list[dict[str, int]] = [{} for _ in range(interval)]

    def field(self, name: str, values: int) -> None:
        """Adds a field with so many values, unless it has one alone."""
        if values > 1:
            self.bits[name] = (values - 1).bit_length()

    def set(self, cycle: int, name: str, value: int = 1) -> None:
        """Sets a field in the phase of a cycle."""
        if name in self.bits:
            self.rows[cycle % len(self.rows)][name] = value & (1 << self.bits[name]) - 1

    def column(self, name: str) -> tuple[int, ...]:
        """A field by phase; zeros if there is no such field."""
        return tuple(row.get(name, 0) for row in self.rows)

    @property
    def words(self) -> list[int]:
        """The line of each phase as a number; the first field has the highest bits."""
        words = [0] * len(self.rows)
        for name, bits in self.bits.items():
            words = [
                word << bits | row.get(name, 0) for word, row in zip(words, self.rows, strict=True)
            ]
        return words


class UnitLayout(NamedTuple):
    """A unit. memories: of its ports. slices, initials: what its results keep of sums, and what
    sums start with. copies: the delayed copies of its outputs.
    """

    unit: int
    kind: str
    memories: tuple[OperandMemory, ...]
    slices: tuple[Slice, ...]
    initials: tuple[int, ...]
    copies: tuple[Tap, ...]
    control: Microcode


def layouts(schedule: MemorySchedule, formats: UnitFormats, shallow: int) -> list[UnitLayout]:
    """Returns the layout of each unit of a schedule. shallow: the words that a memory of LUTs has
    at most.
    """
    on_unit = defaultdict[int, list[int]](list)
    for n, unit in enumerate(schedule.binding.unit):
        on_unit[unit].append(n)
    memories = _memories(schedule, formats, shallow)
    copies = defaultdict[int, set[Tap]](set)
    for write in schedule.writes:
        if write.tap.delay:
            copies[write.tap.unit].add(write.tap.whole)
    return [
        _unit_layout(schedule, formats, u, on_unit[u], memories, tuple(sorted(copies[u])))
        for u in range(len(schedule.binding.kinds))
    ]


def _memories(
    schedule: MemorySchedule, formats: UnitFormats, shallow: int
) -> dict[Port, OperandMemory]:
    """The memories of all ports."""
    written = {(write.port, write.value): write for write in schedule.writes}
    longest, widths = defaultdict[Port, int](int), defaultdict[Port, int](int)
    taps, constants = defaultdict[Port, set[Tap]](set), defaultdict[Port, set[int]](set)
    for n, operation in enumerate(schedule.operations):
        for cycle, port, value in schedule.port_values(n):
            write = written[port, value]
            longest[port] = max(longest[port], cycle - write.cycle)
            widths[port] = max(widths[port], formats.narrow.format(value).width)
            taps[port].add(write.tap)
        for term in operation.run:
            if operands(formats.datapath, term)[1] is None:
                constants[schedule.binding.unit[n], 1].add(formats.constant(n, term))
    memories = dict[Port, OperandMemory]()
    for port in {*taps, *constants}:
        fixed = tuple(sorted(constants[port]))
        width = max([widths[port], *map(signed_width, fixed)])
        ring = 1 << max(longest[port], len(fixed) - 1, SHORTEST - 1).bit_length()
        memories[port] = OperandMemory(width, ring, fixed, tuple(sorted(taps[port])), shallow)
    return memories


def _unit_layout(
    schedule: MemorySchedule,
    formats: UnitFormats,
    unit: int,
    operations: Sequence[int],
    memories: Mapping[Port, OperandMemory],
    copies: tuple[Tap, ...],
) -> UnitLayout:
    kind, control = schedule.binding.kinds[unit], Microcode(schedule.interval)
    ports = {port[1]: memory for port, memory in sorted(memories.items()) if port[0] == unit}
    for place, memory in ports.items():
        _set_memory(schedule, formats, control, (unit, place), memory, operations)
    runs = [formats.runs[n] for n in operations] if kind == MULTIPLY else []
    slices, initials = sorted({run.slice for run in runs}), sorted({run.initial for run in runs})
    control.field("take", 2)
    for n in operations:
        control.set(schedule.shown(n) - 1, "take")
    if kind == MULTIPLY:
        control.field("slice", len(slices))
        control.field("initial_value", len(initials))
        for name in ("start", "last", "minus", "ends_minus"):
            control.field(name, 2)
        for n in operations:
            _set_run(schedule, control, n)
            run, first = formats.runs[n], schedule.reads[n][0]
            control.set(schedule.shown(n) - 1, "slice", slices.index(run.slice))
            control.set(first + CONTROL, "initial_value", initials.index(run.initial))
    return UnitLayout(
        unit, kind, tuple(ports.values()), tuple(slices), tuple(initials), copies, control
    )


CONTROL = 2  # cycles from the read of a term to the sum, in which the control of the sum is read


def _set_memory(
    schedule: MemorySchedule,
    formats: UnitFormats,
    control: Microcode,
    port: Port,
    memory: OperandMemory,
    operations: Sequence[int],
) -> None:
    """Sets the fields of a memory: whether and from which tap it takes a value, and how many cycles
    ago what is read was taken, or which constant it is.
    """
    _, place = port
    if not memory.taps:
        control.field(f"constant_{place}", len(memory.constants))
    else:
        control.field(f"write_{place}", 2)
        control.field(f"from_{place}", len(memory.taps))
        control.field(f"fixed_{place}", 1 + bool(memory.constants))
        control.field(f"back_{place}", memory.ring)
    written = dict[int, int]()
    for write in schedule.writes:
        if write.port == port:
            written[write.value] = write.cycle
            control.set(write.cycle, f"write_{place}")
            control.set(write.cycle, f"from_{place}", memory.taps.index(write.tap))
    for n in operations:
        for cycle, at, value in schedule.port_values(n):
            if at == port:
                control.set(cycle, f"back_{place}", cycle - written[value])
        for cycle, term in zip(schedule.reads[n], schedule.operations[n].run, strict=False):
            if place and operands(formats.datapath, term)[1] is None:
                number = memory.constants.index(formats.constant(n, term))
                control.set(cycle, f"constant_{place}", number)
                control.set(cycle, f"fixed_{place}")
                control.set(cycle, f"back_{place}", -number)


def _set_run(schedule: MemorySchedule, control: Microcode, n: int) -> None:
    """Sets the fields that control the accumulator."""
    terms, reads = schedule.operations[n].run, schedule.reads[n]
    control.set(reads[0] + CONTROL, "start")
    control.set(reads[-1] + CONTROL, "last")
    for cycle, term in zip(reads, terms, strict=True):
        control.set(cycle + CONTROL, "minus", term.negative)
        control.set(cycle + CONTROL, "ends_minus", terms[-1].negative)
