"""Five Go2 walk by one learned policy, at different commands

Writes docs/walking.svg, a moving picture, from examples/walk_go2.npz.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from featherlane.tools.figures import FAINT, HUES, INK

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "examples"))
walk_policy, walking = map(import_module, ("walk_policy", "walking"))

COMMANDS = (0.4, 0.55, 0.7, 0.85, 1.0)  # m/s
STEPS, EVERY = 250, 2  # of the task; steps from picture to picture
SCALE, WIDTH, HEIGHT = 100.0, 720, 240  # pixels a metre; pixels
LANE = 0.85  # m, between robots
LEGS = ("RL", "FL", "RR", "FR")  # the far ones first
TRUNK = np.array([0.19, 0.06, 0.057])  # m, half of its sides


def page(points: np.ndarray) -> np.ndarray:
    """Pixels (..., 2) of points (..., 3), m: seen from the right and from above."""
    x, y, z = np.moveaxis(points, -1, 0)
    return np.stack([90 + SCALE * (x + 0.35 * y), HEIGHT - 40 - SCALE * (z + 0.32 * y)], -1)


def motions() -> np.ndarray:
    """Configurations (pictures, robots, nq)."""
    act = walk_policy.network_of(dict(np.load(walk_policy.LEARNED)))
    commands = np.array([[speed, 0, 0] for speed in COMMANDS])
    states = walk_policy.walk(walking.go2(), act, commands, STEPS)
    q = np.stack([state.q for state, _ in states])[::EVERY]
    q[..., 1] += LANE * np.arange(len(COMMANDS))
    return q


def moving(tag: str, points: np.ndarray, style: str) -> str:
    """An element whose points (pictures, n, 2) move."""
    texts = [" ".join(f"{x:.1f},{y:.1f}" for x, y in row) for row in page(points)]
    seconds = STEPS * walking.DT * walking.SUBSTEPS
    return (
        f'<{tag} points="{texts[len(texts) // 2]}" {style}><animate attributeName="points" '
        f'dur="{seconds:g}s" repeatCount="indefinite" values="{";".join(texts)}"/></{tag}>'
    )


def robot(q: np.ndarray, hue: str) -> list[str]:
    """The elements of a robot with configurations (pictures, nq): far legs, trunk, near legs."""
    model, drawn = walking.go2().robot, []
    for leg in LEGS:
        frames = [f"{leg}_{part}" for part in ("hip", "thigh", "calf", "foot")]
        points = np.stack([model.frame_placement(q, f)[:, :3, 3] for f in frames], axis=1)
        faint = "" if leg[1] == "R" else ' opacity="0.55"'
        line = f'fill="none" stroke="{hue}" stroke-width="4.5"{faint}'
        drawn.append(
            moving("polyline", points, f'{line} stroke-linecap="round" stroke-linejoin="round"')
        )
    X = model.frame_placement(q, "base")
    side = np.array([[1, -1, -1], [1, -1, 1], [-1, -1, 1], [-1, -1, -1]])
    top = np.array([[1, -1, 1], [1, 1, 1], [-1, 1, 1], [-1, -1, 1]])
    faces = [
        moving(
            "polygon",
            (X[:, None, :3, :3] @ (TRUNK * corners)[..., None])[..., 0] + X[:, None, :3, 3],
            f'fill="{hue}" stroke="{hue}" stroke-linejoin="round" fill-opacity="{solid}"',
        )
        for corners, solid in ((side, 0.9), (top, 0.6))
    ]
    return [*drawn[:2], *faces, *drawn[2:]]


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{words}</text>'


def floor() -> list[str]:
    """Lines across the lanes at each metre, with their distances."""
    drawn, far = [], LANE * (len(COMMANDS) - 0.5)
    for x in range(7):
        (a, b), (c, d) = page(np.array([[x, -0.4, 0], [x, far, 0]], float))
        drawn.append(f'<path d="M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}" stroke="{FAINT}" opacity="0.5"/>')
        drawn.append(text(a, b + 15, f"{x} m", "middle"))
    return drawn


def main() -> None:
    q = motions()
    drawn = floor()
    for i in reversed(range(len(COMMANDS))):  # the far ones first
        drawn += robot(q[:, i], HUES[i])
        x, y = page(np.array([-0.85, LANE * i, 0.28]))
        drawn.append(text(x, y, f"{COMMANDS[i]:g} m/s"))
    title = (__doc__ or "").partition("\n")[0]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
    style = f'font-family="sans-serif" font-size="12" fill="{INK}"'
    body = "\n".join([f"<title>{title}</title>", *drawn])
    (DOCS / "walking.svg").write_text(f"{head} {style}>\n{body}\n</svg>\n", encoding="utf-8")


if __name__ == "__main__":
    main()
