"""Matrices over the joints of robots of many links: each column is a state.

A unit acceleration is a column of the mass matrix, a unit torque one of its inverse: columns fill
the lanes of vectors as states do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from featherlane.callwise import recording
from featherlane.compiler import input_shapes
from featherlane.functions import Variant
from featherlane.model import Model
from featherlane.tree import BASE

Evaluator = Callable[..., None]  # (*arrays, out=) with the broadcasting of a generalised ufunc
Dimensions = tuple[int, ...]
Place = tuple[int | slice, ...]


def states(
    arrays: Sequence[np.ndarray], cores: Sequence[int], lead: Dimensions, together: int = 0
) -> Iterator[tuple[Place, list[np.ndarray]]]:
    """One state after another, or up to so many of the last dimension: where they are in the
    leading dimensions, and their arrays. cores: how many dimensions of each are no leading ones.
    """
    whole = [
        np.broadcast_to(x, lead + x.shape[x.ndim - core :])
        for x, core in zip(arrays, cores, strict=True)
    ]
    slices = range(0, lead[-1], together) if lead and together else None
    for at in np.ndindex(lead if slices is None else lead[:-1]):
        places = [at] if slices is None else [(*at, slice(n, n + together)) for n in slices]
        for place in places:
            yield place, [x[place] for x in whole]


def weightless(variant: Variant) -> Variant:
    """With gravity as an input, if it is not one already."""
    names = variant.parameters
    return variant if "gravity" in names else variant._replace(parameters=(*names, "gravity"))


COLUMNS = {  # the functions whose columns are those of others at rest, without gravity
    "mass_matrix": ("inverse_dynamics", "serial"),
    "mass_matrix_inverse": ("forward_dynamics", "aba"),
}


class Columns:
    """A matrix over the joints: for each column a state with a unit acceleration or torque."""

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        name, method = COLUMNS[variant.name]
        column = weightless(variant)._replace(name=name, method=method)
        self.run = recording(model, column, dtype)
        self.cores = [len(core) for core in input_shapes(model, variant).values()]
        self.inputs = tuple(input_shapes(model, variant))
        self.names = tuple(input_shapes(model, column))
        self.unit = np.eye(model.nv, dtype=dtype)
        self.above = np.triu_indices(model.nv, 1)
        self.rest = {
            "v": np.zeros(model.nv, dtype),
            self.names[2]: self.unit,
            "gravity": np.zeros(3, dtype),
        }

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        for at, own in states(arrays, self.cores, out[0].shape[:-2]):
            given = dict(zip(self.inputs, own, strict=True)) | self.rest
            self.run(*[given[name] for name in self.names], out=[M := out[0][at]])
            M[self.above] = M.T[self.above]  # equal but for rounding


BIAS = ("v", "f_ext", "gravity", *BASE)  # what the mass matrix does not depend on


class JointSpace:
    """Forward dynamics through the mass matrix (JSIIA): the bias and all columns of M are a batch
    of scanned inverse dynamics, M is factored as L L^T. A state whose M is not positive definite
    gives NaN.
    """

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        inverse = weightless(variant)._replace(name="inverse_dynamics", method="scan")
        self.names = tuple(input_shapes(model, inverse))
        self.run = recording(model, inverse, dtype, method="serial")
        self.gravity = np.array(model.gravity, dtype)
        self.unit = np.eye(model.nv + 1, model.nv, -1, dtype=dtype)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        cores = [len(core) for core in self.run.inputs[: len(arrays)]]
        for at, own in states(arrays, cores, out[0].shape[:-1]):
            out[0][at] = self._solved(*own)

    def _solved(self, *arrays: np.ndarray) -> np.ndarray:
        """Of one state."""
        given = dict(zip(self.names, (*arrays, self.gravity), strict=False))
        tau, given["a"] = given["a"], self.unit
        rows = np.empty_like(self.unit)
        inputs = [self._first(x) if name in BIAS else x for name, x in given.items()]
        self.run(*inputs, out=[rows])
        return solve(rows[1:], tau - rows[0])

    def _first(self, x: np.ndarray) -> np.ndarray:
        """x for the bias, and zeros for the columns."""
        rows = np.zeros((len(self.unit), *x.shape), x.dtype)
        rows[0] = x
        return rows


class Inverse:
    """The inverse of the mass matrix where joints share coordinates."""

    def __init__(self, model: Model, variant: Variant, dtype: Any) -> None:
        self.matrix = Columns(model, variant._replace(name="mass_matrix"), dtype)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        M = np.empty_like(out[0])
        self.matrix(*arrays, out=[M])
        for at in np.ndindex(M.shape[:-2]):
            out[0][at] = solve(M[at], self.matrix.unit)


def mass_matrix_inverse(model: Model, variant: Variant, dtype: Any) -> Evaluator:
    return (Inverse if model.tree.coupled else Columns)(model, variant, dtype)


def forward_dynamics(model: Model, variant: Variant, dtype: Any) -> Evaluator:
    """By the articulated bodies, where these do not share coordinates."""
    if model.tree.coupled:
        return JointSpace(model, variant, dtype)
    return recording(model, variant._replace(method="aba"), dtype)


BLOCK = 64  # rows that are solved for at once
LOST = 8  # rounding errors of an entry of M that a pivot is not if it is no larger


def solve(M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """M^-1 right of one symmetric M; NaN if it is not positive definite, or only for rounding."""
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)
    if (np.diag(L) ** 2 < LOST * np.finfo(M.dtype).eps * np.diag(M)).any():
        return np.full_like(right, np.nan)
    x = right.copy()
    starts = range(0, len(x), BLOCK)
    for at in starts:
        own = slice(at, at + BLOCK)
        x[own] = np.linalg.solve(L[own, own], x[own] - L[own, :at] @ x[:at])
    for at in reversed(starts):
        own, after = slice(at, at + BLOCK), slice(at + BLOCK, None)
        x[own] = np.linalg.solve(L[own, own].T, x[own] - L[after, own].T @ x[after])
    return x
