"""The top module of a design on a board: the PLL, a reset, and the design behind its serial line.

One clock runs everything: that of the PLL. What comes from outside, the pin of the serial port and
the PLL's lock, passes two registers of this clock before it is read. Synthesis takes the PLL, any
simulation the oscillator as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from featherlane.backends.fpga import boards
from featherlane.backends.fpga.bitstream.pll import ClockDivisors
from featherlane.backends.fpga.boards import CircuitBoard
from featherlane.backends.fpga.module import Module, same
from featherlane.backends.fpga.statements import OPEN, Alternative, Assign, Instance, Waived

PLL = "clock_of_board"  # the name of the cell
BLINK = 25  # bits of the counter whose last one the LED shows: a second, more or less
RESET = 3  # registers between the lock of the PLL and the end of the reset
INSTANCE = "circuit"
FIXED: Mapping[
    str, int | str
] = {  # of the PLL; the currents are those for a loop without a fraction
    "PLLRST_ENA": '"DISABLED"',
    "INTFB_WAKE": '"DISABLED"',
    "STDBY_ENABLE": '"DISABLED"',
    "DPHASE_SOURCE": '"DISABLED"',
    "OUTDIVIDER_MUXA": '"DIVA"',
    "OUTDIVIDER_MUXB": '"DIVB"',
    "CLKOP_ENABLE": '"ENABLED"',
    "CLKOP_FPHASE": 0,
    "CLKOS_ENABLE": '"ENABLED"',
    "CLKOS_FPHASE": 0,
    "FEEDBK_PATH": '"INT_OP"',
}
IDLE = ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP", "PHASELOADREG")
ANALOG = 'ICP_CURRENT="12", LPF_RESISTOR="8", MFG_ENABLE_FILTEROPAMP="1", MFG_GMCREF_SEL="2"'


def top(name: str, design: str, clock: ClockDivisors, board: CircuitBoard) -> Module:
    """Returns the top module. design: the module of the design, with the ports clock, reset
    (synchronous), rx and tx; clock: at the start, before routing says which one is reached.
    """
    comment = (
        f"{design} on a board. All registers have one clock, that of the PLL; rx and locked, which "
        "come from outside of it, pass two registers before anything reads them."
    )
    module = Module(name, comment)
    module.input(boards.OSCILLATOR, boards.RECEIVE)
    module.output(boards.TRANSMIT, boards.LED, *board.high)
    _add_clock(module, clock)
    for port in board.high:
        module.assign(port, "1'b1")
    module.instance(design, INSTANCE, same(["clock", "reset", boards.RECEIVE, boards.TRANSMIT]))
    return module


def _add_clock(module: Module, clock: ClockDivisors) -> None:
    """The PLL, the reset and the LED."""
    module.declare("clock", "locked", "reset", "returned")
    module.declare("settled", bits=RESET, value="'0")
    module.declare("count", bits=BLINK, value="'0")
    ports = {
        "CLKI": boards.OSCILLATOR, "CLKFB": "returned", "CLKINTFB": "returned",
        "CLKOS": "clock", "LOCK": "locked",
        **dict.fromkeys(IDLE, "1'b0"), "PLLWAKESYNC": "1'b0", "ENCLKOP": "1'b0", "ENCLKOS": "1'b0",
    }  # fmt: skip
    parameters = {**FIXED, **clock.parameters}
    pll = Instance("EHXPLLL", PLL, ports, parameters, {}, ANALOG)
    passed = {"returned": boards.OSCILLATOR, "clock": "returned", "locked": "1'b1"}
    others = tuple(Assign(wire, value) for wire, value in passed.items())
    cell = Waived("PINMISSING", OPEN, (pll,))
    module.body.append(Alternative("SYNTHESIS", (cell,), others))
    module.assign("reset", f"!settled[{RESET - 1}]")
    module.assign(boards.LED, f"count[{BLINK - 1}]")
    module.clocked(f"settled <= {{settled[{RESET - 2}:0], locked}};", "count <= count + 1'b1;")


def constraints(board: CircuitBoard) -> str:
    """The pins and the oscillator, in Lattice's format (LPF)."""
    rows = []
    for port, site in [*((port, board.pins[port]) for port in boards.PINS), *board.high.items()]:
        rows.append(f'LOCATE COMP "{port}" SITE "{site}";')
        rows.append(f'IOBUF PORT "{port}" IO_TYPE={board.io_types[port]};')
    rows.append(f'FREQUENCY PORT "{boards.OSCILLATOR}" {board.oscillator:g} MHZ;')
    return "\n".join([f"# {board.name}", *rows, ""])
