"""Repairs of XML that is not well-formed, but that the readers of URDF and MJCF take.

urdfdom and MuJoCo read with TinyXML-2, which checks less than a parser of XML. Repairs are made
after the strict parser has refused a text; they keep its lines, and the result is parsed as
strictly as any other text. A text with a DOCTYPE is never repaired.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import NamedTuple

from lxml import etree

DECLARED = re.compile(rb"""(?:\xef\xbb\xbf)?\s*<\?xml[^>]*?encoding\s*=\s*["']([^"']*)""")
NOTE = "not well-formed XML, read as urdfdom and MuJoCo read it"

# Possessive quantifiers (++) never try again with fewer characters: the time is linear.
TAG = re.compile(rb"""<[^<>"']*+(?:"[^<"]*+"[^<>"']*+|'[^<']*+'[^<>"']*+)*+>""")
VALUE = re.compile(rb""""[^<"]*+"|'[^<']*+'""")
GLUED = re.compile(rb"""("[^<"]*+"|'[^<']*+')([\w:]?)""")  # a value, and a name that follows it
AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});)")
PREFIX = re.compile(rb"(?:^</?|\s)([A-Za-z_][\w.-]*+):[A-Za-z_]")
CONTROL = re.compile(r"[^\t\r\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NO_LINE = re.compile(rb"[^\r\n]")  # characters that a comment may lose without a change of lines
PLAIN_DECLARATION = re.compile(
    rb"""<\?xml\s+version\s*=\s*(["'])1\.\d++\1(?:\s+encoding\s*=\s*(?:"[\w.-]++"|'[\w.-]++'))?"""
    rb"""(?:\s+standalone\s*=\s*(?:"(?:yes|no)"|'(?:yes|no)'))?\s*\?>"""
)
ENCODING = re.compile(rb"""encoding\s*=\s*["']?([A-Za-z][\w.-]*+)""")
ENCODING_NAMED = re.compile(rb"""\s+encoding\s*=\s*(?:"[^"]*+"|'[^']*+')""")
INSTRUCTION = re.compile(rb"<\?(?!xml[\s?])[A-Za-z_][\w.-]*+[\s?]")


class Kind(Enum):
    """A piece of XML: `DECLARATION` is an instruction <?...?> that begins the text."""

    DECLARATION = auto()
    INSTRUCTION = auto()
    COMMENT = auto()
    CDATA = auto()
    TAG = auto()
    TEXT = auto()


SECTIONS = (
    (b"<!--", b"-->", Kind.COMMENT),
    (b"<![CDATA[", b"]]>", Kind.CDATA),
    (b"<?", b"?>", Kind.INSTRUCTION),
)


class Repair(NamedTuple):
    """A repair of pieces of some kinds; `change` leaves a piece without this fault as it is."""

    title: str
    kinds: tuple[Kind, ...]
    change: Callable[[bytes], bytes]


def repaired(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Returns a text without the faults of the table `REPAIRS`, and a note for each kind of fault
    with its first line; the text itself and no notes where there are none.
    """
    if b"<!DOCTYPE" in data:
        return data, ()
    text, places = data.rstrip(b"\0"), dict[str, list[int]]()
    if text != data:
        places["zero bytes at its end"] = [data.count(b"\n") + 1]
    if b"\0" in text:  # another encoding, or no text
        return data, ()
    line, pieces = 1, list[tuple[Kind, bytes]]()
    for kind, piece in _pieces(text):
        for title, kinds, change in REPAIRS:
            if kind in kinds and (better := change(piece)) != piece:
                places.setdefault(title, []).append(line)
                piece = better
        line += piece.count(b"\n")
        pieces.append((kind, piece))
    if prefixes := _declare_prefixes(pieces):
        title = f"prefixes without a namespace ({', '.join(prefixes)})"
        places[title] = [min(prefixes.values())]
    notes = tuple(f"{NOTE}: {title} ({_lines(at)})" for title, at in places.items())
    return b"".join(piece for _, piece in pieces), notes


def _lines(lines: list[int]) -> str:
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    return f"line {lines[0]}{more}"


def _pieces(data: bytes) -> Iterator[tuple[Kind, bytes]]:
    """Splits a text; what is not closed is its last piece."""
    at = 0
    while at < len(data):
        kind, end = _piece(data, at)
        yield kind, data[at:end]
        at = end


def _piece(data: bytes, at: int) -> tuple[Kind, int]:
    """Returns the kind and the end of the piece that begins at a place."""
    for opening, closing, kind in SECTIONS:
        if data.startswith(opening, at):
            end = data.find(closing, at + len(opening))
            first = kind is Kind.INSTRUCTION and at == 0
            return (Kind.DECLARATION if first else kind), _after(end, closing, data)
    if tag := TAG.match(data, at):
        return Kind.TAG, tag.end()
    end = data.find(b"<", at + 1)
    return Kind.TEXT, _after(end, b"", data)


def _after(end: int, closing: bytes, data: bytes) -> int:
    return len(data) if end < 0 else end + len(closing)


# The repairs


def _declaration(piece: bytes) -> bytes:
    """Returns a declaration of version 1.0 with the encoding, if it is one."""
    if PLAIN_DECLARATION.fullmatch(piece) or INSTRUCTION.match(piece):
        return piece
    encoding = ENCODING.search(piece)
    named = b' encoding="' + encoding[1] + b'"' if encoding else b""
    return b'<?xml version="1.0"' + named + b"\n" * piece.count(b"\n") + b"?>"


def _encoding(piece: bytes) -> bytes:
    """Returns a declaration without an encoding that does not exist: the text is read as UTF-8."""
    encoding = ENCODING.search(piece)
    return piece if encoding is None or _exists(encoding[1]) else ENCODING_NAMED.sub(b"", piece)


def _exists(encoding: bytes) -> bool:
    try:
        etree.XMLParser(encoding=encoding.decode())
    except LookupError:
        return False
    return True


def _instruction(piece: bytes) -> bytes:
    return piece if INSTRUCTION.match(piece) else _blank(piece)


def _blank(piece: bytes) -> bytes:
    return NO_LINE.sub(b" ", piece)


def _with_blanks(tag: bytes) -> bytes:
    return GLUED.sub(lambda m: m[1] + b" " + m[2] if m[2] else m[1], tag)


def _with_entities(piece: bytes) -> bytes:
    return AMPERSAND.sub(b"&amp;", piece)


def _without_hyphens(comment: bytes) -> bytes:
    """Returns a comment without "--" inside, blank if it had one."""
    inside = comment.removeprefix(b"<!--").removesuffix(b"-->")
    faulty = b"--" in inside or inside.endswith(b"-")
    return b"<!--" + _blank(inside) + b"-->" if faulty and comment.endswith(b"-->") else comment


def _in_utf8(comment: bytes) -> bytes:
    """Returns a comment, blank if it is not text in UTF-8."""
    try:
        is_text = not CONTROL.search(comment.decode())
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        inside = comment.removeprefix(b"<!--").removesuffix(b"-->")
        return b"<!--" + _blank(inside) + b"-->" * comment.endswith(b"-->")
    return comment


REPAIRS = (
    Repair("an encoding that does not exist, UTF-8 taken", (Kind.DECLARATION,), _encoding),
    Repair("the declaration is not one of XML 1.0", (Kind.DECLARATION,), _declaration),
    Repair("an instruction <?...?> that XML does not know", (Kind.INSTRUCTION,), _instruction),
    Repair("no blank between attributes", (Kind.TAG,), _with_blanks),
    Repair("ampersands that stand for themselves", (Kind.TAG, Kind.TEXT), _with_entities),
    Repair("double hyphens in comments", (Kind.COMMENT,), _without_hyphens),
    Repair("comments in another encoding", (Kind.COMMENT,), _in_utf8),
)


def _declare_prefixes(pieces: list[tuple[Kind, bytes]]) -> dict[str, int]:
    """Declares prefixes that have no namespace in the first tag; returns the line of each."""
    used, declared = dict[bytes, int](), {b"xml", b"xmlns"}
    first, line = len(pieces), 1
    for n, (kind, piece) in enumerate(pieces):
        if kind is Kind.TAG:
            first = min(first, n)
            if b":" in (tag := VALUE.sub(b'""', piece)):
                used = dict.fromkeys(PREFIX.findall(tag), line) | used
                declared |= {*re.findall(rb"\sxmlns:([\w.-]++)", tag)}
        line += piece.count(b"\n")
    missing = sorted({*used} - declared)
    if missing:
        root = pieces[first][1]
        name = re.match(rb"<[^\s/>]++", root)
        end = name.end() if name else 1
        new = b"".join(b' xmlns:%b="urn:%b"' % (prefix, prefix) for prefix in missing)
        pieces[first] = Kind.TAG, root[:end] + new + root[end:]
    return {prefix.decode(): used[prefix] for prefix in missing}
