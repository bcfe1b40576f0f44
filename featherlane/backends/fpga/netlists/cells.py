"""Models of the ECP5's cells, as statements of SystemVerilog for each cell of a netlist.

They follow the descriptions of the cells in Lattice's documents (FPGA-TN-02200, -02204, -02205) and
of their configuration in Project Trellis; time is that of the clock alone. A feature that no model
knows raises CompileError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from featherlane.backends.fpga.netlists.read import (
    ONE,
    ZERO,
    DeviceCell,
    chosen,
    expression,
    inverted,
)
from featherlane.errors import CompileError

Statements = list[str]


def unknown(cell: DeviceCell, what: str) -> CompileError:
    """The error of a feature that no model knows."""
    return CompileError(f"cell {cell.name} ({cell.kind}): {what}, which its model does not know")


class Carry(NamedTuple):
    """Half a CCU2C: the statements of a signal, and the expressions of the sum and the carry."""

    lines: Statements
    total: str
    carry: str


# Logic


def lookup(table: int, inputs: list[str]) -> str:
    """The expression of a table of 2^n bits whose address is inputs, from the lowest bit on."""
    if not inputs:
        return ONE if table & 1 else ZERO
    *rest, last = inputs
    half = 1 << len(rest)
    low, high = table & ((1 << half) - 1), table >> half
    if last in (ZERO, ONE):
        return lookup(high if last == ONE else low, rest)
    return _halves(last, low, high, half, rest)


def _halves(last: str, low: int, high: int, half: int, rest: list[str]) -> str:
    """The expression of two halves of a table, of which `last` chooses one."""
    full = (1 << half) - 1
    if low == high:
        return lookup(low, rest)
    if low ^ high == full:
        inner = lookup(low, rest)
        return {ZERO: last, ONE: inverted(last)}.get(inner, f"({last} ^ {inner})")
    if low == 0:
        return _joined("&", last, lookup(high, rest))
    if high == 0:
        return _joined("&", inverted(last), lookup(low, rest))
    if low == full:
        return _joined("|", inverted(last), lookup(high, rest))
    if high == full:
        return _joined("|", last, lookup(low, rest))
    return chosen(last, lookup(high, rest), lookup(low, rest))


def _joined(operation: str, left: str, right: str) -> str:
    """Two conditions, of which the second may be a constant that changes nothing."""
    neutral = ONE if operation == "&" else ZERO
    absorbing = ZERO if operation == "&" else ONE
    if right == neutral:
        return left
    return absorbing if right == absorbing else f"({left} {operation} {right})"


def assigned(cell: DeviceCell, port: str, value: str) -> Statements:
    """The statement that drives a port, if a net is there."""
    if cell.is_open(port):
        return []
    return [f"assign {expression(cell.ports[port][0])} = {value};"]


def inputs(cell: DeviceCell, suffix: str = "") -> list[str]:
    return [cell.pin(f"{name}{suffix}") for name in "ABCD"]


def _lut4(cell: DeviceCell) -> Statements:
    return assigned(cell, "Z", lookup(cell.number("INIT"), inputs(cell)))


def _pfumx(cell: DeviceCell) -> Statements:
    value = chosen(cell.pin("C0"), cell.pin("ALUT"), cell.pin("BLUT"))
    return assigned(cell, "Z", value)


def _l6mux21(cell: DeviceCell) -> Statements:
    return assigned(cell, "Z", chosen(cell.pin("SD"), cell.pin("D1"), cell.pin("D0")))


def carry(table: int, pins: list[str], injects: bool, carry_in: str, name: str) -> Carry:
    """Half a CCU2C: a table of four inputs propagates the carry, and that of its first two in its
    lowest four bits generates one. injects: the cell has no sum; name: of a new signal.
    """
    signal, generate = f"propagate_{name}", lookup(table & 0xF, pins[:2])
    lines = [f"level {signal};", f"assign {signal} = {lookup(table, pins)};"]
    total = signal if injects else f"{signal} ^ {carry_in}"
    return Carry(lines, total, chosen(signal, carry_in, ZERO if injects else generate))


def _ccu2c(cell: DeviceCell) -> Statements:
    """Both halves, of which the first one's carry is the second one's."""
    lines, carry_in = [], cell.pin("CIN")
    name = expression((cell.ports.get("COUT") or cell.ports["S1"])[0])
    for half in "01":
        injects = cell.parameters.get(f"INJECT1_{half}", "YES") == "YES"
        table = cell.number(f"INIT{half}")
        carried = carry(table, inputs(cell, half), injects, carry_in, f"{half}_{name}")
        lines += [*carried.lines, *assigned(cell, f"S{half}", carried.total)]
        if half == "0":
            carry_in = f"carry_{name}"
            lines += [f"level {carry_in};", f"assign {carry_in} = {carried.carry};"]
        else:
            lines += assigned(cell, "COUT", carried.carry)
    return lines


def comb(cell: DeviceCell) -> Statements:
    """A LUT of a routed slice, with its part of a carry chain, a memory or a multiplexer."""
    mode, table = cell.parameters.get("MODE", "LOGIC"), cell.number("INITVAL")
    if mode == "RAMW_BLOCK":
        return []
    if mode == "DPRAM":
        data = [cell.pin(name) for name in ("WD", "WCK", "WRE")]
        return _memory(cell, table, data, cell.bits("WAD", 4), inputs(cell), cell.ports["F"][0])
    if mode == "CCU2":
        injects = cell.parameters["CCU2_INJECT1"] == "YES"
        nets = (*cell.ports.get("F", ()), *cell.ports.get("FCO", ()))
        if not nets:
            return []
        name = expression(nets[0])
        carried = carry(table, inputs(cell), injects, cell.pin("FCI", "0"), name)
        ends = assigned(cell, "F", carried.total), assigned(cell, "FCO", carried.carry)
        return [*carried.lines, *ends[0], *ends[1]]
    if mode != "LOGIC":
        raise unknown(cell, f"mode {mode}")
    value = lookup(table, inputs(cell))
    if cell.is_open("OFX"):
        return assigned(cell, "F", value)
    if not cell.is_open("FXA"):
        wide = chosen(cell.pin("M"), cell.pin("FXB"), cell.pin("FXA"))
    else:
        wide = chosen(cell.pin("M"), cell.pin("F1"), value)
    return [*assigned(cell, "F", value), *assigned(cell, "OFX", wide)]


# Memories of 16 words


def _memory(
    cell: DeviceCell, table: int, data: list[str], write: list[str], read: list[str], out: int | str
) -> Statements:
    """A memory of 16 bits. data: what is written, the clock and the enable."""
    name, (value, clock, enable) = f"bits_{expression(out)}", data
    return [
        f"logic [15:0] {name} = 16'h{table:x};",
        f"assign {expression(out)} = {name}[{vector(read)}];",
        f"always_ff @({edge(clock)}) if ({enable}) {name}[{vector(write)}] <= {value};",
    ]


def words_at_start(cell: DeviceCell) -> list[int]:
    """The first contents of each bit of a memory of 16 words of 4 bits, which stand in INITVAL one
    behind the other.
    """
    first = cell.number("INITVAL")
    return [sum((first >> 4 * word + n & 1) << word for word in range(16)) for n in range(4)]


def _dpr16x4(cell: DeviceCell) -> Statements:
    lines, write, read = [], cell.bits("WAD"), cell.bits("RAD")
    control = [cell.pin("WCK"), cell.pin("WRE")]
    columns = zip(words_at_start(cell), cell.ports["DO"], cell.bits("DI"), strict=True)
    for table, bit, value in columns:
        lines += _memory(cell, table, [value, *control], write, read, bit)
    return lines


def vector(bits: Iterable[str]) -> str:
    """Bits from the lowest one on as a vector."""
    return f"{{{', '.join(reversed([*bits]))}}}"


def edge(clock: str) -> str:
    """The edge at which registers of a clock change."""
    return f"negedge {clock[1:]}" if clock.startswith("~") else f"posedge {clock}"


# Multipliers


def _multiplier(cell: DeviceCell) -> Statements:
    """A product of 18 x 18 bits, each signed if SIGNEDA or SIGNEDB is 1, and its registers."""
    name = f"product_{expression(next(b for n in range(36) for b in cell.ports.get(f'P{n}', ())))}"
    for source in ("SOURCEA", "SOURCEB"):
        if cell.pin(source) == ONE:
            raise unknown(cell, f"{source} from the chain of shifts")
    lines = [f"logic signed [18:0] {name}_a, {name}_b;", f"logic signed [37:0] {name};"]
    for port in "AB":
        bits = vector(cell.bits(port, 18))
        lines.append(f"logic [17:0] {name}_{port}; assign {name}_{port} = {bits};")
        value = f"$signed({{{cell.pin(f'SIGNED{port}')} & {name}_{port}[17], {name}_{port}}})"
        lines += _staged(cell, f"REG_INPUT{port}", f"{name}_{port.lower()}", value)
    lines += [f"logic signed [37:0] {name}_0, {name}_1;", f"assign {name}_0 = {name}_a * {name}_b;"]
    lines += _staged(cell, "REG_PIPELINE", f"{name}_1", f"{name}_0")
    lines += _staged(cell, "REG_OUTPUT", name, f"{name}_1")
    return lines + [s for n in range(36) for s in assigned(cell, f"P{n}", f"{name}[{n}]")]


def _staged(cell: DeviceCell, register: str, target: str, value: str) -> Statements:
    """A value behind a register of the cell, if that is in use."""
    clock = cell.parameters.get(f"{register}_CLK", "NONE")
    if clock == "NONE":
        return [f"assign {target} = {value};"]
    enable = cell.pin(cell.parameters.get(f"{register}_CE", "CE0"))
    reset = cell.pin(cell.parameters.get(f"{register}_RST", "RST0"), "0")
    head, takes = f"always_ff @({edge(cell.pin(clock))}", f"if ({enable}) {target} <= {value};"
    if reset == ZERO:
        return [f"{head}) {takes}"]
    if cell.parameters.get("RESETMODE", "SYNC") == "ASYNC":
        head += f" or {edge(reset)}"
    return [f"{head}) if ({reset}) {target} <= '0; else {takes}"]


MODELS: dict[str, Callable[[DeviceCell], Statements]] = {
    "LUT4": _lut4,
    "PFUMX": _pfumx,
    "L6MUX21": _l6mux21,
    "CCU2C": _ccu2c,
    "TRELLIS_COMB": comb,
    "TRELLIS_DPR16X4": _dpr16x4,
    "MULT18X18D": _multiplier,
}
