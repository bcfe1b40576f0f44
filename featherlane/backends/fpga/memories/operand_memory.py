"""The memory of a port, and where its words lie.

In a ring, a value is written where a counter of cycles stands, and read so many places further
back: a subtraction in front of each memory. Where words lie by slots, the address of a value is the
phase in which it is written, and the number of the turn, a counter of intervals. Micro-code tells
the phase, and a subtraction of a few bits by how many turns the value is older. Constants lie in
further slots, once for each turn; nothing is written there, not even before the first state, when
phases and micro-code may not fit together.

A value is read after it was written for the same state, so that the words of values need none at
the start. UltraRAMs have none: they cannot be initialised.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from featherlane.backends.fpga.memories.binding import Port
from featherlane.backends.fpga.memories.microcode import BLOCK_BITS
from featherlane.backends.fpga.memories.schedule import Tap

SHALLOW = 32  # values in the ring of a memory of LUTs; a longer one is a block of RAM
BLOCK = 18 * 1024, BLOCK_BITS  # bits of a block of RAM, and of its words at most


class OperandMemory(NamedTuple):
    """The memory of a port: the bits of a word, the places of its values, the constants behind
    these, and the taps from which values come; without taps it has constants alone, and no places.
    shallow: the words that a memory of LUTs has at most; cells: of each value, if it turns
    (`turning`), in the place of a ring. lender: the port whose multiplexer gives it values
    (`sharing`); lent: the bits of a multiplexer that serves several ports. turns: of its values, if
    they lie by slots, else 0. large: whether it is a memory larger than blocks of RAM (UltraRAM).
    """

    width: int
    ring: int
    constants: tuple[int, ...]
    taps: tuple[Tap, ...]
    shallow: int
    cells: Mapping[int, int] | None = None
    lender: Port | None = None
    lent: int = 0
    turns: int = 0
    large: bool = False

    @property
    def inputs(self) -> int:
        """The inputs of its multiplexer, 0 if that is another port's."""
        return len(self.taps) if self.lender is None else 0

    @property
    def is_ring(self) -> bool:
        """Whether values lie in the order in which they are written."""
        return bool(self.taps) and self.cells is None and not self.turns

    @property
    def words(self) -> int:
        return 2 * self.ring if self.constants else self.ring

    @property
    def slots(self) -> int:
        """The slots of values and of constants."""
        return self.words // self.turns if self.turns else 0

    @property
    def blocks(self) -> int:
        """The blocks of RAM that it takes, 0 for other memories."""
        if not self.taps or self.cells is not None or self.large:
            return 0
        if self.ring <= SHALLOW and self.words <= self.shallow:
            return 0
        bits, widest = BLOCK
        wide = ceil(self.width / widest)
        return wide * ceil(self.words * min(self.width, widest) / bits)

    @property
    def is_block(self) -> bool:
        """Whether it is a block of RAM, or a larger memory, and not of LUTs."""
        return self.blocks > 0 or self.large

    def style(self, vivado: bool) -> str:
        """The attributes that tell synthesis what to make of it. What is written is read later, so
        that blocks need no logic for reads of what is written meanwhile, which Yosys
        (`no_rw_check`) and, if it is asked for, Vivado (`rw_addr_collision`) are told.
        """
        if not self.is_block:
            return 'ram_style = "distributed"'
        unchecked = 'no_rw_check, rw_addr_collision = "no"' if vivado else "no_rw_check"
        return f'ram_style = "{"ultra" if self.large else "block"}", {unchecked}'

    @property
    def turn_bits(self) -> int:
        """The bits of the number of turns that its addresses have."""
        if self.cells is not None:
            return (self.ring - 1).bit_length()
        return (self.turns - 1).bit_length() if self.turns else 0

    def with_slots(self, longest: int, interval: int) -> OperandMemory:
        """Returns the memory with slots, or as it is if a ring takes less. longest: the cycles that
        a value waits at most.
        """
        slots = 1 << max((interval - 1).bit_length(), 1)
        turns = 1 << (longest // interval).bit_length()
        slotted = self._replace(ring=slots * turns, turns=turns)
        takes = lambda memory: (memory.blocks, 0 if memory.blocks else max(memory.words, SHALLOW))
        return slotted if takes(slotted) <= takes(self) else self
