"""Where recorded calls run: which of them share a vector, and where scalars lie.

A vector of `width` lanes holds `states` states of as many calls of one piece as fit. With as many
states as lanes, calls run one by one as they were recorded. With fewer, calls that do not wait for
each other stand side by side: those that read inputs by their place in the inputs, so that a lane
holds a stretch of neighbouring links, all others in the lane of what they read most of.

The results of a group of calls are a block, entry after entry, one vector each. An operand is read
where it lies if its lanes are those of its readers; else it is collected from lane to lane before.
Blocks are used again when nobody reads them any more, so that memory is what is alive.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from featherlane.graph.calls import Calls
from featherlane.graph.prune import Pieces

NOWHERE = -1


class Layout(NamedTuple):
    """width: lanes of a vector, of which `states` belong to one call; span: how many neighbours in
    an input array of as many entries as there are links are meant for one lane.
    """

    width: int
    states: int
    span: int = 1

    @property
    def calls(self) -> int:
        return self.width // self.states


def links(inputs: Sequence[tuple[int, ...]]) -> int:
    """How many links inputs of these shapes are for: all but one have as many rows, or more."""
    return sorted(shape[0] if shape else 1 for shape in inputs)[-2:][0]


class Group(NamedTuple):
    """Calls of a piece that share a vector: one for each lane, or NOWHERE."""

    piece: int
    calls: tuple[int, ...]


class _Standing:
    """Groups in their order; of each scalar the group that gives it, and the lane."""

    def __init__(self, calls: Calls, pieces: Pieces, layout: Layout) -> None:
        self.pieces, self.layout = pieces.pieces, layout
        self.group = np.full(calls.size, NOWHERE)
        self.lane = np.zeros(calls.size, int)
        self.groups: list[Group] = []
        self.declared = sum(math.prod(shape) for _, shape in calls.inputs.values())
        self._place = self._places(calls)
        self.lane[: self.declared] = self._place[: self.declared] // layout.span % layout.calls

    def _places(self, calls: Calls) -> np.ndarray:
        """Of each scalar of an input, the link that it belongs to if the rows of all arrays are
        stretched over the links.
        """
        count = links([shape for _, shape in calls.inputs.values()])
        place = np.zeros(calls.size, int)
        for first, shape in calls.inputs.values():
            rows, entries = math.prod(shape[:1]), math.prod(shape[1:])
            stretched = np.arange(rows) * count // max(rows, 1)
            place[first : first + rows * entries] = stretched.repeat(entries)
        return place

    def inputs(self, calls: Calls) -> tuple[np.ndarray, int]:
        """The addresses of inputs, and the memory that they take: what is meant for a lane lies in
        that lane, the entries of an array in rows of their own.
        """
        width, states = self.layout.width, self.layout.states
        at, rows = np.zeros(self.declared, np.int64), 0
        for first, shape in calls.inputs.values():
            own = slice(first, first + math.prod(shape))
            lane = self.lane[own]
            order = np.argsort(lane, kind="stable")
            row = np.empty(len(lane), int)
            row[order] = np.arange(len(lane)) - np.searchsorted(lane[order], lane[order])
            at[own] = (rows + row) * width + lane * states
            rows += int(row.max(initial=-1)) + 1
        return at, rows * width

    def one_by_one(self, order: np.ndarray) -> None:
        for p, c in order:
            self._add(p, {0: c})

    def round(self, p: int, members: Sequence[int]) -> None:
        """Calls that do not wait for each other."""
        together: dict[int, list[dict[int, int]]] = {}
        for c in members:
            beside, lane = self._wanted(self.pieces[p].reads[c])
            rows = together.setdefault(beside, [])
            row = next((row for row in rows if lane not in row), None)
            if row is None:
                rows.append(row := {})
            row[lane] = c
        for rows in together.values():
            for row in rows:
                self._add(p, row)

    def _wanted(self, reads: np.ndarray) -> tuple[int, int]:
        """Which calls to stand beside, by their group, and the lane: those of what it reads most,
        among equals the oldest. Inputs of one place in their lanes are a group before all others.
        """
        if not len(reads):
            return NOWHERE, 0
        groups, span = self.group[reads], self.layout.span
        owners = np.where(groups == NOWHERE, self._place[reads] % span - span - 1, groups)
        counts = Counter(owners.tolist())
        most = min(counts, key=lambda owner: (-counts[owner], owner))
        return most, int(self.lane[reads[(owners == most).argmax()]])

    def _add(self, p: int, row: dict[int, int]) -> None:
        for lane, c in row.items():
            gives = self.pieces[p].gives[c]
            self.group[gives], self.lane[gives] = len(self.groups), lane
        count = self.layout.calls
        self.groups.append(Group(p, tuple(row.get(k, NOWHERE) for k in range(count))))


Round = tuple[int, list[int]]  # a piece, and calls of it


def _first_rounds(pieces: Pieces, size: int) -> tuple[list[int], list[int]]:
    """The round of each call, and the piece of each round: a call joins the first round of its
    piece that comes after its operands, or opens one behind all others.
    """
    made = np.full(size, -1)
    of_calls: list[int] = []
    of_rounds: list[int] = []
    places: dict[int, list[int]] = {}
    for p, c in pieces.order:
        piece, own = pieces.pieces[p], places.setdefault(p, [])
        at = bisect_right(own, made[piece.reads[c]].max(initial=-1))
        if at == len(own):
            own.append(len(of_rounds))
            of_rounds.append(p)
        made[piece.gives[c]] = own[at]
        of_calls.append(own[at])
    return of_calls, of_rounds


def _rounds(pieces: Pieces, size: int) -> list[Round]:
    """The calls in rounds. After `_first_rounds`, the last first, each goes on to the last round
    before its readers that is fuller than its own: few full rounds are better than early ones.
    """
    of_calls, of_rounds = _first_rounds(pieces, size)
    count = np.bincount(of_calls, minlength=len(of_rounds))
    same = {p: np.flatnonzero(np.array(of_rounds) == p) for p in set(of_rounds)}
    read = np.full(size, len(of_rounds))
    for n in reversed(range(len(of_calls))):
        p, c = pieces.order[n]
        piece, at = pieces.pieces[p], of_calls[n]
        own = same[p]
        later = own[(own > at) & (own < read[piece.gives[c]].min(initial=len(of_rounds)))]
        fuller = later[count[later] > count[at]]
        if len(fuller):
            count[at] -= 1
            of_calls[n] = at = int(fuller[-1])
            count[at] += 1
        read[piece.reads[c]] = np.minimum(read[piece.reads[c]], at)
    rounds: list[Round] = [(p, []) for p in of_rounds]
    for at, (_, c) in zip(of_calls, pieces.order, strict=True):
        rounds[at][1].append(c)
    return [(p, members) for p, members in rounds if members]


def standing(calls: Calls, pieces: Pieces, layout: Layout) -> _Standing:
    found = _Standing(calls, pieces, layout)
    if layout.calls == 1:
        found.one_by_one(pieces.order)
    else:
        for p, members in _rounds(pieces, calls.size):
            found.round(p, members)
    return found


class Places(NamedTuple):
    """Addresses, in numbers of the dtype. scalars: of each scalar; blocks: of each group's results;
    collected: for each group that needs it, where its own collection of operands begins; size: of
    the memory. Inputs lie at the beginning, those of one state beside each other.
    """

    scalars: np.ndarray
    blocks: np.ndarray
    collected: dict[int, int]
    size: int


class _Memory:
    """Blocks, which are given back."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> int:
        if self._free.get(size):
            return self._free[size].pop()
        self.size += size
        return self.size - size

    def give(self, at: int, size: int) -> None:
        self._free.setdefault(size, []).append(at)


class Operands(NamedTuple):
    """What a group reads. at: addresses (lanes, reads), of some call's where a lane has none;
    aligned: which reads lie in the lanes of their readers; first: where those of lane 0 would lie.
    """

    at: np.ndarray
    aligned: np.ndarray
    first: np.ndarray


def _operands(where: _Standing, group: Group, scalars: np.ndarray) -> Operands:
    reads, layout = where.pieces[group.piece].reads, where.layout
    some = next(c for c in group.calls if c != NOWHERE)
    at = scalars[reads[[some if c == NOWHERE else c for c in group.calls]]]
    if layout.calls == 1:
        return Operands(at, np.ones(at.shape[1], bool), at[0])
    there = np.array([c != NOWHERE for c in group.calls])
    first = (at - np.arange(layout.calls)[:, None] * layout.states)[there]
    same = (first == first[0]).all(axis=0) & (first[0] % layout.width == 0)
    return Operands(at, same, first[0])


def _last_readers(where: _Standing, wanted: Sequence[int]) -> dict[int, list[int]]:
    """For each group those whose results nobody reads after it."""
    last = np.full(len(where.groups), NOWHERE)
    for g, group in enumerate(where.groups):
        reads = where.pieces[group.piece].reads[[c for c in group.calls if c != NOWHERE]]
        made = where.group[reads]
        last[made[made != NOWHERE]] = g
    kept = where.group[list(wanted)]
    last[kept[kept != NOWHERE]] = len(where.groups)
    ending: dict[int, list[int]] = {}
    for g, end in enumerate(last):
        ending.setdefault(int(end), []).append(g)
    return ending


def placed(where: _Standing, calls: Calls, wanted: Sequence[int]) -> tuple[Places, list[Operands]]:
    """wanted: the scalars that are results, whose blocks are kept."""
    width, states = where.layout.width, where.layout.states
    scalars = np.zeros(calls.size, np.int64)
    scalars[: where.declared], taken = where.inputs(calls)
    memory = _Memory(taken)
    blocks = np.zeros(len(where.groups), np.int64)
    collected: dict[int, int] = {}
    given: list[Operands] = []
    ending = _last_readers(where, wanted)
    sizes = [where.pieces[group.piece].gives.shape[1] * width for group in where.groups]
    for g, group in enumerate(where.groups):
        given.append(_operands(where, group, scalars))
        blocks[g] = memory.take(sizes[g])
        for lane, c in enumerate(group.calls):
            if c != NOWHERE:
                gives = where.pieces[group.piece].gives[c]
                scalars[gives] = blocks[g] + np.arange(len(gives)) * width + lane * states
        if loose := int((~given[g].aligned).sum()):
            collected[g] = memory.take(loose * width)
            memory.give(collected[g], loose * width)
        for old in ending.get(g, ()):
            memory.give(int(blocks[old]), sizes[old])
    return Places(scalars, blocks, collected, memory.size), given
