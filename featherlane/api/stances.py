"""A configuration in which a robot with a free root stands on the ground."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from featherlane.algorithms import center_of_mass
from featherlane.algorithms.frames import placements
from featherlane.api.model import Model
from featherlane.functions.ground_inputs import GroundInputs
from featherlane.robot.contact_law import Coulomb
from featherlane.robot.ground import Ground
from featherlane.robot.parts import WORLD
from featherlane.robot.tree_of import tree_of

ENOUGH = 0.5  # of the distance from the middle of the feet to the edge between them
BEARING = 0.01  # m, of points above the lowest one that bear the robot
TRIES = 20  # moves up or down until the lowest contact point is on the ground
CLOSE = 1e-9  # m
STEPS = 8  # of the least squares that move the feet
SMALL = 1e-5  # rad or m, of differences
DAMPING = 1e-3  # of the least squares, m^2


def stance(model: Model, ground: Ground) -> np.ndarray:
    """Returns a configuration (nq,) whose lowest contact point is on the ground: the first one that
    holds the centre of mass well within its feet, of the named configurations of the file, of the
    neutral joints within their limits, and of those moved until the feet are below the centre of
    mass; else the one that is nearest to that.
    """
    stances = _Stances(model, ground)
    best, most = np.asarray(model.neutral(), float), -np.inf
    for q in stances.candidates():
        q = stances.on_ground(q)
        if (share := stances.share(q)) > most:
            best, most = q, share
        if share >= ENOUGH:
            break
    return best


class _Stances:
    """Configurations of a robot on the ground, and how safely it stands in them."""

    def __init__(self, model: Model, ground: Ground) -> None:
        self.model, self.tree = model, tree_of(model)
        self.scene = GroundInputs(ground, Coulomb()).scene(model)

    def candidates(self) -> Iterator[np.ndarray]:
        yield from map(np.array, self.model.configurations.values())
        q = np.asarray(self.model.neutral(), float)
        q[7:] = self._limited(q[7:])
        yield q
        yield self._balanced(q)

    def _limited(self, joints: np.ndarray) -> np.ndarray:
        return np.clip(joints, *(x[7:] for x in self.model.position_limits))

    def points(self, q: np.ndarray) -> np.ndarray:
        """Returns the contact points with the ground, and their gaps, as rows (x, y, z, gap)."""
        poses = placements(self.tree, q.tolist(), range(self.tree.nbodies))
        points = [x for x in self.scene.contacts(self.tree, poses) if x.other == WORLD]
        return np.array([[*x.point, x.gap] for x in points], float).reshape(-1, 4)

    def on_ground(self, q: np.ndarray) -> np.ndarray:
        """Returns the configuration with the lowest contact point on the ground."""
        for _ in range(TRIES):
            gap = min(self.points(q)[:, 3], default=0.0)
            q = q - gap * np.eye(len(q))[2]
            if abs(gap) < CLOSE:
                break
        return q

    def share(self, q: np.ndarray) -> float:
        """Returns the distance of the centre of mass from the edge of the feet on the ground, seen
        from above, where 1 is that of their middle; -1 where they are on a line.
        """
        points = self.points(q)
        feet = points[points[:, 3] < BEARING, :2]
        if len(feet) < 3 or (reach := _inside(feet, feet.mean(0))) < CLOSE:
            return -1.0
        return _inside(feet, self._centre(q)) / reach

    def _centre(self, q: np.ndarray) -> np.ndarray:
        return np.array([*center_of_mass(self.tree, q.tolist())][:2], float)

    def _balanced(self, q: np.ndarray) -> np.ndarray:
        """Returns a configuration near q with the middle of the feet below the centre of mass, and
        feet at one height, by damped least squares.
        """
        heights = self.points(q)[:, 3]
        feet = heights < min(heights, default=0.0) + BEARING

        def misses(q: np.ndarray) -> np.ndarray:
            points = self.points(q)[feet]
            beside = points[:, :2].mean(0) - self._centre(q)
            return np.concatenate([beside, points[:, 3] - points[:, 3].mean()])

        for _ in range(STEPS if feet.sum() > 2 else 0):
            r = misses(q)
            moves = SMALL * np.eye(len(q))[7:]
            J = np.array([(misses(q + move) - r) / SMALL for move in moves]).T
            dq = J.T @ np.linalg.solve(J @ J.T + DAMPING * np.eye(len(r)), r)
            q = np.concatenate([q[:7], self._limited(q[7:] - dq)])
        return q


def _inside(points: np.ndarray, x: np.ndarray) -> float:
    """Returns the distance of x from the edge of the convex hull of points in the plane, negative
    outside; 0 or less for points on a line, 0 for one point.
    """
    corners = _hull(points)
    if len(corners) < 2:
        return 0.0
    edges = pairwise([*corners, corners[0]])
    return min(float(_left(a, b, x) / np.linalg.norm(b - a)) for a, b in edges)


def _hull(points: np.ndarray) -> list[np.ndarray]:
    """Returns the corners of the convex hull, counterclockwise (Andrew's monotone chain)."""
    ordered = [*np.unique(points, axis=0)]

    def chain(points: Sequence[np.ndarray]) -> list[np.ndarray]:
        corners: list[np.ndarray] = []
        for x in points:
            while len(corners) > 1 and _left(corners[-2], corners[-1], x) <= 0:
                corners.pop()
            corners.append(x)
        return corners[:-1]

    return [*chain(ordered), *chain(ordered[::-1])]


def _left(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> float:
    """Returns twice the area of a triangle, positive if x is to the left of the way from a to b."""
    return float((b[0] - a[0]) * (x[1] - a[1]) - (b[1] - a[1]) * (x[0] - a[0]))
