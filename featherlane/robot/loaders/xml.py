"""Parsing of untrusted XML: no entities, no network; errors name file, line and element."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lxml import etree

from featherlane.errors import ModelError
from featherlane.robot.loaders.files import check_length
from featherlane.robot.loaders.repairs import DECLARED, repaired
from featherlane.robot.loaders.words import LISTED, listed, quoted, shortened
from featherlane.robot.parts import Floats

# Possessive quantifiers (++) never try again with fewer digits: the time is linear.
NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?", re.ASCII)
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
XACRO = "xacro"
EXPAND = (
    "a xacro file must be expanded first: pip install 'featherlane[xacro]' and load it as "
    "it is, or run xacro robot.xacro > robot.urdf"
)
TAGS = 500_000  # of opening and closing: robots of so many load within two minutes
TOO_DEEP = "Excessive depth"  # in libxml2's message
DEEPEST = (
    "its elements are nested too deeply; wanted 2,000 inside one another or fewer, or 250 in a "
    "document with a DOCTYPE or in another encoding than UTF-8"
)
OPTION = re.compile(r"[,;]?\s*(?:\b(?:try|use)\s+)?XML_PARSE_\w+(?:\s+option)?")
LFS_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/.*", re.DOTALL)
LFS = "this is a pointer of Git LFS, not the file itself: run git lfs pull in its repository"
INFINITY = re.compile(r"[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Element:
    """An element of a robot file, with the file's name for messages."""

    node: etree._Element
    source: str

    @property
    def tag(self) -> str:
        """The tag with its prefix: a prefixed element belongs to another format."""
        name = self.node.tag.rpartition("}")[2]
        return f"{self.node.prefix}:{name}" if self.node.prefix else name

    @property
    def where(self) -> str:
        """The element's place: 'arm.urdf, line 12: joint 'elbow', <axis>'."""
        path = [self.node]
        while path[-1].get("name") is None and path[-1].getparent() is not None:
            path.append(path[-1].getparent())
        path.reverse()
        left_out = [", ..."] if len(path) > LISTED else []
        tags = [shortened(Element(node, self.source).tag) for node in path[:1] + path[1:][-LISTED:]]
        name = path[0].get("name")
        first = f"<{tags[0]}>" if name is None else f"{tags[0]} {quoted(name)}"
        inside = "".join(left_out + [f", <{tag}>" for tag in tags[1:]])
        return f"{self.source}, line {self.node.sourceline}: {first}{inside}"

    def error(self, complaint: str) -> ModelError:
        return ModelError(f"{self.where}: {complaint}")

    def children(self) -> Iterator[Element]:
        """Yields the child elements, without comments and processing instructions."""
        return (Element(node, self.source) for node in self.node.iterchildren(etree.Element))

    def child(self, tag: str) -> Element | None:
        """Returns the child element of this tag, if there is one; an equal one beside it says
        nothing else, a different one is an error.
        """
        elements = [c for c in self.children() if c.tag == tag]
        for other in elements[1:]:
            if _content(other.node) != _content(elements[0].node):
                first = elements[0].node.sourceline
                raise other.error(f"there is another <{tag}> on line {first}; wanted one")
        return elements[0] if elements else None

    def required(self, tag: str) -> Element:
        child = self.child(tag)
        if child is None:
            raise self.error(f"there is no <{tag}> in it, and one is required")
        return child

    def text(self, attribute: str) -> str:
        """Returns an attribute, which must be present and not blank."""
        value = self.node.get(attribute)
        if value is None or not value.strip():
            what = "is missing" if value is None else "is empty"
            raise self.error(f"its attribute '{attribute}' {what}")
        return str(value)

    def numbers(self, attribute: str, default: str | None = None, *, count: int = 3) -> Floats:
        """Returns the numbers of an attribute, which must be present if it has no default."""
        value = self.node.get(attribute, default)
        words = self.text(attribute).split() if value is None else value.split()
        if len(words) != count:
            wanted = f"{count} numbers" if count > 1 else "one number"
            problem = f"{attribute} holds {quoted(' '.join(words))}; wanted {wanted}"
            raise self.error(problem + expansion_hint(value or ""))
        return tuple(self._number(attribute, word) for word in words)

    def number(self, attribute: str, default: str | None = None) -> float:
        return self.numbers(attribute, default, count=1)[0]

    def limit(self, attribute: str, default: float) -> float:
        """Returns a number that may be infinite, or larger than a float can be."""
        value = self.node.get(attribute)
        if value is None:
            return default
        word = value.strip()
        is_huge = NUMBER.fullmatch(word) and math.isinf(float(word))
        return float(word) if is_huge or INFINITY.fullmatch(word) else self.number(attribute)

    def _number(self, attribute: str, word: str) -> float:
        if not NUMBER.fullmatch(word) or not math.isfinite(float(word)):
            problem = f"{attribute} holds {quoted(word)}; wanted a finite number"
            raise self.error(problem + expansion_hint(word))
        return float(word)


def _content(node: etree._Element) -> list[object]:
    """Returns tags and attributes of an element and all in it, in a form that is compared."""
    return [
        (one.tag, {name: [*map(_word, value.split())] for name, value in one.attrib.items()})
        for one in node.iter(etree.Element)
    ]


def _word(word: str) -> float | str:
    return float(word) if NUMBER.fullmatch(word) else word


def unexpanded(value: str) -> bool:
    """Tells whether a value holds an expression of xacro, ${...} or $(...)."""
    return "${" in value or "$(" in value


def expansion_hint(value: str) -> str:
    return f"; {EXPAND}" if unexpanded(value) else ""


class Document(NamedTuple):
    """A text that is well-formed: itself or, with notes on each kind of fault, repaired."""

    root: Element
    text: str | bytes
    notes: tuple[str, ...] = ()


def parse(text: str | bytes, source: str) -> Element:
    """Returns the root element of a text. Raises as `parsed_document` does."""
    return parsed_document(text, source).root


def parsed_document(text: str | bytes, source: str) -> Document:
    """Returns a parsed document, repaired if it is not well-formed; ModelError if it then still is
    not, or declares entities.
    """
    try:
        # A str is decoded already, whatever encoding its declaration names.
        data = text.encode("utf-8") if isinstance(text, str) else text
        _check_amount(data)
        if LFS_POINTER.match(data):
            raise ValueError(LFS)
        document = _parsed(_declaration_first(data), text, source)
    except UnicodeError as error:
        raise ModelError(f"{source}: not text that an XML file may hold: {error}") from None
    except ValueError as error:
        raise error if isinstance(error, ModelError) else ModelError(f"{source}: {error}") from None
    _refuse_entities(document.root.node, source)
    return document


def _parsed(data: bytes, text: str | bytes, source: str) -> Document:
    """Parses a text strictly; only one that is refused is repaired, so that others lose no time."""
    encoding = "utf-8" if isinstance(text, str) else None
    try:
        return Document(Element(_root(data, encoding), source), text)
    except etree.XMLSyntaxError as error:
        better, notes = repaired(data)
        if not notes:
            raise _syntax_error(error, data, source) from None
    check_length(len(better))
    try:
        return Document(Element(_root(better, encoding), source), better, notes)
    except etree.XMLSyntaxError as error:
        raise _syntax_error(error, data, source) from None


def _check_amount(data: bytes) -> None:
    """Raises ValueError for more than can be read in seconds."""
    check_length(len(data))
    if (tags := data.count(b"<")) > TAGS:
        raise ValueError(f"it has {tags:,} tags; wanted {TAGS:,} or fewer")


def _root(data: bytes, encoding: str | None) -> etree._Element:
    """Parses a document, one nested more than 256 deep only if it plainly declares no entities.

    libxml2 gives up its limit on the depth only together with its limits on entity expansion.
    """
    try:
        return etree.fromstring(data, _parser(encoding))
    except etree.XMLSyntaxError as error:
        if TOO_DEEP not in str(error.msg) or not _is_plain(data, encoding):
            raise
        return etree.fromstring(data, _parser("utf-8", huge_tree=True))


def _is_plain(data: bytes, encoding: str | None) -> bool:
    """Tells whether a text is UTF-8 without a DOCTYPE, which other encodings could hide."""
    declared = DECLARED.match(data)
    utf8 = encoding or declared is None or declared[1].lower() in (b"utf-8", b"us-ascii", b"ascii")
    return bool(utf8) and b"<!DOCTYPE" not in data and b"\0" not in data


def _syntax_error(error: etree.XMLSyntaxError, data: bytes, source: str) -> ModelError:
    if b"\0" in data[:1024] and not data.startswith(UTF16_MARKS):
        return ModelError(f"{source}: this is a binary file; wanted XML text")
    reason = (error.msg or "no XML in it").rsplit(", line", 1)[0].strip()
    if TOO_DEEP in reason:
        return ModelError(f"{source}, line {error.lineno}: {DEEPEST}")
    reason = OPTION.sub("", reason)
    hint = f"; {EXPAND}" if XACRO in reason else ""
    return ModelError(f"{source}, line {error.lineno}: not well-formed XML: {reason}{hint}")


def _parser(encoding: str | None, huge_tree: bool = False) -> etree.XMLParser:
    return etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=huge_tree,
        remove_comments=True,
        remove_pis=True,
    )


def _declaration_first(data: bytes) -> bytes:
    """Moves the XML declaration to the front of a text that starts with line breaks.

    Python's triple-quoted texts often do. The breaks follow the declaration, so that line numbers
    stay those of the text.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    rest = data.lstrip()
    end = rest.find(b"?>") + 2
    if len(rest) == len(data) or not rest.startswith(b"<?xml") or end < 2:
        return data
    return rest[:end] + data[: len(data) - len(rest)] + rest[end:]


def _refuse_entities(root: etree._Element, source: str) -> None:
    dtd = root.getroottree().docinfo.internalDTD
    names = [entity.name for entity in dtd.entities()] if dtd is not None else []
    if names:
        raise ModelError(
            f"{source}: its DOCTYPE declares entities ({listed(names)}); they can make a small "
            "file endlessly large and are never expanded here: write the text out in full"
        )
