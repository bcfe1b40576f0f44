"""Memory for values that live at different times: areas whose lifetimes do not overlap may share
memory.
"""

from __future__ import annotations

from typing import NamedTuple


class Area(NamedTuple):
    """`size` vectors that live from the step that writes them to the last step that reads them."""

    size: int
    first: int
    last: int

    def overlaps(self, other: Area) -> bool:
        """Whether both are alive in some step."""
        return self.first <= other.last and other.first <= self.last


def allocate_areas(areas: list[Area]) -> tuple[list[int], int]:
    """Allocates areas, the largest first, each at the lowest free address; returns starts and
    size.
    """
    start = [0] * len(areas)
    allocated: list[int] = []
    for k in sorted(range(len(areas)), key=lambda k: -areas[k].size):
        occupied = sorted(
            (start[n], areas[n].size) for n in allocated if areas[n].overlaps(areas[k])
        )
        for begin, size in occupied:
            if start[k] + areas[k].size <= begin:
                break
            start[k] = max(start[k], begin + size)
        allocated.append(k)
    return start, max((at + area.size for at, area in zip(start, areas, strict=True)), default=0)


class BlockAllocator:
    """An allocator of blocks of memory. Released blocks are reused for the same size."""

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> int:
        if self._free.get(size):
            return self._free[size].pop()
        self.size += size
        return self.size - size

    def release(self, at: int, size: int) -> None:
        self._free.setdefault(size, []).append(at)
