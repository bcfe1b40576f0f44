"""Reads PTX as this package writes it: one instruction a line."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from featherlane.errors import CompileError

LINE = re.compile(r"(?:@(!?)(%\w+) )?([\w.]+)(?: (.*))?;")
REGISTERS = re.compile(r"\.reg \.(\w+) (%\w+)<(\d+)>;")
TABLE = re.compile(r"\.global \.align \d+ \.(\w+) (\w+)\[\d+\] = \{(.*)\};")
OPERANDS = re.compile(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+")


class Instruction(NamedTuple):
    """A line. Threads run it if their register `guard` is true, or false where it is negated.
    parts: of its name.
    """

    line: str
    negated: bool
    guard: str | None
    name: str
    parts: list[str]
    operands: list[str]


class Parsed(NamedTuple):
    """A kernel or a function. parameters: types by names; kinds and counts: the types of registers,
    and how many there are, by their names without the number; labels: the index of the instruction
    that follows.
    """

    parameters: dict[str, str]
    kinds: dict[str, str]
    counts: dict[str, int]
    lines: list[Instruction]
    labels: dict[str, int]

    def kind(self, register: str) -> str:
        """The type of a register."""
        return self.kinds[register.rstrip("0123456789")]


class Table(NamedTuple):
    """Numbers in global memory."""

    name: str
    kind: str
    numbers: list[int]


def parsed(text: str, name: str, what: str = "entry") -> Parsed:
    """A kernel of a text, or with what="func" a function. Raises CompileError for a line of another
    form.
    """
    start = text.index(f".{what} {name}(\n")
    head, body = text[start : text.index("\n}\n", start)].split("\n{\n", 1)
    parameters = {x: kind for kind, x in re.findall(r"\.param \.(\w+) (\w+)", head)}
    code = Parsed(parameters, {}, {}, [], {})
    for line in body.split("\n"):
        if match := REGISTERS.fullmatch(line):
            _only_once(match[2], code.kinds)
            code.kinds[match[2]], code.counts[match[2]] = match[1], int(match[3])
        elif line.endswith(":"):
            _only_once(line[:-1], code.labels)
            code.labels[line[:-1]] = len(code.lines)
        else:
            code.lines.append(instruction(line))
    return code


def instruction(line: str) -> Instruction:
    """A line with an instruction. Raises CompileError for another one."""
    match = LINE.fullmatch(line)
    if match is None:
        raise CompileError(f"no PTX that is known here: {line}")
    negated, guard, name, operands = match.groups()
    listed = OPERANDS.findall(operands or "")
    if ", ".join(listed) != (operands or ""):
        raise CompileError(f"operands that no comma separates: {line}")
    return Instruction(line, bool(negated), guard, name, name.split("."), listed)


def _only_once(name: str, names: Collection[str]) -> None:
    if name in names:
        raise CompileError(f"{name} is declared twice")


def tables(text: str) -> list[Table]:
    """The tables of all kernels of a text."""
    return [
        Table(name, kind, [int(x) for x in numbers.split(",")])
        for kind, name, numbers in TABLE.findall(text)
    ]
