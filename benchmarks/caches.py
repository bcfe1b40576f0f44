"""A model of the caches of an NVIDIA GPU: which bytes go to and from its memory and its L2.

Blocks start in the order of their numbers, on the multiprocessors in turn, as many as registers,
shared memory and warps allow; the next one starts where one ends. All warps that have started make
one access each in turn. A multiprocessor's L1 keeps what was read (loads of whole sectors, stores
go through), until its kernel ends; the L2 keeps what was read and written, for all kernels. Both
forget the line that was used least recently. What real caches do besides (hashed sets, two halves
of the L2, prefetches, other orders of warps) is not in the model.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

LINE, SECTOR = 128, 32  # bytes
WHOLE = (1 << LINE) - 1  # a mask has a bit for each byte of a line
Touch = tuple[int, int, int, bool]  # a line, lines from tile to tile, bytes, whether it is written
Stream = Sequence[Sequence[Touch]]  # of a warp for tile 0: the accesses, each with its lines


class Gpu(NamedTuple):
    """A GPU, or as large a share of its multiprocessors and of its L2. Bytes are those of the L2;
    of L1 and shared memory together; of shared memory alone, and what each block takes besides.
    """

    multiprocessors: int = 132
    l2: int = 50 << 20
    l1: int = 256 << 10
    shared: int = 227 << 10
    reserved: int = 1 << 10
    registers: int = 65_536
    warps: int = 64
    blocks: int = 32

    def part(self, of: int) -> Gpu:
        """A GPU of a part of the multiprocessors, and of so much of the L2."""
        return self._replace(multiprocessors=self.multiprocessors // of, l2=self.l2 // of)

    def resident(self, warps: int, registers: int, shared: int) -> int:
        """The blocks of a multiprocessor: of so many warps, registers of a thread, and bytes of
        shared memory.
        """
        of_a_warp = -(-registers * 32 // 256) * 256
        limits = (
            self.blocks,
            self.warps // warps,
            self.registers // (of_a_warp * warps),
            self.shared // (shared + self.reserved),
        )
        return max(min(limits), 1)


class Work(NamedTuple):
    """A kernel. streams: of each column, those of its warps; order: the tile and the column of each
    pair, in the order of the grid; pairs: of a block; resident: blocks of a multiprocessor; shared:
    bytes of a block.
    """

    name: str
    streams: Sequence[Sequence[Stream]]
    order: Sequence[tuple[int, int]]
    pairs: int
    resident: int
    shared: int


@dataclass
class Traffic:
    """Bytes that a kernel moves between the L1 and the L2, and between the L2 and the memory."""

    l2_read: int = 0
    l2_written: int = 0
    read: int = 0
    written: int = 0


@cache
def sectors(mask: int) -> int:
    """The mask of all sectors that some bytes touch."""
    whole = (1 << SECTOR) - 1
    touched = (k for k in range(0, LINE, SECTOR) if mask >> k & whole)
    return sum(whole << k for k in touched)


class L1:
    """The sectors that a multiprocessor has read."""

    def __init__(self, size: int) -> None:
        self.lines, self.most = OrderedDict[int, int](), size // LINE

    def missing(self, line: int, wanted: int) -> int:
        """The mask of the sectors that are brought for a load."""
        known = self.lines.pop(line, 0)
        self.lines[line] = known | wanted
        if len(self.lines) > self.most:
            self.lines.popitem(last=False)
        return wanted & ~known


class L2:
    """The bytes that the L2 has, and of them those that it must write back."""

    def __init__(self, size: int) -> None:
        self.lines, self.most = OrderedDict[int, tuple[int, int]](), size // LINE
        self.traffic = Traffic()

    def read(self, line: int, wanted: int) -> None:
        known, dirty = self.lines.pop(line, (0, 0))
        self.traffic.l2_read += wanted.bit_count()
        self.traffic.read += sectors(wanted & ~known).bit_count()
        self._keep(line, known | wanted, dirty)

    def write(self, line: int, mask: int) -> None:
        known, dirty = self.lines.pop(line, (0, 0))
        self.traffic.l2_written += sectors(mask).bit_count()
        self._keep(line, known | mask, dirty | mask)

    def _keep(self, line: int, known: int, dirty: int) -> None:
        self.lines[line] = known, dirty
        if len(self.lines) > self.most:
            self._write_back(*self.lines.popitem(last=False)[1])

    def _write_back(self, known: int, dirty: int) -> None:
        """Whole sectors are written: of one that is known in part, the rest is read before."""
        whole = sectors(dirty)
        self.traffic.written += whole.bit_count()
        self.traffic.read += sectors(whole & ~known).bit_count()

    def flush(self) -> None:
        """Writes all back."""
        while self.lines:
            self._write_back(*self.lines.popitem()[1])


def run(work: Work, gpu: Gpu, l2: L2) -> Traffic:
    """What a kernel moves, and what the L2 evicts meanwhile."""
    l2.traffic = Traffic()
    size = gpu.l1 - work.resident * (work.shared + gpu.reserved * bool(work.shared))
    caches = [L1(size) for _ in range(gpu.multiprocessors)]
    blocks = _blocks(work)
    places = (m for _ in range(work.resident) for m in range(gpu.multiprocessors))
    active = [x for m, block in zip(places, blocks, strict=False) for x in _started(block, m)]
    while active:
        going, ended = [], list[_Warp]()
        for warp in active:
            (going if warp.step(caches[warp.place], l2) else ended).append(warp)
        for warp in ended:
            warp.block.remove(warp)
            if not warp.block and (block := next(blocks, None)):
                going += _started(block, warp.place)
        active = going
    return l2.traffic


class _Warp:
    """A warp on its way. block: the warps of its block that have not ended; place: the number of
    its multiprocessor.
    """

    block: list[_Warp]
    place: int

    def __init__(self, stream: Stream, tile: int) -> None:
        self.stream, self.tile, self.at = stream, tile, 0

    def step(self, l1: L1, l2: L2) -> bool:
        """Makes one access. Returns whether there are more."""
        for line, each, mask, written in self.stream[self.at]:
            here = line + self.tile * each
            if written:
                l2.write(here, mask)
            elif missing := l1.missing(here, sectors(mask)):
                l2.read(here, missing)
        self.at += 1
        return self.at < len(self.stream)


def _blocks(work: Work) -> Iterator[list[_Warp]]:
    for first in range(0, len(work.order), work.pairs):
        pairs = work.order[first : first + work.pairs]
        yield [_Warp(stream, tile) for tile, c in pairs for stream in work.streams[c] if stream]


def _started(block: list[_Warp], place: int) -> list[_Warp]:
    for warp in block:
        warp.block, warp.place = block, place
    return [*block]
