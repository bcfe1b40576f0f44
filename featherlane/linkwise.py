"""Robots of many links: what runs each of their functions.

An algorithm is recorded as calls (`callwise`) instead of being one piece of code. Serial algorithms
have a state in each lane; those that are parallel in the links fill the lanes that states leave
with blocks of links. Matrices over the joints are batches: each column is a state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from featherlane.callwise import Recorded, block_length, recorded
from featherlane.compiler import input_shapes, scalar_function
from featherlane.functions import Variant
from featherlane.model import Model
from featherlane.tree import Tree

WIDE = ("scan", "abia", "cfa", "dca")  # the methods that are parallel in the links
Evaluator = Callable[..., None]  # (*arrays, out=) with the broadcasting of a generalised ufunc


def evaluator(model: Model, variant: Variant) -> Callable[[np.dtype], Evaluator] | None:
    """What makes the evaluator of a variant for a dtype; None where it is derived from graphs."""
    coupled = variant.name == "forward_dynamics" and model.tree.coupled
    if variant.method == "jsiia" or (coupled and variant.method is None):
        return lambda dtype: JointSpace(model, variant, dtype)
    if variant == Variant("mass_matrix_inverse") and model.tree.coupled:
        return lambda dtype: Inverse(model, dtype)
    if variant in COLUMNS:
        return lambda dtype: Columns(model, COLUMNS[variant], dtype)
    if variant.method is None and variant.name == "inverse_dynamics":
        return lambda dtype: Chosen(model, variant, dtype)
    if scalar_function(model, variant) is None:
        return None
    return lambda dtype: recording(model, variant, dtype)


def recording(model: Model, variant: Variant, dtype: Any, **options: Any) -> Recorded:
    """One algorithm of a robot. options: further arguments of it."""
    wide = variant.method in WIDE
    if wide and not options:
        block = block_length(model.tree.nbodies, dtype)
        options = {"method": "reduce_then_scan", "block": block}
    function = scalar_function(model, variant, **options)
    assert function is not None
    return Recorded(recorded(function, input_shapes(model, variant)), dtype, wide)


class Chosen:
    """The method that is expected to be the fastest for so many states."""

    def __init__(self, model: Model, variant: Variant, dtype: np.dtype) -> None:
        self.model, self.variant, self.dtype = model, variant, dtype
        self._made: dict[str, Recorded] = {}

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        self._method(math.prod(out[0].shape[:-1]))(*arrays, out=out)

    @property
    def single(self) -> Any:
        """What runs single states, if it was needed."""
        name = fastest(self.variant.name, self.model.tree, 1, self.dtype)
        return self._made[name].single if name in self._made else None

    def _method(self, batch: int) -> Recorded:
        name = fastest(self.variant.name, self.model.tree, batch, self.dtype)
        if name not in self._made:
            made = recording(self.model, self.variant._replace(method=name), self.dtype)
            self._made.setdefault(name, made)
        return self._made[name]


def fastest(function: str, tree: Tree, batch: int, dtype: np.dtype) -> str:
    """The method with the least time that is expected."""
    if function == "forward_dynamics":
        return "aba"
    return "scan" if batch == 1 and is_chain(tree) else "serial"


def is_chain(tree: Tree) -> bool:
    return tuple(tree.parent) == tuple(range(-1, tree.nbodies - 1))


COLUMNS = {  # the functions whose columns are those of others at rest, without gravity
    Variant("mass_matrix"): Variant("inverse_dynamics", parameters=("gravity",), method="serial"),
    Variant("mass_matrix_inverse"): Variant(
        "forward_dynamics", parameters=("gravity",), method="aba"
    ),
}


class Columns:
    """A matrix over the joints: for each column a state with a unit acceleration or torque."""

    def __init__(self, model: Model, variant: Variant, dtype: np.dtype) -> None:
        self.run = recording(model, variant, dtype)
        self.unit, self.still = np.eye(model.nv, dtype=dtype), np.zeros(model.nv, dtype)
        self.weightless = np.zeros(3, dtype)

    def __call__(self, q: np.ndarray, out: Sequence[np.ndarray]) -> None:
        rest = self.still, self.unit, self.weightless
        for at in np.ndindex(q.shape[:-1]):
            self.run(q[at], *rest, out=[out[0][at]])


BIAS = ("v", "f_ext", "gravity")  # what the mass matrix does not depend on


class JointSpace:
    """Forward dynamics through the mass matrix (JSIIA): the bias and all columns of M are a batch
    of scanned inverse dynamics, M is factored as L L^T. A state whose M is not positive definite
    gives NaN.
    """

    def __init__(self, model: Model, variant: Variant, dtype: np.dtype) -> None:
        names = variant.parameters
        names = names if "gravity" in names else (*names, "gravity")
        inverse = variant._replace(name="inverse_dynamics", method="scan", parameters=names)
        self.names = tuple(input_shapes(model, inverse))
        self.run = recording(model, inverse, dtype, method="serial")
        self.gravity = np.array(model.gravity, dtype)
        self.unit = np.eye(model.nv + 1, model.nv, -1, dtype=dtype)

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        lead = out[0].shape[:-1]
        cores = [len(core) for core in self.run.inputs[: len(arrays)]]
        whole = [
            np.broadcast_to(x, lead + x.shape[x.ndim - core :])
            for x, core in zip(arrays, cores, strict=True)
        ]
        for at in np.ndindex(lead):
            out[0][at] = self._solved(*[x[at] for x in whole])

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

    def __init__(self, model: Model, dtype: np.dtype) -> None:
        self.matrix = Columns(model, COLUMNS[Variant("mass_matrix")], dtype)

    def __call__(self, q: np.ndarray, out: Sequence[np.ndarray]) -> None:
        M = np.empty_like(out[0])
        self.matrix(q, out=[M])
        for at in np.ndindex(q.shape[:-1]):
            out[0][at] = solve(M[at], self.matrix.unit)


BLOCK = 64  # rows that are solved for at once


def solve(M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """M^-1 right of one symmetric M; NaN if it is not positive definite."""
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
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
