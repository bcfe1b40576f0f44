"""Resources of a device: what a circuit takes, or what there is."""

from __future__ import annotations

from typing import NamedTuple


class Resources(NamedTuple):
    """Multipliers (DSPs), LUTs (those of logic, shift registers and memories), flip-flops, memories
    of 18 kbit, and large memories (UltraRAMs of 288 kbit).
    """

    dsps: float = 0
    luts: float = 0
    ffs: float = 0
    memories: float = 0
    large: float = 0

    def __add__(self, other: object) -> Resources:
        assert isinstance(other, Resources)
        return Resources(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Resources()
# Headings of tables; every design has the first three
NAMES = ("DSPs", "LUTs", "flip-flops", "blocks of RAM", "UltraRAMs")
