"""The figure of docs/conventions.md: the frames of a robot with a free root and one revolute joint.

Writes docs/conventions.svg, and conventions_narrow.svg for narrow screens; --png FOLDER also writes
pictures on a white and on a dark background.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from drawing import main

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, Polygon

from featherlane.tools.figures import BLUE, FAINT, INK, ORANGE, PURPLE

BODY = FAINT
AXES = ("#d1495b", "#3a9a5c", BLUE)  # x, y, z
FORCE, SPEED = ORANGE, PURPLE
# An axonometric view: where the world's x, y and z point on the page
VIEW = np.array([[0.80, -0.42], [0.72, 0.38], [0.0, 1.0]])


def page(x: Any) -> np.ndarray:
    return np.asarray(x, float) @ VIEW


def turn(axis: Any, angle: float) -> np.ndarray:
    x, y, z = np.asarray(axis, float) / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


class Drawing:
    """Axes of a figure with rows of them, in which things in space are drawn."""

    def __init__(self, size: tuple[float, float] = (10, 4.1), rows: int = 1) -> None:
        plt.rcParams["font.size"] = 10.5
        self.figure, grid = plt.subplots(rows, figsize=size, squeeze=False)
        self.rows = list(grid[:, 0])
        for axes in self.rows:
            axes.set_aspect("equal")
            axes.axis("off")
        self.axes = self.rows[0]
        self.figure.subplots_adjust(0.005, 0.005, 0.995, 0.995, hspace=0.02)

    def arrow(self, start: Any, end: Any, colour: str, width: float = 1.8, **style: Any) -> None:
        options = {"arrowstyle": "-|>", "mutation_scale": 11, "shrinkA": 0, "shrinkB": 0} | style
        a, b = tuple(page(start)), tuple(page(end))
        arrow = FancyArrowPatch(a, b, color=colour, linewidth=width, zorder=4, **options)
        self.axes.add_patch(arrow)

    def text(self, at: Any, text: str, colour: str = INK, **style: Any) -> None:
        x, y = page(at) if len(at) == 3 else at
        self.axes.text(x, y, text, color=colour, zorder=6, linespacing=1.45, **style)

    def frame(self, p: Any, R: np.ndarray, length: float, names: str = "xyz") -> None:
        for k, colour in enumerate(AXES):
            tip = p + length * R[:, k]
            self.arrow(p, tip, colour)
            if names:
                self.text(p + 1.17 * length * R[:, k], names[k], colour, ha="center", va="center")
        self.axes.plot(*page(p), "o", color=INK, markersize=4, zorder=5)

    def box(self, centre: Any, R: np.ndarray, size: Any) -> None:
        """Draws the three visible faces of a block, faintly."""
        half = np.asarray(size) / 2
        corner = lambda *s: page(centre + R @ (half * s))
        toward = np.array([0.72, -0.80, 0.61])  # the viewer's side
        for k in range(3):
            side = 1 if R[:, k] @ toward > 0 else -1
            a, b = [j for j in range(3) if j != k]
            points = []
            for sa, sb in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                s = [0, 0, 0]
                s[k], s[a], s[b] = side, sa, sb
                points.append(corner(*s))
            shade = (0.10, 0.17, 0.24)[k]
            self.axes.add_patch(Polygon(points, facecolor=BODY, alpha=shade, edgecolor="none"))
            self.axes.add_patch(
                Polygon(points, fill=False, edgecolor=BODY, linewidth=0.9, alpha=0.8)
            )

    def arc(
        self, p: Any, R: np.ndarray, radius: float, first: float, last: float, colour: str
    ) -> None:
        """Draws an arc with an arrow tip about the third axis of R."""
        t = np.linspace(first, last, 40)
        ring = p + radius * (np.outer(np.cos(t), R[:, 0]) + np.outer(np.sin(t), R[:, 1]))
        self.axes.plot(*page(ring[:-2]).T, color=colour, linewidth=1.8, zorder=4)
        self.arrow(ring[-4], ring[-1], colour)


def draw() -> Any:
    d = Drawing()
    scene(d)
    d.axes.set_xlim(-1.4, 7.1)
    d.axes.set_ylim(-1.05, 2.45)
    return d.figure


PARTS = ((-1.7, 4.3), (2.3, 8.3))  # of the page, one above the other on narrow screens
CUT = 3.4  # words left of it belong to the first part


def draw_narrow() -> Any:
    d = Drawing((4.7, 6.2), rows=2)
    for axes, (left, right) in zip(d.rows, PARTS, strict=True):
        d.axes = axes
        scene(d)
        for words in axes.texts:
            words.set_visible((words.get_position()[0] < CUT) == (axes is d.rows[0]))
        axes.set_xlim(left, right)
        axes.set_ylim(-1.05, 2.45)
    return d.figure


def scene(d: Drawing) -> None:
    world = np.zeros(3)
    d.frame(world, np.eye(3), 0.9)
    d.text(page(world) + np.array([-0.06, -0.30]), "world", ha="right", weight="bold")
    g = np.array([-0.55, 0.1, 0.95])
    d.arrow(g, g - np.array([0, 0, 0.75]), INK, 1.4)
    d.text(page(g) + np.array([-0.1, -0.42]), "gravity\n(0, 0, -9.81)", ha="right", va="center")

    R0 = turn([0, 0, 1], 0.32) @ turn([0, 1, 0], -0.12)
    body = np.array([2.2, 1.25, 0.8])
    d.box(body, R0, [1.9, 1.0, 0.5])
    d.frame(body, R0, 0.85)
    d.arrow(world, body, INK, 1.2, linestyle=(0, (4, 3)), mutation_scale=9)
    d.text(page(0.30 * body) + np.array([0.0, -0.2]), "q[0:3]  position", ha="left", va="top")
    d.text(
        page(body) + np.array([-0.10, 1.27]),
        "body 0, on a free root\nq[3:7]  orientation, (x, y, z, w)",
        ha="center",
        va="bottom",
    )
    push = R0 @ np.array([-0.55, 0.75, 0.15])
    d.arrow(body, body - 1.25 * push, SPEED, 2.2)
    d.text(
        page(body - 1.3 * push) + np.array([0.10, -0.04]),
        "v[0:3]  linear,",
        SPEED,
        va="top",
        ha="left",
    )
    d.text(
        page(body - 1.3 * push) + np.array([0.10, -0.27]),
        "in body axes",
        SPEED,
        va="top",
        ha="left",
    )
    d.arc(body + 0.55 * R0[:, 2], R0, 0.26, -2.6, 2.2, SPEED)
    d.text(
        page(body + 0.55 * R0[:, 2]) + np.array([-0.36, 0.13]), "v[3:6]  angular", SPEED, ha="right"
    )

    hinge = body + R0 @ np.array([1.55, 0.35, 0.1])
    R1 = R0 @ turn([0, 1, 0], 0.1) @ turn([1, 0, 0], 0.8)
    d.axes.plot(
        *page(np.array([body + R0 @ [0.95, 0.2, 0.05], hinge])).T,
        color=BODY,
        linewidth=5,
        alpha=0.45,
        solid_capstyle="round",
    )
    axis = np.array([hinge - 0.7 * R1[:, 2], hinge + 1.2 * R1[:, 2]])
    d.axes.plot(*page(axis).T, color=INK, linewidth=1, linestyle=(0, (6, 2, 1, 2)))
    angle = 0.7
    Rq = R1 @ turn([0, 0, 1], angle)
    d.box(hinge + Rq @ [1.05, 0, 0], Rq, [2.1, 0.34, 0.3])
    d.frame(hinge, Rq, 0.7)
    d.arrow(hinge, hinge + 1.75 * R1[:, 0], INK, 1, linestyle=(0, (2, 2)), arrowstyle="-")
    d.arc(hinge, R1, 1.35, 0.04, angle - 0.03, INK)
    middle = hinge + 1.5 * (np.cos(angle / 2) * R1[:, 0] + np.sin(angle / 2) * R1[:, 1])
    d.text(page(middle) + np.array([0.04, 0.0]), "q[7], v[6]", ha="left", va="center")
    tip = page(hinge + Rq @ [2.1, 0, 0])
    d.text(
        tip + np.array([-0.45, 0.1]),
        "body 1: its frame is the frame\nof the link that joint 1 moves",
        ha="right",
        va="bottom",
    )
    pull = hinge + np.array([0.6, 0.05, -0.75])
    d.arrow(hinge, pull, FORCE, 2.2)
    d.text(
        page(pull) + np.array([0.10, -0.02]),
        "f_ext[1]  [force; moment] at the\norigin of body 1, in its axes",
        FORCE,
        va="top",
        ha="left",
    )


if __name__ == "__main__":
    main(draw, __file__, __doc__, draw_narrow)
