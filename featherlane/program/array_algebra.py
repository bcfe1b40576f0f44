"""NumPy's linear algebra on traced arrays of small matrices, unrolled into the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from featherlane.program.derivatives.implicit import solved
from featherlane.program.linear_systems import (
    Elimination,
    Rows,
    cholesky_rows,
    determinant,
    eliminated,
    eliminated_symmetric,
)
from featherlane.program.node import Node
from featherlane.program.refusal import refused
from featherlane.program.ufuncs import object_array


class Assumed(NamedTuple):
    """The elimination of matrices with a property, and the most rows that are unrolled."""

    eliminate: Callable[[Rows], Elimination]
    rows: int


# With exchanges, n rows take n^3 selects besides n^3 / 3 products
ASSUMED = {"general": Assumed(eliminated, 8), "positive": Assumed(eliminated_symmetric, 32)}


def _nodes(*arrays: Any) -> list[np.ndarray]:
    """Returns arrays of traced scalars and numbers as arrays of nodes of one graph."""
    plain = [object_array(x) for x in arrays]
    first = next(x for array in plain for x in array.flat if isinstance(x, Node))
    lifted = np.frompyfunc(lambda x: Node(first.graph, first.lift(x)), 1, 1)
    return [np.asarray(lifted(x), object) for x in plain]


def _check(function: str, shape: tuple[int, ...], assume: str = "general") -> None:
    """Raises TypeError for matrices that are not square, and for too large ones."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise refused(f"np.linalg.{function} of an array {shape}: wanted (..., n, n)")
    if shape[-1] > (most := ASSUMED[assume].rows):
        advice = "; fl.solve(A, b, assume='positive') takes 32" if assume == "general" else ""
        raise refused(
            f"np.linalg.{function} of {shape[-1]} traced rows: wanted at most {most}, which are "
            f"unrolled{advice}; call it outside of the trace for larger ones"
        )


def _each(function: Callable[[Rows], Any], a: Any, core: tuple[int, ...]) -> Any:
    """Returns function(rows), of shape `core`, for each matrix of a (..., n, n)."""
    (A,) = _nodes(a)
    result = np.empty(A.shape[:-2] + core, object)
    for state in np.ndindex(A.shape[:-2]):
        result[state] = np.array(function(A[state].tolist()), object)[()]
    return result


def solve(a: Any, b: Any, assume: str = "general") -> Any:
    """`np.linalg.solve`, in which b is a vector if it has one dimension, else matrices."""
    A, right = _nodes(a, b)
    _check("solve", A.shape, assume)
    B = right[:, None] if right.ndim == 1 else right
    if B.shape[-2] != A.shape[-1]:
        raise refused(f"np.linalg.solve of A {A.shape} and b {right.shape}: wanted as many rows")
    lead = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A, B = (np.broadcast_to(x, lead + x.shape[-2:]) for x in (A, B))
    result = np.empty(B.shape, object)
    for state in np.ndindex(lead):
        rows = _symmetric(A[state].tolist()) if assume == "positive" else A[state].tolist()
        elimination = ASSUMED[assume].eliminate(rows)
        columns = [solved(rows, elimination, x) for x in B[state].T.tolist()]
        result[state] = np.array(columns, object).T
    return result[..., 0] if right.ndim == 1 else result


def _symmetric(rows: Rows) -> Rows:
    """Returns the matrix with the entries of its lower triangle in both."""
    n = range(len(rows))
    return [[rows[max(i, j)][min(i, j)] for j in n] for i in n]


def inv(a: Any) -> Any:
    _check("inv", np.shape(a))
    return solve(a, np.eye(np.shape(a)[-1]))


def det(a: Any) -> Any:
    _check("det", np.shape(a))
    return _each(determinant, a, ())[()]


def slogdet(a: Any) -> Any:
    value = det(a)
    return np.sign(value), np.log(np.abs(value))


def cholesky(a: Any, *, upper: bool = False) -> Any:
    _check("cholesky", np.shape(a), "positive")
    if upper:
        return np.swapaxes(cholesky(np.swapaxes(a, -1, -2)), -1, -2)
    n = np.shape(a)[-1]

    def rows(A: Rows) -> Any:
        return [[*row, *[0.0] * (n - len(row))] for row in cholesky_rows(A)]

    return _each(rows, a, (n, n))
