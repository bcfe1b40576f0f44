"""The layout of a datapath of units with operand memories: what each unit consists of, and its
micro-code. The printer of SystemVerilog and the cost model read the same layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.memories.binding import Port
from featherlane.backends.fpga.memories.formats import Slice, UnitFormats
from featherlane.backends.fpga.memories.microcode import Microcode
from featherlane.backends.fpga.memories.operand_memory import OperandMemory
from featherlane.backends.fpga.memories.operations import MULTIPLY, PORTS
from featherlane.backends.fpga.memories.schedule import MemorySchedule, Tap, Write
from featherlane.backends.fpga.memories.sharing import shared_choices
from featherlane.backends.fpga.memories.turning import Wait, address, cells
from featherlane.backends.fpga.text import signed_width
from featherlane.backends.fpga.units import choices
from featherlane.backends.fpga.units.accumulator import controls

SHORTEST = 16  # values in a ring
FULL = 0.85  # of the blocks of a device; a board has memories beside the design
LARGE, BESIDE = 0.9, 32  # of the blocks of a device to which so many beside the design are little
ULTRA = 0.8  # of the memories of a device that are larger than blocks of RAM


Waits = Mapping[Port, Mapping[int, Wait]]  # of the values of ports


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


class BlockChoice(NamedTuple):
    """Decides between blocks of RAM and LUTs: by the blocks that a design may take, the words that
    memories of LUTs have, and the words of micro-code from which on it takes a block. large: the
    memories larger than blocks that it may take, with words and bits of each.
    """

    blocks: int
    words: Sequence[int]
    microcode: int
    large: int = 0
    large_block: tuple[int, int] | None = None

    @classmethod
    def of(cls, device: Device) -> BlockChoice:
        """The choice on a device."""
        words = sorted(words for words, _, _ in device.memories)
        large = min(LARGE * device.blocks, device.blocks - BESIDE)
        blocks, ultra = int(max(FULL * device.blocks, large)), int(ULTRA * device.large)
        return cls(blocks, words, 1 << device.inputs, ultra, device.large_block)

    def in_large(
        self, memories: Mapping[Port, OperandMemory], microcode: int
    ) -> dict[Port, OperandMemory]:
        """Returns memories of which so many are larger ones that blocks are left for the others and
        for micro-code, those that take most blocks first. Constants need a block, whose words can
        be initialised.
        """
        result, left = dict(memories), self.large if self.large_block else 0
        count = microcode + sum(memory.blocks for memory in memories.values())
        order = sorted(
            memories, key=lambda port: (-memories[port].blocks, -memories[port].words, port)
        )
        for port in order:
            memory = memories[port]
            if count <= self.blocks or not left:
                break
            words, bits = self.large_block or (0, 0)
            fits = memory.words <= words and memory.width <= bits
            if memory.blocks and fits and not memory.constants:
                result[port] = memory._replace(large=True)
                count, left = count - memory.blocks, left - 1
        return result

    def turned(
        self, memories: dict[Port, OperandMemory], waits: Waits, interval: int, microcode: int
    ) -> dict[Port, OperandMemory]:
        """Returns memories of which so many turn, in LUTs, that blocks are left for micro-code, as
        far as memories of LUTs have room; those of fewer words first.
        """
        result = dict(memories)
        count = microcode + sum(memory.blocks for memory in memories.values())
        for words in self.words:
            for port, memory in result.items():
                if count <= self.blocks:
                    return result
                if memory.blocks and not memory.constants:
                    turning = cells(waits[port], interval, words)
                    if turning is not None:
                        result[port] = memory._replace(ring=words, cells=turning, turns=0)
                        count -= memory.blocks
        return result


def layouts(
    schedule: MemorySchedule,
    formats: UnitFormats,
    shallow: int,
    choice: BlockChoice,
    joins: bool = False,
) -> list[UnitLayout]:
    """Returns the layout of each unit of a schedule. shallow: the words that a memory of LUTs has
    at most; joins: as of a `Tile`.
    """
    on_unit = defaultdict[int, list[int]](list)
    for n, unit in enumerate(schedule.binding.unit):
        on_unit[unit].append(n)
    writes = Writes(schedule)
    memories, waits = _memories(schedule, formats, shallow)
    if joins:
        memories = _in_slots(memories, waits, schedule.interval)
    in_blocks = schedule.interval > choice.microcode
    microcode = len(schedule.binding.kinds) if in_blocks else 0
    memories = choice.in_large(memories, microcode)
    memories = choice.turned(memories, waits, schedule.interval, microcode)
    if joins:
        memories = writes.share(memories)
    copies = defaultdict[int, set[Tap]](set)
    for write in schedule.writes:
        if write.tap.delay:
            copies[write.tap.unit].add(write.tap.whole)
    units = [
        _unit_layout(
            schedule, formats, u, on_unit[u], memories, writes, tuple(sorted(copies[u])), joins
        )
        for u in range(len(schedule.binding.kinds))
    ]
    left = choice.blocks - sum(memory.blocks for memory in memories.values())
    by_bits = sorted(units, key=lambda layout: -layout.control.packing.width)
    for layout in by_bits if in_blocks else ():
        if layout.control.blocks <= left:
            left -= layout.control.blocks
            units[layout.unit] = layout._replace(in_block=True)
    return units


class Writes:
    """The writes of each port; through: those of the values that its multiplexer chooses."""

    def __init__(self, schedule: MemorySchedule) -> None:
        self.interval = schedule.interval
        self.of = defaultdict[Port, list[Write]](list)
        for write in schedule.writes:
            self.of[write.port].append(write)
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


def _memories(
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
        longest = max((wait.read - wait.written for wait in waits[port].values()), default=0)
        ring = 1 << max(longest, len(fixed) - 1, SHORTEST - 1).bit_length()
        memories[port] = OperandMemory(width, ring, fixed, tuple(sorted(taps[port])), shallow)
    return memories, waits


def _in_slots(
    memories: Mapping[Port, OperandMemory], waits: Waits, interval: int
) -> dict[Port, OperandMemory]:
    """Returns memories in slots where these take no more than rings."""
    longest = {
        port: max(wait.read - wait.written for wait in waits[port].values())
        for port, memory in memories.items()
        if memory.taps
    }
    return {
        port: memory.with_slots(longest[port], interval) if memory.taps else memory
        for port, memory in memories.items()
    }


def _unit_layout(
    schedule: MemorySchedule,
    formats: UnitFormats,
    unit: int,
    operations: Sequence[int],
    memories: Mapping[Port, OperandMemory],
    writes: Writes,
    copies: tuple[Tap, ...],
    packed: bool,
) -> UnitLayout:
    kind, control = schedule.binding.kinds[unit], Microcode(schedule.interval, packed)
    ports = {place: memories[unit, place] for place in range(PORTS) if (unit, place) in memories}
    for place, memory in ports.items():
        _set_memory(schedule, formats, control, (unit, place), memory, writes, operations)
    runs = [formats.runs[n] for n in operations] if kind == MULTIPLY else []
    slices, initials = sorted({run.slice for run in runs}), sorted({run.initial for run in runs})
    control.field("take", 2)
    for n in operations:
        control.set(schedule.shown(n) - 1, "take")
    if kind == MULTIPLY:
        m = formats.accumulators[unit]
        varying = initial_bits(initials, m.bits)
        control.field("slice", len(slices), free=True)
        control.field("initial_value", 1 << len(varying), free=True)
        for name in controls(m):
            control.field(name, 2, free=name in ("minus", "ends_minus"))
        for n in operations:
            run, first = formats.runs[n], schedule.reads[n][0] + 1 + m.control - m.loads_early
            control.set(schedule.shown(n) - 1, "slice", slices.index(run.slice))
            row = initials.index(run.initial)
            value = sum(column[row] << at for at, column in enumerate(varying))
            control.set(first, "initial_value", value)
            control.set(first, "start")
            _set_run(schedule, control, n, 1 + m.control)
    return UnitLayout(
        unit, kind, tuple(ports.values()), tuple(slices), tuple(initials), copies, control
    )


def initial_columns(initials: Sequence[int], bits: int) -> list[tuple[int, ...]]:
    """Each of so many bits of what sums start with, for all values of this."""
    return [tuple(x >> bit & 1 for x in initials) for bit in range(bits)]


def initial_bits(initials: Sequence[int], bits: int) -> list[tuple[int, ...]]:
    """The columns that differ among values, each once: micro-code has a bit for each."""
    columns = initial_columns(initials, bits)
    return [*dict.fromkeys(column for column in columns if len({*column}) > 1)]


def _set_memory(
    schedule: MemorySchedule,
    formats: UnitFormats,
    control: Microcode,
    port: Port,
    memory: OperandMemory,
    writes: Writes,
    operations: Sequence[int],
) -> None:
    """Sets the fields of a memory: whether and from which tap it takes a value, and how many cycles
    ago what is read was taken, or which constant it is; of one that turns, in which cells they are.
    """
    _, place = port
    if not memory.taps:
        control.field(f"constant_{place}", len(memory.constants), free=True)
    else:
        _add_fields(control, place, memory)
    written, interval, of_value = dict[int, int](), schedule.interval, memory.cells
    turns = lambda cycle: cycle // interval
    for write in writes.of[port]:
        written[write.value] = write.cycle
        control.set(write.cycle, f"write_{place}")
        if of_value is not None:
            to = address(of_value[write.value], write.cycle, interval, memory.ring)
            control.set(write.cycle, f"to_{place}", to)
    for write in writes.through[port]:
        control.set(write.cycle, f"from_{place}", memory.taps.index(write.tap))
    for n in operations:
        for cycle, at, value in schedule.port_values(n):
            if at == port:
                control.set(cycle, f"fixed_{place}", 0)
                control.set(cycle, f"back_{place}", cycle - written[value])
                control.set(cycle, f"slot_{place}", written[value] % interval)
                control.set(cycle, f"age_{place}", turns(cycle) - turns(written[value]))
                if of_value is not None:
                    there = address(of_value[value], cycle, interval, memory.ring)
                    control.set(cycle, f"at_{place}", there)
        for cycle, term in zip(schedule.reads[n], schedule.operations[n].terms, strict=False):
            constant = formats.constants(n, term).get(place)
            if constant is not None:
                number = memory.constants.index(constant)
                control.set(cycle, f"constant_{place}", number)
                control.set(cycle, f"fixed_{place}")
                control.set(cycle, f"back_{place}", -number)
                control.set(cycle, f"slot_{place}", memory.slots // 2 + number)


def _add_fields(control: Microcode, place: int, memory: OperandMemory) -> None:
    """Adds the fields of a memory that takes values. Where words of rings and in slots are written
    in each phase, what is none of its values lies where it is not read.
    """
    turning = memory.ring if memory.cells is not None else 0
    control.field(f"write_{place}", 1 if control.packed and not turning else 2)
    control.field(f"from_{place}", memory.inputs, free=True)
    control.field(f"fixed_{place}", 1 + (memory.is_ring and bool(memory.constants)), free=True)
    control.field(f"back_{place}", memory.ring if memory.is_ring else 0, free=True)
    for name in ("to", "at"):
        control.field(f"{name}_{place}", turning, free=True)
    control.field(f"slot_{place}", memory.slots, free=True)
    control.field(f"age_{place}", memory.turns, free=True)


def _set_run(schedule: MemorySchedule, control: Microcode, n: int, later: int) -> None:
    """Sets the fields that control the accumulator while it adds, so many cycles behind the reads
    of terms.
    """
    terms, reads = schedule.operations[n].run, schedule.reads[n]
    control.set(reads[-1] + later, "last")
    for cycle, term in zip(reads, terms, strict=True):
        control.set(cycle + later, "minus", term.negative)
        control.set(cycle + later, "ends_minus", terms[-1].negative)
