"""How long do wires take on an ECP5? Pairs of registers at given places, and whole designs.

The first table has one wire out of each of many registers, in a device that is empty otherwise:
nanoseconds by distance in tiles, along a row and along a column, without what the register takes.
With --folders, the routed netlists of folders that `bitstream` or `featherlane build` wrote are
read, and the second table has all wires between their cells: how many there are, the tiles that
they cross (half the perimeter), nanoseconds, and these over what the first table has for a wire of
that length, as medians and the 95th hundredth (the longest one, too), beside the share of the
device's LUTs that a design fills. Clocks, constants and ways inside of a slice are no wires.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import options

from featherlane.backends.fpga import boards
from featherlane.backends.fpga.bitstream import build
from featherlane.backends.fpga.bitstream.tools import NEXTPNR, run, run_yosys
from featherlane.backends.fpga.boards import CircuitBoard
from featherlane.backends.fpga.devices import Fabric, load

BOARD = "ulx3s_85f"
ALONG_ROWS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 112)
ALONG_COLUMNS = (1, 2, 4, 8, 12, 16, 24, 32, 40, 64, 80)
OF_EACH = 3
PLACE = re.compile(r"X(\d+)/Y(\d+)/")
REPORT = "report.json"
DELAYS = re.compile(
    r"\(INTERCONNECT (\S+)/\w+ (\S+)/(\w+) \([\d.]+:[\d.]+:([\d.]+)\)"
)  # of an SDF file
INSIDE = {"CLK", "WCK", "FCI", "DI", "WD", "F1", "FXA", "FXB", *(f"WAD{n}" for n in range(4))}
CONSTANT = re.compile(r"\$PACKER_(VCC|GND)")
# Nanoseconds out of a register, by grade, as nextpnr's paths have them
OUT_OF_REGISTERS = {8: 0.395, 6: 0.525}


class Wire(NamedTuple):
    """A wire between registers: along what, tiles, and (column, row) of both ends."""

    along: str
    tiles: int
    start: tuple[int, int]
    end: tuple[int, int]


def wires(fabric: Fabric) -> Iterator[Wire]:
    """Yields wires that share neither their starts nor their rows or columns."""
    left, right = fabric.columns[0], fabric.columns[-1]
    rows = fabric.rows
    at = iter(rows)
    for tiles in ALONG_ROWS:
        for _ in range(OF_EACH):
            y = next(at)
            yield Wire("rows", tiles, (left, y), (left + tiles, y))
    columns, first = iter(range(left + 1, right, 3)), rows[0]
    for tiles in ALONG_COLUMNS:
        for _ in range(OF_EACH):
            x = next(columns)
            end = min(y for y in rows if y >= first + tiles)
            yield Wire("columns", end - first, (x, first), (x, end))


def registers(all_wires: Sequence[Wire]) -> str:
    """A chain of registers at the ends of the wires."""
    lines = [
        "module top(input clock, input bit_in, output bit_out);",
        f"wire [{len(all_wires)}:0] between;",
        f"assign between[0] = bit_in, bit_out = between[{len(all_wires)}];",
    ]
    for n, wire in enumerate(all_wires):
        lines.append(f"wire wire_{n};")
        slices = "AB" if wire.along == "rows" else "CD"  # of a tile, so that all have a place
        ends = ((wire.start, slices[0], f"between[{n}]", f"wire_{n}"),
                (wire.end, slices[1], f"wire_{n}", f"between[{n + 1}]"))  # fmt: skip
        for (x, y), slice_, data, out in ends:
            lines.append(
                f'(* BEL="X{x}/Y{y}/SLICE{slice_}.FF0" *) TRELLIS_FF {slice_}{n}'
                f"(.CLK(clock), .DI({data}), .Q({out}));"
            )
    return "\n".join([*lines, "endmodule", ""])


def by_distance(board: CircuitBoard, grade: int) -> Iterator[list[Any]]:
    """Yields (along, tiles, ns) of the wires of one grade, medians of wires alike."""
    fabric = load(board.device).fabric
    assert fabric is not None
    all_wires = [*wires(fabric)]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "top.sv").write_text(registers(all_wires))
        run_yosys("read_verilog -sv top.sv; synth_ecp5 -top top; write_json top.json", work)
        nets = nets_out_of_registers(work, "top", board._replace(grade=grade))
    arrivals: dict[tuple[str, int], list[float]] = {}
    for net in nets:
        if found := re.fullmatch(r"wire_(\d+)", net["net"]):
            wire = all_wires[int(found[1])]
            arrivals.setdefault((wire.along, wire.tiles), []).append(arrival(net["endpoints"][0]))
    for (along, tiles), times in sorted(arrivals.items()):
        yield [along, tiles, grade, round(float(np.median(times)) - OUT_OF_REGISTERS[grade], 2)]


def arrival(endpoint: Mapping[str, Any]) -> float:
    return float(max(endpoint["delay"]))


def nets_out_of_registers(work: Path, top: str, board: CircuitBoard) -> list[Any]:
    """Places and routes; what nextpnr says of the wires that registers drive."""
    files = ["--json", f"{top}.json", "--lpf-allow-unconstrained"]
    reports = ["--report", REPORT, "--detailed-timing-report"]
    run(NEXTPNR, [*build.options(board), *files, *reports], work)
    nets = json.loads((work / REPORT).read_text())["detailed_net_timings"]
    return [net for net in nets if net["port"] == "Q"]


def of_design(folder: Path, empty: Mapping[int, Mapping[int, float]]) -> list[Any]:
    """(design, interval, board, LUTs in hundredths of the device, wires, and of their tiles, their
    ns and of these over the wires of an empty device the spread). empty: ns by tiles, by grade.
    """
    top = next(path.stem for path in folder.glob("*.lpf"))
    facts = json.loads((folder / "bitstream.json").read_text())
    board = boards.board(facts["board"])
    netlist = json.loads((folder / f"{top}_routed.json").read_text())
    module = netlist["modules"]["top"]
    module["settings"]["router"] = "router1"  # it keeps the wires as they are
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "netlist.json").write_text(json.dumps(netlist))
        (work / f"{top}.lpf").write_text((folder / f"{top}.lpf").read_text())
        files = ["--json", "netlist.json", "--lpf", f"{top}.lpf", "--sdf", "wires.sdf"]
        run(NEXTPNR, [*build.options(board), "--no-pack", "--no-place", *files], work)
        delays = (work / "wires.sdf").read_text().replace("\\", "")
    places = {name: place(cell) for name, cell in module["cells"].items()}
    tiles, times = [], []
    for start, end, port, picoseconds in DELAYS.findall(delays):
        first, last = places.get(start), places.get(end)
        if first and last and port not in INSIDE and not CONSTANT.match(start):
            tiles.append(abs(first[0] - last[0]) + abs(first[1] - last[1]))
            times.append(float(picoseconds) / 1e3)
    known = empty[board.grade]
    over = np.array(times) / np.interp(tiles, [*known], [*known.values()])
    share = round(100 * facts["cells"]["TRELLIS_COMB"] / load(board.device).luts, 1)
    which = [facts["name"], facts["interval"], board.name]
    return [*which, share, len(tiles), *spread(tiles), *spread(times), *spread(over)[:2]]


def place(cell: Mapping[str, Any]) -> tuple[int, int] | None:
    found = PLACE.match(cell["attributes"].get("NEXTPNR_BEL", ""))
    return (int(found[1]), int(found[2])) if found else None


def spread(values: Sequence[float]) -> list[float]:
    return [round(float(x), 2) for x in np.percentile(values, [50, 95, 100])]


HEADS = {
    "distance": ("along", "tiles", "grade", "ns"),
    "design": ("design", "interval", "board", "LUTs %", "wires",
               "tiles median", "tiles 95 %", "tiles most", "ns median", "ns 95 %", "ns most",
               "over an empty device: median", "over an empty device: 95 %"),
}  # fmt: skip


def printed(head: Sequence[str], rows: Iterator[list[Any]]) -> list[list[Any]]:
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    done = []
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)
        done.append(row)
    return done


def main() -> int:
    args = options.parser(__doc__, folders=(), csv=None).parse_args()
    board = boards.board(BOARD)
    distances = (row for grade in OUT_OF_REGISTERS for row in by_distance(board, grade))
    tables = {"distance": printed(HEADS["distance"], distances)}
    if args.folders:
        empty: dict[int, dict[int, float]] = {grade: {} for grade in OUT_OF_REGISTERS}
        for along, tiles, grade, ns in tables["distance"]:
            if along == "rows":
                empty[grade][tiles] = ns
        designs = (of_design(Path(folder), empty) for folder in args.folders)
        tables["design"] = printed(HEADS["design"], designs)
    if args.csv:
        with args.csv.open("w", encoding="utf-8", newline="") as file:
            write = csv.writer(file, lineterminator="\n")
            for kind, rows in tables.items():
                write.writerow(("table", *HEADS[kind]))
                write.writerows((kind, *row) for row in rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
