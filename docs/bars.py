"""Bars of the numbers in a table of a page, for figures of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")
import matplotlib.pyplot as plt

from featherlane.tools.figures import HUES


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


def bars(
    names: Sequence[str], series: Mapping[str, Sequence[float]], unit: str, scale: str = "linear"
) -> Figure:
    """Horizontal bars: for each name one of each series, with its number; scale: of their axis."""
    count = len(series)
    figure, axes = plt.subplots(figsize=(7.2, 0.6 + 0.2 * len(names) * (count + 0.6)))
    for k, (label, values) in enumerate(series.items()):
        places = [i + (k - (count - 1) / 2) * 0.8 / count for i in range(len(names))]
        drawn = axes.barh(places, values, 0.72 / count, color=HUES[k], label=label)
        axes.bar_label(drawn, [*map(short, values)], padding=3, fontsize=9)
    axes.set(yticks=range(len(names)), yticklabels=names, xscale=scale, xlabel=unit)
    axes.invert_yaxis()
    axes.margins(x=0.12, y=0.02)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=count)
    figure.tight_layout()
    return figure
