"""Chooses between machine code of this package for calls and threads, and NumPy with the threads of
Python: these are right on every system, and as fast where batches are large.
"""

from __future__ import annotations

import os

VARIABLE = "FEATHERLANE_CALLS"  # "numpy": without machine code of our own
_refused: list[str] = []


def refusal() -> str:
    """The reason why machine code does not run calls and threads; empty if it does."""
    if os.environ.get(VARIABLE, "").strip().lower() == "numpy":
        return f"{VARIABLE} is numpy"
    return _refused[0] if _refused else ""


def refuse(reason: str) -> None:
    """From now on NumPy and the threads of Python are used."""
    _refused.append(reason)
