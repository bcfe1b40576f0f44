"""Expansion of xacro files, which is done by the package xacrodoc.

A xacro file is code: it reads files and evaluates expressions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

from lxml import etree

from featherlane.errors import ModelError, shown
from featherlane.robot.loaders.ros_packages import PackageFinder
from featherlane.robot.loaders.words import listed, near, quoted
from featherlane.robot.loaders.xml import EXPAND, XACRO, Element, parse, unexpanded

DIRECTIVES = (  # of xacro: a document with one is to be expanded
    *("arg", "attribute", "call", "element", "if", "include", "insert_block", "macro"),
    *("property", "unless"),
)
COMPLAINTS = (  # of xacro, and the text of the file that they are about
    (re.compile(r"when evaluating expression '(.+?)'", re.DOTALL), "${{{}}}"),
    (re.compile(r"unknown macro name: (\S+)"), "<{}"),
    (
        re.compile(r"(?:Undefined|Invalid) parameter|Not enough blocks|Unused block"),
        "<xacro:{macro}",
    ),
    (re.compile(r"ndefined substitution argument (\S+)"), "$(arg {})"),
    (re.compile(r"there is no package '([^']+)'"), "$(find {})"),
    (re.compile(r"No such file or directory: (?:\S*/)?(\S+)"), "{}"),
)
STATE = Lock()  # xacro keeps its state in the module


class Expansion(NamedTuple):
    """The user's options of an expansion: arguments by name, and folders of packages."""

    arguments: Mapping[str, str] = {}
    packages: tuple[str, ...] = ()
    defaults: Mapping[str, str] = {}  # further arguments, which a file need not have
    by_name: Mapping[str, str] = {}  # packages whose folders are known


def checked_expansion(arguments: Any, packages: Any) -> Expansion:
    """Returns the options xacro_args and packages of `load`; raises TypeError or ValueError naming
    them.
    """
    if not isinstance(arguments or {}, Mapping) or not all(
        isinstance(name, str) for name in arguments or ()
    ):
        raise TypeError(
            f"xacro_args is {shown(arguments)}: wanted a dict of values by name, as in "
            "{'prefix': 'left_'}"
        )
    values = {name: _written(name, value) for name, value in (arguments or {}).items()}
    return Expansion(values, _checked_folders(packages))


def _written(name: str, value: Any) -> str:
    """Returns a value as a xacro file has it."""
    if value is None:
        raise TypeError(f"xacro_args[{name!r}] is None: leave it out for the file's default")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked_folders(packages: Any) -> tuple[str, ...]:
    if isinstance(packages, str | os.PathLike) or not isinstance(packages, Iterable):
        raise TypeError(f"packages is {shown(packages)}: wanted a list of folders")
    folders = list(packages)
    for folder in folders:
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(f"packages holds {shown(folder)}: wanted paths of folders")
        if not os.path.isdir(folder):
            raise ValueError(f"packages holds {os.fspath(folder)!r}, which is no folder")
    return tuple(str(Path(folder)) for folder in folders)


# Documents


def uses_xacro(document: Element) -> Element | None:
    """Returns the first element that belongs to xacro, if there is one."""
    nodes = document.node.iter(etree.Element)
    return next((Element(node, document.source) for node in nodes if _is_xacro(node)), None)


def _is_xacro(node: etree._Element) -> bool:
    return XACRO in (node.prefix or "") or XACRO in (node.nsmap.get(node.prefix) or "")


def has_expressions(document: Element) -> bool:
    """Tells whether an attribute holds an expression of xacro, ${...} or $(...)."""
    nodes = document.node.iter(etree.Element)
    return any(unexpanded(value) for node in nodes for value in node.attrib.values())


def left_over(document: Element) -> list[str]:
    """Removes the tags of xacro that nothing in a document defines, and returns them.

    Returns none, and removes nothing, where a document has directives or expressions of xacro: it
    is to be expanded.
    """
    tags = [node for node in document.node.iter(etree.Element) if _is_xacro(node)]
    directives = any(etree.QName(node).localname in DIRECTIVES for node in tags)
    if directives or has_expressions(document):
        return []
    for node in tags:
        if (parent := node.getparent()) is not None:
            parent.remove(node)
    return [*dict.fromkeys(Element(node, document.source).tag for node in tags)]


# Expansion


class _Arguments(dict[str, str]):
    """The arguments of an expansion, which remember whether the file has them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.read: set[object] = set()

    def __contains__(self, name: object) -> bool:
        self.read.add(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return super().__getitem__(name)


def expanded(document: Element, path: str | None, options: Expansion) -> Element:
    """Returns a document as xacro expands it; its source says that it is the expanded text.

    path: the document's file, in whose folder its includes are. Raises ModelError with the
    message of xacro, file, line and macro, and for arguments that the file does not have.
    """
    xacrodoc = _xacrodoc((uses_xacro(document) or document).error(EXPAND))
    arguments = _Arguments({**options.defaults, **options.arguments})
    with STATE, _finder(xacrodoc, path, options) as finder:
        text = _text(xacrodoc, document, path, arguments, finder)
    if unknown := [name for name in options.arguments if name not in arguments.read]:
        hint = near(unknown[0], [str(name) for name in arguments.read])
        raise ModelError(
            f"{document.source}: xacro_args names {listed(unknown)}, which the file does not "
            f"read{hint}; it reads {listed(sorted(map(str, arguments.read))) or 'none'}"
        )
    return parse(text, f"{document.source} (expanded)")


def _text(
    xacrodoc: ModuleType,
    document: Element,
    path: str | None,
    arguments: _Arguments,
    finder: PackageFinder,
) -> str:
    xacro = _reset()
    options: dict[str, Any] = {"subargs": arguments, "resolve_packages": False}
    try:
        if path is None:
            text = etree.tostring(document.node.getroottree(), encoding="unicode")
            result = xacrodoc.XacroDoc.from_string(text, **options)
        else:  # an include knows its folder, a text does not
            file, name = (_escaped(text) for text in _file_and_name(document, path))
            result = xacrodoc.XacroDoc.from_includes([file], name=name, **options)
        return str(result.to_urdf_string())
    except Exception as error:  # xacro evaluates Python, which raises errors of any type
        raise _complaint(error, document, path, xacro, finder) from error


def _file_and_name(document: Element, path: str) -> tuple[str, str]:
    name = document.node.get("name") or ""
    if not name or "$" in name:
        name = Path(path).name.split(".")[0]
    return str(Path(path).resolve()), name


def _escaped(text: str) -> str:
    """A text as it stands in an attribute of XML."""
    for character, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(character, f"&{name};")
    return text


def _xacrodoc(complaint: ModelError) -> ModuleType:
    try:
        import_module("xacrodoc.packages")
        return import_module("xacrodoc")
    except ImportError:
        raise complaint from None


@contextmanager
def _finder(xacrodoc: ModuleType, path: str | None, options: Expansion) -> Iterator[PackageFinder]:
    """Replaces xacrodoc's finder of packages, which is asked last."""
    before = getattr(xacrodoc.packages, "_finder", None)
    others = None if before is None else before.get_path
    finder = PackageFinder(path, options.packages, options.by_name, others)
    xacrodoc.packages._finder = finder
    try:
        yield finder
    finally:
        xacrodoc.packages._finder = before


# Complaints


def _reset() -> ModuleType | None:
    """Empties the stacks of files and macros, which a failed expansion leaves as they were."""
    try:
        xacro = import_module("xacro")
    except ImportError:
        return None
    if hasattr(xacro, "init_stacks"):
        xacro.init_stacks(None)
    return xacro


def _complaint(
    error: Exception,
    document: Element,
    path: str | None,
    xacro: ModuleType | None,
    finder: PackageFinder,
) -> ModelError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    if finder.missing:
        name = finder.missing[-1]
        reason = (
            f"there is no package {name!r} around the file, in ROS_PACKAGE_PATH or in "
            "AMENT_PREFIX_PATH: pass the folder that holds it, packages=[...] or --packages FOLDER"
        )
    macros = [*reversed(getattr(xacro, "macrostack", None) or ())]
    files = [file for macro in macros for file in macro.history[-1][-1:]]
    files += reversed(getattr(xacro, "filestack", None) or ())
    names = [macro.body.getAttribute("name") for macro in macros]
    place = _place(reason, [*dict.fromkeys(filter(None, files))], names) or document.source
    inside = f" (in the macro {', called by '.join(map(quoted, names))})" if names else ""
    return ModelError(f"{place}: xacro cannot expand it{inside}: {reason}")


def _place(reason: str, files: Sequence[str], macros: Sequence[str]) -> str:
    """Returns the file and line of the text that a complaint is about, or the file at fault."""
    for pattern, form in COMPLAINTS:
        if match := pattern.search(reason):
            wanted = form.format(*match.groups(), macro=macros[0] if macros else "")
            for file in files:
                if lines := _lines(file, wanted):
                    return f"{file}, line {' or '.join(map(str, lines[:3]))}"
    return files[0] if files else ""


def _lines(file: str, wanted: str) -> list[int]:
    try:
        text = Path(file).read_text(errors="replace")
    except OSError:
        return []
    return [n for n, line in enumerate(text.splitlines(), 1) if wanted in line]
