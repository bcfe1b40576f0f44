"""The PLL of an ECP5 (EHXPLLL): divisors that make a clock of the oscillator.

Feedback comes from the divider of CLKOP inside the PLL, and the clock from CLKOS, whose divider is
free: clocks are then less than 1 % apart (Lattice FPGA-TN-02200, sections 18 and 19).
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from featherlane.errors import CompileError

COMPARED = 3.125, 400.0  # MHz of the phase detector
OSCILLATION = 400.0, 800.0  # MHz
FED_BACK = 10.0, 400.0  # MHz of CLKOP
MOST_FEEDBACK, MOST_DIVISOR = 80, 128
BEST_OSCILLATION = 600.0


class ClockDivisors(NamedTuple):
    """The divisors of a PLL. The PLL oscillates at oscillator / reference * feedback * returned
    MHz, and gives that / output.
    """

    reference: int
    feedback: int
    returned: int
    output: int

    def oscillation(self, oscillator: float) -> float:
        """MHz inside the PLL."""
        return oscillator / self.reference * self.feedback * self.returned

    def clock(self, oscillator: float) -> float:
        """MHz of the output."""
        return self.oscillation(oscillator) / self.output

    @property
    def parameters(self) -> dict[str, int]:
        """The parameters of the cell. A phase of divisor - 1 is the one without a shift."""
        return {
            "CLKI_DIV": self.reference,
            "CLKFB_DIV": self.feedback,
            "CLKOP_DIV": self.returned,
            "CLKOP_CPHASE": self.returned - 1,
            "CLKOS_DIV": self.output,
            "CLKOS_CPHASE": self.output - 1,
        }


def divisors(oscillator: float, megahertz: float) -> ClockDivisors:
    """Returns the divisors of the fastest clock of at most `megahertz`; of equal ones, those with
    the oscillation in the middle of its range. Raises CompileError for a clock that is too slow.
    """
    candidates = [
        ClockDivisors(reference, feedback, returned, output)
        for reference in range(1, MOST_DIVISOR + 1)
        if COMPARED[0] <= oscillator / reference <= COMPARED[1]
        for feedback in range(1, MOST_FEEDBACK + 1)
        if FED_BACK[0] <= oscillator / reference * feedback <= FED_BACK[1]
        for returned in range(1, MOST_DIVISOR + 1)
        if OSCILLATION[0] <= oscillator / reference * feedback * returned <= OSCILLATION[1]
        for output in [ceil(oscillator / reference * feedback * returned / megahertz - 1e-9)]
        if output <= MOST_DIVISOR
    ]
    if not candidates:
        slowest = OSCILLATION[0] / MOST_DIVISOR
        raise CompileError(f"no PLL of the ECP5 makes {megahertz:g} MHz: {slowest:g} MHz at least")
    return max(candidates, key=lambda d: _preference(d, oscillator))


def _preference(chosen: ClockDivisors, oscillator: float) -> tuple[float, float]:
    clock, inside = chosen.clock(oscillator), chosen.oscillation(oscillator)
    return round(clock, 6), -abs(inside - BEST_OSCILLATION)
