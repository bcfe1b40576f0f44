"""Which clock do whole designs reach on a board with an ECP5, what do they take beside their
estimates, and how many states does the routed netlist compute right at its pins?

Each function of each robot as a bitstream: at the smallest interval that fits, or at those of
--intervals. Aimed at 60 MHz; what was routed once is read from the cache, with its seconds. With
--batch the routed netlist is simulated at the pins of its serial line, and so many states compared
to the bit: 0.01 to 0.07 s a state for a pendulum, a second or more for an arm. With --folders the
rows are those of bitstreams that were built before. --datapath tells of which kind all are. --csv
keeps the rows of other designs in a file.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path
from typing import Any

import options

import featherlane as fl
from featherlane.accelerators import bitstreams
from featherlane.accelerators.bitstreams import Bitstream
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.errors import CompileError

BOARD = "ulx3s"
SYSTEM = "Next Generation"  # in the version of a nextpnr that is no package of PyPI
KEY = "robot", "function", "board", "interval", "aim MHz"  # of a design
Row = dict[str, Any]


def main() -> int:
    args = options.parser(
        __doc__,
        robots=["double_pendulum"],
        functions={*SHARES},
        intervals=(),
        batch=0,
        folders=(),
        datapath="shared",
        json=None,
        csv=None,
    ).parse_args()
    rows: list[Row] = []
    for row in map(of_folder, args.folders) if args.folders else built_rows(args):
        if args.datapath == "memories":
            row["robot"] += " (operand memories)"
        rows.append(row)
        if len(rows) == 1:
            print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
        print(f"| {' | '.join(map(str, row.values()))} |", flush=True)
    options.write_json(args.json, rows, board=BOARD)
    if args.csv is not None:
        merge(args.csv, [row for row in rows if isinstance(row["MHz"], float)])
    return 0


def built_rows(args: Any) -> Any:
    """The rows of the robots, functions and intervals that are asked for."""
    for robot in args.robots:
        for function in sorted(args.functions, key=[*SHARES].index):
            for interval in args.intervals or ["auto"]:
                design = function, interval, args.datapath
                yield of_design(robot, design, args.batch or 0)


def of_design(robot: str, what: tuple[str, int | str, str], states: int) -> Row:
    """The row of a design, by its function, interval and kind of datapath; one that is refused or
    not routed has the reason in the place of its clock.
    """
    function, interval, datapath = what
    choices = {"board": BOARD, "interval": interval, "datapath": datapath}
    try:
        design = fl.accelerator(options.loaded(robot), function, **choices)
        with tempfile.TemporaryDirectory() as folder:
            return figures(design.bitstream(folder, verify=states))
    except CompileError as error:
        return {"robot": robot, "function": function, "interval": interval, "MHz": str(error)}


def of_folder(folder: str) -> Row:
    """The row of a bitstream that was built before."""
    return figures(bitstreams.read(folder))


def figures(built: Bitstream) -> Row:
    """The row of a bitstream."""
    names = sorted([*SHARES, "functions"], key=len, reverse=True)
    function = next(name for name in names if built.name.endswith(name))
    cells, needs, pins = built.cells, built.estimate, built.pins
    tools = "".join(built.tools[1:])
    return {
        "robot": built.name.removesuffix(f"_{function}"),
        "function": function,
        "board": built.board.key,
        "interval": built.interval,
        "aim MHz": round(built.aim),
        "MHz": round(built.reached, 2),
        "million states/s": round(built.reached / built.interval, 1),
        "latency us": round(built.latency / built.reached, 2),
        "multipliers estimated": round(needs.dsps),
        "multipliers": cells.get("MULT18X18D", 0),
        "LUTs estimated": round(needs.luts),
        "LUTs": cells["TRELLIS_COMB"],
        "flip-flops estimated": round(needs.ffs),
        "flip-flops": cells["TRELLIS_FF"],
        "block RAM": cells.get("DP16KD", 0),
        "seconds of a processor for placement and routing": round(built.seconds[1]),
        "nextpnr": "" if not tools else "native" if SYSTEM in tools else "YoWASP",
        "states at the pins": pins.states if pins else "",
        "states equal": pins.equal if pins else "",
        "seconds of a processor for these": round(pins.seconds) if pins else "",
    }


def merge(file: Path, rows: list[Row]) -> None:
    """Writes rows into a table, in the place of those of the same designs, or behind the others."""
    table = {tuple(map(str, (row[name] for name in KEY))): row for row in _read(file)}
    table |= {tuple(map(str, (row[name] for name in KEY))): row for row in rows}
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, [*next(iter(table.values()))], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table.values())


def _read(file: Path) -> list[Row]:
    """The rows of a table; none if there is no file."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    sys.exit(main())
