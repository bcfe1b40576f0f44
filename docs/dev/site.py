"""What the site adds to MkDocs: folders in the navigation, and links to files that are no pages."""

from __future__ import annotations

import logging
import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import Files

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
SHOWN = {".md", ".ipynb", ".html", ".svg", ".png"}  # what the site has; else see the repository
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(?=[)#])")
ELSEWHERE = {  # types of other packages, in signatures
    "numpy.ndarray": "https://numpy.org/doc/stable/reference/generated/numpy.ndarray.html",
    "pathlib.Path": "https://docs.python.org/3/library/pathlib.html#pathlib.Path",
    "os.PathLike": "https://docs.python.org/3/library/os.html#os.PathLike",
    "typing.Any": "https://docs.python.org/3/library/typing.html#typing.Any",
    "typing.Literal": "https://docs.python.org/3/library/typing.html#typing.Literal",
    **{
        f"collections.abc.{name}": f"https://docs.python.org/3/glossary.html#term-{term}"
        for name, term in (
            ("Callable", "callable"),
            ("Iterable", "iterable"),
            ("Mapping", "mapping"),
            ("Sequence", "sequence"),
        )
    },
}
log = logging.getLogger("mkdocs.hooks")


def pages_of(folder: Path) -> list[str]:
    """The pages of a folder by their path in docs/: index.md, then in the order of its links, which
    is that of a reader and not of the alphabet.
    """
    index = folder / "index.md"
    linked = [index.name, *LINK.findall(index.read_text(encoding="utf-8"))]
    place = {name: k for k, name in reversed(list(enumerate(linked)))}
    pages = [path for path in folder.glob("*.*") if path.suffix in (".md", ".ipynb")]
    pages.sort(key=lambda path: (place.get(path.name, len(linked)), path.name))
    return [path.relative_to(DOCS).with_suffix(".md").as_posix() for path in pages]


def expanded(entry: Any) -> list[Any]:
    """An entry of the navigation, with all pages of a folder where it ends in "/"; nothing for a
    page that is not there: one under a wrong name is reported as a page without an entry.
    """
    if isinstance(entry, str):
        known = [entry] if (DOCS / entry).exists() else []
        return pages_of(DOCS / entry) if entry.endswith("/") else known
    if isinstance(entry, list):
        return [page for inside in entry for page in expanded(inside)]
    ((title, inside),) = entry.items()
    if isinstance(inside, str) and not inside.endswith("/"):
        return [{title: page} for page in expanded(inside)]
    return [{title: pages}] if (pages := expanded(inside)) else []


def on_config(config: Any) -> Any:
    config.nav = expanded(config.nav)
    return config


def on_pre_build(config: Any) -> None:
    for name, address in ELSEWHERE.items():
        config.plugins["autorefs"].register_url(name, address)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files that the site does not have lead to the repository; the files must exist."""

    def to_repository(match: re.Match[str]) -> str:
        folder = (DOCS / page.file.src_uri).parent
        path = Path(os.path.normpath(folder / match[1]))
        if path.suffix == ".ipynb" and path.stem != Path(page.file.src_uri).stem:
            return match[0].removesuffix(".ipynb") + ".md"  # its page, not the file
        if path.is_relative_to(DOCS) and path.suffix in SHOWN:
            return match[0]  # MkDocs checks it
        if not path.exists():
            log.warning(f"{page.file.src_uri} links to {match[1]}, which does not exist")
        repository = config.extra["repository"]
        return f"{repository}/blob/main/{path.relative_to(ROOT).as_posix()}"

    return LINK.sub(to_repository, markdown)
