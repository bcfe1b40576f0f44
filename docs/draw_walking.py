"""Five Go2 walk by one learned policy, at different commands

Writes docs/walking.svg and docs/walking_narrow.svg, for narrow screens: moving pictures, from
examples/walk_go2.npz.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from featherlane.tools.figures import FAINT, HUES, INK

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "examples"))
walk_policy, walking = map(import_module, ("walk_policy", "walking"))

COMMANDS = (0.4, 0.55, 0.7, 0.85, 1.0)  # m/s
STEPS, EVERY = 250, 2  # of the task; steps from picture to picture
LANE = 0.85  # m, between robots
LEGS = ("RL", "FL", "RR", "FR")  # the far ones first
TRUNK = np.array([0.19, 0.06, 0.057])  # m, half of its sides


class View(NamedTuple):
    """A picture of the walk, from the right and from above; in pixels, but for told."""

    width: float
    height: float
    scale: float  # of a metre
    left: float  # where the walk begins
    below: float  # under the ground
    line: float  # the width of a leg
    letters: float
    told: float  # m, where the speed of a robot is written

    def page(self, points: np.ndarray) -> np.ndarray:
        """Pixels (..., 2) of points (..., 3), m."""
        x, y, z = np.moveaxis(points, -1, 0)
        across = self.left + self.scale * (x + 0.35 * y)
        return np.stack([across, self.height - self.below - self.scale * (z + 0.32 * y)], -1)

    def moving(self, tag: str, points: np.ndarray, style: str) -> str:
        """An element whose points (pictures, n, 2) move."""
        texts = [" ".join(f"{x:.1f},{y:.1f}" for x, y in row) for row in self.page(points)]
        seconds = STEPS * walking.DT * walking.SUBSTEPS
        return (
            f'<{tag} points="{texts[len(texts) // 2]}" {style}><animate attributeName="points" '
            f'dur="{seconds:g}s" repeatCount="indefinite" values="{";".join(texts)}"/></{tag}>'
        )


WIDE = View(720, 240, 100, 90, 40, 4.5, 12, -0.85)
NARROW = View(356, 150, 43, 70, 28, 2.4, 11, -1.45)


def motions() -> np.ndarray:
    """Configurations (pictures, robots, nq)."""
    act = walk_policy.network_of(dict(np.load(walk_policy.LEARNED)))
    commands = np.array([[speed, 0, 0] for speed in COMMANDS])
    states = walk_policy.walk(walking.go2(), act, commands, STEPS)
    q = np.stack([state.q for state, _ in states])[::EVERY]
    q[..., 1] += LANE * np.arange(len(COMMANDS))
    return q


def robot(view: View, q: np.ndarray, hue: str) -> list[str]:
    """The elements of a robot with configurations (pictures, nq): far legs, trunk, near legs."""
    model, drawn = walking.go2().robot, []
    for leg in LEGS:
        frames = [f"{leg}_{part}" for part in ("hip", "thigh", "calf", "foot")]
        points = np.stack([model.frame_placement(q, f)[:, :3, 3] for f in frames], axis=1)
        faint = "" if leg[1] == "R" else ' opacity="0.55"'
        style = f'fill="none" stroke="{hue}" stroke-width="{view.line:g}"{faint}'
        style += ' stroke-linecap="round" stroke-linejoin="round"'
        drawn.append(view.moving("polyline", points, style))
    X = model.frame_placement(q, "base")
    side = np.array([[1, -1, -1], [1, -1, 1], [-1, -1, 1], [-1, -1, -1]])
    top = np.array([[1, -1, 1], [1, 1, 1], [-1, 1, 1], [-1, -1, 1]])
    faces = [
        view.moving(
            "polygon",
            (X[:, None, :3, :3] @ (TRUNK * corners)[..., None])[..., 0] + X[:, None, :3, 3],
            f'fill="{hue}" stroke="{hue}" stroke-linejoin="round" fill-opacity="{solid}"',
        )
        for corners, solid in ((side, 0.9), (top, 0.6))
    ]
    return [*drawn[:2], *faces, *drawn[2:]]


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{words}</text>'


def floor(view: View) -> list[str]:
    """Lines across the lanes at each metre, with their distances."""
    drawn, far = [], LANE * (len(COMMANDS) - 0.5)
    for x in range(7):
        (a, b), (c, d) = view.page(np.array([[x, -0.4, 0], [x, far, 0]], float))
        drawn.append(f'<path d="M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}" stroke="{FAINT}" opacity="0.5"/>')
        drawn.append(text(a, b + view.letters + 3, f"{x} m", "middle"))
    return drawn


def picture(view: View, q: np.ndarray) -> str:
    drawn = floor(view)
    for i in reversed(range(len(COMMANDS))):  # the far ones first
        drawn += robot(view, q[:, i], HUES[i])
        x, y = view.page(np.array([view.told, LANE * i, 0.28]))
        drawn.append(text(x, y, f"{COMMANDS[i]:g} m/s"))
    title = (__doc__ or "").partition("\n")[0]
    size = f'viewBox="0 0 {view.width:g} {view.height:g}" width="{view.width:g}"'
    style = f'font-family="sans-serif" font-size="{view.letters:g}" fill="{INK}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>'
    return "\n".join([head, f"<title>{title}</title>", *drawn, "</svg>", ""])


def main() -> None:
    q = motions()
    for name, view in {"walking": WIDE, "walking_narrow": NARROW}.items():
        (DOCS / f"{name}.svg").write_text(picture(view, q), encoding="utf-8")


if __name__ == "__main__":
    main()
