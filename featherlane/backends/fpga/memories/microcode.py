"""Micro-code: the fields of control of a unit by phase, and the bits that these consist of."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

BLOCK_BITS = 36  # of the words of a block of RAM, at most
IN_PAIRS = 32  # phases for which a LUT of six inputs gives two bits, as LUT6_2


class Microcode:
    """Fields of control by phase. A field that is not set in a phase is 0 there, or anything if it
    is free. packed: whether equal bits are kept once, and constant ones not at all.
    """

    def __init__(self, interval: int, packed: bool = False) -> None:
        self.bits = dict[str, int]()
        self.rows: list[dict[str, int]] = [{} for _ in range(interval)]
        self.packed, self._free = packed, set[str]()

    def field(self, name: str, values: int, free: bool = False) -> None:
        """Adds a field with so many values, unless it has one alone."""
        if values > 1:
            self.bits[name] = (values - 1).bit_length()
            if free:
                self._free.add(name)

    def set(self, cycle: int, name: str, value: int = 1) -> None:
        """Sets a field in the phase of a cycle."""
        if name in self.bits:
            self.rows[cycle % len(self.rows)][name] = value & (1 << self.bits[name]) - 1

    @property
    def packing(self) -> Packing:
        """The bits that are kept."""
        return _packing(self) if self.packed else _plain(self)

    @property
    def blocks(self) -> int:
        """The blocks of RAM that hold it."""
        return ceil(self.packing.width / BLOCK_BITS)

    def column(self, name: str) -> tuple[int, ...]:
        """A field by phase; zeros if there is no such field."""
        return tuple(row.get(name, 0) for row in self.rows)

    def partial(self, name: str, bit: int) -> Bit:
        """A bit of a field, by phase."""
        there, value = 0, 0
        for phase, row in enumerate(self.rows):
            if name in row or name not in self._free:
                there |= 1 << phase
                value |= (row.get(name, 0) >> bit & 1) << phase
        return Bit(there, value)


class Bit(NamedTuple):
    """A bit of micro-code: the phases in which it matters, and those of them in which it is 1."""

    phases: int
    value: int

    def agrees(self, other: Bit) -> bool:
        """Whether one bit may stand for both."""
        return not (self.value ^ other.value) & self.phases & other.phases

    def with_(self, other: Bit) -> Bit:
        """The bit that stands for both."""
        return Bit(self.phases | other.phases, self.value | other.value)


class Packing(NamedTuple):
    """The bits that are kept, as values by phase, and for each bit of a field, the lowest first,
    the number of its bit, or the text of a constant.
    """

    columns: Sequence[int]
    fields: dict[str, list[int | str]]
    phases: int

    @property
    def width(self) -> int:
        return len(self.columns)

    @property
    def words(self) -> list[int]:
        """The kept bits of each phase as a number; the first one is the lowest."""
        return [
            sum((column >> phase & 1) << n for n, column in enumerate(self.columns))
            for phase in range(self.phases)
        ]

    def expression(self, name: str) -> str:
        """A field, from the bits that are kept in `control`."""
        parts = [x if isinstance(x, str) else f"control[{x}]" for x in self.fields[name][::-1]]
        return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"


def _plain(code: Microcode) -> Packing:
    """All bits; the first field has the highest ones."""
    columns, fields = list[int](), dict[str, list[int | str]]()
    for name, bits in reversed(code.bits.items()):
        fields[name] = [*range(len(columns), len(columns) + bits)]
        columns += [code.partial(name, bit).value for bit in range(bits)]
    return Packing(columns, fields, len(code.rows))


def _packing(code: Microcode) -> Packing:
    """The bits that no others stand for: those that matter in most phases come first, and each of
    the others takes that with which it has most phases in common.
    """
    every = {
        (name, bit): code.partial(name, bit)
        for name, bits in code.bits.items()
        for bit in range(bits)
    }
    constants = {"1'b0": Bit(-1, 0), "1'b1": Bit(-1, (1 << len(code.rows)) - 1)}
    kept, place = list[Bit](), dict[tuple[str, int], int | str]()
    for key in sorted(every, key=lambda key: (-every[key].phases.bit_count(), key)):
        bit = every[key]
        alike = [text for text, constant in constants.items() if bit.agrees(constant)]
        if alike:
            place[key] = alike[0]
            continue
        fitting = [
            ((other.phases & bit.phases).bit_count(), -n)
            for n, other in enumerate(kept)
            if bit.agrees(other)
        ]
        if fitting:
            best = -max(fitting)[1]
            kept[best] = kept[best].with_(bit)
        else:
            best = len(kept)
            kept.append(bit)
        place[key] = best
    fields = {name: [place[name, bit] for bit in range(bits)] for name, bits in code.bits.items()}
    return Packing([bit.value for bit in kept], fields, len(code.rows))
