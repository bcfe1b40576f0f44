"""Modules of a network: tasks at their ports, and the conditions that micro-instructions make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from featherlane.backends.fpga.module import Bits, Module
from featherlane.backends.fpga.network.structure import Channel, Network, Station
from featherlane.backends.fpga.statements import UNREAD

ALWAYS, NEVER = "1'b1", "1'b0"


class ControlModule(Module):
    """A module of a network."""

    def __init__(self, network: Network, part: str, comment: str) -> None:
        """part: the module is called after the network and this; after the network alone, if
        empty.
        """
        super().__init__(f"{network.name}_{part}" if part else network.name, comment, unread=UNREAD)
        self.network, self.part = network, part

    def inputs_of_task(self, prefix: str) -> None:
        """The micro-instruction and the tag of a task, read."""
        for name, bits in task_wires(self.network, prefix).items():
            self.input(name, bits=bits)

    def outputs_of_task(self, prefix: str) -> None:
        """The micro-instruction and the tag of a task, driven."""
        for name, bits in task_wires(self.network, prefix).items():
            self.output(name, bits=bits)

    def driven(self, name: str, bits: Bits, value: str) -> str:
        """An output and its expression."""
        self.output(name, bits=bits)
        self.assign(name, value)
        return name

    def inside(self, other: ControlModule, renamed: Mapping[str, str] | None = None) -> None:
        """A module of a network inside this one, its ports at signals of their names, but for some
        that are renamed.
        """
        signals = {pin: (renamed or {}).get(pin, pin) for pin in other.ports}
        for pin, port in other.ports.items():
            self.declare(signals[pin], bits=port.bits)
        self.instance(other.name, other.part, signals)


def task_wires(network: Network, prefix: str) -> dict[str, int]:
    """The bits of the micro-instruction and the tag of a task, by their names."""
    return {f"{prefix}_instruction": network.code_bits, f"{prefix}_tag": network.tag_bits}


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


def instructions_of(links: Iterable[Channel]) -> set[int]:
    """The micro-instructions with which tasks travel in links, as they leave them."""
    return {link.becomes.get(i, i) for link in links for i in link.puts}


def taken_by(network: Network, station: Station) -> set[int]:
    """The micro-instructions with which a station takes tasks."""
    return instructions_of(network.links[name] for name in station.entries)
