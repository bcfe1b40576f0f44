"""The figures of links_and_groups.py, from its CSV: the papers' four, and the fastest method.

Yang, Wu and Pan 2016, "Parallel Dynamics Computation using Prefix Sum Operations", figures 1 to 3,
and "A Novel GPU-based Parallel Implementation Scheme ...", figures 2 and 3 (CFA beside the others):
one call of inverse or forward dynamics over the number of links, and over the number of states
("groups") for robots of 10 and of 100 or 200 links.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from links_results import WITHIN, Cell, Row, by_cell, ours, read

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from featherlane.tools.figures import FAINT, INK, STYLE, machine, save

COLOURS = {
    "serial": "#2f81c7",
    "aba": "#2f81c7",
    "scan": "#d9722e",
    "jsiia": "#2f9e6e",
    "abia": "#d9722e",
    "cfa": "#8f6ccf",
    "dca": "#cf5a8a",
    "pinocchio": "#9a7b5f",
    "auto": INK,
}
MARKS = {"serial": "o", "aba": "o", "scan": "s", "jsiia": "^", "abia": "s", "cfa": "D", "dca": "v"}
NAMES = {"inverse_dynamics": "inverse dynamics", "forward_dynamics": "forward dynamics"}
OVER_LINKS = {"links_inverse": "inverse_dynamics", "links_forward": "forward_dynamics"}
OVER_STATES = {  # the panels of the papers
    "links_inverse_groups": ("inverse_dynamics", (10, 100)),
    "links_forward_groups": ("forward_dynamics", (10, 200)),
}
TITLES = {
    "links_inverse": "Time of one call of inverse dynamics over the number of links",
    "links_forward": "Time of one call of forward dynamics over the number of links",
    "links_inverse_groups": "Time of one call of inverse dynamics over the number of states",
    "links_forward_groups": "Time of one call of forward dynamics over the number of states",
    "links_fastest": "The fastest method for each number of links and states",
}
MAP_NOTE = (
    "Numbers: time of the second fastest method / time of the fastest. "
    f'Outlined: method="auto" takes more than {WITHIN - 1:.0%} longer than the fastest.'
)
Cells = Mapping[Cell, Mapping[str, Row]]


def curves(cells: Cells, function: str, **fixed: int) -> dict[str, list[tuple[int, float]]]:
    """{label: [(links or states, seconds of one call)]} with the other one fixed."""
    found: dict[str, list[tuple[int, float]]] = {}
    across = "states" if "links" in fixed else "links"
    for cell, rows in sorted(cells.items()):
        if cell.function != function or any(getattr(cell, k) != n for k, n in fixed.items()):
            continue
        for label, row in rows.items():
            if row.measured:
                seconds = float(row.ns_per_state) * cell.states * 1e-9
                found.setdefault(label, []).append((getattr(cell, across), seconds))
    return found


def _time(seconds: float, _: Any = None) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.999 * unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def panel(axes: Any, lines: Mapping[str, Sequence[tuple[int, float]]], title: str) -> None:
    """Both axes logarithmic; "auto" is a broad pale line below the methods that it chooses from."""
    for label, points in lines.items():
        look: dict[str, Any] = {"linewidth": 1.8, "marker": MARKS.get(label), "markersize": 5}
        if label == "auto":
            look = {"linewidth": 7, "alpha": 0.3, "zorder": 1, "solid_capstyle": "round"}
        elif label == "pinocchio":
            look = {"linewidth": 1.8, "dashes": (4, 2), "marker": "x", "markersize": 5}
        name = "Pinocchio, C++" if label == "pinocchio" else label
        axes.plot(*zip(*points, strict=True), color=COLOURS[label], label=name, **look)
    axes.set_title(title, fontsize=11, loc="left", pad=10)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
    axes.set_xticks(sorted({n for points in lines.values() for n, _ in points}), minor=False)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(_time)
    axes.grid(True, which="major", color=FAINT, alpha=0.25, linewidth=0.8)
    axes.tick_params(which="both", colors=INK, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def over_links(cells: Cells, function: str) -> Figure:
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    panel(axes, curves(cells, function, states=1), f"{NAMES[function]}, one state")
    axes.set(xlabel="links", ylabel="time of one call")
    axes.legend(loc="upper left", handlelength=2.4)
    return figure


def over_states(cells: Cells, function: str, links: Sequence[int]) -> Figure:
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
    for axes, n in zip(panels, links, strict=True):
        panel(axes, curves(cells, function, links=n), f"{NAMES[function]}, {n} links")
        axes.set_xlabel("states per call (groups)")
    every = dict(zip(*panels[1].get_legend_handles_labels()[::-1], strict=True))
    every |= dict(zip(*panels[0].get_legend_handles_labels()[::-1], strict=True))
    panels[0].legend(every.values(), every.keys(), loc="upper left", handlelength=2.4)
    panels[0].set_ylabel("time of one call")
    return figure


# The map


def fastest(rows: Mapping[str, Row]) -> tuple[str, float | None] | None:
    """The fastest of our methods in a cell, and the second fastest one's time over its time."""
    times = sorted((time, label) for label, time in ours(rows).items())
    if not times:
        return None
    return times[0][1], times[1][0] / times[0][0] if len(times) > 1 else None


def off(rows: Mapping[str, Row]) -> bool:
    """Whether "auto" takes more than WITHIN times as long as the fastest method."""
    auto, times = rows.get("auto"), ours(rows)
    if auto is None or not auto.measured or not times:
        return False
    return float(auto.ns_per_state) > WITHIN * min(times.values())


def _square(axes: Any, x: int, y: int, rows: Mapping[str, Row]) -> None:
    best = fastest(rows)
    if best is None:
        axes.text(x, y, "-", ha="center", va="center")
        return
    label, ratio = best
    square = Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, facecolor=COLOURS[label])
    if off(rows):
        square.set(edgecolor=INK, linewidth=2.5)
    axes.add_patch(square)
    told = label if ratio is None else f"{label}\n{ratio:.{2 if ratio < 2 else 1}f}"
    axes.text(x, y, told, ha="center", va="center", color="white", fontsize=9, linespacing=1.2)


def fastest_map(cells: Cells) -> Figure:
    functions = [name for name in NAMES if any(cell.function == name for cell in cells)]
    links, states = (sorted({getattr(c, k) for c in cells}) for k in ("links", "states"))
    size = (max(9.0, 1.2 + 0.62 * len(links) * len(functions)), 1.7 + 0.5 * len(states))
    figure, panels = plt.subplots(
        1, len(functions), figsize=size, squeeze=False, sharey=True, layout="constrained"
    )
    for axes, function in zip(panels[0], functions, strict=True):
        for cell, rows in cells.items():
            if cell.function == function:
                _square(axes, links.index(cell.links), states.index(cell.states), rows)
        axes.set_title(f"fastest method, {NAMES[function]}", fontsize=11, loc="left", pad=10)
        axes.set_xlim(-0.6, len(links) - 0.4)
        axes.set_ylim(-0.6, len(states) - 0.4)
        axes.set_xticks(range(len(links)), [f"{n:,}" for n in links])
        axes.set_yticks(range(len(states)), [f"{n:,}" for n in states])
        axes.set_xlabel("links")
        axes.tick_params(which="both", colors=INK, length=0)
        axes.spines[:].set_visible(False)
    panels[0][0].set_ylabel("states per call")
    figure.supxlabel(MAP_NOTE, fontsize=9)
    return figure


# Files


def figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """The figures by file name, without those for which nothing was measured."""
    plt.rcParams.update(STYLE)
    cells = by_cell(rows)
    drawn = {}
    for name, function in OVER_LINKS.items():
        if curves(cells, function, states=1):
            drawn[name] = over_links(cells, function)
    for name, (function, links) in OVER_STATES.items():
        if any(curves(cells, function, links=n) for n in links):
            drawn[name] = over_states(cells, function, links)
    return {**drawn, "links_fastest": fastest_map(cells)}


def draw_all(data: Path, folder: Path, png: Path | None = None) -> None:
    """Writes SVG files into a folder, and those for narrow screens; png: a folder for PNG files on
    white and dark backgrounds.
    """
    facts, rows = read(data)
    for name, figure in figures(rows).items():
        save(figure, folder / f"{name}.svg", TITLES[name], machine(facts), png, narrow=3.7)
        plt.close(figure)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path, help="the CSV of links_and_groups.py")
    options.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "docs")
    options.add_argument("--png", type=Path, metavar="FOLDER", help="also write PNG files")
    args = options.parse_args()
    draw_all(args.data, args.folder, args.png)


if __name__ == "__main__":
    main()
