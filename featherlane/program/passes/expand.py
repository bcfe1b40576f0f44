"""Transcendental functions as arithmetic, in one pass: the rules of `sincos`, `transcendental`."""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.program.graph import Graph, Rule, rewrite
from featherlane.program.op import EXPANDED
from featherlane.program.passes import sincos, transcendental


def _rules(dtype: np.dtype) -> dict[str, Rule]:
    rules = sincos.rules(dtype) | transcendental.rules(dtype)
    assert rules.keys() == EXPANDED, "every function that no backend has is expanded"
    return rules


RULES = {np.dtype(kind): _rules(np.dtype(kind)) for kind in (np.float64, np.float32)}


def expand(graph: Graph, dtype: Any) -> Graph:
    """The graph with transcendental functions in terms of the other operations, for float64 or
    float32. What functions of one argument have in common is computed once.
    """
    rules = RULES.get(np.dtype(dtype))
    if rules is None:
        wanted = "wanted float64 or float32"
        raise TypeError(f"sin and exp cannot be expanded for {np.dtype(dtype)}: {wanted}")
    return rewrite(graph, rules)
