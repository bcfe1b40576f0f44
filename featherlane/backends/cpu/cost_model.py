"""What a call is expected to cost, and what is chosen by that: threads, lanes, tiles of a round.

    work = vectors (slots SLOT + lanes bytes BYTE)
    seconds = START + work in one thread,
    seconds = START + WAKE + min(work, (work + (threads - 1) LATE) / threads) in several

for so many vectors of states, with the arithmetic instructions and the bytes of inputs and outputs
of one state: threads claim parts of the work, and nobody waits for those that come late. The
constants were fitted once, by `benchmarks/choices.py --calibrate`, on an AMD EPYC of the third
generation with 256-bit vectors; docs/choices.md has how well they fit. Nothing is measured where a
user calls. On another processor all of them are wrong by about the same factor, and only their
ratios choose.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SLOT = 0.29e-9  # s for an arithmetic instruction on a vector, with what is stored and loaded for it
BYTE = 0.030e-9  # s for a byte read or written, turned from rows to lanes or back
START = 0.25e-6  # s of a call of machine code
WAKE = 5e-6  # s that a caller needs to wake another thread
LATE = 130e-6  # s until that one works
MOST = 10  # times as much work as waking costs makes it worth it: others may follow while it is up
EACH = 3e-6  # s of work that make a thread worth its while if it is awake
PART = 5e-6  # s of the smallest parts that threads claim: on average half of it is waited for
ROUND = 4  # vectors that go through the code together, see backends/layout.py


class Load(NamedTuple):
    """What a function asks of the machine. slots: arithmetic instructions of one state; moved:
    bytes of its inputs and outputs; width: states in a vector.
    """

    slots: int
    moved: int
    width: int

    @property
    def vector(self) -> float:
        """Seconds for the states of a vector, be it full or not."""
        return self.slots * SLOT + self.width * self.moved * BYTE

    def work(self, states: int) -> float:
        """Seconds of one thread for so many states."""
        return -(-states // self.width) * self.vector

    def seconds(self, states: int, threads: int = 1) -> float:
        """Of a call, as expected if all other threads sleep; a vector is not shared."""
        work, threads = self.work(states), min(threads, -(-states // self.width))
        if threads == 1:
            return START + work
        return START + WAKE + min(work, (work + (threads - 1) * LATE) / threads)

    def threads(self, states: int, cores: int) -> int:
        """As many as are asked to come: waking them costs a tenth at most."""
        if states <= self.alone():
            return 1
        return max(min(-(-states // self.each()), cores), 1)

    def alone(self) -> int:
        """The most states for which nobody is woken."""
        return max(math.ceil(MOST * WAKE / self.vector) - 1, 1) * self.width

    def each(self) -> int:
        """The states that make a thread worth its while."""
        return math.ceil(EACH / self.vector) * self.width

    def part(self) -> int:
        """The states of the smallest part of a call that threads share: whole rounds, so that parts
        meet where lines of memory do, or one vector of long code.
        """
        vectors = math.ceil(PART / self.vector)
        return (-(-vectors // ROUND) * ROUND if vectors > 1 else 1) * self.width
