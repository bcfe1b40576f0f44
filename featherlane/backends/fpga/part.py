"""A module of a datapath while it is being written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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

# Registers, in bits, that one register of the phase enables: one for the 1,100 of the inputs of HyQ
# would drive wires across the chip
MOST_ENABLED = 144
MOST_COPIES = 12  # of the phase that one register of it is read by
OWN = "own_phase"  # the copy of the phase that a module has beside those of its units


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

    def codes(self, selector: str, shown: Callable[[int], int]) -> str:
        """The statement that sets the register of a number for the next phase. selector: a signal
        that says which that is; shown: its value for each phase.
        """
        names, phases = self.names, defaultdict[str, list[str]](list)
        for phase, source in self.sources:
            phases[source.name].append(str(shown(phase)))
        rows = [
            f"{', '.join(phases[name])}: {self.phase} <= {self.code_bits}'d{n};"
            for n, name in enumerate(names[:-1])
        ]
        rows.append(f"default: {self.phase} <= {self.code_bits}'d{len(names) - 1};")
        return "\n".join([f"case ({selector})", *indented(rows), "endcase"])


@dataclass
class CapturedRegisters:
    """Registers that take values in the same phase, as one register of the phase says: their
    statements and bits.
    """

    rows: list[str] = field(default_factory=list)
    bits: int = 0


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
    """A module: its statements, the signals that it drives and those that it reads.

    Its port `phase_next` says the phase of the next cycle. With copies, ports say that of this
    cycle instead: the module and each unit have a register of it, and all that depends on the phase
    reads that register, so that no logic stands beside the long wires to so many. A port serves
    MOST_COPIES of them.
    """

    def __init__(self, name: str, netlist: Netlist, copies: bool = False) -> None:
        self.name, self.netlist, self.copies = name, netlist, copies
        self.interval = netlist.pipeline.interval
        self.drives: dict[str, Signal] = {}
        self.reads: dict[str, Signal] = {}
        self._origins: dict[str, str] = {}  # of what it reads, by name
        self._comments: dict[str, str] = {}
        self._statements: list[Statement] = []
        self._each_cycle: list[str] = []
        self._captured = defaultdict[int, list[CapturedRegisters]](list)  # by phase
        self._phases: dict[str, None] = {}  # registers of the phase, in their order
        self._rings: dict[str, list[RingMemory]] = {}  # by the name of the place
        self._coded: dict[str, str] = {}  # the copies of the phase of coded choices
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
        self._capture_rows(cycle, signal.width, f"{signal.name} <= {source};")
        return signal

    def _capture_rows(self, cycle: int, bits: int, *rows: str) -> None:
        """Adds statements for registers of so many bits that take values at the end of a cycle."""
        groups = self._captured[cycle % self.interval]
        if not groups or (self.interval > 1 and groups[-1].bits + bits > MOST_ENABLED):
            groups.append(CapturedRegisters())
        groups[-1].rows.extend(rows)
        groups[-1].bits += bits

    def ring(self, signal: Signal, source: str, registers: int, cycle: int) -> Signal:
        """A register that takes what a signal was so many captures before, by a memory whose place
        goes round: what is read there is the oldest, and the newest takes its place.
        """
        phase, places = cycle % self.interval, registers - 1
        place = f"place_{places}_{phase}"
        ring = RingMemory(f"{signal.name}_ring", signal, places)
        if place not in self._rings:
            last = f"{ring.place_bits}'d{places - 1}"
            step = f"{place} <= {place} == {last} ? '0 : {place} + 1'b1;"
            self._capture_rows(phase, ring.place_bits, step)
        self._rings.setdefault(place, []).append(ring)
        self.declare(signal)
        memory = f"{ring.name}[{place}]"
        rows = f"{signal.name} <= {memory};", f"{memory} <= {source};"
        self._capture_rows(phase, signal.width, *rows)
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
        phase = f"{unit}_phase" if unit else "phase"
        if coded and any(source.value is None for source in sources.values()):
            choice = OperandChoice(
                signal.width, tuple(sources.items()), f"{signal.name}_select", coded
            )
            self.choices[signal.name] = choice
            self._coded[signal.name] = phase
            if self.copies:
                self._phases[phase] = None
            self._statements.append(ChoiceTree(signal.name, choice.phase, choice.names))
            return signal
        self._phases[phase] = None
        self.choices[signal.name] = OperandChoice(signal.width, tuple(sources.items()), phase)
        rows = tuple((self._before(n, 1), source.name) for n, source in sources.items())
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
    def phase_copies(self) -> list[str]:
        """The registers of the phase."""
        return [*self._phases, *([OWN] if self.copies and self._captured else [])]

    @property
    def phase_ports(self) -> list[str]:
        """The names of the ports that say the phase, each for some of the copies."""
        if not self.copies:
            return ["phase_next"]
        count = -(-len(self.phase_copies) // MOST_COPIES)
        return [f"phase_{n}" for n in range(count)]

    def _before(self, phase: int, cycles: int) -> int:
        """The phase so many cycles before another one, if there are copies, which are late."""
        return (phase - cycles) % self.interval if self.copies else phase

    def _soon(self, copy: str) -> str:
        """The signal that registers for the next phase are made of: a copy, which shows the phase
        two cycles before, or the port.
        """
        return copy if self.copies else "phase_next"

    def module(self, gives: list[Signal], comment: str) -> Module:
        """The module. gives: the signals that others read."""
        module = Module(self.name, comment)
        module.input("clock")
        if self.has_phases:
            module.input(*self.phase_ports, bits=self.phase_bits)
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
        codes = sum(self.choices[name].code_bits for name in self._coded)
        flags = sum(map(len, self._captured.values()))
        return self.places + self.phase_bits * len(self.phase_copies) + codes + flags

    def _add_phases(self, module: Module) -> None:
        """The phase, in registers near what they control, which synthesis must not merge."""
        steps = list[str]()
        for n, name in enumerate(self.phase_copies):
            module.declare(name, bits=self.phase_bits, attribute="keep")
            port = self.phase_ports[n // MOST_COPIES if self.copies else 0]
            steps.append(f"{name} <= {port};")
        for signal, copy in self._coded.items():
            choice = self.choices[signal]
            module.declare(choice.phase, bits=choice.code_bits, attribute="keep")
            module.clocked(choice.codes(self._soon(copy), lambda n: self._before(n, 2)))
        for phase, groups in sorted(self._captured.items()):
            shown = f"{self.phase_bits}'d{self._before(phase, 2)}"
            for n in range(len(groups)):
                flag = module.declare(_flag(phase, n), attribute="keep")
                steps.append(f"{flag} <= {self._soon(OWN)} == {shown};")
        if steps:
            module.clocked(*steps)

    def _add_registers(self, module: Module) -> None:
        if self._each_cycle:
            module.clocked(*self._each_cycle)
        for phase, groups in sorted(self._captured.items()):
            for n, group in enumerate(groups):
                module.clocked(*group.rows, when=_flag(phase, n) if self.interval > 1 else "")


def _flag(phase: int, n: int) -> str:
    """The name of the register that tells a group of registers which phase it is."""
    return f"in_phase_{phase}_{n + 1}" if n else f"in_phase_{phase}"
