"""A design of arrays: their pipelines, what lies between them, and a stream around both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga import cost as of_design
from featherlane.backends.fpga import stream
from featherlane.backends.fpga.arrays.links import Links
from featherlane.backends.fpga.arrays.pauses import paused
from featherlane.backends.fpga.arrays.schedule import Array
from featherlane.backends.fpga.cost import Cost
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.netlist import Field
from featherlane.backends.fpga.text import indented
from featherlane.backends.fpga.units.multipliers import DSP48E2, Tile
from featherlane.backends.fpga.verilog import Design, Module, check_name, without_stream


@dataclass(frozen=True)
class LinkDesign(Design):
    """What lies between arrays, as a design of one module."""

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
    def arrays(self) -> Sequence[Array]:
        """The arrays, in an order in which none needs a later one."""
        return self.netlist.arrays


def array_design(
    name: str, datapath: Datapath, arrays: Sequence[Array], interval: int, tile: Tile = DSP48E2
) -> ArrayDesign:
    """Returns the design of arrays that together compute a datapath. Raises CompileError as
    `verilog.design`, ValueError for what is no name.
    """
    check_name(name)
    links = Links(name, datapath, arrays, interval)
    made = arrays_without_stream(links, tile)
    depth = stream.full_depth(links.pipeline)
    return replace(made, sources=made.sources | stream.sources(links, depth), depth=depth)


def arrays_without_stream(links: Links, tile: Tile = DSP48E2) -> ArrayDesign:
    """Returns the arrays and what lies between them alone, as `verilog.without_stream`."""
    name, arrays = links.name, links.arrays
    of_arrays = [
        without_stream(f"{name}_{array.name}", array.datapath, array.pipeline, tile)
        for array in arrays
    ]
    node = {own: k for k, own in links.place.items()}
    inputs, outputs = (
        [field._replace(node=node[field.node]) for field in fields]
        for fields in (links.inputs, links.outputs)
    )
    module = {links.part.name: Module([], [], links.part.choices, links.part.control)}
    text = {f"{links.part.name}.sv": links.text()}
    common = links.whole, links.pipeline, inputs, outputs
    between = LinkDesign(links.name, text, *common, 0, tile, module, links=links)
    circuits = (*of_arrays, between)
    sources = {
        key: paused(text) if array is not None and array.clock.pause else text
        for array, made in zip((*arrays, None), circuits, strict=True)
        for key, text in made.sources.items()
    }
    sources |= {f"{name}_datapath.sv": _top(links, of_arrays)}
    modules = {key: module for made in circuits for key, module in made.modules.items()}
    return ArrayDesign(name, sources, *common, 0, tile, modules, links=links, circuits=circuits)


def cost(design: ArrayDesign, device: Device) -> Cost:
    """Returns what a design of arrays needs: its parts are those of the arrays' modules and of what
    lies between them.
    """
    found = [of_design.cost(circuit, device) for circuit in design.circuits]
    parts = {key: part for own in found for key, part in own.parts.items()}
    return Cost(device, parts, sum(own.packed for own in found))


def _top(links: Links, circuits: Sequence[Design]) -> str:
    """The module of arrays, links, and the phases of arrays."""
    interval = links.pipeline.interval
    ports = [
        "input logic clock",
        f"input logic [{_bits(interval) - 1}:0] phase_next",
        f"input logic [{stream.bits(links.inputs) - 1}:0] given",
        f"output logic [{stream.bits(links.outputs) - 1}:0] results",
    ]
    lines = []
    for field in links.inputs:
        lines += _bound(field.signal.type, field.signal.name, _slice("given", field))
    for array, circuit in zip(links.arrays, circuits, strict=True):
        lines += ["", *_array(links, array, circuit)]
    lines += ["", f"{links.part.name} links ("]
    signals = [*links.part.needs, *links.gives]
    names = [*(["phase_next"] if links.part.has_phases else []), *(s.name for s in signals)]
    lines += [*",\n".join(f"  .{n}({n})" for n in ["clock", *names]).split("\n"), ");"]
    lines += [f"assign {_slice('results', f)} = {f.signal.name};" for f in links.outputs]
    declared = [f"{signal.type} {signal.name};" for signal in links.gives]
    head = ",\n".join(indented(ports))
    text = [f"// The arrays of {links.name}, and what lies between them"]
    text += [f"module {links.name}_datapath (\n{head}\n);", *indented([*declared, *lines])]
    return "\n".join([*text, "endmodule", ""])


def _array(links: Links, array: Array, circuit: Design) -> Iterator[str]:
    """An array: its phase, what it reads and gives."""
    name, turn = array.name, array.pipeline.interval
    bits = _bits(turn)
    pause, period = array.clock.pause, links.pipeline.interval
    still = f", and a pause of {pause}" if pause else ""
    told = f"{array.slots} in turn, one every {turn} cycles{still}"
    yield f"// {name}: from cycle {array.begin} on, {told}"
    yield f"logic [{bits - 1}:0] {name}_phase, {name}_phase_next;"
    phase_is = lambda cycle: f"phase_next == {_bits(period)}'d{cycle % period}"
    first = phase_is(array.begin)
    after = f"{name}_phase == {bits}'d{turn - 1} ? '0 : {name}_phase + 1'b1"
    yield f"assign {name}_phase_next = {first} ? '0 : {after};"
    if pause:
        stands = " || ".join(phase_is(array.begin - n) for n in range(pause, 0, -1))
        yield f"logic {name}_runs;"
        yield f"always_ff @(posedge clock) {name}_runs <= !({stands});"
    runs = f"if ({name}_runs || {first}) " if pause else ""
    yield f"always_ff @(posedge clock) {runs}{name}_phase <= {name}_phase_next;"
    yield f"logic [{circuit.input_bits - 1}:0] {name}_given;"
    yield f"logic [{circuit.output_bits - 1}:0] {name}_results;"
    for field in circuit.inputs:
        yield f"assign {_slice(f'{name}_given', field)} = {links.port(array, field.node).name};"
    fields = {(f.node, f.signal.name): f for f in circuit.outputs}
    netlist = circuit.netlist  # a property, which makes it anew
    for given in array.gives:
        read = netlist.read(given.node, given.cycle)
        field = fields[given.node, read.name]
        for k in given.targets:
            signal = links.signal(links.place[k])
            yield from _bound(signal.type, signal.name, _slice(f"{name}_results", field))
    yield f"{circuit.name}_datapath {name} ("
    enable = f" .enable({name}_runs)," if pause else ""
    yield f"  .clock(clock), .phase_next({name}_phase_next),{enable}"
    yield f"  .given({name}_given), .results({name}_results)"
    yield ");"


def _bits(interval: int) -> int:
    """The bits of a phase."""
    return max((interval - 1).bit_length(), 1)


def _slice(vector: str, field: Field) -> str:
    return f"{vector}[{field.offset + field.signal.width - 1}:{field.offset}]"


def _bound(type_: str, name: str, text: str) -> list[str]:
    return [f"{type_} {name};", f"assign {name} = {text};"]
