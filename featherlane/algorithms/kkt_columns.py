"""Columns of the derivatives of dynamics with constraints: da and df from X and A, by a KKT inverse
in its sparse coordinates (see kkt_inverse.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from featherlane.algorithms.sparse_rows import Row, subtract
from featherlane.robot.spatial import Rotation
from featherlane.scalar import Scalar

Rotations = dict[int, Rotation]  # to the axes of `to`, by the first of the three rows of a group


class SparseColumn(NamedTuple):
    """A column of X and one of A, and what is added to the columns of da and df that they give. All
    have few entries; those of A are in the axes of `frame`, those of df in the axes of `to`.
    """

    x: Row
    y: Row
    a: Row
    f: Row

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The rows of its entries, part by part."""
        return tuple(tuple(sorted(part)) for part in self)

    def pack(self) -> list[Scalar]:
        """Returns its entries in one list."""
        return [part[k] for part in self for k in sorted(part)]

    @staticmethod
    def unpack(places: Sequence[Sequence[int]], packed: Iterable[Scalar]) -> SparseColumn:
        """Returns the column whose entries are in these places."""
        entries = iter(packed)
        return SparseColumn(*[{k: next(entries) for k in part} for part in places])


class Response(NamedTuple):
    """The columns of -da and df that one entry causes."""

    a: Row
    f: Row


class ColumnSolver(NamedTuple):
    """The part of a KKT inverse that columns with entries in the same places need.

    L: rows of L, those of leaves first. to_rows: columns of Y D^-1, for entries of z whose effect
    on J da is added to A. by_z, by_A: the responses to entries of z and of A.
    """

    L: dict[int, Row]
    to_rows: dict[int, Row]
    rotations: Rotations
    by_z: dict[int, Response]
    by_A: dict[int, Response]

    def solve(self, c: SparseColumn) -> tuple[Row, Row]:
        """Returns a column of da and one of df."""
        z, A, da, df = dict(c.x), dict(c.y), dict(c.a), dict(c.f)
        for i, row in self.L.items():
            subtract(z, row, z[i])
        for k, column in self.to_rows.items():
            subtract(A, column, z[k])
        for entries, responses in ((z, self.by_z), (in_axes(self.rotations, A), self.by_A)):
            for k, response in responses.items():
                subtract(da, response.a, entries[k])
                for r, x in response.f.items():
                    df[r] = df.get(r, 0.0) + x * entries[k]
        return da, df


def in_axes(rotations: Rotations, column: Row) -> Row:
    """Returns a column of rows of constraints in the axes of `to`."""
    result = dict(column)
    for first, rotation in rotations.items():
        rows = range(first, first + 3)
        if any(r in column for r in rows):
            in_to = rotation.to_parent([column.get(r, 0.0) for r in rows])
            result.update(zip(rows, in_to, strict=True))
    return result


def whole_groups(rotations: Rotations, rows: Iterable[int]) -> set[int]:
    """Returns the rows of a column `in_axes`."""
    groups = [{first, first + 1, first + 2} for first in rotations]
    return set(rows).union(*(group for group in groups if not group.isdisjoint(rows)))


def held_entries(moved: dict[int, set[int]], rows: set[int]) -> set[int]:
    """Returns the entries of z whose effect on J da is added to A, where that needs fewer
    responses than they have. moved: the rows of J da that each entry moves; rows: those of A.
    """
    alike: dict[frozenset[int], set[int]] = {}
    for k, of_entry in moved.items():
        alike.setdefault(frozenset(of_entry), set()).add(k)
    held = set[int]()
    for of_entries, entries in sorted(alike.items(), key=lambda item: len(item[0])):
        if len(of_entries - rows) < len(entries):
            held |= entries
            rows = rows | of_entries
    return held
