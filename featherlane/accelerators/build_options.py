"""The options of a bitstream, checked before there is a design: what is wrong is refused at once,
and not after schedules or routing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from featherlane.backends.fpga import folder
from featherlane.backends.fpga.bitstream import build
from featherlane.backends.fpga.boards import CircuitBoard
from featherlane.backends.fpga.serial.rate import sixteenths
from featherlane.backends.fpga.simulation import simulate
from featherlane.errors import shown
from featherlane.functions.arguments import is_count, is_real, whole

MOST_BAUD = 100_000_000
MOST_STATES = 1_000_000  # that a netlist is simulated for
MOST_SECONDS = 1_000_000  # of a placement and its routing


class BuildOptions(NamedTuple):
    """The options of `Accelerator.bitstream`: place, the folder; states: that are simulated; baud:
    of the serial port.
    """

    place: Path
    seeds: Sequence[int]
    limit: float
    states: int
    baud: int

    @classmethod
    def checked(
        cls,
        place: Any,
        *,
        board: CircuitBoard,
        megahertz: float,
        name: str,
        seeds: Any,
        limit: Any,
        verify: Any,
        baud: Any,
    ) -> BuildOptions:
        """Returns the options of a design for a board. megahertz: the clock that it aims at; name:
        of its top module.

        Raises CompileError for a tool that is missing, ValueError for seeds, a limit, a rate and
        numbers of states that are none, and for a folder that cannot be written to, or holds
        another design.
        """
        several = isinstance(seeds, Sequence) and not isinstance(seeds, str)
        if not several or not seeds or not all(map(is_count, seeds)):
            raise ValueError(f"seeds is {shown(seeds)}: wanted whole numbers, such as (1, 2, 3)")
        if not is_real(limit, 1, MOST_SECONDS):
            raise ValueError(f"limit is {shown(limit)}: wanted seconds, 1 to {MOST_SECONDS:,}")
        states = whole("verify", verify, 0, MOST_STATES)
        rate = board.baud if baud is None else whole("baud", baud, 1, MOST_BAUD)
        sixteenths(1e6 * megahertz, rate)  # may be refused
        path = folder.checked_path("folder", place)
        folder.check(path, name)
        folder.check_creatable(path)
        for tool in ("verilator", "g++") if states else ():
            simulate.tool(tool)
        build.versions()
        return cls(path, seeds, limit, states, rate)
