"""A netlist of cells in a simulation by Verilator, at the pins of its serial line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from featherlane.backends.fpga.netlists.read import read_netlist
from featherlane.backends.fpga.netlists.text import module_text
from featherlane.backends.fpga.serial.harness import harness
from featherlane.backends.fpga.serial.simulated import SimulatedBoards, patience_of
from featherlane.backends.fpga.simulation.simulate import compiled

MODULE = "netlist"  # what a simulated netlist is called


class LinePins(NamedTuple):
    """The ports of a top module: the clock and the line. reset: the name of a reset, None if the
    design makes its reset itself.
    """

    clock: str = "clock"
    rx: str = "rx"
    tx: str = "tx"
    reset: str | None = "reset"


def simulated_netlist(
    data: Mapping[str, Any],
    payloads: Mapping[int, int],
    sixteenths: int,
    pause: int,
    pins: LinePins,
    boards: int = 1,
) -> SimulatedBoards:
    """A simulated netlist, of one board or of many. data: the JSON that Yosys wrote after
    synthesis, or nextpnr after routing; payloads: the bytes of each kind of answer; sixteenths: of
    a clock cycle in a bit of the line; pause: as of `SerialCore`; boards: how many.

    Raises CompileError for cells that no model knows, and if Verilator is missing.
    """
    text = module_text(read_netlist(data), MODULE, boards)
    loop = harness(pins.clock, pins.rx, pins.tx, pins.reset, boards)
    library = compiled(MODULE, {f"{MODULE}.sv": text}, loop)
    patience = patience_of(payloads, sixteenths)
    return SimulatedBoards(library, sixteenths, pause, patience, boards)
