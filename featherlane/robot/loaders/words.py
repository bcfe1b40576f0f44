"""How messages and notes of the loaders are worded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

WARNING = "warning: "  # how a note begins that the user should not overlook
SHOWN = 60  # characters of a file's own text in a message
LISTED = 8  # names in a message before "and 12 more"
COMPARED = 1000  # names that a wrong one is compared with


def quoted(text: str) -> str:
    """A name or value from a file, fit for one line of a message."""
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 3] + "...")


def listed(names: Sequence[str], separator: str = ", ") -> str:
    """Names in quotes, with "... and 12 more" where they are too many for a message."""
    more = f" ... and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return separator.join(map(quoted, names[:LISTED])) + more


def counted(count: int, noun: str) -> str:
    """'1 joint', '2 joints'"""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def fresh(name: str, taken: set[str | None]) -> str:
    """The name, with underscores where it is taken; it is taken then."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def all_named(kind: str, given: Sequence[str | None]) -> list[str]:
    """The names of things of a kind; what has none is called by its number: 'joint0'."""
    taken = set(given)
    return [name or fresh(f"{kind}{i}", taken) for i, name in enumerate(given)]


def near(name: str, names: Iterable[str]) -> str:
    """' (near it: 'elbow')', or nothing; long names and lists do not take long."""
    short = (other for other in names if len(other) <= SHOWN)
    found = get_close_matches(name[:SHOWN], islice(short, COMPARED), 3, 0.5)
    return f" (near it: {listed(found)})" if found else ""
