"""Loading: a Robot from a file, a text or a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.robot.loaders.files import Source
from featherlane.robot.loaders.mimics import MIMIC
from featherlane.robot.loaders.order import JointOrder, checked_order
from featherlane.robot.loaders.robots import bundled
from featherlane.robot.loaders.roots import ROOTS, Root, checked_root
from featherlane.robot.loaders.specs import EARTH_GRAVITY
from featherlane.robot.model import Floats, Robot, floats

__all__ = ["EARTH_GRAVITY", "ROOTS", "JointOrder", "Root", "Source", "bundled", "load", "xml_text"]

LOOPS = ("refuse", "drop")


def load(
    source: Source,
    *,
    root: Root | None = None,
    gravity: Sequence[float] | None = None,
    mimic: str = "project",
    joint_order: JointOrder = "depth-first",
    loops: str = "refuse",
) -> Robot:
    """Loads a robot from a bundled name ("iiwa14"), a path to a URDF or MJCF file, XML text (str
    or bytes), or a name of robot_descriptions ("go2_description"), if that package is installed.

    root: the joint between the ground and the root link. "fixed" (the default): the root link is
    the ground. The others carry body 0: "free", "planar", "free-split" (a translation, then a
    spherical joint), another joint type, or your own `Joint` (required for helical and universal
    roots, which need a pitch or two axes). gravity: m/s^2, in the ground's axes, by default (0, 0,
    -9.81). mimic: "project" (joints that follow another have no entries in q and v) or "keep" (they
    are independent). joint_order: "depth-first", "breadth-first" (both with siblings by name),
    "file" (as in the file, parents first), or the names of all moving joints. print(model) shows
    what was read, merged and ignored. A xacro file is expanded by xacrodoc, if that is installed;
    xacro evaluates code, so the file must be trusted.

    MJCF is read by MuJoCo's compiler (pip install 'featherlane[mjcf]'). Root and gravity are then
    by default as in the file, siblings are in its order, and `root` replaces the free joint of the
    robot's base. loops: "refuse" constraints that close loops or hold a joint still, and soft
    bodies, or "drop" them.

    Raises ModelError, with file, line and element, for a robot that cannot be used, and for what is
    no regular file of at most 32 MB; ValueError or TypeError for a wrong argument.
    """
    options = checked_options(root, gravity, mimic, joint_order)
    if loops not in LOOPS:
        raise ValueError(f"loops is {loops!r}; wanted {' or '.join(map(repr, LOOPS))}")
    from featherlane.robot.loaders.documents import read  # imports lxml

    return read(source, loops, options)


def xml_text(source: Source) -> tuple[bytes, str | None]:
    """Returns the XML that `load` reads of a source, xacro expanded, and the path if it is a file.

    Comparisons give it to other libraries. Raises ModelError as `load` does.
    """
    from featherlane.robot.loaders.documents import text_and_path  # imports lxml

    return text_and_path(source)


def checked_options(
    root: Root | None, gravity: Sequence[float] | None, mimic: str, joint_order: JointOrder
) -> dict[str, Any]:
    """Returns the options of `assemble`, where None stands for the file's own.

    Raises ValueError or TypeError naming the argument.
    """
    if mimic not in MIMIC:
        raise ValueError(f"mimic is {mimic!r}; wanted {' or '.join(map(repr, MIMIC))}")
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
