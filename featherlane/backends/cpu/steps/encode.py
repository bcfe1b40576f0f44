"""Calls as a program of words, which says what is applied to what.

A program is a list of 32-bit numbers: the number of a function, how often it runs, and for each
time a record. Function 0 collects operands from lane to lane, the others are pieces, whose record
holds where their results go, where their constants are and where their operands begin: reads that
always lie at the same distance share one number. So the program is as long as the robot, and the
code (`steps/interpreter`) is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from featherlane.backends.cpu.loaded import LoopWords
from featherlane.backends.cpu.steps.batching import (
    Addresses,
    Group,
    GroupOperands,
    LaneLayout,
    allocate,
    assign_lanes,
)
from featherlane.program.call_list import CallList, FunctionCalls
from featherlane.program.graph import Graph

COLLECT = 0  # its number among the functions


class Base(NamedTuple):
    """For each read of a piece: which number of its record it is counted from, and how far."""

    number: int
    distance: int


class StepCode(NamedTuple):
    """A piece as code: its graph, and where its reads lie."""

    graph: Graph
    bases: tuple[Base, ...]

    @property
    def size(self) -> int:
        """The words of a record: where results go, where constants are, the bases."""
        return 2 + len({base.number for base in self.bases})


class StepProgram(NamedTuple):
    """The encoded calls of a program in one layout. words: 32-bit numbers; constants: those of
    all groups; inputs, results: the addresses of the entries of all arrays in turn; known:
    constants that are results, by address; size: of the workspace.
    """

    layout: LaneLayout
    codes: list[StepCode]
    words: np.ndarray
    constants: np.ndarray
    inputs: np.ndarray
    results: np.ndarray
    known: dict[int, float]
    size: int

    def arrays(self, dtype: np.dtype) -> ProgramArrays:
        """The arrays that code in a dtype reads besides the user's."""
        start = np.zeros(self.size, dtype)
        for at, x in self.known.items():
            start[at : at + self.layout.width] = x
        constants = self.constants.astype(dtype)
        return ProgramArrays(constants, self.words, self.inputs, self.results, start)


class ProgramArrays(NamedTuple):
    """A program in memory. start: what a new workspace contains."""

    constants: np.ndarray
    words: np.ndarray
    inputs: np.ndarray
    results: np.ndarray
    start: np.ndarray

    def addresses(self) -> LoopWords:
        constants, words, inputs, results, start = (array.ctypes.data for array in self)
        end = words + self.words.nbytes
        return LoopWords(constants, words, end, inputs, results, self.start.nbytes, start)


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


def _words(records: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    """Records with the numbers of their functions as words: runs of one function share a head."""
    parts = [np.zeros(0, int)]
    for function, run in groupby(records, key=lambda record: record[0]):
        own = [record for _, record in run]
        parts += [np.array([function, len(own)]), *own]
    return np.concatenate(parts).astype(np.int32)


def _collections(
    operands: GroupOperands, to: int, layout: LaneLayout
) -> tuple[list[np.ndarray], np.ndarray]:
    """Records that bring the loose reads to the block at `to`: where it goes, how many entries, and
    where they begin for each lane. Reads that follow each other in all lanes are one record.
    """
    loose = np.flatnonzero(~operands.aligned)
    records: list[np.ndarray] = []
    at = operands.at[:, loose]
    start = 0
    for n in range(1, len(loose) + 1):
        if n == len(loose) or not (at[:, n] == at[:, n - 1] + layout.width).all():
            place = to + start * layout.width
            records.append(np.array([place, n - start, *at[:, start]]))
            start = n
    first = operands.first.copy()
    first[loose] = to + np.arange(len(loose)) * layout.width
    return records, first


def _constants(function: FunctionCalls, group: Group, layout: LaneLayout) -> np.ndarray:
    """Of a group: a number for each where all lanes are of one call, else a vector for each."""
    rows = function.constants[group.filled]
    return rows[0] if layout.calls == 1 else np.repeat(rows.T, layout.states, axis=1).reshape(-1)


def step_program(calls: CallList, layout: LaneLayout) -> StepProgram:
    """The program that runs these calls."""
    wanted = [x for _, flat in calls.outputs for x in flat]
    where = assign_lanes(calls, layout)
    addresses, operands = allocate(where, calls, [x for x in wanted if isinstance(x, int)])
    collections: list[list[np.ndarray]] = []
    reads: list[list[np.ndarray]] = [[] for _ in calls.functions]
    for g, (group, own) in enumerate(zip(where.groups, operands, strict=True)):
        records, first = _collections(own, addresses.collected.get(g, 0), layout)
        collections.append(records)
        reads[group.piece].append(first)
    found = [_bases(np.array(rows)) for rows in reads]
    starts = [iter(rows) for _, rows in found]
    words: list[tuple[int, np.ndarray]] = []
    constants, taken = [np.zeros(0)], 0
    for g, group in enumerate(where.groups):
        constants.append(_constants(calls.functions[group.piece], group, layout))
        words += [(COLLECT, record) for record in collections[g]]
        record = np.array([addresses.blocks[g], taken, *next(starts[group.piece])])
        words.append((group.piece + 1, record))
        taken += len(constants[-1])
    results, known, size = _results(wanted, addresses, layout)
    return StepProgram(
        layout,
        [StepCode(f.graph, bases) for f, (bases, _) in zip(calls.functions, found, strict=True)],
        _words(words),
        np.concatenate(constants),
        addresses.scalars[: where.input_scalars].astype(np.int32),
        results,
        known,
        size,
    )


def _results(
    wanted: Sequence[int | float], addresses: Addresses, layout: LaneLayout
) -> tuple[np.ndarray, dict[int, float], int]:
    """The address of each result; those of numbers that are known lie behind all else."""
    size, known, at = addresses.size, {}, []
    for x in wanted:
        if isinstance(x, int):
            at.append(int(addresses.scalars[x]))
        else:
            known[size] = x
            at.append(size)
            size += layout.width
    return np.array(at, np.int32), known, size
