"""A module of SystemVerilog as data: its ports, signals, registers, instances and processes.

Every emitter makes modules, and `Module.text` prints them, last of all. Until then they can still
change: `with_enable` lets all registers of a module wait, and proofs add ports and attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap
from typing import Any, NamedTuple

from featherlane.backends.fpga.extended import narrowed
from featherlane.backends.fpga.statements import (
    COLUMNS,
    ENABLE,
    UNREAD,
    WIDTHS,
    Alternative,
    Assign,
    BitConcatenation,
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
from featherlane.backends.fpga.unread import unread
from featherlane.errors import CompileError

Bits = int | str | None  # of a vector, as a number or an expression of parameters; None: one bit


def last(bits: int | str) -> str:
    """The highest index of a vector or a memory."""
    return f"{bits - 1}" if isinstance(bits, int) else f"{bits}-1"


class Declaration(NamedTuple):
    """A port, a parameter or a signal.

    kind: the words in front, such as "input logic" or "localparam". size: words of a memory.
    value: of a parameter, or of a signal at the start of a simulation. unread: why some bits are
    not read, if some are not.
    """

    kind: str
    name: str
    bits: Bits = None
    signed: bool = False
    size: Bits = None
    value: int | str | None = None
    attribute: str = ""
    comment: str = ""
    unread: str = ""

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
    some are not. legend: what names stand for, lines below the comment that hashes do not know.
    """

    name: str
    comment: str = ""
    directive: str = ""
    declarations: dict[str, Declaration] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)
    enable: str = ""
    unread: str = ""
    legend: Sequence[str] = ()

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
        return self.declare(*names, bits=bits, kind=INPUT, **more)

    def output(self, *names: str, bits: Bits = None, **more: Any) -> str:
        """Ports that are driven."""
        return self.declare(*names, bits=bits, kind=OUTPUT, **more)

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
        """The module as a tool takes it. A linter does not check the declarations of which bits are
        not read, and only these, each behind the reason.
        """
        reasons = self._reasons()
        declared = indented(self._declared(reasons, *INSIDE))
        return self._printed(
            [*self._head(reasons), *declared], [*self._narrowed(self.body)], self.legend
        )

    @property
    def hashed(self) -> str:
        """The module as hashes of designs know it: one waiver stands around all declarations, and
        words of bits are listed bit by bit. A bitstream holds the hash of its design, so that
        designs which were routed would be others if it depended on how a circuit is written.
        """
        head = [*self._head({}), *indented(self._declared({}, *INSIDE))]
        body = [s.bit_by_bit if isinstance(s, BitConcatenation) else s for s in self.body]
        return self._printed(waived(UNUSED, self.unread, head) if self.unread else head, body)

    def _printed(
        self, head: list[str], statements: Sequence[Statement], legend: Sequence[str] = ()
    ) -> str:
        body = [line for statement in statements for line in statement.lines(self.enable)]
        declared = any(self._of_kinds(*kinds) for kinds in INSIDE)
        inside = [*([""] if declared and body and body[0] else []), *indented(body)]
        return "\n".join([*self._about(legend), *head, *inside, "endmodule", ""])

    def _narrowed(self, statements: Iterable[Statement]) -> Iterator[Statement]:
        """Statements whose waivers for widths stand where operands are extended, and only there."""
        logic = [d for d in self._of_kinds(*PORTS, "logic") if d.size is None]
        widths = {d.name: d.bits or 1 for d in logic if not isinstance(d.bits, str)}
        for x in statements:
            if isinstance(x, Waived) and x.rule == "WIDTH":
                yield from narrowed(x, widths)
            elif isinstance(x, Alternative):
                others = tuple(self._narrowed(x.others))
                yield x._replace(statements=tuple(self._narrowed(x.statements)), others=others)
            else:
                yield x

    def _reasons(self) -> dict[str, str]:
        """Why bits of signals are not read, by the names of those of which some are not."""
        reasons = {d.name: d.unread for d in self.declarations.values() if d.unread}
        if not self.unread:
            return reasons
        signals = [d for d in self._of_kinds(*PORTS, "logic") if d.size is None]
        # Those whose width is a parameter are read as a whole wherever they are named
        widths = {d.name: d.bits if isinstance(d.bits, int) else 1 for d in signals}
        inputs = [name for name, d in self.ports.items() if d.kind == INPUT]
        some = unread([*self.body, Assign("", self.enable)], widths, inputs)
        others = {d.name for d in signals if d.kind != OUTPUT} - {*reasons}
        return reasons | {
            name: self._reason(name, read) for name, read in some.items() if name in others
        }

    def _reason(self, name: str, read: bool) -> str:
        """Why bits of a signal are not read. read: whether others are."""
        if self.unread != UNREAD:
            return self.unread
        return DROPPED if read else (COMMON if self.declarations[name].kind == INPUT else NOT_READ)

    def _about(self, legend: Sequence[str]) -> Iterator[str]:
        yield from (f"// {line}" for line in wrap(self.comment, COLUMNS - 3))
        for row in legend:
            yield from (f"// {x}" for x in wrap(row, COLUMNS - 3, subsequent_indent="    "))
        if "clock" in self.ports:
            yield f"// {ONE_CLOCK} {RESET if 'reset' in self.ports else NO_RESET}"
        if self.directive:
            yield self.directive

    def _head(self, reasons: Mapping[str, str]) -> Iterator[str]:
        """The ports. reasons: why some are not read as a whole, by their names."""
        parameters, ports = self._of_kinds("parameter"), list(self.ports.values())
        if parameters:
            yield f"module {self.name} #("
            yield from _listed(parameters, {})
        if ports:
            yield ") (" if parameters else f"module {self.name} ("
            yield from _listed(ports, reasons)
        yield ");" if parameters or ports else f"module {self.name};"

    def _of_kinds(self, *kinds: str) -> list[Declaration]:
        return [d for d in self.declarations.values() if d.kind in kinds]

    def _declared(self, reasons: Mapping[str, str], *groups: tuple[str, ...]) -> list[str]:
        """The declarations of groups of kinds; neighbours of one type share a line."""
        every = [d for kinds in groups for d in self._of_kinds(*kinds)]
        printed = list[str]()
        for reason, group in groupby(every, lambda d: reasons.get(d.name, "")):
            lines = list[str]()
            for (words, comment), alike in groupby(group, lambda d: (d.type, d.comment)):
                rows = filled([d.named for d in alike], COLUMNS - len(words) - 4)
                lines += [f"{words} {names};{behind(comment)}" for names in rows]
            printed += declared_unread(reason, lines) if reason else lines
        return printed


INPUT, OUTPUT = "input logic", "output logic"
PORTS = (INPUT, OUTPUT)
INSIDE = ("localparam",), ("logic", "integer")  # what is declared, one group behind the other
DROPPED = "Rounding drops low bits, a narrower format high ones."
COMMON = "Every module of this kind has this port."
NOT_READ = "Nothing in this module reads it."
UNUSED = "UNUSEDSIGNAL"  # the rule of Verilator's
ONE_CLOCK = "All registers take values at the rising edge of `clock`, the only clock."
RESET, NO_RESET = "`reset` is synchronous.", "None is reset."


def sources(modules: Mapping[str, Module]) -> dict[str, str]:
    """The text of modules, by the names of their files."""
    return {f"{name}.sv": module.text for name, module in modules.items()}


def hashed_sources(modules: Mapping[str, Module]) -> dict[str, str]:
    """The text of modules as hashes of designs know it, by the names of their files."""
    return {f"{name}.sv": module.hashed for name, module in modules.items()}


def same(names: Iterable[str]) -> dict[str, str]:
    """Ports that are at signals of their names."""
    return {name: name for name in names}


def named(*modules: Module) -> dict[str, Module]:
    """Modules by their names."""
    return {module.name: module for module in modules}


def declared_unread(reason: str, lines: list[str]) -> list[str]:
    """Declarations of which some bits are not read. The reason stands beside what waives the rule,
    or above if it is long: there are many.
    """
    off, *others = waived(UNUSED, "", lines)
    beside = f"{off}{behind(reason)}"
    if len(beside) <= COLUMNS - 4:
        return [beside, *others]
    return waived(UNUSED, reason, lines)


def _listed(declarations: list[Declaration], reasons: Mapping[str, str]) -> Iterator[str]:
    """Ports or parameters of a module. reasons: why some are not read, by their names."""
    rows = [f"{d.type} {d.named}" for d in declarations]
    lines = zip(declarations, separated(rows, [d.comment for d in declarations]), strict=True)
    for reason, group in groupby(lines, lambda row: reasons.get(row[0].name, "")):
        part = [line for _, line in group]
        yield from indented(declared_unread(reason, [x.strip() for x in part])) if reason else part
