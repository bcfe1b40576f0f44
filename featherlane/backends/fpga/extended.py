"""Which statements make signed operands wider: linters ask for a reason for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from featherlane.backends.fpga.statements import (
    Assign,
    BitConcatenation,
    ChoiceTree,
    Multiplexer,
    Process,
    Registers,
    Statement,
    Waived,
)
from featherlane.backends.fpga.unread import taken

Widths = Mapping[str, int]  # bits of signals, by name
NAME = re.compile(r"\w+")
PART = re.compile(r"\w+\[(\d+)(?::(\d+))?\]")  # some bits of a signal
LITERAL = re.compile(r"-?(\d+)'s?[bdh][0-9a-fA-F]+")
WHOLE = re.compile(r"\$signed\((.*)\)")
REPEATED = re.compile(r"\{(\d+)\{(.*)\}\}")
EXTENDED = "Signed operands extend to the width of the result, which is kept modulo 2^width."
SET = re.compile(r"(\w+) <= ([^;\n]*);")  # a register and what it takes
FEWEST = 6  # statements of equal widths for which a waiver ends


def narrowed(waived: Waived, widths: Widths) -> Iterator[Statement]:
    """Yields the statements of a waiver, those of unequal widths in waivers, with few others. A
    signal of which the last bits are taken is written with their range, so that it needs none.
    """
    run, equal = list[Statement](), list[Statement]()
    for statement in [_ranged(x, widths) for x in waived.statements]:
        if not _is_equal(statement, widths):
            if len(equal) >= FEWEST or not run:
                yield from [*_waiver(run), *equal]
                run = []
            else:
                run += equal
            run.append(statement)
            equal = []
        else:
            equal.append(statement)
    yield from [*_waiver(run), *equal]


def _waiver(run: list[Statement]) -> list[Statement]:
    return [Waived("WIDTH", EXTENDED, tuple(run))] if run else []


def _ranged(x: Statement, widths: Widths) -> Statement:
    """An assignment with the range of the bits that it takes of a wider signal."""
    if isinstance(x, Assign):
        return x._replace(value=taken(x.value, widths.get(x.target), widths))
    return x


def _is_equal(x: Statement, widths: Widths) -> bool:
    """Whether both sides of a statement surely have as many bits."""
    match x:
        case Assign(target, value):
            return _bits(target, widths) == _bits(value, widths) != 0
        case Multiplexer(target, _, rows):
            return {_bits(value, widths) for _, value in rows} == {_bits(target, widths)} != {0}
        case ChoiceTree(target, _, sources):
            return {_bits(value, widths) for value in sources} == {_bits(target, widths)} != {0}
        case BitConcatenation(target, bits):
            return _bits(target, widths) == len(bits)
        case Process("initial"):
            return True  # a table of literals
        case Registers(_, lines):
            text = "\n".join(lines)
            set_here = [_settled(x[1], x[2], widths) for x in SET.finditer(text)]
            return len(set_here) == text.count("<=") and all(set_here)
    return False


def _settled(target: str, value: str, widths: Widths) -> bool:
    """Whether a register surely has as many bits as what it takes: a value, or a comparison."""
    left, equals, right = value.partition(" == ")
    if equals:
        return _bits(left, widths) == _bits(right, widths) != 0 and _bits(target, widths) == 1
    return _bits(target, widths) == _bits(value, widths) != 0


def _bits(value: str, widths: Widths) -> int:
    """The bits of an expression without operators, 0 for others."""
    value = value.strip()
    if match := WHOLE.fullmatch(value):
        return _bits(match[1], widths)
    if match := REPEATED.fullmatch(value):
        return int(match[1]) * _bits(match[2], widths)
    if value.startswith("{") and value.endswith("}"):
        parts = [_bits(part, widths) for part in _separate(value[1:-1])]
        return sum(parts) if all(parts) else 0
    if match := PART.fullmatch(value):
        return int(match[1]) - int(match[2] or match[1]) + 1
    if match := LITERAL.fullmatch(value):
        return int(match[1])
    return widths.get(value, 0) if NAME.fullmatch(value) else 0


def _separate(text: str) -> list[str]:
    """The parts of a concatenation."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "{(") - (c in "})")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts if depth == 0 else [""]
