"""Marks beside robots: frames, targets, forces and trajectories.

Each mark is a function of the placements of all robots' bodies and of the row of the rollout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from featherlane.interop.shapes import trimesh
from featherlane.interop.view_arguments import finite
from featherlane.interop.view_robots import frame_poses, wxyz
from featherlane.robot.parts import Frame

Mark = Callable[[np.ndarray, int], None]  # (robots, nbodies, 4, 4) and a row

RED, GREEN, PURPLE = (205, 20, 20), (40, 150, 90), (130, 80, 190)
NEAR = 1e-9  # N: shorter forces are not drawn
ORTHONORMAL = 1e-6
POINTS = 500  # of a line: more are not seen


def frame_axes(
    scene: Any, frame: Frame, places: np.ndarray, size: float
) -> tuple[Mark, tuple[Any, Any]]:
    """Axes of a frame at all robots, and its name at the first."""
    upright = np.tile([1.0, 0, 0, 0], (len(places), 1))
    axes = scene.add_batched_axes(
        f"/frames/{frame.name}", upright, places, axes_length=size, axes_radius=size / 25
    )
    label = scene.add_label(f"/frames/{frame.name}/name", frame.name, font_screen_scale=0.8)

    def move(placements: np.ndarray, _: int) -> None:
        T = frame_poses(frame, placements, places)
        axes.batched_positions, axes.batched_wxyzs = T[:, :3, 3], wxyz(T)
        label.position = T[0, :3, 3]

    return move, (axes, label)


def targets(scene: Any, poses: Any, size: float, name: str) -> Any:
    """Adds balls at points, or axes at poses, as one node."""
    wanted = "points (..., 3), or poses (..., 4, 4)"
    array = finite("poses", poses, wanted)
    if array.ndim and array.size and array.shape[-1] == 3:
        points = array.reshape(-1, 3)
        ball = trimesh.creation.icosphere(subdivisions=2, radius=size / 4)
        upright = np.tile([1.0, 0, 0, 0], (len(points), 1))
        return scene.add_batched_meshes_simple(
            name, ball.vertices, ball.faces, upright, points, batched_colors=PURPLE, lod="off"
        )
    if array.shape[-2:] != (4, 4) or not array.size:
        raise ValueError(f"poses has shape {array.shape}, wanted {wanted}")
    T = array.reshape(-1, 4, 4)
    R = T[:, :3, :3]
    if np.abs(R @ R.mT - np.eye(3)).max() > ORTHONORMAL or np.linalg.det(R).min() < 0:
        raise ValueError("poses has a rotation that is none: wanted orthonormal axes, right-handed")
    return scene.add_batched_axes(
        name, wxyz(T), T[:, :3, 3], axes_length=size, axes_radius=size / 25
    )


def force_arrows(
    scene: Any, frame: Frame, places: np.ndarray, force: np.ndarray, scale: float, size: float
) -> tuple[Mark, Any]:
    """Arrows of forces (robots, steps, 3) from the origins of a frame."""
    arrows = scene.add_arrows(
        f"/forces/{frame.name}",
        np.zeros((0, 2, 3), np.float32),
        RED,
        shaft_radius=size / 10,
        head_radius=size / 5,
        head_length=size / 2,
    )

    def move(placements: np.ndarray, n: int) -> None:
        start = frame_poses(frame, placements, places)[:, :3, 3]
        now = force[:, min(n, force.shape[1] - 1)]
        points = np.stack([start, start + now / scale], 1)
        arrows.points = points[np.linalg.norm(now, axis=-1) > NEAR].astype(np.float32)

    return move, arrows


def trajectory_line(scene: Any, frame: Frame, places: np.ndarray, placements: np.ndarray) -> Any:
    """Adds the lines of a frame's origin through placements (robots, T, nbodies, 4, 4)."""
    points = frame_poses(frame, placements, places)[..., :3, 3]
    rows = np.unique(np.linspace(0, points.shape[1] - 1, POINTS).round().astype(int))
    points = points[:, rows]
    pieces = np.stack([points[:, :-1], points[:, 1:]], 2).reshape(-1, 2, 3)
    return scene.add_line_segments(
        f"/trajectories/{frame.name}",
        pieces.astype(np.float32),
        GREEN,
        thickness=3.0,
        thickness_units="screen",
    )
