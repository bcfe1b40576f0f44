"""Extreme points of convex hulls: the few vertices that stand for a mesh in contact."""

from __future__ import annotations

import numpy as np

from featherlane.robot.parts import Floats, floats

POINTS = 32  # of a hull, at most
DIRECTIONS = 512  # in which a hull is measured
EXACT = 1e-6  # of a hull's size: points that are nearer to the hull are as good as those of it


def sphere_directions(count: int) -> np.ndarray:
    """Returns unit vectors (count, 3) that are spread evenly: a Fibonacci lattice."""
    k = np.arange(count) + 0.5
    z, turn = 1 - 2 * k / count, np.pi * (1 + np.sqrt(5.0)) * k
    radius = np.sqrt(1 - z * z)
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn), z])


def extreme_points(vertices: np.ndarray) -> tuple[tuple[Floats, ...], float]:
    """Returns at most POINTS vertices (n, 3) of a mesh, and by how much, in m, its convex hull
    reaches beyond theirs in the worst of DIRECTIONS.

    The first are farthest along the axes, and each further one is the farthest in the direction in
    which the hull of those before it falls short the most, until none does by more than EXACT.
    """
    x = np.asarray(vertices, float)
    directions = np.concatenate([np.eye(3), -np.eye(3), sphere_directions(DIRECTIONS)])
    farthest = np.argmax(x @ directions.T, axis=0)
    numbers, columns = np.unique(farthest, return_inverse=True)
    heights = x[numbers] @ directions.T
    reach = heights.max(0)
    size = float(np.max(reach[:3] + reach[3:6], initial=0.0))
    chosen = list(dict.fromkeys(columns[:6].tolist()))
    while True:
        short = reach - heights[chosen].max(0)
        worst = int(np.argmax(short))
        if len(chosen) == min(POINTS, len(numbers)) or short[worst] <= EXACT * size:
            break
        chosen.append(int(columns[worst]))
    points = tuple(floats(x[numbers[k]]) for k in chosen)
    return points, max(float(short[worst]), 0.0)
