"""Links inside of the reference: names of the package that stand as code in a text lead to their
entries, and documents that docstrings name to their pages. A hook of MkDocs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parents[1] / "reference"
SHOWN = re.compile(r"^::: (featherlane\.\S+)", re.MULTILINE)
CODE = re.compile(r"(?<!<b>)<code>([\w.]+)</code>(?!</a>)")  # arguments are bold
DOCUMENT = re.compile(r"\bdocs/([\w/]+)\.md")


def entries() -> dict[str, str]:
    """{name: page with anchor} of the names that the reference shows, as texts write them: those
    that stand for one entry alone.
    """
    found: dict[str, set[str]] = {}
    for page in REFERENCE.glob("*.md"):
        folder = "" if page.stem == "index" else f"{page.stem}/"
        for path in SHOWN.findall(page.read_text(encoding="utf-8")):
            for name in _names(path):
                found.setdefault(name, set()).add(f"{folder}#{path}")
    return {name: places.pop() for name, places in found.items() if len(places) == 1}


def _names(path: str) -> Iterator[str]:
    """The ways to write an entry: featherlane.Model.step as Model.step and step."""
    short = path.removeprefix("featherlane.")
    yield from (path, short, f"fl.{short}", path.rpartition(".")[2])


def is_name(word: str) -> bool:
    """Whether a word is surely a name: `mass` may be an argument or a parameter."""
    return "_" in word or "." in word or word[0].isupper()


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    if not page.file.src_uri.startswith("reference/"):
        return html
    places = entries()
    of_tasks = page.file.name == "index"  # its table has names alone
    up = "" if of_tasks else "../"

    def linked(code: re.Match[str]) -> str:
        place = places.get(code[1]) if of_tasks or is_name(code[1]) else None
        return code[0] if place is None else f'<a href="{up}{place}">{code[0]}</a>'

    return DOCUMENT.sub(rf'<a href="{up}../\1/">\1</a>', CODE.sub(linked, html))
