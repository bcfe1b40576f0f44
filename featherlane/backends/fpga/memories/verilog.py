"""SystemVerilog of a datapath of units with operand memories: a module for each unit, and one that
connects them.

In each cycle a unit does what its line of micro-code for the phase says: which tap each memory
takes a value from, how many cycles ago what it reads was taken, and what the accumulator does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.memories.binding import Port
from featherlane.backends.fpga.memories.formats import UnitFormats
from featherlane.backends.fpga.memories.layout import UnitLayout
from featherlane.backends.fpga.memories.microcode import IN_PAIRS, Microcode, Packing
from featherlane.backends.fpga.memories.operand_memory import OperandMemory
from featherlane.backends.fpga.memories.operations import INPUT, MULTIPLY
from featherlane.backends.fpga.memories.schedule import Tap
from featherlane.backends.fpga.memories.unit_control import initial_bits, initial_columns
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.statements import (
    UNREAD,
    Alternative,
    BitConcatenation,
    ChoiceTree,
    Multiplexer,
    Registers,
    Statement,
)
from featherlane.backends.fpga.text import Signal, fitted, literal
from featherlane.backends.fpga.units import accumulator, choices
from featherlane.backends.fpga.units.multipliers import Tile
from featherlane.backends.fpga.verilog import Design

OUTPUTS = "result", "second", "third", "fourth"  # the ports of the outputs of a unit
COUNTER = "cycle"  # counts cycles, for the rings of all memories
TURNS = "turn"  # counts intervals, for memories that turn and for slots
# Of what all units read, each has registers, which synthesis must not merge: one for all
# would drive wires across the chip
COUNTER_HERE, TURNS_HERE = "now", "turned"


def tap_name(tap: Tap) -> str:
    """The signal of a tap outside of its unit."""
    delay = f"_{tap.delay}" if tap.delay else ""
    return f"unit_{tap.unit}_{OUTPUTS[tap.output]}{delay}"


def lent_name(port: Port) -> str:
    """The signal of what the multiplexer of a port gives to other units."""
    return f"unit_{port[0]}_taken_{port[1]}"


def input_names(memory: OperandMemory) -> list[str]:
    """The signals outside of its unit that a memory takes values from."""
    if memory.lender is not None:
        return [lent_name(memory.lender)]
    return [tap_name(tap) for tap in memory.taps]


def unit_name(prefix: str, unit: UnitLayout) -> str:
    """The module of a unit."""
    return f"{prefix}{unit.kind.split()[0]}_{unit.unit}"


def unit_module(
    prefix: str,
    unit: UnitLayout,
    formats: UnitFormats,
    tile: Tile,
    cluster: Design | None = None,
) -> Module:
    """The module of a unit. tile: of the device; cluster: the circuit of what it computes, if it
    has no accumulator.
    """
    module = Module(unit_name(prefix, unit), _about(unit), unread=UNREAD)
    module.input("clock")
    _add_control(module, unit.control, unit.in_block, tile.vivado)
    if unit.rings:
        _add_copy(module, COUNTER, COUNTER_HERE, (max(unit.rings) - 1).bit_length())
    if unit.turn_bits:
        _add_copy(module, TURNS, TURNS_HERE, unit.turn_bits)
    for place in range(len(unit.memories)):
        _add_memory(module, prefix, place, unit, formats, tile)
    widths = formats.outputs[unit.unit]
    if unit.kind == MULTIPLY:
        shown = [_add_accumulator(module, prefix, unit, formats, tile)]
    elif unit.kind == INPUT:
        module.input("lane", bits=widths[0], signed=True)
        shown = ["lane"]
    else:
        assert cluster is not None
        shown = _add_cluster(module, cluster, widths)
    for n, (source, width) in enumerate(zip(shown, widths, strict=False)):
        if width:
            module.output(OUTPUTS[n], bits=width, signed=True)
            module.clocked(f"{OUTPUTS[n]} <= {source};", when="take")
            _add_copies(module, n, width, [tap.delay for tap in unit.copies if tap.output == n])
    return module


def _about(unit: UnitLayout) -> str:
    depths = " and ".join(str(memory.ring) for memory in unit.memories if memory.taps)
    what = {MULTIPLY: "A multiplier with an accumulator", INPUT: "A lane of inputs"}
    kinds = "memories with slots" if any(x.turns for x in unit.memories) else "memories with rings"
    kinds = "memories that turn, or rings," if unit.rotates else kinds
    rings = f"; {kinds} of {depths} values" if depths else ""
    name = " and ".join(unit.kind.split()[0].split("_"))
    return f"{what.get(unit.kind, f'A unit for {name}')}{rings}"


def _add_copy(module: Module, name: str, here: str, bits: int) -> None:
    """A register of what all units read."""
    module.input(name, bits=bits)
    module.declare(here, bits=bits, attribute="keep")
    module.clocked(f"{here} <= {name};")


def _add_control(module: Module, control: Microcode, in_block: bool, vivado: bool) -> None:
    """The fields of micro-code and the memory that gives them, phase by phase: a block of RAM with
    a register behind it, or LUTs, of which one gives two bits where micro-code is packed. Yosys
    takes the style from the case, Vivado from the signal.
    """
    packing, count = control.packing, len(control.rows)
    bits = max((count - 1).bit_length(), 1)
    _add_copy(module, "phase_next", "phase", bits)
    for name, field_bits in control.bits.items():
        module.declare(name, bits=field_bits)
    paired = control.packed and not in_block and count <= IN_PAIRS
    kind = "block" if in_block else "distributed"
    attribute = f'rom_style = "{kind}"' if vivado and not paired else ""
    if packing.width:
        module.declare("control", bits=packing.width, attribute="" if in_block else attribute)
    module.remark("Micro-code")
    if control.packed:
        for name in control.bits:
            module.assign(name, packing.expression(name))
    else:
        module.assign(f"{{{', '.join(control.bits)}}}", "control")
    target, later, style = "control", 1, "logic"
    if in_block:  # whose outputs are slow
        target, later, style = "control_read", 2, "block"
        module.declare(target, bits=packing.width, attribute=attribute)
        module.clocked(f"control <= {target};")
    words = packing.words
    labels = [*range(count - 1), "default"]
    rows = [
        f"  {label}: {target} <= {packing.width}'h{words[(phase + later) % count]:x};"
        for phase, label in enumerate(labels)
    ]
    head = f'(* rom_style = "{style}" *) case (phase)'
    table = Registers("clock", ("\n".join([head, *rows, "endcase"]),))
    if not paired:
        module.body += [table] if packing.width else []
    elif packing.width:
        module.declare("control_next", bits=2 * ceil(packing.width / 2))
        module.body.append(Alternative("SYNTHESIS", tuple(_pairs(packing, bits)), (table,)))


def _pairs(packing: Packing, phase_bits: int) -> Iterator[Statement]:
    """Yields LUTs of six inputs as LUT6_2, each of which gives two bits of micro-code, and the
    register behind them.
    """
    count, spare = packing.phases, packing.width % 2
    inputs = [f"phase[{n}]" if n < phase_bits else "1'b0" for n in range(5)]
    later = [
        sum((column >> (phase + 1) % count & 1) << phase for phase in range(count))
        for column in [*packing.columns, *[0] * spare]
    ]
    for n in range(0, len(later), 2):
        outputs = f"control_next[{n}]", f"control_next[{n + 1}]"
        yield choices.two_bits(f"bits_{n}", outputs, inputs, (later[n], later[n + 1]))
    yield Registers("clock", (f"control <= control_next[{packing.width - 1}:0];",))


def _add_memory(
    module: Module,
    prefix: str,
    place: int,
    unit: UnitLayout,
    formats: UnitFormats,
    tile: Tile,
) -> None:
    """The memory of a port: a ring of values, each where the counter stood when it was taken, and
    constants behind it; a memory whose words lie in slots; or one that turns. `operand` is what was
    read in the cycle before.
    """
    memory = unit.memories[place]
    width = memory.width
    memory_name, operand = f"memory_{place}", f"operand_{place}"
    module.declare(operand, bits=width, signed=True)
    if not memory.taps:
        _add_constants(module, place, memory)
        return
    attribute = memory.style(tile.vivado)
    module.declare(memory_name, bits=width, signed=True, size=memory.words, attribute=attribute)
    target, address = _places(module, place, memory, unit)
    module.wire(f"address_{place}", (memory.words - 1).bit_length(), address)
    taken = _add_choice(module, prefix, place, memory, formats, tile)
    writes = f"if (write_{place}) " if f"write_{place}" in unit.control.bits else ""
    module.clocked(
        f"{writes}{memory_name}[{target}] <= {taken};",
        f"{operand} <= {memory_name}[address_{place}];",
    )
    if memory.large:
        return  # UltraRAMs have no values at the start, and need none: see `operand_memory`
    rows = [f"for (int n = 0; n < {memory.words}; n++) {memory_name}[n] = '0;"]
    for n, x in enumerate(memory.constants):
        if memory.turns:
            first = (memory.slots // 2 + n) * memory.turns
            each = f"for (int n = {first}; n < {first + memory.turns}; n++) {memory_name}[n]"
        else:
            each = f"{memory_name}[{memory.ring + n}]"
        rows.append(f"{each} = {literal(x, width)};")
    module.process("initial", *rows)


def _places(module: Module, place: int, memory: OperandMemory, unit: UnitLayout) -> tuple[str, str]:
    """The addresses at which a memory is written and read."""
    bits, turn_bits = (memory.ring - 1).bit_length(), memory.turn_bits
    turn = TURNS_HERE if turn_bits == unit.turn_bits else f"{TURNS_HERE}[{turn_bits - 1}:0]"
    if memory.cells is not None:
        target = module.wire(f"target_{place}", bits, f"to_{place} + {turn}")
        return target, f"at_{place} + {turn}"
    if memory.turns:
        written = [*["1'b0"] * bool(memory.constants), "phase", *[turn] * (turn_bits > 0)]
        target = f"{{{', '.join(written)}}}" if len(written) > 1 else written[0]
        slot = f"slot_{place}"
        return target, f"{{{slot}, {turn} - age_{place}}}" if turn_bits else slot
    module.declare(f"ring_{place}", bits=bits)
    counter = target = f"{COUNTER_HERE}[{bits - 1}:0]"
    address = f"ring_{place}"
    if memory.constants:
        counter = f"({counter} & {{{bits}{{~fixed_{place}}}}})"
        address, target = f"{{fixed_{place}, ring_{place}}}", f"{{1'b0, {target}}}"
    module.assign(f"ring_{place}", f"{counter} - back_{place}")
    return target, address


def _add_constants(module: Module, place: int, memory: OperandMemory) -> None:
    """The constants of a port that reads nothing else."""
    constants = [literal(x, memory.width) for x in memory.constants]
    if len(constants) == 1:
        module.assign(f"operand_{place}", constants[0])
        return
    module.declare(f"chosen_{place}", bits=memory.width, signed=True)
    rows = tuple(enumerate(constants))
    module.body.append(Multiplexer(f"chosen_{place}", f"constant_{place}", rows))
    module.clocked(f"operand_{place} <= chosen_{place};")


def _add_multiplexer(
    module: Module,
    prefix: str,
    tile: Tile,
    target: str,
    selector: str,
    sources: Sequence[str],
    bits: int,
) -> None:
    """A multiplexer with the number of a source, in the form that synthesis knows best. Sources
    that are some bits of a signal get a wire: Icarus knows no selects in an `always_comb`.
    """
    if tile.trees:
        module.body.append(ChoiceTree(target, selector, tuple(sources)))
        return
    if of_cells(tile, len(sources)):
        ports = {"number": selector, "chosen": target}
        ports |= {choices.source(n): source for n, source in enumerate(sources)}
        name = f"{prefix}{choices.name(len(sources))}"
        module.instance(name, f"choose_{target}", ports, {"WIDTH": bits})
        return
    rows = list[tuple[int, str]]()
    for n, source in enumerate(sources):
        if "[" in source:
            wire = module.declare(f"{target}_{n}", bits=bits, signed=True)
            module.assign(wire, source)
            source = wire
        rows.append((n, source))
    module.body.append(Multiplexer(target, selector, tuple(rows)))


def of_cells(tile: Tile, inputs: int) -> bool:
    """Whether a multiplexer consists of instances of the device's cells."""
    return tile.joins and choices.is_module(inputs)


def _add_choice(
    module: Module,
    prefix: str,
    place: int,
    memory: OperandMemory,
    formats: UnitFormats,
    tile: Tile,
) -> str:
    """The multiplexer of taps in front of a memory, which may be another port's, and its result."""
    width = max(memory.width, memory.lent)
    taken = f"taken_{place}"
    if memory.lender is not None:
        taken = module.input(lent_name(memory.lender), bits=width, signed=True)
    else:
        names = list[str]()
        for tap in memory.taps:
            bits = formats.outputs[tap.unit][tap.output]
            module.input(tap_name(tap), bits=bits, signed=True)
            names.append(_fitted(Signal(tap_name(tap), bits), tap.shift, width))
        if len(names) == 1:
            return names[0]
        declare = module.output if memory.lent else module.declare
        declare(taken, bits=width, signed=True)
        _add_multiplexer(module, prefix, tile, taken, f"from_{place}", names, width)
    return taken if width == memory.width else f"$signed({taken}[{memory.width - 1}:0])"


def _fitted(of: Signal, shift: int, to: int) -> str:
    """So many bits of a signal, behind those that are dropped; a memory may be narrower than an
    output that also shows wider results.
    """
    if shift == 0 and to >= of.width:
        return f"{to}'({of.name})"
    return f"$signed({fitted(of, shift, Format(to, 0))})"


def _add_accumulator(
    module: Module, prefix: str, unit: UnitLayout, formats: UnitFormats, tile: Tile
) -> str:
    """The accumulator of a unit, and the bits of the sum that a result keeps."""
    m = formats.accumulators[unit.unit]
    module.declare("sum", "initial_sum", bits=m.bits, signed=True)
    _add_initial_sum(module, unit.initials, m.bits)
    ports = {"clock": "clock", "a": "operand_0", "b": "operand_1", "initial_sum": "initial_sum"}
    ports |= {name: name for name in (*accumulator.controls(m), "sum")}
    module.instance(f"{prefix}{m.name}", "accumulate", ports)
    width = formats.outputs[unit.unit][0]
    kept = [_bits_of_sum(x.shift, min(x.width, width), width) for x in unit.slices]
    if len(kept) == 1:
        return kept[0]
    module.declare("kept", bits=width, signed=True)
    _add_multiplexer(module, prefix, tile, "kept", "slice", kept, width)
    return "kept"


def _bits_of_sum(shift: int, kept: int, width: int) -> str:
    """The bits of a sum that a result keeps, with so many of the sign that it has a width."""
    bits = f"$signed(sum[{shift + kept - 1}:{shift}])"
    return f"{width}'({bits})" if kept < width else bits


def _add_cluster(module: Module, cluster: Design, widths: Sequence[int]) -> list[str]:
    """The circuit of a cluster, and the bits of its results that the outputs show."""
    values = [
        f"{field.signal.width}'(operand_{cluster.datapath.graph.value[field.node][1]})"
        for field in reversed(cluster.inputs)
    ]
    module.wire("given", cluster.input_bits, f"{{{', '.join(values)}}}")
    module.declare("results", bits=cluster.output_bits)
    ports = {"clock": "clock", "phase_next": "1'b0", "given": "given", "results": "results"}
    module.instance(f"{cluster.name}_datapath", "compute", ports)
    shown = list[str]()
    for field, width in zip(cluster.outputs, widths, strict=False):
        bits = min(width, field.signal.width)
        kept = f"$signed(results[{field.offset + bits - 1}:{field.offset}])"
        shown.append(f"{width}'({kept})" if bits < width else kept)
    return shown


def _add_initial_sum(module: Module, initials: Sequence[int], bits: int) -> None:
    """The starts of sums: bits that are alike in all runs of the unit are constants, for which
    registers have a reset; micro-code gives others, as `unit_control.initial_bits` numbers them.
    """
    target = "initial_sum"
    if len(initials) == 1:
        module.assign(target, literal(initials[0], bits))
        return
    varying = initial_bits(initials, bits)
    parts = list[str]()
    for column in reversed(initial_columns(initials, bits)):
        if len({*column}) == 1:
            parts.append(f"1'b{column[0]}")
        else:
            number = varying.index(column)
            parts.append(f"initial_value[{number}]" if len(varying) > 1 else "initial_value")
    module.body.append(BitConcatenation(target, tuple(parts)))


def _add_copies(module: Module, n: int, width: int, delays: Sequence[int]) -> None:
    """Delayed copies of an output: a chain of registers."""
    source = OUTPUTS[n]
    for delay in range(1, max(delays, default=0) + 1):
        name = f"{OUTPUTS[n]}_{delay}"
        declare = module.output if delay in delays else module.declare
        declare(name, bits=width, signed=True)
        module.clocked(f"{name} <= {source};")
        source = name
