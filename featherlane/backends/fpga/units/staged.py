"""Text of pipelined units: values with the stage in which they are there, registers put between.

A unit is written as if it had no registers, with `cut` where one stands: a value that is read
behind a cut is delayed by as many registers as cuts lie between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from featherlane.backends.fpga.text import Signal, indented


class Value(NamedTuple):
    """A signal inside a unit and the stage in which it is there; None: in all of them."""

    signal: Signal
    stage: int | None = 0


class Staged:
    """The module of a unit while it is being written."""

    def __init__(self, name: str, comment: str) -> None:
        self.name, self.comment = name, comment
        self.stage = 0
        self._ports: list[str] = ["input logic clock"]
        self._lines: list[str] = []
        self._registers: list[str] = []
        self._delayed: dict[tuple[str, int], str] = {}
        self._reads: dict[Signal, set[int]] = {}
        self._ignored: dict[Signal, int] = {}
        self.luts = 0.0  # an estimate, of wires

    def input(self, name: str, width: int, always: bool = False) -> Value:
        """A port that is read. always: the reader takes it in the stage in which it reads."""
        signal = Signal(name, width)
        self._ports.append(f"input {signal.type} {name}")
        return Value(signal, None if always else 0)

    def output(self, name: str, width: int, value: Value) -> None:
        """A port that gives a value, which has this width, in the last stage."""
        signal = Signal(name, width)
        self._ports.append(f"output {signal.type} {name}")
        self._lines.append(f"assign {name} = {self.read(value)};")

    def cut(self, registers: int = 1) -> None:
        """Ends a stage."""
        self.stage += registers

    def read(self, value: Value) -> str:
        """The name of a value in the present stage."""
        signal, stage = value
        if stage is None:
            return signal.name
        name = signal.name
        if self.stage > stage:
            self._reads.setdefault(signal, set()).add(self.stage - stage - 1)
        for n in range(stage, self.stage):
            name = self._register(signal, n + 1, name)
        return name

    def _register(self, signal: Signal, stage: int, source: str) -> str:
        key = signal.name, stage
        if key not in self._delayed:
            self._delayed[key] = f"{signal.name}_{stage}"
            self._lines.append(f"{signal.type} {self._delayed[key]};")
            self._registers.append(f"{self._delayed[key]} <= {source};")
        return self._delayed[key]

    def wire(
        self, name: str, width: int, text: str, number: bool = True, luts: float = 0.0
    ) -> Value:
        """A new value, in the present stage. text: its expression, of values that were read; luts:
        what a bit of it takes.
        """
        signal = Signal(name, width, number)
        self.luts += luts * width
        self._lines += [f"{signal.type} {name};", f"assign {name} = {text};"]
        return Value(signal, self.stage)

    def line(self, text: str) -> None:
        """A line of its own."""
        self._lines.append(text)

    def ignore(self, value: Value, bits: int) -> None:
        """Notes that so many of the last bits of a value are not read."""
        self._ignored[value.signal] = min(bits, value.signal.width)

    @property
    def chains(self) -> Iterator[tuple[int, set[int]]]:
        """The chains of registers: their bits, and which registers are read."""
        for signal, read in self._reads.items():
            yield signal.width - self._ignored.get(signal, 0), read

    def text(self) -> str:
        """The module."""
        ports = ",\n".join(indented(self._ports))
        body = [f"// {self.comment}", f"module {self.name} (\n{ports}\n);"]
        body += indented(self._lines)
        if self._registers:
            registers = indented(indented(self._registers))
            body += ["  always_ff @(posedge clock) begin", *registers, "  end"]
        return "\n".join([*body, "endmodule", ""])
