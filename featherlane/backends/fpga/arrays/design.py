"""A design of arrays: their pipelines, what lies between them, and a stream around both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga import cost as of_design
from featherlane.backends.fpga import stream
from featherlane.backends.fpga.arrays.links import Links
from featherlane.backends.fpga.arrays.schedule import ScheduledArray
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.module import Module, named, same
from featherlane.backends.fpga.statements import ENABLE
from featherlane.backends.fpga.units.multipliers import DSP48E2, Tile
from featherlane.backends.fpga.verilog import Design, ModuleUnits, check_name, without_stream


@dataclass(frozen=True)
class LinkDesign(Design):
    """The registers and multiplexers between arrays, as a design of one module."""

    links: Links | None = None

    @property
    def netlist(self) -> Links:
        """The signals between arrays."""
        assert self.links is not None
        return self.links


@dataclass(frozen=True)
class ArrayDesign(LinkDesign):
    """The sources of a design of arrays. pipeline: of the links between them. circuits: the designs
    of the arrays, in their order, and that of the links.
    """

    circuits: tuple[Design, ...] = ()

    @property
    def pipelines(self) -> tuple[Design, ...]:
        return self.circuits

    @property
    def arrays(self) -> Sequence[ScheduledArray]:
        """The arrays, in an order in which none needs a later one."""
        return self.netlist.arrays


def array_design(
    name: str,
    datapath: Datapath,
    arrays: Sequence[ScheduledArray],
    interval: int,
    tile: Tile = DSP48E2,
    labels: Labels = NO_LABELS,
) -> ArrayDesign:
    """Returns the design of arrays that together compute a datapath. labels: for names and
    comments. Raises CompileError as `verilog.design`, ValueError for what is no name.
    """
    check_name(name)
    links = Links(name, datapath, arrays, interval, labels=labels)
    design = arrays_without_stream(links, tile)
    depth = stream.full_depth(links.pipeline)
    return replace(design, modules=design.modules | stream.modules(links, depth), depth=depth)


def arrays_without_stream(links: Links, tile: Tile = DSP48E2) -> ArrayDesign:
    """Returns arrays and the links between them, without a stream, as `verilog.without_stream`."""
    name, arrays = links.name, links.arrays
    of_arrays = [
        without_stream(
            f"{name}_{array.name}",
            array.datapath,
            array.pipeline,
            tile,
            labels=links.labels_of(array),
        )
        for array in arrays
    ]
    node = {own: k for k, own in links.place.items()}
    inputs, outputs = (
        [field._replace(node=node[field.node]) for field in fields]
        for fields in (links.inputs, links.outputs)
    )
    units = {links.part.name: ModuleUnits([], [], links.part.choices, links.part.control)}
    common = links.whole, links.pipeline, inputs, outputs
    between = LinkDesign(links.name, named(links.module()), *common, 0, tile, units, links=links)
    circuits = (*of_arrays, between)
    modules = {
        key: module.with_enable() if array is not None and array.clock.pause else module
        for array, circuit in zip((*arrays, None), circuits, strict=True)
        for key, module in circuit.modules.items()
    } | named(_top(links, of_arrays))
    units = {key: own for circuit in circuits for key, own in circuit.units.items()}
    return ArrayDesign(name, modules, *common, 0, tile, units, links=links, circuits=circuits)


def cost(design: ArrayDesign, device: Device) -> DesignCost:
    """Returns what a design of arrays needs: its parts are those of the arrays' modules and of what
    lies between them.
    """
    costs = [of_design.cost(circuit, device) for circuit in design.circuits]
    parts = {key: part for each in costs for key, part in each.parts.items()}
    return DesignCost(device, parts, sum(each.packed for each in costs), design.interval > 1)


def _top(links: Links, circuits: Sequence[Design]) -> Module:
    """The module of arrays, links, and the phases of arrays."""
    comment = f"The arrays of {links.name}, and what lies between them"
    module = stream.datapath(links, _bits(links.pipeline.interval), comment)
    for signal in links.gives:
        module.declare_signal(signal)
    for field in links.inputs:
        module.declare_signal(field.signal)
        module.assign(field.signal.name, field.of("given"), field.signal.label)
    for array, circuit in zip(links.arrays, circuits, strict=True):
        _add_phase(module, links, array)
        _add_array(module, links, array, circuit)
    module.remark("What waits between them")
    signals = [*links.part.needs, *links.gives]
    names = [*(["phase_next"] if links.part.has_phases else []), *(s.name for s in signals)]
    module.instance(links.part.name, "links", same(["clock", *names]))
    for field in links.outputs:
        module.assign(field.of("results"), field.signal.name, field.signal.label)
    return module


def _add_phase(module: Module, links: Links, array: ScheduledArray) -> None:
    """The phase of an array, which stands still in its pause."""
    name, slot_cycles = array.name, array.pipeline.interval
    bits = _bits(slot_cycles)
    pause, period = array.clock.pause, links.pipeline.interval
    still = f", and a pause of {pause}" if pause else ""
    slots = f"{array.slots} slots, one every {slot_cycles} cycles{still}"
    module.remark(f"{name}: from cycle {array.begin} on, {slots}")
    module.declare(f"{name}_phase", f"{name}_phase_next", bits=bits)
    phase_is = lambda cycle: f"phase_next == {_bits(period)}'d{cycle % period}"
    first = phase_is(array.begin)
    after = f"{name}_phase == {bits}'d{slot_cycles - 1} ? '0 : {name}_phase + 1'b1"
    module.assign(f"{name}_phase_next", f"{first} ? '0 : {after}")
    if pause:
        stands = " || ".join(phase_is(array.begin - n) for n in range(pause, 0, -1))
        module.declare(f"{name}_runs")
        module.clocked(f"{name}_runs <= !({stands});")
    runs = f"{name}_runs || {first}" if pause else ""
    module.clocked(f"{name}_phase <= {name}_phase_next;", when=runs)


def _add_array(module: Module, links: Links, array: ScheduledArray, circuit: Design) -> None:
    """An array, what it reads and gives."""
    name, netlist = array.name, circuit.netlist
    module.declare(f"{name}_given", bits=circuit.input_bits)
    module.declare(f"{name}_results", bits=circuit.output_bits)
    for field in circuit.inputs:
        module.assign(field.of(f"{name}_given"), links.port(array, field.node).name)
    fields = {(f.node, f.signal.name): f for f in circuit.outputs}
    for sent in array.gives:
        read = netlist.read(sent.node, sent.cycle)
        field = fields[sent.node, read.name]
        for k in sent.targets:
            signal = links.signal(links.place[k])
            module.declare_signal(signal)
            module.assign(signal.name, field.of(f"{name}_results"))
    ports = {"clock": "clock", "phase_next": f"{name}_phase_next"}
    if array.clock.pause:
        ports[ENABLE] = f"{name}_runs"
    ports |= {"given": f"{name}_given", "results": f"{name}_results"}
    module.instance(f"{circuit.name}_datapath", name, ports)


def _bits(interval: int) -> int:
    """The bits of a phase."""
    return max((interval - 1).bit_length(), 1)
