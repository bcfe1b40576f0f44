"""Robots that other packages provide: names of robot_descriptions, and xacro files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from lxml import etree

from featherlane.errors import ModelError
from featherlane.robot.loaders.words import near, quoted
from featherlane.robot.loaders.xml import EXPAND, XACRO, Element, parse, unexpanded

DESCRIPTION = re.compile(r"[A-Za-z0-9_]+_description")
PATHS = ("URDF_PATH", "MJCF_PATH", "XACRO_PATH")  # attributes of a module, the best first

DIRECTIVES = (  # of xacro: a document with one is to be expanded
    *("arg", "attribute", "call", "element", "if", "include", "insert_block", "macro"),
    *("property", "unless"),
)


class Description(NamedTuple):
    """The file of a robot of robot_descriptions, and the arguments for xacro."""

    path: str
    arguments: Mapping[str, str] | None = None


def description(name: str) -> Description | None:
    """Returns the robot of a name ("go2_description"), fetched by git for its first use.

    Other names give None. Raises ModelError where the package is missing, does not know the name,
    or could not fetch it.
    """
    if not DESCRIPTION.fullmatch(name):
        return None
    module = _module(name)
    path = next((getattr(module, key) for key in PATHS if hasattr(module, key)), None)
    if path is None:
        raise ModelError(f"robot_descriptions.{name} has none of {', '.join(PATHS)}")
    packages = getattr(module, "XACRO_PACKAGE_PATHS", None)
    if packages and not hasattr(module, "URDF_PATH"):
        complaint = ModelError(f"robot_descriptions.{name} is a xacro file: {EXPAND}")
        _xacrodoc(complaint).packages.update_package_cache(packages)
    return Description(str(path), getattr(module, "XACRO_ARGS", None))


def _module(name: str) -> ModuleType:
    try:
        package = import_module("robot_descriptions")
    except ImportError:
        raise ModelError(
            f"there is no file {quoted(name)}; if it is a name of robot_descriptions, install that "
            "package: pip install 'featherlane[descriptions]'"
        ) from None
    try:
        return import_module(f"{package.__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{package.__name__}.{name}":
            raise ModelError(f"robot_descriptions cannot load {quoted(name)}: {error}") from None
        hint = near(name, _known(package))
        raise ModelError(f"robot_descriptions knows no {quoted(name)}{hint}") from None
    except Exception as error:  # git and the network raise errors of any type
        reason = " ".join(str(error).split())[:500]
        raise ModelError(f"robot_descriptions could not fetch {quoted(name)}: {reason}") from error


def _known(package: ModuleType) -> list[str]:
    folders = getattr(package, "__path__", ())
    return [file.stem for folder in folders for file in Path(folder).glob("*_description.py")]


# xacro


def uses_xacro(document: Element) -> Element | None:
    """Returns the first element that belongs to xacro, if there is one."""
    nodes = document.node.iter(etree.Element)
    return next((Element(node, document.source) for node in nodes if _is_xacro(node)), None)


def _is_xacro(node: etree._Element) -> bool:
    return XACRO in (node.prefix or "") or XACRO in (node.nsmap.get(node.prefix) or "")


def left_over(document: Element) -> list[str]:
    """Removes the tags of xacro that nothing in a document defines, and returns them.

    Returns none, and removes nothing, where a document has directives or expressions of xacro: it
    is to be expanded.
    """
    nodes = [*document.node.iter(etree.Element)]
    tags = [node for node in nodes if _is_xacro(node)]
    if any(etree.QName(node).localname in DIRECTIVES for node in tags) or any(
        unexpanded(value) for node in nodes for value in node.attrib.values()
    ):
        return []
    for node in tags:
        if (parent := node.getparent()) is not None:
            parent.remove(node)
    return [*dict.fromkeys(Element(node, document.source).tag for node in tags)]


def _escaped(text: str) -> str:
    """A text as it stands in an attribute of XML."""
    for character, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(character, f"&{name};")
    return text


def expanded(
    document: Element, path: str | None = None, arguments: Mapping[str, str] | None = None
) -> Element:
    """Returns a document as xacro expands it; its source says that it is the expanded text.

    path: the document's file, beside which its includes are found. Raises ModelError with xacro's
    own complaint. A xacro file is code: it reads files and evaluates expressions.
    """
    xacro = _xacrodoc((uses_xacro(document) or document).error(EXPAND))
    options: dict[str, Any] = {"subargs": dict(arguments or {}), "resolve_packages": False}
    try:
        if path is None:
            text = etree.tostring(document.node.getroottree(), encoding="unicode")
            xacro_doc = xacro.XacroDoc.from_string(text, **options)
        else:  # an include knows its own folder, which a text does not
            xacro.packages.walk_up_from(path)
            file, name = (_escaped(text) for text in _file_and_name(document, path))
            xacro_doc = xacro.XacroDoc.from_includes([file], name=name, **options)
        result = xacro_doc.to_urdf_string()
    except Exception as error:  # xacro evaluates Python, which raises errors of any type
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        raise ModelError(f"{document.source}: xacro cannot expand it: {reason}") from error
    return parse(result, f"{document.source} (expanded)")


def _file_and_name(document: Element, path: str) -> tuple[str, str]:
    name = document.node.get("name") or ""
    if not name or "$" in name:
        name = Path(path).name.split(".")[0]
    return str(Path(path).resolve()), name


def _xacrodoc(complaint: ModelError) -> ModuleType:
    try:
        import_module("xacrodoc.packages")
        return import_module("xacrodoc")
    except ImportError:
        raise complaint from None
