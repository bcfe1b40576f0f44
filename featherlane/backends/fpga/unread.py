"""The signals of a module of which some bits are not read: linters ask for a reason for each.

A circuit that rounds a sum keeps some of its bits, and what drops the others is the text of an
expression. So expressions are read here as a linter reads them: a name stands for all its bits,
unless numbers choose some.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from featherlane.backends.fpga.statements import (
    Alternative,
    Assign,
    BitConcatenation,
    ChoiceTree,
    GenerateLoop,
    Instance,
    Multiplexer,
    Process,
    Registers,
    Statement,
    Waived,
)

Widths = dict[str, int]  # bits of the signals that are of interest, by name
# A name, but not that of a port or a digit of a literal, and the bits that are chosen of it
USE = re.compile(r"(?<![\w.'$])([A-Za-z_]\w*)(?:\[([^\[\]]*)\])?")
TARGET = r"(?:\w+(?:\[[^=;]*?\])?|\{[^{}]*\})"
# What an assignment in a process drives: the first word of a statement
DRIVEN = re.compile(rf"(?:^|;|\)|\bbegin\b|\belse\b|^\s*\S+:)\s*({TARGET})\s*<?=(?!=)", re.M)


class Uses(NamedTuple):
    """Masks of bits of each signal: of those that an expression reads, that something drives, and
    those at ports of modules inside, once and more than once.
    """

    read: Widths
    driven: Widths
    connected: Widths
    twice: Widths


def unread(
    statements: Iterable[Statement], widths: Widths, inputs: Iterable[str]
) -> dict[str, bool]:
    """The signals of which some bits are not read inside of a module, and whether others are.
    widths: the bits of each; inputs: those that are driven from outside.
    """
    statements, inputs = [*statements], {*inputs}
    read = dict[str, bool]()
    for variant in _variants(statements):
        for name, others in _unread(variant, widths, inputs):
            read[name] = read.get(name, False) or others
    return read


def _unread(
    statements: list[Statement], widths: Widths, inputs: set[str]
) -> Iterator[tuple[str, bool]]:
    uses = Uses({}, {}, {}, {})
    for statement in statements:
        _add(uses, statement, widths)
    for name, bits in widths.items():
        every = (1 << bits) - 1
        driven = every if name in inputs else uses.driven.get(name, 0)
        # A signal that nothing here drives is driven by one of the modules that it is connected to
        shared = uses.connected.get(name, 0) & driven | uses.twice.get(name, 0)
        read = (uses.read.get(name, 0) | shared) & every
        if read != every:
            yield name, read != 0


def _variants(statements: list[Statement]) -> Iterator[list[Statement]]:
    """The statements that tools see with and without the macros on which some depend."""
    yield [s for x in statements for s in (x.others if isinstance(x, Alternative) else (x,))]
    if any(isinstance(x, Alternative) for x in statements):
        yield [
            s for x in statements for s in (x.statements if isinstance(x, Alternative) else (x,))
        ]


def _add(uses: Uses, x: Statement, widths: Widths) -> None:
    """Adds what a statement reads and drives."""
    match x:
        case Assign(target, value):
            _mark(uses.driven, target, widths)
            _mark(uses.read, taken(value, widths.get(target), widths), widths)
        case Multiplexer(target, selector, rows):
            _mark(uses.driven, target, widths)
            _mark(uses.read, selector, widths)
            for _, value in rows:
                _mark(uses.read, taken(value, widths.get(target), widths), widths)
        case BitConcatenation():
            _add(uses, x.bit_by_bit, widths)
        case ChoiceTree(target):
            _mark(uses.driven, target, widths)
            _, value = " ".join(x.lines("")).split("=", 1)
            _mark(uses.read, value, widths)
        case Registers(clock, lines, when):
            _mark(uses.read, f"{clock} {when}", widths)
            _add_process(uses, "\n".join(lines), widths)
        case Process(head, lines):
            _mark(uses.read, head, widths)
            _add_process(uses, "\n".join(lines), widths)
        case Instance():
            _mark(uses.read, " ".join(x.enables.values()), widths)
            for value in x.ports.values():
                _connect(uses, value, widths)
        case GenerateLoop(statements=inside) | Waived(statements=inside):
            for statement in inside:
                _add(uses, statement, widths)


def taken(value: str, bits: int | None, widths: Mapping[str, int]) -> str:
    """An expression as far as a signal of so many bits takes it."""
    if bits is not None and widths.get(value, 0) > bits:
        return f"{value}[{bits - 1}:0]" if bits > 1 else f"{value}[0]"
    return value


def _add_process(uses: Uses, text: str, widths: Widths) -> None:
    """Adds what the statements of a process read and drive."""
    read, last = list[str](), 0
    for match in DRIVEN.finditer(text):
        _mark(uses.driven, match[1], widths)
        read += [text[last : match.start(1)], *re.findall(r"\[(.*)\]", match[1])]
        last = match.end(1)
    _mark(uses.read, " ".join([*read, text[last:]]), widths)


def _connect(uses: Uses, value: str, widths: Widths) -> None:
    """Adds what stands at a port of a module inside: a signal may be read or driven there, an
    expression is read.
    """
    here: Widths = {}
    _mark(here, value, widths)
    if not re.fullmatch(rf"\s*{TARGET}\s*", value):
        for name, mask in here.items():
            uses.read[name] = uses.read.get(name, 0) | mask
        return
    for name, mask in here.items():
        before = uses.connected.get(name, 0)
        uses.connected[name] = before | mask
        uses.twice[name] = uses.twice.get(name, 0) | before & mask


def _mark(masks: Widths, text: str, widths: Widths) -> None:
    """Adds the bits of the signals in an expression to masks."""
    for match in USE.finditer(text):
        name, chosen = match.groups()
        if name in widths:
            masks[name] = masks.get(name, 0) | _mask(chosen, widths[name])
        if chosen:
            _mark(masks, chosen, widths)


def _mask(chosen: str | None, bits: int) -> int:
    """The bits that an index or a range of numbers chooses; all for other ones."""
    if bits == 1:
        return 1
    numbers = re.fullmatch(r"\s*(\d+)\s*(?::\s*(\d+)\s*)?", chosen or "")
    if numbers is None:
        return (1 << bits) - 1
    high, low = int(numbers[1]), int(numbers[2] or numbers[1])
    return (1 << high + 1) - (1 << low)
