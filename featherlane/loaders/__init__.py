"""From a file, a text or a name to a Model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from featherlane.errors import ModelError
from featherlane.loaders.assemble import ROOTS
from featherlane.loaders.urdf import read_urdf
from featherlane.loaders.words import quoted
from featherlane.loaders.xml import EXPAND, XACRO, Element, parse
from featherlane.model import Floats, Model

Source = str | bytes | os.PathLike[str]

EARTH_GRAVITY = (0.0, 0.0, -9.81)
REFUSED = {  # root elements of other formats, and what to say of them
    "mujoco": "this is MJCF, which this version does not read yet; export the robot as URDF",
    "sdf": "this is SDF, which is not supported; export the robot as URDF",
}


def load(
    source: Source, *, root: str | None = None, gravity: Sequence[float] = EARTH_GRAVITY
) -> Model:
    """A robot from a bundled name ("iiwa14"), a path to a URDF file, or XML text (str or bytes).

    root: "fixed" (the default: the root link is the ground), or "free" or "planar": a joint of
    that type between the ground and the root link, which is then body 0. gravity: m/s^2, in the
    ground's axes. print(model) shows what was read, merged and ignored.
    Raises ModelError for a robot that cannot be used, naming file, line and element; ValueError or
    TypeError for a wrong argument.
    """
    root, down = _checked_root(root), _checked_gravity(gravity)
    text, name, stem = _read(source)
    robot = parse(text, name)
    _check_format(robot)
    return read_urdf(robot, root=root, gravity=down, fallback_name=stem)


def bundled() -> tuple[str, ...]:
    """The names of the robots that come with the package."""
    files = resources.files("featherlane").joinpath("robots").iterdir()
    return tuple(sorted(f.name.removesuffix(".urdf") for f in files if f.name.endswith(".urdf")))


def _checked_root(root: str | None) -> str:
    if root is None:
        return "fixed"
    if root not in ROOTS:
        raise ValueError(f"root is {root!r}; wanted one of {', '.join(map(repr, ROOTS))}")
    return root


def _checked_gravity(gravity: Sequence[float]) -> Floats:
    numbers = np.asarray(gravity, float)
    if numbers.shape != (3,) or not np.all(np.isfinite(numbers)):
        raise ValueError(f"gravity is {gravity!r}; wanted three finite numbers, in m/s^2")
    return tuple(map(float, numbers))


# Where the text comes from


def _read(source: Source) -> tuple[str | bytes, str, str]:
    """The text, how messages call it, and a name for a robot that has none."""
    if isinstance(source, bytes):
        return source, "<text>", "robot"
    if isinstance(source, str):
        if source.lstrip("\ufeff \t\r\n").startswith("<"):
            return source.lstrip("\ufeff"), "<text>", "robot"
        if source in bundled():
            text = resources.files("featherlane").joinpath("robots", f"{source}.urdf").read_bytes()
            return text, f"bundled {source}.urdf", source
    elif not isinstance(source, os.PathLike):
        kind = type(source).__name__
        raise TypeError(f"source is of type {kind}; wanted a path, XML text or a robot's name")
    return _read_file(os.fsdecode(source))


def _read_file(path: str) -> tuple[bytes, str, str]:
    if not path:
        raise ModelError(f"source is empty; the bundled robots are {', '.join(bundled())}")
    try:
        return Path(path).read_bytes(), path, Path(path).stem
    except FileNotFoundError:
        raise ModelError(_not_found(path)) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ModelError(f"{quoted(path)} cannot be read: {reason}") from None


def _not_found(path: str) -> str:
    return (
        f"there is no file {quoted(path)} (looked for in {os.getcwd()}), and no bundled robot of "
        f"that name; the bundled robots are {', '.join(bundled())}"
    )


# What the text is


def _check_format(robot: Element) -> None:
    if robot.tag in REFUSED:
        raise ModelError(f"{robot.source}: {REFUSED[robot.tag]}")
    if robot.tag != "robot":
        raise robot.error("a URDF file starts with <robot>")
    for node in robot.node.iter():
        if XACRO in (node.prefix or "") or XACRO in (node.nsmap.get(node.prefix) or ""):
            raise Element(node, robot.source).error(EXPAND)
