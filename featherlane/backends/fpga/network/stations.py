"""SystemVerilog of a station: its phase, the tasks inside, registers of what it takes, and its
datapath.
"""

from __future__ import annotations

from featherlane.backends.fpga.module import same
from featherlane.backends.fpga.netlist import Field
from featherlane.backends.fpga.network.structure import Network, Port, Station
from featherlane.backends.fpga.network.text import ControlModule, bits_of
from featherlane.backends.fpga.stream import DATAPATH
from featherlane.backends.fpga.text import every


def done_cycles(station: Station) -> list[int]:
    """The cycles of a task in which some of its outputs are there."""
    return sorted({port.cycle for port in station.outputs.values()})


def station_module(network: Network, station: Station) -> ControlModule:
    """The module of a station.

    Its ports: `ready` in its last phase, `take` with a task; the word of each input, which it takes
    with the task or, if it comes late, when it says so (`take_<input>`, for the micro-instruction
    `in_<input>`, or `read_<input>` some cycles before if it comes in slices); the word of each
    output, and for each of their cycles which task is `done`.
    """
    comment = f"The station {station.name}: takes a task {every(station.interval)} at most"
    module = ControlModule(network, station.name, comment)
    module.input("clock", "reset")
    module.output("ready")
    module.input("take")
    module.inputs_of_task("taken")
    _add_phase(module, station)
    _add_tasks(module, station)
    bits: dict[int, str] = {}
    for port in station.inputs.values():
        bits |= _add_input(module, port, network.read_ahead(station.name, port.name))
    _add_datapath(module, station, bits)
    _add_outputs(module, station)
    return module


def _add_phase(module: ControlModule, station: Station) -> None:
    """The phase of a station, and when it can take a task."""
    bits = max((station.interval - 1).bit_length(), 1)
    module.declare("phase_next", bits=bits)
    if station.interval == 1:
        module.assign("phase_next", "'0")
        module.assign("ready", "!reset")
        return
    module.declare("phase", bits=bits)
    last = f"phase == {bits}'d{station.interval - 1}"
    after = f"{last} ? '0 : phase + 1'b1"
    module.assign("phase_next", f"reset ? {bits}'d{station.offset} : {after}")
    module.clocked("phase <= phase_next;")
    module.assign("ready", f"!reset && {last}")


def _add_tasks(module: ControlModule, station: Station) -> None:
    """The tasks inside: bit n of `valid` says whether one is in its cycle n, and `tasks` which."""
    late = [port.cycle - 1 for port in station.inputs.values() if port.cycle]
    cycles = max([0, *done_cycles(station), *late]) + 1
    module.declare("valid", bits=cycles)
    module.declare("tasks", bits=cycles * _lead(module))
    module.clocked(
        f"tasks <= {cycles * _lead(module)}'({{tasks, taken_tag, taken_instruction}});",
        f"valid <= reset ? '0 : {cycles}'({{valid, take}});",
    )


def _lead(module: ControlModule) -> int:
    return module.network.code_bits + module.network.tag_bits


def _add_input(module: ControlModule, port: Port, ahead: int) -> dict[int, str]:
    """The register of an input; returns the bits of each of its nodes. ahead: cycles by which a
    late one is read before.
    """
    name, code_bits = port.name, module.network.code_bits
    module.input(name, bits=port.bits)
    held, take = module.declare(f"held_{name}", bits=port.bits), "take"
    if port.cycle:
        read = port.cycle - 1 - ahead
        if ahead:
            module.driven(f"read_{name}", None, f"valid[{read}]")
            take = f"valid[{port.cycle - 1}]"
        else:
            take = module.driven(f"take_{name}", None, f"valid[{read}]")
        task = bits_of("tasks", read * _lead(module), code_bits)
        module.driven(f"in_{name}", code_bits, task)
    module.clocked(f"{held} <= {name};", when=take)
    bits, offset = dict[int, str](), 0
    for value, k in zip(port.values, port.nodes, strict=True):
        bits[k] = bits_of(held, offset, value.form.width)
        offset += value.form.width
    return bits


def _add_datapath(module: ControlModule, station: Station, bits: dict[int, str]) -> None:
    design = station.design
    module.declare("given", bits=design.input_bits)
    module.declare("results", bits=design.output_bits)
    for signal, k, offset in design.inputs:
        module.assign(bits_of("given", offset, signal.width), bits[k], signal.label)
    module.instance(f"{design.name}_datapath", "datapath", same(DATAPATH))


def _add_outputs(module: ControlModule, station: Station) -> None:
    for cycle in done_cycles(station):
        module.driven(f"done_{cycle}", None, f"valid[{cycle}]")
        module.outputs_of_task(f"done_{cycle}")
        task = bits_of("tasks", cycle * _lead(module), _lead(module))
        module.assign(f"{{done_{cycle}_tag, done_{cycle}_instruction}}", task)
    fields = _fields(station)
    for port in station.outputs.values():
        if port.values:
            port_fields = [fields[k, port.cycle] for k in port.nodes]
            parts = [bits_of("results", f.offset, f.signal.width) for f in port_fields[::-1]]
            module.driven(port.name, port.bits, f"{{{', '.join(parts)}}}")


def _fields(station: Station) -> dict[tuple[int, int], Field]:
    """The fields of the results of a datapath, by node and the cycle in which it is read."""
    graph, pipeline = station.design.datapath.graph, station.design.pipeline
    read = [(k, pipeline.read_in(name)) for name, out in graph.outputs.items() for k in out.nodes]
    live = [key for key in dict.fromkeys(read) if graph.op[key[0]] != "constant"]
    return dict(zip(live, station.design.outputs, strict=True))
