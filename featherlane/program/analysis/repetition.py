"""Repetitions in a graph: stretches of operations that follow one another, each of which does the
same with the results of the one before. Sweeps and iterations of an algorithm leave them, in the
order in which it was traced.

A search over the sequence of operations finds their period. From there it goes back, operand by
operand: operations of the first iterations that all of them share stand between those of the
others, so that these do not have the period.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from featherlane.program.graph import Graph
from featherlane.program.op import ARITHMETIC, COMMUTES

WINDOW = 48  # operations that are compared at once
CANDIDATES = 8  # periods that are tried, the most frequent ones
EXCHANGED = COMMUTES | {"fma"}  # operations whose first two operands may change places


class Operand(NamedTuple):
    """An operand in an iteration: a node that all iterations read, or the value at a place of this
    iteration or, if `carried`, of the one before.
    """

    node: int = -1
    place: int = -1
    carried: bool = False


class Repetition(NamedTuple):
    """Iterations of the same operations. nodes: of each iteration, by the place in it; operands: of
    the operation at each place; first: the nodes that the first iteration reads as carried values,
    by their places.
    """

    nodes: Sequence[Mapping[int, int]]
    operands: Sequence[Sequence[Operand]]
    first: Mapping[int, int]

    @property
    def shared(self) -> list[int]:
        """The nodes that all iterations read."""
        return [*dict.fromkeys(x.node for each in self.operands for x in each if x.place < 0)]

    @property
    def saved(self) -> int:
        """The operations that a loop saves."""
        return (len(self.nodes) - 1) * len(self.operands)


def repetition(graph: Graph) -> Repetition | None:
    """Returns the repetition by which a loop saves most, if there is any."""
    each = (_of_period(graph, period) for period in _periods(graph))
    return max((x for x in each if x is not None), key=lambda x: x.saved, default=None)


def _periods(graph: Graph) -> list[int]:
    """Returns the distances after which sequences of operations most often come again."""
    numbers = {op: k for k, op in enumerate(ARITHMETIC)}
    codes = bytes(numbers.get(op, len(numbers)) for op in graph.op)
    last, distances = dict[bytes, int](), Counter[int]()
    for k in range(len(codes) - WINDOW):
        window = codes[k : k + WINDOW]
        if window in last:
            distances[k - last[window]] += 1
        last[window] = k
    return [period for period, _ in distances.most_common(CANDIDATES) if period >= WINDOW]


def _of_period(graph: Graph, period: int) -> Repetition | None:
    start, length = _longest(_again(graph, period))
    second, count = start + period, length // period  # all that `second` reads is in an iteration
    if count < 2:
        return None
    operands = [_operands(graph, k, second, period) for k in range(second, second + period)]
    stretches = (range(k, k + period) for k in range(second, second + count * period, period))
    nodes = [*takewhile(lambda x: _is_iteration(graph, x, operands, period), stretches)]
    if len(nodes) < 2:
        return None
    return _extended([dict(enumerate(x)) for x in nodes], operands, graph, period)


def _again(graph: Graph, period: int) -> np.ndarray:
    """Returns for each node whether the one a period later is the same operation, of operands that
    are a period later or the same.
    """
    most = 3
    args = np.full((len(graph), most), -1)
    for k, x in enumerate(graph.args):
        args[k, : len(x)] = x
    ops = np.unique(graph.op, return_inverse=True)[1]
    exchanged = np.isin(graph.op, [*EXCHANGED])[:-period]
    now, then = args[:-period], args[period:]
    related = lambda a, b: (b == a) | ((a >= 0) & (b == a + period))
    straight = related(now, then).all(1)
    turned = related(now, then[:, [1, 0, 2]]).all(1)
    return (ops[:-period] == ops[period:]) & (now[:, 0] >= 0) & (straight | exchanged & turned)


def _longest(flags: np.ndarray) -> tuple[int, int]:
    """Returns the start and the length of the longest run of true entries."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    if not edges.size:
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    k = int(lengths.argmax())
    return int(edges[2 * k]), int(lengths[k])


def _operands(graph: Graph, k: int, start: int, period: int) -> list[Operand]:
    """Returns the operands of a node of the iteration that begins at `start`."""
    each = []
    for a in graph.args[k]:
        carried = a < start
        place = a - start + period * carried
        each.append(Operand(place=place, carried=carried) if place >= 0 else Operand(a))
    return each


def _is_iteration(
    graph: Graph, nodes: range, operands: Sequence[Sequence[Operand]], period: int
) -> bool:
    """Returns whether the nodes of an iteration have these operands."""
    for k, each in zip(nodes, operands, strict=True):
        start = lambda x: nodes.start - period * x.carried
        wanted = [x.node if x.place < 0 else start(x) + x.place for x in each]
        args = [*graph.args[k]]
        turned = [*args[1::-1], *args[2:]] if graph.op[k] in EXCHANGED else args
        if wanted not in (args, turned):
            return False
    return True


def _extended(
    nodes: list[dict[int, int]], operands: Sequence[Sequence[Operand]], graph: Graph, period: int
) -> Repetition:
    """Returns the repetition with the iterations before those that have the period."""
    start = nodes[0][0] - period
    first = {x.place: start + x.place for each in operands for x in each if x.carried}
    ops = [graph.op[k] for k in nodes[0].values()]
    while (before := _iteration_before(graph, first, operands, ops)) is not None:
        earlier, first = before
        nodes.insert(0, earlier)
    return Repetition(nodes, operands, first)


Values = dict[int, int]  # nodes by their places


def _iteration_before(
    graph: Graph, results: Values, operands: Sequence[Sequence[Operand]], ops: Sequence[str]
) -> tuple[Values, Values] | None:
    """Returns the nodes of the iteration with these results, and those of the carried values that
    it reads, if it has the same operations.
    """
    nodes, carried = dict(results), Values()
    for place in reversed(range(len(operands))):
        k = nodes.get(place)
        if k is None:
            continue  # only a part of the last iteration reads it
        if graph.op[k] != ops[place]:
            return None
        for x, a in zip(operands[place], _aligned(graph, k, operands[place]), strict=True):
            if x.place < 0 and a != x.node:
                return None
            if x.place >= 0 and (carried if x.carried else nodes).setdefault(x.place, a) != a:
                return None
    return nodes, carried


def _aligned(graph: Graph, k: int, operands: Sequence[Operand]) -> Sequence[int]:
    """Returns the operands of a node, those that all iterations read at their places."""
    args = graph.args[k]
    if graph.op[k] in EXCHANGED and any(
        x.place < 0 and a != x.node for x, a in zip(operands[:2], args, strict=False)
    ):
        return args[1], args[0], *args[2:]
    return args
