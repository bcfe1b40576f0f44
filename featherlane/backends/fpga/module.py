"""A module of SystemVerilog as data: its ports, signals, registers, instances and processes.

Every emitter makes modules, and `Module.text` prints them, last of all. Until then they can still
change: `with_enable` lets all registers of a module wait, and proofs add ports and attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap
from typing import Any, NamedTuple

from featherlane.backends.fpga.statements import (
    COLUMNS,
    ENABLE,
    UNREAD,
    WIDTHS,
    Assign,
    Instance,
    Process,
    Registers,
    Remark,
    Statement,
    Waived,
    behind,
    filled,
    separated,
    waived,
)
from featherlane.backends.fpga.text import Signal, indented
from featherlane.errors import CompileError

Bits = int | str | None  # of a vector, as a number or an expression of parameters; None: one bit


def last(bits: int | str) -> str:
    """The highest index of a vector or a memory."""
    return f"{bits - 1}" if isinstance(bits, int) else f"{bits}-1"


class Declaration(NamedTuple):
    """A port, a parameter or a signal.

    kind: the words in front, such as "input logic" or "localparam". size: words of a memory.
    value: of a parameter, or of a signal at the start of a simulation.
    """

    kind: str
    name: str
    bits: Bits = None
    signed: bool = False
    size: Bits = None
    value: int | str | None = None
    attribute: str = ""
    comment: str = ""

    @property
    def type(self) -> str:
        """The words in front of the name."""
        attribute = f"(* {self.attribute} *) " if self.attribute else ""
        bits = "" if self.bits is None else f" [{last(self.bits)}:0]"
        return f"{attribute}{self.kind}{' signed' if self.signed else ''}{bits}"

    @property
    def named(self) -> str:
        """The name, with the size of a memory and the value."""
        size = "" if self.size is None else f" [0:{last(self.size)}]"
        return f"{self.name}{size}{'' if self.value is None else f' = {self.value}'}"


@dataclass
class Module:
    """A module. comment: stands above it; directive: a line in front of all. enable: the port that
    all its registers wait for, if not empty. unread: why bits of ports and signals are not read, if
    some are not.
    """

    name: str
    comment: str = ""
    directive: str = ""
    declarations: dict[str, Declaration] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)
    enable: str = ""
    unread: str = ""

    # Declarations. What is declared twice, by all that connect it, stands once

    def declare(self, *names: str, bits: Bits = None, kind: str = "logic", **more: Any) -> str:
        """Signals of one type. more: fields of Declaration. Returns the name of the last one.

        Raises CompileError for a name that is declared with another width.
        """
        for name in names:
            known = self.declarations.setdefault(name, Declaration(kind, name, bits, **more))
            if known.bits != bits:
                widths = f"{known.bits or 1} and {bits or 1} bits"
                raise CompileError(f"{self.name} has two signals {name}, of {widths}")
        return names[-1]

    def declare_signal(self, signal: Signal, kind: str = "logic", comment: str = "") -> str:
        """A signal of a datapath. comment: behind its label."""
        bits = signal.width if signal.number else None
        comment = "; ".join(filter(None, (signal.label, comment)))
        more = {"signed": signal.number, "comment": comment}
        return self.declare(signal.name, bits=bits, kind=kind, **more)

    def input(self, *names: str, bits: Bits = None, **more: Any) -> str:
        """Ports that are read."""
        return self.declare(*names, bits=bits, kind="input logic", **more)

    def output(self, *names: str, bits: Bits = None, **more: Any) -> str:
        """Ports that are driven."""
        return self.declare(*names, bits=bits, kind="output logic", **more)

    def parameter(self, name: str, value: int | str, comment: str = "") -> None:
        """A parameter and its default."""
        self.declare(name, kind="parameter", value=value, comment=comment)

    def constant(self, name: str, value: int | str, bits: Bits = None, comment: str = "") -> None:
        """A parameter that only the module itself knows."""
        self.declare(name, bits=bits, kind="localparam", value=value, comment=comment)

    # Statements

    def assign(self, target: str, value: str, comment: str = "") -> None:
        """The expression of a wire."""
        self.body.append(Assign(target, value, comment))

    def wire(self, name: str, bits: Bits, value: str) -> str:
        """A signal inside and its expression."""
        self.declare(name, bits=bits)
        self.assign(name, value)
        return name

    def clocked(self, *statements: str, when: str = "", clock: str = "clock") -> None:
        """Registers of a clock. statements: lines that set them, or blocks of lines."""
        self.body.append(Registers(clock, statements, when))

    def process(self, head: str, *statements: str, end: str = "") -> None:
        """A process that has no registers."""
        self.body.append(Process(head, statements, end))

    def instance(
        self,
        module: str,
        name: str,
        ports: Mapping[str, str],
        parameters: Mapping[str, int | str] | None = None,
        enables: Mapping[str, str] | None = None,
        attribute: str = "",
    ) -> None:
        """A module inside this one."""
        self.body.append(Instance(module, name, ports, parameters or {}, enables or {}, attribute))

    def remark(self, comment: str) -> None:
        """A comment above the next statements."""
        self.body += [Remark(), Remark(comment)]

    def remarks(self, comments: Iterable[str]) -> None:
        """Comments, a line each, behind an empty line."""
        if lines := [Remark(comment) for comment in comments]:
            self.body += [Remark(), *lines]

    def waive_widths(self) -> None:
        """Lets linters take that operands of the statements so far, instances aside, have other
        widths than results, and that not all bits are read.
        """
        instances = [x for x in self.body if isinstance(x, Instance)]
        others = tuple(x for x in self.body if not isinstance(x, Instance))
        self.body = [Waived("WIDTH", WIDTHS, others), *instances]
        self.unread = UNREAD

    # The whole

    @property
    def ports(self) -> dict[str, Declaration]:
        """The ports in their order."""
        return {name: d for name, d in self.declarations.items() if d.kind in PORTS}

    def with_enable(self) -> Module:
        """A copy whose registers, and those of modules inside, keep their values in cycles without
        `enable`, a port behind the clock.
        """
        port = Declaration("input logic", ENABLE)
        clock = {"clock": self.declarations["clock"], ENABLE: port}
        module = copy(self)
        module.declarations, module.enable = {**clock, **self.declarations}, ENABLE
        return module

    @property
    def text(self) -> str:
        """The module as a tool takes it."""
        body = [line for statement in self.body for line in statement.lines(self.enable)]
        declared = [*self._declared("localparam"), *self._declared("logic", "integer")]
        head = [*self._head(), *indented(declared)]
        if self.unread:
            head = waived("UNUSEDSIGNAL", self.unread, head)
        inside = [*([""] if declared and body and body[0] else []), *indented(body)]
        return "\n".join([*self._about(), *head, *inside, "endmodule", ""])

    def _about(self) -> Iterator[str]:
        yield from (f"// {line}" for line in wrap(self.comment, COLUMNS - 3))
        if "clock" in self.ports:
            yield f"// {ONE_CLOCK} {RESET if 'reset' in self.ports else NO_RESET}"
        if self.directive:
            yield self.directive

    def _head(self) -> Iterator[str]:
        parameters, ports = self._of_kinds("parameter"), list(self.ports.values())
        if parameters:
            yield f"module {self.name} #("
            yield from _listed(parameters)
        if ports:
            yield ") (" if parameters else f"module {self.name} ("
            yield from _listed(ports)
        yield ");" if parameters or ports else f"module {self.name};"

    def _of_kinds(self, *kinds: str) -> list[Declaration]:
        return [d for d in self.declarations.values() if d.kind in kinds]

    def _declared(self, *kinds: str) -> Iterator[str]:
        """The declarations of some kinds; neighbours of one type share a line."""
        alike = groupby(self._of_kinds(*kinds), lambda d: (d.type, d.comment))
        for (words, comment), group in alike:
            for names in filled([d.named for d in group], COLUMNS - len(words) - 4):
                yield f"{words} {names};{behind(comment)}"


PORTS = ("input logic", "output logic")
ONE_CLOCK = "All registers take values at the rising edge of `clock`, the only clock."
RESET, NO_RESET = "`reset` is synchronous.", "None is reset."


def sources(modules: Mapping[str, Module]) -> dict[str, str]:
    """The text of modules, by the names of their files."""
    return {f"{name}.sv": module.text for name, module in modules.items()}


def same(names: Iterable[str]) -> dict[str, str]:
    """Ports that are at signals of their names."""
    return {name: name for name in names}


def named(*modules: Module) -> dict[str, Module]:
    """Modules by their names."""
    return {module.name: module for module in modules}


def _listed(declarations: list[Declaration]) -> list[str]:
    """Ports or parameters of a module."""
    rows = [f"{d.type} {d.named}" for d in declarations]
    return separated(rows, [d.comment for d in declarations])
