"""Chooses between machine code of this package for calls and threads, and NumPy with the threads of
Python: these are right on every system, and as fast where batches are large.
"""

from __future__ import annotations

import os
import sysconfig
from functools import cache

VARIABLE = "FEATHERLANE_CALLS"  # any value, such as "numpy": without machine code of our own
_refused: list[str] = []


@cache
def free_threaded() -> bool:
    """Whether this is a build of Python without the interpreter's lock, which protects the objects
    that machine code reads.
    """
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def refusal() -> str:
    """The reason why machine code does not run calls and threads; empty if it does."""
    if value := os.environ.get(VARIABLE, "").strip():
        return f"{VARIABLE} is {value}"
    if free_threaded():
        return "this Python is a free-threaded build"
    return _refused[0] if _refused else ""


def refuse(reason: str) -> None:
    """From now on NumPy and the threads of Python are used."""
    _refused.append(reason)
