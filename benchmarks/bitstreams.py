"""Which clock do whole designs reach on a board with an ECP5, what do they take beside their
estimates, and how many states does the routed netlist compute right at its pins?

Each function of each robot as a bitstream: at the smallest interval that fits, or at those of
--intervals. Aimed at 60 MHz; what was routed once is read from the cache, with its seconds. With
--batch the routed netlist is simulated at the pins of its serial line, and so many states compared
to the bit: 1,000 take seconds to two minutes, and the netlist's compilation up to three minutes.
With --folders the rows are those of bitstreams that were built before. The tables are printed as
docs/from_robot_to_board.md has them; --csv writes all figures, and keeps the rows of other designs
in the file.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterable, Iterator
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
KEY = "robot", "function", "datapath", "board", "interval", "aim MHz"  # of a design
SECONDS = "seconds of a processor for placement and routing"
PINS = "states at the pins", "states equal"
CELLS = "multipliers", "LUTs", "flip-flops"  # with an estimate beside what was routed
SPEED = (
    "robot, function", "datapath", "interval", "MHz routed", "MHz of the board", "million states/s",
    "latency, us", "seconds", "right at the pins",
)  # fmt: skip
TAKEN = (
    "robot, function", "interval",
    *(f"{cell} {how}" for cell in CELLS for how in ("estimated", "routed")), "block RAM",
)  # fmt: skip
Row = dict[str, Any]


def main() -> int:
    args = options.parser(
        __doc__,
        robots=["double_pendulum"],
        functions={*SHARES},
        intervals=(),
        batch=0,
        folders=(),
        datapath=None,
        json=None,
        csv=None,
    ).parse_args()
    rows: list[Row] = []
    for row in of_folders(args) if args.folders else built_rows(args):
        rows.append(row)
        if len(rows) == 1:
            print(head(SPEED))
        print(speed_line(row) if "LUTs" in row else row, flush=True)
    print(f"\n{head(TAKEN)}")
    for row in rows:
        if "LUTs" in row:
            print(cells_line(row))
    options.write_json(args.json, rows, board=BOARD)
    if args.csv is not None:
        merge(args.csv, [row for row in rows if "LUTs" in row])
    return 0


def head(names: tuple[str, ...]) -> str:
    """The head of a table on the page."""
    return f"{line(names)}\n|{'---|' * len(names)}"


def line(cells: Iterable[object]) -> str:
    """A line of a table on the page."""
    return f"| {' | '.join(map(str, cells))} |"


def speed_line(row: Row) -> str:
    """A row of the table of speeds on the page."""
    states, equal = (row[name] for name in PINS)
    return line(
        (
            f"{row['robot']}, `{row['function']}`",
            *(row[name] for name in ("datapath", "interval", "MHz", "clock MHz")),
            *(row[name] for name in ("million states/s", "latency us", SECONDS)),
            f"{int(equal):,} of {int(states):,}" if states else "",
        )
    )


def cells_line(row: Row) -> str:
    """A row of the table of cells on the page."""
    counts = [row[name] for cell in CELLS for name in (f"{cell} estimated", cell)]
    name = f"{row['robot']}, `{row['function']}`"
    return line((name, row["interval"], *(f"{int(x):,}" for x in counts), row["block RAM"]))


def built_rows(args: Any) -> Iterator[Row]:
    """Yields the rows of the robots, functions and intervals that are asked for."""
    for robot in args.robots:
        for function in sorted(args.functions, key=[*SHARES].index):
            for interval in args.intervals or ["auto"]:
                design = function, interval, args.datapath
                yield of_design(robot, design, args.batch or 0)


def of_design(robot: str, what: tuple[str, int | str, str | None], states: int) -> Row:
    """The row of a design, by its function, interval and kind of datapath, None for what fits; one
    that is refused or not routed has the reason instead of figures.
    """
    function, interval, datapath = what
    choices = {"board": BOARD, "interval": interval, "datapath": datapath}
    try:
        design = fl.accelerator(options.loaded(robot), function, **choices)
        with tempfile.TemporaryDirectory() as folder:
            return figures(design.bitstream(folder, verify=states))
    except CompileError as error:
        return {"robot": robot, "function": function, "interval": interval, "refused": str(error)}


def of_folders(args: Any) -> Iterator[Row]:
    """Yields the rows of bitstreams that were built before."""
    for folder in args.folders:
        yield figures(bitstreams.read(folder))


def figures(built: Bitstream) -> Row:
    """The row of a bitstream."""
    names = sorted([*SHARES, "functions"], key=len, reverse=True)
    function = next(name for name in names if built.name.endswith(name))
    cells, needs, pins = built.cells, built.estimate, built.pins
    tools = "".join(built.tools[1:])
    return {
        "robot": built.name.removesuffix(f"_{function}"),
        "function": function,
        "datapath": built.datapath,
        "board": built.board.key,
        "interval": built.interval,
        "aim MHz": round(built.aim),
        "MHz": round(built.reached, 2),
        "clock MHz": round(built.megahertz, 2),
        "million states/s": round(built.states_per_second / 1e6, 1),
        "latency us": round(built.microseconds, 2),
        "multipliers estimated": round(needs.dsps),
        "multipliers": cells.get("MULT18X18D", 0),
        "LUTs estimated": round(needs.luts),
        "LUTs": cells["TRELLIS_COMB"],
        "flip-flops estimated": round(needs.ffs),
        "flip-flops": cells["TRELLIS_FF"],
        "block RAM": cells.get("DP16KD", 0),
        SECONDS: round(built.seconds[1]),
        "nextpnr": "" if not tools else "native" if SYSTEM in tools else "YoWASP",
        PINS[0]: pins.states if pins else "",
        PINS[1]: pins.equal if pins else "",
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
