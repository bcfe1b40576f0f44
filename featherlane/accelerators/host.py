"""The host's side of a bitstream: the board behind its serial port, or the routed netlist in a
simulation, as a function of arrays.

    from featherlane.accelerators import host

    device = host.connect("folder", "/dev/ttyUSB0")  # or host.simulated("folder")
    device.self_test(passes=10).passed
    device.run(states).results
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from operator import ne
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from featherlane.backends.cache import digest
from featherlane.backends.fpga import boards
from featherlane.backends.fpga.netlists.simulation import LinePins, simulated_netlist
from featherlane.backends.fpga.serial.harness import MOST_BOARDS
from featherlane.backends.fpga.serial.host import FACTS_FILE, SerialDriver, SerialFacts
from featherlane.backends.fpga.serial.link import pause_of
from featherlane.backends.fpga.serial.rate import ONE
from featherlane.backends.fpga.serial.simulated import SimulatedBoards, side_by_side
from featherlane.backends.fpga.serial.transport import SerialPort
from featherlane.functions.arguments import whole

T = TypeVar("T")
PINS = LinePins(boards.OSCILLATOR, boards.RECEIVE, boards.TRANSMIT, None)  # of the top module
BITSTREAM = "bitstream.json"  # the facts beside a bitstream
WANTED = (
    "wanted the folder that `featherlane build ROBOT FUNCTION --board BOARD --output FOLDER` or "
    "`Accelerator.bitstream` wrote"
)


class LineRate(NamedTuple):
    """The rate of a bitstream's serial line. megahertz: the clock of the design."""

    name: str
    megahertz: float
    baud: int

    @property
    def sixteenths(self) -> int:
        """Sixteenths of a clock cycle in a bit."""
        return round(1e6 * self.megahertz * ONE / self.baud)

    @property
    def pause(self) -> int:
        """The link forgets half a frame after at most 2^pause cycles."""
        return pause_of(1e6 * self.megahertz)


def connect(folder: str | Path, port: str, seconds: float = 0.25) -> SerialDriver:
    """The driver of a board whose bitstream a folder has.

    port: as "/dev/ttyUSB0" or "COM3"; seconds: after which no answer is expected. Raises ValueError
    for a folder without a bitstream or with one that is older than its design, ImportError without
    pyserial, DeviceError if the port does not open, the board does not answer, or has another
    design.
    """
    rate, facts = _rate(folder), SerialFacts.read(folder)
    return SerialDriver(facts, SerialPort(port, rate.baud, seconds))


def simulated(folder: str | Path) -> SerialDriver:
    """The driver of the routed netlist of a folder, in a simulation by Verilator at the pins of its
    serial line: the same bytes as those of a board. Raises ValueError for a folder without a
    bitstream or with one that is older than its design, CompileError if Verilator is missing.
    """
    (line,) = _simulated_boards(folder, 1).lines
    return SerialDriver(SerialFacts.read(folder), line)


def simulated_boards(
    folder: str | Path, boards: int, work: Callable[[int, SerialDriver], T]
) -> list[T]:
    """Returns work(number, driver) for each of so many boards with the routed netlist of a folder,
    side by side in one simulation, which takes not much longer than that of one. boards: 1 to 64.
    Errors as of `simulated`, and those of `work`.
    """
    lines = _simulated_boards(folder, whole("boards", boards, 1, MOST_BOARDS)).lines
    facts = SerialFacts.read(folder)
    return side_by_side(lines, lambda number, line: work(number, SerialDriver(facts, line)))


def _simulated_boards(folder: str | Path, boards: int) -> SimulatedBoards:
    rate, facts = _rate(folder), SerialFacts.read(folder)
    path = Path(folder) / netlist_file(rate.name)
    try:
        netlist = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is no routed netlist: {error}") from error
    return simulated_netlist(netlist, facts.payloads, rate.sixteenths, rate.pause, PINS, boards)


def top_name(name: str) -> str:
    """The top module of a design on a board."""
    return f"{name}_top"


def netlist_file(name: str) -> str:
    """The file of the routed netlist of a design."""
    return f"{top_name(name)}_routed.json"


def read_facts(folder: str | Path) -> dict[str, Any]:
    """Returns the facts beside the bitstream of a folder. Raises ValueError for a folder without
    one.
    """
    path = Path(folder)
    try:
        return dict(json.loads((path / BITSTREAM).read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(_without_bitstream(path, error)) from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"folder {str(path)!r} holds no bitstream: {error}") from error


def _without_bitstream(path: Path, error: OSError) -> str:
    """The sentence for a folder whose bitstream has no facts."""
    if not path.exists():
        return f"folder {str(path)!r} does not exist: {WANTED}"
    if not path.is_dir():
        return f"folder {str(path)!r} is a file: {WANTED}"
    if (path / BITSTREAM).exists():
        return f"folder {str(path)!r}: {BITSTREAM} cannot be read: {error}"
    if (path / FACTS_FILE).exists():
        reason = "its sources were not placed and routed to the end: build it again"
        return f"folder {str(path)!r} holds a design, but no bitstream ({BITSTREAM}): {reason}"
    return f"folder {str(path)!r} holds no bitstream: it has no {BITSTREAM}; {WANTED}"


def check_bitstream(folder: str | Path) -> dict[str, Any]:
    """Returns the facts beside a bitstream. Raises ValueError for a folder without one, and for a
    bitstream of other sources than those beside it.
    """
    path, facts = Path(folder), read_facts(folder)
    try:
        bits = (path / f"{facts['name']}.bit").read_bytes()
        known = facts["sources"], facts["bitstream"]
    except (OSError, KeyError) as error:
        raise ValueError(f"folder {str(path)!r} holds no bitstream: {error}") from error
    texts = {file.name: file.read_text(encoding="utf-8") for file in path.glob("*.sv")}
    now = sources_digest(texts), digest(bits)
    for what, changed in zip(("sources", "file"), map(ne, now, known), strict=True):
        if changed:
            raise ValueError(
                f"folder {str(path)!r}: {facts['name']}.bit is older than its design (its {what} "
                "changed since it was built): build it again"
            )
    return facts


def sources_digest(texts: Mapping[str, str]) -> str:
    """The digest of sources, the text of each file by its name, beside the bitstream of them."""
    return digest(json.dumps(texts, sort_keys=True).encode())


def _rate(folder: str | Path) -> LineRate:
    """The rate of the line of a folder's bitstream. Errors as of `check_bitstream`."""
    data = check_bitstream(folder)
    try:
        return LineRate(data["name"], float(data["megahertz"]), int(data["baud"]))
    except (KeyError, TypeError, ValueError) as error:
        path = str(Path(folder) / BITSTREAM)
        raise ValueError(f"{path!r} does not say the rate of a line: {error}") from error
