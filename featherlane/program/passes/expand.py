"""Transcendental functions lowered to arithmetic, by the rules of `sincos`, `transcendental`."""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.program.graph import Graph, Rule, rewrite
from featherlane.program.op import EXPANDED
from featherlane.program.passes import sincos, transcendental


def _rules(dtype: np.dtype, fused: bool) -> dict[str, Rule]:
    rules = sincos.rules(dtype, fused) | transcendental.rules(dtype, fused)
    assert rules.keys() == EXPANDED, "every function that no backend has is expanded"
    return rules


RULES = {
    (np.dtype(kind), fused): _rules(np.dtype(kind), fused)
    for kind in (np.float64, np.float32)
    for fused in (True, False)
}


def expand(graph: Graph, dtype: Any, fused: bool = True) -> Graph:
    """The graph with transcendental functions in terms of the other operations, for float64 or
    float32. Functions of one argument share their common subexpressions. fused: whether the target
    has fused multiply-adds; else `unfuse` must follow.
    """
    rules = RULES.get((np.dtype(dtype), fused))
    if rules is None:
        wanted = "wanted float64 or float32"
        raise TypeError(f"sin and exp cannot be expanded for {np.dtype(dtype)}: {wanted}")
    return rewrite(graph, rules)
