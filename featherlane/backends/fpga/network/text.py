"""Modules of a network while they are being written: their ports, and the lines inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from featherlane.backends.fpga.network.structure import Link, Network, Station
from featherlane.backends.fpga.text import indented

ALWAYS, NEVER = "1'b1", "1'b0"


class Wire(NamedTuple):
    """A signal of so many bits; of None, one bit that is a condition."""

    name: str
    bits: int | None = None

    @property
    def type(self) -> str:
        """Its type in a declaration."""
        return "logic" if self.bits is None else f"logic [{self.bits - 1}:0]"


class ControlModule:
    """A module. pins: its ports, with their directions."""

    def __init__(self, network: Network, part: str, comment: str) -> None:
        """part: the module is called after the network and this; after the network alone, if
        empty.
        """
        self.network, self.comment = network, comment
        self.part = part
        self.name = f"{network.name}_{part}" if part else network.name
        self.pins: dict[str, tuple[str, Wire]] = {}
        self._declared: dict[str, Wire] = {}
        self._lines: list[str] = []

    def input(self, name: str, bits: int | None = None) -> str:
        """A port that is read."""
        self.pins.setdefault(name, ("input", Wire(name, bits)))
        return name

    def output(self, name: str, bits: int | None = None, text: str | None = None) -> str:
        """A port that is driven, by an expression if there is one."""
        self.pins.setdefault(name, ("output", Wire(name, bits)))
        if text is not None:
            self.assign(name, text)
        return name

    def inputs_of_task(self, prefix: str) -> None:
        """The micro-instruction and the tag of a task, read."""
        for name, bits in task_wires(self.network, prefix):
            self.input(name, bits)

    def outputs_of_task(self, prefix: str) -> None:
        """The micro-instruction and the tag of a task, driven."""
        for name, bits in task_wires(self.network, prefix):
            self.output(name, bits)

    def declare(self, name: str, bits: int | None = None) -> str:
        """A signal inside, once for all that connect it."""
        if name not in self.pins:
            self._declared.setdefault(name, Wire(name, bits))
        return name

    def wire(self, name: str, bits: int | None, text: str) -> str:
        """A signal inside with its expression."""
        self.declare(name, bits)
        self.assign(name, text)
        return name

    def assign(self, name: str, text: str) -> None:
        """The expression of a signal."""
        self._lines.append(f"assign {name} = {text};")

    def line(self, text: str) -> None:
        """A line of its own."""
        self._lines.append(text)

    def at_each_clock(self, *lines: str) -> None:
        """What registers take."""
        if len(lines) == 1:
            self._lines.append(f"always_ff @(posedge clock) {lines[0]}")
        else:
            self._lines += ["always_ff @(posedge clock) begin", *indented([*lines]), "end"]

    def instance(
        self,
        kind: str,
        name: str,
        ports: Mapping[str, str],
        settings: Mapping[str, int] | None = None,
    ) -> None:
        """A module inside this one."""
        given = ", ".join(f".{key}({value})" for key, value in (settings or {}).items())
        rows = ",\n".join(f"  .{port}({text})" for port, text in ports.items())
        head = f"{kind} #({given}) {name}" if given else f"{kind} {name}"
        self._lines += f"{head} (\n{rows}\n);".split("\n")

    def inside(self, other: ControlModule, renamed: Mapping[str, str] | None = None) -> None:
        """A module of a network inside this one, its ports at signals of their names, but for some
        that are renamed.
        """
        ports = {}
        for pin, (_, wire) in other.pins.items():
            ports[pin] = self.declare((renamed or {}).get(pin, pin), wire.bits)
        self.instance(other.name, other.part, ports)

    @property
    def text(self) -> str:
        """The module."""
        ports = [f"{direction} {wire.type} {name}" for name, (direction, wire) in self.pins.items()]
        head = ",\n".join(indented(ports))
        declared = [f"{wire.type} {name};" for name, wire in self._declared.items()]
        body = indented([*declared, *self._lines])
        text = [f"// {self.comment}", f"module {self.name} (\n{head}\n);", *body, "endmodule", ""]
        return "\n".join(text)


def task_wires(network: Network, prefix: str) -> list[Wire]:
    """The micro-instruction and the tag of a task."""
    return [
        Wire(f"{prefix}_instruction", network.code_bits),
        Wire(f"{prefix}_tag", network.tag_bits),
    ]


def bits_of(name: str, first: int, count: int) -> str:
    """Some bits of a signal."""
    return f"{name}[{first + count - 1}:{first}]"


def is_one_of(signal: str, instructions: Iterable[int], every: Iterable[int], bits: int) -> str:
    """The condition that a micro-instruction is one of some; `every`: all that it can be."""
    wanted = sorted(instructions)
    if {*wanted} >= {*every}:
        return ALWAYS
    tests = " || ".join(f"{signal} == {bits}'d{i}" for i in wanted) or NEVER
    return f"({tests})" if len(wanted) > 1 else tests


def both(*conditions: str) -> str:
    """The condition that all hold."""
    return " && ".join(text for text in conditions if text != ALWAYS) or ALWAYS


def the_one(sources: Sequence[tuple[str, str]], bits: int) -> str:
    """The source whose condition holds, or 0. sources: condition and signal."""
    if not sources:
        return f"{bits}'d0"
    if len(sources) == 1 and sources[0][0] == ALWAYS:
        return sources[0][1]
    return " | ".join(f"({{{bits}{{{when}}}}} & {what})" for when, what in sources)


def instructions_of(links: Iterable[Link]) -> set[int]:
    """The micro-instructions with which tasks travel in links, as they leave them."""
    return {link.becomes.get(i, i) for link in links for i in link.puts}


def taken_by(network: Network, station: Station) -> set[int]:
    """The micro-instructions with which a station takes tasks."""
    return instructions_of(network.links[name] for name in station.entries)
