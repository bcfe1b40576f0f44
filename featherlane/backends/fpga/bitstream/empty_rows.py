"""Rows of a device that stay without logic.

nextpnr packs the tiles of a design full, where wires run out long before the device is full. In the
empty rows stand cells without wires, whose places are fixed: logic spreads over the other rows, and
routing has the wires of all (docs/from_robot_to_board.md has what this gains).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from featherlane.backends.fpga.devices import Fabric

PREFIX = "empty_row$"
KIND = "LUT4"
PLACES = tuple(f"SLICE{name}.K{n}" for name in "ABCD" for n in (0, 1))  # LUTs of a tile
LUTS = {KIND: 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}  # of the cells that Yosys writes
# Of each so many rows one stays empty, for designs of up to this part of the LUTs. Small designs
# are routed without, at a faster clock.
SPACING = ((0.08, 0), (0.3, 2), (0.45, 3), (1.0, 0))


def with_empty_rows(netlist: Mapping[str, Any], top: str, fabric: Fabric) -> dict[str, Any]:
    """Returns a netlist, as Yosys writes it, with cells that keep rows of the device empty, as many
    rows as the design leaves room for.
    """
    module = netlist["modules"][top]
    used = sum(LUTS.get(cell["type"], 0) for cell in module["cells"].values())
    cells = {
        f"{PREFIX}X{column}_Y{row}_{name}": _cell(f"X{column}/Y{row}/{name}")
        for row in _empty_rows(used, fabric)
        for column in fabric.columns
        for name in PLACES
    }
    filled = {**module, "cells": {**module["cells"], **cells}}
    return {**netlist, "modules": {**netlist["modules"], top: filled}}


def _empty_rows(used: int, fabric: Fabric) -> list[int]:
    """The rows that stay empty beside a design of so many LUTs."""
    whole = len(PLACES) * len(fabric.columns) * len(fabric.rows)
    step = next((step for part, step in SPACING if used <= part * whole), 0)
    return list(fabric.rows[::step]) if step else []


def _cell(place: str) -> dict[str, Any]:
    """A LUT without wires at a place. Its bits are those of one that is not used."""
    ports = dict.fromkeys("ABCD", "input") | {"Z": "output"}
    return {
        "hide_name": 1,
        "type": KIND,
        "parameters": {"INIT": "1" * 16},
        "attributes": {"BEL": place},
        "port_directions": ports,
        "connections": {port: [] for port in ports},
    }


def without_empty_rows(netlist: bytes) -> tuple[bytes, int]:
    """Returns a netlist, as nextpnr writes it, without the cells of empty rows, and how many
    these are.
    """
    data = json.loads(netlist)
    removed = 0
    for module in data["modules"].values():
        cells = module.get("cells", {})
        kept = {name: cell for name, cell in cells.items() if not name.startswith(PREFIX)}
        removed += len(cells) - len(kept)
        module["cells"] = kept
    return (json.dumps(data).encode() if removed else netlist), removed
