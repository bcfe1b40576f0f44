"""Spheres that cover the bodies of a robot, for distances."""

from __future__ import annotations

from typing import NamedTuple

from featherlane.robot.parts import Floats


class BodySphere(NamedTuple):
    """A sphere that moves with a frame of a robot: its centre (3,) in the axes of the frame and its
    radius, m. Any (frame, center, radius) serves as well.

    Examples:
        >>> fl.BodySphere("link2", (0.0, 0.0, 0.1), 0.05).radius
        0.05
    """

    frame: str
    center: Floats
    radius: float
