"""The rate of the serial line of a routed design: the tables that have the length of a bit are set
in its configuration and in its netlist, as the divisors of the PLL are.
"""

from __future__ import annotations

import json
import re
from typing import Any

from featherlane.backends.fpga.serial.rate import BLOCK, bit_of, tables
from featherlane.errors import CompileError

PLACE = re.compile(r"X(\d+)/Y(\d+)/(SLICE[ABCD]\.K[01])")  # of a table, as nextpnr names it


def with_line_rate(configuration: str, netlist: bytes, length: int) -> tuple[str, bytes]:
    """Returns the configuration, in Trellis' text format, and the netlist, as nextpnr writes it, of
    a routed design with another length of a bit. length: in sixteenths of a clock cycle.

    Raises CompileError for a design that has not one table for each bit of the length.
    """
    data = json.loads(netlist)
    wanted, cells = tables(length), dict[int, Any]()
    for module in data.get("modules", {}).values():
        for name, cell in module.get("cells", {}).items():
            if (bit := bit_of(name)) is not None:
                cells[bit] = cell
    if cells.keys() != wanted.keys():
        raise CompileError(
            f"the netlist has the tables {sorted(cells)} of a bit's length: wanted a cell in "
            f"{BLOCK}[0] to {BLOCK}[{len(wanted) - 1}]"
        )
    for bit, cell in cells.items():
        cell["parameters"]["INITVAL"] = f"{wanted[bit]:016b}"
        configuration = _with_table(configuration, cell["attributes"]["NEXTPNR_BEL"], wanted[bit])
    return configuration, json.dumps(data, separators=(",", ":")).encode()


def _with_table(configuration: str, place: str, table: int) -> str:
    """The configuration with another table of four inputs at a place."""
    match = PLACE.fullmatch(place)
    if match is None:
        raise CompileError(f"the table of a bit's length is at {place!r}: wanted one of a slice")
    x, y, slot = match.groups()
    word = rf"(^\.tile R{y}C{x}:PLC2\n(?:.+\n)*?word: {re.escape(slot)}\.INIT )[01]{{16}}$"
    changed, count = re.subn(word, rf"\g<1>{table:016b}", configuration, flags=re.MULTILINE)
    if count != 1:
        raise CompileError(f"the configuration has {count} tables at {place}: wanted one")
    return changed
