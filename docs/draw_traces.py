"""A cost that is written with NumPy, over two joints of an arm, and its compiled gradient

Writes docs/traces.svg, and traces_narrow.svg for narrow screens: values and gradients of all points
are one call.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from drawing import main
from matplotlib.figure import Figure

mpl.use("Agg")
import matplotlib.pyplot as plt

import featherlane as fl
from featherlane.tools.figures import BLUE, FAINT, GREEN, ORANGE

JOINTS = (0, 3)  # of the iiwa14, across and up
LIMIT = 1.9  # rad, of both axes
POINTS, ARROWS = 81, 15  # along each axis
WALL = np.array([[0.45, -0.3, 0.6, 0.12]])  # m: x, y, z and radius of a ball
GOAL = np.array([0.45, 0.25, 0.6])  # m

arm = fl.load("iiwa14")


def cost(q: Any) -> Any:
    """The distance of the hand to a goal, with a penalty within 15 cm of a ball."""
    hand = arm.frame_placement(q, "iiwa_link_7")[:3, 3]
    ball = np.concatenate([hand, [0.08]])
    near = np.maximum(0.15 - fl.sphere_sphere_distance(ball, WALL), 0.0)
    return np.sqrt(np.sum((hand - GOAL) ** 2) + 1e-4) + 20 * np.sum(near**2)


def states(count: int) -> np.ndarray:
    """Configurations (count, count, 7) over the two joints; the others stand bent."""
    q = np.tile([0.0, 0.6, 0, -1.2, 0, 0.9, 0], (count, count, 1))
    axis = np.linspace(-LIMIT, LIMIT, count)
    q[..., JOINTS[0]], q[..., JOINTS[1]] = np.meshgrid(axis, axis)
    return q


def drawn(width: float) -> Figure:
    both = fl.compile(fl.gradient(cost, {"q": 7}, values=True))
    fine, coarse = states(POINTS), states(ARROWS + 2)[1:-1, 1:-1]
    value, down = both(fine).out, -both(coarse).dout_dq[..., JOINTS]
    figure, axes = plt.subplots(figsize=(width, 4.4))
    x, y = np.moveaxis(fine[..., JOINTS], -1, 0)
    levels = np.linspace(value.min(), np.quantile(value, 0.98), 14)
    axes.contourf(x, y, np.minimum(value, levels[-1]), levels, colors=shades(len(levels)))
    axes.contour(x, y, value, levels, colors=BLUE, linewidths=0.8)
    length = np.linalg.norm(down, axis=-1, keepdims=True)
    steps = down / np.maximum(length, 0.25)
    axes.quiver(*np.moveaxis(coarse[..., JOINTS], -1, 0), *np.moveaxis(steps, -1, 0),
                color=ORANGE, scale=24, width=0.004, pivot="mid")  # fmt: skip
    best = np.unravel_index(value.argmin(), value.shape)
    axes.plot(x[best], y[best], "o", ms=8, mfc="none", mec=GREEN, mew=2, label="least cost")
    axes.plot([], [], color=BLUE, lw=0.8, label="equal cost")
    axes.plot(
        [], [], color=ORANGE, marker=r"$\rightarrow$", ls="", ms=14, label="down the gradient"
    )
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, columnspacing=1)
    axes.set(xlabel=f"joint {JOINTS[0] + 1}, rad", ylabel=f"joint {JOINTS[1] + 1}, rad")
    axes.set_aspect("equal")
    axes.spines[:].set_color(FAINT)
    figure.tight_layout()
    return figure


def shades(count: int) -> list[tuple[float, float, float, float]]:
    """The colour of lines, the fainter the lower the cost: readable on white and on dark pages."""
    return [mpl.colors.to_rgba(BLUE, 0.45 * k / count) for k in range(count)]


if __name__ == "__main__":
    main(lambda: drawn(7.2), __file__, __doc__, lambda: drawn(4.6))
