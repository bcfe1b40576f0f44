"""An accelerator: functions of a robot as a circuit in fixed point for an FPGA."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from featherlane.accelerators.bitstreams import Bitstream, BoardDesign, built, checked
from featherlane.accelerators.board import SEEDS, STALLS, Board
from featherlane.accelerators.build_options import MOST_BAUD, BuildOptions
from featherlane.accelerators.choices import LINK, SIMULATORS, DesignSpec
from featherlane.accelerators.computation import Computation
from featherlane.accelerators.error_report import error_report
from featherlane.accelerators.front import Front, marks
from featherlane.accelerators.organise.organisation import Organisation
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.accelerators.pins import PinCase
from featherlane.accelerators.report import page
from featherlane.accelerators.report import trace as traces
from featherlane.accelerators.report.charts import Mark
from featherlane.accelerators.report.drawing import legend, svg
from featherlane.accelerators.robot_labels import labels_of
from featherlane.api.model import Model
from featherlane.backends import stages
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fpga import boards, devices, folder
from featherlane.backends.fpga.bitstream.build import LIMIT
from featherlane.backends.fpga.board.core import StreamCore
from featherlane.backends.fpga.board.wrapper import WrappedCore
from featherlane.backends.fpga.boards import CircuitBoard
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.report import structure
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.serial.host import SerialDriver
from featherlane.backends.fpga.serial.link import pause_of
from featherlane.backends.fpga.serial.rate import sixteenths
from featherlane.backends.fpga.serial.self_test import plan_of
from featherlane.backends.fpga.serial.transport import SerialPort
from featherlane.backends.fpga.serial.wrapper import SerialCore
from featherlane.backends.fpga.verilog import Design
from featherlane.backends.fpga.words import Entry
from featherlane.errors import one_of, shown
from featherlane.functions.arguments import is_count, whole
from featherlane.functions.fixed import FixedFunction
from featherlane.version import __version__

SELF_TEST = 16  # states in a board's memory


@dataclass(frozen=True, eq=False, repr=False)
class Accelerator(ABC):
    """A circuit for a device that computes one to seven functions of a robot. `accelerator` returns
    one for a single function (`PipelineAccelerator`), and `multifunction` one for several
    (`NetworkAccelerator`).

    computation: the model, the choices, and the arithmetic in fixed point. datapath: the formats of
    all signals. cost: the resources of the device that it needs. organisation: the division of
    limbs into arrays, if there are any.
    """

    STATES: ClassVar[int]  # over which errors are reported
    WIDTH: ClassVar[int]  # bits of TDATA of a board

    name: str
    computation: Computation
    datapath: Datapath
    cost: DesignCost
    organisation: Organisation | None

    def __repr__(self) -> str:
        what = f"{type(self).__name__} {self.spec.label} of {self.model.name}"
        return f"<{what}: interval {self.interval}, format {self.spec.format}>"

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what follows from them is computed again after pickling."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # The choices

    @property
    def spec(self) -> DesignSpec:
        """The choices."""
        return self.computation.spec

    @property
    def model(self) -> Model:
        """The robot."""
        return self.computation.model

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions by name, in the order of their codes."""
        return self.spec.functions

    @property
    def device(self) -> devices.Device:
        """The device, at the clock."""
        return self.spec.target

    @property
    def ranges(self) -> Mapping[str, tuple[Any, Any]]:
        """The ranges of inputs that were asked for. Those of all inputs: `limits` of a function."""
        return self.spec.ranges

    @property
    def choices(self) -> dict[str, Any]:
        """By the names of the arguments of `accelerator` or `multifunction`, which makes the same
        design again of them, `ranges` and `name`.
        """
        return self.spec.choices

    @property
    def interval(self) -> int:
        """The initiation interval: cycles from one task to the next. The derivatives of forward
        dynamics take two of a design of several functions.
        """
        return self.spec.interval

    @property
    def clock(self) -> float:
        """Nanoseconds a cycle."""
        return self.device.clock

    # The circuit

    @property
    @abstractmethod
    def circuits(self) -> Sequence[Design]:
        """The pipelines of the design."""

    @property
    @abstractmethod
    def latencies(self) -> Mapping[str, int]:
        """Cycles from a task of each function to its result, where no other task is in flight."""

    @property
    @abstractmethod
    def words(self) -> Mapping[str, tuple[int, int]]:
        """The numbers of a task and its result, and their bits together, by function."""

    @property
    @abstractmethod
    def stream_bits(self) -> tuple[int, int]:
        """The bits of a word of inputs and of a word of results."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """The largest number of tasks in flight."""

    @cached_property
    def labels(self) -> Mapping[Entry, str]:
        """The joints and links that entries of inputs and results belong to, in words."""
        return labels_of(self.model, self.datapath.graph, self.spec.frames).entries

    @property
    @abstractmethod
    def core(self) -> StreamCore:
        """The top module as a board takes it: between two streams."""

    @abstractmethod
    def fixed(self, name: str) -> FixedFunction:
        """A function on the design's numbers, to the bit."""

    @abstractmethod
    def drawn(self, name: str, states: int) -> dict[str, np.ndarray]:
        """Random states within the ranges of a function's inputs."""

    @abstractmethod
    def vectors(self, states: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Random tasks of one function and their results, as numbers by name."""

    @abstractmethod
    def cases(self, states: int) -> Sequence[PinCase]:
        """So many random states and their results, of all functions in turn."""

    # Figures

    @cached_property
    def figures(self) -> dict[str, Any]:
        """The facts but for errors, which take longer."""
        choices = {name: x for name, x in self.choices.items() if name[:8] != "function"}
        period, latency = self.clock * self.interval, self.latencies
        rates = {name: 1e9 / (period * self._passes(name)) for name in self.functions}
        with_words = {name: 1e9 * LINK / (page.WORD * n) for name, (n, _) in self.words.items()}
        return {
            "name": self.name,
            "robot": self.model.name,
            "functions": [*self.functions],
            **choices,
            "joints": list(self.model.joint_names),
            "ranges": {
                name: [x.tolist() for x in ends] for name, ends in self.computation.limits.items()
            },
            "made_by": f"featherlane {__version__}",
            "device": self.device.name,
            "delays": self.device.model,
            "clock_ns": self.clock,
            "latency": dict(latency),
            "latency_us": {name: n * self.clock * 1e-3 for name, n in latency.items()},
            "latency_with_words_us": {
                name: n * self.clock * 1e-3 + 1e6 / with_words[name] for name, n in latency.items()
            },
            "tasks_per_second": rates,
            "tasks_per_second_with_words": {
                name: min(rate, with_words[name]) for name, rate in rates.items()
            },
            "tasks_in_flight": self.depth,
            "input_bits": self.stream_bits[0],
            "output_bits": self.stream_bits[1],
            "fifo_bits": self.depth * self.stream_bits[1],
            **structure(self.circuits),
            "needs": _counted(self.cost.total, round),  # LUTs, FFs: estimates
            "percent_of_device": _counted(self.cost.shares),
        }

    @cached_property
    def errors(self) -> dict[str, Any]:
        """Differences from float64 over random states, by function: how many states lost their
        result, and of each result the largest number, the median and the largest error, and a bound
        that is proved of all states, None if none is of use.
        """
        return {
            name: error_report(self.fixed(name), self.drawn(name, self.STATES))
            for name in self.functions
        }

    @property
    def facts(self) -> dict[str, Any]:
        """The report as data; the same names for one function and for several."""
        return {**self.figures, "states_of_errors": self.STATES, "errors": self.errors}

    def _passes(self, name: str) -> int:
        return SHARES[name].passes if self.spec.is_network else 1

    @property
    @abstractmethod
    def summary(self) -> str:
        """A line with the main figures."""

    # Files

    def board(self, width: int | None = None, layout: str = "packed") -> Board:
        """The design between AXI4-Stream ports with TDATA of `width` bits and registers on
        AXI4-Lite, with a driver for the host (docs/board.md).

        width: by default 128 bits, and 512 of several functions. layout: "packed", entries bit by
        bit, or of one function "words", each in 32 bits with its sign. A task of several functions
        has its code (`network.codes`) as `function`; inputs that this has not are ignored, and
        entries that its result has not are NaN. Raises ValueError for other ones.
        """
        bits = self.WIDTH if width is None else width
        if not is_count(bits):
            raise ValueError(f"width is {shown(width)}: wanted bits of TDATA, as 64 or 128")
        return Board(WrappedCore(self.core, int(bits), layout), self.vectors, self.device.part)

    @cached_property
    def board_design(self) -> BoardDesign:
        """The design behind a serial line, on the board that it is for. Raises ValueError if it is
        for none.
        """
        board, megahertz = self._its_board, self.spec.clock
        stages.begin(f"sources of {self.name}")
        test = plan_of(self.core, *self.vectors(SELF_TEST))
        bit, pause = sixteenths(1e6 * megahertz, board.baud), pause_of(1e6 * megahertz)
        serial = SerialCore(self.core, test, bit, pause)
        latency = max(self.latencies.values())
        return BoardDesign(serial, board, megahertz, latency, self.cost.total, self.spec.datapath)

    @property
    def _lines_of_board(self) -> list[str]:
        """The line of a report on the serial port of the board, if the design is for one."""
        if self.spec.board is None:
            return []
        work = self.board_design
        states = work.board.baud / (10 * work.serial.facts.longest_frame)
        return [
            f"serial port of the {work.board.name}: {work.board.baud:,} baud, up to {states:,.0f} "
            "tasks a second"
        ]

    @property
    def _its_board(self) -> CircuitBoard:
        """The board that the design is for. Raises ValueError if it is for none."""
        if self.spec.board is None:
            known = ", ".join(boards.tables())
            raise ValueError(
                f"{self.name} is for no board: wanted board= among its choices, as {known}"
            )
        return boards.board(self.spec.board)

    def bitstream(
        self,
        folder_: str | Path,
        *,
        seeds: Sequence[int] = (1,),
        limit: float = LIMIT,
        verify: int = 0,
        baud: int | None = None,
    ) -> Bitstream:
        """Builds the bitstream of the design for its board (`board=` of `accelerator`) by Yosys,
        nextpnr and ecppack, and returns it with the clock that was reached. The folder has the
        sources, constraints, the routed netlist, the bitstream, the driver's facts and a report.

        seeds: placements that are tried until one reaches the clock that was asked for; the fastest
        is taken. limit: seconds of a processor for one of them, ten times as many by the clock.
        What was routed once is read from the cache. verify: so many random states are computed by
        the routed netlist in a simulation by Verilator, driven through the pins of its serial line
        as a board is, and compared to the bit (`Bitstream.pins`); a state takes 0.01 s for a
        pendulum, seconds for a large robot. baud: of the serial port, by default what that of the
        board is documented to do; it is set after routing, exactly up to half a sixteenth of a
        clock cycle a bit.

        Raises CompileError for a tool that is missing, and a design that is not routed, ValueError
        for a design without a board, for seeds, a limit, a rate and numbers of states that are
        none, and for a folder that cannot be written to.
        """
        options = BuildOptions.checked(
            folder_, board=self._its_board, megahertz=self.spec.clock, name=self.name,
            seeds=seeds, limit=limit, verify=verify, baud=baud,
        )  # fmt: skip
        work, rate, states = self.board_design, options.baud, options.states
        replace(work.serial, sixteenths=sixteenths(1e6 * work.megahertz, rate))  # may be refused
        bitstream = built(work, options.place, options.seeds, options.limit, rate)
        return checked(bitstream, self.cases(states)) if states else bitstream

    def serial(self, port: str, baud: int | None = None) -> SerialDriver:
        """The driver of a board with the bitstream of the design, by its serial port, such as
        "/dev/ttyUSB0" or "COM3" (docs/board.md).

        baud: `Bitstream.baud`, by default that of the board. Raises ValueError for a design without
        a board, ImportError without pyserial, DeviceError if the port does not open, the board does
        not answer, or has another design.
        """
        work = self.board_design
        line = SerialPort(
            port, work.board.baud if baud is None else whole("baud", baud, 1, MOST_BAUD)
        )
        return SerialDriver(work.serial.facts, line)

    def _subject(self, front: Front | None) -> page.Subject:
        """The contents of the page of any design."""
        around = [] if front is None else self._marks(front)
        robot = page.RobotTree(self.model.name, self.model.joint_names, self.model.parent)
        return page.Subject(
            robot, self.cost, self.facts, around, self.words, LINK, figure_of(self.organisation)
        )

    def _marks(self, front: Front) -> list[Mark]:
        """The designs of a front, for charts. Raises ValueError for those of something else."""
        of = self.model.name, self.spec.label, self.device.name, self.clock
        return marks(front, of, self.choices, self.interval)

    def _written_trace(self, file: str | Path, spans: Iterator[traces.Span]) -> Path:
        about = {"design": self.name, "summary": self.summary}
        data = traces.trace([*spans], self.clock, about)
        return written(file, json.dumps(data, separators=(",", ":")) + "\n")


def checked_run(simulator: Any, stalls: Any, seed: Any) -> tuple[int, int]:
    """Returns stalls and seed of a simulation as whole numbers. Raises ValueError for others, and
    for an unknown simulator.
    """
    if not isinstance(simulator, str) or simulator not in SIMULATORS:
        raise ValueError(f"simulator is {shown(simulator)}: {one_of(simulator, SIMULATORS)}")
    return whole("stalls", stalls, *STALLS), whole("seed", seed, *SEEDS)


def figure_of(organisation: Organisation | None) -> page.Drawing | None:
    """The drawing of the arrays of a design, with the reasons for them."""
    if organisation is None:
        return None
    return page.Drawing(svg(organisation), (*legend(), *organisation.reasons))


def _counted(x: Resources, number: Any = float) -> dict[str, float]:
    return {"dsps": number(x.dsps), "luts": number(x.luts), "ffs": number(x.ffs)}


def written(file: str | Path, text: str) -> Path:
    """Writes a file. Raises ValueError if that is not possible, TypeError for what is no path."""
    path = folder.checked_path("file", file)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"file {str(file)!r} cannot be written: {error}") from error
    return path
