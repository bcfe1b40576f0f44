"""The figure of docs/frames.md: one rotating link, and its frame's velocity in three references.

Writes docs/frames.svg, and frames_narrow.svg for narrow screens; --png FOLDER also writes
pictures on a white and on a dark background.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from draw_conventions import BODY, INK, SPEED, Drawing, page, turn
from drawing import main

UP = np.array([0.0, 0.0, 1.0])
HINGE = np.array([0.62, 0.74, 0.0])  # seen from the world's origin
REACH, HEIGHT, ANGLE = 1.3, 0.45, 0.42
TURN = turn(UP, ANGLE)
TOOL = HINGE + TURN @ [REACH, 0, 0] + HEIGHT * UP
AXES_OF_TOOL = TURN @ turn(UP, -0.9) @ turn([0, 1, 0], 0.3) @ turn([1, 0, 0], 0.35)
SPEED_OF_TURN = 0.7  # the length of an arrow, over its distance from the axis
PANEL = 3.95  # distance between panels on the page
WORDS = {
    "body": "the frame's axes,\nat the frame's origin",
    "world": "the world's axes,\nat the frame's origin",
    "spatial": "the world's axes,\nat the world's origin",
}
PINOCCHIO = {"body": "LOCAL", "world": "LOCAL_WORLD_ALIGNED", "spatial": "WORLD"}


def beside(panel: int) -> np.ndarray:
    """The shift in space to another panel, which lies straight to the right on the page."""
    x = panel * PANEL / 0.80
    return np.array([x, 0.0, 0.42 * x])


def shift(x: float, y: float) -> np.ndarray:
    return np.array([x, y])


def velocity(p: np.ndarray) -> np.ndarray:
    """The velocity of the point of the link's body that is at p."""
    return SPEED_OF_TURN * np.cross(UP, p - HINGE)


def faint_frame(d: Drawing, p: Any, R: np.ndarray, length: float) -> None:
    for k in range(3):
        d.arrow(p, p + length * R[:, k], INK, 1.0, alpha=0.45, mutation_scale=8)


def circle(d: Drawing, o: np.ndarray, through: np.ndarray) -> None:
    """Draws the path of a point of the rotating body around the start of its velocity arrow."""
    arm = through - HINGE
    t = np.linspace(-0.3, 0.72, 60)
    flat = np.outer(np.cos(t), arm * [1, 1, 0]) + np.outer(np.sin(t), np.cross(UP, arm))
    d.axes.plot(*page(o + HINGE + flat + arm[2] * UP).T, color=INK, lw=0.9, ls=(0, (1.5, 2.5)))


def link(d: Drawing, o: np.ndarray) -> None:
    d.box(o + HINGE + HEIGHT / 2 * UP, np.eye(3), [0.16, 0.16, HEIGHT])
    middle = o + HINGE + TURN @ [REACH / 2 - 0.02, 0, 0] + HEIGHT * UP
    d.box(middle, TURN, [REACH + 0.22, 0.24, 0.16])
    axis = np.array([o + HINGE + HEIGHT * UP, o + HINGE + (HEIGHT + 0.62) * UP])
    d.axes.plot(*page(axis).T, color=INK, lw=1, ls=(0, (6, 2, 1, 2)))
    d.arc(o + HINGE + (HEIGHT + 0.42) * UP, np.eye(3), 0.2, -2.9, 2.0, SPEED)
    d.text(page(o + HINGE + (HEIGHT + 0.42) * UP) + shift(0.28, 0.0), "angular", SPEED, ha="left")


def panel(d: Drawing, n: int, reference: str) -> None:
    o = beside(n)
    link(d, o)
    at = np.zeros(3) if reference == "spatial" else TOOL
    axes = AXES_OF_TOOL if reference == "body" else np.eye(3)
    if reference != "body":
        faint_frame(d, o + TOOL, AXES_OF_TOOL, 0.5)
    if reference != "spatial":
        faint_frame(d, o, np.eye(3), 0.5)
    if reference == "spatial":
        reach = np.array([o + HINGE, o])
        d.axes.plot(*page(reach).T, color=BODY, lw=7, alpha=0.25, solid_capstyle="round")
    circle(d, o, at)
    d.arrow(o + at, o + at + velocity(at), SPEED, 2.4)
    d.frame(o + at, axes, 0.72)
    tip, below = page(o + at + velocity(at)), reference == "spatial"
    d.text(tip + shift(-0.1 if below else 0.08, 0.02), "linear", SPEED, ha=("left", "right")[below])
    d.text(page(o) + shift(-0.12, 0.0), "world", ha="right", va="center", weight="bold")
    d.text(page(o + TOOL) + shift(-0.38, -0.42), "frame", ha="center", weight="bold")
    middle = page(o)[0] + 1.3
    d.text((middle, -1.12), f'"{reference}"', ha="center", weight="bold", size=13)
    d.text((middle, -1.64), WORDS[reference], ha="center")
    d.text((middle, -1.93), f"Pinocchio: {PINOCCHIO[reference]}", ha="center", size=9)


def draw() -> Any:
    d = Drawing()
    for n, reference in enumerate(WORDS):
        panel(d, n, reference)
    d.axes.set_xlim(-0.8, 2 * PANEL + 3.15)
    d.axes.set_ylim(-2.05, 1.55)
    d.figure.set_size_inches(10, 3.1)
    return d.figure


def draw_narrow() -> Any:
    d = Drawing((4.2, 8.4), rows=len(WORDS))
    for axes, reference in zip(d.rows, WORDS, strict=True):
        d.axes = axes
        panel(d, 0, reference)
        d.axes.set_xlim(-1.3, 3.6)
        d.axes.set_ylim(-2.05, 1.55)
    return d.figure


if __name__ == "__main__":
    main(draw, __file__, __doc__, draw_narrow)
