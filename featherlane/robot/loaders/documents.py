"""From what a user names, a file, a text or a robot, to its document, and to the reader of its
format.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lxml import etree

from featherlane.errors import COMPARED, ModelError, nearest
from featherlane.robot.loaders.descriptions import description
from featherlane.robot.loaders.files import Source, content
from featherlane.robot.loaders.mjcf import read_mjcf
from featherlane.robot.loaders.robots import bundled, text
from featherlane.robot.loaders.urdf import read_urdf
from featherlane.robot.loaders.words import quoted
from featherlane.robot.loaders.xacro import (
    Expansion,
    checked_expansion,
    expanded,
    has_expressions,
    left_over,
    uses_xacro,
)
from featherlane.robot.loaders.xml import Document, Element, parsed_document
from featherlane.robot.model import Robot

__all__ = ["checked_expansion", "read", "text_and_path"]

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
    known: Expansion = Expansion()  # arguments and packages that its description knows


def read(source: Source, loops: str, expansion: Expansion, options: dict[str, Any]) -> Robot:
    """Returns the robot of a source. The options are as `load` has checked them."""
    file = _read(source)
    document = _document(file, expansion)
    robot = _robot(document, file, loops, options)
    return replace(robot, notes=(*robot.notes, *document.notes)) if document.notes else robot


def _robot(document: Document, file: File, loops: str, options: dict[str, Any]) -> Robot:
    root = document.root
    if root.tag == "mujoco":
        return read_mjcf(root, document.text, file.path, loops, file.robot, options)
    _check_format(root)
    return read_urdf(root, file.robot, loops, options)


def text_and_path(source: Source, expansion: Expansion) -> tuple[bytes, str | None]:
    """Returns what `loaders.xml_text` does."""
    file = _read(source)
    return etree.tostring(_document(file, expansion).root.node), file.path


def root_element(source: Source) -> Element:
    """Returns the root element of a source's XML, xacro expanded."""
    return _document(_read(source), checked_expansion(None, ())).root


# The text of a source


def _read(source: Source) -> File:
    if isinstance(source, bytes):
        return File(source)
    if isinstance(source, str):
        if source.lstrip("\ufeff \t\r\n").startswith("<"):
            return File(source.lstrip("\ufeff"))
        if source in bundled():
            return File(text(source), f"bundled {source}.urdf", source)
    elif not isinstance(source, os.PathLike):
        kind = type(source).__name__
        raise TypeError(f"source is of type {kind}; wanted a path, XML text or a robot's name")
    path = os.fsdecode(source)
    if isinstance(source, str) and not os.path.exists(path) and (robot := description(path)):
        return _read_file(robot.path)._replace(known=robot.expansion)
    return _read_file(path)


def _read_file(path: str) -> File:
    if not path:
        raise ModelError(f"source is empty; the bundled robots are {', '.join(bundled())}")
    try:
        return File(content(path), path, Path(path).stem, path)
    except FileNotFoundError:
        near = " or ".join(map(quoted, _nearly(path)))
        raise ModelError(
            f"there is no file {quoted(path)} (looked for in {_here()}), and no bundled robot "
            f"of that name; the bundled robots are {', '.join(bundled())}"
            f"{near and f'; did you mean {near}?'}"
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
    robots = nearest(Path(name).stem, bundled())
    try:
        with os.scandir(folder or ".") as entries:
            files = [file.name for file in islice(entries, COMPARED) if file.is_file()]
    except OSError:
        files = []
    return robots + nearest(name, files)


# The format of a text


def _document(file: File, expansion: Expansion) -> Document:
    """Returns the parsed document of a file, expanded if it is xacro."""
    document = parsed_document(file.text, file.name)
    root = document.root
    tagged = (file.path or "").endswith(".xacro") or uses_xacro(root) is not None
    tags = left_over(root) if tagged else []
    if (tagged and not tags) or (expansion.arguments and has_expressions(root)):
        options = file.known._replace(arguments=expansion.arguments, packages=expansion.packages)
        root = expanded(root, file.path, options)
        return document._replace(root=root, text=etree.tostring(root.node))
    if expansion.arguments:
        names = ", ".join(map(quoted, expansion.arguments))
        raise ModelError(f"{file.name}: it takes no xacro_args ({names}): it is not a xacro file")
    note = f"tags that an expansion of xacro has left over, ignored: {', '.join(tags)}"
    return document._replace(notes=(*document.notes, note)) if tags else document


def _check_format(robot: Element) -> None:
    if robot.tag in REFUSED:
        raise ModelError(f"{robot.source}: {REFUSED[robot.tag]}")
    if robot.tag != "robot":
        raise robot.error("a URDF file starts with <robot>, an MJCF file with <mujoco>")
