"""Places in memory for what is needed at different times: areas that are not needed at once may
overlap.
"""

from __future__ import annotations

from typing import NamedTuple


class Area(NamedTuple):
    """So many vectors, from the step that writes them first to the one that reads them last."""

    size: int
    first: int
    last: int

    def meets(self, other: Area) -> bool:
        return self.first <= other.last and other.first <= self.last


def placed(areas: list[Area]) -> tuple[list[int], int]:
    """Where each area begins, and how much they take in all: the largest first, each as low as it
    can be.
    """
    start = [0] * len(areas)
    done: list[int] = []
    for k in sorted(range(len(areas)), key=lambda k: -areas[k].size):
        taken = sorted((start[n], areas[n].size) for n in done if areas[n].meets(areas[k]))
        for begin, size in taken:
            if start[k] + areas[k].size <= begin:
                break
            start[k] = max(start[k], begin + size)
        done.append(k)
    return start, max((at + area.size for at, area in zip(start, areas, strict=True)), default=0)
