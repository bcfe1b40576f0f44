"""Passes and joints of units with operand memories, for the comments above their modules."""

from __future__ import annotations

from collections import Counter

from featherlane.backends.fpga.labels import Labels
from featherlane.backends.fpga.memories.operations import INPUT
from featherlane.backends.fpga.memories.schedule import MemorySchedule

MOST_PLACES = 8  # of a pass that are listed


def unit_legends(schedule: MemorySchedule, labels: Labels) -> list[list[str]]:
    """Returns lines for each unit: of each pass how many terms, which are products in most units,
    it reads for a state, and for which joints.
    """
    graph = schedule.datapath.graph
    counts = [dict[str, Counter[str]]() for _ in schedule.binding.kinds]
    for unit, operation in zip(schedule.binding.unit, schedule.operations, strict=True):
        part = None if operation.kind == INPUT else labels.part(graph.tag[operation.gives[0]])
        if part:
            places = counts[unit].setdefault(part.title, Counter())
            places["; ".join(place.short for place in part.places)] += operation.cycles
    return [_lines(of_unit) for of_unit in counts]


def _lines(counts: dict[str, Counter[str]]) -> list[str]:
    if not counts:
        return []
    rows = list[str]()
    for title, places in sorted(counts.items()):
        shown = [f"{place} ({count})" for place, count in places.most_common(MOST_PLACES)]
        others = len(places) - len(shown)
        rows.append(f"{title}: {', '.join(shown)}{f', {others} others' if others else ''}")
    return ["Terms of a state by pass and joint:", *rows]
