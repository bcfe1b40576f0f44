"""Scans, path scans and subtree sums of arrays, by the methods of `algorithms.scan`.

An array is (n, ..., entries): node i of a state is the row of its `entries` scalars, and what lies
between are states. Rows of one node lie together, so that a round over neighbours is one call over
one piece of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.function import Function, common_dtype, compile_function
from featherlane.linkscan.plan import (
    ELEMENTS,
    MOVES,
    Index,
    Plan,
    path_plan,
    scan_plan,
    sum_plan,
)

Rows = Sequence[Any]  # scalars of one element
Kernels = Mapping[str, Callable[..., Any]]


def execute(plan: Plan, kernels: Kernels, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """The results of a plan, in an array of their own. given: by kind, (n, states, entries)."""
    rows = {kind: _store(x, plan.rows[kind]) for kind, x in given.items()}
    for operation, kind, operands, results in plan.rounds:
        taken = [rows[kind][index] for kind, index in operands]
        if isinstance(results, slice):  # NumPy sees to it that nothing is read after it is written
            kernels[operation](*taken, out=rows[kind][results])
        else:
            rows[kind][results] = kernels[operation](*taken)
    return _taken(rows[ELEMENTS], plan.results)


def _store(x: np.ndarray, rows: int) -> np.ndarray:
    store = np.empty((rows, *x.shape[1:]), x.dtype)
    store[: len(x)] = x
    return store


def _taken(rows: np.ndarray, index: Index) -> np.ndarray:
    whole = isinstance(index, slice) and index == slice(0, len(rows), 1)
    return rows if whole else rows[index].copy() if isinstance(index, slice) else rows[index]


def _listed(
    function: Callable[..., Any], name: str, sizes: Mapping[str, int], gives: int
) -> Function:
    """A combining operation on lists of scalars, as a kernel on rows."""
    compiled = compile_function(lambda *rows: {"result": list(function(*rows))}, sizes)
    shape = compiled.outputs["result"]
    if shape != (gives,):
        raise ValueError(f"{name} returns {shape[0]} scalars, wanted {gives}")
    return compiled


def _nodes(name: str, values: Any, entries: int, dtype: np.dtype) -> np.ndarray:
    array = np.asarray(values, dtype)
    if array.ndim < 2 or array.shape[-1] != entries:
        raise ValueError(
            f"{name} has shape {array.shape}, wanted (n, ..., {entries}): nodes come first, the "
            f"entries of a node last"
        )
    return array


def _flat(array: np.ndarray) -> np.ndarray:
    """(n, states, entries)"""
    states = int(np.prod(array.shape[1:-1]))
    return array.reshape(len(array), states, array.shape[-1])


class ArrayScan:
    """`algorithms.scan.scan` and `path_scan` of arrays.

    combine(a, b): an associative operation on lists of `entries` scalars, which returns such a
    list; it is traced, and compiled once for all lengths, trees and methods. ValueError if it
    returns another number of scalars.
    """

    def __init__(self, combine: Callable[[Rows, Rows], Rows], entries: int) -> None:
        self.entries = entries
        self._kernel = _listed(combine, "combine", {"a": entries, "b": entries}, entries)

    def __call__(
        self, elements: Any, method: str = "kogge_stone", reverse: bool = False, **options: int
    ) -> np.ndarray:
        """(n, ..., entries): result[i] = elements[0] (+) ... (+) elements[i], or with `reverse`
        elements[i] (+) ... (+) elements[n - 1].

        elements: (n, ..., entries), float32 or float64; method, options: as `scan` takes them.
        ValueError for other shapes and methods.
        """
        array = self._array(elements)
        return self._run(
            scan_plan(len(array), method, reverse, tuple(sorted(options.items()))), array
        )

    def paths(self, elements: Any, parent: Sequence[int], method: str = "jumping") -> np.ndarray:
        """(n, ..., entries): result[i] is the product along the path from the root to i. method: as
        `path_scan` takes it; ValueError as there.
        """
        array = self._array(elements)
        _fits("elements", array, parent)
        return self._run(path_plan(tuple(map(int, parent)), method), array)

    def kernels(self, dtype: np.dtype) -> Kernels:
        """What `execute` needs for plans of paths and scans."""
        return {"combine": self._kernel.ufunc(dtype)}

    def _array(self, elements: Any) -> np.ndarray:
        dtype = common_dtype({"elements": elements})
        return _nodes("elements", elements, self.entries, dtype)

    def _run(self, plan: Plan, array: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            rows = execute(plan, self.kernels(array.dtype), {ELEMENTS: _flat(array)})
        return rows.reshape(array.shape)


class ArraySubtreeSum:
    """`algorithms.scan.subtree_sum` of arrays: add(x, y) and act(m, x) on lists of `entries`
    scalars, m and compose(m, n) with `moves` scalars; compiled once for all trees and methods.
    """

    def __init__(
        self,
        add: Callable[[Rows, Rows], Rows],
        act: Callable[[Rows, Rows], Rows],
        compose: Callable[[Rows, Rows], Rows],
        entries: int,
        moves: int,
    ) -> None:
        self.entries, self.moves = entries, moves
        self._kernels = {
            "add": _listed(add, "add", {"a": entries, "b": entries}, entries),
            "act": _listed(act, "act", {"a": moves, "b": entries}, entries),
            "compose": _listed(compose, "compose", {"a": moves, "b": moves}, moves),
        }

    def __call__(
        self, elements: Any, moves: Any, parent: Sequence[int], method: str = "jumping"
    ) -> np.ndarray:
        """(n, ..., entries): result[i] = elements[i] + the moved results of i's children.

        elements: (n, ..., entries), moves: (n, ..., moves), with the same dimensions between;
        method: as `subtree_sum` takes it. ValueError as there, and for other shapes.
        """
        dtype = common_dtype({"elements": elements, "moves": moves})
        x = _nodes("elements", elements, self.entries, dtype)
        m = _nodes("moves", moves, self.moves, dtype)
        _fits("elements", x, parent)
        if m.shape[:-1] != x.shape[:-1]:
            raise ValueError(f"moves has shape {m.shape}, wanted ({str(x.shape[:-1])[1:-1]}, ...)")
        plan = sum_plan(tuple(map(int, parent)), method)
        with np.errstate(all="ignore"):
            rows = execute(plan, self.kernels(dtype), {ELEMENTS: _flat(x), MOVES: _flat(m)})
        return rows.reshape(x.shape)

    def kernels(self, dtype: np.dtype) -> Kernels:
        return {name: kernel.ufunc(dtype) for name, kernel in self._kernels.items()}


def _fits(name: str, array: np.ndarray, parent: Sequence[int]) -> None:
    if len(array) != len(parent):
        raise ValueError(
            f"{name} has shape {array.shape} for {len(parent)} parents: nodes come first"
        )


def array_scan(
    combine: Callable[[Rows, Rows], Rows],
    elements: Any,
    method: str = "kogge_stone",
    reverse: bool = False,
    **options: int,
) -> np.ndarray:
    """`scan` of an array (n, ..., entries): see `ArrayScan`, which compiles once for many calls."""
    entries = np.shape(elements)[-1]
    return ArrayScan(combine, entries)(elements, method, reverse, **options)
