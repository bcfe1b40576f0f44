"""From sources to a bitstream: synthesis by Yosys, placement and routing by nextpnr, the clock that
was reached, and ecppack.

A design is routed once, at the clock that it aims at. The PLL's divisors are a few bits of the
configuration: they are set afterwards, by the fastest clock that routing reached.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from featherlane.backends import cache as disk
from featherlane.backends import stages
from featherlane.backends.fpga.bitstream.empty_rows import (
    SPACING,
    with_empty_rows,
    without_empty_rows,
)
from featherlane.backends.fpga.bitstream.pll import ClockDivisors
from featherlane.backends.fpga.bitstream.tools import (
    ECPPACK,
    NEXTPNR,
    YOSYS,
    check_written,
    processor_seconds,
    run,
    run_yosys,
    tool_version,
)
from featherlane.backends.fpga.bitstream.wrapper import constraints
from featherlane.backends.fpga.boards import CircuitBoard
from featherlane.backends.fpga.devices import load
from featherlane.errors import CompileError

LIMIT = 1200.0  # s of a processor for a placement and its routing; most that take longer never end
# Yosys merges equal registers of different modules unless their cells have the attribute `keep`,
# which it does not take from their signals. Registers of MULT18X18D instances fail the check that
# `synth_ecp5 -json` of Yosys 0.70 ends with.
SYNTHESIS = (
    "read_verilog -sv {files}; synth_ecp5 -top {top} -run begin:coarse; "
    "proc; setattr -set keep 1 w:* a:keep %i %ci1 t:$dff %i; "
    "synth_ecp5 -top {top} -run coarse:map_luts; opt_expr -mux_bool; "
    "muxcover -nopartial -mux4=200 -mux8=400 -mux16=800; techmap -map {multiplexers}; opt_clean; "
    "synth_ecp5 -top {top} -run map_luts:check; blackbox =A:whitebox; write_json {top}.json"
)
MULTIPLEXERS = Path(__file__).with_name("multiplexers.v")  # of the ECP5's cells
# The default router has 6 % of an arm's arcs after 15 minutes
OPTIONS = ("--router", "router2", "--timing-allow-fail", "--quiet")
WORD = re.compile(r"^word: (CLK\w+) [01]+$", re.MULTILINE)
NETLIST, CONFIGURATION, REPORT = "netlist.json", "routed.config", "report.json"
KEPT = (NETLIST, CONFIGURATION, REPORT)


class NotRoutedError(CompileError):
    """A design that nextpnr does not place or route: a longer interval may be."""


class RoutedDesign(NamedTuple):
    """A design on its device. megahertz: the clock that routing reached, by nextpnr's delays at
    their slowest; cells: by kind; seconds: of a processor, by both tools; seed: of the placement;
    configuration: in Trellis' text format; netlist: after routing, as nextpnr writes it; tools: the
    versions of Yosys and nextpnr.
    """

    megahertz: float
    cells: Mapping[str, int]
    seconds: tuple[float, float]
    seed: int
    configuration: str
    netlist: bytes
    tools: tuple[str, ...] = ()


def routed(
    sources: Mapping[str, str],
    top: str,
    board: CircuitBoard,
    megahertz: float,
    seeds: Sequence[int] = (1,),
    limit: float = LIMIT,
) -> RoutedDesign:
    """Places and routes a design. top: its top module; megahertz: the clock that it aims at; the
    first of `seeds` that reaches it is taken, else the fastest. limit: seconds of a processor for
    one seed; ten times as many may pass by the clock.

    Raises CompileError if a tool is missing, NotRoutedError if no seed is routed.
    """
    tools = versions()
    flow = [tools, SYNTHESIS, MULTIPLEXERS.read_text(), SPACING, options(board)]
    aim = megahertz if len(seeds) > 1 else 0.0  # which the first seed that reaches it ends
    known = [flow, dict(sources), top, constraints(board), [*seeds], aim, limit]
    key = f"routed {disk.digest(json.dumps(known).encode())}"
    stages.begin(f"cache: {top}, if it was routed before")
    archive = disk.fetch_result(
        key, lambda: _packed(_best(sources, top, board, megahertz, seeds, limit))
    )
    return _unpacked(archive)._replace(tools=tuple(tools))


def versions() -> list[str]:
    """The versions of Yosys and nextpnr. Raises CompileError if one is missing, or ecppack is."""
    *taken, _ = (tool_version(tool) for tool in (YOSYS, NEXTPNR, ECPPACK))
    return taken


def synthesis_script(sources: Iterable[str], top: str) -> str:
    """The commands of Yosys, for a folder with the sources and the cells of multiplexers."""
    return SYNTHESIS.format(files=" ".join(sources), top=top, multiplexers=MULTIPLEXERS.name)


def synthesise(sources: Iterable[str], top: str, board: CircuitBoard, work: Path) -> None:
    """Writes the netlist `top`.json of sources in a folder, with the rows that stay empty."""
    (work / MULTIPLEXERS.name).write_text(MULTIPLEXERS.read_text(), encoding="utf-8")
    run_yosys(synthesis_script(sources, top), work)
    fabric, netlist = load(board.device).fabric, work / f"{top}.json"
    check_written(YOSYS, work, [netlist.name])
    assert fabric is not None  # of all devices of boards
    netlist.write_text(json.dumps(with_empty_rows(json.loads(netlist.read_text()), top, fabric)))


def options(board: CircuitBoard) -> list[str]:
    """The options of nextpnr for a board."""
    size = board.device.removeprefix("ecp5_")
    device = f"--{board.family}-{size}" if board.family else f"--{size}"
    return [device, "--package", board.package, "--speed", str(board.grade), *OPTIONS]


def _best(
    sources: Mapping[str, str],
    top: str,
    board: CircuitBoard,
    megahertz: float,
    seeds: Sequence[int],
    limit: float,
) -> RoutedDesign:
    """The first of the seeds that reaches the clock, else the fastest."""
    designs, problems = list[RoutedDesign](), list[str]()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for file, text in {**sources, f"{top}.lpf": constraints(board)}.items():
            (work / file).write_text(text, encoding="utf-8")
        stages.begin(f"yosys: synthesis of {top}")
        began = processor_seconds()
        synthesise(sources, top, board, work)
        synthesis = processor_seconds() - began
        for seed in seeds:
            try:
                designs.append(_routed(work, top, board, seed, synthesis, limit))
            except (CompileError, TimeoutError) as error:
                problems.append(f"seed {seed}: {error}")
            else:
                if designs[-1].megahertz >= megahertz:
                    break
    if not designs:
        raise NotRoutedError(
            f"{top} was not routed on the {board.name}: {'; '.join(problems)}; a longer interval "
            "needs fewer multipliers and wires"
        )
    return max(designs, key=lambda design: design.megahertz)


def _routed(
    work: Path, top: str, board: CircuitBoard, seed: int, synthesis: float, limit: float
) -> RoutedDesign:
    files = ["--json", f"{top}.json", "--lpf", f"{top}.lpf"]
    written = ["--write", NETLIST, "--textcfg", CONFIGURATION, "--report", REPORT]
    stages.begin(f"nextpnr: placement and routing of {top}, seed {seed}")
    began = processor_seconds()
    for name in KEPT:  # of the seed before
        (work / name).unlink(missing_ok=True)
    run(NEXTPNR, [*options(board), "--seed", str(seed), *files, *written], work, limit)
    check_written(NEXTPNR, work, KEPT)
    seconds = synthesis, processor_seconds() - began
    report = json.loads((work / REPORT).read_text())
    netlist, empty = without_empty_rows((work / NETLIST).read_bytes())
    cells = {name: n["used"] for name, n in report["utilization"].items() if n["used"]}
    cells["TRELLIS_COMB"] = cells.get("TRELLIS_COMB", 0) - empty
    return RoutedDesign(
        min(clock["achieved"] for clock in report["fmax"].values()),
        cells,
        seconds,
        seed,
        (work / CONFIGURATION).read_text(),
        netlist,
    )


def _packed(design: RoutedDesign) -> bytes:
    """A routed design as the cache keeps it: a ZIP archive."""
    facts = {name: getattr(design, name) for name in ("megahertz", "cells", "seconds", "seed")}
    stream = BytesIO()
    with ZipFile(stream, "w", ZIP_DEFLATED) as archive:
        archive.writestr(REPORT, json.dumps(facts))
        archive.writestr(CONFIGURATION, design.configuration)
        archive.writestr(NETLIST, design.netlist)
    return stream.getvalue()


def _unpacked(data: bytes) -> RoutedDesign:
    with ZipFile(BytesIO(data)) as archive:
        facts = json.loads(archive.read(REPORT))
        facts["seconds"] = tuple(facts["seconds"])
        return RoutedDesign(
            **facts,
            configuration=archive.read(CONFIGURATION).decode(),
            netlist=archive.read(NETLIST),
        )


def with_clock(configuration: str, clock: ClockDivisors) -> str:
    """Returns the configuration of a routed design with other divisors of its PLL. Raises
    CompileError if it has not exactly one.
    """
    values = clock.parameters
    words = {  # a divisor is kept as one less
        name: f"word: {name} {value - name.endswith('_DIV'):07b}" for name, value in values.items()
    }
    present = [match[1] for match in WORD.finditer(configuration) if match[1] in words]
    if sorted(present) != sorted(words):
        raise CompileError(f"the configuration has the words {present}: wanted those of one PLL")
    return WORD.sub(lambda match: words.get(match[1], match[0]), configuration)


def packed(configuration: str) -> bytes:
    """The bitstream of a configuration. Raises CompileError if ecppack is missing or fails."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / CONFIGURATION).write_text(configuration)
        run(ECPPACK, ["--compress", "--input", CONFIGURATION, "--bit", "design.bit"], work)
        check_written(ECPPACK, work, ["design.bit"])
        return (work / "design.bit").read_bytes()
