"""Calls encoded as a program of words for an interpreter (`steps/interpreter`).

A program is a list of 32-bit numbers: the number of a function, the number of its calls, and a
record for each call. Function 0 gathers operands from lane to lane; the others are functions of
the program, whose records have the addresses of their results, constants and operands. Operands
that are always at the same distance share one address. So the length of the program grows with the
robot, and the length of the code does not.
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

COLLECT = 0  # the number of the function that gathers operands


class Base(NamedTuple):
    """The address of an operand of a function: an address of its record, and the distance from
    it.
    """

    number: int
    distance: int


class StepCode(NamedTuple):
    """The code of a function: its graph, and the addresses of its operands."""

    graph: Graph
    bases: tuple[Base, ...]

    @property
    def size(self) -> int:
        """The words of a record: the addresses of results and constants, and the bases."""
        return 2 + len({base.number for base in self.bases})


class StepProgram(NamedTuple):
    """The encoded calls of a program in one layout. words: 32-bit numbers; constants: of all
    groups; inputs, results: the addresses of the entries of all arrays, one array after another;
    known: constants that are results, by address; size: of the workspace.
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
        """The arrays of the program in a dtype."""
        start = np.zeros(self.size, dtype)
        for at, x in self.known.items():
            start[at : at + self.layout.width] = x
        constants = self.constants.astype(dtype)
        return ProgramArrays(constants, self.words, self.inputs, self.results, start)


class ProgramArrays(NamedTuple):
    """A program in memory. start: the initial contents of a workspace."""

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
    """The bases of addresses (groups, reads), and the addresses (groups, bases) of records."""
    bases: list[Base] = []
    columns: list[np.ndarray] = []
    for column in at.T:
        for number, first in enumerate(columns):
            distance = column - first
            if (distance == distance[0]).all():
                bases.append(Base(number, int(distance[0])))
                break
        else:
            bases.append(Base(len(columns), 0))
            columns.append(column)
    return tuple(bases), np.array(columns).T.reshape(len(at), len(columns))


def _words(records: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    """Records with the numbers of their functions as words: runs of one function share a head."""
    parts = [np.zeros(0, int)]
    for function, run in groupby(records, key=lambda record: record[0]):
        records_of_run = [record for _, record in run]
        parts += [np.array([function, len(records_of_run)]), *records_of_run]
    return np.concatenate(parts).astype(np.int32)


def _collections(
    operands: GroupOperands, to: int, layout: LaneLayout
) -> tuple[list[np.ndarray], np.ndarray]:
    """Records that gather the operands that are not aligned into the block at `to`: target, count,
    and source of each lane. Operands that are consecutive in all lanes share one record.
    """
    loose = np.flatnonzero(~operands.aligned)
    records: list[np.ndarray] = []
    at = operands.at[:, loose]
    start = 0
    for n in range(1, len(loose) + 1):
        if n == len(loose) or not (at[:, n] == at[:, n - 1] + layout.width).all():
            target = to + start * layout.width
            records.append(np.array([target, n - start, *at[:, start]]))
            start = n
    first = operands.first.copy()
    first[loose] = to + np.arange(len(loose)) * layout.width
    return records, first


def _constants(function: FunctionCalls, group: Group, layout: LaneLayout) -> np.ndarray:
    """The constants of a group: numbers if all lanes belong to one call, else vectors."""
    rows = function.constants[group.filled]
    return rows[0] if layout.calls == 1 else np.repeat(rows.T, layout.states, axis=1).reshape(-1)


def step_program(calls: CallList, layout: LaneLayout) -> StepProgram:
    """The program that runs these calls."""
    wanted = [x for _, flat in calls.outputs for x in flat]
    where = assign_lanes(calls, layout)
    addresses, operands = allocate(where, calls, [x for x in wanted if isinstance(x, int)])
    collections: list[list[np.ndarray]] = []
    reads: list[list[np.ndarray]] = [[] for _ in calls.functions]
    for g, (group, operands_of_group) in enumerate(zip(where.groups, operands, strict=True)):
        records, first = _collections(operands_of_group, addresses.collected.get(g, 0), layout)
        collections.append(records)
        reads[group.piece].append(first)
    bases = [_bases(np.array(rows)) for rows in reads]
    starts = [iter(rows) for _, rows in bases]
    words: list[tuple[int, np.ndarray]] = []
    constants, count_of_constants = [np.zeros(0)], 0
    for g, group in enumerate(where.groups):
        constants.append(_constants(calls.functions[group.piece], group, layout))
        words += [(COLLECT, record) for record in collections[g]]
        record = np.array([addresses.blocks[g], count_of_constants, *next(starts[group.piece])])
        words.append((group.piece + 1, record))
        count_of_constants += len(constants[-1])
    results, known, size = _results(wanted, addresses, layout)
    return StepProgram(
        layout,
        [StepCode(f.graph, bases) for f, (bases, _) in zip(calls.functions, bases, strict=True)],
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
    """The address of each result. Results that are constants come last in the workspace."""
    size, known, at = addresses.size, {}, []
    for x in wanted:
        if isinstance(x, int):
            at.append(int(addresses.scalars[x]))
        else:
            known[size] = x
            at.append(size)
            size += layout.width
    return np.array(at, np.int32), known, size
