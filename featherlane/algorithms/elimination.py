"""Symmetric block-tridiagonal systems by block elimination. No physics in here.

D_i and U_i are the blocks of

    | D_0    U_0              |
    | U_0^T  D_1    U_1       |     x_i is the solution's part for block row i.
    |        U_1^T  D_2   ... |

All methods take the same step: eliminate x_j of a row, which subtracts W^T D_j^-1 W,
W = [coupling before, coupling after, right side], from its neighbours' blocks, couples the
neighbours to each other, and needs one factor D_j = L Delta L^T and one forward substitution.
No block is inverted and no value is compared. The methods differ in which rows go at once. Right
sides follow when the matrix is done, as many as come.

All are as accurate as a dense solver, but the residual of odd-even elimination grows with the
condition number (1e-12 at 1e6, where the others stay at 1e-16): its rows do not come from one
factorisation.

Y. Yang, Y. Wu, J. Pan, A novel GPU-based parallel implementation scheme and performance analysis of
robot forward dynamics algorithms (2016), section IV: equations (18), (19) and Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Any, NamedTuple

from featherlane.algorithms.scan import balanced, chosen
from featherlane.scalar import Scalar, call, reciprocal

Column = Sequence[Scalar]
Columns = Sequence[Column]
Rows = Sequence[Sequence[Scalar]]


def eliminate(
    diagonal: Sequence[Rows],
    off_diagonal: Sequence[Rows],
    right: Sequence[Sequence[Scalar]],
    method: str = "odd_even",
) -> list[list[Scalar]]:
    """The solutions x_i, in the shapes of right[i], of a symmetric block-tridiagonal system.

    diagonal[i] is D_i, k_i x k_i, nested lists, positive definite (as the whole matrix is); only
    its lower triangle is read. off_diagonal[i] is U_i, k_i x k_(i+1), for the n - 1 pairs. right[i]
    is a vector of k_i scalars, or a matrix of k_i rows (lists or tuples) for several right sides.
    Blocks may differ in size and be empty. `method` is a key of `ELIMINATIONS`: "serial" (block
    Thomas), "odd_even" (every row in ceil(log2 n) steps), "cyclic_reduction" (half of the rows in
    each step, then back again). ValueError for any other method and for lists that do not fit.

    A pivot of which only rounding errors are left gives NaN (`scalar.reciprocal`): so do singular
    systems, but for some of bad condition whose errors are larger (one in twenty random ones).
    Python floats raise a ZeroDivisionError for a pivot that is zero.
    """
    return factored(diagonal, off_diagonal, method).solve(right)


def _less(x: Scalar, a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """x - a . b, the products summed in a balanced tree."""
    products = [s * t for s, t in zip(a, b, strict=True)]
    return x - balanced(add, products) if products else x


def factor(D: Rows) -> tuple[list[list[Scalar]], list[Scalar]]:
    """(L, 1 / Delta) of D = L Delta L^T: the rows of L before its unit diagonal. NaN where a pivot
    is lost in rounding.
    """
    L: list[list[Scalar]] = []
    Dinv: list[Scalar] = []
    for i, row in enumerate(D):
        y: list[Scalar] = []
        for j in range(i):
            y.append(_less(row[j], y, L[j]))
        L.append([s * d for s, d in zip(y, Dinv, strict=True)])
        Dinv.append(reciprocal(_less(row[i], y, L[i]), row[i]))
    return L, Dinv


def forward(L: Rows, b: Column) -> list[Scalar]:
    """L^-1 b."""
    x: list[Scalar] = []
    for entry, row in zip(b, L, strict=True):
        x.append(_less(entry, row, x))
    return x


def backward(L: Rows, b: Column) -> list[Scalar]:
    """L^-T b."""
    n = len(b)
    x = list(b)
    for i in reversed(range(n)):
        x[i] = _less(x[i], [L[j][i] for j in range(i + 1, n)], x[i + 1 :])
    return x


def _less_products(A: Rows, left: Columns, right: Columns) -> Rows:
    """A[i][k] - left[i] . right[k], where A has an entry: a lower triangle stays one."""
    return tuple(
        tuple([_less(x, a, b) for x, b in zip(row, right, strict=False)])
        for row, a in zip(A, left, strict=True)
    )


class Side(NamedTuple):
    """An eliminated block row, D = L Delta L^T, as one of its neighbours sees it: columns are L^-1
    times their coupling.
    """

    L: Rows
    Dinv: Sequence[Scalar]
    columns: Columns


class Row(NamedTuple):
    """An eliminated block row for both neighbours, and U of these, once it is gone."""

    before: Side
    after: Side
    between: Rows


# The steps


def eliminated(D: Rows, before: Columns, after: Columns) -> Row:
    """The row of a block with its couplings, in columns of len(D)."""
    L, Dinv = factor(D)
    before, after = _forward(L, before), _forward(L, after)
    zeros = [[0.0] * len(after)] * len(before)
    between = _less_products(zeros, _scaled(before, Dinv), after)
    return Row(Side(L, Dinv, before), Side(L, Dinv, after), between)


def reduced(D: Rows, *sides: Side) -> Rows:
    """A row's block once its neighbours are eliminated."""
    for _, Dinv, columns in sides:
        D = _less_products(D, _scaled(columns, Dinv), columns)
    return D


def carried(R: Columns, others: Sequence[Columns], *sides: Side) -> Columns:
    """A row's right sides once its neighbours are eliminated, whose right sides are `others`."""
    for right, (L, Dinv, columns) in zip(others, sides, strict=True):
        R = _less_products(R, _forward(L, right), _scaled(columns, Dinv))
    return R


def solution(
    row: Row, R: Columns, before: Columns | None, after: Columns | None
) -> list[list[Scalar]]:
    """The row's x from those of the neighbours that it has, for each right side."""
    L, Dinv, couplings = row.before
    nothing: Columns = [[]] * len(R)
    known = [[*x, *y] for x, y in zip(before or nothing, after or nothing, strict=True)]
    across = _turned([*couplings, *row.after.columns], len(Dinv))
    rest = _less_products(_forward(L, R), known, across)
    return [backward(L, column) for column in _scaled(rest, Dinv)]


def _forward(L: Rows, columns: Columns) -> list[list[Scalar]]:
    return [forward(L, column) for column in columns]


def _scaled(columns: Columns, Dinv: Sequence[Scalar]) -> Columns:
    return [[x * d for x, d in zip(column, Dinv, strict=True)] for column in columns]


# Which rows go when


class Round(NamedTuple):
    """What happens at once where neighbours are `step` apart: rows are eliminated, and rows lose
    neighbours. In odd-even elimination a row does both.
    """

    step: int
    gone: Sequence[int]
    kept: Sequence[int]


def _steps(n: int) -> list[int]:
    """The powers of two below n."""
    return [1 << k for k in range(max(n - 1, 0).bit_length())]


def _serial(n: int) -> list[Round]:
    """Block Thomas: one row after the other, and back."""
    return [Round(1, [i], [i + 1]) for i in range(n - 1)]


def _odd_even(n: int) -> list[Round]:
    """In each step every row loses its neighbours and is coupled to those twice as far away."""
    coupled = [[i for i in range(n) if i >= step or i + step < n] for step in _steps(n)]
    return [Round(*each) for each in zip(_steps(n), coupled, coupled, strict=True)]


def _cyclic_reduction(n: int) -> list[Round]:
    """Every other row eliminated, the same for what is left, and then those rows solved for."""
    return [Round(s, range(s, n, 2 * s), range(0, n, 2 * s)) for s in _steps(n)]


ELIMINATIONS: dict[str, Callable[[int], list[Round]]] = {
    "serial": _serial,
    "odd_even": _odd_even,
    "cyclic_reduction": _cyclic_reduction,
}


class Factored(NamedTuple):
    """A block-tridiagonal matrix whose rows are eliminated: those of each round, and the `last`,
    which are not coupled to others.
    """

    rounds: list[tuple[Round, dict[int, Row]]]
    last: dict[int, Row]
    sizes: list[int]

    def solve(self, right: Sequence[Rows]) -> list[list[Scalar]]:
        """The solutions for right sides of the shapes that `eliminate` takes. ValueError for
        others.
        """
        self._check(right)
        if not any(isinstance(row, (list, tuple)) for block in right for row in block):
            return [columns[0] for columns in self._solve([[block] for block in right])]
        width = max(len(row) for block in right for row in block)
        x = self._solve([_turned(block, width) for block in right])
        return [_turned(columns, k) for columns, k in zip(x, self.sizes, strict=True)]

    def _check(self, right: Sequence[Rows]) -> None:
        if len(right) != len(self.sizes):
            raise ValueError(f"{len(self.sizes)} block rows came with {len(right)} right sides")
        for i, k in enumerate(self.sizes):
            if len(right[i]) != k:
                raise ValueError(f"right[{i}] has other than {k} rows")

    def _solve(self, right: Sequence[Columns]) -> list[list[list[Scalar]]]:
        R = dict(enumerate(right))
        for (step, _, kept), rows in self.rounds:
            known = {j: R[j] for j in rows}
            for i in kept:
                sides = _sides(rows, i, step)
                R[i] = call(carried, R[i], [known[j] for j in sides], *sides.values())
        x = {i: call(solution, row, R[i], None, None) for i, row in self.last.items()}
        for (step, *_), rows in reversed(self.rounds):
            for i in [i for i in rows if i not in x]:
                x[i] = call(solution, rows[i], R[i], x.get(i - step), x.get(i + step))
        return [x[i] for i in range(len(x))]


def factored(
    diagonal: Sequence[Rows], off_diagonal: Sequence[Rows], method: str = "odd_even"
) -> Factored:
    """The matrix of `eliminate`, eliminated. ValueError as there."""
    _check(diagonal, off_diagonal)
    D = {i: tuple(tuple(row[: j + 1]) for j, row in enumerate(B)) for i, B in enumerate(diagonal)}
    U = {(i, i + 1): tuple(map(tuple, B)) for i, B in enumerate(off_diagonal)}
    rounds = []
    for round_ in chosen(ELIMINATIONS, method)(len(D)):
        rows = {i: _row(D, U, i, round_.step) for i in round_.gone}
        rounds.append((round_, rows))
        _reduce(D, U, round_, rows)
    last = {i: call(eliminated, block, [], []) for i, block in D.items()}
    return Factored(rounds, last, [len(block) for block in diagonal])


Blocks = dict[int, Any]  # of D: lower triangles
Couplings = dict[tuple[int, int], Any]


def _row(D: Blocks, U: Couplings, i: int, step: int) -> Row:
    """Row i, eliminated with its couplings to the neighbours that are left."""
    before = U[i - step, i] if i - step in D else []
    after = _turned(U[i, i + step], len(D[i + step])) if i + step in D else []
    return call(eliminated, D[i], before, after)


def _sides(rows: Mapping[int, Row], i: int, step: int) -> dict[int, Side]:
    """Those of the neighbours of row i that are eliminated."""
    above = {j: rows[j].after for j in (i - step,) if j in rows}
    return above | {j: rows[j].before for j in (i + step,) if j in rows}


def _reduce(D: Blocks, U: Couplings, round_: Round, rows: Mapping[int, Row]) -> None:
    """Leaves the blocks that are there after the round."""
    step, gone, kept = round_
    left = {i: call(reduced, D[i], *_sides(rows, i, step).values()) for i in kept}
    for i in gone:
        del D[i]
        U[i - step, i + step] = rows[i].between
    D.update(left)


def _check(diagonal: Sequence[Rows], off_diagonal: Sequence[Rows]) -> None:
    n = len(diagonal)
    if len(off_diagonal) != max(n - 1, 0):
        raise ValueError(
            f"{n} diagonal blocks came with {len(off_diagonal)} off-diagonal blocks: "
            "one less was wanted"
        )
    for i, D in enumerate(diagonal):
        if any(len(row) != len(D) for row in D):
            raise ValueError(f"diagonal[{i}] is not square")
    for i, U in enumerate(off_diagonal):
        shape = len(diagonal[i]), len(diagonal[i + 1])
        if len(U) != shape[0] or any(len(row) != shape[1] for row in U):
            raise ValueError(f"off_diagonal[{i}] is not {shape[0]} x {shape[1]}")


def _turned(rows: Rows, width: int) -> list[list[Scalar]]:
    """The columns of a matrix with this many of them, also where there are no rows."""
    return [[row[c] for row in rows] for c in range(width)]
