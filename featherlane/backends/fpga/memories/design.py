"""A design of units with operand memories: bound, scheduled, printed, with a stream around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga import stream
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.memories.binding import bound
from featherlane.backends.fpga.memories.clusters import cluster_design
from featherlane.backends.fpga.memories.ends import StreamEnds
from featherlane.backends.fpga.memories.formats import UnitFormats, formats_of, unit_cycles
from featherlane.backends.fpga.memories.layout import UnitLayout, layouts
from featherlane.backends.fpga.memories.legend import unit_legends
from featherlane.backends.fpga.memories.memory_choice import MemoryChoice
from featherlane.backends.fpga.memories.operations import (
    INPUT,
    MULTIPLY,
    UnitOperation,
    by_arrival,
    operations_of,
)
from featherlane.backends.fpga.memories.schedule import MemorySchedule, Tap
from featherlane.backends.fpga.memories.scheduler import (
    NO_TIMES,
    BoundOperations,
    PortTimes,
    scheduled,
)
from featherlane.backends.fpga.memories.verilog import (
    COUNTER,
    OUTPUTS,
    TURNS,
    input_names,
    lent_name,
    of_cells,
    tap_name,
    unit_module,
    unit_name,
)
from featherlane.backends.fpga.module import Module, named, same
from featherlane.backends.fpga.netlist import Field
from featherlane.backends.fpga.units import accumulator, carry_cells, choices, multiplier_cell
from featherlane.backends.fpga.units.multipliers import Multiplier
from featherlane.backends.fpga.verilog import Design, ModuleUnits, check_name
from featherlane.errors import CompileError

# Shares of the cycles of units that are tried, until there is a schedule
FILLS = (0.88, 0.86, 0.84, 0.8)
CHAIN = 2  # DSPs that the widest products take more, as they are assumed before units are bound


@dataclass(frozen=True, kw_only=True)
class MemoryDesign(Design):
    """A design of units with operand memories. layouts, formats: of its units; clusters:
    the circuits of other operations, by kind. pipeline: of inputs and results alone.
    """

    schedule: MemorySchedule
    formats: UnitFormats
    layouts: Sequence[UnitLayout]
    clusters: Mapping[str, Design]
    ends: StreamEnds

    @property
    def multipliers(self) -> Counter[Multiplier]:
        """The number of each multiplier."""
        inside = (self.clusters[unit.kind] for unit in self.layouts if unit.kind in self.clusters)
        every = sum((cluster.multipliers for cluster in inside), Counter[Multiplier]())
        return every + Counter(
            Multiplier(m.a, m.b, m.bits, m.cycles) for m in self.formats.accumulators.values()
        )

    @property
    def large(self) -> int:
        return sum(memory.large for unit in self.layouts for memory in unit.memories)

    @property
    def netlist(self) -> StreamEnds:  # type: ignore[override]
        """The signals of inputs and results."""
        return self.ends


def memory_design(
    name: str, datapath: Datapath, interval: int, device: Device, labels: Labels = NO_LABELS
) -> MemoryDesign:
    """Returns the design of a datapath with runs (`runs.accumulated`), of up to `interval` terms.
    labels: for names and comments.

    Raises CompileError for an operation without a circuit and for sums of too many bits, ValueError
    for what is no name.
    """
    check_name(name)
    both = Formatted(datapath, narrowed(datapath))
    bare = units_without_stream(name, both, interval, device, labels=labels)
    depth = stream.full_depth(bare.pipeline)
    return replace(bare, modules=bare.modules | stream.modules(bare.ends, depth), depth=depth)


class Formatted(NamedTuple):
    """A datapath with runs, and the same in formats without bits that repeat the sign."""

    datapath: Datapath
    narrow: Datapath


def units_without_stream(
    name: str,
    both: Formatted,
    interval: int,
    device: Device,
    times: PortTimes = NO_TIMES,
    late: Collection[str] = (),
    labels: Labels = NO_LABELS,
) -> MemoryDesign:
    """Returns the design of a datapath without a stream. times: of outputs and inputs; late: the
    inputs that come as late as they are taken, by whole intervals. Errors as of `memory_design`.
    """
    operations, of_clusters = operations_of(both.datapath)
    clusters = {
        kind: cluster_design(f"{name}_{'_'.join(kind.split())}", inside, device)
        for kind, inside in of_clusters.items()
    }
    cycles = {kind: cluster.latency for kind, cluster in clusters.items()}
    schedule, formats = _schedule(both, operations, cycles, interval, device, times)
    ends = StreamEnds(name, both.narrow, schedule, device, labels, late)
    units = layouts(schedule, formats, MemoryChoice.of(device))
    parts = {ends.part.name: ModuleUnits([], [], ends.part.choices, ends.part.control)}
    for unit in units:
        parts[unit_name(f"{name}_", unit)] = _units(formats, clusters, unit)
    inputs, outputs = _numbered(ends)
    design = MemoryDesign(
        name, {}, both.narrow, ends.pipeline, inputs, outputs, 0, device.tile, parts,
        schedule=schedule, formats=formats, layouts=units, clusters=clusters, ends=ends,
    )  # fmt: skip
    return replace(design, modules=_modules(design, labels))


def _schedule(
    both: Formatted,
    operations: Sequence[UnitOperation],
    cycles: Mapping[str, int],
    interval: int,
    device: Device,
    times: PortTimes,
) -> tuple[MemorySchedule, UnitFormats]:
    """Returns the schedule of operations and the formats of their units, of which there are more
    until a schedule exists. cycles: of clusters, by kind.

    Raises CompileError if there is none with the most units, and for sums of too many bits.
    """
    datapath = both.datapath
    assumed = {kind: 2 + count for kind, count in cycles.items()}
    assumed |= {INPUT: 1, MULTIPLY: 4 + CHAIN if device.tile.post_adder else 4}
    operations, depths = by_arrival(datapath, operations, assumed)
    for fill in FILLS:
        binding = bound(datapath, operations, interval, fill)
        try:
            formats = formats_of(datapath, both.narrow, operations, binding, device.tile)
            every = unit_cycles(formats, binding, cycles)
            work = BoundOperations(datapath, operations, binding, interval, every, depths, times)
            schedule = scheduled(work)
            break
        except CompileError:
            if fill == FILLS[-1]:
                raise
    schedule.verify()
    return schedule, formats


def _numbered(ends: StreamEnds) -> tuple[list[Field], list[Field]]:
    """The fields of inputs and of results, by the nodes of the whole datapath."""
    node = {here: k for k, here in ends.place.items()}
    inputs, outputs = (
        [field._replace(node=node[field.node]) for field in fields]
        for fields in (ends.inputs, ends.outputs)
    )
    return inputs, outputs


def _units(formats: UnitFormats, clusters: Mapping[str, Design], unit: UnitLayout) -> ModuleUnits:
    """The accumulator of a unit, or the units of its circuit."""
    if unit.unit in formats.accumulators:
        return ModuleUnits([], [], {}, 0, formats.accumulators[unit.unit].dsps)
    inside = [*clusters[unit.kind].units.values()] if unit.kind in clusters else []
    products = [product for units in inside for product in units.products]
    functions = [function for units in inside for function in units.functions]
    return ModuleUnits(products, functions, {}, 0)


def _modules(design: MemoryDesign, labels: Labels) -> dict[str, Module]:
    """The modules inside the stream, by their names."""
    prefix, formats = f"{design.name}_", design.formats
    units = [
        unit_module(prefix, unit, formats, design.tile, design.clusters.get(unit.kind))
        for unit in design.layouts
    ]
    for module, legend in zip(units, unit_legends(design.schedule, labels), strict=True):
        module.legend = legend
    kinds = sorted({*formats.accumulators.values()}, key=lambda m: m.name)
    shared = [accumulator.module(prefix, m) for m in kinds]
    if any(m.stages for m in kinds):
        shared.append(accumulator.dsp(prefix))
    shared += [multiplier_cell.module(prefix, m) for m in {m.cell for m in kinds if m.cell}]
    shared += [
        carry_cells.module(prefix, bits) for bits in sorted({m.bits for m in kinds if m.cell})
    ]
    inputs = {x.inputs for unit in design.layouts for x in unit.memories}
    inputs |= {len(unit.slices) for unit in design.layouts}
    many = (n for n in sorted(inputs) if of_cells(design.tile, n))
    shared += [choices.module(prefix, n) for n in many]
    inside = [module for cluster in design.clusters.values() for module in cluster.modules.values()]
    return named(*units, *shared, *inside, design.netlist.module(), _top(design))


def _top(design: MemoryDesign) -> Module:
    """The module that connects units with each other, with inputs and with results."""
    ends, interval = design.netlist, design.interval
    bits = max((interval - 1).bit_length(), 1)
    module = stream.datapath(ends, bits, f"The units of {design.name} and the wires between them")
    if design.layouts:
        unit, tap = design.layouts[0], Tap(design.layouts[0].unit, 0)
        module.legend = [
            "Names:",
            f"{unit_name('', unit)}: unit {unit.unit}, behind what it is; its file tells what it "
            "computes, of which passes and joints",
            f"{tap_name(tap)}: an output of unit {unit.unit}; "
            f"{tap_name(tap._replace(delay=2))}: the same 2 cycles later",
        ]
    rings = [ring for unit in design.layouts for ring in unit.rings]
    counter_bits = (max(rings) - 1).bit_length() if rings else 0
    if rings:
        module.declare(COUNTER, bits=counter_bits, value="'0")
        module.clocked(f"{COUNTER} <= {COUNTER} + 1'b1;")
    turn_bits = max((unit.turn_bits for unit in design.layouts), default=0)
    if turn_bits:  # a unit has the next number of turns in phase 0
        module.declare(TURNS, bits=turn_bits, value="'0")
        last = f"phase_next == {bits}'d{interval - 1}"
        module.clocked(f"{TURNS} <= {TURNS} + 1'b1;", when=last)
    for unit in design.layouts:
        _add_unit(module, design, unit, counter_bits, turn_bits)
    for field in ends.inputs:
        module.declare_signal(field.signal)
        module.assign(field.signal.name, field.of("given"), field.signal.label)
    place = ends.place
    schedule = design.schedule
    for k, here in place.items():
        if ends.registers[here] and design.datapath.graph.args[k]:
            source = schedule.tap_of(k)
            module.declare_signal(ends.signal(here))
            bits = design.datapath.format(k).width  # the output may also show wider results
            module.assign(ends.signal(here).name, f"{bits}'({tap_name(source)})")
    signals = [*ends.part.needs, *ends.gives]
    for signal in ends.gives:
        module.declare_signal(signal)
    phases = ["phase_next"] if ends.part.has_phases else []
    module.instance(ends.part.name, "ends", same(["clock", *phases, *(s.name for s in signals)]))
    for field in ends.outputs:
        module.assign(field.of("results"), field.signal.name, field.signal.label)
    return module


def _add_unit(
    module: Module, design: MemoryDesign, unit: UnitLayout, counter_bits: int, turn_bits: int
) -> None:
    """An instance of a unit, and the signals that it shows."""
    ports = {"clock": "clock", "phase_next": "phase_next"}
    if bits := unit.turn_bits:
        ports[TURNS] = TURNS if bits == turn_bits else f"{TURNS}[{bits - 1}:0]"
    if unit.rings:
        bits = (max(unit.rings) - 1).bit_length()
        ports[COUNTER] = COUNTER if bits == counter_bits else f"{COUNTER}[{bits - 1}:0]"
    ports |= same(name for memory in unit.memories for name in input_names(memory))
    for place, memory in enumerate(unit.memories):
        if memory.lent and memory.lender is None:
            name = lent_name((unit.unit, place))
            module.declare(name, bits=memory.lent, signed=True)
            ports[f"taken_{place}"] = name
    if unit.kind == INPUT:
        ports["lane"] = design.netlist.lane(unit.unit).name
    for n, width in enumerate(design.formats.outputs[unit.unit]):
        for tap in (Tap(unit.unit, n), *(tap for tap in unit.copies if tap.output == n)):
            if width:
                module.declare(tap_name(tap), bits=width, signed=True)
                delay = f"_{tap.delay}" if tap.delay else ""
                ports[f"{OUTPUTS[n]}{delay}"] = tap_name(tap)
    module.instance(unit_name(f"{design.name}_", unit), f"unit_{unit.unit}", ports)
