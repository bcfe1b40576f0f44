"""The figures of a GPU's results, from the CSV files of `gpu.py`: rates over the number of states,
and the bounds, the latencies and the peers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from gpu_cells import Row
from gpu_results import EXPECTED, read
from robots import SHORT

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from featherlane.tools.figures import BELOW, FAINT, HUES, INK, STYLE, save

GOALS = 65_536  # states of a call for which rates are expected
DASHES: dict[str, dict[str, Any]] = {  # of lines: arrays that stay there, and that are copied
    "float32": {"linewidth": 1.8, "marker": "o", "markersize": 4},
    "float64": {"linewidth": 1.3, "dashes": (4, 2)},
    "with copies": {"linewidth": 1.0, "dashes": (1, 2), "marker": "."},
}
MAPPINGS = {"lanes": "o", "team:2": "^", "team:4": "s", "team:8": "D"}
TITLES = {
    "gpu_rates": "States a second on a GPU, over the states of a call",
    "gpu_bounds": "On a GPU: shares of its bounds, time of one state, rates beside peers",
}
HEIGHTS = {"gpu_rates": 2.9, "gpu_bounds": 4.4}  # inches, of panels on narrow screens


def _unique(rows: Iterable[Row], column: str) -> list[Any]:
    return list(dict.fromkeys(row[column] for row in rows if column in row))


def _frame(axes: Any, title: str, across: str = "") -> None:
    axes.set_title(title, fontsize=11, loc="left", pad=8)
    axes.grid(True, which="major", color=FAINT, alpha=0.25, linewidth=0.8)
    axes.tick_params(which="both", length=0)
    axes.set_xlabel(across)
    axes.spines[:].set_visible(False)


def _rate(states: float, _: Any = None) -> str:
    """States a second in words, as 20 M."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if states >= 0.999 * unit:
            return f"{states / unit:g}{name}"
    return f"{states:g}"


def _states(batch: float, _: Any = None) -> str:
    return f"{batch / 1e6:.1f} M" if batch >= 1e6 else f"{batch:,.0f}"


# Rates


def rates(rows: Sequence[Row]) -> Figure | None:
    """A panel for each function, a line for each robot, dtype, and with copies."""
    timed = [x for x in rows if x["part"] in ("rates", "copies") and "states_per_second" in x]
    timed = [x for x in timed if not x["function"].startswith("rollout")]
    if not (functions := _unique(timed, "function")):
        return None
    colours = dict(zip(_unique(timed, "robot"), HUES, strict=False))
    count = (len(functions) + 1) // 2 if len(functions) > 3 else len(functions)
    lines = -(-len(functions) // count)
    size, options = (3.6 * count + 0.4, 3.1 * lines + 0.5), {"layout": "constrained"}
    figure, panels = plt.subplots(lines, count, figsize=size, squeeze=False, sharex=True, **options)
    for axes, name in zip(panels.flat, functions, strict=False):
        _rates_of(axes, [x for x in timed if x["function"] == name], colours)
        _frame(axes, SHORT.get(name, name))
    for axes in panels[-1]:
        axes.set_xlabel("states of a call")
    for axes in panels[:, 0]:
        axes.set_ylabel("states a second")
    kinds = {*_unique(timed, "dtype"), *_unique(timed, "who")}
    _legend(figure, colours, kinds)
    return figure


def _rates_of(axes: Any, rows: Sequence[Row], colours: dict[str, str]) -> None:
    for robot, colour in colours.items():
        for kind, look in DASHES.items():
            own = [x for x in rows if x["robot"] == robot and _kind(x) == kind]
            points = sorted((x["batch"], x["states_per_second"]) for x in own)
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, **look)
        if robot in EXPECTED and rows[0]["function"] == "forward_dynamics_derivatives":
            axes.plot(GOALS, EXPECTED[robot], "x", color=colour, markersize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(_states)
    axes.set_xticks(sorted({x["batch"] for x in rows})[::2], minor=False)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(_rate)


def _kind(row: Row) -> str:
    """Which line of `DASHES` a row belongs to; copies are drawn in float32 only."""
    if row["part"] == "rates":
        return str(row["dtype"])
    return "with copies" if row["dtype"] == "float32" else ""


def _legend(figure: Figure, colours: dict[str, str], kinds: set[str]) -> None:
    lines = [mpl.lines.Line2D([], [], color=y, linewidth=1.8) for y in colours.values()]
    shown = {x: look for x, look in DASHES.items() if x in kinds}
    lines += [mpl.lines.Line2D([], [], color=INK, **look) for look in shown.values()]
    lines.append(mpl.lines.Line2D([], [], color=INK, marker="x", linestyle="", markersize=8))
    names = [*colours, *shown, "expected"]
    figure.legend(lines, names, loc=BELOW, ncols=len(names), fontsize=9, columnspacing=1.2)


# Bounds, latencies, peers


def bounds(rows: Sequence[Row]) -> Figure | None:
    """Three panels: shares of the bounds, the time of one state, and peers."""
    panels = [draw for draw in (_shares, _latency, _peers) if draw(None, rows)]
    if not panels:
        return None
    size, options = (4.6 * len(panels), 5.2), {"squeeze": False, "layout": "constrained"}
    figure, axes = plt.subplots(1, len(panels), figsize=size, **options)
    for place, draw in zip(axes.flat, panels, strict=True):
        draw(place, rows)
    return figure


def _shares(axes: Any, rows: Sequence[Row]) -> bool:
    """Shares of memory's bandwidth and of the arithmetic, a point for each function."""
    own = [x for x in rows if "share_of_memory" in x and _is_goal(x)]
    if axes is None or not own:
        return bool(own)
    for robot, colour in zip(_unique(own, "robot"), HUES, strict=False):
        points = [x for x in own if x["robot"] == robot]
        places = [[x[f"share_of_{y}"] for x in points] for y in ("memory", "arithmetic")]
        axes.plot(*places, "o", color=colour, label=robot, markersize=5)
        for x, y, row in zip(*places, points, strict=True):
            told = SHORT.get(row["function"], "")
            place = {"xytext": (5, 3), "textcoords": "offset points"}
            axes.annotate(told, (x, y), fontsize=7.5, color=colour, **place)
    axes.legend(fontsize=9)
    axes.set_ylabel("share of the arithmetic")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    _frame(axes, f"bounds, float32, {GOALS:,} states", "share of memory's bandwidth")
    return True


def _is_goal(row: Row) -> bool:
    return row.get("dtype") == "float32" and row.get("batch") == GOALS


def _latency(axes: Any, rows: Sequence[Row]) -> bool:
    """Microseconds of one state in a CUDA graph, by robot, function and mapping."""
    own = [x for x in rows if x["part"] == "latency" and x.get("batch") == 1 and "seconds" in x]
    own = [x for x in own if x["function"] in SHORT]
    if axes is None or not own:
        return bool(own)
    lines = list(dict.fromkeys((x["robot"], x["function"]) for x in own))
    for mapping, mark in MAPPINGS.items():
        points = [
            (x["seconds"] * 1e6, lines.index((x["robot"], x["function"])))
            for x in own
            if x["mapping"] == mapping
        ]
        if points:
            axes.plot(*zip(*points, strict=True), mark, label=mapping, markersize=5)
    axes.set_yticks(range(len(lines)), [f"{x}, {SHORT[y]}" for x, y in lines], fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.legend(fontsize=9)
    _frame(axes, "one state, float32, CUDA graph", "µs")
    return True


def _peers(axes: Any, rows: Sequence[Row]) -> bool:
    """Rates of peers and of the CPU beside ours, by robot and function."""
    every = [x for x in rows if _is_goal(x) and "states_per_second" in x]
    peers = [x for x in every if x.get("who") and x["part"] not in ("copies", "group links")]
    lines = list(dict.fromkeys((x["robot"], x["function"]) for x in peers))
    if axes is None or not lines:
        return bool(lines)
    ours = [x | {"who": "featherlane"} for x in every if x["part"] == "rates"]
    for who in ("featherlane", *_unique(peers, "who")):
        points = [
            (x["states_per_second"], lines.index((x["robot"], x["function"])))
            for x in (*ours, *peers)
            if x["who"] == who and (x["robot"], x["function"]) in lines
        ]
        if points:
            axes.plot(*zip(*points, strict=True), "o", label=who, markersize=6)
    axes.set_yticks(range(len(lines)), [f"{x}, {SHORT.get(y, y)}" for x, y in lines], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(_rate)
    axes.legend(fontsize=9)
    _frame(axes, f"beside peers, float32, {GOALS:,} states", "states a second")
    return True


# Files


def device(rows: Sequence[Row]) -> str:
    """What was measured, in a line."""
    told = {x.get("question"): str(x.get("value", "")) for x in rows}
    asked = {
        "device: name": "Measured on ",
        "device: driver": "driver ",
        "version of featherlane": "featherlane ",
        "date": "",
    }
    return ", ".join(f"{words}{told[x]}" for x, words in asked.items() if x in told)


def draw_all(paths: Sequence[Path], folder: Path, png: Path | None = None) -> list[str]:
    """Writes SVG files into a folder, those for narrow screens too, and returns the names of the
    figures; png: a folder for PNG files on white and dark pages.
    """
    plt.rcParams.update(STYLE)
    rows = read(paths)
    drawn = {"gpu_rates": rates(rows), "gpu_bounds": bounds(rows)}
    for name, figure in drawn.items():
        if figure is not None:
            options = {"note": device(rows), "png": png, "narrow": HEIGHTS[name]}
            save(figure, folder / f"{name}.svg", TITLES[name], **options)
            plt.close(figure)
    return [name for name, figure in drawn.items() if figure is not None]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path, nargs="+", help="CSV files of gpu.py")
    options.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "docs")
    options.add_argument("--png", type=Path, metavar="FOLDER", help="also write PNG files")
    args = options.parse_args()
    print(*draw_all(args.data, args.folder, args.png))


if __name__ == "__main__":
    main()
