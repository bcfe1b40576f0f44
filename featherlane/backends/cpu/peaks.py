"""The peaks of this machine, measured: multiply-adds, and bytes to and from memory."""

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
from featherlane.backends.cpu.strides import LINE, aligned
from featherlane.backends.llvm import jit

SECONDS = 0.001  # the least length of one measurement: short enough to fit between other programs
REPEATS = 2  # the least measurements of a round, of which the fastest counts
ROUND_SECONDS = 0.004  # the least length of a round
ROUNDS = 6  # of which the fastest counts
PAUSE = 0.1  # s between rounds on memory that other programs use too
CHUNK = 512  # bytes that a probe moves in one iteration of its loop
BEYOND_CACHE = 4  # an array so many times as large as the last cache far exceeds it
WITHIN_CACHE = 8  # one of so many parts of the last cache is well within it
BEYOND_BYTES = 64 << 20, 512 << 20  # the least and the most bytes of an array beyond the caches
ITERATIONS = 1000  # of the loop over multiply-adds, measured as one
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
Repeated = Callable[[int], Any]  # does its work so many times


class Bandwidth(NamedTuple):
    """Bytes per second that all threads together move to and from arrays of `size` bytes in all."""

    size: int
    threads: int
    read: float
    write: float  # by ordinary stores
    stream: float  # by non-temporal stores, which bypass the caches
    spread: float  # of the rounds: 1 - slowest / fastest

    @property
    def store(self) -> float:
        """Bytes per second by the faster kind of store."""
        return max(self.write, self.stream)


class Peaks(NamedTuple):
    """The peaks of so many threads together. fma_per_second: multiply-adds on numbers, not on
    vectors; memory: the bandwidths of arrays far beyond the caches; caches: the bandwidths of
    arrays that the last cache holds.
    """

    dtype: str
    threads: int
    fma_per_second: float
    memory: Bandwidth
    caches: Bandwidth


def _fastest(works: Sequence[Repeated]) -> float:
    """Seconds in which all of the functions do their work once, each in a separate thread at the
    same time: the fastest of a round, after a first time that is not counted.
    """
    barrier = Barrier(len(works))

    def timed(work: Repeated, times: int) -> tuple[float, float]:
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
        while count < REPEATS or spent < ROUND_SECONDS:
            seconds = together(times)
            count, spent = count + 1, spent + times * seconds
            fastest = min(fastest, seconds)
            times = int(SECONDS / fastest) + 1
    return fastest


@cache
def multiply_adds(dtype: np.dtype, threads: int) -> float:
    """Measures fused multiply-adds per second, counted by lane: the fastest of some rounds."""
    operands = aligned((threads, 2, jit.widest(dtype)), dtype)
    operands[:, 0], operands[:, 1] = 1.0, 1e-9
    once = threads * ITERATIONS * probes.UNROLLED * jit.widest(dtype)

    def rate(chains: int, call: Callable[[int, int], None]) -> float:
        run = lambda address, times: call(address, times * ITERATIONS)
        return chains * once / _fastest([partial(run, vectors.ctypes.data) for vectors in operands])

    calls = probes.arithmetic(dtype).items()
    return max(rate(*chains) for _ in range(ROUNDS) for chains in calls)


@cache
def bandwidth(size: int, threads: int = 1) -> Bandwidth:
    """The bandwidth of an array of so many bytes, read or written again and again: of the cache
    that holds it, or of the memory.

    Each thread has a part of the array. The fastest of some rounds counts; rounds on memory that
    other programs use too are separated by pauses.
    """
    part = max(-(-size // (threads * CHUNK)), 1) * CHUNK
    array = aligned((threads, part), np.dtype(np.uint8))
    array[:] = 1
    vectors = aligned((threads, LINE), np.dtype(np.uint8))
    vectors[:] = 1
    addresses = [(array[k].ctypes.data, vectors[k].ctypes.data) for k in range(threads)]

    def repeated(call: Callable[..., None], array: int, vector: int, times: int) -> None:
        call(array, part, times, vector)

    rates: dict[str, list[float]] = {name: [] for name in probes.memory()}
    for n in range(ROUNDS):
        if n and array.nbytes > last_cache() // WITHIN_CACHE:
            time.sleep(PAUSE)
        for name, call in probes.memory().items():
            works = [partial(repeated, call, *pair) for pair in addresses]
            rates[name].append(array.nbytes / _fastest(works))
    spread = max(1 - min(each) / max(each) for each in rates.values())
    best = {name: max(each) for name, each in rates.items()}
    return Bandwidth(array.nbytes, threads, **best, spread=spread)


@cache
def last_cache() -> int:
    """The bytes of the last-level cache, or 32 MiB where that is not known."""
    sizes = [32 << 20]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        if text[:-1].isdigit() and text[-1] in UNITS:
            sizes.append(int(text[:-1]) * UNITS[text[-1]])
    return max(sizes)


def beyond_caches() -> int:
    """The bytes of an array so large that a second pass over it misses all caches."""
    least, most = BEYOND_BYTES
    return min(max(BEYOND_CACHE * last_cache(), least), most)


def peaks(dtype: Any, threads: int = 1) -> Peaks:
    """The measured peaks of this machine, cached within the process: about two seconds for each
    number of threads. dtype: float32 or float64.
    """
    dtype = np.dtype(dtype)
    memory = bandwidth(beyond_caches(), threads)
    caches = bandwidth(last_cache() // WITHIN_CACHE, threads)
    return Peaks(dtype.name, threads, multiply_adds(dtype, threads), memory, caches)
