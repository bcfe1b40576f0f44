"""The figures of fixed_point_in_the_loop.py, from its CSV: maps of formats, errors against bits."""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, NullFormatter

from featherlane.tools.figures import FAINT, INK, NARROW, STYLE, save

Results = Mapping[tuple[str, str], Mapping[str, float]]  # figures by case and format
GOOD, MIDDLE, BAD = "#2f81c7", "#e3c878", "#c8553d"
COLOURS = {"uniform": "#2f81c7", "fitted": "#d9722e", "proved": "#2f9e6e"}
HUES = ["#2f81c7", "#d9722e", "#2f9e6e", "#8f6ccf", "#cf5a8a", "#9a7b5f", "#75808a"]
LEGENDS = {
    "uniform": "one for all, 12 bits before the point",
    "fitted": "each signal its own, fitted",
    "proved": "each signal its own, proved",
}


def read(file: Path) -> Results:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for _, case, format, figure, value in csv.reader(file.open(newline="")):
        found.setdefault((case, format), {})[figure] = float(value)
    return found


# The maps


GOODNESS = LinearSegmentedColormap.from_list("good", [BAD, MIDDLE, GOOD])
CASES = ("derivatives", "all dynamics")
MAPS = (  # a figure, its colours, its name, words at their bar, and where values are beyond it
    (
        "share within 1 %",
        ScalarMappable(Normalize(0, 1), GOODNESS),
        "starts within 1 % of float64's cost",
        "share",
        "neither",
    ),
    (
        "cost, median excess",
        ScalarMappable(LogNorm(1e-10, 1), GOODNESS.reversed()),
        "final cost over float64's",
        "median of J / J64 - 1",
        "both",
    ),
    (
        "iterations, median",
        ScalarMappable(Normalize(7, 30), GOODNESS.reversed()),
        "iterations, at most 30",
        "median; float64: 7",
        "neither",
    ),
)
BEFORE, BEHIND = "bits before the point, with the sign", "bits behind the point"
MOVES = "Trajectory optimisation of the iiwa14, 32 moves: what is in fixed point"


def maps(results: Results) -> Figure:
    figure, axes = plt.subplots(2, 3, figsize=(12.5, 7.6), sharex=True, sharey=True)
    for row, case in zip(axes, CASES, strict=True):
        for panel, (name, colours, title, told, beyond) in zip(row, MAPS, strict=True):
            _map(panel, results, case, name, colours)
            panel.set_title(f"{case}: {title}", fontsize=9.5, loc="left")
            _bar(figure.colorbar(colours, ax=panel, shrink=0.85, extend=beyond), told)
    for panel in axes[1]:
        panel.set_xlabel(BEFORE)
    for panel in axes[:, 0]:
        panel.set_ylabel(BEHIND)
    figure.suptitle(MOVES, fontsize=11)
    figure.tight_layout()
    return figure


def narrow_maps(results: Results) -> Figure:
    """The same for narrow screens: both cases side by side, figures below one another."""
    figure, axes = plt.subplots(
        3, 2, figsize=(NARROW, 9.6), sharex=True, sharey=True, layout="constrained"
    )
    for row, (name, colours, title, told, beyond) in zip(axes, MAPS, strict=True):
        for panel, case in zip(row, CASES, strict=True):
            _map(panel, results, case, name, colours)
            panel.set_title(case, fontsize=10, loc="left")
            panel.tick_params(labelsize=9)
        bar = figure.colorbar(colours, ax=row, location="bottom", extend=beyond, aspect=40)
        _bar(bar, f"{title}: {told}")
    figure.supxlabel(BEFORE, fontsize=10)
    figure.supylabel(BEHIND, fontsize=10)
    figure.suptitle(MOVES.replace(": ", ":\n"), fontsize=10)
    return figure


def _bar(bar: Any, told: str) -> None:
    bar.set_label(told, fontsize=9)
    bar.ax.tick_params(labelsize=9)
    bar.outline.set_edgecolor(FAINT)


def _map(axes: Any, results: Results, case: str, name: str, colours: Any) -> None:
    cells = {
        (int(found[1]), int(found[2])): figures
        for (of, format), figures in results.items()
        if of == case and (found := re.fullmatch(r"q(\d+)\.(\d+)", format))
    }
    lattice = {bits for bits in cells if (bits[0] % 2, bits[1] % 2) == (0, 0)}
    wide = {bits for bits in lattice if (bits[0] % 4, bits[1] % 4) == (0, 0)}
    size = 4 if lattice == wide | {(16, 16)} else 2 if len(cells) <= len(lattice) + 1 else 1
    for (i, f), figures in cells.items():
        if size > 1 and (i, f) not in lattice:
            continue
        corner = i - size / 2, f - size / 2
        if "cannot be built" in figures:
            axes.add_patch(Rectangle(corner, size, size, fill=False, hatch="xx", ec=FAINT, lw=0))
            continue
        lost = not math.isfinite(figures["cost, median excess"])  # none, whatever the iterations
        value = math.inf if lost and name.startswith("iter") else figures[name]
        value = colours.norm.vmax if not math.isfinite(value) else max(value, 1e-12)
        axes.add_patch(Rectangle(corner, size, size, fc=colours.to_rgba(value), ec="none"))
    for i, f in ((16, 16), (12, 5)):
        axes.plot(i, f, "o", ms=5, mfc="none", mec="black")
        side, place = ("right", (-4, 3)) if i == 16 else ("left", (4, 3))  # on coloured cells
        told = {"textcoords": "offset points", "color": "black", "fontsize": 9, "ha": side}
        axes.annotate(f"{i}.{f}", (i, f), place, **told)
    axes.text(25.5, 20.4, "more than\n32 bits", fontsize=9, ha="right")
    axes.set_xlim(6, 26)
    axes.set_ylim(0, 26)
    axes.set_xticks(range(8, 25, 4))
    axes.set_yticks(range(4, 25, 4))
    _plain(axes)


# Errors against bits


def lines(results: Results, case: str, figure: str) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yields (kind of formats, bits of a signal, values)."""
    patterns = {"uniform": r"q12\.(\d+)", "fitted": r"fitted(\d+)", "proved": r"proved(\d+)"}
    for kind, pattern in patterns.items():
        points = []
        for (of, format), figures in results.items():
            found = re.fullmatch(pattern, format)
            if of == case and found and math.isfinite(figures.get(figure, math.nan)):
                bits = int(found[1]) + (12 if kind == "uniform" else 0)
                points.append((bits, figures[figure]))
        if points:
            yield kind, *(list(x) for x in zip(*sorted(points), strict=True))


PATH = "error over float64, rms, rad", "off float64's path, rad (rms)"
RIPPLE = "ripple, rms, N m", "torque ripple, N m (rms)"
PLACE = "position over float64, rms, m", "base off float64's path, m (rms)"
ROWS = {  # of columns of figures; the ripple of a trot is that of its steps
    "arm, computed torque": (PATH, RIPPLE),
    "quadruped, trotting": (PATH, PLACE),
}
OWN = {  # what float64 itself is off
    PATH[0]: ("error, rms, rad", "turn, rms, rad"),
    PLACE[0]: ("position, rms, m",),
    RIPPLE[0]: (RIPPLE[0],),
}


def control(results: Results) -> Figure:
    def draw(panel: Any, case: str, name: str) -> None:
        for kind, bits, values in lines(results, case, name):
            panel.plot(bits, values, "o-", color=COLOURS[kind], label=LEGENDS[kind], **LINE)
        float64 = results[case, "float64"]
        own = next(float64[x] for x in OWN[name] if x in float64)
        panel.axhline(own, color=INK, lw=1, ls="--", label="float64's own error, or ripple")

    shown = [case for case in ROWS if len(list(lines(results, case, PATH[0]))) > 1]
    return _columns(shown, draw, "bits of a signal", 2)


def kinds(results: Results) -> Figure:
    shown = [case for case in ROWS if any(case == of for of, *_ in _kinds(results))]
    every = sorted({kind for case, kind, _ in _kinds(results) if case in shown})
    hues = dict(zip(every, HUES, strict=True))

    def draw(panel: Any, case: str, name: str) -> None:
        for kind, points in sorted(_of_kinds(results, case, name).items()):
            x, y = zip(*sorted(points), strict=True)
            panel.plot(x, y, "o-", color=hues[kind], label=kind, **LINE)

    return _columns(shown, draw, "bits of this kind of signals, 32 of all others", 4)


LINE = {"ms": 3.5, "lw": 1.6}


def _columns(shown: list[str], draw: Any, below: str, legend: int) -> Figure:
    """A column for each case, with a legend of so many lines."""
    size = (4.6 * len(shown), 6.0 + 0.2 * legend)
    figure, axes = plt.subplots(
        2, len(shown), figsize=size, sharex=True, squeeze=False, layout="constrained"
    )
    for column, case in zip(axes.T, shown, strict=True):
        column[0].set_title(CONTROLLERS[case], fontsize=10)
        for panel, (name, told) in zip(column, ROWS[case], strict=True):
            draw(panel, case, name)
            panel.set_yscale("log")
            panel.yaxis.set_major_formatter(_power)
            panel.yaxis.set_minor_formatter(NullFormatter())
            panel.set_ylabel(told)
            panel.grid(True, color=FAINT, alpha=0.25, lw=0.8)
            _plain(panel)
        column[1].set_xlabel(below)
        column[1].xaxis.set_major_locator(MaxNLocator(integer=True))
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2)
    return figure


CONTROLLERS = {
    "arm, computed torque": "iiwa14, computed torque",
    "quadruped, trotting": "quadruped with an arm, trotting",
}


def _kinds(results: Results) -> Iterator[tuple[str, str, int]]:
    """Yields the case, the kind of signals, and its bits."""
    for case, format in results:
        kind, _, bits = format.partition(": ")
        if bits:
            yield case, kind, int(bits)


def _of_kinds(results: Results, case: str, name: str) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for of, kind, bits in _kinds(results):
        figures = results[of, f"{kind}: {bits}"]
        if of == case and name in figures:
            found.setdefault(kind, []).append((bits, figures[name]))
    return found


def _power(x: float, _: Any = None) -> str:
    """A tick without an exponent of small letters, as 1e-7."""
    return f"{x:g}".replace("e-0", "e-")


def _plain(axes: Any) -> None:
    axes.tick_params(which="both", length=0, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


FIGURES = {"map": (maps, narrow_maps), "control": (control, None), "kinds": (kinds, None)}
TITLES = {
    "map": "What trajectory optimisation reaches, by bits before and after the point",
    "control": "Errors of control tasks against the bits of fixed point",
    "kinds": "Errors of each task against the bits of fixed point, by kind of format",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("csv", type=Path)
    options.add_argument("folder", type=Path)
    options.add_argument("--png", type=Path, metavar="FOLDER", help="also write PNG files")
    args = options.parse_args()
    plt.rcParams.update(STYLE)
    results = read(args.csv)
    np.seterr(all="raise")
    for name, (draw, narrow) in FIGURES.items():
        file = args.folder / f"fixed_point_{name}.svg"
        if narrow is None:
            save(draw(results), file, TITLES[name], png=args.png, narrow=2.9)
        else:
            save(draw(results), file, TITLES[name], png=args.png)
            narrow_file = file.with_stem(f"{file.stem}_narrow")
            save(narrow(results), narrow_file, TITLES[name], png=args.png)


if __name__ == "__main__":
    main()
