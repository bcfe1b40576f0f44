"""The figures of a run: roofline, throughput against batch size, ratios to the fastest peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter

from featherlane.tools.figures import FAINT, INK, STYLE, machine, save
from featherlane.tools.timing import SHORT

from .cells import DTYPES, OURS, Row
from .limits import bytes_fact, peak_fact
from .tables import Results

COLOURS = dict(
    zip(SHORT, ("#2f81c7", "#2f9e6e", "#c2a23a", "#8f6ccf", "#cf5a8a", "#d9722e"), strict=False)
)
OURS_COLOURS = {"float64": "#2f81c7", "float32": "#d9722e"}
PEER = "#9a7b5f"
# Opaque, and dark enough for white words on every page
FASTER = LinearSegmentedColormap.from_list("faster", ("#4d9679", "#0f5c3d"))
SLOWER = LinearSegmentedColormap.from_list("slower", ("#c0665d", "#8c2a22"))
SEVERAL: dict[str, Any] = {"linewidth": 2.2}
ONE: dict[str, Any] = {"linewidth": 1.8, "linestyle": (0, (1.2, 1.2))}
TITLES = {
    "inverse_dynamics": "inverse dynamics",
    "forward_dynamics_derivatives": "derivatives of forward dynamics",
}
SHOWN = ("iiwa14", "hyq", "atlas")  # of throughput, where they were measured
SUFFIX = {
    "roofline": "Roofline: featherlane's functions and the measured limits of the machine",
    "throughput": "States per second against batch size",
    "ratio": "Time of the fastest peer as a multiple of featherlane's time",
}


def _bare(axes: Any) -> None:
    axes.tick_params(which="both", colors=INK, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _grid(axes: Any) -> None:
    axes.grid(True, which="major", color=FAINT, alpha=0.25, linewidth=0.8)
    _bare(axes)


# Roofline


def roofline(results: Results, told: Mapping[str, str], narrow: bool = False) -> Figure | None:
    """Arithmetic per second over arithmetic per byte, one thread, a panel for each dtype: below one
    another in a narrow figure.
    """
    points = [r for r in results.rows if _counted(r, results.at)]
    dtypes = [dtype for dtype in DTYPES if any(r.dtype == dtype for r in points)]
    if not dtypes:
        return None
    lines, columns = (len(dtypes), 1) if narrow else (1, len(dtypes))
    size = (4.7 if narrow else 5.4) * columns, 4.6 * lines
    figure, panels = plt.subplots(lines, columns, figsize=size, squeeze=False, sharey=True)
    bottom = min(map(_rate, points)) / 1.6
    for axes, dtype in zip(panels.flat, dtypes, strict=True):
        _roofs(axes, [r for r in points if r.dtype == dtype], dtype, told, bottom)
        _points(axes, [r for r in points if r.dtype == dtype])
        _ticks(axes)
    top = max(float(told[peak_fact(dtype, 1)]) for dtype in dtypes)
    panels[0][0].set_ylim(bottom, top * 1.9)
    for axes in panels[:, 0]:
        axes.set_ylabel("arithmetic instructions per second (multiply-add: 1)", color=INK)
    look = {"frameon": False, "labelcolor": INK, "fontsize": 9, "handletextpad": 0.2}
    panels[-1][-1].legend(loc="lower right", ncols=2, **look)
    figure.tight_layout(w_pad=2)
    return figure


def _counted(row: Row, batch: int) -> bool:
    mine = row.who == OURS and row.measured and row.batch == batch and row.threads == 1
    return mine and not isinstance(row.slots, str)


def _roofs(
    axes: Any, rows: Sequence[Row], dtype: str, told: Mapping[str, str], bottom: float
) -> None:
    peak = float(told[peak_fact(dtype, 1)])
    low, high = min(map(_intensity, rows)) / 1.6, max(map(_intensity, rows)) * 1.6
    for share in (1.0, 0.6, 0.4):
        look = {"linewidth": 1.8} if share == 1 else {"linewidth": 1, "dashes": (4, 3)}
        axes.plot((low, high), (share * peak,) * 2, color=INK, **look)
        if share < 1:
            axes.text(high, share * peak * 1.03, f"{share:.0%}", ha="right", fontsize=9)
    axes.text(high, peak * 1.4, f"{peak / 1e9:.0f} G multiply-adds/s", ha="right", fontsize=9)
    for where in ("caches", "memory"):
        bandwidth = float(told[bytes_fact(where, 1)])
        x = np.array([max(low, bottom / bandwidth), min(high, peak / bandwidth)])
        if x[0] < x[1]:
            axes.plot(x, x * bandwidth, color=INK, linewidth=1.3, alpha=0.7)
            place = "left" if where == "memory" and x[1] < high / 3 else "right"
            words = f"{where} {bandwidth / 1e9:.0f} GB/s"
            axes.text(x[1], x[1] * bandwidth * 1.05, words, ha=place, va="bottom", fontsize=9)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_title(f"{dtype}, batch {rows[0].batch:,}, one thread", fontsize=11, loc="left", pad=10)
    axes.set_xlabel("arithmetic instructions per byte of inputs and results", color=INK)


def _points(axes: Any, rows: Sequence[Row]) -> None:
    look = {"markersize": 5.5, "alpha": 0.85, "markeredgewidth": 0}
    for name in (name for name in SHORT if any(r.function == name for r in rows)):
        mine = [(_intensity(r), _rate(r)) for r in rows if r.function == name]
        axes.plot(*zip(*mine, strict=True), "o", color=COLOURS[name], label=SHORT[name], **look)


def _ticks(axes: Any) -> None:
    for axis, unit in ((axes.xaxis, ""), (axes.yaxis, " G")):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda n, _, u=unit: f"{n / 1e9 if u else n:g}{u}")
        axis.set_minor_formatter(NullFormatter())
    _grid(axes)


def _rate(row: Row) -> float:
    """Arithmetic instructions per second."""
    return float(row.slots) / float(row.ns_per_state) * 1e9


def _intensity(row: Row) -> float:
    return float(row.slots) / float(row.bytes)


# Throughput


def throughput(results: Results, told: Mapping[str, str], narrow: bool = False) -> Figure | None:
    """States per second against batch size, a panel for each robot and function: below one
    another in a narrow figure.
    """
    names = [name for name in TITLES if name in results.functions]
    robots = [r for r in results.robots if r[0] in SHOWN] or results.robots[:3]
    if not names or len(results.batches) < 2:
        return None
    lines, columns = (len(names) * len(robots), 1) if narrow else (len(names), len(robots))
    size = 0.8 + 3.8 * columns, 0.8 + (2.5 if narrow else 3.1) * lines
    figure, panels = plt.subplots(lines, columns, figsize=size, squeeze=False, sharex=True)
    shown = [(name, robot) for name in names for robot in robots]
    for axes, (name, robot) in zip(panels.flat, shown, strict=True):
        _throughput_panel(axes, results, robot, name)
    for axes in panels[:, 0]:
        axes.set_ylabel("states per second", color=INK)
    for axes in panels[-1]:
        axes.set_xlabel("states per call", color=INK)
    every: dict[str, Any] = {}
    for axes in panels.flat:
        every |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    figure.tight_layout(w_pad=1.5, rect=(0, 0.06 if narrow else 0.08, 1, 1))
    figure.legend(
        every.values(),
        every.keys(),
        frameon=False,
        labelcolor=INK,
        loc="lower center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=figure.transFigure,  # it stays where it is when the note is added
        ncols=2 if narrow else 3,
        columnspacing=1,
        fontsize=9,
    )
    return figure


def _throughput_panel(axes: Any, results: Results, robot: tuple[str, str], name: str) -> None:
    for dtype in results.dtypes:
        for threads in results.threads:
            points = _rates(results, robot, name, dtype, threads, OURS)
            words = f"up to {threads} threads" if threads > 1 else "1 thread"
            look: dict[str, Any] = {"color": OURS_COLOURS[dtype], "label": f"{dtype}, {words}"}
            look |= SEVERAL if threads > 1 else ONE
            if points:
                axes.plot(*zip(*points, strict=True), **look)
    _fastest_peers(axes, results, robot, name)
    axes.set_title(f"{robot[0]}, {TITLES[name]}", fontsize=10, loc="left", pad=8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(results.batches, list(map(_batch, results.batches)), fontsize=9)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(_states)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.margins(y=0.12)
    _grid(axes)


def _batch(states: int) -> str:
    return f"{states // 1024} Ki" if states >= 1024 and states % 1024 == 0 else str(states)


def _states(rate: float, _: Any) -> str:
    return f"{rate / 1e6:g} M" if rate >= 1e6 else f"{rate / 1e3:g} k"


def _fastest_peers(axes: Any, results: Results, robot: tuple[str, str], name: str) -> None:
    """Draws the fastest peer of each precision on one thread, among those with several batches."""
    ends: dict[str, tuple[int, float]] = {}  # of the lines, by the peer's name
    for dtype, dashes in (("float64", (4, 2)), ("float32", (1, 1.5))):
        every = {who: _rates(results, robot, name, dtype, 1, who) for who in results.peers}
        several = [who for who, points in every.items() if len(points) > 1]
        best = results.best_peer(robot, name, results.at, dtype, 1, several)
        if best is None:
            continue
        points = every[best.who]
        look = {"linewidth": 1.8, "dashes": dashes, "marker": "x", "markersize": 4}
        label = f"fastest peer, {dtype}, 1 thread"
        axes.plot(*zip(*points, strict=True), color=PEER, label=label, **look)
        ends.setdefault(best.who, points[-1])  # float64 is the lower one
    lowest = min((y for _, y in ends.values()), default=0.0)
    for who, (x, y) in ends.items():  # the lower line has its name below it, the other above it
        above = y > lowest
        place = {"ha": "right", "va": "bottom" if above else "top", "color": PEER, "fontsize": 8}
        points = (0, 5 if above else -5)
        axes.annotate(who, (x, y), points, textcoords="offset points", **place)


def _rates(
    results: Results, robot: tuple[str, str], name: str, dtype: str, threads: int, who: str
) -> list[tuple[int, float]]:
    """(batch size, states per second); a single state always runs on one thread."""
    rows = [
        results.row(robot, name, batch, dtype, threads if batch > 1 else 1, who)
        for batch in results.batches
    ]
    return [(r.batch, 1e9 / float(r.ns_per_state)) for r in rows if r is not None and r.measured]


# Ratios


def ratio(results: Results, told: Mapping[str, str], narrow: bool = False) -> Figure | None:
    """A square for each robot and function: its number, and the peer's name, for which a narrow
    figure has no room.
    """
    if not results.peers:
        return None
    dtypes, functions = results.dtypes, results.functions
    lines, columns = (len(dtypes), 1) if narrow else (1, len(dtypes))
    width = 1.7 + 0.5 * len(functions) if narrow else 1.6 + 0.95 * len(functions) * columns
    size = (
        width,
        lines * (0.9 + 0.3 * len(results.robots) if narrow else 1.5 + 0.46 * len(results.robots)),
    )
    figure, panels = plt.subplots(lines, columns, figsize=size, squeeze=False, sharey=True)
    for axes, dtype in zip(panels.flat, dtypes, strict=True):
        for y, robot in enumerate(reversed(results.robots)):
            for x, name in enumerate(functions):
                _ratio_square(axes, x, y, results, (robot, name, results.at, dtype, 1), narrow)
        axes.set_xlim(-0.5, len(functions) - 0.5)
        axes.set_ylim(-0.5, len(results.robots) - 0.5)
        axes.set_xticks(range(len(functions)), [SHORT[name] for name in functions])
        axes.set_yticks(
            range(len(results.robots)), [", ".join(r) for r in reversed(results.robots)]
        )
        words = (
            "fastest peer / featherlane"
            if narrow
            else "time of the fastest peer / featherlane's time"
        )
        axes.set_title(f"{dtype}: {words}", fontsize=11, loc="left", pad=10)
        _bare(axes)
        axes.spines["bottom"].set_visible(False)
    figure.tight_layout(w_pad=2)
    return figure


def _ratio_square(axes: Any, x: int, y: int, results: Results, key: tuple, unnamed: bool) -> None:
    ours, best = results.row(*key, OURS), results.best_peer(*key)
    if ours is None or not ours.measured or best is None:
        axes.text(x, y, "-", ha="center", va="center")
        return
    times = float(best.ns_per_state) / float(ours.ns_per_state)
    deep = min(1.0, abs(np.log(times)) / np.log(40))
    colour = (FASTER if times >= 1 else SLOWER)(deep)
    axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, linewidth=0))
    word = {"ha": "center", "va": "center", "color": "white"}
    told = f"{times:.{1 if times < 10 else 0}f}"
    axes.text(x, y if unnamed else y + 0.14, told, fontsize=10, fontweight="bold", **word)
    if not unnamed:
        axes.text(x, y - 0.24, best.who.replace("pinocchio", "pin."), fontsize=7, **word)


DRAW = {"roofline": roofline, "throughput": throughput, "ratio": ratio}


def draw_all(
    results: Results, told: Mapping[str, str], folder: Path, name: str, png: Path | None = None
) -> dict[str, str]:
    """Writes NAME_FIGURE.svg, and NAME_FIGURE_narrow.svg for narrow screens, into a folder and
    returns {file: title} of the former. png: a folder for PNG files on a white and on a dark
    background.
    """
    plt.rcParams.update(STYLE)
    drawn = {}
    for what, draw in DRAW.items():
        for narrow, end in ((False, ".svg"), (True, "_narrow.svg")):
            figure = draw(results, told, narrow)
            if figure is None:
                break
            save(figure, folder / f"{name}_{what}{end}", SUFFIX[what], machine(told), png)
            plt.close(figure)
            drawn[f"{name}_{what}.svg"] = SUFFIX[what]
    return drawn
