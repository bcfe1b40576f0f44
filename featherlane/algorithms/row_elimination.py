"""The answer of a step to changes along its rows, with one block of rows after another eliminated.

Without impulses velocities answer forces with P = M^-1. A row A, whose impulse acts along F and
changes by -w / c times the velocity along A (c = 0: that velocity stays 0), takes from the answer

    P - Z g A P,    V - Z g (A V + y),    Z = P F^T,    g = w / (w A Z + c)

with the velocities V that answer changes y along rows. Sizes are those of M and not of the number
of rows, each pivot A Z is what the row has left after those before it, and a row that is redundant,
whose pivot is lost among rounding errors, takes nothing. Single vectors are answered by the same
pivots, of S = A Z.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple

from featherlane.algorithms.common import Scalars
from featherlane.algorithms.mminv import Rows
from featherlane.robot.spatial import dot
from featherlane.robot.tree import Tree
from featherlane.scalar import Scalar, select

BLOCK = 3  # rows that are eliminated in one pass over P and V
LAWS = 3 * BLOCK + 1  # scalars of the laws of a block


class RowLaw(NamedTuple):
    """w and c of a row, and the square of the least pivot of a row that is not redundant."""

    w: Scalar
    c: Scalar
    least: Scalar

    def gain(self, pivot: Scalar) -> Scalar:
        """Returns g."""
        whole = self.w * pivot + self.c
        return select(whole * whole > self.least, self.w / whole, 0.0)


class RowBlock(NamedTuple):
    """Rows A, their changes y with a column for each input, and their laws. lean: F of the first
    row is A less so much of the last row, by which friction of a contact that slides leans.
    """

    rows: Rows
    changes: Rows
    laws: Sequence[RowLaw]
    lean: Scalar = 0.0

    def packed_laws(self) -> list[Scalar]:
        """Returns the scalars of the laws, and lean."""
        return [*chain.from_iterable(self.laws), self.lean]

    @staticmethod
    def unpacked(rows: Rows, changes: Rows, laws: Scalars) -> RowBlock:
        """Returns the block whose laws `packed_laws` gave."""
        each = iter(laws)
        return RowBlock(rows, changes, [RowLaw(*islice(each, 3)) for _ in rows], *each)


def in_blocks(rows: Rows, changes: Rows, laws: Sequence[RowLaw]) -> list[RowBlock]:
    """Returns single rows in blocks, of which the last is filled with rows that take nothing."""
    blocks = list[RowBlock]()
    for first in range(0, len(rows), BLOCK):
        part = slice(first, first + BLOCK)
        A, y, w = [*rows[part]], [*changes[part]], [*laws[part]]
        while len(A) < BLOCK:
            A.append([0.0] * len(A[0]))
            y.append([0.0] * len(y[0]))
            w.append(RowLaw(0.0, 1.0, 0.0))
        blocks.append(RowBlock(A, y, w))
    return blocks


def eliminate(block: RowBlock, answer: Rows) -> Rows:
    """Returns [P, V] after the rows of a block."""
    n, columns = len(answer), [*zip(*answer, strict=True)]
    none = [0.0] * n
    moved = [
        [dot(row, column) + y for column, y in zip(columns, [*none, *change], strict=True)]
        for row, change in zip(block.rows, block.changes, strict=True)
    ]
    first, last = block.rows[0], block.rows[-1]
    F = [[x - block.lean * y for x, y in zip(first, last, strict=True)], *block.rows[1:]]
    Z = [[dot(row[:n], f) for row in answer] for f in F]
    S = [[dot(row, z) for z in Z] for row in block.rows]
    for r, law in enumerate(block.laws):
        gain = law.gain(S[r][r])
        later = range(r + 1, len(S))
        for s in later:
            share = S[s][r] * gain
            moved[s] = [x - share * y for x, y in zip(moved[s], moved[r], strict=True)]
            S[s] = [x - share * y for x, y in zip(S[s], S[r], strict=True)]
        moved[r] = [gain * x for x in moved[r]]
        for s in later:
            Z[s] = [x - (gain * S[r][s]) * y for x, y in zip(Z[s], Z[r], strict=True)]
    return [
        [x - dot(z, m) for x, m in zip(row, zip(*moved, strict=True), strict=True)]
        for row, z in zip(answer, zip(*Z, strict=True), strict=True)
    ]


def eliminate_rows(
    tree: Tree, rows: Rows, changes: Rows, laws: Scalars, answer: Rows
) -> tuple[Rows]:
    """Returns the answer after the rows of a block, whose laws are packed."""
    return (eliminate(RowBlock.unpacked(rows, changes, laws), answer),)


class RowResponse(NamedTuple):
    """The elimination of single vectors: S = A Z of all rows, less the shares of the rows that were
    eliminated before each of them, and the gains g.
    """

    S: Rows
    gains: list[Scalar]

    @staticmethod
    def of(S: Rows, laws: Sequence[RowLaw]) -> RowResponse:
        """Returns the response of rows with this S, A in rows and F in columns."""
        S, gains = [list(row) for row in S], list[Scalar]()
        for r, law in enumerate(laws):
            gains.append(law.gain(S[r][r]))
            kept = r + 1
            for s in range(kept, len(S)):
                share = S[s][r] * gains[r]
                later = zip(S[s][kept:], S[r][kept:], strict=True)
                S[s] = [*S[s][:kept], *[x - share * y for x, y in later]]
        return RowResponse(S, gains)

    def solve(self, moved: Scalars, transposed: bool = False) -> list[Scalar]:
        """Returns the impulses that stand against velocities moved along rows, or the product with
        the transpose of that matrix.
        """
        S = [*zip(*self.S, strict=True)] if transposed else self.S
        x, n = list(moved), len(moved)
        for r in range(n):
            x[r] = self.gains[r] * x[r]
            for s in range(r + 1, n):
                x[s] = x[s] - S[s][r] * x[r]
        for r in reversed(range(n - 1)):
            x[r] = x[r] - self.gains[r] * dot(S[r][r + 1 :], x[r + 1 :])
        return x
