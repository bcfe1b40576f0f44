"""LLVM IR cut into modules that are compiled separately.

LLVM compiles one function after another, and a large kernel is many functions that only read and
write memory: its blocks. They are moved to separate modules. The cut depends on the text alone, so
that the code does not depend on which processes compile the modules, and in which order.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Characters of a piece at least: about 0.1 s of compilation, where a piece costs about 1 ms more to
# make and 0.1 ms to load
PIECE = 1 << 18
MOST = 16  # pieces, about
MOVED = 1 << 12  # characters of a function that is worth moving

_NAME = re.compile(r"@([-\w.$]+)")
_LOCAL = ("!", "%", "attributes ")  # lines that a module needs for itself: metadata, types
INTERNAL = "internal "


class _Function(NamedTuple):
    """A function of LLVM IR. linkage: "internal " or none; head: the rest up to its brace; body:
    from the brace on.
    """

    linkage: str
    head: str
    body: str

    @property
    def text(self) -> str:
        return f"define {self.linkage}{self.head}{self.body}"

    @property
    def used(self) -> set[str]:
        """The globals that it refers to."""
        return {*_NAME.findall(self.body)}

    def can_move(self, shared: dict[str, str]) -> bool:
        """Whether it is large and refers only to globals that every module can declare."""
        if len(self.text) < MOVED or self.linkage != INTERNAL:
            return False
        return "noinline" in self.head and self.used <= shared.keys()


def cut(ir: str) -> list[str]:
    """The modules that LLVM IR is cut into. Functions that cannot be moved stay in the first
    one.
    """
    if len(ir) < 2 * PIECE:
        return [ir]
    lines, functions = _parts(ir)
    shared = {name: line for line in lines if (name := _copied(line))}
    local = [line for line in lines if line.startswith(_LOCAL)]
    stay, pieces = list[str](), list[list[_Function]]()
    least, size = max(PIECE, len(ir) // MOST), 0
    for function in functions:
        if not function.can_move(shared):
            stay.append(function.text)
            continue
        if not pieces or size >= least:
            pieces.append([])
            size = 0
        pieces[-1].append(function)
        size += len(function.text)
    moved = [f"declare hidden {function.head}" for piece in pieces for function in piece]
    return ["\n".join([*lines, *moved, *stay]), *[_module(f, shared, local) for f in pieces]]


def _parts(ir: str) -> tuple[list[str], list[_Function]]:
    """The lines of LLVM IR outside of functions, and the functions."""
    lines, functions = list[str](), list[_Function]()
    for part in f"{ir}\n".split("\n}\n"):
        outside, define, function = f"\n{part}".partition("\ndefine ")
        lines += [line for line in outside.split("\n") if line]
        if define:
            head, brace, body = function.partition("{\n")
            linkage = INTERNAL if head.startswith(INTERNAL) else ""
            functions.append(_Function(linkage, head.removeprefix(INTERNAL), f"{brace}{body}\n}}"))
    return lines, functions


def _copied(line: str) -> str | None:
    """The name that a line declares or defines, if every module can have such a line."""
    if line.startswith("declare ") or " = private unnamed_addr constant " in line:
        name = _NAME.search(line)
        return name and name[1]
    return None


def _module(functions: list[_Function], shared: dict[str, str], local: list[str]) -> str:
    used = {name: None for function in functions for name in sorted(function.used)}
    texts = [function._replace(linkage="hidden ").text for function in functions]
    return "\n".join([*[shared[name] for name in used], *texts, *local, ""])
