"""Spheres that cover the bodies of a robot, for distances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np

from featherlane.robot.collision_shapes import CollisionShape
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD, Floats, floats

SHORT = 2e-3  # m: points that are nearer to a line need no line to them


class BodySphere(NamedTuple):
    """A sphere that moves with a frame of a robot: its centre (3,) in the axes of the frame and its
    radius, m. Any (frame, center, radius) serves as well.

    Arguments:
        frame: the name of a frame
        center: (3,), m, in the axes of the frame
        radius: that of the sphere, m

    Examples:
        >>> fl.BodySphere("link2", (0.0, 0.0, 0.1), 0.05).radius
        0.05
    """

    frame: str
    center: Floats
    radius: float


class _Rod(NamedTuple):
    """The points of a body within a distance of a segment: its middle, the half of the segment as a
    vector, the distance; and whether round ends stick out of the segment.
    """

    middle: np.ndarray
    half: np.ndarray
    radius: float
    has_round_ends: bool = True

    def spheres(self, fit: float) -> Iterator[tuple[np.ndarray, float]]:
        """Yields centres and radii, at most fit times as wide as the rod, which cover it. Each
        covers a slice of the segment; with round ends, the outer ones are centred on the ends.
        """
        length = float(np.linalg.norm(self.half))
        widest = self.radius * sqrt(fit * fit - 1)
        slices = max(ceil(length / widest), 1) if length > 0 else 1
        radius = sqrt(self.radius**2 + (length / slices) ** 2)
        ends = (1.0 if self.has_round_ends else 1 - 1 / slices) if length > 0 else 0.0
        for x in np.linspace(-ends, ends, slices + (self.has_round_ends and length > 0)):
            yield self.middle + x * self.half, radius


def body_spheres(model: Robot, radius: float, fit: float) -> list[BodySphere]:
    """Returns spheres that cover the collision shapes of the bodies; of bodies without shapes, or
    with a mesh that is not read, lines of a radius from their origin to those of their frames and
    of the joints that they carry.
    """
    spheres = []
    for body in range(WORLD, model.nbodies):
        frame = next((frame for frame in model.frames if frame.body == body), None)
        if frame is None:
            continue
        R, p = np.array(frame.placement.R), np.array(frame.placement.p)
        for rod in _rods(model, body, radius):
            for center, wide in rod.spheres(fit):
                spheres.append(BodySphere(frame.name, floats(R.T @ (center - p)), wide))
    return spheres


def _rods(model: Robot, body: int, radius: float) -> list[_Rod]:
    """Returns rods that contain a body, -1 for the ground, in its frame."""
    shapes = [x for x in model.collision_shapes if x.body == body and x.kind != "plane"]
    if shapes and not any(shape.kind == "hull" and not shape.points for shape in shapes):
        return [_rod_of_shape(shape) for shape in shapes]
    carried = [joint.placement.p for joint in model.joints if joint.parent == body]
    frames = [frame.placement.p for frame in model.frames if frame.body == body]
    rods = [_Rod(0.5 * end, 0.5 * end, radius) for end in _ends([*carried, *frames])]
    at_origin = _Rod(np.zeros(3), np.zeros(3), radius)  # else that of the next body is there
    return rods if rods or carried or body == WORLD else [at_origin]


def _ends(points: Sequence[Floats]) -> list[np.ndarray]:
    """Returns the points to which lines from the origin lead that are not part of a longer one."""
    far_first = sorted(map(np.array, points), key=lambda p: -float(np.linalg.norm(p)))
    ends: list[np.ndarray] = []
    for p in far_first:
        nearest = [q * np.clip(p @ q / (q @ q), 0, 1) for q in ends]
        if all(np.linalg.norm(p - x) > SHORT for x in [np.zeros(3), *nearest]):
            ends.append(p)
    return ends


def _rod_of_shape(shape: CollisionShape) -> _Rod:
    """Returns a rod that contains a shape, in the frame of its body."""
    R, p = np.array(shape.placement.R), np.array(shape.placement.p)
    if shape.kind in ("sphere", "capsule", "cylinder"):
        radius, length = (*shape.size, 0.0)[:2]
        return _Rod(p, length * R[:, 2], radius, shape.kind != "cylinder")
    if shape.kind == "ellipsoid":
        return _rod_of_ellipsoid(p, R, np.array(shape.size))
    low, high = -np.array(shape.size), np.array(shape.size)
    if shape.kind == "hull":
        low, high = np.min(shape.points, axis=0), np.max(shape.points, axis=0)
    half, middle = 0.5 * (high - low), p + R @ (0.5 * (high + low))
    k = int(np.argmax(half))
    across = float(np.linalg.norm(np.delete(half, k)))
    return _Rod(middle, half[k] * R[:, k], across, has_round_ends=False)


def _rod_of_ellipsoid(middle: np.ndarray, R: np.ndarray, axes: np.ndarray) -> _Rod:
    """Returns the rod with round ends that touches an ellipsoid at the ends of its longest and its
    second axis. axes: half of each, along the columns of R.
    """
    k = int(np.argmax(axes))
    second = float(np.max(np.delete(axes, k)))
    return _Rod(middle, (axes[k] - second) * R[:, k], second)
