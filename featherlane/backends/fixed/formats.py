"""Numbers in fixed point: integers of a fixed width that count fractions of one."""

from __future__ import annotations

from typing import NamedTuple


class Format(NamedTuple):
    """Signed numbers in two's complement: an integer n of `width` bits stands for n / 2^fraction.
    The fraction may be negative, or larger than the width.
    """

    width: int
    fraction: int

    @property
    def least(self) -> int:
        """The least integer."""
        return -(1 << self.width - 1)

    @property
    def most(self) -> int:
        """The largest integer."""
        return (1 << self.width - 1) - 1

    @property
    def step(self) -> float:
        """The distance of neighbouring numbers."""
        return 2.0**-self.fraction

    def __str__(self) -> str:
        return f"q{self.width - self.fraction}.{self.fraction}"
