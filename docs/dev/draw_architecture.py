"""The folders of the package on the floors of the import contract, and their imports, counted.

Draws docs/dev/architecture.svg and architecture_narrow.svg from the sources: files, lines and
arrows are counted, the floors are those of pyproject.toml.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import main
from import_graph import arrows, circles, floors, imports, sizes, upward

from featherlane.tools.figures import BLUE, FAINT, INK, NARROW, ORANGE, PURPLE

HALVES = {"algorithms": BLUE, "robot": BLUE, "backends": ORANGE, "program": ORANGE}
GROUND = ("scalar", "errors", "field_names", "version")  # files that every folder may import
WIDTH, HEIGHT, CELL = 7.2, 0.74, 0.57
MATRIX, NAMES = 9.6, 1.8  # where the matrix of imports begins; the room for names left of it


def levels() -> list[list[str]]:
    """The rooms of each floor, from top to bottom, without the start of the command line."""
    return [rooms for rooms in floors() if rooms != ["__main__"]]


def box(axes: Any, corner: tuple[float, float], width: float, room: str) -> None:
    files, lines = sizes()[room]
    colour = HALVES.get(room, FAINT if room in GROUND else PURPLE)
    style = "round,pad=0.02,rounding_size=0.08"
    patch = FancyBboxPatch(corner, width, HEIGHT, boxstyle=style, fc="none", ec=colour, lw=1.6)
    axes.add_patch(patch)
    x, y = corner[0] + 0.15, corner[1]
    axes.text(x, y + 0.5, room, color=colour, weight="bold", size=11, va="center")
    count = f"{lines:,} lines" + (f" in {files} files" if files > 1 else "")
    axes.text(x, y + 0.19, count, color=INK, size=9, va="center")


def draw_floors(axes: Any, rows: list[list[str]]) -> None:
    """A row of boxes for each floor; a floor imports only what lies below it."""
    for k, rooms in enumerate(reversed(rows)):
        width = (WIDTH - 0.3 * (len(rooms) - 1)) / len(rooms)
        for n, room in enumerate(rooms):
            box(axes, (n * (width + 0.3), float(k)), width, room)
    axes.text(0, len(rows) + 0.15, "each folder imports only lower floors", color=INK, size=9.5)


def draw_imports(axes: Any, rows: list[list[str]], left: float = MATRIX) -> None:
    """The matrix of imports: a number is of pairs of a file in the room of its row and a file in
    the room of its column which it imports. left: where its legend begins.
    """
    rooms, count = [room for floor in rows for room in floor], arrows()
    top, most = float(len(rows)) - 0.25, max(count.values())
    bottom = top - CELL * len(rooms) - 0.3
    legend = "pairs of files: the row's room imports the column's"
    axes.text(left, bottom, legend, color=INK, size=9.5)
    for k, room in enumerate(rooms):
        y, x = top - (k + 0.5) * CELL, MATRIX + (k + 0.5) * CELL
        axes.text(MATRIX - 0.12, y, room, color=INK, size=9, ha="right", va="center")
        axes.text(x, top + 0.1, room, color=INK, size=9, ha="center", va="bottom", rotation=90)
        for n, other in enumerate(rooms):
            corner = MATRIX + n * CELL, y - CELL / 2
            cell = Rectangle(corner, CELL, CELL, fc="none", ec=FAINT, lw=0.4)
            axes.add_patch(cell)
            if number := count[room, other]:
                shade = 0.08 + 0.5 * number / most
                fill = Rectangle(corner, CELL, CELL, fc=PURPLE, ec="none", alpha=shade)
                axes.add_patch(fill)
                middle = corner[0] + CELL / 2
                axes.text(middle, y, str(number), color=INK, size=9, ha="center", va="center")


def counted(line: str = " ") -> str:
    """The sizes of the whole in a line, or in lines with a break."""
    return line.join(
        (
            f"{sum(lines for _, lines in sizes().values()):,} lines in {len(imports())} files,",
            f"{sum(arrows().values()):,} imports between rooms, {len(upward())} of them upward;",
            f"circles between files: {len(circles(imports()))}",
        )
    )


def draw() -> Figure:
    rows = levels()
    figure = Figure(figsize=(12.4, 6.4))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.2, MATRIX + CELL * sum(map(len, rows)) + 0.2)
    axes.set_ylim(-0.7, len(rows) + 1.2)
    draw_floors(axes, rows)
    draw_imports(axes, rows)
    axes.text(0.0, -0.45, counted(), color=INK, size=9.5)
    return figure


def narrow() -> Figure:
    """The same for narrow screens: the matrix below the floors."""
    rows = levels()
    count, left = sum(map(len, rows)), MATRIX - NAMES
    heights = 0.56 * (len(rows) + 0.6), NARROW * (CELL * count + 2.3) / (CELL * count + NAMES)
    words = 0.7  # in, the height of the sizes
    whole = sum(heights) + words
    figure = Figure(figsize=(NARROW, whole))
    low = heights[1] + words
    floor, matrix = (
        figure.add_axes((0.01, y / whole, 0.98, height / whole))
        for y, height in zip((low, words), heights, strict=True)
    )
    for axes in (floor, matrix):
        axes.set_axis_off()
    floor.set_xlim(-0.05, WIDTH + 0.05)
    floor.set_ylim(-0.15, len(rows) + 0.45)
    draw_floors(floor, rows)
    top = len(rows) - 0.25
    matrix.set_xlim(left, MATRIX + CELL * count + 0.05)
    matrix.set_ylim(top - CELL * count - 0.5, top + 1.8)
    draw_imports(matrix, rows, left)
    figure.text(0.01, 0.1 / whole, counted("\n"), size=9.5, va="bottom")
    return figure


if __name__ == "__main__":
    main(draw, __file__, __doc__, narrow)
