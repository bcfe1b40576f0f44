"""Recorded calls as a program of numbers, which says what is applied to what.

A program is a list of 32 bit numbers: the number of a function, how often it runs, and for each
time a record. Function 0 collects operands from lane to lane, the others are pieces, whose record
holds where their results go, where their constants are and where their operands begin: reads that
always lie at the same distance share one number. So the program is as long as the robot, and the
code (`backends.calls`) is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.steps.batching import (
    NOWHERE,
    Group,
    Layout,
    Operands,
    Places,
    placed,
    standing,
)
from featherlane.backends.cpu.steps.calls import CallList, FunctionCalls
from featherlane.program.graph import Graph

COLLECT = 0  # its number among the functions


class Base(NamedTuple):
    """For each read of a piece: which number of its record it is counted from, and how far."""

    number: int
    distance: int


class Code(NamedTuple):
    """A piece as code: its graph, and where its reads lie."""

    graph: Graph
    bases: tuple[Base, ...]


class Work(NamedTuple):
    """What runs the calls of one recording in one layout. program: 32 bit numbers; constants: those
    of all groups; given, results: the addresses of the entries of all inputs and outputs in turn;
    numbers: constants that are results, by address; size: of the memory.
    """

    layout: Layout
    codes: list[Code]
    program: np.ndarray
    constants: np.ndarray
    given: np.ndarray
    results: np.ndarray
    numbers: dict[int, float]
    size: int


def _bases(at: np.ndarray) -> tuple[tuple[Base, ...], np.ndarray]:
    """Of addresses (groups, reads): the bases of the reads, and the numbers (groups, bases)."""
    found: list[Base] = []
    columns: list[np.ndarray] = []
    for column in at.T:
        for number, first in enumerate(columns):
            distance = column - first
            if (distance == distance[0]).all():
                found.append(Base(number, int(distance[0])))
                break
        else:
            found.append(Base(len(columns), 0))
            columns.append(column)
    return tuple(found), np.array(columns).T.reshape(len(at), len(columns))


class _Program:
    """Numbers as they are written."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []
        self._function = NOWHERE
        self._records: list[np.ndarray] = []

    def add(self, function: int, record: np.ndarray) -> None:
        if function != self._function:
            self.close()
            self._function = function
        self._records.append(record)

    def close(self) -> None:
        if self._records:
            self.parts.append(np.array([self._function, len(self._records)]))
            self.parts += self._records
        self._records = []


def _collections(given: Operands, to: int, layout: Layout) -> tuple[list[np.ndarray], np.ndarray]:
    """Records that bring the loose reads to the block at `to`: where it goes, how many entries, and
    where they begin for each lane. Reads that follow each other in all lanes are one record.
    """
    loose = np.flatnonzero(~given.aligned)
    records: list[np.ndarray] = []
    at = given.at[:, loose]
    start = 0
    for n in range(1, len(loose) + 1):
        if n == len(loose) or not (at[:, n] == at[:, n - 1] + layout.width).all():
            place = to + start * layout.width
            records.append(np.array([place, n - start, *at[:, start]]))
            start = n
    first = given.first.copy()
    first[loose] = to + np.arange(len(loose)) * layout.width
    return records, first


def _constants(function: FunctionCalls, group: Group, layout: Layout) -> np.ndarray:
    """Of a group: a number for each where all lanes are of one call, else a vector for each."""
    some = next(c for c in group.calls if c != NOWHERE)
    rows = function.constants[[some if c == NOWHERE else c for c in group.calls]]
    return rows[0] if layout.calls == 1 else np.repeat(rows.T, layout.states, axis=1).reshape(-1)


def work(calls: CallList, layout: Layout) -> Work:
    """The program of a recording."""
    wanted = [x for _, flat in calls.outputs for x in flat]
    scalars = [x for x in wanted if isinstance(x, int)]
    where = standing(calls, layout)
    places, given = placed(where, calls, scalars)
    collections: list[list[np.ndarray]] = []
    reads: list[list[np.ndarray]] = [[] for _ in calls.functions]
    for g, (group, own) in enumerate(zip(where.groups, given, strict=True)):
        records, first = _collections(own, places.collected.get(g, 0), layout)
        collections.append(records)
        reads[group.piece].append(first)
    found = [_bases(np.array(rows)) for rows in reads]
    program, constants = _Program(), []
    count, taken = [0] * len(found), 0
    for g, group in enumerate(where.groups):
        for record in collections[g]:
            program.add(COLLECT, record)
        row = _constants(calls.functions[group.piece], group, layout)
        starts = found[group.piece][1][count[group.piece]]
        program.add(group.piece + 1, np.array([places.blocks[g], taken, *starts]))
        count[group.piece] += 1
        constants.append(row)
        taken += len(row)
    program.close()
    results, numbers, size = _results(wanted, places, layout)
    return Work(
        layout,
        [Code(p.graph, bases) for p, (bases, _) in zip(calls.functions, found, strict=True)],
        np.concatenate([*program.parts, np.zeros(0, int)]).astype(np.int32),
        np.concatenate([*constants, np.zeros(0)]),
        places.scalars[: where.declared].astype(np.int32),
        results,
        numbers,
        size,
    )


def _results(
    wanted: Sequence[int | float], places: Places, layout: Layout
) -> tuple[np.ndarray, dict[int, float], int]:
    """The address of each result; those of numbers that are known lie behind all else."""
    size, numbers, at = places.size, {}, []
    for x in wanted:
        if isinstance(x, int):
            at.append(int(places.scalars[x]))
        else:
            numbers[size] = x
            at.append(size)
            size += layout.width
    return np.array(at, np.int32), numbers, size
