"""One who computes a cell: prepared, checked, timed in turns with the others, checked again."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from .cells import FAILED, NOTHING, OURS, SKIPPED, UNSUPPORTED, Cell, Figure, Row
from .oracle import Expected, judge
from .ours import plain
from .peers.base import Case, Peer, Prepared, Unsupported

LEAST = 0.003  # seconds that one figure of a round takes
MOST_PASSES = 100_000


class Timed:
    """So many passes at once that they can be timed: by the processor time of this process on one
    thread, since others on the machine disturb long passes more than short ones, else by the clock.
    """

    def __init__(
        self, run: Callable[[int], object], states: int, least: float, threads: int = 1
    ) -> None:
        self._run, self._states = run, states
        self._clock = time.process_time if threads == 1 else time.perf_counter
        self.once = self._seconds(1)  # the first may still load something
        if self.once < 0.1:
            self.once = min(self.once, self._seconds(1))
        if self.once < least / 10:
            self.once = self._seconds(10) / 10
        self._count = max(1, min(MOST_PASSES, round(least / max(self.once, 1e-9))))

    def _seconds(self, passes: int) -> float:
        start = self._clock()
        self._run(passes)
        return self._clock() - start

    def ns_per_state(self) -> float:
        return self._seconds(self._count) / self._count / self._states * 1e9


class Turn:
    """A row that is being made. `instead` is what it says in place of a figure, once it does."""

    def __init__(self, peer: Peer, cell: Cell, instead: str | None = None) -> None:
        self.peer, self.cell, self.instead = peer, cell, instead
        self.spent = 0.0  # seconds, in all
        self._ready: Prepared | None = None
        self._timed: Timed | None = None
        self._plain: Timed | None = None
        self._times: list[float] = []
        self._more: dict[str, Figure] = {}

    @property
    def name(self) -> str:
        return self.peer.name

    def prepare(self, case: Case, expected: Expected, least: float, longest: float) -> None:
        """Ready to be timed, or the reason why not. longest: seconds that a pass may take."""
        with _Spending(self):
            ready = self.peer.prepare(case)
            if isinstance(ready, Unsupported):
                self.instead = UNSUPPORTED + ready.why
                return
            self._ready = ready
            self._more = {"compile_s": ready.compile_seconds, "settings": ready.settings or NOTHING}
            self._timed = Timed(ready.run, case.batch, least, case.threads)
            self._check("before", expected)
            if self.instead is None and self._timed.once > longest:
                self._give_up(f"{SKIPPED}a pass takes {self._timed.once:.1f} s")
            if self.name == OURS and case.batch == 1:
                self._plain = Timed(plain(case), 1, least)

    def take(self) -> None:
        """One figure of a round."""
        if self._timed is not None and self.instead is None:
            with _Spending(self):
                self._times.append(self._timed.ns_per_state())

    def finish(self, expected: Expected) -> None:
        """The answers of the last pass, and what is timed outside of the rounds."""
        if self.instead is None:
            with _Spending(self):
                self._check("after", expected)
                if self._plain is not None:
                    self._more["plain_call_ns"] = median(
                        self._plain.ns_per_state() for _ in range(5)
                    )

    def _check(self, when: str, expected: Expected) -> None:
        assert self._ready is not None
        got = self._ready.answers(expected.rows)
        verdict = judge(got, expected, self.cell.function, self.cell.dtype)
        self._more[f"error_{when}"] = verdict.error
        self._more["allowed"] = verdict.allowed
        if verdict.singular:
            self._more["note"] = f"M is singular in {self.cell.dtype}: answers were not compared"
        if not verdict.right:
            self._give_up(f"{FAILED}differs by {verdict.error:.1e} {when} timing")

    def _give_up(self, why: str) -> None:
        self.instead = why
        self.close()

    def failed(self, error: Exception) -> None:
        told = " ".join(str(error).split())[:200]
        self._give_up(f"{FAILED}{type(error).__name__}: {told}")

    @property
    def middle(self) -> float | None:
        return median(self._times) if self._times and self.instead is None else None

    def row(self, ours: float | None) -> Row:
        """ours: what featherlane took, for the ratio."""
        if self.middle is None:
            return Row(*self.cell, self.name, self.instead or f"{FAILED}no time", **self._more)
        spread = (max(self._times) - min(self._times)) / self.middle
        ratio = NOTHING if ours is None else self.middle / ours
        return Row(*self.cell, self.name, self.middle, spread, ratio, **self._more)

    def close(self) -> None:
        if self._ready is not None:
            self._ready.close()
        self._ready = self._timed = self._plain = None


class _Spending:
    """Counts the time of a turn, and turns an exception into the cell's reason."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def __enter__(self) -> None:
        self._start = time.monotonic()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._turn.spent += time.monotonic() - self._start
        if isinstance(error, Exception):
            self._turn.failed(error)
        return isinstance(error, Exception)
