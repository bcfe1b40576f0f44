"""A figure of closed loops, from their CSV: the height of the base, where the hand is and is to be.

`python figure.py loops.csv loops.svg` draws what `run.py --figure loops.svg` wrote beside it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from featherlane.tools.figures import BLUE, GREEN, INK, ORANGE, pyplot, save

if TYPE_CHECKING:
    from loop import Record

COLUMNS = ("time", "base z", "hand y", "hand z", "wanted y", "wanted z")  # s, m
Loops = Mapping[str, np.ndarray]  # (n, 6) by the controller and its rate


def first_seeds(records: Mapping[str, Record]) -> Loops:
    """The contents of the figure: the first seed of each controller."""
    return {
        f"{name[:-2]}, {r.rates.mean():.0f} Hz": np.column_stack(
            [r.time, r.base[:, 2], r.hand[:, 1:], r.hand_wanted[:, 1:]]
        )
        for name, r in records.items()
        if name.endswith(" 0")
    }


def write(file: Path, loops: Loops) -> None:
    """A row for each iteration, to tenths of a millisecond and of a millimetre."""
    with file.open("w", newline="") as opened:
        rows = csv.writer(opened, lineterminator="\n")
        rows.writerow(("controller", *COLUMNS))
        for name, loop in loops.items():
            rows.writerows((name, *(f"{x:.4f}" for x in row)) for row in loop)


def read(file: Path) -> Loops:
    loops: dict[str, list[list[float]]] = {}
    with file.open(newline="") as opened:
        for row in csv.DictReader(opened):
            loops.setdefault(row["controller"], []).append([float(row[x]) for x in COLUMNS])
    return {name: np.array(rows) for name, rows in loops.items()}


def draw(file: Path, loops: Loops, png: Path | None = None) -> None:
    """A column for each controller. png: a folder for pictures on a white and on a dark page."""
    figure, axes = pyplot().subplots(
        3,
        len(loops),
        figsize=(4.2 * len(loops), 6.0),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for column, (name, loop) in zip(axes.T, loops.items(), strict=True):
        time, height, y, z, wanted_y, wanted_z = loop.T
        column[0].set_title(name)
        column[0].plot(time, height, color=BLUE)
        hands = (y, wanted_y, ORANGE), (z, wanted_z, GREEN)
        for panel, (hand, wanted, hue) in zip(column[1:], hands, strict=True):
            panel.plot(time, wanted, "--", color=INK, lw=1, label="wanted")
            panel.plot(time, hand, color=hue, label="hand")
        column[2].set_xlabel("time, s")
    for panel, words in zip(
        axes[:, 0], ("height of the base, m", "hand y, m", "hand z, m"), strict=True
    ):
        panel.set_ylabel(words)
    axes[0, 0].set_ylim(0.3, 0.6)
    axes[1, 0].set_ylim(-0.17, 0.13)
    axes[1, 0].legend(loc="lower center", ncols=2, fontsize=8)
    title = "A quadruped trots: the height of its base, and its hand"
    save(figure, file, title, png=png, narrow=1.9)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("csv", type=Path)
    options.add_argument("svg", type=Path)
    options.add_argument("--png", type=Path, metavar="FOLDER", help="also on white and dark")
    args = options.parse_args()
    draw(args.svg, read(args.csv), args.png)


if __name__ == "__main__":
    main()
