"""What routing leaves of the length of a bit of a serial line."""

import json

from featherlane.backends.fpga.serial import rate


def placed_tables(length):
    """A netlist and a configuration with the tables of a bit's length, and a LUT beside each."""
    cells, tiles = {}, []
    for n, (name, table) in enumerate(rate.tables(length).items()):
        attributes = {"NEXTPNR_BEL": f"X{n}/Y7/SLICEB.K{n % 2}"}
        parameters = {"INITVAL": f"{table:016b}"}
        cells[f"design.rate.{name}"] = {"attributes": attributes, "parameters": parameters}
        tables = (table, 0x1234) if n % 2 == 0 else (0x1234, table)
        rows = [f"word: SLICEB.K{k}.INIT {t:016b}" for k, t in enumerate(tables)]
        tiles += [f".tile R7C{n}:PLC2", "arc: A0 B0", *rows, ""]
    netlist = {"modules": {"top": {"cells": cells}}}
    return "\n".join(tiles), json.dumps(netlist, separators=(",", ":")).encode()
