"""Crowds of robots in the pictures of docs/: where they stand, and the limbs of a quadruped."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
from scene import Limbs, Scene

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
walking = import_module("walking")

LEGS = ("FL", "FR", "RL", "RR")
NEAREST, GROWTH = 4.35, 1.33  # m, of the first row from the eye; from row to row
SHADED = 3  # rows that have lights


def spots(scene: Scene, rows: Sequence[int], column: int, columns: int) -> np.ndarray:
    """Points (robots, 3) of the floor, m, in a column of the picture: so many in each row."""
    across = np.concatenate([(np.arange(n) + 0.5) / n - 0.5 for n in rows])
    distance = NEAREST * GROWTH ** np.repeat(np.arange(len(rows)), rows)
    width = distance * scene.width / scene.focus / columns
    x = (column - (columns - 1) / 2 + 0.86 * across) * width
    return np.stack([x, scene.eye[1] + distance, 0 * x], -1)


def rows_of_floor(scene: Scene, rows: int) -> np.ndarray:
    """Distances along the view, m, of lines across the floor: one before the first row."""
    return scene.eye[1] + NEAREST * GROWTH ** np.arange(-1.0, rows)


def quadruped(q: np.ndarray) -> list[Limbs]:
    """Limbs of a Go2 with configurations (pictures, 19): two legs, the trunk, two legs."""
    model, legs = walking.go2().robot, []
    for leg in LEGS:
        frames = [f"{leg}_{part}" for part in ("hip", "thigh", "calf", "foot")]
        legs.append(np.stack([model.frame_placement(q, f)[:, :3, 3] for f in frames], 1))
    X = model.frame_placement(q, "base")
    spine = np.array([[-0.2, 0, 0], [0.2, 0, 0], [0.28, 0, 0.03]])  # m
    trunk = spine @ np.swapaxes(X[:, :3, :3], -1, -2) + X[:, None, :3, 3]
    far, near = np.stack(legs[1::2], 1), np.stack(legs[::2], 1)
    return [Limbs(far, 0.045), Limbs(trunk[:, None], 0.125), Limbs(near, 0.045)]


def crowd(scene: Scene, rows: Sequence[int], robots: list[list[Limbs]], name: str, hue: str) -> str:
    """Elements of a crowd, the far ones first and fainter."""
    parts = [
        scene.robot(robots[i], f"{name}{i}_", row < SHADED, 1 - 0.1 * row)
        for i, row in reversed([*enumerate(np.repeat(np.arange(len(rows)), rows))])
    ]
    return f'<g stroke="{hue}">' + "\n".join(parts) + "</g>"
