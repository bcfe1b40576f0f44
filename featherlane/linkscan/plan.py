"""What the methods of `algorithms.scan` do, as rounds of index arrays.

No method is written again: it runs once on numbers that stand for values, with operations that
record what is combined. Calls that do not wait for each other become one round, and a result takes
the place of an operand that nobody needs any more, so that memory is what the method keeps alive.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from featherlane.algorithms.scan import path_scan, scan, subtree_sum

Index = slice | np.ndarray
NEVER = 1 << 62  # the round in which a result is used last
ELEMENTS, MOVES = "elements", "moves"


class Operation(NamedTuple):
    """A recorded operation. kind: of its result, ELEMENTS or MOVES; place: the operand whose row
    the result takes if it can.
    """

    name: str
    kind: str
    place: int


COMBINE = Operation("combine", ELEMENTS, 1)
COMBINE_BACK = Operation("combine", ELEMENTS, 0)
ADD = Operation("add", ELEMENTS, 0)
ACT = Operation("act", ELEMENTS, 1)
COMPOSE = Operation("compose", MOVES, 1)


class Value(NamedTuple):
    kind: str
    operation: Operation | None = None  # None: it is given
    operands: tuple[int, ...] = ()


class Round(NamedTuple):
    """rows of `kind` = operation(rows, rows), each operand with its own kind."""

    operation: str
    kind: str
    operands: tuple[tuple[str, Index], ...]
    results: Index


class Plan(NamedTuple):
    """rounds, in their order; rows: how many rows of each kind live at once, of which the first are
    given; results: where the results are in the end.
    """

    rounds: list[Round]
    rows: dict[str, int]
    results: Index


class Recorder:
    """Values by number, and operations on these numbers."""

    def __init__(self) -> None:
        self.values: list[Value] = []

    def given(self, kind: str, count: int) -> list[int]:
        first = len(self.values)
        self.values += [Value(kind)] * count
        return list(range(first, first + count))

    def does(self, operation: Operation) -> Callable[[int, int], int]:
        def record(a: int, b: int) -> int:
            self.values.append(Value(operation.kind, operation, (a, b)))
            return len(self.values) - 1

        return record

    def plan(self, results: Sequence[int]) -> Plan:
        times, order = _times(self.values, set(results))
        rows, sizes = _rows(self.values, times, order, set(results))
        rounds = [_round(self.values, members, rows) for members in order]
        return Plan(rounds, sizes, regular([rows[v] for v in results]))


def _needed(values: Sequence[Value], results: set[int]) -> list[int]:
    """What leads to a result, in the order in which it was recorded."""
    needed = set(results)
    for v in reversed(range(len(values))):
        if v in needed:
            needed.update(values[v].operands)
    return sorted(needed)


def _times(values: Sequence[Value], results: set[int]) -> tuple[dict[int, int], list[list[int]]]:
    """The number of the round in which each value is made, and the values of each round.

    A call joins the first round of its operation that comes after its operands; if there is none
    yet, it opens one behind all others. So rounds stand in the order in which a method does them.
    """
    times: dict[int, int] = {}
    rounds: list[list[int]] = []
    places: dict[str, list[int]] = {}
    for v in _needed(values, results):
        if (operation := values[v].operation) is not None:
            own = places.setdefault(operation.name, [])
            after = max(times.get(x, -1) for x in values[v].operands)
            at = bisect_right(own, after)
            if at == len(own):
                own.append(len(rounds))
                rounds.append([])
            times[v] = own[at]
            rounds[own[at]].append(v)
    return times, rounds


def _last_uses(values: Sequence[Value], times: dict[int, int], results: set[int]) -> dict[int, int]:
    last: dict[int, int] = {}
    for v, t in times.items():
        for x in values[v].operands:
            last[x] = max(last.get(x, t), t)
    return last | dict.fromkeys(results, NEVER)


class _Free:
    """The rows of each kind that nobody uses, and how many there are in all."""

    def __init__(self) -> None:
        self.sizes = {ELEMENTS: 0, MOVES: 0}
        self._free: dict[str, list[int]] = {ELEMENTS: [], MOVES: []}

    def take(self, kind: str) -> int:
        if self._free[kind]:
            return heapq.heappop(self._free[kind])
        self.sizes[kind] += 1
        return self.sizes[kind] - 1

    def give(self, kind: str, row: int) -> None:
        heapq.heappush(self._free[kind], row)


def _rows(
    values: Sequence[Value], times: dict[int, int], order: list[list[int]], results: set[int]
) -> tuple[dict[int, int], dict[str, int]]:
    """The row of each value among those of its kind, and how many rows there are."""
    last, free = _last_uses(values, times, results), _Free()
    rows = {v: free.take(x.kind) for v, x in enumerate(values) if x.operation is None}
    for t, members in enumerate(order):
        ending = {x for v in members for x in values[v].operands if last[x] == t}
        for v in members:
            if (x := _inherited(values, v, ending)) is not None:
                rows[v] = rows[x]
                ending.remove(x)
        for v in members:
            if v not in rows:
                rows[v] = free.take(values[v].kind)
        for x in ending:
            free.give(values[x].kind, rows[x])
    return rows, free.sizes


def _inherited(values: Sequence[Value], v: int, ending: set[int]) -> int | None:
    """The operand whose row a result takes over."""
    operation, operands = values[v].operation, values[v].operands
    assert operation is not None
    first = operands[operation.place]
    for x in (first, *operands):
        if x in ending and values[x].kind == operation.kind:
            return x
    return None


def _round(values: Sequence[Value], members: Sequence[int], rows: dict[int, int]) -> Round:
    members = sorted(members, key=rows.__getitem__)
    operation = values[members[0]].operation
    assert operation is not None
    columns = list(zip(*[values[v].operands for v in members], strict=True))
    operands = tuple(
        (values[column[0]].kind, regular([rows[x] for x in column])) for column in columns
    )
    return Round(operation.name, operation.kind, operands, regular([rows[v] for v in members]))


def regular(indices: Sequence[int]) -> Index:
    """A slice where the indices go up evenly: its rows are not copied."""
    if not indices:
        return slice(0, 0)
    first, last = indices[0], indices[-1]
    step = indices[1] - first if len(indices) > 1 else 1
    if step > 0 and list(indices) == list(range(first, last + 1, step)):
        return slice(first, last + 1, step)
    return np.array(indices)


@lru_cache(maxsize=64)
def scan_plan(n: int, method: str, reverse: bool, options: tuple[tuple[str, Any], ...]) -> Plan:
    recorder = Recorder()
    combine = recorder.does(COMBINE_BACK if reverse else COMBINE)
    given = recorder.given(ELEMENTS, n)
    return recorder.plan(scan(combine, given, method, reverse, **dict(options)))


@lru_cache(maxsize=64)
def path_plan(parent: tuple[int, ...], method: str) -> Plan:
    recorder = Recorder()
    given = recorder.given(ELEMENTS, len(parent))
    return recorder.plan(path_scan(recorder.does(COMBINE), given, parent, method))


@lru_cache(maxsize=64)
def sum_plan(parent: tuple[int, ...], method: str) -> Plan:
    recorder = Recorder()
    elements, moves = (recorder.given(kind, len(parent)) for kind in (ELEMENTS, MOVES))
    add, act, compose = map(recorder.does, (ADD, ACT, COMPOSE))
    return recorder.plan(subtree_sum(add, act, compose, elements, moves, parent, method))
