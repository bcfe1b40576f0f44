"""Wording of the loaders' messages and notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from featherlane.errors import nearest

WARNING = "warning: "  # the beginning of notes that come first on the card
SHOWN = 60  # characters of a file's text in a message
LISTED = 8  # names in a message before "and 12 more"


def quoted(text: str) -> str:
    """Quotes a name or value from a file, shortened to fit in a message."""
    return repr(shortened(text))


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def listed(names: Sequence[str], separator: str = ", ") -> str:
    """Lists names in quotes, with "... and 12 more" where a message has no room for all."""
    more = f" ... and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return separator.join(map(quoted, names[:LISTED])) + more


def counted(count: int, noun: str) -> str:
    """Counts things: '1 joint', '2 joints'."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def unused(name: str, taken: set[str | None]) -> str:
    """Appends underscores to a name until nothing has it, and adds it to `taken`."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def all_named(kind: str, names: Sequence[str | None]) -> list[str]:
    """Names things without a name by their kind and number: 'joint0'."""
    taken = set(names)
    return [name or unused(f"{kind}{i}", taken) for i, name in enumerate(names)]


def near(name: str, names: Iterable[str]) -> str:
    """Suggests similar names: " (did you mean 'elbow'?)", or nothing."""
    similar = nearest(name, names, 3, 0.5)
    return f" (did you mean {listed(similar)}?)" if similar else ""
