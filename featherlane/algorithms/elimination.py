"""Symmetric block-tridiagonal systems by block elimination; there are no robots in here.

D_i and U_i are the blocks of

    | D_0    U_0              |
    | U_0^T  D_1    U_1       |     x_i is the part of the solution in block row i.
    |        U_1^T  D_2   ... |

All methods eliminate a block row j in the same way: D_j = L Delta L^T is factored, and W^T D_j^-1 W
with W = [coupling before, coupling after, right side] is subtracted from the blocks of its two
neighbours, which couples them to each other. No block is inverted and no value is compared. The
methods differ in which rows are eliminated at the same time. Right sides are carried along once the
matrix is eliminated, as many as there are.

All methods are as accurate as a dense solver, but for odd-even elimination, whose residual grows
with the condition number (1e-12 at 1e6, where the others stay at 1e-16): its rows are not those of
one factorisation.

Y. Yang, Y. Wu, J. Pan, A novel GPU-based parallel implementation scheme and performance analysis of
robot forward dynamics algorithms (2016), section IV: equations (18), (19) and Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Any, NamedTuple

from featherlane.algorithms.scan.lists import balanced, chosen
from featherlane.scalar import Scalar, call, reciprocal

Columns = Sequence[Sequence[Scalar]]
Rows = Sequence[Sequence[Scalar]]


def eliminate(
    diagonal: Sequence[Rows],
    off_diagonal: Sequence[Rows],
    right: Sequence[Sequence[Scalar]],
    method: str = "odd_even",
) -> list[list[Scalar]]:
    """Solves a symmetric block-tridiagonal system: the x_i, in the shapes of right[i].

    diagonal[i] is D_i, k_i x k_i, nested lists, positive definite (as the whole matrix is); only
    its lower triangle is read. off_diagonal[i] is U_i, k_i x k_(i+1), for the n - 1 pairs. right[i]
    is a vector of k_i scalars, or a matrix of k_i rows (lists or tuples) for several right sides.
    Blocks may differ in size and be empty. `method` is a key of `ELIMINATIONS`: "serial" (block
    Thomas), "odd_even" (all rows in ceil(log2 n) rounds), "cyclic_reduction" (half of the rows in
    each round, then back). Raises ValueError for any other method and for lists that do not fit.

    A pivot of which only rounding errors are left gives NaN (`scalar.reciprocal`). So do singular
    systems, but for ill-conditioned ones whose errors are larger (one in twenty random ones).
    Python floats raise a ZeroDivisionError for a pivot that is zero.
    """
    return block_factor(diagonal, off_diagonal, method).solve(right)


# Dense blocks


def _minus_dot(x: Scalar, a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """Returns x - a . b, the products summed in a balanced tree."""
    products = [s * t for s, t in zip(a, b, strict=True)]
    return x - balanced(add, products) if products else x


def ldl_factor(D: Rows) -> tuple[list[list[Scalar]], list[Scalar]]:
    """Returns L, by rows without its unit diagonal, and 1 / Delta of D = L Delta L^T.

    1 / Delta is NaN where a pivot is lost in rounding.
    """
    L: list[list[Scalar]] = []
    Dinv: list[Scalar] = []
    for i, row in enumerate(D):
        y: list[Scalar] = []
        for j in range(i):
            y.append(_minus_dot(row[j], y, L[j]))
        L.append([s * d for s, d in zip(y, Dinv, strict=True)])
        Dinv.append(reciprocal(_minus_dot(row[i], y, L[i]), row[i]))
    return L, Dinv


def solve_lower(L: Rows, b: Sequence[Scalar]) -> list[Scalar]:
    """Returns L^-1 b by forward substitution."""
    x: list[Scalar] = []
    for entry, row in zip(b, L, strict=True):
        x.append(_minus_dot(entry, row, x))
    return x


def solve_upper(L: Rows, b: Sequence[Scalar]) -> list[Scalar]:
    """Returns L^-T b by back substitution."""
    n = len(b)
    x = list(b)
    for i in reversed(range(n)):
        x[i] = _minus_dot(x[i], [L[j][i] for j in range(i + 1, n)], x[i + 1 :])
    return x


def _minus_products(A: Rows, left: Columns, right: Columns) -> Rows:
    """Returns A[i][k] - left[i] . right[k] for the entries of A, which may be a lower triangle."""
    return tuple(
        tuple([_minus_dot(x, a, b) for x, b in zip(row, right, strict=False)])
        for row, a in zip(A, left, strict=True)
    )


def _scaled(columns: Columns, Dinv: Sequence[Scalar]) -> Columns:
    return [[x * d for x, d in zip(column, Dinv, strict=True)] for column in columns]


def _transposed(rows: Rows, width: int) -> list[list[Scalar]]:
    """Returns the `width` columns of a matrix, which may have no rows."""
    return [[row[c] for row in rows] for c in range(width)]


# The steps of the elimination


class RowSide(NamedTuple):
    """An eliminated block row as one neighbour sees it: its factor, and L^-1 times the coupling."""

    L: Rows
    Dinv: Sequence[Scalar]
    columns: Columns


class EliminatedRow(NamedTuple):
    """An eliminated block row, and the coupling U that it leaves between its neighbours."""

    before: RowSide
    after: RowSide
    between: Rows


def eliminate_row(D: Rows, before: Columns, after: Columns) -> EliminatedRow:
    """Eliminates a block with its couplings to the neighbours, which are columns of len(D)."""
    L, Dinv = ldl_factor(D)
    before, after = ([solve_lower(L, x) for x in columns] for columns in (before, after))
    zeros = [[0.0] * len(after)] * len(before)
    between = _minus_products(zeros, _scaled(before, Dinv), after)
    return EliminatedRow(RowSide(L, Dinv, before), RowSide(L, Dinv, after), between)


def reduce_block(D: Rows, *sides: RowSide) -> Rows:
    """Returns a row's diagonal block after its neighbours were eliminated."""
    for _, Dinv, columns in sides:
        D = _minus_products(D, _scaled(columns, Dinv), columns)
    return D


def reduce_right(R: Columns, others: Sequence[Columns], *sides: RowSide) -> Columns:
    """Returns a row's right sides after its neighbours, whose are `others`, were eliminated."""
    for right, (L, Dinv, columns) in zip(others, sides, strict=True):
        R = _minus_products(R, [solve_lower(L, x) for x in right], _scaled(columns, Dinv))
    return R


def solve_row(
    row: EliminatedRow, R: Columns, before: Columns | None, after: Columns | None
) -> list[list[Scalar]]:
    """Returns a row's x for each right side, from its neighbours' x (None: no such neighbour)."""
    L, Dinv, couplings = row.before
    nothing: Columns = [[]] * len(R)
    known = [[*x, *y] for x, y in zip(before or nothing, after or nothing, strict=True)]
    across = _transposed([*couplings, *row.after.columns], len(Dinv))
    rest = _minus_products([solve_lower(L, x) for x in R], known, across)
    return [solve_upper(L, column) for column in _scaled(rest, Dinv)]


# The rounds of each method


class Round(NamedTuple):
    """The rows that are eliminated at the same time, and the rows whose blocks that reduces.

    Neighbours are `step` rows apart. In odd-even elimination a row is in both lists.
    """

    step: int
    eliminated: Sequence[int]
    reduced: Sequence[int]


def _steps(n: int) -> list[int]:
    """Returns the powers of two below n."""
    return [1 << k for k in range(max(n - 1, 0).bit_length())]


def _serial(n: int) -> list[Round]:
    """Eliminates one row after the other (block Thomas)."""
    return [Round(1, [i], [i + 1]) for i in range(n - 1)]


def _odd_even(n: int) -> list[Round]:
    """Eliminates the neighbours of every row, which couples it to rows twice as far away."""
    coupled = [[i for i in range(n) if i >= step or i + step < n] for step in _steps(n)]
    return [Round(*each) for each in zip(_steps(n), coupled, coupled, strict=True)]


def _cyclic_reduction(n: int) -> list[Round]:
    """Eliminates every other row of those that are left."""
    return [Round(s, range(s, n, 2 * s), range(0, n, 2 * s)) for s in _steps(n)]


ELIMINATIONS: dict[str, Callable[[int], list[Round]]] = {
    "serial": _serial,
    "odd_even": _odd_even,
    "cyclic_reduction": _cyclic_reduction,
}


class BlockFactor(NamedTuple):
    """An eliminated block-tridiagonal matrix: the rows of each round, and the uncoupled `last`."""

    rounds: list[tuple[Round, dict[int, EliminatedRow]]]
    last: dict[int, EliminatedRow]
    sizes: list[int]

    def solve(self, right: Sequence[Rows]) -> list[list[Scalar]]:
        """Solves for right sides of the shapes that `eliminate` takes; ValueError for others."""
        if len(right) != len(self.sizes):
            raise ValueError(f"{len(self.sizes)} block rows came with {len(right)} right sides")
        for i, k in enumerate(self.sizes):
            if len(right[i]) != k:
                raise ValueError(f"right[{i}] has {len(right[i])} rows; wanted {k}")
        if not any(isinstance(row, (list, tuple)) for block in right for row in block):
            return [columns[0] for columns in self._solve([[block] for block in right])]
        width = max(len(row) for block in right for row in block)
        x = self._solve([_transposed(block, width) for block in right])
        return [_transposed(columns, k) for columns, k in zip(x, self.sizes, strict=True)]

    def _solve(self, right: Sequence[Columns]) -> list[list[list[Scalar]]]:
        R = dict(enumerate(right))
        for (step, _, reduced), rows in self.rounds:
            before = {j: R[j] for j in rows}
            for i in reduced:
                sides = _sides(rows, i, step)
                R[i] = call(reduce_right, R[i], [before[j] for j in sides], *sides.values())
        x = {i: call(solve_row, row, R[i], None, None) for i, row in self.last.items()}
        for (step, *_), rows in reversed(self.rounds):
            for i in [i for i in rows if i not in x]:
                x[i] = call(solve_row, rows[i], R[i], x.get(i - step), x.get(i + step))
        return [x[i] for i in range(len(x))]


def block_factor(
    diagonal: Sequence[Rows], off_diagonal: Sequence[Rows], method: str = "odd_even"
) -> BlockFactor:
    """Eliminates the matrix of `eliminate`. Raises ValueError as `eliminate` does."""
    _check(diagonal, off_diagonal)
    D: dict[int, Any] = {  # lower triangles
        i: tuple(tuple(row[: j + 1]) for j, row in enumerate(B)) for i, B in enumerate(diagonal)
    }
    U: dict[tuple[int, int], Any] = {
        (i, i + 1): tuple(map(tuple, B)) for i, B in enumerate(off_diagonal)
    }
    rounds = []
    for round_ in chosen(ELIMINATIONS, method)(len(D)):
        step = round_.step
        rows = {}
        for i in round_.eliminated:
            before = U[i - step, i] if i - step in D else []
            after = _transposed(U[i, i + step], len(D[i + step])) if i + step in D else []
            rows[i] = call(eliminate_row, D[i], before, after)
        rounds.append((round_, rows))
        left = {
            i: call(reduce_block, D[i], *_sides(rows, i, step).values()) for i in round_.reduced
        }
        for i, row in rows.items():
            del D[i]
            U[i - step, i + step] = row.between
        D.update(left)
    last = {i: call(eliminate_row, block, [], []) for i, block in D.items()}
    return BlockFactor(rounds, last, [len(block) for block in diagonal])


def _sides(rows: Mapping[int, EliminatedRow], i: int, step: int) -> dict[int, RowSide]:
    """Returns the sides, towards row i, of its neighbours that are eliminated."""
    before = {j: rows[j].after for j in (i - step,) if j in rows}
    return before | {j: rows[j].before for j in (i + step,) if j in rows}


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
