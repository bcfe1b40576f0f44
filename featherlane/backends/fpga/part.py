"""A module of a datapath while it is being written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.netlist import Netlist
from featherlane.backends.fpga.statements import (
    Assign,
    ChoiceTree,
    Instance,
    Multiplexer,
    Statement,
)
from featherlane.backends.fpga.text import Signal, indented
from featherlane.errors import CompileError


class OperandChoice(NamedTuple):
    """A multiplexer: the bits of its result, and the signal that it takes in each phase, which it
    knows from a register: the phase, or the number of the signal if that has a code.
    """

    width: int
    sources: tuple[tuple[int, Signal], ...]
    phase: str
    coded: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Its signals, each once."""
        return tuple(dict.fromkeys(source.name for _, source in self.sources))

    @property
    def code_bits(self) -> int:
        """The bits of the number of a signal."""
        return (len(self.names) - 1).bit_length() if self.coded else 0

    @property
    def codes(self) -> str:
        """The statement that sets the register of a number for the next phase."""
        names, phases = self.names, defaultdict[str, list[str]](list)
        for phase, source in self.sources:
            phases[source.name].append(str(phase))
        rows = [
            f"{', '.join(phases[name])}: {self.phase} <= {self.code_bits}'d{n};"
            for n, name in enumerate(names[:-1])
        ]
        rows.append(f"default: {self.phase} <= {self.code_bits}'d{len(names) - 1};")
        return "\n".join(["case (phase_next)", *indented(rows), "endcase"])


class RingMemory(NamedTuple):
    """A memory of a ring, of words of a signal."""

    name: str
    of: Signal
    places: int

    @property
    def place_bits(self) -> int:
        """Bits of the number of a place."""
        return max((self.places - 1).bit_length(), 1)


class Part:
    """A module: its statements, the signals that it drives and those that it reads."""

    def __init__(self, name: str, netlist: Netlist) -> None:
        self.name, self.netlist = name, netlist
        self.interval = netlist.pipeline.interval
        self.drives: dict[str, Signal] = {}
        self.reads: dict[str, Signal] = {}
        self._origins: dict[str, str] = {}  # of what it reads, by name
        self._comments: dict[str, str] = {}
        self._statements: list[Statement] = []
        self._each_cycle: list[str] = []
        self._captured = defaultdict[int, list[str]](list)  # by phase
        self._phases: dict[str, None] = {}  # registers of the phase, in their order
        self._rings: dict[str, list[RingMemory]] = {}  # by the name of the place
        self.choices: dict[str, OperandChoice] = {}

    # What is computed

    def read(self, k: int, cycle: int) -> Signal:
        """The signal that a cycle reads as the result of a node; notes that this part reads it."""
        signal = self.netlist.read(k, cycle)
        if not self.netlist.is_constant(k):
            self.reads[signal.name] = signal
            self._origins.setdefault(signal.name, self.netlist.origin(k))
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
        self._statements.append(Assign(signal.name, text))
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

    def ring(self, signal: Signal, source: str, registers: int, cycle: int) -> Signal:
        """A register that takes what a signal was so many captures before, by a memory whose place
        goes round: what is read there is the oldest, and the newest takes its place.
        """
        phase, places = cycle % self.interval, registers - 1
        place = f"place_{places}_{phase}"
        ring = RingMemory(f"{signal.name}_ring", signal, places)
        if place not in self._rings:
            last = f"{ring.place_bits}'d{places - 1}"
            self._captured[phase].append(f"{place} <= {place} == {last} ? '0 : {place} + 1'b1;")
        self._rings.setdefault(place, []).append(ring)
        self.declare(signal)
        memory = f"{ring.name}[{place}]"
        self._captured[phase] += [f"{signal.name} <= {memory};", f"{memory} <= {source};"]
        return signal

    def choose(
        self, signal: Signal, sources: Mapping[int, Signal], unit: str = "", coded: bool = False
    ) -> Signal:
        """A wire that is another signal, or a literal, in each phase. The multiplexers of a unit
        have a register of the phase: one for all would drive wires across the chip. coded: each has
        a register of the number of its signal instead, unless all are literals.
        """
        if len({source.name for source in sources.values()}) == 1:
            return self.assign(signal, next(iter(sources.values())).name)
        self.declare(signal)
        if coded and any(source.value is None for source in sources.values()):
            choice = OperandChoice(
                signal.width, tuple(sources.items()), f"{signal.name}_select", coded
            )
            self.choices[signal.name] = choice
            self._statements.append(ChoiceTree(signal.name, choice.phase, choice.names))
            return signal
        phase = f"{unit}_phase" if unit else "phase"
        self._phases[phase] = None
        self.choices[signal.name] = OperandChoice(signal.width, tuple(sources.items()), phase)
        rows = tuple((n, source.name) for n, source in sources.items())
        self._statements.append(Multiplexer(signal.name, phase, rows))
        return signal

    def instance(self, module: str, name: str, ports: Mapping[str, str]) -> None:
        """A module inside this one."""
        self._statements.append(Instance(module, name, ports, {}, {}))

    # The module

    @property
    def needs(self) -> list[Signal]:
        """The signals that other modules drive."""
        return [s for name, s in self.reads.items() if name not in self.drives]

    @property
    def phase_bits(self) -> int:
        return (self.interval - 1).bit_length()

    @property
    def has_phases(self) -> bool:
        """Whether it does not do the same in each cycle."""
        return self.interval > 1 and bool(self._captured or self._phases or self._coded)

    @property
    def _coded(self) -> list[OperandChoice]:
        return [choice for choice in self.choices.values() if choice.coded]

    def module(self, gives: list[Signal], comment: str) -> Module:
        """The module. gives: the signals that others read."""
        module = Module(self.name, comment)
        module.input("clock")
        if self.has_phases:
            module.input("phase_next", bits=self.phase_bits)
        for signal in self.needs:
            label = self._origins.get(signal.name, signal.label)
            module.declare_signal(signal._replace(label=label), "input logic")
        for signal in gives:
            module.declare_signal(signal, "output logic")
        for name, signal in self.drives.items():
            module.declare_signal(signal, comment=self._comments.get(name, ""))
        if self.has_phases:
            self._add_phases(module)
        for place, memories in self._rings.items():
            module.declare(place, bits=memories[0].place_bits, value="'0")
            for name, of, places in memories:
                bits, attribute = of.width if of.number else 1, 'ram_style = "distributed"'
                signed = of.number
                module.declare(name, bits=bits, signed=signed, size=places, attribute=attribute)
        module.body += self._statements
        module.waive_widths()
        self._add_registers(module)
        return module

    @property
    def places(self) -> int:
        """The bits of the counters of places in rings."""
        return sum(memories[0].place_bits for memories in self._rings.values())

    @property
    def control(self) -> int:
        """The registers of the phase, of numbers of signals and of places in rings."""
        if not self.has_phases:
            return self.places
        codes = sum(choice.code_bits for choice in self._coded)
        return self.places + self.phase_bits * len(self._phases) + codes + len(self._captured)

    def _add_phases(self, module: Module) -> None:
        """The phase, in registers near what they control, which synthesis must not merge."""
        steps = list[str]()
        for name in self._phases:
            module.declare(name, bits=self.phase_bits, attribute="keep")
            steps.append(f"{name} <= phase_next;")
        for choice in self._coded:
            module.declare(choice.phase, bits=choice.code_bits, attribute="keep")
            module.clocked(choice.codes)
        for phase in sorted(self._captured):
            flag = module.declare(f"in_phase_{phase}", attribute="keep")
            steps.append(f"{flag} <= phase_next == {self.phase_bits}'d{phase};")
        if steps:
            module.clocked(*steps)

    def _add_registers(self, module: Module) -> None:
        if self._each_cycle:
            module.clocked(*self._each_cycle)
        for phase, rows in sorted(self._captured.items()):
            module.clocked(*rows, when=f"in_phase_{phase}" if self.interval > 1 else "")
