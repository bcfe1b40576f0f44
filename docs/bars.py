"""Bars of the numbers in a table of a page, for figures of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")
import matplotlib.pyplot as plt

from featherlane.tools.figures import HUES

NARROW, LETTERS = 4.6, 18  # in, the width of a narrow figure; letters in a line of its names


def table(page: str, head: str) -> list[list[str]]:
    """The cells of the table of a page of docs/ whose first line begins with head, row by row."""
    lines = (Path(__file__).parent / page).read_text(encoding="utf-8").splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith(head)) + 2
    last = next(k for k, line in enumerate(lines) if k >= first and not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:last]]


def number(cell: str) -> float:
    return float(cell.split()[0].replace(",", ""))


def short(value: float) -> str:
    """A number with three digits, or with those before its point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Bars(NamedTuple):
    """Horizontal bars: for each name one of each series, with its number; scale: of their axis."""

    names: Sequence[str]
    series: Mapping[str, Sequence[float]]
    unit: str
    scale: str = "linear"

    def wide(self) -> Figure:
        return _drawn(self, 7.2, self.names, len(self.series))

    def narrow(self) -> Figure:
        """The same for narrow screens: words of names and of the legend below one another."""
        return _drawn(self, NARROW, [*map(_broken, self.names)], 1)


def _broken(name: str) -> str:
    """A name in lines of few letters."""
    return "\n".join(line for part in name.split("\n") for line in wrap(part, LETTERS))


def _drawn(shown: Bars, width: float, names: Sequence[str], columns: int) -> Figure:
    series, count = shown.series, len(shown.series)
    lines = max(name.count("\n") + 1 for name in names)
    each = 0.2 * (max(count, lines) + 0.6)  # in, of a name
    legend = 0.2 * ceil(count / columns)
    figure, axes = plt.subplots(figsize=(width, 0.4 + legend + each * len(names)))
    for k, (label, values) in enumerate(series.items()):
        places = [i + (k - (count - 1) / 2) * 0.8 / count for i in range(len(names))]
        drawn = axes.barh(places, values, 0.72 / count, color=HUES[k], label=label)
        axes.bar_label(drawn, [*map(short, values)], padding=3, fontsize=9)
    axes.set(yticks=range(len(names)), yticklabels=names, xscale=shown.scale, xlabel=shown.unit)
    axes.invert_yaxis()
    axes.margins(x=0.12 if columns > 1 else 0.2, y=0.02)
    axes.tick_params(axis="y", length=0)
    if count > 1:
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=columns)
    figure.tight_layout()
    return figure
