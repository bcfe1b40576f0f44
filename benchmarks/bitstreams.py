"""Which clock do whole designs reach on a board with an ECP5, and what do they take beside their
estimates?

Each function of each robot as a bitstream: at the smallest interval that fits, or at those of
--intervals. Aimed at 60 MHz; what was routed once is read from the cache, with its seconds. With
--batch the routed netlist is simulated at the pins of its serial line, and so many states compared
to the bit: some seconds a state for an arm.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import options

import featherlane as fl
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.errors import CompileError

BOARD = "ulx3s"
Row = dict[str, Any]


def main() -> int:
    args = options.parser(
        __doc__, robots=["double_pendulum"], functions={*SHARES}, intervals=(), batch=0, json=None
    ).parse_args()
    rows: list[Row] = []
    for robot in args.robots:
        for function in sorted(args.functions, key=[*SHARES].index):
            for interval in args.intervals or ["auto"]:
                rows.append(row := figures(robot, function, interval, args.batch or 0))
                if len(rows) == 1:
                    print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
                print(f"| {' | '.join(map(str, row.values()))} |", flush=True)
    options.write_json(args.json, rows, board=BOARD)
    return 0


def figures(robot: str, function: str, interval: int | str, states: int) -> Row:
    """A row of the table; a design that is refused or not routed has the reason in the place of its
    clock.
    """
    row: Row = {"robot": robot, "function": function, "interval": interval}
    try:
        design = fl.accelerator(options.loaded(robot), function, board=BOARD, interval=interval)
        with tempfile.TemporaryDirectory() as folder:
            built = design.bitstream(folder, verify=states)
    except CompileError as error:
        return {**row, "MHz": str(error)}
    needs, cells = design.cost.total, built.cells
    return {
        **row,
        "interval": built.interval,
        "MHz": round(built.reached, 1),
        "million states/s": round(built.reached / built.interval, 2),
        "latency, us": round(built.latency / built.reached, 2),
        "multipliers, estimate": f"{needs.dsps:.0f}",
        "multipliers": cells["MULT18X18D"],
        "LUTs, estimate": f"{needs.luts:.0f}",
        "LUTs": cells["TRELLIS_COMB"],
        "FFs, estimate": f"{needs.ffs:.0f}",
        "FFs": cells["TRELLIS_FF"],
        "RAM": cells.get("DP16KD", 0),
        "seconds": round(sum(built.seconds)),
        "states at the pins": built.pins.states if built.pins else "",
        "equal": built.pins.equal if built.pins else "",
        "seconds of the simulation": round(built.pins.seconds) if built.pins else "",
    }


if __name__ == "__main__":
    sys.exit(main())
