"""Other libraries' names in the search: who types `rnea` or `mj_inverse` finds our function first.

A hook of MkDocs. The names are the table of the package, `featherlane/field_names.py`. In the index
of the search they are fields of our name's entry, which weigh more than words of the text, and less
than words of titles: `rnea` finds a function first, and "free joint" the section of that title.
Above titles stand names with which longer words of titles begin, since the search for `com` would
find "Coming from" first, and our names in titles elsewhere, as in "The same with `fl.ilqr`".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority

from featherlane import field_names

TABLES: Mapping[str, Mapping[str, str]] = {
    "featherlane.Model.": field_names.CALLS | field_names.ATTRIBUTES,
    "featherlane.": field_names.OF_MODULE,
}
# A word of a title weighs 1,000, of the text 1
WEIGHTS = {"first_names": 30_000.0, "tags": 300.0, "longer_names": 30.0}
OURS = re.compile(r"^reference/\S*#featherlane\.(\w+)$")
WANTED = {"payload"}  # who types these wants the function, and not the section of that title
SHORTEST = 2  # letters: M, h and g stand for too much


def names() -> dict[str, set[str]]:
    """Other libraries' names of each public name, by its anchor, with and without underscores."""
    return {
        prefix + field_names.name_of(ours): {*_spellings(others)}
        for prefix, table in TABLES.items()
        for ours, others in table.items()
    }


def _spellings(others: str) -> Iterator[str]:
    for name in others.split():
        if len(name) >= SHORTEST:
            yield from (name, field_names.folded(name))


def longer(all_names: Mapping[str, set[str]]) -> set[str]:
    """Names that begin with a name of another entry, as rnea_derivatives with rnea: the search
    finds words by how they begin, so that as tags they would come before the entry of rnea.
    """
    return {
        name
        for anchor, of_entry in all_names.items()
        for name in of_entry
        for other, shorter in all_names.items()
        if other != anchor and any(name.startswith(start) for start in shorter)
    }


def hidden(all_names: Mapping[str, set[str]], titles: set[str]) -> set[str]:
    """Names with which words of titles begin, but that are no such word themselves."""
    every = set().union(*all_names.values())
    begun = {name for name in every for word in titles if word.startswith(name)}
    return begun - titles - {word.removesuffix("s") for word in titles}


@event_priority(-100)  # after the search has written its index
def on_post_build(config: Any) -> None:
    path = Path(config.site_dir) / "search" / "search_index.json"
    index, all_names = json.loads(path.read_text(encoding="utf-8")), names()
    titles = [re.sub("<[^>]*>", " ", entry["title"]).lower() for entry in index["docs"]]
    separator = re.compile(index["config"]["separator"])
    words = {word.strip(".'?") for title in titles for word in separator.split(title)}
    named = {name for title in titles for name in re.findall(r"\bfl\.(\w+)", title)}
    after, before = longer(all_names), hidden(all_names, words) | named | WANTED
    index["config"]["fields"] |= {field: {"boost": weight} for field, weight in WEIGHTS.items()}
    for entry in index["docs"]:
        of_entry = all_names.get(entry["location"].partition("#")[2], set())
        ours = {*OURS.findall(entry["location"])}
        shares = {
            "first_names": (of_entry | ours) & before,
            "tags": of_entry - after,
            "longer_names": of_entry & after,
        }
        entry |= {field: sorted(share) for field, share in shares.items() if share}
    path.write_text(json.dumps(index, separators=(",", ":")), encoding="utf-8")
