"""A module of a datapath while it is being written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from featherlane.backends.fpga.netlist import Netlist
from featherlane.backends.fpga.text import Signal, indented
from featherlane.errors import CompileError


class Choice(NamedTuple):
    """A multiplexer: the bits of its result, and the signal that it takes in each phase."""

    width: int
    sources: tuple[tuple[int, Signal], ...]


class Part:
    """A module: its statements, the signals that it drives and those that it reads."""

    def __init__(self, name: str, netlist: Netlist) -> None:
        self.name, self.netlist = name, netlist
        self.interval = netlist.pipeline.interval
        self.drives: dict[str, Signal] = {}
        self.reads: dict[str, Signal] = {}
        self._comments: dict[str, str] = {}
        self._statements: list[str] = []
        self._each_cycle: list[str] = []
        self._captured = defaultdict[int, list[str]](list)  # by phase
        self._reads_phase = False
        self.choices: dict[str, Choice] = {}

    # What is computed

    def read(self, k: int, cycle: int) -> Signal:
        """What a cycle reads as the result of a node, here."""
        signal = self.netlist.read(k, cycle)
        if not self.netlist.is_constant(k):
            self.reads[signal.name] = signal
        return signal

    def declare(self, signal: Signal, comment: str = "") -> Signal:
        """A signal that is driven here."""
        if signal.name in self.drives:
            raise CompileError(f"{self.name} has two signals {signal.name}")
        self.drives[signal.name] = signal
        if comment:
            self._comments[signal.name] = comment
        return signal

    def assign(self, signal: Signal, text: str, comment: str = "") -> Signal:
        """A wire and its expression."""
        self.declare(signal, comment)
        self._statements.append(f"assign {signal.name} = {text};")
        return signal

    def delay(self, signal: Signal, source: str) -> Signal:
        """A register that takes a signal in each cycle."""
        self.declare(signal)
        self._each_cycle.append(f"{signal.name} <= {source};")
        return signal

    def capture(self, signal: Signal, source: str, cycle: int) -> Signal:
        """A register that takes a signal at the end of a cycle of each state."""
        self.declare(signal)
        self._captured[cycle % self.interval].append(f"{signal.name} <= {source};")
        return signal

    def choose(self, signal: Signal, sources: Mapping[int, Signal]) -> Signal:
        """A wire that is another signal, or a literal, in each phase."""
        if len({source.name for source in sources.values()}) == 1:
            return self.assign(signal, next(iter(sources.values())).name)
        self.declare(signal)
        self._reads_phase = True
        self.choices[signal.name] = Choice(signal.width, tuple(sources.items()))
        *first, last = sources.items()
        rows = [f"{phase}: {signal.name} = {source.name};" for phase, source in first]
        rows.append(f"default: {signal.name} = {last[1].name};  // {last[0]}")
        self._statements += ["always_comb case (phase)", *indented(rows), "endcase"]
        return signal

    def instance(self, module: str, name: str, ports: Mapping[str, str]) -> None:
        """A module inside this one."""
        connected = ", ".join(f".{port}({text})" for port, text in ports.items())
        self._statements.append(f"{module} {name} ({connected});")

    # Text

    @property
    def needs(self) -> list[Signal]:
        """What other modules drive."""
        return [s for name, s in self.reads.items() if name not in self.drives]

    @property
    def phase_bits(self) -> int:
        return (self.interval - 1).bit_length()

    @property
    def has_phases(self) -> bool:
        """Whether it does not do the same in each cycle."""
        return self.interval > 1 and bool(self._captured or self._reads_phase)

    def text(self, gives: list[Signal], comment: str) -> str:
        """The module. gives: the signals that others read."""
        given = {signal.name for signal in gives}
        ports = ["input logic clock"]
        if self.has_phases:
            ports.append(f"input logic [{self.phase_bits - 1}:0] phase_next")
        ports += [f"input {signal.type} {signal.name}" for signal in self.needs]
        ports += [f"output {signal.type} {signal.name}" for signal in gives]
        own = [
            f"{signal.type} {name};{self._comment(name)}"
            for name, signal in self.drives.items()
            if name not in given
        ]
        lines = [f"// {comment}", f"module {self.name} ("]
        lines += [*",\n".join(indented(ports)).split("\n"), ");"]
        lines += indented([*own, "", *self._phases(), *self._statements, "", *self._registers()])
        return "\n".join([*lines, "endmodule", ""])

    def _comment(self, name: str) -> str:
        return f"  // {self._comments[name]}" if name in self._comments else ""

    @property
    def control(self) -> int:
        """The registers of the phase."""
        if not self.has_phases:
            return 0
        return self.phase_bits * self._reads_phase + len(self._captured)

    def _phases(self) -> list[str]:
        """The phase, in registers near what they control."""
        if not self.has_phases:
            return []
        bits, lines, steps = self.phase_bits, list[str](), list[str]()
        if self._reads_phase:
            lines.append(f"logic [{bits - 1}:0] phase;")
            steps.append("phase <= phase_next;")
        for phase in sorted(self._captured):
            lines.append(f"logic in_phase_{phase};")
            steps.append(f"in_phase_{phase} <= phase_next == {bits}'d{phase};")
        return [*lines, "always_ff @(posedge clock) begin", *indented(steps), "end"]

    def _registers(self) -> list[str]:
        lines = []
        if self._each_cycle:
            lines += ["always_ff @(posedge clock) begin", *indented(self._each_cycle), "end"]
        for phase, rows in sorted(self._captured.items()):
            when = f"if (in_phase_{phase}) " if self.interval > 1 else ""
            lines += [f"always_ff @(posedge clock) {when}begin", *indented(rows), "end"]
        return lines
