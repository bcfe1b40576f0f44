"""A netlist of cells of the ECP5, read from the JSON that Yosys and nextpnr write.

Routing removes what needs no wire: a pin tied to a constant is open, and a parameter of the cell
has the constant. `DeviceCell.pin` puts it back: `AMUX` of "0" or "1" is the value of an open pin A,
"INV" inverts a pin, and any other open pin is pulled up, as on the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from featherlane.errors import CompileError

Bit = int | str  # the number of a net, or the constant "0", "1" or "x"
CLOCKS = ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3")  # outputs of a PLL


class DeviceCell(NamedTuple):
    """A cell: its kind, parameters, and the bits at each of its ports."""

    name: str
    kind: str
    parameters: Mapping[str, str]
    ports: Mapping[str, tuple[Bit, ...]]

    def bits(self, port: str, width: int | None = None) -> list[str]:
        """The expressions of a port's bits, from the lowest one on. width: of a port whose bits are
        ports themselves, as A0, A1 and so on.
        """
        if width is None:
            return [expression(bit) for bit in self.ports[port]]
        return [self.pin(f"{port}{n}") for n in range(width)]

    def pin(self, port: str, pulled: str = "1") -> str:
        """The expression of a pin of one bit. pulled: the value of an open one."""
        chosen = self.parameters.get(f"{port}MUX", port)
        if chosen in ("0", "1"):
            return expression(chosen)
        bits = self.ports.get(port, ())
        value = expression(bits[0] if bits else pulled)
        return inverted(value) if chosen == "INV" else value

    def bit(self, port: str) -> Bit:
        """The net or the constant at a pin of one bit; an open one is pulled up."""
        return (*self.ports.get(port, ()), "1")[0]

    def is_open(self, port: str) -> bool:
        """No wire is at a port."""
        return not self.ports.get(port)

    def number(self, parameter: str, default: int = 0) -> int:
        """A parameter as a number; unknown bits are 0."""
        text = self.parameters.get(parameter)
        if text is None:
            return default
        return int("".join("1" if bit == "1" else "0" for bit in text.removeprefix("0b")), 2)


class CellNetlist(NamedTuple):
    """The cells of a design. inputs, outputs: the net of each port of one bit."""

    name: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, Bit]
    cells: tuple[DeviceCell, ...]


ZERO, ONE = "ZERO", "ONE"  # constants of the module: of one bit, or of one for each board


def expression(bit: Bit) -> str:
    """A bit in SystemVerilog. An unknown one is 0."""
    if isinstance(bit, int):
        return f"n{bit}"
    return ONE if bit == "1" else ZERO


def inverted(value: str) -> str:
    """The expression of a bit that is the opposite of another one."""
    return {ZERO: ONE, ONE: ZERO}.get(value, f"~{value}")


def chosen(condition: str, value: str, other: str) -> str:
    """The expression of a choice between two bits, for one board as for many."""
    if condition in (ZERO, ONE):
        return value if condition == ONE else other
    if ZERO in (value, other):
        return f"({inverted(condition)} & {other})" if value == ZERO else f"({condition} & {value})"
    return f"(({condition} & {value}) | ({inverted(condition)} & {other}))"


def read_netlist(data: Mapping[str, Any]) -> CellNetlist:
    """The netlist of the module with the most cells. data: the JSON of Yosys or nextpnr.

    Clocks pass the PLL and the clock buffers as they are: the clock at the oscillator's pin is that
    of the design. Raises CompileError for ports and pads of another kind than in and out.
    """
    modules: Mapping[str, Any] = data["modules"]
    name = max(modules, key=lambda key: len(modules[key].get("cells", {})))
    module = modules[name]
    cells = [_cell(label, cell) for label, cell in module["cells"].items()]
    aliases = {source: target for cell in cells for source, target in _aliases(cell)}
    driven = {bit for cell in module["cells"].values() for bit in _driven(cell)}
    inputs, outputs = dict[str, int](), dict[str, Bit]()
    for port, facts in module["ports"].items():
        (bit,) = facts["bits"]
        if facts["direction"] == "input":
            inputs[port] = bit
            driven.add(bit)
        else:
            outputs[port] = aliases.get(bit, bit)

    def resolved(cell: DeviceCell) -> DeviceCell:
        ports = {}
        for port, bits in cell.ports.items():
            kept = (_followed(bit, aliases) for bit in bits)
            ports[port] = tuple(b for b in kept if isinstance(b, str) or b in driven)
        return cell._replace(ports=ports)

    kept = tuple(resolved(cell) for cell in cells if cell.kind not in PASSED)
    return CellNetlist(name, inputs, outputs, kept)


PASSED = ("DCCA", "EHXPLLL", "TRELLIS_IO", "TRELLIS_RAMW", "$scopeinfo", "IB", "OB")


def _cell(name: str, data: Mapping[str, Any]) -> DeviceCell:
    parameters = {key: str(value).strip() for key, value in data["parameters"].items()}
    ports = {key: tuple(bits) for key, bits in data["connections"].items()}
    return DeviceCell(name, data["type"], parameters, ports)


def _driven(cell: Mapping[str, Any]) -> Iterator[Bit]:
    """The nets that a cell drives. nextpnr tells no directions of ports that it added."""
    directions = cell.get("port_directions", {})
    for port, bits in cell["connections"].items():
        if directions.get(port) in ("output", "inout") or port in ("OFX", "Q", "F"):
            yield from bits


def _aliases(cell: DeviceCell) -> Iterator[tuple[int, Bit]]:
    """Nets that carry the value of another one, and that one, by cells that pass a signal on."""
    pairs = list[tuple[str, Bit]]()
    if cell.kind == "DCCA":
        pairs = [("CLKO", cell.bit("CLKI"))]
    elif cell.kind == "EHXPLLL":
        pairs = [*((port, cell.bit("CLKI")) for port in CLOCKS), ("LOCK", "1"), ("CLKINTFB", "0")]
    elif cell.kind == "TRELLIS_IO":
        if cell.parameters["DIR"] not in ("INPUT", "OUTPUT"):
            raise CompileError(f"{cell.name} is a pad of both directions: its model knows one")
        is_input = cell.parameters["DIR"] == "INPUT"
        pairs = [("O", cell.bit("B"))] if is_input else [("B", cell.bit("I"))]
    elif cell.kind == "TRELLIS_RAMW":
        pairs = [(out, cell.bit(pin)) for out, pin in WRITE_PORT.items()]
    for port, value in pairs:
        if not cell.is_open(port):
            source = cell.bit(port)
            assert isinstance(source, int)
            yield source, value


# The address and the data of a distributed memory's write port pass the inputs of two LUTs
WRITE_PORT = {
    **{"WADO0": "A0", "WADO1": "B0", "WADO2": "C0", "WADO3": "D0"},
    **{"WDO0": "C1", "WDO1": "A1", "WDO2": "D1", "WDO3": "B1"},
}


def _followed(bit: Bit, aliases: Mapping[int, Bit]) -> Bit:
    """The net or constant at the end of a chain of aliases."""
    while isinstance(bit, int) and bit in aliases:
        bit = aliases[bit]
    return bit
