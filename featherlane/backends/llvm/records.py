"""Records of 64-bit words, which Python writes and emitted code reads.

A kind of record is a NamedTuple whose fields are one word each. Python writes `list(record)`;
emitted code finds a field by its number, `field(Kind, "name")`, of `words(Kind)`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from featherlane.backends.llvm.macros import expanded


def field(kind: Any, name: str) -> int:
    """The number of a field among the words of its record."""
    return kind._fields.index(name)


def words(kind: Any) -> int:
    """The words of a record."""
    return len(kind._fields)


def packed(numbers: Sequence[int]) -> bytes:
    """Words as emitted code reads them."""
    return struct.pack(f"{len(numbers)}q", *numbers)


def word(name: str, kind: str, base: str, index: int) -> list[str]:
    """Loads word `index` of a list, of LLVM type `kind`, into %name."""
    return [
        f"%{name}.w = getelementptr inbounds i64, ptr {base}, i64 {index}",
        f"%{name} = load {kind}, ptr %{name}.w, align 8",
    ]


def read(kind: Any, base: str, names: str) -> str:
    """Macros that load fields of a record into values of their names, "n" or "n:type"."""
    pairs = [name.split(":") for name in names.split()]
    return "\n  ".join(
        f"%{name} = item {of[0] if of else 'i64'} {base} {field(kind, name)}" for name, *of in pairs
    )


def all_words(kind: Any, base: str) -> list[str]:
    """Loads every field of a record into a value of its name."""
    names: Sequence[str] = kind._fields
    return [line for k, name in enumerate(names) for line in word(name, "i64", base, k)]


def record_loop(
    function: str, header: Any, kind: Any, setup: list[str], body: list[str]
) -> list[str]:
    """A kernel on three matrices a, b, c that is driven by a program: a header, then records. Lines
    may use macros.

    `setup` runs once with the words of the header, `body` once for each record with its words; the
    body ends with a branch to %next.
    """
    lines = [
        f"define internal void @{function}(ptr %a, ptr %b, ptr %c, ptr %program, i64 %records)"
        " noinline {",
        "entry:",
        *all_words(header, "%program"),
        *setup,
        f"%first = getelementptr inbounds i64, ptr %program, i64 {words(header)}",
        "br label %record",
        "record:",
        "%n = phi i64 [ 0, %entry ], [ %n1, %next ]",
        "when slt i64 %n, %records: begin, leave",
        "begin:",
        f"%at = record %first %n {words(kind)}",
        *all_words(kind, "%at"),
        *body,
        "next:",
        "%n1 = add i64 %n, 1",
        "br label %record",
        "leave:",
        "ret void",
        "}",
    ]
    return [expanded("\n".join(lines))]
