"""Scans of lists and of trees, subtree sums and block elimination on arrays.

The algorithms are those for lists (`algorithms.scan`, `algorithms.elimination`). Each is traced
once for a length or tree and a method, with its steps kept as calls: a step on two elements is
compiled once for any number of elements, and independent calls of it share a vector.

Arrays are (..., n, *shape of an element), float32 or float64; leading dimensions broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from featherlane.algorithms.elimination import eliminate
from featherlane.algorithms.scan import path_scan, scan, subtree_sum
from featherlane.backends.cpu.steps.run import StepEvaluator, block_length
from featherlane.functions.function import Function, KernelsByDtype
from featherlane.program.lower import traced

Combine = Callable[[Any, Any], Iterable[Any]]
Algorithm = Callable[..., list[Any]]
Shape = tuple[int, ...]
Parents = Sequence[int]
Items = tuple[tuple[str, Any], ...]  # of a dict

CACHED = 16  # functions that each object keeps
BLOCK_METHODS = ("blocked", "reduce_then_scan")  # the methods that take `block`
NEIGHBOURS = 16  # elements that share a lane where each round leaves half of them


class _ListEvaluator:
    """Evaluates an algorithm on lists, of which each element is a list of scalars, for arrays."""

    def __init__(
        self, algorithm: Algorithm, inputs: Mapping[str, Shape], options: dict[str, Any], dtype: Any
    ) -> None:
        self.rows = [(shape[0], math.prod(shape[1:])) for shape in inputs.values()]
        self.cores = [len(shape) for shape in inputs.values()]
        if options.get("method") in BLOCK_METHODS:
            options = {"block": max(block_length(self.rows[0][0], dtype), 1)} | options
        filled = {name: row for name, row in zip(inputs, self.rows, strict=True) if all(row)}

        def run(*lists: Any) -> list[Any]:
            elements = dict(zip(filled, lists, strict=True))
            return algorithm(*[elements.get(name, []) for name in inputs], **options)

        self.recorded = None
        if all(self.rows[0]):
            block = options.get("block", NEIGHBOURS)
            self.recorded = StepEvaluator(traced(run, filled, "cpu steps"), dtype, True, block)
        else:
            run()  # raises for arguments that do not fit

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        if self.recorded is not None:
            each = zip(arrays, self.cores, self.rows, strict=True)
            inputs = [_as_rows(x, core, row) for x, core, row in each if all(row)]
            self.recorded(*inputs, out=[_as_rows(out[0], self.cores[0], self.rows[0])])


def _as_rows(x: np.ndarray, core: int, row: Shape) -> np.ndarray:
    """Returns x with core dimensions (n, entries): a view, or a copy where none is possible."""
    return x if core == len(row) else x.reshape(x.shape[: x.ndim - core] + row)


class _ArrayFunctions:
    """Makes functions of arrays and caches the last of them."""

    def __init__(self) -> None:
        self._cached = lru_cache(CACHED)(_function)

    def _function(
        self, name: str, algorithm: Algorithm, inputs: Mapping[str, Shape], **options: Any
    ) -> Function:
        """Returns algorithm(*lists, **options) on arrays; its result has the first one's shape."""
        return self._cached(name, algorithm, tuple(inputs.items()), tuple(sorted(options.items())))


def _function(name: str, algorithm: Algorithm, inputs: Items, options: Items) -> Function:
    shapes = dict(inputs)
    kernel = partial(_ListEvaluator, algorithm, shapes, dict(options))
    return Function(name, shapes, {"result": inputs[0][1]}, KernelsByDtype(kernel))


def _count(name: str, array: Any, element: Shape) -> int:
    """Returns n of an array (..., n, *element)."""
    shape = np.shape(array)
    cut = len(shape) - len(element)
    if cut < 1 or shape[cut:] != element:
        wanted = ", ".join(map(str, element))
        raise ValueError(f"{name} has shape {shape}, wanted (..., n, {wanted})")
    return shape[cut - 1]


def _sized(name: str, function: Combine, entries: int) -> Callable[[Any, Any], list[Any]]:
    """Makes a function return a list; ValueError if it has other than `entries` scalars."""

    def sized(a: Any, b: Any) -> list[Any]:
        result = list(function(a, b))
        if len(result) != entries:
            raise ValueError(f"{name} returns {len(result)} scalars, wanted {entries}")
        return result

    return sized


class ArrayScan(_ArrayFunctions):
    """`algorithms.scan.scan` and `path_scan` of arrays (..., n, entries).

    combine(a, b): an associative operation on lists of `entries` scalars, which returns as many. It
    must use only its arguments and not branch on their values. The first call raises ValueError if
    it returns a different number of scalars.
    """

    def __init__(self, combine: Combine, entries: int) -> None:
        super().__init__()
        self.entries = entries
        step = _sized("combine", combine, entries)
        self._forward = partial(scan, step)
        self._backward = partial(scan, _sized("combine", lambda a, b: combine(b, a), entries))
        self._paths = partial(path_scan, step)

    def __call__(
        self, elements: Any, method: str = "blocked", reverse: bool = False, **options: int
    ) -> np.ndarray:
        """Returns elements[0] (+) ... (+) elements[i] for each i, (..., n, entries).

        elements: (..., n, entries); method, reverse, options: as in `scan`. The default `block`
        fills the lanes of a vector with blocks of one state. Raises ValueError for others.
        """
        algorithm = self._backward if reverse else self._forward
        run = self._function("scan", algorithm, self._inputs(elements), method=method, **options)
        return np.flip(run(np.flip(elements, -2)), -2) if reverse else run(elements)

    def paths(
        self, elements: Any, parent: Parents, method: str = "blocked", **options: int
    ) -> np.ndarray:
        """Combines the elements along the path from the root to each node, (..., n, entries).

        elements: (..., n, entries); parent, method, options: as in `path_scan`. Raises ValueError
        as `path_scan` does, and for other shapes.
        """
        arguments = {"parent": _tuple(parent), "method": method, **options}
        return self._function("paths", self._paths, self._inputs(elements), **arguments)(elements)

    def _inputs(self, elements: Any) -> dict[str, Shape]:
        return {"elements": (_count("elements", elements, (self.entries,)), self.entries)}


class ArraySubtreeSum(_ArrayFunctions):
    """`algorithms.scan.subtree_sum` of arrays.

    add(x, y) and act(m, x) are operations on lists of `entries` scalars; m and compose(a, b) have
    `moves` scalars. They are restricted like the `combine` of `ArrayScan`.
    """

    def __init__(
        self, add: Combine, act: Combine, compose: Combine, entries: int, moves: int
    ) -> None:
        super().__init__()
        self.entries, self.moves = entries, moves
        steps = _sized("add", add, entries), _sized("act", act, entries)
        self._sum = partial(subtree_sum, *steps, _sized("compose", compose, moves))

    def __call__(
        self, elements: Any, moves: Any, parent: Parents, method: str = "blocked", **options: int
    ) -> np.ndarray:
        """Returns elements[i] + the moved results of i's children for each i, (..., n, entries).

        elements: (..., n, entries), moves: (..., n, moves); parent, method, options: as in
        `subtree_sum`. Raises ValueError as it does, and for other shapes.
        """
        n = _count("elements", elements, (self.entries,))
        inputs = {"elements": (n, self.entries), "moves": (n, self.moves)}
        arguments = {"parent": _tuple(parent), "method": method, **options}
        return self._function("subtree_sum", self._sum, inputs, **arguments)(elements, moves)


def _tuple(parent: Parents) -> tuple[int, ...]:
    return parent if isinstance(parent, tuple) else tuple(map(int, parent))


class ArrayElimination(_ArrayFunctions):
    """`algorithms.elimination.eliminate` of arrays, for blocks of one size."""

    def __init__(self, size: int, rights: int = 1) -> None:
        super().__init__()
        self.size, self.rights = size, rights
        self._solve = partial(_solved, size, rights)

    def __call__(
        self, diagonal: Any, off_diagonal: Any, right: Any, method: str = "cyclic_reduction"
    ) -> np.ndarray:
        """Solves a symmetric block-tridiagonal system; the result has the shape of `right`.

        diagonal: (..., n, size, size), positive definite, of which only lower triangles are read;
        off_diagonal: (..., n - 1, size, size); right: (..., n, size), or (..., n, size, rights) for
        several; method: a key of `ELIMINATIONS`. Raises ValueError for other arguments. A singular
        system gives NaN (see `algorithms.elimination.eliminate`).
        """
        size = self.size
        n = _count("diagonal", diagonal, (size, size))
        right_shape = (n, size) if self.rights == 1 else (n, size, self.rights)
        inputs = {"right": right_shape, "diagonal": (n, size, size)}
        inputs["off_diagonal"] = max(n - 1, 0), size, size
        run = self._function("eliminate", self._solve, inputs, method=method)
        return run(right, diagonal, off_diagonal)


def _solved(size: int, rights: int, right: Any, *matrices: Any, method: str) -> list[Any]:
    """Calls `eliminate` for blocks that are lists of scalars, row after row. matrices: the blocks
    on the diagonal and beside it.
    """
    D, U = ([_rows(x, size) for x in blocks] for blocks in matrices)
    if rights == 1:
        return eliminate(D, U, right, method)
    x = eliminate(D, U, [_rows(x, rights) for x in right], method)
    return [[entry for row in block for entry in row] for block in x]


def _rows(flat: Sequence[Any], width: int) -> list[Sequence[Any]]:
    return [flat[i : i + width] for i in range(0, len(flat), width)]
