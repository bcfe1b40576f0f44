"""Sizes by which errors are judged: largest entries, and how near to singular mass matrices are."""

from __future__ import annotations

import numpy as np


def largest_entry(x: np.ndarray) -> np.ndarray:
    """Returns the largest absolute entry of an array in each state, the first axis."""
    return np.abs(x.astype(float)).reshape(len(x), -1).max(axis=1)


def conditioning(M: np.ndarray) -> np.ndarray:
    """Returns max_i M_ii (M^-1)_ii of mass matrices (..., nv, nv), which does not depend on units;
    infinity where M is not positive definite.
    """
    M = M.astype(float)
    inertia = np.diagonal(M, axis1=-2, axis2=-1)
    with np.errstate(all="ignore"):  # what is not positive definite gives NaN
        root = np.sqrt(inertia)
        scaled = M / root[..., :, None] / root[..., None, :]
    regular = np.isfinite(scaled).all((-2, -1))
    values, vectors = np.linalg.eigh(np.where(regular[..., None, None], scaled, 0.0))
    with np.errstate(all="ignore"):
        kappa = (vectors**2 / values[..., None, :]).sum(-1).max(-1)
    return np.asarray(np.where(regular & (values[..., 0] > 0), kappa, np.inf))
