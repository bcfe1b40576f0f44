"""Robots as nodes of a viser scene: one robot as frames, many robots as instances of its shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from featherlane.algorithms.frames import frame_placement
from featherlane.api.model import Model
from featherlane.interop.shapes import Shape
from featherlane.robot.parts import WORLD, Frame
from featherlane.robot.quaternions import matrix_quaternion


def body_placements(model: Model, q: np.ndarray) -> np.ndarray:
    """Returns the placements (T, nbodies, 4, 4) of all bodies at configurations (T, nq)."""
    result = np.zeros((len(q), model.nbodies, 4, 4))
    columns = list(q.T)
    for n in range(model.nbodies):
        rows = frame_placement(model.tree, columns, model.tree.point(Frame("", n)))
        for i, row in enumerate(rows):
            for j, entry in enumerate(row):
                result[:, n, i, j] = entry
    return result


def frame_poses(frame: Frame, placements: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Returns the poses (robots, ..., 4, 4) of a frame in the scene, from the placements (robots,
    ..., nbodies, 4, 4) of bodies and the places (robots, 3) of the robots.
    """
    own = np.eye(4)
    own[:3, :3], own[:3, 3] = frame.placement
    if frame.body != WORLD:
        result: np.ndarray = placements[..., frame.body, :, :] @ own
        return result
    poses = np.broadcast_to(own, (*placements.shape[:-3], 4, 4)).copy()
    between = (slice(None), *[None] * (poses.ndim - 3))
    poses[..., :3, 3] += places[between]
    return poses


def wxyz(T: np.ndarray) -> np.ndarray:
    """Returns the quaternions (..., 4) of poses (..., 4, 4) in viser's order, w first."""
    return matrix_quaternion(T[..., :3, :3])[..., [3, 0, 1, 2]]


class OneRobot:
    """A robot whose bodies are frames of the scene, with its shapes below them."""

    def __init__(self, server: Any, model: Model, place: np.ndarray) -> None:
        self._scene = server.scene
        server.scene.add_frame("/ground", show_axes=False, position=place)
        self.bodies = [
            server.scene.add_frame(f"/robot/{n}_{name}", show_axes=False)
            for n, name in enumerate(model.body_names)
        ]

    def add(self, shapes: Sequence[Shape], title: str) -> list[Any]:
        """Adds shapes, and returns their nodes."""
        nodes = []
        for n, (body, mesh) in enumerate(shapes):
            parent = "/ground" if body == WORLD else self.bodies[body].name
            nodes.append(self._scene.add_mesh_trimesh(f"{parent}/{title}{n}", mesh))
        return nodes

    def move(self, placements: np.ndarray) -> None:
        """Moves the bodies to placements (1, nbodies, 4, 4)."""
        for body, T, turn in zip(self.bodies, placements[0], wxyz(placements[0]), strict=True):
            body.position, body.wxyz = T[:3, 3], turn


class ManyRobots:
    """Robots of one model. Each shape is one node with an instance for each robot, so that a
    picture is as many messages as for one robot.
    """

    bodies: Sequence[Any] = ()

    def __init__(self, server: Any, places: np.ndarray) -> None:
        self._scene, self._places = server.scene, places
        self._nodes: list[tuple[int, Any]] = []

    def add(self, shapes: Sequence[Shape], title: str) -> list[Any]:
        """Adds shapes to all robots, and returns their nodes."""
        upright = np.tile([1.0, 0, 0, 0], (len(self._places), 1))
        nodes = [
            self._scene.add_batched_meshes_trimesh(
                f"/robots/{title}{n}", mesh, upright, self._places, lod="off"
            )
            for n, (_, mesh) in enumerate(shapes)
        ]
        moving = [(shape.body, node) for shape, node in zip(shapes, nodes, strict=True)]
        self._nodes += [(body, node) for body, node in moving if body != WORLD]
        return nodes

    def move(self, placements: np.ndarray) -> None:
        """Moves the bodies to placements (robots, nbodies, 4, 4)."""
        turns = wxyz(placements)
        for body, node in self._nodes:
            node.batched_positions = placements[:, body, :3, 3]
            node.batched_wxyzs = turns[:, body]


def bounds(shapes: Sequence[Shape], placements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ends (3,) of the box around robots, in m, from placements of their bodies."""
    points = np.concatenate([np.zeros((0, 3)), *_corners(shapes, placements)])
    return (points.min(0), points.max(0)) if len(points) else (np.zeros(3), np.zeros(3))


def _corners(shapes: Sequence[Shape], placements: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the corners (robots 8, 3) of the boxes around shapes."""
    for body, mesh in shapes:
        corners = np.asarray(mesh.bounding_box.vertices)
        if body != WORLD:
            T = placements[:, body]
            corners = corners @ T[:, :3, :3].mT + T[:, None, :3, 3]
        yield corners.reshape(-1, 3)


def grid(robots: int, spacing: float) -> np.ndarray:
    """Returns places (robots, 3) on the ground, m: rows of a square, with its middle at zero."""
    side = int(np.ceil(np.sqrt(robots)))
    across, along = np.divmod(np.arange(robots), side)
    places = np.stack([across, along, 0 * across], -1).astype(float)
    return spacing * (places - places.mean(0))
