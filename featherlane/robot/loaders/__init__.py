"""Loading: a Robot from a file, a text or a name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.errors import one_of
from featherlane.robot.loaders.files import Source
from featherlane.robot.loaders.mimics import MIMIC
from featherlane.robot.loaders.order import JointOrder, checked_order
from featherlane.robot.loaders.robots import bundled
from featherlane.robot.loaders.roots import ROOTS, Root, checked_root
from featherlane.robot.loaders.specs import EARTH_GRAVITY
from featherlane.robot.model import Robot
from featherlane.robot.parts import Floats, floats

__all__ = [
    "EARTH_GRAVITY",
    "LOOPS",
    "ROOTS",
    "JointOrder",
    "Root",
    "Source",
    "bundled",
    "load",
    "xml_text",
]

LOOPS = ("refuse", "keep", "drop")


def load(
    source: Source,
    *,
    root: Root | None = None,
    gravity: Sequence[float] | None = None,
    mimic: str = "project",
    joint_order: JointOrder = "depth-first",
    loops: str = "refuse",
    xacro_args: Mapping[str, Any] | None = None,
    packages: Iterable[str | os.PathLike[str]] = (),
    srdf: Source | None = None,
) -> Robot:
    """Loads a robot, as `featherlane.load` does, without the functions of its `Model`."""
    options = checked_options(root, gravity, mimic, joint_order)
    if loops not in LOOPS:
        raise ValueError(f"loops is {loops!r}; {one_of(loops, LOOPS)}")
    from featherlane.robot.loaders.documents import checked_expansion, read  # imports lxml

    robot = read(source, loops, checked_expansion(xacro_args, packages), options)
    if srdf is None:
        return robot
    from featherlane.robot.loaders.srdf import with_group_states

    return with_group_states(robot, srdf)


def xml_text(
    source: Source,
    xacro_args: Mapping[str, Any] | None = None,
    packages: Iterable[str | os.PathLike[str]] = (),
) -> tuple[bytes, str | None]:
    """Returns the XML that `load` reads of a source, xacro expanded, and the path if it is a file.

    Comparisons give it to other libraries. Raises ModelError as `load` does.
    """
    from featherlane.robot.loaders.documents import checked_expansion, text_and_path  # imports lxml

    return text_and_path(source, checked_expansion(xacro_args, packages))


def checked_options(
    root: Root | None, gravity: Sequence[float] | None, mimic: str, joint_order: JointOrder
) -> dict[str, Any]:
    """Returns the options of `assemble`, where None stands for the option of the file.

    Raises ValueError or TypeError naming the argument.
    """
    if mimic not in MIMIC:
        raise ValueError(f"mimic is {mimic!r}; {one_of(mimic, MIMIC)}")
    return {
        "root": None if root is None else checked_root(root),
        "gravity": None if gravity is None else _checked_gravity(gravity),
        "mimic": mimic,
        "joint_order": checked_order(joint_order),
    }


def _checked_gravity(gravity: Sequence[float]) -> Floats:
    numbers = np.asarray(gravity, float)
    if numbers.shape != (3,) or not np.all(np.isfinite(numbers)):
        raise ValueError(f"gravity is {gravity!r}; wanted three finite numbers, in m/s^2")
    return floats(numbers)
