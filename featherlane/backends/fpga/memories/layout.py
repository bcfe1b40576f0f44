"""The layout of a datapath of units with operand memories: what each unit consists of, and its
micro-code. The printer of SystemVerilog and the cost model read the same layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fpga.memories.binding import Port
from featherlane.backends.fpga.memories.formats import Slice, UnitFormats
from featherlane.backends.fpga.memories.memory_choice import MemoryChoice, Waits, longest
from featherlane.backends.fpga.memories.microcode import Microcode
from featherlane.backends.fpga.memories.operand_memory import OperandMemory
from featherlane.backends.fpga.memories.operations import MULTIPLY, PORTS
from featherlane.backends.fpga.memories.schedule import MemorySchedule, Tap, Write
from featherlane.backends.fpga.memories.sharing import shared_choices
from featherlane.backends.fpga.memories.turning import Wait
from featherlane.backends.fpga.memories.unit_control import UnitControl
from featherlane.backends.fpga.text import signed_width
from featherlane.backends.fpga.units import choices

SHORTEST = 16  # values in a ring


class UnitLayout(NamedTuple):
    """A unit. memories: of its ports. slices, initials: what its results keep of sums, and what
    sums start with. copies: the delayed copies of its outputs. in_block: whether a block of RAM
    holds the micro-code.
    """

    unit: int
    kind: str
    memories: tuple[OperandMemory, ...]
    slices: tuple[Slice, ...]
    initials: tuple[int, ...]
    copies: tuple[Tap, ...]
    control: Microcode
    in_block: bool = False

    @property
    def rotates(self) -> bool:
        """Whether it has memories that turn, rotating registers in Rau's words (`turning`)."""
        return any(memory.cells is not None for memory in self.memories)

    @property
    def turn_bits(self) -> int:
        """The bits of the number of turns that it reads."""
        return max((memory.turn_bits for memory in self.memories), default=0)

    @property
    def rings(self) -> list[int]:
        """The values of its rings."""
        return [memory.ring for memory in self.memories if memory.is_ring]


def layouts(
    schedule: MemorySchedule, formats: UnitFormats, choice: MemoryChoice
) -> list[UnitLayout]:
    """Returns the layout of each unit of a schedule."""
    writes, interval, units = Writes(schedule), schedule.interval, len(schedule.binding.kinds)
    in_blocks = interval > choice.microcode
    memories, waits = _rings(schedule, formats, choice.shallow)
    memories = choice.in_slots(memories, waits, interval)
    memories = choice.in_large(memories, units if in_blocks else 0)
    memories = choice.turned(memories, waits, interval, units if in_blocks else 0)
    if choice.joins:
        memories = writes.share(memories)
    layouts = list[UnitLayout]()
    for unit, operations in enumerate(_by_unit(schedule)):
        code = Microcode(interval, packed=choice.joins)
        control = UnitControl(schedule, formats, unit, operations, code)
        layouts.append(_unit_layout(control, memories, writes))
    left = choice.blocks - sum(memory.blocks for memory in memories.values())
    return _in_blocks(layouts, left) if in_blocks else layouts


def _by_unit(schedule: MemorySchedule) -> list[list[int]]:
    """The numbers of the operations of each unit."""
    on_unit: list[list[int]] = [[] for _ in schedule.binding.kinds]
    for n, unit in enumerate(schedule.binding.unit):
        on_unit[unit].append(n)
    return on_unit


def _in_blocks(layouts: Sequence[UnitLayout], left: int) -> list[UnitLayout]:
    """Returns layouts with micro-code in so many blocks of RAM, the widest first."""
    result = [*layouts]
    for layout in sorted(layouts, key=lambda layout: -layout.control.packing.width):
        if layout.control.blocks <= left:
            left -= layout.control.blocks
            result[layout.unit] = layout._replace(in_block=True)
    return result


class Writes:
    """The writes of each port, and the delayed copies of outputs that these need, by unit.
    through: the writes of the values that the multiplexer of a port chooses.
    """

    def __init__(self, schedule: MemorySchedule) -> None:
        self.interval = schedule.interval
        self.of = defaultdict[Port, list[Write]](list)
        self.copies = defaultdict[int, set[Tap]](set)
        for write in schedule.writes:
            self.of[write.port].append(write)
            if write.tap.delay:
                self.copies[write.tap.unit].add(write.tap.whole)
        self.through = defaultdict(list, {port: [*writes] for port, writes in self.of.items()})

    def share(self, memories: Mapping[Port, OperandMemory]) -> dict[Port, OperandMemory]:
        """Returns memories of which several have one multiplexer where that takes fewer cells."""
        result = dict(memories)
        chosen = {
            port: {write.cycle % self.interval: write.tap for write in writes}
            for port, writes in self.of.items()
            if len(memories[port].taps) > 1
        }
        widths = {port: memories[port].width for port in chosen}
        for shared in shared_choices(chosen, widths, choices.luts):
            first, *others = shared.ports
            if others:
                lent = memories[first]._replace(taps=tuple(sorted(shared.taps)), lent=shared.width)
                result[first] = lent
                for port in others:
                    result[port] = memories[port]._replace(lender=first, lent=shared.width)
                    self.through[first] += self.through.pop(port)
        return result


def _rings(
    schedule: MemorySchedule, formats: UnitFormats, shallow: int
) -> tuple[dict[Port, OperandMemory], Waits]:
    """The memories of all ports as rings, and how long their values wait."""
    written = {(write.port, write.value): write for write in schedule.writes}
    widths, waits = defaultdict[Port, int](int), defaultdict[Port, dict[int, Wait]](dict)
    taps, constants = defaultdict[Port, set[Tap]](set), defaultdict[Port, set[int]](set)
    for n, operation in enumerate(schedule.operations):
        for cycle, port, value in schedule.port_values(n):
            write = written[port, value]
            known = waits[port].get(value, Wait(write.cycle, cycle))
            waits[port][value] = known._replace(read=max(known.read, cycle))
            widths[port] = max(widths[port], formats.narrow.format(value).width)
            taps[port].add(write.tap)
        for term in operation.terms:
            for place, constant in formats.constants(n, term).items():
                constants[schedule.binding.unit[n], place].add(constant)
    memories = dict[Port, OperandMemory]()
    for port in {*taps, *constants}:
        fixed = tuple(sorted(constants[port]))
        width = max([widths[port], *map(signed_width, fixed)])
        ring = 1 << max(longest(waits[port]), len(fixed) - 1, SHORTEST - 1).bit_length()
        memories[port] = OperandMemory(width, ring, fixed, tuple(sorted(taps[port])), shallow)
    return memories, waits


def _unit_layout(
    control: UnitControl, memories: Mapping[Port, OperandMemory], writes: Writes
) -> UnitLayout:
    """The layout of the unit whose micro-code `control` fills in."""
    unit, formats = control.unit, control.formats
    ports = {place: memories[unit, place] for place in range(PORTS) if (unit, place) in memories}
    for place, memory in ports.items():
        port = unit, place
        control.add_memory(place, memory, writes.of[port], writes.through[port])
    control.add_results()
    kind = control.schedule.binding.kinds[unit]
    runs = [formats.runs[n] for n in control.operations] if kind == MULTIPLY else []
    slices, initials = sorted({run.slice for run in runs}), sorted({run.initial for run in runs})
    if kind == MULTIPLY:
        control.add_accumulator(slices, initials)
    return UnitLayout(
        unit,
        kind,
        tuple(ports.values()),
        tuple(slices),
        tuple(initials),
        tuple(sorted(writes.copies[unit])),
        control.code,
    )
