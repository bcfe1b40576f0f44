"""Cells of a routed design on its chip: inverse dynamics of a double pendulum on a ULX3S 85F

Writes docs/from_robot_to_board.svg, and from_robot_to_board_narrow.svg for narrow screens, from
docs/placed_cells.csv, a row for each tile of the chip that is used. Without that file the design is
placed and routed first, which takes minutes.
"""

from __future__ import annotations

import csv
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib as mpl
from drawing import main
from matplotlib.figure import Figure

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgba

import featherlane as fl
from featherlane.tools.figures import BLUE, FAINT, GREEN, ORANGE, PINK

KEPT = Path(__file__).with_name("placed_cells.csv")
ROBOT, FUNCTION, BOARD = "double_pendulum", "inverse_dynamics", "ulx3s"
COLUMNS, ROWS = 127, 96  # tiles of an ECP5-85k
KINDS = {  # of cells by nextpnr's names: what they are, how many fill a tile, their hue
    "TRELLIS_COMB": ("LUTs", 8, BLUE),
    "MULT18X18D": ("multipliers", 1, ORANGE),
    "DP16KD": ("block RAM", 1, GREEN),
    "TRELLIS_IO": ("pins", 1, PINK),
}


def placed() -> Counter[tuple[str, int, int]]:
    """Cells of each kind in each tile (kind, column, row)."""
    if not KEPT.exists():
        found = _routed()
        with KEPT.open("w", newline="", encoding="utf-8") as opened:
            rows = sorted((*tile, count) for tile, count in found.items())
            csv.writer(opened, lineterminator="\n").writerows([("kind", "x", "y", "cells"), *rows])
    with KEPT.open(newline="", encoding="utf-8") as opened:
        return Counter(
            {(row["kind"], int(row["x"]), int(row["y"])): int(row["cells"])
             for row in csv.DictReader(opened)}
        )  # fmt: skip


def _routed() -> Counter[tuple[str, int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        fl.accelerator.build(fl.load(ROBOT), FUNCTION, board=BOARD, folder=folder)
        (netlist,) = Path(folder).glob("*_routed.json")
        cells = json.loads(netlist.read_text(encoding="utf-8"))["modules"]["top"]["cells"]
    found: Counter[tuple[str, int, int]] = Counter()
    for cell in cells.values():
        tile = re.match(r"X(\d+)/Y(\d+)/", cell["attributes"].get("NEXTPNR_BEL", ""))
        if cell["type"] in KINDS and tile:
            found[cell["type"], int(tile[1]), int(tile[2])] += 1
    return found


def drawn(width: float) -> Figure:
    tiles = placed()
    figure, axes = plt.subplots(figsize=(width, 0.78 * width + 0.4))
    axes.add_patch(plt.Rectangle((0, 0), COLUMNS, ROWS, fill=False, ec=FAINT, lw=1))
    handles: list[Any] = []
    for kind, (words, most, hue) in KINDS.items():
        own = [(x, y, count) for (of, x, y), count in tiles.items() if of == kind]
        side = 1.0 if most > 1 else 1.8
        for x, y, count in own:
            face = to_rgba(hue, 0.25 + 0.75 * count / most if most > 1 else 1)
            axes.add_patch(plt.Rectangle((x, y), side, side, fc=face, lw=0))
        total = sum(count for _, _, count in own)
        handles.append(plt.Rectangle((0, 0), 1, 1, fc=hue, label=f"{total:,} {words}"))
    axes.set(xlim=(-1, COLUMNS + 1), ylim=(ROWS + 1, -1), xticks=[], yticks=[])
    axes.set_xlabel(f"{COLUMNS} x {ROWS} tiles of an ECP5-85k")
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)
    columns = 4 if width > 5 else 2
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns)
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main(lambda: drawn(6.4), __file__, __doc__, lambda: drawn(4.6))
