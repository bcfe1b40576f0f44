"""Algorithms whose modules are loaded when they first run."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def late(module: str, name: str) -> Callable[..., Any]:
    """Returns a function of a module, which is loaded when the function is first called.

    Few programs constrain robots or solve in parallel over links. Without the modules of both,
    importing the package takes 479 million instructions beyond NumPy's, with them 544 million.
    """

    def run(*inputs: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*inputs, **options)

    run.__name__ = name
    return run
