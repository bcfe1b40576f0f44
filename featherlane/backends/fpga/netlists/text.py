"""A netlist of cells as a module of SystemVerilog: a wire for each net, a statement for each LUT,
and one process for all flip-flops with the same clock, enable and reset.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from featherlane.backends.fpga.netlists.block_ram import block_ram
from featherlane.backends.fpga.netlists.cells import MODELS, ONE, ZERO, edge, unknown
from featherlane.backends.fpga.netlists.read import CellNetlist, DeviceCell, expression
from featherlane.backends.fpga.text import indented

KINDS = {**MODELS, "DP16KD": block_ram}


class Control(NamedTuple):
    """The signals that flip-flops share. reset: sets each to its value of REGSET."""

    clock: str
    enable: str
    reset: str
    is_asynchronous: bool
    enable_first: bool


def module_text(netlist: CellNetlist, name: str) -> str:
    """The module of a netlist. Raises CompileError for a cell or a feature that no model knows."""
    groups, lines = defaultdict[Control, list[DeviceCell]](list), list[str]()
    for cell in netlist.cells:
        if cell.kind == "TRELLIS_FF":
            if not cell.is_open("Q"):
                groups[_control(cell)].append(cell)
        elif cell.kind in KINDS:
            lines += KINDS[cell.kind](cell)
        else:
            raise unknown(cell, "a kind")
    for control, cells in groups.items():
        lines += _flip_flops(control, cells)
    ports = [f"input logic {port}" for port in netlist.inputs]
    ports += [f"output logic {port}" for port in netlist.outputs]
    ends = [f"assign n{net} = {port};" for port, net in netlist.inputs.items()]
    ends += [f"assign {port} = {expression(bit)};" for port, bit in netlist.outputs.items()]
    body = indented([*_nets(netlist, groups), *ends, *lines])
    return "\n".join(
        [f"module {name} (", *indented([",\n  ".join(ports)]), ");", *body, "endmodule", ""]
    )


def _control(cell: DeviceCell) -> Control:
    mode = cell.parameters.get("SRMODE", "LSR_OVER_CE")
    return Control(
        cell.pin("CLK"),
        cell.pin("CE"),
        cell.pin("LSR", "0"),
        mode == "ASYNC",
        mode == "CE_OVER_LSR",
    )


def _is_set(cell: DeviceCell) -> bool:
    """The value of a flip-flop at the start, and after a reset."""
    return cell.parameters.get("REGSET", "RESET") == "SET"


def _nets(netlist: CellNetlist, groups: dict[Control, list[DeviceCell]]) -> list[str]:
    """The declarations of nets: flip-flops begin with a value."""
    registers = {cell.ports["Q"][0]: _is_set(cell) for cells in groups.values() for cell in cells}
    nets = {bit for cell in netlist.cells for bits in cell.ports.values() for bit in bits}
    nets |= {*netlist.inputs.values(), *netlist.outputs.values()}
    wires = sorted(bit for bit in nets - registers.keys() if isinstance(bit, int))
    rows = [f"logic n{bit} = 1'b{int(value)};" for bit, value in registers.items()]
    return [f"logic {', '.join(f'n{bit}' for bit in wires[n : n + 12])};"
            for n in range(0, len(wires), 12)] + rows  # fmt: skip


def _flip_flops(control: Control, cells: list[DeviceCell]) -> list[str]:
    """The process of flip-flops with the same control."""
    takes = [f"n{cell.ports['Q'][0]} <= {_data(cell)};" for cell in cells]
    resets = [f"n{cell.ports['Q'][0]} <= 1'b{int(_is_set(cell))};" for cell in cells]
    head = f"always_ff @({edge(control.clock)}"
    if control.reset == ZERO:
        condition = "" if control.enable == ONE else f" if ({control.enable})"
        return [f"{head}){condition} begin", *indented(takes), "end"]
    if control.is_asynchronous:
        head += f" or {edge(control.reset)}"
    outer, inner = (f"if ({control.reset})", f"else if ({control.enable})")
    body = [f"{outer} begin", *indented(resets), f"end {inner} begin", *indented(takes), "end"]
    if control.enable_first:
        body = [f"if ({control.enable}) begin", *indented([
            f"{outer} begin", *indented(resets), "end else begin", *indented(takes), "end"
        ]), "end"]  # fmt: skip
    return [f"{head}) begin", *indented(body), "end"]


def _data(cell: DeviceCell) -> str:
    """The bit that a flip-flop takes: from its LUT, or from outside by M."""
    from_lut = cell.parameters.get("SD", "1") == "1"
    return cell.pin("DI" if from_lut else "M")
