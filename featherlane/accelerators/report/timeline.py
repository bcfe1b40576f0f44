"""The pipeline's timeline, as in figure 12 of Dadu-RBD (2023): which module works on which task in
which cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from featherlane.accelerators.report.boxes import Box
from featherlane.accelerators.report.svg import line, picture, rect, tag, text

LANE, ROW_GAP, HEAD = 8, 5, 22
TASKS, FEWER, ROWS = 6, 3, 24  # tasks at most; of drawings with more rows
WIDTH = 1000.0  # of the cycles


def tasks_shown(interval: int, latency: int, rows: int) -> int:
    """So many that the first one is out when the last one is in, if they are not too many."""
    return min(max(ceil(latency / interval) + 1, 3), TASKS if rows <= ROWS else FEWER)


def drawn(boxes: Sequence[Box], interval: int, latency: int) -> str:
    """Two drawings side by side: names, and cycles, which scroll on narrow screens."""
    working = [box for box in boxes if box.work]
    tasks = tasks_shown(interval, latency, len(working))
    cycles = latency + (tasks - 1) * interval
    scale = max(WIDTH / cycles, 5.0)
    y, names, bars = float(HEAD), list[str](), list[str]()
    for box in working:
        lanes = min(ceil(max(box.last - box.first, 1) / interval), tasks)
        height = max(lanes * LANE, 11)
        names.append(text(box.name, 62, y + height / 2 + 4, "label", "end"))
        bars.append(rect(0, y + height + ROW_GAP / 2, cycles * scale, 0.5, "rule"))
        for task in range(tasks):
            lane = y + (task % lanes) * LANE + (height - lanes * LANE) / 2
            bars += _bars(box, task, task * interval, scale, lane)
        y += height + ROW_GAP
    marks = ticks(cycles)
    axis = [text(str(n), n * scale, 12, "tick", "middle" if n else "start") for n in marks]
    axis += [line([(n * scale, HEAD - 6), (n * scale, y)], "grid") for n in marks]
    ends = [(task, task * interval + latency) for task in range(tasks)]
    axis += [line([(n * scale, HEAD - 6), (n * scale, y)], f"end task{t}") for t, n in ends]
    left = picture(66, y + 4, [text("cycle", 62, 12, "tick", "end"), *names], "Modules")
    right = picture(cycles * scale + 4, y + 4, [*axis, *bars], "Cycles of each module and task")
    return tag("div", left, tag("div", right, class_="scroll"), class_="timeline")


def _bars(box: Box, task: int, shift: int, scale: float, y: float) -> list[str]:
    """The time of a task in a box, and in it the cycles in which operations start."""
    begin, most = shift + box.first, max(box.work.values())
    title = f"{box.name}, task {task + 1}: cycles {begin} to {shift + box.last}"
    length = max(box.last - box.first, 1)
    parts = [rect(begin * scale, y, length * scale, LANE - 1, f"span task{task}", title, rx=1.5)]
    for cycle, count in sorted(box.work.items()):
        weight = 0.35 + 0.65 * count / most
        said = f"{box.name}, task {task + 1}, cycle {shift + cycle}: {count} operations start"
        look = {"opacity": round(weight, 2)}
        place = (shift + cycle) * scale, y, scale * 0.86, LANE - 1
        parts.append(rect(*place, f"start task{task}", said, **look))
    return parts


def ticks(cycles: int) -> list[int]:
    """The cycles that an axis names."""
    step = next(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000) if cycles / n <= 16)
    return list(range(0, cycles + 1, step))
