"""Recorded calls without what nobody reads: the pieces that are compiled.

A scan composes maps of which often only a vector is wanted in the end. What of a call's results is
read, and by whom, is known once all is recorded: calls of one step that are read alike become one
piece of code, which computes that and no more. Constants that are the same in all calls of a step
are folded into it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from featherlane.program.calls import CONSTANTS, OUT, VALUES, Calls, Step
from featherlane.program.graph import Graph, Output, rewrite, simplify

FEW = 0.1  # of the calls of a step: too few for a piece of their own


class Piece(NamedTuple):
    """Calls of one graph with the inputs "values" and "constants" and the output "out", a row for
    each call: the scalars that it reads, by number, its constants, the scalars that it gives.
    """

    name: str
    graph: Graph
    reads: np.ndarray
    constants: np.ndarray
    gives: np.ndarray


class Pieces(NamedTuple):
    """order: (calls, 2), the piece and which of its calls, as they may be made one by one; results:
    for each output array its scalars, numbers of scalars or floats.
    """

    pieces: list[Piece]
    order: np.ndarray
    results: list[list[int | float]]


class _Cut(NamedTuple):
    """A step's graph for some entries of its output, and which entries of its inputs it needs."""

    graph: Graph
    values: np.ndarray
    constants: np.ndarray


def _columns(step: Step, known: np.ndarray) -> dict[tuple[str, int], float]:
    """The entries of a step's inputs that are one known number in all calls."""
    found = {}
    constants = np.array(step.constants, float).reshape(len(step.first), -1)
    values = known[np.array(step.values, int)].reshape(len(step.first), -1)
    for name, rows in ((CONSTANTS, constants), (VALUES, values)):
        for i in np.flatnonzero((rows == rows[0]).all(axis=0)):
            found[name, int(i)] = float(rows[0, i])
    return found


def _with_numbers(graph: Graph, numbers: Mapping[tuple[str, int], float]) -> Graph:
    """With numbers in place of entries of its inputs."""
    rules = {}
    for k, (op, value) in enumerate(zip(graph.op, graph.value, strict=True)):
        if op == "input" and value in numbers:
            rules[k] = lambda new, number=numbers[value]: new.constant(number)
    return rewrite(graph, rules)


def _folded(calls: Calls) -> tuple[list[Graph], np.ndarray]:
    """The steps' graphs with the numbers in them that all calls share, and for each scalar the
    number that it is then known to be, or NaN: until nothing more is known.
    """
    graphs = [step.graph for step in calls.steps]
    known = np.full(calls.size, np.nan)
    used: list[Any] = [None] * len(graphs)
    again = True
    while again:
        again = False
        for s, step in enumerate(calls.steps):
            numbers = _columns(step, known) if step.first else {}
            if numbers == used[s]:
                continue
            used[s], graphs[s] = numbers, _with_numbers(step.graph, numbers)
            for entry, node in enumerate(graphs[s].outputs[OUT].nodes):
                if step.first and (number := graphs[s].number(node)) is not None:
                    known[np.array(step.first) + entry] = number
                    again = True
    return graphs, known


def _cut(graph: Graph, entries: Iterable[int]) -> _Cut:
    whole = graph.outputs[OUT].nodes
    part = Graph()
    part.__dict__.update(graph.__dict__, outputs={})
    nodes = tuple(whole[i] for i in entries)
    part.outputs = {OUT: Output((len(nodes),), nodes)}
    part = simplify(part)
    needed: dict[str, list[int]] = {VALUES: [], CONSTANTS: []}
    for op, value in zip(part.op, part.value, strict=True):
        if op == "input":
            needed[value[0]].append(value[1])
    needed = {name: sorted(own) for name, own in needed.items()}
    new = Graph()
    places = {
        (name, i): node
        for name, own in needed.items()
        for i, node in zip(own, new.declare(name, (len(own),)), strict=True)
    }
    at: list[int] = []
    for op, args, value in zip(part.op, part.args, part.value, strict=True):
        moved = op == "input"
        at.append(places[value] if moved else new.node(op, *[at[a] for a in args], value=value))
    new.outputs = {OUT: Output((len(nodes),), tuple(at[k] for k in part.outputs[OUT].nodes))}
    return _Cut(new, *[np.array(needed[name], int) for name in (VALUES, CONSTANTS)])


def _same(calls: Calls, graphs: list[Graph]) -> np.ndarray:
    """Of each scalar the first that it is equal to, once constants are folded."""
    same = np.arange(calls.size)
    for step, graph in zip(calls.steps, graphs, strict=True):
        for entry, node in enumerate(graph.outputs[OUT].nodes):
            if graph.op[node] == "input" and graph.value[node][0] == VALUES and step.first:
                read = graph.value[node][1]
                same[np.array(step.first) + entry] = np.array(step.values)[:, read]
    while ((further := same[same]) != same).any():
        same = further
    return same


class _Reader:
    """Which scalars are read, going through the calls from the last to the first."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.graphs, self.known = _folded(calls)
        self.same = _same(calls, self.graphs)
        self.values = [self.same[np.array(step.values, int)] for step in calls.steps]
        self._cuts: dict[tuple[int, bytes], _Cut] = {}

    def read(self, known: list[set[bytes]] | None = None) -> list[tuple[int, int, bytes]]:
        """For each call that is read: step, call, and a mask of what is; the last first. known: the
        masks that may be.
        """
        read = np.zeros(self.calls.size, bool)
        for _, flat in self.calls.results.values():
            found = map(self.result, flat)
            read[[k for k in found if isinstance(k, int)]] = True
        steps, order = self.calls.steps, []
        for s, c in reversed(self.calls.order):
            first = steps[s].first[c]
            own = read[first : first + steps[s].size]
            if own.any():
                mask = own.tobytes() if known is None else _within(own, known[s])
                read[self.values[s][c, self.cut(s, mask).values]] = True
                order.append((s, c, mask))
        return order

    def result(self, x: int | float) -> int | float:
        """A result as the first scalar or the number that it is."""
        if not isinstance(x, int):
            return x
        number = self.known[self.same[x]]
        return int(self.same[x]) if np.isnan(number) else float(number)

    def cut(self, s: int, mask: bytes) -> _Cut:
        if (s, mask) not in self._cuts:
            entries = np.flatnonzero(np.frombuffer(mask, bool))
            self._cuts[s, mask] = _cut(self.graphs[s], entries)
        return self._cuts[s, mask]


def _within(own: np.ndarray, known: set[bytes]) -> bytes:
    """The smallest known mask with all of this one."""
    mask = own.tobytes()
    if mask in known:
        return mask
    wider = [m for m in known if not (own & ~np.frombuffer(m, bool)).any()]
    return min(wider, key=lambda m: m.count(1), default=b"\1" * len(mask))


def _worth(calls: Calls, found: Iterable[tuple[int, int, bytes]]) -> list[set[bytes]]:
    """The masks of each step that enough calls have."""
    counts = Counter((s, mask) for s, _, mask in found)
    total = Counter(s for s, _, _ in found)
    worth: list[set[bytes]] = [set() for _ in calls.steps]
    for (s, mask), n in counts.items():
        if n >= FEW * total[s]:
            worth[s].add(mask)
    return worth


def prune(calls: Calls) -> Pieces:
    """The pieces of what was recorded."""
    reader = _Reader(calls)
    found = reader.read(_worth(calls, reader.read()))[::-1]
    members: dict[tuple[int, bytes], list[int]] = {}
    numbers: dict[tuple[int, bytes], int] = {}
    order = []
    for s, c, mask in found:
        own = members.setdefault((s, mask), [])
        order.append((numbers.setdefault((s, mask), len(numbers)), len(own)))
        own.append(c)
    pieces = []
    for (s, mask), own in members.items():
        step, cut = calls.steps[s], reader.cut(s, mask)
        entries = np.flatnonzero(np.frombuffer(mask, bool))
        rows = np.array(step.constants, float).reshape(len(step.first), -1)
        firsts = np.array(step.first)[own]
        pieces.append(
            Piece(
                step.name,
                cut.graph,
                reader.values[s][own][:, cut.values],
                rows[own][:, cut.constants],
                firsts[:, None] + entries,
            )
        )
    results = [[reader.result(x) for x in flat] for _, flat in calls.results.values()]
    return Pieces(pieces, np.array(order, int).reshape(-1, 2), results)
