"""Loading: a Robot from a file, a text or a name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lxml import etree

from featherlane.errors import ModelError
from featherlane.robot.loaders.files import content
from featherlane.robot.loaders.mimics import MIMIC
from featherlane.robot.loaders.mjcf import read_mjcf
from featherlane.robot.loaders.mjcf_notes import LOOPS
from featherlane.robot.loaders.order import JointOrder, checked_order
from featherlane.robot.loaders.packages import description, expanded, uses_xacro
from featherlane.robot.loaders.roots import ROOTS, Root, checked_root
from featherlane.robot.loaders.specs import EARTH_GRAVITY
from featherlane.robot.loaders.urdf import read_urdf
from featherlane.robot.loaders.words import COMPARED, quoted
from featherlane.robot.loaders.xml import Element, parse
from featherlane.robot.model import Floats, Robot, floats

__all__ = ["EARTH_GRAVITY", "ROOTS", "JointOrder", "Root", "Source", "bundled", "load", "xml_text"]

Source = str | bytes | os.PathLike[str]

REFUSED = {  # complaints about root elements of other formats
    "mujocoinclude": "this is a part of an MJCF file; load the file that includes it",
    "sdf": "this is SDF, which is not supported; export the robot as URDF",
}


class File(NamedTuple):
    """A robot's text and its origin."""

    text: str | bytes
    name: str = "<text>"  # in messages
    robot: str = "robot"  # the name of the robot if the text does not name it
    path: str | None = None
    arguments: Mapping[str, str] | None = None  # for xacro


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
    file = _read(source)
    robot = _document(file)
    if robot.tag == "mujoco":
        return read_mjcf(robot, file.text, file.path, loops, file.robot, options)
    _check_format(robot)
    return read_urdf(robot, file.robot, options)


def xml_text(source: Source) -> tuple[bytes, str | None]:
    """Returns the XML that `load` reads of a source, xacro expanded, and the path if it is a file.

    Comparisons give it to other libraries. Raises ModelError as `load` does.
    """
    file = _read(source)
    return etree.tostring(_document(file).node), file.path


def bundled() -> tuple[str, ...]:
    """Returns the names of the robots that come with the package."""
    names = [file.name for file in _bundled().iterdir()]
    return tuple(sorted(n.removesuffix(".urdf") for n in names if n.endswith(".urdf")))


def _bundled() -> Any:
    return resources.files("featherlane.robot") / "bundled"


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


# The text of a source


def _read(source: Source) -> File:
    if isinstance(source, bytes):
        return File(source)
    if isinstance(source, str):
        if source.lstrip("\ufeff \t\r\n").startswith("<"):
            return File(source.lstrip("\ufeff"))
        if source in bundled():
            text = (_bundled() / f"{source}.urdf").read_bytes()
            return File(text, f"bundled {source}.urdf", source)
    elif not isinstance(source, os.PathLike):
        kind = type(source).__name__
        raise TypeError(f"source is of type {kind}; wanted a path, XML text or a robot's name")
    path = os.fsdecode(source)
    if isinstance(source, str) and not os.path.exists(path) and (robot := description(path)):
        return _read_file(robot.path, robot.arguments)
    return _read_file(path)


def _read_file(path: str, arguments: Mapping[str, str] | None = None) -> File:
    if not path:
        raise ModelError(f"source is empty; the bundled robots are {', '.join(bundled())}")
    try:
        return File(content(path), path, Path(path).stem, path, arguments)
    except FileNotFoundError:
        near = " or ".join(map(quoted, _nearly(path)))
        raise ModelError(
            f"there is no file {quoted(path)} (looked for in {_here()}), and no bundled robot "
            f"of that name{near and f'; did you mean {near}?'}; the bundled robots are "
            f"{', '.join(bundled())}"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, no regular file
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ModelError(f"{quoted(path)} cannot be read: {reason}") from None


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "a folder that no longer exists"


def _nearly(path: str) -> list[str]:
    """Returns the bundled robots, and the files in the path's folder, that have nearly its name."""
    folder, name = os.path.split(path)
    robots = get_close_matches(Path(name).stem.lower(), bundled(), 2)
    try:
        with os.scandir(folder or ".") as entries:
            files = [file.name for file in islice(entries, COMPARED) if file.is_file()]
    except OSError:
        files = []
    return robots + get_close_matches(name, files, 2)


# The format of a text


def _document(file: File) -> Element:
    document = parse(file.text, file.name)
    if (file.path or "").endswith(".xacro") or uses_xacro(document) is not None:
        return expanded(document, file.path, file.arguments)
    return document


def _check_format(robot: Element) -> None:
    if robot.tag in REFUSED:
        raise ModelError(f"{robot.source}: {REFUSED[robot.tag]}")
    if robot.tag != "robot":
        raise robot.error("a URDF file starts with <robot>, an MJCF file with <mujoco>")
