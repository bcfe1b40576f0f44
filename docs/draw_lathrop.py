"""The figure of docs/lathrop.md: a schedule of the linear form for four links, after Lathrop's
figure 4.

Writes docs/lathrop.svg and docs/lathrop_narrow.svg; --png also writes pictures on a white and on a
dark background.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from drawing import main

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

import featherlane as fl
from featherlane.algorithms.lathrop import linear
from featherlane.tools.figures import INK, NARROW

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from lathrop.arms import general_arm
from lathrop.path import critical_path
from lathrop.schedule import ProcessingUnit, TaskSchedule, asap
from lathrop.tasks import grouped

LINKS = 4
FLOPS = {"MV": 3, "VC": 2, "VA": 1, "SV": 1}
KINDS = {
    "MV": ("#2f81c7", "matrix times vector, 3"),
    "VC": ("#d9722e", "cross product, 2"),
    "VA": ("#3a9a5c", "sum of vectors, 1"),
    "SV": ("#8a63d2", "number times vector, 1"),
}
ROWS = {  # a variable: its name on the page, and the operations on the way to it
    "w": (r"$\omega_i$", ("T2",)),
    "dw": (r"$\dot\omega_i$", ("T4", "T5", "T6")),
    "a": (r"$\ddot p_i$", ("T7", "T8", "T9", "T10", "T11")),
    "F": (r"$F_i$", ("T12", "T13", "T14", "T15", "ac")),
    "N": (r"$N_i$", ("T16", "T17", "T18")),
    "f": (r"$f_i$", ("T19",)),
    "n": (r"$n_i$", ("T20", "T21", "T22", "T23", "T24")),
}
ROW_OF = {name: row for row, (_, steps) in ROWS.items() for name in (row, *steps)}
LANE, GAP = 1.0, 0.75  # heights on the page, where a flop is 1 wide


class Page(NamedTuple):
    """A drawing: its size, in; the letters in boxes and of words, points; the room right of the
    end, flops; and the places of the legend's kinds and of its note, right of and below the first.
    """

    size: tuple[float, float]
    numbers: float
    words: float
    right: float
    legend: tuple[tuple[float, float], ...]


WIDE = Page((10, 5.2), 7.5, 8.5, 2.8, ((0, 0), (9.2, 0), (16.9, 0), (24.5, 0), (34.4, 0)))
BELOW = Page((NARROW, 6.6), 9, 9, 3.8, ((0, 0), (20.5, 0), (0, 1.3), (20.5, 1.3), (0, 2.6)))


def schedule() -> TaskSchedule:
    arm = general_arm(linear, "R" * LINKS)
    units = {kind: ProcessingUnit(flops, flops) for kind, flops in FLOPS.items()}
    found = asap(grouped(fl.trace(*arm)), units)
    found.verify()
    return found


def lanes(found: TaskSchedule) -> dict[int, tuple[str, int]]:
    """For each operation its row, and the first lane of that row that is free."""
    place: dict[int, tuple[str, int]] = {}
    free: dict[str, list[int]] = {row: [] for row in ROWS}
    for k in sorted(found.tasks.work(), key=lambda k: (found.start[k], k)):
        row = ROW_OF[found.tasks.names[k].variable]
        ends = free[row]
        lane = next((n for n, end in enumerate(ends) if end <= found.start[k]), len(ends))
        ends[lane : lane + 1] = [found.end(k)]
        place[k] = row, lane
    return place


def tops(place: dict[int, tuple[str, int]]) -> dict[str, float]:
    """The upper edge of each row; y points down."""
    top, y = {}, 0.0
    for row in ROWS:
        top[row] = y
        y += LANE * (1 + max(lane for r, lane in place.values() if r == row)) + GAP
    return top | {"": y}


def box(axes: Any, page: Page, found: TaskSchedule, k: int, y: float, critical: bool) -> None:
    step = found.tasks.names[k]
    colour, x, width = KINDS[step.kind][0], found.start[k], found.unit(k).latency
    inner, edge = 0.07, 0.12
    style = {"boxstyle": "round,pad=0,rounding_size=0.16", "edgecolor": colour}
    corner, size = (x + inner, y + edge), (width - 2 * inner, LANE - 2 * edge)
    axes.add_patch(FancyBboxPatch(corner, *size, facecolor="none", lw=1.0, **style, zorder=3))
    shade = FancyBboxPatch(corner, *size, facecolor=colour, lw=0, **style, zorder=2)
    shade.set_alpha(0.92 if critical else 0.16)
    axes.add_patch(shade)
    link = step.node.split()[1]
    ink, weight = ("white", "bold") if critical else (colour, "normal")
    middle = x + width / 2, y + LANE / 2 + 0.03
    look = {"color": ink, "weight": weight, "size": page.numbers, "zorder": 4}
    axes.text(*middle, link, ha="center", va="center", **look)


def arrivals(axes: Any, found: TaskSchedule, row: str, y: float) -> list[int]:
    """Marks when the row's variable is available, link by link, and returns these times."""
    tasks = found.tasks
    ends = [found.end(k) for k in tasks.work() if tasks.names[k].variable == row]
    for end in ends:
        axes.plot(end, y - 0.14, "v", color=INK, ms=5, mew=0, zorder=5)
    return sorted(ends)


def interval(axes: Any, page: Page, start: float, end: float, y: float) -> None:
    arrow = {"arrowstyle": "<|-|>", "color": INK, "lw": 0.9, "mutation_scale": 7}
    axes.annotate("", (end, y), (start, y), arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})
    words = f"{end - start:g} flops to the next link"
    axes.text(end + 0.35, y, words, size=page.words, va="center")


def scale(axes: Any, page: Page, length: int, bottom: float) -> None:
    for x in range(0, length + 1, 2):
        axes.plot([x, x], [-0.4, bottom], color=INK, lw=0.5, alpha=0.35 if x % 4 == 0 else 0.14)
        if x % 4 == 0:
            axes.text(x, bottom + 0.35, str(x), size=page.words, ha="center", va="top")
    axes.text(length + 0.6, bottom + 0.35, "flops", size=page.words, ha="left", va="top")


def legend(axes: Any, page: Page, top: float) -> None:
    *places, (x, y) = page.legend
    axes.text(x, top + y + 0.4, "filled: a critical path", size=9, va="center")
    for (x, y), (colour, words) in zip(places, KINDS.values(), strict=True):
        shape = {"boxstyle": "round,pad=0,rounding_size=0.16", "fc": colour, "ec": colour}
        axes.add_patch(FancyBboxPatch((x, top + y), 0.9, 0.76, **shape))
        axes.text(x + 1.25, top + y + 0.4, words, size=9, va="center")


def draw(page: Page) -> Any:
    plt.rcParams["font.size"] = 10.5
    found = schedule()
    place, path = lanes(found), set(critical_path(found.tasks, FLOPS).tasks)
    top = tops(place)
    figure, axes = plt.subplots(figsize=page.size)
    axes.axis("off")
    figure.subplots_adjust(0.005, 0.005, 0.995, 0.995)
    rows = list(top)
    for row, following in pairwise(rows):
        height = top[following] - top[row] - GAP
        label = ROWS[row][0]
        axes.text(-0.7, top[row] + height / 2, label, size=13, ha="right", va="center")
        times = arrivals(axes, found, row, top[row])
        if row == "w":
            interval(axes, page, times[-2], times[-1], top[row] - 0.75)
    for k, (row, lane) in place.items():
        box(axes, page, found, k, top[row] + LANE * lane, k in path)
    bottom = top[""] - GAP + 0.3
    scale(axes, page, found.length, bottom)
    legend(axes, page, bottom + 2.0)
    axes.set_xlim(-2.6, found.length + page.right)
    axes.set_ylim(bottom + 3.1 + page.legend[-1][1], -1.3)
    return figure


if __name__ == "__main__":
    main(lambda: draw(WIDE), __file__, __doc__, lambda: draw(BELOW))
