"""What the site adds to MkDocs: folders in the navigation, links to files that are no pages."""

from __future__ import annotations

import logging
import os.path
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
SHOWN = {
    ".md",
    ".ipynb",
    ".html",
    ".svg",
    ".png",
}  # what the site has; all else is in the repository
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(?=[)#])")
log = logging.getLogger("mkdocs.hooks")


def pages_of(folder: Path) -> list[str]:
    """The pages of a folder by their path in docs/, index.md first."""
    pages = [path for path in folder.glob("*.*") if path.suffix in (".md", ".ipynb")]
    pages.sort(key=lambda path: (path.stem != "index", path.name))
    return [path.relative_to(DOCS).as_posix() for path in pages]


def expanded(entries: list[Any]) -> list[Any]:
    """The navigation with the pages of each folder, whose entry ends in "/", in its place."""
    result: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and entry.endswith("/"):
            result += pages_of(DOCS / entry)
        elif isinstance(entry, dict):
            for title, inside in entry.items():
                folder = isinstance(inside, str) and inside.endswith("/")
                inside = (
                    expanded([inside] if folder else inside)
                    if folder or isinstance(inside, list)
                    else inside
                )
                if inside:
                    result.append({title: inside})
        else:
            result.append(entry)
    return result


def on_config(config: Any) -> Any:
    config.nav = expanded(config.nav)
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files that the site does not have lead to the repository; the files must exist."""

    def to_repository(match: re.Match[str]) -> str:
        folder = (DOCS / page.file.src_uri).parent
        path = Path(os.path.normpath(folder / match[1]))
        if path.is_relative_to(DOCS) and path.suffix in SHOWN:
            return match[0]  # MkDocs checks it
        if not path.exists():
            log.warning(f"{page.file.src_uri} links to {match[1]}, which does not exist")
        repository = config.extra["repository"]
        return f"{repository}/blob/main/{path.relative_to(ROOT).as_posix()}"

    return LINK.sub(to_repository, markdown)
