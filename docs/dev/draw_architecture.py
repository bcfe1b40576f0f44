"""Draws docs/dev/architecture.svg: the folders of the package, and what each may import."""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import main

from featherlane.tools.figures import BLUE, FAINT, INK, ORANGE, PURPLE

ROBOT, COMPILER, JOIN, GROUND = BLUE, ORANGE, PURPLE, FAINT
# x, y, width, colour, name, what is in it
ROOMS = [
    (0.0, 5.0, 10.0, JOIN, "tools", "command line: info, check, bench, generate; peers"),
    (
        0.0,
        4.0,
        10.0,
        JOIN,
        "api",
        "Model with its methods, builder, card, compile, convert",
    ),
    (
        0.0,
        3.0,
        10.0,
        JOIN,
        "functions",
        "the halves meet: robot, algorithm → program → arrays",
    ),
    (0.0, 2.0, 4.8, ROBOT, "algorithms", "dynamics in the book's letters"),
    (0.0, 1.0, 4.8, ROBOT, "robot", "joints, model, tree, loaders"),
    (5.2, 2.0, 4.8, COMPILER, "backends", "cpu, llvm, c, reference, cache"),
    (5.2, 1.0, 4.8, COMPILER, "program", "graphs that call graphs; passes"),
    (
        0.0,
        0.0,
        10.0,
        GROUND,
        "scalar, errors",
        "sin, select, call, tags: what both halves know",
    ),
]
HEIGHT = 0.74


def draw() -> Figure:
    figure = Figure(figsize=(8.6, 4.9))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.2, 11.6)
    axes.set_ylim(-0.5, 6.3)
    for x, y, width, colour, name, words in ROOMS:
        box = FancyBboxPatch(
            (x, y),
            width,
            HEIGHT,
            boxstyle="round,pad=0.02,rounding_size=0.08",
            fc="none",
            ec=colour,
        )
        box.set_linewidth(1.6)
        axes.add_patch(box)
        axes.text(x + 0.15, y + 0.5, name, color=colour, weight="bold", size=11, va="center")
        axes.text(x + 0.15, y + 0.19, words, color=INK, size=9, va="center")
    axes.text(
        2.4, 5.97, "each folder imports only what lies below it", color=INK, size=9.5, ha="left"
    )
    down = FancyArrowPatch(
        (10.6, 5.6), (10.6, 0.15), arrowstyle="-|>", mutation_scale=16, color=INK
    )
    axes.add_patch(down)
    axes.text(10.85, 2.9, "may import", color=INK, size=9.5, rotation=90, va="center")
    axes.text(5.0, 2.37, "✕", color=INK, size=13, ha="center", va="center")
    axes.text(5.0, 1.37, "✕", color=INK, size=13, ha="center", va="center")
    note = "✕: the robot half knows no graph, the compiler half knows no robot"
    axes.text(0.0, -0.32, note, color=INK, size=9.5)
    return figure


if __name__ == "__main__":
    main(draw, __file__, __doc__)
