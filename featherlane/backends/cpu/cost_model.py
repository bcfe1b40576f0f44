"""A model of the time of a call, which chooses threads, lanes and tiles.

    work = vectors (slots SLOT + lanes bytes BYTE)
    seconds = START + work in one thread,
    seconds = START + WAKE + min(work, (work + (threads - 1) LATE) / threads) in several

for so many vectors of states, with the arithmetic instructions ("slots") and the bytes of inputs
and outputs of one state: threads claim parts of the work, and nobody waits for a thread that comes
late. Nothing is measured at run time: `benchmarks/choices.py --calibrate` fitted SLOT and
BYTE once, on an AMD EPYC of the third generation with 256-bit vectors; WAKE and LATE were measured
apart. docs/choices.md has all figures and how well the model predicts. On another processor all
constants are wrong by about the same factor, and only their ratios choose.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SLOT = 0.29e-9  # s for an arithmetic instruction on a vector, with its loads and stores
BYTE = 0.030e-9  # s for a byte of an array, loaded or stored and transposed
START = 0.25e-6  # s of a call of machine code
WAKE = 5e-6  # s that a caller spends on waking another thread: 3 to 8 us were measured
LATE = 130e-6  # s until a woken thread works: 35 to 170 us were measured
# Times WAKE: the work for which workers are woken, who then stay awake for the next call
WORTH_WAKING = 10
WORTH_A_THREAD = 3e-6  # s of work for each thread that is awake
PART = 5e-6  # s of the smallest part that a thread claims; half of it is waited for on average
ROUND = 4  # vectors that one round of tiles computes, see `graphs/layout`


class CallCost(NamedTuple):
    """The cost of one state of a function. slots: its arithmetic instructions; moved: the bytes of
    its inputs and outputs; width: the states in a vector.
    """

    slots: int
    moved: int
    width: int

    @property
    def vector(self) -> float:
        """Seconds for a vector of states, full or not."""
        return self.slots * SLOT + self.width * self.moved * BYTE

    def work(self, states: int) -> float:
        """Seconds of one thread for so many states."""
        return -(-states // self.width) * self.vector

    def seconds(self, states: int, threads: int = 1) -> float:
        """Seconds of a call if all other threads sleep; a vector is not shared."""
        work, threads = self.work(states), min(threads, -(-states // self.width))
        if threads == 1:
            return START + work
        return START + WAKE + min(work, (work + (threads - 1) * LATE) / threads)

    def threads(self, states: int, cores: int) -> int:
        """The threads of a call."""
        if states <= self.alone():
            return 1
        return max(min(-(-states // self.each()), cores), 1)

    def alone(self) -> int:
        """The most states for which no worker is woken."""
        return max(math.ceil(WORTH_WAKING * WAKE / self.vector) - 1, 1) * self.width

    def each(self) -> int:
        """The fewest states that are worth a thread that is awake."""
        return math.ceil(WORTH_A_THREAD / self.vector) * self.width

    def part(self) -> int:
        """The states of the smallest part of a call that threads share: whole rounds, so that parts
        meet on cache lines, or one vector of long code.
        """
        vectors = math.ceil(PART / self.vector)
        return (-(-vectors // ROUND) * ROUND if vectors > 1 else 1) * self.width
