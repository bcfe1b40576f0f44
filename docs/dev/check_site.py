"""Checks the built site: every link, anchor and image inside of it, that anchors are unique, and
what the search finds. `mkdocs build --strict && python docs/dev/check_site.py [FOLDER]`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[2] / "build" / "site"
SEARCHED = ("crba", "computeRNEADerivatives", "mj_inverse", "mj_fullM", "rnea", "aba", "dID")


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {"", "__top"}
        self.twice: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id") in self.anchors:
            self.twice.append(str(found["id"]))
        self.anchors |= {x for x in (found.get("id"), found.get("name")) if x}
        self.links += [x for x in (found.get("href"), found.get("src")) if x]


def target(site: Path, page: Path, path: str) -> Path:
    """The file to which a link of a page leads."""
    path = unquote(path)
    if not path:
        return page.resolve()
    found = site / path.lstrip("/") if path.startswith("/") else page.parent / path
    return (found / "index.html" if found.is_dir() else found).resolve()


def broken(site: Path) -> Iterator[str]:
    """A line for every link of the site that leads nowhere; those to other sites are not tried."""
    site = site.resolve()
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        yield from (f"{path.relative_to(site)}: two anchors {name}" for name in page.twice)
        for link in page.links if path.name != "404.html" else ():  # of no folder: from the root
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            found = target(site, path, parts.path)
            if not found.exists():
                yield f"{path.relative_to(site)}: {link} does not exist"
            elif found in pages and unquote(parts.fragment) not in pages[found].anchors:
                yield f"{path.relative_to(site)}: {link} has no such anchor"


def unfound(site: Path) -> Iterator[str]:
    """A line for every name that the index of the search lacks."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    text = " ".join(entry["text"] for entry in index["docs"])
    yield from (f"the search does not find {name}" for name in SEARCHED if name not in text)


if __name__ == "__main__":
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else SITE
    wrong = [*broken(site), *unfound(site)]
    print(*wrong, f"{len(wrong)} problems in {site}", sep="\n")
    sys.exit(bool(wrong))
