"""Pipelined units: values with the stage in which they are there, registers put between.

A unit is written as if it had no registers, with `cut` where one stands: a value that is read
behind a cut is delayed by as many registers as cuts lie between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.text import Signal


class Staged(NamedTuple):
    """A signal inside a unit and the stage in which it is there; None: in all of them."""

    signal: Signal
    stage: int | None = 0


class StagedUnit:
    """A unit while it is being module. luts: an estimate of what its wires take."""

    def __init__(self, name: str, comment: str) -> None:
        self.stage, self.luts = 0, 0.0
        self.circuit = Module(name, comment)
        self.circuit.input("clock")
        self._registers: list[str] = []
        self._reads: dict[Signal, set[int]] = {}
        self._ignored: dict[Signal, int] = {}

    def input(self, name: str, width: int, always: bool = False) -> Staged:
        """A port that is read. always: the reader takes it in the stage in which it reads."""
        signal = Signal(name, width)
        self.circuit.declare_signal(signal, "input logic")
        return Staged(signal, None if always else 0)

    def output(self, name: str, width: int, value: Staged) -> None:
        """A port that gives a value, which has this width, in the last stage."""
        self.circuit.declare_signal(Signal(name, width), "output logic")
        self.circuit.assign(name, self.read(value))

    def cut(self, registers: int = 1) -> None:
        """Ends a stage."""
        self.stage += registers

    def read(self, value: Staged) -> str:
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
        delayed = signal._replace(name=f"{signal.name}_{stage}")
        if delayed.name not in self.circuit.declarations:
            self.circuit.declare_signal(delayed)
            self._registers.append(f"{delayed.name} <= {source};")
        return delayed.name

    def wire(
        self, name: str, width: int, text: str, number: bool = True, luts: float = 0.0
    ) -> Staged:
        """A new value, in the present stage. text: its expression, of values that were read; luts:
        what a bit of it takes.
        """
        signal = Signal(name, width, number)
        self.luts += luts * width
        self.circuit.declare_signal(signal)
        self.circuit.assign(name, text)
        return Staged(signal, self.stage)

    def ignore(self, value: Staged, bits: int) -> None:
        """Notes that so many of the last bits of a value are not read."""
        self._ignored[value.signal] = min(bits, value.signal.width)

    @property
    def chains(self) -> Iterator[tuple[int, set[int]]]:
        """The chains of registers: their bits, and which registers are read."""
        for signal, read in self._reads.items():
            yield signal.width - self._ignored.get(signal, 0), read

    def module(self) -> Module:
        """The module of the unit."""
        self.circuit.waive_widths()
        if self._registers:
            self.circuit.clocked(*self._registers)
        return self.circuit
