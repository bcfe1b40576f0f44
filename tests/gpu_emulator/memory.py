"""The memory of the emulator: arrays at addresses, and who used which word between barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.backends.cuda.ptx import WARP

Array = Any
FIRST = 1 << 12  # the address of the first array: small numbers are no addresses
GUARD = 64  # bytes around arrays, at least, that belong to none
NOBODY, MANY, SEVERAL = -1, -2, -3  # who used a word: no thread, threads of several warps;
# SEVERAL - w: several threads of warp w


class EmulationError(RuntimeError):
    """PTX that does what no kernel may do."""


class Memory:
    """Global memory: arrays at addresses, with nothing between them. tables: addresses of the
    tables of each text that was launched, by name.
    """

    def __init__(self) -> None:
        self.bytes = np.zeros(0, np.uint8)
        self.owned = np.zeros(0, bool)
        self.tables = dict[str, dict[str, int]]()

    def place(self, data: Array) -> int:
        """Puts a contiguous array into memory and returns its address."""
        raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        start = len(self.bytes) + GUARD
        end = -(-(start + len(raw) + GUARD) // GUARD) * GUARD
        grown, owned = np.zeros(end, np.uint8), np.zeros(end, bool)
        grown[: len(self.bytes)], owned[: len(self.owned)] = self.bytes, self.owned
        grown[start : start + len(raw)], owned[start : start + len(raw)] = raw, True
        self.bytes, self.owned = grown, owned
        return FIRST + start

    def read(self, address: int, like: Array) -> Array:
        """The array at an address, of another one's shape and dtype."""
        start = address - FIRST
        raw = self.bytes[start : start + like.nbytes].tobytes()
        return np.frombuffer(raw, like.dtype).reshape(like.shape).copy()

    def index(self, addresses: Array, size: int, what: str) -> Array:
        """Numbers of elements of a size in memory, if they all belong to arrays."""
        start = addresses.astype(np.int64) - FIRST
        inside = (start >= 0) & (start + size <= len(self.bytes))
        if (
            not inside.all()
            or not self.owned[start].all()
            or not self.owned[start + size - 1].all()
        ):
            raise EmulationError(f"{what}: an address is outside of all arrays")
        return start // size


class Uses:
    """Who last wrote and read each word of a memory in a launch, before which barrier.

    A word may go from thread to thread of a warp after a barrier of the warp, to other warps of the
    block after one of the block, and to no other block.
    """

    def __init__(self, words: int, threads: int) -> None:
        empty = lambda: np.full(words, NOBODY, np.int64)
        self.threads = threads  # of a block
        self.writer, self.reader, self.reading_block = empty(), empty(), empty()
        self.written, self.read = empty(), empty()  # when
        self.written_block, self.read_block = empty(), empty()
        self.now = self.now_block = 0

    def barrier(self, whole_block: bool) -> None:
        self.now += 1
        self.now_block += whole_block

    def _clashes(self, other: Array, when: Array, when_block: Array, threads: Array) -> bool:
        """Whether another thread's use, given with its times, is not separated by a barrier."""
        warp = np.where(other >= 0, other // WARP, SEVERAL - other)  # negative: no single one
        same_warp = warp == threads // WARP
        late = np.where(same_warp, when == self.now, when_block == self.now_block)
        return bool(((other != NOBODY) & (other != threads) & late).any())

    def load(self, words: Array, threads: Array, what: str) -> None:
        """Notes that threads read the words of their rows. Raises EmulationError if another thread
        may write one at the same time.
        """
        own = np.broadcast_to(threads[:, None], words.shape)
        writer = self.writer[words]
        clash = self._clashes(writer, self.written[words], self.written_block[words], own)
        if clash or self._elsewhere(np.where(writer < 0, -1, writer // self.threads), own):
            raise EmulationError(f"{what}: reads what another thread wrote, without a barrier")
        self._note_reading(words, own)

    def _elsewhere(self, blocks: Array, own: Array) -> bool:
        """Whether other blocks, or several, have used words."""
        return bool(((blocks != NOBODY) & (blocks != own // self.threads)).any())

    def _note_reading(self, words: Array, own: Array) -> None:
        """Several threads may read a word, in one instruction too."""
        stale = self.read_block[words] != self.now_block
        self.reader[words[stale]] = NOBODY
        for part, threads in zip(words.T, own.T, strict=True):
            order = np.argsort(part, kind="stable")
            self._note_readers(part[order], threads[order])

    def _note_readers(self, words: Array, own: Array) -> None:
        """Words in their order, and the threads that read them in one instruction."""
        first = np.flatnonzero(np.r_[True, words[1:] != words[:-1]])
        least, most = np.minimum.reduceat(own, first), np.maximum.reduceat(own, first)
        words, before = words[first], self.reader[words[first]]
        alone = (least == most) & ((before == NOBODY) | (before == least))
        warp = np.where(before >= 0, before // WARP, SEVERAL - before)
        one_warp = (least // WARP == most // WARP) & ((before == NOBODY) | (warp == least // WARP))
        self.reader[words] = np.where(
            alone, least, np.where(one_warp, SEVERAL - least // WARP, MANY)
        )
        self.read[words], self.read_block[words] = self.now, self.now_block
        block, known = least // self.threads, self.reading_block[words]
        one = (block == most // self.threads) & ((known == NOBODY) | (known == block))
        self.reading_block[words] = np.where(one, block, MANY)

    def store(self, words: Array, threads: Array, what: str) -> None:
        """Notes that threads write the words of their rows. Raises EmulationError if another thread
        may use one at the same time.
        """
        own = np.broadcast_to(threads[:, None], words.shape)
        if len(np.unique(words)) != words.size:
            raise EmulationError(f"{what}: two threads write one number")
        writer = self.writer[words]
        reads = self.reader[words], self.read[words], self.read_block[words]
        writes = writer, self.written[words], self.written_block[words]
        blocks = np.where(writer < 0, -1, writer // self.threads), self.reading_block[words]
        if (
            self._clashes(*reads, own)
            or self._clashes(*writes, own)
            or any(self._elsewhere(x, own) for x in blocks)
        ):
            raise EmulationError(f"{what}: writes what another thread uses, without a barrier")
        self.writer[words], self.written[words], self.written_block[words] = (
            own,
            self.now,
            self.now_block,
        )


class Shared:
    """The shared memory of all blocks."""

    def __init__(self, size: int, blocks: int, threads: int) -> None:
        self.size, self.words = size, -(-size // 4)
        self.data = np.full(max(self.words * blocks, 2), 0xFFFFFFFF, np.uint32)  # NaN
        self.uses = Uses(self.words * blocks, threads)

    def _words(self, address: Array, threads: Array, size: int, what: str) -> Array:
        if (address.astype(np.int64) + size > self.size).any():
            raise EmulationError(f"{what}: outside of the {self.size} bytes of shared memory")
        block = threads // self.uses.threads
        return (block * self.words + address.astype(np.int64) // 4)[:, None] + np.arange(size // 4)

    def load(self, address: Array, threads: Array, dtype: Any, what: str) -> Array:
        words = self._words(address, threads, np.dtype(dtype).itemsize, what)
        self.uses.load(words, threads, what)
        return self.data[words].view(dtype)[:, 0]

    def store(self, address: Array, threads: Array, value: Array, what: str) -> None:
        words = self._words(address, threads, value.dtype.itemsize, what)
        self.uses.store(words, threads, what)
        self.data[words] = np.ascontiguousarray(value)[:, None].view(np.uint32)
