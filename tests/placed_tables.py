"""What routing leaves of the length of a bit of a serial line."""

import json

from featherlane.backends.fpga.serial import rate

IN_LOOP = "line_bit[{}].table_of_bit"
OF_OLD = "line_bit_{}"  # of designs before the generate loop


def placed_tables(length, names=IN_LOOP):
    """A netlist and a configuration with the tables of a bit's length, and a LUT beside each.
    names: of the cells, by the number of the bit.
    """
    cells, tiles = {}, []
    for n, table in rate.tables(length).items():
        attributes = {"NEXTPNR_BEL": f"X{n}/Y7/SLICEB.K{n % 2}"}
        parameters = {"INITVAL": f"{table:016b}"}
        cells[f"design.rate.{names.format(n)}"] = {
            "attributes": attributes,
            "parameters": parameters,
        }
        tables = (table, 0x1234) if n % 2 == 0 else (0x1234, table)
        rows = [f"word: SLICEB.K{k}.INIT {t:016b}" for k, t in enumerate(tables)]
        tiles += [f".tile R7C{n}:PLC2", "arc: A0 B0", *rows, ""]
    netlist = {"modules": {"top": {"cells": cells}}}
    return "\n".join(tiles), json.dumps(netlist, separators=(",", ":")).encode()
