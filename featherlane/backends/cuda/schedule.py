"""Schedules for teams: the operations of a graph, cut into phases and spread over warps.

A phase is a band of depths. The operations of a band that need each other are one piece, which one
warp computes; pieces need nothing from each other in their phase, so that the warps of a team wait
for each other between phases only.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from featherlane.errors import CompileError
from featherlane.program.graph import Graph
from featherlane.program.op import CONDITIONS

# Operations that take as long as a barrier: its latency, and that of the loads behind it
BARRIER = 40
UNEVEN = 1.1  # load of a warp against the least possible, for values that need not go over
CUTS = 64  # depths at most between which phases may begin: the search takes their square

Needs = dict[int, tuple[int, ...]]  # by operation, the operations whose results it takes
Piece = list[int]


class Schedule(NamedTuple):
    """phases: for each phase and warp, its operations in order. needs: the operations whose results
    each one takes; conditions are no operations here, since each select computes its condition.
    """

    phases: list[list[list[int]]]
    needs: Needs

    @property
    def places(self) -> dict[int, tuple[int, int]]:
        """The phase and the warp of each operation."""
        return {
            k: (p, w)
            for p, phase in enumerate(self.phases)
            for w, nodes in enumerate(phase)
            for k in nodes
        }

    @property
    def longest(self) -> int:
        """Operations of the longest warp of each phase, summed up."""
        return sum(max(map(len, phase)) for phase in self.phases)

    def verify(self) -> None:
        """Raises CompileError if an operation is missing or takes what is not there yet."""
        places, known = self.places, set[int]()
        for p, phase in enumerate(self.phases):
            for w, nodes in enumerate(phase):
                for k in nodes:
                    for a in self.needs[k]:
                        if not (places[a][0] < p or (places[a] == (p, w) and a in known)):
                            raise CompileError(f"node {k} of phase {p} is before node {a}")
                    known.add(k)
        count = sum(len(nodes) for phase in self.phases for nodes in phase)
        if known != self.needs.keys() or len(known) != count:
            raise CompileError("a schedule lacks operations, or has one twice")


def schedule(graph: Graph, nodes: range, warps: int) -> Schedule:
    """The operations among some nodes of a graph on a number of warps."""
    needs = operations(graph, nodes)
    bands = _bands(_levels(needs), needs, warps)
    phases = [_pieces(band, needs) for band in bands]
    result = Schedule(_packed(phases, needs, warps), needs)
    result.verify()
    return result


def operations(graph: Graph, nodes: range) -> Needs:
    """The operations among some nodes, with those of them whose results each one takes."""
    needs: Needs = {}
    for k in nodes:
        if graph.args[k] and graph.op[k] not in CONDITIONS:
            operands: dict[int, None] = {}
            for a in graph.args[k]:
                for b in graph.args[a] if graph.op[a] in CONDITIONS else (a,):
                    if b in needs:
                        operands[b] = None
            needs[k] = tuple(operands)
    return needs


def _levels(needs: Needs) -> list[list[int]]:
    """The operations by depth, with depths that are next to each other put together until there are
    at most CUTS, of about as many operations.
    """
    depth: dict[int, int] = {}
    for k, operands in needs.items():
        depth[k] = max((depth[a] for a in operands), default=-1) + 1
    levels: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for k, d in depth.items():
        levels[d].append(k)
    # A depth counts as some operations too, so that long thin parts of graphs have cuts as well
    each, grouped, weight = len(needs) / max(len(levels), 1), list[list[int]](), 0.0
    for level in levels:
        if not grouped or weight >= 2 * len(needs) / CUTS:
            grouped.append([])
            weight = 0.0
        grouped[-1] += level
        weight += len(level) + each
    return grouped


class _Sets:
    """Sets of operations that need each other."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}
        self.size: dict[int, int] = {}  # by the operation that stands for a set

    def of(self, k: int) -> int:
        parent = self.parent
        while parent[k] != k:
            parent[k] = k = parent[parent[k]]
        return k

    def add(self, k: int, needs: Needs) -> None:
        self.parent[k], self.size[k] = k, 1
        for a in needs[k]:
            if a in self.parent:
                r, s = self.of(a), self.of(k)
                if r != s:
                    r, s = (r, s) if self.size[r] >= self.size[s] else (s, r)
                    self.parent[s] = r
                    self.size[r] += self.size.pop(s)


def _longest(sizes: Iterable[int], warps: int) -> int:
    """The load of the longest warp if each piece goes to the shortest one, the largest first."""
    loads, total = [0] * warps, 0
    for size in sorted(sizes, reverse=True):
        total += size
        if size > 1:  # the others fill gaps
            heapq.heapreplace(loads, loads[0] + size)
    return max(*loads, -(-total // warps))


def _bands(levels: Sequence[list[int]], needs: Needs, warps: int) -> list[list[int]]:
    """The levels put together to phases such that the longest warps and barriers are least."""
    best, begin = [0.0] + [float("inf")] * len(levels), [0] * (len(levels) + 1)
    for i in range(len(levels)):
        sets = _Sets()
        for j in range(i, len(levels)):
            for k in levels[j]:
                sets.add(k, needs)
            time = best[i] + _longest(sets.size.values(), warps) + BARRIER
            if time < best[j + 1]:
                best[j + 1], begin[j + 1] = time, i
    bands, j = list[list[int]](), len(levels)
    while j:
        bands.append(sorted(k for level in levels[begin[j] : j] for k in level))
        j = begin[j]
    return bands[::-1]


def _pieces(band: list[int], needs: Needs) -> list[Piece]:
    """The pieces of a band, the largest first."""
    sets, pieces = _Sets(), dict[int, Piece]()
    for k in band:
        sets.add(k, needs)
    for k in band:
        pieces.setdefault(sets.of(k), []).append(k)
    return sorted(pieces.values(), key=len, reverse=True)


def _packed(phases: list[list[Piece]], needs: Needs, warps: int) -> list[list[list[int]]]:
    """The pieces of each phase on warps: each where most of what it takes is known, as long as no
    warp gets much more than the longest one must have.
    """
    owner: dict[int, int] = {}
    packed = []
    for pieces in phases:
        most, loads = _longest(map(len, pieces), warps) * UNEVEN, [0] * warps
        nodes: list[list[int]] = [[] for _ in range(warps)]
        loaded: list[set[int]] = [set() for _ in range(warps)]
        # Large pieces while there is room; the others in the order of the graph, where neighbours
        # take the same values
        for piece in sorted(pieces, key=lambda x: (-len(x) * (len(x) > most / 4), x[-1])):
            taken = {a for k in piece for a in needs[k] if a in owner}
            w = _warp_of(len(piece), taken, owner, loaded, loads, most)
            nodes[w] += piece
            loads[w] += len(piece)
            loaded[w] |= taken
        for w, members in enumerate(nodes):
            owner |= dict.fromkeys(members, w)
        packed.append([sorted(members) for members in nodes])
    return packed


def _warp_of(
    size: int,
    taken: set[int],
    owner: dict[int, int],
    loaded: list[set[int]],
    loads: list[int],
    most: float,
) -> int:
    """The warp of a piece that takes values from before."""
    warps = range(len(loads))
    free = [w for w in warps if loads[w] + size <= most]
    known = [len(taken & values) for values in loaded]
    for a in taken:
        known[owner[a]] += 1
    return min(free or warps, key=lambda w: (-known[w] * bool(free), loads[w]))
