"""Products of matrices whose bits depend on nothing but their entries."""

from __future__ import annotations

from typing import Any

import numpy as np


def product_in_order(A: np.ndarray, B: np.ndarray) -> Any:
    """Returns A B (..., m, n) of arrays (..., m, k) and (..., k, n), summed from the first of the k
    terms to the last.

    The order of `A @ B` in BLAS depends on shapes, strides, the processor and the threads, so that
    a state alone and in a batch may differ in the last bit.
    """
    total = A[..., :, :1] * B[..., :1, :]
    for k in range(1, A.shape[-1]):
        total = total + A[..., :, k : k + 1] * B[..., k : k + 1, :]
    return total
