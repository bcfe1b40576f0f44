"""Guards that give NaN, replaced by a flag: fixed-point numbers have no NaN.

A guard is `select(condition, x, nan)` (see `scalar.unless_lost`). Where its condition fails, the
results of the whole state are lost; so x replaces the guard, and one more output counts the guards
that failed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from featherlane.errors import CompileError
from featherlane.program.graph import Graph, Output
from featherlane.program.op import CONDITIONS
from featherlane.program.rewrite import rewrite

LOST = "lost"  # the output: 0 where all guards hold


class _Guard(NamedTuple):
    """A guard of the new graph: its condition and the tag of the call that computed it."""

    condition: int
    tag: Any


def flagged(graph: Graph) -> Graph:
    """Returns a graph without NaN. If there were guards, it has an output "lost" of one entry: the
    number of guards that failed.

    The nodes that count have the tag of their guard's call, so that `passes.outline` meets calls
    in their order. A guard against infinity (`select(x < inf, x, nan)`) becomes a guard against a
    division by 0 if x is a quotient, and is dropped if it is not: sums and products in fixed point
    are finite. Raises CompileError for NaN in any other place.
    """
    guards: dict[int, _Guard] = {}
    rules = {
        k: lambda new, condition, x, y, k=k: _passed(new, condition, x, y, guards)
        for k in graph.nodes_of("select")
        if any(_is_nan(graph, a) for a in graph.args[k][1:])
    }
    new = rewrite(graph, rules)
    _check_numbers(new)
    if guards:
        if LOST in new.outputs:
            raise CompileError(f"the graph has an output {LOST!r}, which counts guards that failed")
        new.outputs[LOST] = Output((1,), (_count(new, list(guards.values())),))
        new.current_tag = None
    return new


def _is_nan(graph: Graph, k: int) -> bool:
    return graph.op[k] == "constant" and graph.value[k] == "nan"


def _passed(new: Graph, condition: int, x: int, y: int, guards: dict[int, _Guard]) -> int:
    """Returns the guarded number, and records the guard under its condition."""
    if _is_nan(new, x):
        raise CompileError(
            f"a select{_place(new)} gives NaN where its condition holds: exchange its operands and "
            "its condition"
        )
    if (known := _testable(new, condition)) is not None:
        tag = new.current_tag
        if (first := guards.get(known)) is None or _call(tag) < _call(first.tag):
            guards[known] = _Guard(known, tag)
    return x


def _call(tag: Any) -> int:
    return getattr(tag, "call", 0)


def _place(new: Graph) -> str:
    return "" if new.current_tag is None else f" of {new.current_tag}"


def _testable(new: Graph, condition: int) -> int | None:
    """Returns the condition in terms of finite numbers; None if it always holds."""
    if new.op[condition] not in CONDITIONS:
        return condition
    x, bound = new.args[condition]
    if new.number(bound) != math.inf:
        return condition
    if new.op[x] != "div":
        return None
    return new.less(new.constant(0.0), new.abs(new.args[x][1]))


def _count(new: Graph, guards: list[_Guard]) -> int:
    """Returns the sum over guards of 0 where the guard holds, else 1."""
    zero, one = new.constant(0.0), new.constant(1.0)
    total = zero
    for guard in sorted(guards, key=lambda guard: _call(guard.tag)):
        new.current_tag = guard.tag
        total = new.add(total, new.select(guard.condition, zero, one))
    return total


def _check_numbers(graph: Graph) -> None:
    """Raises CompileError for NaN that a live node reads, and for one that is a result."""
    for k, needed in enumerate(graph.live()):
        if needed and _is_nan(graph, k):
            users = [n for n, args in enumerate(graph.args) if k in args]
            where = f"read by node {users[0]} ({graph.op[users[0]]})" if users else "an output"
            raise CompileError(
                f"node {k} is NaN, {where}: a circuit computes NaN in guards alone, as the last "
                "operand of select"
            )
