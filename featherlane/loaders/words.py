"""How messages and notes of the loaders are worded."""

from __future__ import annotations

from collections.abc import Sequence

WARNING = "warning: "  # how a note begins that the user should not overlook
SHOWN = 60  # characters of a file's own text in a message
LISTED = 8  # names in a message before "and 12 more"


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
