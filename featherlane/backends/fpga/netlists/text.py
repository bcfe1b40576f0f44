"""A netlist of cells as a module of SystemVerilog: a wire for each net, a statement for each LUT,
and one process for all flip-flops with the same clock, enable and reset.

A wire has one bit, or one for each of many boards with the same bitstream and clock: logic and
flip-flops are the same expressions then, multipliers and memories other ones (`words`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from featherlane.backends.fpga.netlists import words
from featherlane.backends.fpga.netlists.block_ram import block_ram
from featherlane.backends.fpga.netlists.cells import MODELS, edge, unknown
from featherlane.backends.fpga.netlists.read import (
    ONE,
    ZERO,
    Bit,
    CellNetlist,
    DeviceCell,
    chosen,
    expression,
)
from featherlane.backends.fpga.text import indented

KINDS = {**MODELS, "DP16KD": block_ram}
CLOCKS = ("CLK", "WCK", "CLKA", "CLKB", "CLK0", "CLK1", "CLK2", "CLK3")  # pins


class Control(NamedTuple):
    """The signals that flip-flops share. reset: sets each to its value of REGSET."""

    clock: str
    enable: str
    reset: str
    is_asynchronous: bool
    enable_first: bool


def module_text(netlist: CellNetlist, name: str, boards: int = 1) -> str:
    """The module of a netlist. boards: how many; clocks alone have one bit for all. Raises
    CompileError for a cell or a feature that no model knows.
    """
    kinds = KINDS if boards == 1 else {**KINDS, **words.KINDS}
    clocks = _clocks(netlist) if boards > 1 else set[Bit]()
    groups, lines = defaultdict[Control, list[DeviceCell]](list), list[str]()
    for cell in netlist.cells:
        if boards > 1:
            _check_clocks(cell, clocks)
        if cell.kind == "TRELLIS_FF":
            if not cell.is_open("Q"):
                groups[_control(cell)].append(cell)
        elif cell.kind in kinds:
            lines += kinds[cell.kind](cell)
        else:
            raise unknown(cell, "a kind")
    for control, cells in groups.items():
        lines += (_flip_flops if boards == 1 else _flip_flops_of_boards)(control, cells)
    vector = "" if boards == 1 else f" [{boards - 1}:0]"
    types = {port: "" if net in clocks else vector for port, net in netlist.inputs.items()}
    ports = [f"input logic{bits} {port}" for port, bits in types.items()]
    ports += [f"output logic{vector} {port}" for port in netlist.outputs]
    ends = [f"assign n{net} = {port};" for port, net in netlist.inputs.items()]
    ends += [f"assign {port} = {expression(bit)};" for port, bit in netlist.outputs.items()]
    head = [f"typedef logic{vector} level;", f"localparam level {ZERO} = '0, {ONE} = '1;"]
    if boards > 1 and any(cell.kind == "MULT18X18D" for cell in netlist.cells):
        head += words.MULTIPLY
    body = indented([*head, *_nets(netlist, groups, clocks), *ends, *lines])
    return "\n".join(
        [f"module {name} (", *indented([",\n  ".join(ports)]), ");", *body, "endmodule", ""]
    )


def _clocks(netlist: CellNetlist) -> set[Bit]:
    """The nets at the clock pins of cells."""
    return {cell.bit(pin) for cell in netlist.cells for pin in CLOCKS if pin in cell.ports}


def _check_clocks(cell: DeviceCell, clocks: set[Bit]) -> None:
    """Raises CompileError for a cell that makes a clock, or computes with one: it is that of one
    board.
    """
    for port, bits in cell.ports.items():
        if port not in CLOCKS and not clocks.isdisjoint(b for b in bits if isinstance(b, int)):
            raise unknown(cell, f"a clock at its pin {port}")


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


def _nets(
    netlist: CellNetlist, groups: dict[Control, list[DeviceCell]], clocks: set[Bit]
) -> list[str]:
    """The declarations of nets: flip-flops begin with a value. clocks: nets of one bit for all
    boards.
    """
    registers = {cell.ports["Q"][0]: _is_set(cell) for cells in groups.values() for cell in cells}
    nets = {bit for cell in netlist.cells for bits in cell.ports.values() for bit in bits}
    nets |= {*netlist.inputs.values(), *netlist.outputs.values()}
    wires = sorted(bit for bit in nets - registers.keys() - clocks if isinstance(bit, int))
    rows = [f"level n{bit} = {ONE if value else ZERO};" for bit, value in registers.items()]
    rows += [f"logic n{bit};" for bit in sorted(bit for bit in clocks if isinstance(bit, int))]
    return [f"level {', '.join(f'n{bit}' for bit in wires[n : n + 12])};"
            for n in range(0, len(wires), 12)] + rows  # fmt: skip


def _flip_flops(control: Control, cells: list[DeviceCell]) -> list[str]:
    """The process of flip-flops with the same control."""
    takes = [f"n{cell.ports['Q'][0]} <= {_data(cell)};" for cell in cells]
    resets = [f"n{cell.ports['Q'][0]} <= {ONE if _is_set(cell) else ZERO};" for cell in cells]
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


def _flip_flops_of_boards(control: Control, cells: list[DeviceCell]) -> list[str]:
    """The process of flip-flops with the same control, of which each board has one."""
    if control.is_asynchronous and control.reset != ZERO:
        raise unknown(cells[0], "an asynchronous reset of one board")
    takes = []
    for cell in cells:
        q, value, start = f"n{cell.ports['Q'][0]}", _data(cell), ONE if _is_set(cell) else ZERO
        if control.enable_first:
            value = chosen(control.enable, chosen(control.reset, start, value), q)
        else:
            value = chosen(control.reset, start, chosen(control.enable, value, q))
        takes.append(f"{q} <= {value};")
    head = f"always_ff @({edge(control.clock)})"
    active = {control.enable} if control.enable_first else {control.enable, control.reset} - {ZERO}
    condition = "" if ONE in active else f" if (({' | '.join(sorted(active))}) != {ZERO})"
    return [f"{head}{condition} begin", *indented(takes), "end"]


def _data(cell: DeviceCell) -> str:
    """The bit that a flip-flop takes: from its LUT, or from outside by M."""
    from_lut = cell.parameters.get("SD", "1") == "1"
    return cell.pin("DI" if from_lut else "M")
