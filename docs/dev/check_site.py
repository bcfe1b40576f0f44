"""Checks the built site: every link, anchor and image inside of it, that anchors are unique, and
what the search finds. `mkdocs build --strict && python docs/dev/check_site.py [FOLDER]`
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[2] / "build" / "site"
SEARCHED = {  # what people search for, and the page that has to be among those found
    "crba": "coming_from/pinocchio/",
    "computeRNEADerivatives": "coming_from/pinocchio/",
    "mj_inverse": "coming_from/mujoco/",
    "mj_fullM": "coming_from/mujoco/",
    "CalcMassMatrix": "coming_from/drake/",
    "inverse_dynamics_gradient": "coming_from/grid/",
    "dID": "reference/",
    "fast": "speed/",
    "map_store": "reference/frameworks/",
}


FIELDS = ("first_names", "title", "tags", "longer_names")  # of an entry, the weightiest first
FIRST = {  # names, most of other libraries, and our name that the search has to show first
    "rnea": "dynamics/#featherlane.Model.inverse_dynamics",
    "mj_inverse": "dynamics/#featherlane.Model.inverse_dynamics",
    "aba": "dynamics/#featherlane.Model.forward_dynamics",
    "mj_forward": "dynamics/#featherlane.Model.forward_dynamics",
    "crba": "dynamics/#featherlane.Model.mass_matrix",
    "computeMinverse": "dynamics/#featherlane.Model.mass_matrix_inverse",
    "computeJointTorqueRegressor": "dynamics/#featherlane.Model.inverse_dynamics_regressor",
    "mj_jac": "kinematics/#featherlane.Model.jacobian",
    "ddp": "tasks/#featherlane.ilqr",
    "ilqr": "tasks/#featherlane.ilqr",
    "com": "kinematics/#featherlane.Model.center_of_mass",
    "payload": "robots/#featherlane.Model.with_payload",
}


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


def searched(site: Path) -> dict[str, Any]:
    """The index of the search."""
    path = site / "search" / "search_index.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def not_first(site: Path) -> Iterator[str]:
    """A line for every name that is not in the entry of our name alone: the search weighs the
    fields in this order, and finds their words by how they begin.
    """
    entries = searched(site)["docs"]
    for name, location in FIRST.items():
        first = next(
            filter(None, (with_name(entries, field, name.lower()) for field in FIELDS)), set()
        )
        if first != {f"reference/{location}"}:
            yield f"the search for {name} finds {sorted(first)} and not {location} first"


def with_name(entries: list[dict[str, Any]], field: str, start: str) -> set[str]:
    """Where the entries are of which a name in a field, or a word of the title, begins so."""
    return {
        entry["location"]
        for entry in entries
        if any(name.startswith(start) for name in names_in(entry, field))
    }


def names_in(entry: dict[str, Any], field: str) -> list[str]:
    """The names in a field of an entry, or the words of its title."""
    if field != "title":
        return list(entry.get(field, ()))
    return re.split(r"[^\w]+", re.sub("<[^>]*>", " ", entry["title"]).lower())


def unfound(site: Path) -> Iterator[str]:
    """A line for every name by which the search does not find its page: the search finds words by
    how they begin, so that a name inside of `pin.crba(model,` has to be a word of its own.
    """
    index = searched(site)
    separator, found = re.compile(index["config"]["separator"]), dict[str, set[str]]()
    for entry in index["docs"]:
        text = re.sub("<[^>]*>", " ", f"{entry['title']} {entry['text']}").lower()
        words = (re.sub(r"^\W+|\W+$", "", word) for word in separator.split(text))
        found.setdefault(entry["location"].partition("#")[0], set()).update(words)
    for name, page in SEARCHED.items():
        if not any(word.startswith(name.lower()) for word in found.get(page, ())):
            yield f"the search for {name} does not find {page}"


if __name__ == "__main__":
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else SITE
    wrong = [*broken(site), *unfound(site), *not_first(site)]
    print(*wrong, f"{len(wrong)} problems in {site}", sep="\n")
    sys.exit(bool(wrong))
