"""Statements of a module of SystemVerilog as data: wires, registers, processes and instances, each
of which prints its own lines. Expressions are text, and so are the statements inside a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent, wrap
from typing import NamedTuple

from featherlane.backends.fpga.text import indented

COLUMNS = 100
ENABLE = "enable"  # the port of modules whose registers can wait
WIDTHS = (
    "Signed operands extend to the width of what they drive, of which the last bits are kept: the "
    "formats of all signals are chosen so."
)
UNREAD = (
    "Bits that roundings and narrower formats drop are not read, nor ports that all have alike."
)
OPEN = "Pins of what is not used of the cell stay open."


class Assign(NamedTuple):
    """A wire, or some of its bits, and the expression that drives it."""

    target: str
    value: str
    comment: str = ""

    def lines(self, enable: str) -> list[str]:
        return f"assign {self.target} = {self.value};{behind(self.comment)}".split("\n")


class BitConcatenation(NamedTuple):
    """A signed word, whose bits are 1'b0, 1'b1 or those of signals, the highest one first."""

    target: str
    bits: tuple[str, ...]

    def lines(self, enable: str) -> list[str]:
        """Bits that stand beside each other are one word: a constant, a part of a signal, or a bit
        that is repeated.
        """
        words = list[list[str]]()
        for bit in self.bits:
            if words and _follows(words[-1], bit):
                words[-1].append(bit)
            else:
                words.append([bit])
        rows = filled([_word(bits) for bits in words])
        head = f"assign {self.target} = $signed({{"
        if len(rows) == 1 and len(head + rows[0]) < COLUMNS - 5:
            return [f"{head}{rows[0]}}});"]
        return [head, *indented([f"{row}," for row in rows[:-1]]), f"  {rows[-1]}", "});"]

    @property
    def bit_by_bit(self) -> Assign:
        """The wire as a list of its bits."""
        return Assign(self.target, f"$signed({{{', '.join(self.bits)}}})")


ZERO, ONE = "1'b0", "1'b1"


def _follows(word: list[str], bit: str) -> bool:
    """Tells whether a bit joins the bits before it as one word."""
    if bit in (ZERO, ONE) or word[0] in (ZERO, ONE):
        return {bit, word[0]} <= {ZERO, ONE}
    return word[0] == word[-1] == bit or (len({*word}) == len(word) and _index_after(word[-1], bit))


def _index_after(last: str, bit: str) -> bool:
    """Tells whether a bit of a signal is the one below another."""
    (name, _, index), (other, _, below) = last.partition("["), bit.partition("[")
    return bool(index and below) and name == other and int(index[:-1]) == int(below[:-1]) + 1


def _word(bits: list[str]) -> str:
    """Bits beside each other as one expression."""
    if bits[0] in (ZERO, ONE):
        value = int("".join(bit[-1] for bit in bits), 2)
        return f"{len(bits)}'h{value:x}" if value else f"{len(bits)}'b0"
    if len(bits) == 1:
        return bits[0]
    if bits[0] == bits[1]:
        return f"{{{len(bits)}{{{bits[0]}}}}}"
    name, _, first = bits[0].partition("[")
    return f"{name}[{first[:-1]}:{bits[-1].partition('[')[2]}"


class Registers(NamedTuple):
    """Registers at an edge of the clock, by the statements that set them. when: their enable."""

    clock: str
    statements: tuple[str, ...]
    when: str = ""

    def lines(self, enable: str) -> list[str]:
        conditions = "".join(f" if ({text})" for text in (enable, self.when) if text)
        return _with_body(f"always_ff @(posedge {self.clock}){conditions}", self.statements)


class Process(NamedTuple):
    """Any other process. head: the words in front, such as "initial"; end: what ends it, if not
    begin and end.
    """

    head: str
    statements: tuple[str, ...]
    end: str = ""

    def lines(self, enable: str) -> list[str]:
        if self.end:
            return [self.head, *indented(_blocks([*self.statements])), self.end]
        return _with_body(self.head, self.statements)


class Multiplexer(NamedTuple):
    """A wire that is another signal for each value of a selector; the last row is the default."""

    target: str
    selector: str
    rows: tuple[tuple[int, str], ...]

    def lines(self, enable: str) -> list[str]:
        *first, (number, default) = self.rows
        rows = [f"{n}: {self.target} = {value};" for n, value in first]
        rows.append(f"default: {self.target} = {default};  // {number}")
        return [f"always_comb case ({self.selector})", *indented(rows), "endcase"]


MOST_LEAVES = 16  # of a multiplexer that a device has cells for


class ChoiceTree(NamedTuple):
    """A wire that is one of some signals by their number, as choices between two by each bit of the
    number: synthesis makes multiplexers of these that it does not find in a case. A tree that lacks
    at most a quarter of its leaves gets some signals twice, since a whole one takes less.
    """

    target: str
    selector: str
    sources: tuple[str, ...]

    def lines(self, enable: str) -> list[str]:
        leaves = self._whole(self.sources)
        first, *others = self._tree(leaves, (len(leaves) - 1).bit_length())
        lines = [f"assign {self.target} = {first}", *others]
        return [*lines[:-1], f"{lines[-1]};"]

    @staticmethod
    def _whole(sources: tuple[str, ...]) -> tuple[str, ...]:
        """The leaves of a tree. Signals that come again are never chosen there; they have other
        neighbours than before, so that synthesis finds no choice twice.
        """
        missing = missing_leaves(len(sources))
        return sources + tuple(sources[n ^ 1] for n in range(missing))

    def _tree(self, sources: tuple[str, ...], bits: int) -> list[str]:
        """The choice by the last bits of the number."""
        if len(sources) == 1:
            return [*sources]
        half = 1 << bits - 1
        if len(sources) <= half:
            return self._tree(sources, bits - 1)
        low, high = (self._tree(part, bits - 1) for part in (sources[:half], sources[half:]))
        condition = f"{self.selector}[{bits - 1}] ?"
        if bits == 1:
            return [f"({condition} {high[0]} : {low[0]})"]
        return [f"({condition}", *indented([*high[:-1], f"{high[-1]} :", *low[:-1], f"{low[-1]})"])]


def missing_leaves(sources: int) -> int:
    """The leaves that a tree of so many signals lacks, if it becomes whole."""
    whole = 1 << max(sources - 1, 0).bit_length()
    return whole - sources if whole <= MOST_LEAVES and 4 * sources >= 3 * whole else 0


class Instance(NamedTuple):
    """A module inside. enables: ports of a primitive that let its registers take something;
    attribute: of the instance, for tools.
    """

    module: str
    name: str
    ports: Mapping[str, str]
    parameters: Mapping[str, int | str]
    enables: Mapping[str, str]
    attribute: str = ""

    def lines(self, enable: str) -> list[str]:
        """The instance as text. enable: a condition of all its registers; empty for none."""
        ports, enables = {**self.ports}, {**self.enables}
        if enable:
            enables = {name: f"{enable} && ({text})" for name, text in enables.items()}
            if "clock" in ports:
                ports = {"clock": ports["clock"], ENABLE: enable, **ports}
        rows = _connected({**ports, **enables})
        first = [f"(* {self.attribute} *)"] if self.attribute else []
        if self.parameters:
            parameters = _connected(self.parameters)
            return [*first, f"{self.module} #(", *parameters, f") {self.name} (", *rows, ");"]
        line = f"{self.module} {self.name} ({rows[0].lstrip()});"
        if len(rows) > 1 or len(line) > COLUMNS - 2:
            return [f"{self.module} {self.name} (", *rows, ");"]
        return [line]


class Alternative(NamedTuple):
    """Statements for tools that define a macro, and others for the rest."""

    macro: str
    statements: tuple[Statement, ...]
    others: tuple[Statement, ...]

    def lines(self, enable: str) -> list[str]:
        first, others = (
            [line for statement in part for line in statement.lines(enable)]
            for part in (self.statements, self.others)
        )
        return [f"`ifdef {self.macro}", *first, "`else", *others, "`endif"]


class GenerateLoop(NamedTuple):
    """Statements that stand for each value of a variable from 0 up to its end, in blocks of a
    name.
    """

    variable: str
    end: int | str
    block: str
    statements: tuple[Statement, ...]

    def lines(self, enable: str) -> list[str]:
        n = self.variable
        head = f"for (genvar {n} = 0; {n} < {self.end}; {n}++) begin : {self.block}"
        inside = [line for statement in self.statements for line in statement.lines(enable)]
        return [head, *indented(inside), "end"]


class Waived(NamedTuple):
    """Statements that a linter does not check by a rule of Verilator's, and the reason."""

    rule: str
    reason: str
    statements: tuple[Statement, ...]

    def lines(self, enable: str) -> list[str]:
        lines = [line for statement in self.statements for line in statement.lines(enable)]
        return waived(self.rule, self.reason, lines)


class Remark(NamedTuple):
    """A comment between statements, or an empty line."""

    comment: str = ""

    def lines(self, enable: str) -> list[str]:
        return [f"// {self.comment}" if self.comment else ""]


Statement = (
    Assign
    | BitConcatenation
    | Registers
    | Process
    | Multiplexer
    | ChoiceTree
    | Instance
    | Alternative
    | GenerateLoop
    | Waived
    | Remark
)


def waived(rule: str, reason: str, lines: list[str]) -> list[str]:
    """Lines that a linter does not check by a rule of Verilator's."""
    if not lines:
        return []
    off, on = (f"/* verilator lint_{word} {rule} */" for word in ("off", "on"))
    return [*(f"// {line}" for line in wrap(reason, COLUMNS - 5)), off, *lines, on]


def behind(comment: str) -> str:
    """A comment at the end of a line."""
    return f"  // {comment}" if comment else ""


def filled(rows: list[str], room: int = COLUMNS - 5) -> list[str]:
    """Rows in as few lines as have room for them, with commas between them."""
    lines = [[rows[0]]]
    for row in rows[1:]:
        if len(", ".join([*lines[-1], row])) > room:
            lines.append([])
        lines[-1].append(row)
    return [", ".join(line) for line in lines]


def separated(rows: list[str], comments: list[str]) -> list[str]:
    """Lines with commas between them, and comments behind."""
    commas = [*[","] * (len(rows) - 1), ""]
    lines = zip(rows, commas, comments, strict=True)
    return indented([f"{row}{comma}{behind(comment)}" for row, comma, comment in lines])


def _connected(values: Mapping[str, int | str]) -> list[str]:
    """Ports or parameters of an instance."""
    rows = filled([f".{name}({value})" for name, value in values.items()])
    return separated(rows, [""] * len(rows))


def _blocks(statements: list[str]) -> list[str]:
    """The lines of statements, of which some have several."""
    return [line for text in statements for line in dedent(text).strip().split("\n")]


def _with_body(head: str, statements: tuple[str, ...]) -> list[str]:
    """A process: one line, or one case, stands without begin and end."""
    lines = _blocks([*statements])
    if len(lines) == 1 or lines[0].startswith("case"):
        return [f"{head} {lines[0]}", *lines[1:]]
    return [f"{head} begin", *indented(lines), "end"]
