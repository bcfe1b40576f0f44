"""Symmetric block-tridiagonal systems by block elimination. No physics in here.

D_i and U_i are the blocks of

    | D_0    U_0              |
    | U_0^T  D_1    U_1       |     x_i is the solution's part for block row i.
    |        U_1^T  D_2   ... |

All methods take the same step: eliminate x_j of a row, which subtracts W^T D_j^-1 W,
W = [coupling before, coupling after, right side], from its neighbours' blocks, couples the
neighbours to each other, and needs one factor D_j = L Delta L^T and one forward substitution.
No block is inverted and no value is compared.

All are as accurate as a dense solver, but the residual of odd-even elimination grows with the
condition number (1e-12 at 1e6, where the others stay at 1e-16): its rows do not come from one
factorisation.

Y. Yang, Y. Wu, J. Pan, A novel GPU-based parallel implementation scheme and performance analysis of
robot forward dynamics algorithms (2016), section IV: equations (18), (19) and Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import NamedTuple

from featherlane.algorithms.scan import balanced, chosen
from featherlane.scalar import Scalar

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

    A singular system is not seen here, as scalars may be nodes of a graph: arrays get inf or nan,
    Python floats a ZeroDivisionError, and a pivot that rounding keeps from zero gives huge numbers.
    """
    _check(diagonal, off_diagonal, right)
    solve = chosen(ELIMINATIONS, method)
    lower = [[row[: i + 1] for i, row in enumerate(D)] for D in diagonal]
    if not any(isinstance(row, (list, tuple)) for block in right for row in block):
        return [columns[0] for columns in solve(lower, off_diagonal, [[r] for r in right])]
    width = max(len(row) for block in right for row in block)
    solution = solve(lower, off_diagonal, [_turned(block, width) for block in right])
    return [_turned(x, len(D)) for x, D in zip(solution, diagonal, strict=True)]


def _check(diagonal: Sequence[Rows], off_diagonal: Sequence[Rows], right: Sequence[Rows]) -> None:
    n = len(diagonal)
    if len(off_diagonal) != max(n - 1, 0) or len(right) != n:
        raise ValueError(
            f"{n} diagonal blocks came with {len(off_diagonal)} off-diagonal blocks and "
            f"{len(right)} right sides; one less and as many were wanted"
        )
    for i, D in enumerate(diagonal):
        k = len(D)
        if len(right[i]) != k or any(len(row) != k for row in D):
            raise ValueError(f"diagonal[{i}] is not square, or right[{i}] has other than {k} rows")
    for i, U in enumerate(off_diagonal):
        shape = len(diagonal[i]), len(diagonal[i + 1])
        if len(U) != shape[0] or any(len(row) != shape[1] for row in U):
            raise ValueError(f"off_diagonal[{i}] is not {shape[0]} x {shape[1]}")


def _turned(rows: Sequence[Sequence[Scalar]], width: int) -> list[list[Scalar]]:
    """The columns of a matrix with this many of them, also where there are no rows."""
    return [[row[c] for row in rows] for c in range(width)]


def _less(x: Scalar, a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """x - a . b, the products summed in a balanced tree."""
    products = [s * t for s, t in zip(a, b, strict=True)]
    return x - balanced(add, products) if products else x


def factor(D: Rows) -> tuple[list[list[Scalar]], list[Scalar]]:
    """(L, 1 / Delta) of D = L Delta L^T: the rows of L before its unit diagonal."""
    L: list[list[Scalar]] = []
    Dinv: list[Scalar] = []
    for i, row in enumerate(D):
        y: list[Scalar] = []
        for j in range(i):
            y.append(_less(row[j], y, L[j]))
        L.append([s * d for s, d in zip(y, Dinv, strict=True)])
        Dinv.append(1.0 / _less(row[i], y, L[i]))
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


def _less_products(A: Rows, left: Columns, right: Columns) -> list[list[Scalar]]:
    """A[i][k] - left[i] . right[k], where A has an entry: a lower triangle stays one."""
    return [
        [_less(x, a, b) for x, b in zip(row, right, strict=False)]
        for row, a in zip(A, left, strict=True)
    ]


class Side(NamedTuple):
    """L^-1 times the coupling to one neighbour, and Delta^-1 times that; in columns."""

    columns: Columns
    scaled: Columns


class Row(NamedTuple):
    """A block row that is eliminated; its right sides are multiplied by L^-1 as well."""

    L: Rows
    Dinv: Sequence[Scalar]
    before: Side
    after: Side
    right: Columns

    def taken_from(self, side: Side, D: Rows, R: Columns) -> tuple[Rows, Columns]:
        """What is left of the neighbour's block and right sides on that side."""
        return (
            _less_products(D, side.scaled, side.columns),
            _less_products(R, self.right, side.scaled),
        )

    def coupling(self) -> Rows:
        """U of the row before and the row after, once this one is gone."""
        zeros = [[0.0] * len(self.after.columns)] * len(self.before.columns)
        return _less_products(zeros, self.before.scaled, self.after.columns)

    def solution(self, before: Columns, after: Columns) -> Columns:
        """The row's x from those of its neighbours, for each right side."""
        couplings = _turned([*self.before.columns, *self.after.columns], len(self.Dinv))
        known = [[*x, *y] for x, y in zip(before, after, strict=True)]
        rest = _less_products(self.right, known, couplings)
        return [backward(self.L, _scaled(r, self.Dinv)) for r in rest]


def _scaled(column: Column, Dinv: Sequence[Scalar]) -> list[Scalar]:
    return [x * d for x, d in zip(column, Dinv, strict=True)]


def eliminated(D: Rows, before: Columns, after: Columns, right: Columns) -> Row:
    """The row of a block with its couplings, in columns of len(D)."""
    L, Dinv = factor(D)

    def side(coupling: Columns) -> Side:
        columns = [forward(L, column) for column in coupling]
        return Side(columns, [_scaled(column, Dinv) for column in columns])

    return Row(L, Dinv, side(before), side(after), [forward(L, column) for column in right])


Blocks = Sequence[Rows]  # of D, lower triangles suffice; of U; of right sides, in columns


def _row(D: Blocks, U: Blocks, R: Blocks, i: int, step: int = 1) -> Row:
    """Row i, eliminated, where U[i] couples it to row i + step."""
    before = U[i - step] if i >= step else []
    after = _turned(U[i], len(D[i + step])) if i + step < len(D) else []
    return eliminated(D[i], before, after, R[i])


def _without(D: Rows, R: Columns, above: Row | None, below: Row | None) -> tuple[Rows, Columns]:
    """A row's block and right sides once its neighbours are eliminated."""
    if above is not None:
        D, R = above.taken_from(above.after, D, R)
    if below is not None:
        D, R = below.taken_from(below.before, D, R)
    return D, R


def _nothing(R: Columns) -> Columns:
    """x of a neighbour that is not there, for each right side."""
    return [[] for _ in R]


def _alone(D: Blocks, R: Blocks) -> list[Columns]:
    """The solutions of blocks that are not coupled."""
    rows = [eliminated(block, [], [], r) for block, r in zip(D, R, strict=True)]
    return [row.solution(_nothing(row.right), _nothing(row.right)) for row in rows]


def _serial(D: Blocks, U: Blocks, R: Blocks) -> list[Columns]:
    """Block Thomas: one row after the other, and back."""
    rows: list[Row] = []
    for i, (block, right) in enumerate(zip(D, R, strict=True)):
        after = _turned(U[i], len(D[i + 1])) if i + 1 < len(D) else []
        left = _without(block, right, rows[-1] if rows else None, None)
        rows.append(eliminated(left[0], [], after, left[1]))
    x: list[Columns] = []
    for row in reversed(rows):
        nothing = _nothing(row.right)
        x.append(row.solution(nothing, x[-1] if x else nothing))
    return x[::-1]


def _odd_even(D: Blocks, U: Blocks, R: Blocks) -> list[Columns]:
    """In each step every row loses its neighbours and is coupled to those twice as far away."""
    n, step = len(D), 1
    while step < n:
        rows = {i: _row(D, U, R, i, step) for i in range(n)}
        left = [_without(D[i], R[i], rows.get(i - step), rows.get(i + step)) for i in rows]
        D, R = [block for block, _ in left], [right for _, right in left]
        U = [rows[i].coupling() for i in range(step, n - step)]
        step *= 2
    return _alone(D, R)


def _cyclic_reduction(D: Blocks, U: Blocks, R: Blocks) -> list[Columns]:
    """Every other row eliminated, the same for what is left, and then those rows solved for."""
    n = len(D)
    if n < 2:
        return _alone(D, R)
    rows = {i: _row(D, U, R, i) for i in range(1, n, 2)}
    left = [_without(D[i], R[i], rows.get(i - 1), rows.get(i + 1)) for i in range(0, n, 2)]
    couplings = [rows[i].coupling() for i in range(1, n - 1, 2)]
    kept = _cyclic_reduction([block for block, _ in left], couplings, [right for _, right in left])
    x = dict(zip(range(0, n, 2), kept, strict=True))
    for i, row in rows.items():
        x[i] = row.solution(x[i - 1], x.get(i + 1, _nothing(row.right)))
    return [x[i] for i in range(n)]


ELIMINATIONS: dict[str, Callable[[Blocks, Blocks, Blocks], list[Columns]]] = {
    "serial": _serial,
    "odd_even": _odd_even,
    "cyclic_reduction": _cyclic_reduction,
}
