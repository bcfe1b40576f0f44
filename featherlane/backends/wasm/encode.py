"""The binary format of WebAssembly: numbers, instructions, sections (WebAssembly Core Specification
2.0, chapter 5).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

I32, V128, NOTHING = (bytes([x]) for x in b"\x7f\x7b\x40")  # types of values and blocks
FUNCTION = b"\x60"
BLOCK, LOOP, END, BRANCH, BRANCH_IF = (bytes([x]) for x in b"\x02\x03\x0b\x0c\x0d")
LOCAL_GET, LOCAL_SET, CALL, CONST = (bytes([x]) for x in b"\x20\x21\x10\x41")
LESS, ADD, SUB = (bytes([x]) for x in b"\x48\x6a\x6b")  # of addresses and numbers
PAGE = 65536  # bytes


def unsigned(n: int) -> bytes:
    """A number in LEB128: seven bits in each byte, the lowest first."""
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def signed(n: int) -> bytes:
    """A number in signed LEB128: bit 6 of the last byte is its sign."""
    out = bytearray()
    while not -0x40 <= n < 0x40:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n & 0x7F)
    return bytes(out)


def vector(items: Sequence[bytes]) -> bytes:
    """A list with its length."""
    return unsigned(len(items)) + b"".join(items)


def text(name: str) -> bytes:
    data = name.encode()
    return unsigned(len(data)) + data


def simd(code: int) -> bytes:
    """An instruction on vectors."""
    return b"\xfd" + unsigned(code)


def memory(code: int, offset: int, align: int) -> bytes:
    """An instruction on vectors that takes an address, to which it adds `offset`. align: the
    logarithm of the alignment of the address.
    """
    return simd(code) + unsigned(align) + unsigned(offset)


def get(local: int) -> bytes:
    return LOCAL_GET + unsigned(local)


def put(local: int) -> bytes:
    """Pops a value from the stack into a local."""
    return LOCAL_SET + unsigned(local)


def call(function: int) -> bytes:
    return CALL + unsigned(function)


def integer(n: int) -> bytes:
    return CONST + signed(n)


def repeat(count: int, step: int, body: bytes) -> bytes:
    """Repeats a body while the number in a local is positive, and subtracts a step from it each
    time.
    """
    done = get(count) + integer(1) + LESS + BRANCH_IF + unsigned(1)  # leaves the outer block
    again = get(count) + integer(step) + SUB + put(count) + BRANCH + unsigned(0)
    return BLOCK + NOTHING + LOOP + NOTHING + done + body + again + END + END


class ModuleWriter:
    """A module under construction: functions without results, and one memory, which is exported."""

    def __init__(self) -> None:
        self._types: dict[bytes, int] = {}
        self._functions: list[int] = []
        self._bodies: list[bytes] = []
        self._exports: list[bytes] = []

    def function(
        self, parameters: int, body: bytes, vectors: int = 0, export: str | None = None
    ) -> int:
        """Adds a function of so many addresses and numbers, with so many vectors as further locals;
        returns its number.
        """
        kind = FUNCTION + vector([I32] * parameters) + vector([])
        head = vector([unsigned(vectors) + V128] if vectors else [])
        number, code = len(self._bodies), head + body + END
        self._functions.append(self._types.setdefault(kind, len(self._types)))
        self._bodies.append(unsigned(len(code)) + code)
        if export is not None:
            self._exports.append(text(export) + b"\x00" + unsigned(number))
        return number

    def encoded(self, size: int, custom: dict[str, bytes]) -> bytes:
        """The bytes of the module. size: bytes of memory, which users may grow; custom: custom
        sections, by name.
        """
        pages = -(-size // PAGE)
        sections = [
            (1, vector([*self._types])),
            (3, vector([unsigned(kind) for kind in self._functions])),
            (5, vector([b"\x00" + unsigned(pages)])),
            (7, vector([*self._exports, text("memory") + b"\x02\x00"])),
            (10, vector(self._bodies)),
            *[(0, text(name) + content) for name, content in custom.items()],
        ]
        parts = [bytes([number]) + unsigned(len(x)) + x for number, x in sections]
        return b"\x00asm" + struct.pack("<I", 1) + b"".join(parts)
