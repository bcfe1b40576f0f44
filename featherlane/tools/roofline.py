"""The roofline of a robot: how close to the measured limits of the machine its functions run.

A function that takes t seconds per state uses the share (slots / t) / peak of the processor's
arithmetic, and the share (bytes read / read bandwidth + bytes written / store bandwidth) / t of the
bandwidth of the caches or the memory; see `work.StateWork` and `backends.cpu.peaks`. The limit with
the larger share bounds the function (Williams, Waterman and Patterson 2009, "Roofline: An
Insightful Visual Performance Model").

A slot is counted as one multiply-add of the peak. This is a convention: some processors have
separate adders (AMD since Zen), divisions and square roots take several slots, and loads, stores,
shuffles, signs and selections are not counted. Bytes follow a convention, too: reads and writes are
taken to be sequential, so that a machine that overlaps them can exceed 100 %.
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
from featherlane.tools.timing import SHORT, Progress, Speed, in_words
from featherlane.tools.work import StateWork, work


class RooflinePoint(NamedTuple):
    """One function in one dtype. seconds: per state; bandwidth: of arrays as large as a call's."""

    function: str
    states: int
    threads: int
    seconds: float
    work: StateWork
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
        """The least seconds per state for reading and writing."""
        return self.work.read / self.bandwidth.read + self.work.written / self.bandwidth.store

    @property
    def of_bandwidth(self) -> float:
        return self.moving / self.seconds

    @property
    def roof(self) -> float | None:
        """The slots per second that the machine allows."""
        if self.work.slots is None:
            return None
        return min(self.peaks.fma_per_second, self.work.slots / self.moving)

    @property
    def bound(self) -> str:
        """The limit with the larger share: "compute", or the bandwidth of "caches" or "memory"."""
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


def point(
    model: Model, name: str, dtype: Any, states: int, threads: int, seconds: float
) -> RooflinePoint:
    """The point of a measurement: `seconds` per state, in calls with `states` states."""
    load, limits = work(model, name, dtype), peaks(dtype, threads)
    reached = bandwidth(min(states * load.moved, beyond_caches()), threads)
    return RooflinePoint(name, states, threads, seconds, load, limits, reached)


def roofline(model: Model, speeds: Iterable[Speed], threads: int, progress: Progress) -> Roofline:
    """The points of measured speeds, on one thread and on `threads`."""
    points = []
    for s in speeds:
        progress(f"counting {SHORT[s.function]} in {s.dtype}")
        case = model, s.function, s.dtype, s.batch
        points.append(point(*case, 1, s.ns_per_state * 1e-9))
        if threads > 1:
            points.append(point(*case, threads, 1e-6 / s.states_per_us))
    return Roofline(tuple(points))


@dataclass(frozen=True)
class Roofline:
    """The points of all functions in all dtypes, on one thread and on several."""

    points: tuple[RooflinePoint, ...]

    @property
    def peaks(self) -> list[Peaks]:
        """The measured limits for each dtype and number of threads."""
        return list(dict.fromkeys(p.peaks for p in self.points))

    def of(self, dtype: str, threads: int | None = None) -> list[RooflinePoint]:
        """The points in one dtype, on all numbers of threads by default."""
        return [p for p in self.points if p.dtype == dtype and threads in (None, p.threads)]

    def to_dict(self) -> dict[str, Any]:
        peaks = [
            {**p._asdict(), "memory": p.memory._asdict(), "caches": p.caches._asdict()}
            for p in self.peaks
        ]
        return {"peaks": peaks, "points": [p.to_dict() for p in self.points]}

    def sections(self) -> Iterator[list[str]]:
        """The lines of each part of the text."""
        yield [*self._machine()]
        for dtype in dict.fromkeys(p.dtype for p in self.points):
            yield [*_table(self.of(dtype))]
        yield LEGEND

    def _machine(self) -> Iterator[str]:
        yield "roofline: the limits of this machine, the best of several rounds"
        for p in self.peaks:
            giga = f"{p.fma_per_second / 1e9:.3g} G"
            yield f"  {in_words(p.threads):10} {p.dtype}: {giga} multiply-adds/s"
        for n in dict.fromkeys(p.threads for p in self.peaks):
            some = next(p for p in self.peaks if p.threads == n)
            yield f"  {in_words(n):10} caches:  {_bandwidth_text(some.caches)}"
            yield f"  {in_words(n):10} memory:  {_bandwidth_text(some.memory)}"


LEGEND = [
    "slots: additions, multiplications, multiply-adds, divisions and roots of a state, one each.",
    "fused: the multiply-adds among them. bytes: of the inputs and outputs of a state.",
    "of peak: slots per second over the peak of multiply-adds per second. bandwidth: the time for",
    "reading and writing arrays of this size over the time of the function. bound: the limit with",
    "the larger share. A function far from both limits is slowed by something else: dependent",
    "operations, register spills, instruction cache misses, divisions or transposition.",
]


def _table(points: Sequence[RooflinePoint]) -> Iterator[str]:
    """A row for each function in one dtype: on one thread, then on several."""
    counts = list(dict.fromkeys(p.threads for p in points))
    yield f"{points[0].dtype:28}" + "".join(f"{in_words(n):>36}" for n in counts)
    each = f"{'ns/state':>10}{'of peak':>8}{'bandwidth':>10}{'bound':>8}"
    yield f"{'slots':>14}{'fused':>6}{'bytes':>8}" + each * len(counts)
    for name in dict.fromkeys(p.function for p in points):
        row = [p for p in points if p.function == name]
        yield f"  {SHORT[name]:4}" + _counts(row[0].work) + "".join(map(_shares, row))


def _counts(load: StateWork) -> str:
    slots = "-" if load.slots is None else f"{load.slots:,}"
    fused = f"{load.fused / load.slots:.0%}" if load.slots and load.fused is not None else "-"
    return f"{slots:>8}{fused:>6}{load.moved:8,}"


def _shares(p: RooflinePoint) -> str:
    of_peak = "-" if p.of_peak is None else f"{p.of_peak:.0%}"
    return f"{p.seconds * 1e9:10.1f}{of_peak:>8}{p.of_bandwidth:10.0%}{p.bound:>8}"


def _bandwidth_text(b: Bandwidth) -> str:
    read, write, stream = (f"{x / 1e9:.3g}" for x in (b.read, b.write, b.stream))
    rounds = f"{b.size >> 20} MiB, rounds within {b.spread:.0%}"
    return f"read {read}, write {write}, past the caches {stream} GB/s ({rounds})"
