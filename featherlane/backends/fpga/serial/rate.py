"""The length of a bit of the line, in a module apart.

The clock of a routed design is known only after routing, and a serial port makes no rate that
follows it. So the length stands in sixteen tables of the device, of constants, which are set when
the clock is: the line has the rate that was asked for at any clock, within half a sixteenth of a
cycle a bit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.statements import Alternative, Assign, GenerateLoop, Instance
from featherlane.errors import shown

ONE = 16  # units of a bit's length in a clock cycle
SLOWEST, FASTEST = 4095, 4  # clock cycles of a bit
BITS = 16  # of its length
PORT = "bit_time"
BLOCK = "line_bit"  # of the generate loop that has the table of each bit
CELL = re.compile(rf"(?:^|\.){BLOCK}(?:_|\[)(\d+)(?:\]\.\w+)?$")
ALL = {False: 0, True: 0xFFFF}  # the table of four inputs that is always 0 or 1


def sixteenths(clock: float, baud: float) -> int:
    """Sixteenths of a clock cycle in a bit. clock, baud: in Hz. Raises ValueError for a rate that
    the clock cannot make.
    """
    cycles = clock / baud
    if not FASTEST <= cycles <= SLOWEST:
        raise ValueError(
            f"baud is {shown(baud)}: wanted {clock / SLOWEST:.0f} to {clock / FASTEST:.0f}, a "
            f"clock of {clock / 1e6:g} MHz over {SLOWEST} to {FASTEST} cycles"
        )
    return round(ONE * cycles)


def tables(length: int) -> Mapping[int, int]:
    """The table of each bit of a length. length: of a bit of the line, in sixteenths."""
    return {n: ALL[bool(length >> n & 1)] for n in range(BITS)}


def bit_of(cell: str) -> int | None:
    """The number of the bit that a cell of a routed design has the table of, None for any other
    cell. Designs of before the loop have cells `line_bit_0` and so on.
    """
    match = CELL.search(cell)
    return int(match[1]) if match else None


def rate(name: str, length: int) -> Module:
    """The module of the length of a bit: tables of a device with LUT4 in synthesis, else a number.
    length: in sixteenths, until a bitstream says another one.
    """
    comment = (
        "A bit of the line in sixteenths of a clock cycle. Tables of constants have it in "
        "synthesis: they are set to another rate without routing again."
    )
    module = Module(name, comment)
    module.output(PORT, bits=BITS)
    module.constant("LENGTH", f"{BITS}'d{length}", bits=BITS)
    ports = {**dict.fromkeys("ABCD", "1'b0"), "Z": f"{PORT}[n]"}
    init = f"LENGTH[n] ? 16'h{ALL[True]:04x} : 16'h{ALL[False]:04x}"
    cell = Instance("LUT4", "table_of_bit", ports, {"INIT": init}, {}, "keep")
    loop = GenerateLoop("n", BITS, BLOCK, (cell,))
    module.body = [Alternative("SYNTHESIS", (loop,), (Assign(PORT, "LENGTH"),))]
    return module
