"""How near to the machine's measured limits functions run: the roofline of a robot.

A function that runs for t seconds per state uses (slots / t) / peak of the processor's arithmetic,
and (bytes read / bandwidth of reads + bytes written / bandwidth of stores) / t of what the caches
or the memory deliver, see `work.Work` and `peaks`. The nearer of the two roofs is its bound
(Williams, Waterman and Patterson 2009, "Roofline: An Insightful Visual Performance Model").

A slot is one multiply-add of the peak, which is a convention: some processors add in units of their
own besides (AMD's since Zen), divisions and square roots take several slots, and loads, stores,
shuffles, signs and selections are not counted. Bytes are a convention too: reads and writes are
taken one after the other, so that a machine that overlaps them may pass 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from featherlane.api.model import Model
from featherlane.backends.cpu.peaks import (
    Bandwidth,
    Peaks,
    bandwidth,
    beyond_caches,
    last_cache,
    peaks,
)
from featherlane.tools.timing import SHORT, Progress, Speed
from featherlane.tools.work import Work, bytes_moved, work

__all__ = [
    "Bandwidth",
    "Peaks",
    "Point",
    "Roofline",
    "Work",
    "bandwidth",
    "bytes_moved",
    "peaks",
    "point",
    "roofline",
    "work",
]


class Point(NamedTuple):
    """One function in one dtype on so many threads. seconds: per state; bandwidth: of arrays as
    large as those of the call.
    """

    function: str
    states: int
    threads: int
    seconds: float
    work: Work
    peaks: Peaks
    bandwidth: Bandwidth

    @property
    def dtype(self) -> str:
        return self.peaks.dtype

    @property
    def rate(self) -> float | None:
        """Slots per second."""
        return None if self.work.slots is None else self.work.slots / self.seconds

    @property
    def intensity(self) -> float | None:
        """Slots per byte read or written."""
        return None if self.work.slots is None else self.work.slots / self.work.moved

    @property
    def of_peak(self) -> float | None:
        return None if self.rate is None else self.rate / self.peaks.fma_per_second

    @property
    def moving(self) -> float:
        """Seconds per state that reading and writing take at least."""
        return self.work.read / self.bandwidth.read + self.work.written / self.bandwidth.store

    @property
    def of_bandwidth(self) -> float:
        return self.moving / self.seconds

    @property
    def roof(self) -> float | None:
        """Slots per second at most."""
        if self.work.slots is None:
            return None
        return min(self.peaks.fma_per_second, self.work.slots / self.moving)

    @property
    def bound(self) -> str:
        """The nearer roof: "compute", or the bytes of the "caches" or the "memory"."""
        if self.of_peak is not None and self.of_peak >= self.of_bandwidth:
            return "compute"
        return "caches" if self.bandwidth.size < last_cache() else "memory"

    def to_dict(self) -> dict[str, Any]:
        return {
            "function": self.function,
            "dtype": self.dtype,
            "states": self.states,
            "threads": self.threads,
            "ns_per_state": self.seconds * 1e9,
            **self.work._asdict(),
            "bandwidth": self.bandwidth._asdict(),
            "of_peak": self.of_peak,
            "of_bandwidth": self.of_bandwidth,
            "bound": self.bound,
        }


def point(model: Model, name: str, dtype: Any, states: int, threads: int, seconds: float) -> Point:
    """Where a measurement stands: `seconds` per state, of calls with so many states."""
    asks = work(model, name, dtype)
    size = min(states * asks.moved, beyond_caches())
    return Point(
        name, states, threads, seconds, asks, peaks(dtype, threads), bandwidth(size, threads)
    )


def roofline(model: Model, speeds: Iterable[Speed], threads: int, progress: Progress) -> Roofline:
    """The roofline of measured speeds, on one thread and on `threads`."""
    points = []
    for s in speeds:
        progress(f"counting {SHORT[s.function]} in {s.dtype}")
        given = model, s.function, s.dtype, s.batch
        points.append(point(*given, 1, s.ns_per_state * 1e-9))
        if threads > 1:
            points.append(point(*given, threads, 1e-6 / s.states_per_us))
    return Roofline(tuple(points))


@dataclass(frozen=True)
class Roofline:
    """The points of all functions."""

    points: tuple[Point, ...]

    @property
    def peaks(self) -> list[Peaks]:
        """By dtype and threads."""
        return list(dict.fromkeys(p.peaks for p in self.points))

    def of(self, dtype: str, threads: int | None = None) -> list[Point]:
        return [p for p in self.points if p.dtype == dtype and threads in (None, p.threads)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "peaks": [_nested(p) for p in self.peaks],
            "points": [p.to_dict() for p in self.points],
        }

    def sections(self) -> Iterator[list[str]]:
        """The text, in parts."""
        yield [*self._machine()]
        for dtype in dict.fromkeys(p.dtype for p in self.points):
            yield [*_table(self.of(dtype))]
        yield LEGEND

    def _machine(self) -> Iterator[str]:
        yield "roofline: what this machine does at most, the best of some rounds"
        for p in self.peaks:
            yield f"  {_threads(p.threads):10} {p.dtype}: {_giga(p.fma_per_second)} multiply-adds/s"
        for n in dict.fromkeys(p.threads for p in self.peaks):
            some = next(p for p in self.peaks if p.threads == n)
            yield f"  {_threads(n):10} caches:  {_told(some.caches)}"
            yield f"  {_threads(n):10} memory:  {_told(some.memory)}"


def _nested(p: Peaks) -> dict[str, Any]:
    return {**p._asdict(), "memory": p.memory._asdict(), "caches": p.caches._asdict()}


LEGEND = [
    "slots: additions, multiplications, multiply-adds, divisions and roots of a state, each as 1.",
    "fused: those that are multiply-adds. bytes: of inputs and outputs of a state.",
    "of peak: slots per second, of the multiply-adds per second. bandwidth: the time that it takes",
    "to read and write arrays of this size, of the function's. bound: the nearer of both roofs.",
    "Far from both, something else takes the time: chains of operations that wait for each other,",
    "registers that spill, code beyond the instruction cache, divisions, transposing.",
]


def _table(points: Sequence[Point]) -> Iterator[str]:
    """A row for each function of one dtype: one thread, then all of them."""
    counts = list(dict.fromkeys(p.threads for p in points))
    yield f"{points[0].dtype:28}" + "".join(f"{_threads(n):>36}" for n in counts)
    each = f"{'ns/state':>10}{'of peak':>8}{'bandwidth':>10}{'bound':>8}"
    yield f"{'slots':>14}{'fused':>6}{'bytes':>8}" + each * len(counts)
    for name in dict.fromkeys(p.function for p in points):
        row = [p for p in points if p.function == name]
        yield f"  {SHORT[name]:4}" + _counts(row[0].work) + "".join(map(_shares, row))


def _counts(asks: Work) -> str:
    slots = "-" if asks.slots is None else f"{asks.slots:,}"
    fused = f"{asks.fused / asks.slots:.0%}" if asks.slots and asks.fused is not None else "-"
    return f"{slots:>8}{fused:>6}{asks.moved:8,}"


def _shares(p: Point) -> str:
    of_peak = "-" if p.of_peak is None else f"{p.of_peak:.0%}"
    return f"{p.seconds * 1e9:10.1f}{of_peak:>8}{p.of_bandwidth:10.0%}{p.bound:>8}"


def _told(b: Bandwidth) -> str:
    read, write, stream = (f"{x / 1e9:.3g}" for x in (b.read, b.write, b.stream))
    told = f"{b.size >> 20} MiB, rounds within {b.spread:.0%}"
    return f"read {read}, write {write}, past the caches {stream} GB/s ({told})"


def _threads(count: int) -> str:
    return f"{count} thread" + "s" * (count != 1)


def _giga(x: float) -> str:
    return f"{x / 1e9:.3g} G"
