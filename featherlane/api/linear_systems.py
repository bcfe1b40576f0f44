"""Systems of linear equations with small matrices, for batches and in traces."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from featherlane.api.compile import compile
from featherlane.errors import one_of
from featherlane.functions.array_like import ArrayLike
from featherlane.functions.function import Function
from featherlane.program import array_algebra
from featherlane.program.array_algebra import ASSUMED


@lru_cache(maxsize=256)
def _solver(n: int, right: tuple[int, ...], assume: str) -> Function:
    def solve(A: Any, b: Any) -> Any:
        return array_algebra.solve(A, b, assume)

    return compile(solve, {"A": (n, n), "b": right})


def solve(
    A: ArrayLike, b: ArrayLike, *, assume: Literal["general", "positive"] = "general"
) -> np.ndarray:
    """Returns x, of the shape of b, that solves A x = b for square matrices A (..., n, n), by
    unrolled elimination; in traces too.

    Singular matrices give infinities and NaN. Raises ValueError for other shapes.

    Arguments:
        A: (..., n, n), in any units. The matrices
        b: (..., n) if it has one dimension, or one less than A; else matrices (..., n, k)
        assume: "general" matrices, up to 8 x 8, are eliminated with the largest pivot of each
            column, as by `np.linalg.solve`; "positive" definite symmetric ones, up to 32 x 32, need
            no pivots and fewer operations (A = L D L^T): only the lower triangle is read, and no
            property is checked

    Examples:
        >>> A, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
        >>> np.allclose(A @ fl.solve(A, b, assume="positive"), b)
        True
    """
    if assume not in ASSUMED:
        raise ValueError(f"assume is {assume!r}: {one_of(assume, ASSUMED)}")
    shape, right = np.shape(A), np.shape(b)  # type: ignore[arg-type]
    most = ASSUMED[assume].rows
    if len(shape) < 2 or shape[-1] != shape[-2] or not 0 < shape[-1] <= most:
        raise ValueError(
            f"A has shape {shape}: wanted square matrices (..., n, n) of 1 to {most} rows with "
            f"assume={assume!r}; np.linalg.solve takes larger ones, outside of traces"
        )
    core = right[-1:] if len(right) in (1, len(shape) - 1) else right[-2:]
    if core[:1] != shape[-1:]:
        n = shape[-1]
        raise ValueError(f"b has shape {right}, wanted (..., {n}) or (..., {n}, k), as A {shape}")
    return _solver(shape[-1], core, assume)(A, b)
