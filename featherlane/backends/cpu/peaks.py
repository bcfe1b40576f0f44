"""What this machine can do at most, measured: multiply-adds, and bytes to and from memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.cpu import probes
from featherlane.backends.cpu.strides import aligned
from featherlane.backends.llvm import jit

SECONDS = 0.001  # that one measurement takes at least: short, between what else the machine does
REPEATS = 2  # in a round at least, of which the fastest counts
IN_ALL = 0.004  # seconds that they take at least
ROUNDS = 6  # of which the fastest counts
PAUSE = 0.1  # seconds between rounds of what others on the machine take their share of
CHUNK = 512  # bytes: the probes go in such steps
BEYOND = 4  # times the last cache is far beyond it
WITHIN = 8  # one in so many parts of the last cache is well within it
SIZES = 64 << 20, 512 << 20  # bytes that are far beyond the caches, at least and at most
TURNS = 1000  # of the loop over multiply-adds that are measured as one
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
Work = Callable[[int], Any]  # (times)


class Bandwidth(NamedTuple):
    """Bytes per second to and from arrays of `size` bytes in all, of all threads together."""

    size: int
    threads: int
    read: float
    write: float  # by ordinary stores
    stream: float  # by stores that bypass the caches
    spread: float  # of the rounds: how much less than the fastest the slowest gave, as a part of it

    @property
    def store(self) -> float:
        """By the faster kind of store."""
        return max(self.write, self.stream)


class Peaks(NamedTuple):
    """Of so many threads together. fma_per_second: multiply-adds on numbers, not on vectors;
    memory: the bandwidths of arrays far beyond the caches; caches: of arrays that the last of them
    holds.
    """

    dtype: str
    threads: int
    fma_per_second: float
    memory: Bandwidth
    caches: Bandwidth


def _fastest(works: Sequence[Work]) -> float:
    """Seconds in which each of the functions does its work once, all of them at the same time in
    threads of their own: the fastest of some repetitions, after a first that is not counted.
    """
    barrier = Barrier(len(works))

    def timed(work: Work, times: int) -> tuple[float, float]:
        barrier.wait()
        start = time.perf_counter()
        work(times)
        return start, time.perf_counter()

    with ThreadPoolExecutor(len(works)) as pool:

        def together(times: int) -> float:
            starts, ends = zip(*pool.map(timed, works, [times] * len(works)), strict=True)
            return (max(ends) - min(starts)) / times

        together(1)
        times, fastest, count, spent = 1, float("inf"), 0, 0.0
        while count < REPEATS or spent < IN_ALL:
            each = together(times)
            count, spent = count + 1, spent + times * each
            fastest = min(fastest, each)
            times = int(SECONDS / fastest) + 1
    return fastest


@cache
def multiply_adds(dtype: np.dtype, threads: int) -> float:
    """Fused multiply-adds per second on vectors as wide as the kernels', counted for each lane: the
    best of some rounds.
    """
    small = aligned((threads, 2, jit.widest(dtype)), dtype)
    small[:, 0], small[:, 1] = 1.0, 1e-9
    once = threads * TURNS * probes.UNROLLED * jit.widest(dtype)
    rates = []
    for _ in range(ROUNDS):
        for chains, call in probes.arithmetic(dtype).items():
            works = [partial(_turned, call, part.ctypes.data) for part in small]
            rates.append(chains * once / _fastest(works))
    return max(rates)


def _turned(call: Callable[[int, int], None], place: int, times: int) -> None:
    call(place, times * TURNS)


@cache
def bandwidth(size: int, threads: int = 1) -> Bandwidth:
    """Measured with an array of so many bytes, which is read or written again and again: those of
    the cache that it fits, or of the memory. Each thread has a part of it. The best of some rounds,
    which are spread in time where others on the machine may take a share of the same.
    """
    part = max(-(-size // (threads * CHUNK)), 1) * CHUNK
    array = aligned((threads, part), np.dtype(np.uint8))
    array[:] = 1
    vectors = aligned((threads, 64), np.dtype(np.uint8))
    vectors[:] = 1
    places = [(array[k].ctypes.data, vectors[k].ctypes.data) for k in range(threads)]
    rates: dict[str, list[float]] = {name: [] for name in probes.memory()}
    for n in range(ROUNDS):
        if n and array.nbytes > last_cache() // WITHIN:
            time.sleep(PAUSE)
        for name, call in probes.memory().items():
            works = [partial(_passed, call, part, *place) for place in places]
            rates[name].append(array.nbytes / _fastest(works))
    spread = max(1 - min(found) / max(found) for found in rates.values())
    best = {name: max(found) for name, found in rates.items()}
    return Bandwidth(array.nbytes, threads, **best, spread=spread)


def _passed(call: Callable[..., None], size: int, array: int, vector: int, times: int) -> None:
    call(array, size, times, vector)


@cache
def last_cache() -> int:
    """The bytes of the last cache, or 32 MiB where that is not known."""
    sizes = [32 << 20]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        if text[:-1].isdigit() and text[-1] in UNITS:
            sizes.append(int(text[:-1]) * UNITS[text[-1]])
    return max(sizes)


def beyond_caches() -> int:
    """The bytes of an array that caches hold nothing of when it is gone through again."""
    least, most = SIZES
    return min(max(BEYOND * last_cache(), least), most)


def peaks(dtype: Any, threads: int = 1) -> Peaks:
    """The measured peaks of this machine, kept within the process: about two seconds for each
    number of threads. dtype: float32 or float64.
    """
    dtype = np.dtype(dtype)
    memory = bandwidth(beyond_caches(), threads)
    caches = bandwidth(last_cache() // WITHIN, threads)
    return Peaks(dtype.name, threads, multiply_adds(dtype, threads), memory, caches)
