"""Elementary functions as arithmetic, in one pass: by the expansions of the table of operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from featherlane.program.expansions.transcendental import NUMBERS, Form
from featherlane.program.graph import Graph
from featherlane.program.op import OPS
from featherlane.program.rewrite import Rule, rewrite


def _rules(form: Form) -> dict[str, Rule]:
    expansions = ((op.name, op.expansion) for op in OPS.values() if op.expansion)
    return {name: _of_form(expansion, form) for name, expansion in expansions}


def _of_form(expansion: Rule, form: Form) -> Rule:
    return lambda graph, *operands: expansion(graph, form, *operands)


RULES = {form: _rules(form) for form in NUMBERS}


def expand(graph: Graph, dtype: Any, fused: bool = True) -> Graph:
    """The graph with elementary functions in terms of the other operations, for float64 or float32.
    What functions of one argument have in common is computed once. fused: whether the target has
    fused multiply-adds; else `unfuse` must follow.
    """
    rules = RULES.get((np.dtype(dtype), fused))
    if rules is None:
        wanted = "wanted float64 or float32"
        raise TypeError(f"sin and exp cannot be expanded for {np.dtype(dtype)}: {wanted}")
    return graph if rules.keys().isdisjoint(graph.op) else rewrite(graph, rules)
