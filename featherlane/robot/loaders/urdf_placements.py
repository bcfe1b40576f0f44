"""Origins and axes of URDF elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featherlane.robot.constants import norm
from featherlane.robot.loaders.xml import Element
from featherlane.robot.parts import IDENTITY, Placement
from featherlane.robot.rotations import rpy_rotation, xyzw_rotation


def origin_of(element: Element) -> Placement:
    """Returns the placement that an element's <origin> gives. Raises ModelError."""
    origin = element.child("origin")
    if origin is None:
        return IDENTITY
    xyz = origin.numbers("xyz", "0 0 0")
    if origin.node.get("quat_xyzw") is None:
        return Placement.of(rpy_rotation(*origin.numbers("rpy", "0 0 0")), xyz)
    if origin.node.get("rpy") is not None:
        raise origin.error("it has both rpy and quat_xyzw; wanted one of them")
    return Placement.of(_quaternion(origin), xyz)


def _quaternion(origin: Element) -> np.ndarray:
    quaternion = normalised(origin.numbers("quat_xyzw", count=4))
    if quaternion is None:
        raise origin.error("quat_xyzw is zero; wanted a unit quaternion")
    return xyzw_rotation(quaternion)


def normalised(numbers: Sequence[float]) -> np.ndarray | None:
    """Returns the unit vector along numbers however large or small; None for zero."""
    x, largest = np.array(numbers), max(map(abs, numbers))
    if largest == 0:
        return None
    x = x / largest
    length = norm(x.tolist())
    return x / length if abs(largest * length - 1) > 1e-15 else np.array(numbers)
