"""The time of a run, and what of it each robot may take."""

from __future__ import annotations

import time
from collections.abc import Sequence

from featherlane.api.model import Model

ANY = 30.0  # what a robot weighs besides its degrees of freedom
COMPILED_FOR = 90.0  # and besides, where peers are tried that compile for long


def weight(model: Model, heavy: bool) -> float:
    """How much time a robot takes, beside others."""
    return ANY + model.nv + COMPILED_FOR * heavy


class Clock:
    """So many seconds, shared by weight: what one robot leaves is the others'."""

    def __init__(self, seconds: float, weights: Sequence[float]) -> None:
        self._begun, self._weights = time.monotonic(), weights
        self._end = self._begun + seconds

    def until(self, k: int) -> float:
        """When robot k, which begins now, has had its share (of `time.monotonic`)."""
        now, left = time.monotonic(), sum(self._weights[k:])
        return now + max(0.0, self._end - now) * self._weights[k] / max(left, 1.0)

    def told(self, k: int) -> str:
        """Before robot k: how far the run is, and how long the rest may take."""
        now, done, left = time.monotonic(), sum(self._weights[:k]), sum(self._weights[k:])
        most = self._end - now
        expected = min(most, (now - self._begun) * left / done) if done else most
        place = f"robot {k + 1} of {len(self._weights)}"
        return f"{place}, {now - self._begun:.0f} s gone, about {max(expected, 0.0):.0f} s to go"


def part(until: float, share: float) -> float:
    """A share of the time from now on."""
    now = time.monotonic()
    return now + share * max(0.0, until - now)
