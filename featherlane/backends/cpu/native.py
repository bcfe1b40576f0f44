"""Chooses between machine code of this package for calls and threads, and NumPy with Python's
threads, which work on every system and are as fast for large batches.
"""

from __future__ import annotations

import os
import sysconfig
from functools import cache

VARIABLE = "FEATHERLANE_CALLS"  # any value, such as "numpy", switches machine code off
_refused: list[str] = []


@cache
def free_threaded() -> bool:
    """Whether this is a build of Python without the interpreter's lock, which protects the objects
    that machine code reads.
    """
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def refusal() -> str:
    """The reason why machine code does not serve calls and threads; empty if it does."""
    if value := os.environ.get(VARIABLE, "").strip():
        return f"{VARIABLE} is {value}"
    if free_threaded():
        return "this Python is a free-threaded build"
    return _refused[0] if _refused else ""


def refuse(reason: str) -> None:
    """Switches to NumPy and Python's threads from now on."""
    _refused.append(reason)
