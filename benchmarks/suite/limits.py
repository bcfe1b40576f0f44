"""The machine's measured limits, and how near to them rows are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from featherlane.backends.cpu.peaks import Bandwidth, Peaks, bandwidth, beyond_caches, peaks
from featherlane.tools.roofline import RooflinePoint
from featherlane.tools.work import StateWork

from .cells import DTYPES, NOTHING, Figure, Row

SMALLEST, IN_CACHES, LARGEST = 12, 20, 29  # powers of two: bytes of arrays that are measured


class Counts(NamedTuple):
    """What a state of one function and dtype takes; None where it cannot be counted."""

    operations: int | None
    work: StateWork


class Limits(NamedTuple):
    """By dtype and threads, and by the power of two of the bytes and threads."""

    peaks: dict[tuple[str, int], Peaks]
    bandwidths: dict[tuple[int, int], Bandwidth]

    @staticmethod
    def measured(threads: Iterable[int]) -> Limits:
        """All at once, while nothing else runs: some seconds for each number of threads."""
        counts, most = list(threads), beyond_caches()
        sizes = {power: min(2**power, most) for power in range(SMALLEST, LARGEST + 1)}
        return Limits(
            {(dtype, n): peaks(dtype, n) for dtype in DTYPES for n in counts},
            {(power, n): bandwidth(size, n) for power, size in sizes.items() for n in counts},
        )

    def point(self, row: Row, counts: Counts) -> RooflinePoint:
        moved = counts.work.moved * row.batch
        power = min(max(moved.bit_length(), SMALLEST), LARGEST)
        seconds = float(row.ns_per_state) * 1e-9
        return RooflinePoint(
            row.function,
            row.batch,
            row.threads,
            seconds,
            counts.work,
            self.peaks[row.dtype, row.threads],
            self.bandwidths[power, row.threads],
        )

    def completed(self, row: Row, counts: Counts) -> Row:
        """A row of ours with what is counted, and its shares of the limits if it has a figure."""
        row = row._replace(
            operations=_known(counts.operations),
            slots=_known(counts.work.slots),
            bytes=counts.work.moved,
        )
        if not row.measured:
            return row
        point = self.point(row, counts)
        shares = {"peak_share": _known(point.of_peak), "bandwidth_share": point.of_bandwidth}
        return row._replace(**shares, bound=point.bound)  # type: ignore[arg-type]

    def told(self) -> dict[str, str]:
        """For the head of the results, by `peak_fact` and `bytes_fact`."""
        facts = {
            peak_fact(dtype, n): f"{p.fma_per_second:.4g}" for (dtype, n), p in self.peaks.items()
        }
        for n in dict.fromkeys(n for _, n in self.peaks):
            for where, power in (("caches", IN_CACHES), ("memory", LARGEST)):
                found = self.bandwidths[power, n]
                facts[bytes_fact(where, n)] = f"{mixed(found):.4g}"
                parts = f"{found.read:.4g}, {found.write:.4g}, {found.stream:.4g}"
                told = f"{parts}; rounds within {found.spread:.0%}"
                facts[f"{where}, read, written, streamed, {_threads(n)}"] = told
        return facts


def mixed(found: Bandwidth) -> float:
    """Bytes per second where as much is read as written."""
    return 2 / (1 / found.read + 1 / found.store)


def peak_fact(dtype: str, threads: int) -> str:
    return f"multiply-adds per second, {dtype}, {_threads(threads)}"


def bytes_fact(where: str, threads: int) -> str:
    """where: "caches", for arrays of a megabyte, or "memory"."""
    return f"{where}, bytes per second, {_threads(threads)}"


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


def _known(x: Figure | None) -> Figure:
    return NOTHING if x is None else x
