"""Refuses, before MuJoCo's compiler is called, files that make it hang, crash or take all memory.

The compiler copies what is replicated or attached in time that grows with the square of all
elements, does not notice a model that attaches itself, and reads whatever a file is.
"""

from __future__ import annotations

import copy
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lxml import etree

from featherlane.errors import ModelError
from featherlane.robot.loaders.files import check_regular, content
from featherlane.robot.loaders.words import quoted
from featherlane.robot.loaders.xml import Element, parse

COPIES = 5_000  # elements that <replicate> and <attach> make: MuJoCo takes some 5 s for these
DEEPEST = 50  # files that include or attach one another
LARGEST_ASSET = 100_000_000  # bytes of a mesh, texture or other file
FILES = tuple("file" + side for side in ("", "right", "left", "up", "down", "front", "back"))
FOLDERS = ("meshdir", "texturedir", "assetdir")
LARGEST: dict[str, tuple[tuple[str, ...], float]] = {  # of elements: attributes, largest product
    "composite": (("count",), 2.5e3),
    "flexcomp": (("count",), 2.5e3),
    "hfield": (("nrow", "ncol"), 1e7),
    "texture": (("width", "height"), 1e8),
    "numeric": (("size",), 1e6),
    "user": (("dim",), 1e6),
    "contact": (("num",), 1e6),
}
NOT_FINITE = re.compile(r"[+-]?(inf(inity)?|nan(\(\w*\))?)", re.ASCII | re.IGNORECASE)
NAMES = re.compile(  # attributes whose value may be a name or a text
    "name|class|childclass|prefix|model|file|content_type|key|value|data|target|reftype|refname|"
    "objname|role|dof|input|user|texture|material|mesh|hfield|plugin|instance|flex|frame|node|"
    "(body|joint|geom|site|tendon)[12]?|actuator|sensor|camera|cranksite|slidersite|refsite|"
    "sidesite|jointinparent|basic|skin|numeric|text|tuple|light"
)
BUFFER = (("nsample",), 1e6)  # the same of any sensor or actuator


def whole(document: Element, path: str | None) -> Element:
    """Returns an MJCF document with the elements of included files inside each <include>.

    Raises ModelError for files that MuJoCo must not read. Missing files are left to
    MuJoCo's error.
    """
    reader = _Reader(os.path.dirname(path or ""))
    document = reader.merged(document)
    reader.copied(document, () if path is None else (os.path.realpath(path),))
    return document


@dataclass
class _Reader:
    """A document and the files that it names, relative to its folder."""

    folder: str
    models: dict[str, float] = field(default_factory=dict)
    """How many elements each attached model has."""

    def merged(self, document: Element) -> Element:
        if next(_tagged(document.node, "include"), None) is None:
            return document
        node = copy.deepcopy(document.node)
        self._include(node, document.source, self.folder, 0)
        return Element(node, document.source)

    def _include(self, node: etree._Element, source: str, folder: str, depth: int) -> None:
        for include in list(_tagged(node, "include")):
            element = Element(include, source)
            path = self._path(element, include.get("file") or "", folder)
            if path is None or len(include):
                continue
            if depth >= DEEPEST:
                raise element.error(f"files include one another more than {DEEPEST} deep")
            part = parse(_read(element, path), path).node
            self._include(part, path, os.path.dirname(path), depth + 1)
            include.set("file", path)
            include.append(part)

    def _path(self, element: Element, name: str, folder: str) -> str | None:
        """Returns the path of a file that an element names, if it exists."""
        paths = [os.path.join(base, name) for base in (self.folder, folder)]
        return next((path for path in paths if name and _status(path) is not None), None)

    def copied(self, document: Element, around: tuple[str, ...]) -> float:
        """Returns the number of elements after all copies; raises ModelError for too many.

        around: the files that attach this one.
        """
        folders = {self.folder} | {
            os.path.join(self.folder, value)
            for compiler in _tagged(document.node, "compiler")
            for key in FOLDERS
            if (value := compiler.get(key))
        }
        for node, times in _walk(document.node):
            _check_files(node, document, folders)
            _check_size(node, document, times)
            _check_finite(node, document)
            if _tag(node) == "model":
                self.models[node.get("name") or ""] = self._model(placed(node, document), around)
        return self._count(document)

    def _model(self, element: Element, around: tuple[str, ...]) -> float:
        """Returns the number of elements of an attached model."""
        path = self._path(element, element.node.get("file") or "", self.folder)
        if path is None:
            return 0.0
        real = os.path.realpath(path)
        if real in around or len(around) > DEEPEST:
            raise element.error(f"the model {quoted(path)} attaches itself")
        reader = _Reader(os.path.dirname(path))
        document = reader.merged(parse(_read(element, path), path))
        return reader.copied(document, (*around, real))

    def _count(self, document: Element) -> float:
        """Returns the number of elements of a document with its copies; raises ModelError."""
        count, copies, at_fault = 0, 0.0, None
        attached = _Attached(document.node, self.models)
        for node, times in _walk(document.node):
            count += 1
            size = attached.of(node) if _tag(node) == "attach" else 1.0
            copies += times * size - (size == 1)
            if copies > COPIES and at_fault is None:
                at_fault = placed(next(_around(node, "replicate"), node), document)
        if at_fault is not None:
            raise at_fault.error(
                f"<replicate> and <attach> make {copies:.3g} elements in all; wanted {COPIES:,} "
                "or fewer"
            )
        return count + copies


@dataclass
class _Attached:
    """The number of elements that an <attach> copies."""

    root: etree._Element
    models: dict[str, float]
    known: dict[str, float] = field(default_factory=dict)

    def of(self, attach: etree._Element) -> float:
        if (model := attach.get("model")) is not None:
            return self.models.get(model, 0.0)
        return self._body(attach.get("body") or attach.get("frame") or "", 0)

    def _body(self, name: str, depth: int) -> float:
        """Returns the size of a body of the document itself, which may itself attach others."""
        if name not in self.known:
            self.known[name] = 0.0  # of what attaches itself, only what is already there is copied
            bodies = (n for n in self.root.iter(etree.Element) if n.get("name") == name)
            body = next((n for n in bodies if _tag(n) in ("body", "frame")), None)
            size = 0.0
            for node in () if body is None else body.iter(etree.Element):
                deeper = _tag(node) == "attach" and depth < DEEPEST and node.get("model") is None
                size += self._body(node.get("body") or "", depth + 1) if deeper else self._one(node)
            self.known[name] = size
        return self.known[name]

    def _one(self, node: etree._Element) -> float:
        return self.of(node) if _tag(node) == "attach" and node.get("model") is not None else 1.0


def placed(node: etree._Element, document: Element) -> Element:
    """Returns an element of a merged document with the name of its file."""
    include = next(_around(node, "include"), None)
    return Element(node, document.source if include is None else include.get("file", ""))


def _tag(node: etree._Element) -> str:
    return str(node.tag).rpartition("}")[2].lower()  # as MuJoCo compares some of them


def _tagged(node: etree._Element, tag: str) -> Iterator[etree._Element]:
    return (n for n in node.iter(etree.Element) if _tag(n) == tag)


def _walk(root: etree._Element) -> Iterator[tuple[etree._Element, float]]:
    """Yields every element, and how often it is there once <replicate> has copied it."""
    times = [1.0]
    for event, node in etree.iterwalk(root, events=("start", "end")):
        if event == "end":
            times.pop()
            continue
        times.append(times[-1] * (_number(node, "count") if _tag(node) == "replicate" else 1.0))
        yield node, times[-1]


def _around(node: etree._Element, tag: str) -> Iterator[etree._Element]:
    return (n for n in node.iterancestors(etree.Element) if _tag(n) == tag)


def _number(node: etree._Element, attribute: str) -> float:
    """Returns the product of an attribute's numbers, 1 where it has none."""
    try:
        return math.prod(max(float(word), 1.0) for word in node.get(attribute, "").split())
    except ValueError:
        return 1.0


# Files


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _read(element: Element, path: str) -> bytes:
    try:
        return content(path)
    except (OSError, ValueError) as error:
        raise _unreadable(element, path, error) from None


def _unreadable(element: Element, path: str, error: Exception) -> ModelError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return element.error(f"{quoted(path)} cannot be read: {reason}")


def _check_files(node: etree._Element, document: Element, folders: Iterable[str]) -> None:
    """Raises ModelError for a file that is none, or too large, wherever MuJoCo may look for it."""
    for name in filter(None, map(node.get, FILES)):
        for path in {os.path.join(f, n) for f in folders for n in (name, os.path.basename(name))}:
            status = _status(path)
            if status is not None and not os.path.isdir(path):
                try:
                    check_regular(status, LARGEST_ASSET)
                except ValueError as error:
                    raise _unreadable(placed(node, document), path, error) from None


# Numbers and sizes


def _check_finite(node: etree._Element, document: Element) -> None:
    """Raises ModelError for numbers that are not finite, on which the compiler may not end.

    A range may be infinite, which is how files say that there is none.
    """
    for name, value in node.attrib.items():
        words = [word for word in value.split() if NOT_FINITE.fullmatch(word)]
        is_range = str(name).endswith("range") and "nan" not in value.lower()
        if words and not is_range and not NAMES.fullmatch(str(name)):
            problem = f"{name} holds {quoted(value)}; wanted finite numbers"
            raise placed(node, document).error(problem)


def _check_size(node: etree._Element, document: Element, times: float) -> None:
    """Raises ModelError for elements that ask for so much memory that MuJoCo hangs."""
    for attributes, most in (LARGEST.get(_tag(node), BUFFER), BUFFER):
        size = math.prod([times, *(_number(node, a) for a in attributes)])
        if any(map(node.get, attributes)) and not size <= most:
            values = ", ".join(f"{a} {quoted(node.get(a, ''))}" for a in attributes)
            problem = f"{values}: this makes {size:.3g} in all; wanted {most:g} or less"
            raise placed(node, document).error(problem)
