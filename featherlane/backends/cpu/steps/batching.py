"""Assigns calls to the lanes of vectors, and scalars to memory.

A vector of `width` lanes holds `states` states of as many calls of one function as fit. With as
many states as lanes, calls run one by one in their order. With fewer states, independent calls
share a vector: a call that reads inputs gets the lane of their position in the inputs, so that a
lane holds a range of neighbouring links; any other call gets the lane of its oldest operand.

The results of a group of calls are a block, entry after entry, one vector each. An operand is read
in place if its lanes are those of its readers; else it is gathered from lane to lane before. Blocks
are reused after their last read, so that memory holds live values only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.graphs.areas import BlockAllocator
from featherlane.program.call_list import CallList

NOWHERE = -1


class LaneLayout(NamedTuple):
    """The use of lanes. width: lanes of a vector, of which `states` belong to one call; span: the
    neighbouring links that are assigned to one lane.
    """

    width: int
    states: int
    span: int = 1

    @property
    def calls(self) -> int:
        return self.width // self.states

    @property
    def record(self) -> int:
        """The words of a record that gathers operands: target, count, and source of each lane."""
        return 2 + self.calls


def links(inputs: Sequence[tuple[int, ...]]) -> int:
    """Returns the number of links from the shapes of inputs: all but one input have a row for each
    link, or more.
    """
    return sorted(shape[0] if shape else 1 for shape in inputs)[-2:][0]


class Group(NamedTuple):
    """Calls of a function that share a vector: one for each lane, or NOWHERE."""

    piece: int
    calls: tuple[int, ...]

    @property
    def present(self) -> list[int]:
        """The calls, without empty lanes."""
        return [c for c in self.calls if c != NOWHERE]

    @property
    def filled(self) -> list[int]:
        """A call for each lane; lanes without one repeat another lane's."""
        some = self.present[0]
        return [some if c == NOWHERE else c for c in self.calls]


class LaneAssignment:
    """Groups in their order; for each scalar the group that computes it, and the lane."""

    def __init__(self, calls: CallList, layout: LaneLayout) -> None:
        self.functions, self.layout = calls.functions, layout
        self.group = np.full(calls.size, NOWHERE)
        self.lane = np.zeros(calls.size, int)
        self._piece: list[int] = []
        self._members: list[dict[int, int]] = []
        self.input_scalars = sum(math.prod(shape) for _, shape in calls.inputs)
        self._link = self._links(calls)
        self.lane[: self.input_scalars] = (
            self._link[: self.input_scalars] // layout.span % layout.calls
        )

    def _links(self, calls: CallList) -> np.ndarray:
        """Returns the link of each scalar of an input; fewer rows are stretched over the links."""
        count = links([shape for _, shape in calls.inputs])
        link = np.zeros(calls.size, int)
        for first, shape in calls.inputs:
            rows, entries = math.prod(shape[:1]), math.prod(shape[1:])
            stretched = np.arange(rows) * count // max(rows, 1)
            link[first : first + rows * entries] = stretched.repeat(entries)
        return link

    def inputs(self, calls: CallList) -> tuple[np.ndarray, int]:
        """The addresses of inputs, each in its lane, and the size of their memory."""
        width, states = self.layout.width, self.layout.states
        at, rows = np.zeros(self.input_scalars, np.int64), 0
        for first, shape in calls.inputs:
            entries = slice(first, first + math.prod(shape))
            lane = self.lane[entries]
            order = np.argsort(lane, kind="stable")
            row = np.empty(len(lane), int)
            row[order] = np.arange(len(lane)) - np.searchsorted(lane[order], lane[order])
            at[entries] = (rows + row) * width + lane * states
            rows += int(row.max(initial=-1)) + 1
        return at, rows * width

    def one_by_one(self, order: np.ndarray) -> None:
        for p, c in order:
            self._join(self._open(p), c, 0)

    def side_by_side(self, order: np.ndarray) -> None:
        """Each call joins a group of its function: the first one next to the group of its oldest
        operand in which its lane is free and which no operand of the call depends on.
        """
        open_groups: dict[tuple[int, int], list[int]] = {}
        waits = _Dependencies()
        for p, c in order:
            reads = self.functions[p].operands[c]
            before = {int(g) for g in self.group[reads] if g != NOWHERE}
            neighbour, lane = self._preferred(reads)
            known = open_groups.setdefault((p, neighbour), [])
            for g in known:
                if lane not in self._members[g] and waits.may_join(g, before):
                    break
            else:
                known.append(g := self._open(p))
            self._join(g, c, lane)
            waits.join(g, before)
        self._sort_groups(np.array(waits.level, int))

    def _sort_groups(self, level: np.ndarray) -> None:
        """Puts the groups into an order in which each comes after those that it reads from."""
        order = np.argsort(level, kind="stable")
        position = np.empty(len(order), int)
        position[order] = np.arange(len(order))
        computed = self.group != NOWHERE
        self.group[computed] = position[self.group[computed]]
        self._piece = [self._piece[g] for g in order]
        self._members = [self._members[g] for g in order]

    def _open(self, p: int) -> int:
        self._piece.append(p)
        self._members.append({})
        return len(self._members) - 1

    def _join(self, g: int, c: int, lane: int) -> None:
        self._members[g][lane] = c
        results = self.functions[self._piece[g]].results[c]
        self.group[results], self.lane[results] = g, lane

    @cached_property
    def groups(self) -> list[Group]:
        """All groups, valid once every call has joined one."""
        lanes = range(self.layout.calls)
        return [
            Group(p, tuple(members.get(k, NOWHERE) for k in lanes))
            for p, members in zip(self._piece, self._members, strict=True)
        ]

    def _preferred(self, reads: np.ndarray) -> tuple[int, int]:
        """Returns the group and the lane of the oldest value that a call reads. The oldest operand
        belongs to the link of the call, younger ones come from its neighbours: so each link stays
        in one lane. Inputs of one position in their lanes count as a group before all others.
        """
        if not len(reads):
            return NOWHERE, 0
        groups, span = self.group[reads], self.layout.span
        owners = np.where(groups == NOWHERE, self._link[reads] % span - span - 1, groups)
        oldest = owners.argmin()
        return int(owners[oldest]), int(self.lane[reads[oldest]])


class _Dependencies:
    """The dependencies between groups: a group depends only on groups of lower levels."""

    def __init__(self) -> None:
        self.level: list[int] = []
        self._after: list[set[int]] = []

    def may_join(self, g: int, before: set[int]) -> bool:
        """Whether the group may depend on all of these groups: none of them depends on it."""
        highest = max((self.level[b] for b in before), default=-1)
        if self.level[g] > highest:
            return True
        seen, pending = {g}, [g]
        while pending:
            for later in self._after[pending.pop()]:
                if later in before:
                    return False
                if later not in seen and self.level[later] <= highest:
                    seen.add(later)
                    pending.append(later)
        return g not in before

    def join(self, g: int, before: set[int]) -> None:
        """Records that the group, which may be new, depends on all of these groups."""
        if g == len(self.level):
            self.level.append(0)
            self._after.append(set())
        for b in before:
            self._after[b].add(g)
        self._raise(g, 1 + max((self.level[b] for b in before), default=-1))

    def _raise(self, g: int, level: int) -> None:
        """Raises the group to this level at least, and the groups that depend on it above it."""
        rising = [(g, level)]
        while rising:
            g, level = rising.pop()
            if self.level[g] < level:
                self.level[g] = level
                rising += [(later, level + 1) for later in self._after[g]]


def assign_lanes(calls: CallList, layout: LaneLayout) -> LaneAssignment:
    """The groups of all calls: of one call each if states fill the lanes."""
    assignment = LaneAssignment(calls, layout)
    assign = assignment.one_by_one if layout.calls == 1 else assignment.side_by_side
    assign(calls.order)
    return assignment


class Addresses(NamedTuple):
    """Addresses, in numbers of the dtype. scalars: of each scalar; blocks: of each group's results;
    collected: of the gathered operands of each group that has any; size: of the memory. Inputs come
    first.
    """

    scalars: np.ndarray
    blocks: np.ndarray
    collected: dict[int, int]
    size: int


class GroupOperands(NamedTuple):
    """The operands of a group. at: addresses (lanes, reads), those of another call where a lane is
    empty; aligned: whether each read is in the lanes of its readers; first: the address in lane 0.
    """

    at: np.ndarray
    aligned: np.ndarray
    first: np.ndarray


def _operands(where: LaneAssignment, group: Group, scalars: np.ndarray) -> GroupOperands:
    layout = where.layout
    at = scalars[where.functions[group.piece].operands[group.filled]]
    if layout.calls == 1:
        return GroupOperands(at, np.ones(at.shape[1], bool), at[0])
    there = np.array([c != NOWHERE for c in group.calls])
    first = (at - np.arange(layout.calls)[:, None] * layout.states)[there]
    same = (first == first[0]).all(axis=0) & (first[0] % layout.width == 0)
    return GroupOperands(at, same, first[0])


def _last_readers(where: LaneAssignment, wanted: Sequence[int]) -> dict[int, list[int]]:
    """The groups whose results are last read by each group."""
    last = np.full(len(where.groups), NOWHERE)
    for g, group in enumerate(where.groups):
        producers = where.group[where.functions[group.piece].operands[group.present]]
        last[producers[producers != NOWHERE]] = g
    kept = where.group[list(wanted)]
    last[kept[kept != NOWHERE]] = len(where.groups)
    ending: dict[int, list[int]] = {}
    for g, end in enumerate(last):
        ending.setdefault(int(end), []).append(g)
    return ending


def allocate(
    where: LaneAssignment, calls: CallList, wanted: Sequence[int]
) -> tuple[Addresses, list[GroupOperands]]:
    """Allocates memory to scalars. wanted: the results, whose blocks are not reused."""
    width, states = where.layout.width, where.layout.states
    scalars = np.zeros(calls.size, np.int64)
    scalars[: where.input_scalars], taken = where.inputs(calls)
    memory = BlockAllocator(taken)
    blocks = np.zeros(len(where.groups), np.int64)
    collected: dict[int, int] = {}
    operands: list[GroupOperands] = []
    ending = _last_readers(where, wanted)
    sizes = [where.functions[group.piece].results.shape[1] * width for group in where.groups]
    for g, group in enumerate(where.groups):
        operands.append(_operands(where, group, scalars))
        blocks[g] = memory.take(sizes[g])
        for lane, c in enumerate(group.calls):
            if c != NOWHERE:
                results = where.functions[group.piece].results[c]
                scalars[results] = blocks[g] + np.arange(len(results)) * width + lane * states
        if loose := int((~operands[g].aligned).sum()):
            collected[g] = memory.take(loose * width)
            memory.release(collected[g], loose * width)
        for old in ending.get(g, ()):
            memory.release(int(blocks[old]), sizes[old])
    return Addresses(scalars, blocks, collected, memory.size), operands
