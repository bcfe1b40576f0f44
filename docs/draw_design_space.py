"""The figure of docs/accelerators.md: designs of the derivatives of FD from M^-1 of the iiwa14.

Writes docs/design_space.svg from docs/design_space.csv, a row for each of 48 designs. Without that
file it looks at the designs first and writes it, which takes ten minutes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from drawing import main

mpl.use("Agg")
import matplotlib.pyplot as plt

import featherlane as fl
from featherlane.accelerators.front import Front, Point
from featherlane.tools.figures import BLUE, FAINT, GREEN, INK, ORANGE

COLOURS = {"q16.16": ORANGE, "fitted": BLUE, "proved": GREEN}
MARKS = {"common": "o", "body": "s"}
WORDS = {
    "q16.16": "Q16.16",
    "fitted": "fitted, 27 and 18 bits",
    "proved": "proved, 32 bits",
    "common": "common frame",
    "body": "body frames",
}
ROBOT, FUNCTION = "iiwa14", "forward_dynamics_derivatives_from"
KEPT = Path(__file__).with_name("design_space.csv")
WORDED = ("format", "algorithm", "arrays")  # columns that are no numbers; empty is None


def designs() -> Front:
    """Those that were kept, else all that are looked at now, which are kept then."""
    if not KEPT.exists():
        found = fl.accelerator.front(fl.load(ROBOT), FUNCTION).points
        with KEPT.open("w", newline="") as opened:
            csv.writer(opened, lineterminator="\n").writerows([Point._fields, *found])
    with KEPT.open(newline="") as opened:
        rows: list[dict[str, Any]] = list(csv.DictReader(opened))
    points = (
        Point(**{k: (x or None) if k in WORDED else float(x) for k, x in row.items()})
        for row in rows
    )
    return Front(ROBOT, FUNCTION, "xcvu9p", 8.0, tuple(points), {})


def panel(axes: Any, front: Front, across: Callable[[Point], float], words: str) -> None:
    """The designs: filled what is on the front, a line through those of a format and algorithm."""
    best = {*front.best}
    for form, colour in COLOURS.items():
        for algorithm, mark in MARKS.items():
            own = [p for p in front.points if (p.format, p.algorithm) == (form, algorithm)]
            own = sorted((p for p in own if p.fits), key=lambda p: p.interval)
            x, y = [across(p) for p in own], [p.dsp for p in own]
            style = {"color": colour, "lw": 0.8, "alpha": 0.5}
            axes.plot(x, y, **style)
            for p in own:
                face = colour if p in best else "none"
                axes.plot(across(p), p.dsp, mark, mec=colour, mfc=face, ms=5.5, mew=1.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(words, color=INK)
    axes.grid(color=FAINT, alpha=0.18, lw=0.6)
    axes.tick_params(colors=INK, which="both", labelsize=9)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    axes.set_yticks([5, 10, 20, 50, 100])
    for spine in axes.spines.values():
        spine.set_color(FAINT)
        spine.set_linewidth(0.6)


def draw() -> Any:
    front = designs()
    with plt.rc_context({"font.size": 9.5}):
        figure, (left, middle, right) = plt.subplots(
            1, 3, figsize=(9.6, 3.7), sharey=True, layout="constrained"
        )
        panel(left, front, lambda p: p.interval, "interval, cycles")
        panel(middle, front, lambda p: p.error, "largest error, of the largest result")
        panel(right, front, lambda p: p.latency, "latency, cycles")
        left.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
        left.xaxis.set_minor_formatter(lambda value, _: "")
        right.set_xticks([50, 60, 70, 80, 90, 100], ["50", "60", "70", "80", "90", "100"])
        right.xaxis.set_minor_formatter(lambda value, _: "")
        left.set_ylabel("DSPs of an XCVU9P", color=INK)
        for axes in (left, middle, right):
            axes.patch.set_alpha(0)
        handles = [
            plt.Line2D([], [], color=colour, marker="o", ls="", ms=5.5, label=WORDS[form])
            for form, colour in COLOURS.items()
        ]
        handles += [
            plt.Line2D([], [], color=INK, marker=mark, ls="", mfc="none", label=WORDS[name])
            for name, mark in MARKS.items()
        ]
        handles.append(plt.Line2D([], [], color=INK, marker="o", ls="", label="on the front"))
        legend = figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
        for words in legend.get_texts():
            words.set_color(INK)
    return figure


if __name__ == "__main__":
    main(draw, __file__, __doc__, 2.8)
