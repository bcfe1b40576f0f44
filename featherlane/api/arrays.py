"""Scans of lists and of trees, subtree sums and block elimination on arrays.

The algorithms are those for lists (`algorithms.scan`, `algorithms.elimination`). Each runs once for
a length or tree and a method, on placeholders (`callwise`): what is done with two elements is
compiled once, and what does not wait for each other shares a vector. Code does not grow with the
number of elements.

Arrays are (..., n, *shape of an element), float32 or float64; leading dimensions are states and
broadcast as NumPy's do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from featherlane.algorithms.elimination import eliminate
from featherlane.algorithms.scan import path_scan, scan, subtree_sum
from featherlane.backends.cpu.steps.run import Recorded, block_length
from featherlane.functions.function import Function
from featherlane.program.trace import STEPS, program_of

Combine = Callable[[Any, Any], Iterable[Any]]
Algorithm = Callable[..., list[Any]]
Shape = tuple[int, ...]

KEPT = 16  # functions of each object
IN_BLOCKS = ("blocked", "reduce_then_scan")  # the methods that take `block`
HALVED = 16  # neighbours in a lane where each round leaves half of the elements


class _Rows:
    """An algorithm of lists of elements as an evaluator of arrays: each element is a list of
    scalars to it, an array without numbers an empty list.
    """

    def __init__(
        self, algorithm: Algorithm, inputs: Mapping[str, Shape], how: dict[str, Any], dtype: Any
    ) -> None:
        self.rows = [(shape[0], math.prod(shape[1:])) for shape in inputs.values()]
        self.cores = [len(shape) for shape in inputs.values()]
        if how.get("method") in IN_BLOCKS:
            how = {"block": max(block_length(self.rows[0][0], dtype), 1)} | how
        there = {name: row for name, row in zip(inputs, self.rows, strict=True) if all(row)}

        def run(*lists: Any) -> list[Any]:
            given = dict(zip(there, lists, strict=True))
            return algorithm(*[given.get(name, []) for name in inputs], **how)

        self.recorded = None
        if all(self.rows[0]):
            self.recorded = Recorded(
                program_of(run, there, STEPS), dtype, True, how.get("block", HALVED)
            )
        else:
            run()  # refuses what does not fit

    def __call__(self, *arrays: np.ndarray, out: Sequence[np.ndarray]) -> None:
        if self.recorded is not None:
            of = zip(arrays, self.cores, self.rows, strict=True)
            given = [_flat(x, core, row) for x, core, row in of if all(row)]
            self.recorded(*given, out=[_flat(out[0], self.cores[0], self.rows[0])])


def _flat(x: np.ndarray, core: int, row: Shape) -> np.ndarray:
    """A view of x with core dimensions (n, entries), or a copy where there is none."""
    return x if core == len(row) else x.reshape(x.shape[: x.ndim - core] + row)


class _Arrays:
    """What makes functions of arrays, and keeps the last few."""

    def __init__(self) -> None:
        self._made = lru_cache(KEPT)(_function)

    def _function(
        self, name: str, algorithm: Algorithm, inputs: Mapping[str, Shape], **how: Any
    ) -> Function:
        """algorithm(*lists, **how) of arrays; the result has the shape of the first."""
        return self._made(name, algorithm, tuple(inputs.items()), tuple(sorted(how.items())))


def _function(
    name: str,
    algorithm: Algorithm,
    inputs: tuple[tuple[str, Shape], ...],
    how: tuple[tuple[str, Any], ...],
) -> Function:
    shapes = dict(inputs)
    kernel = lambda dtype: _Rows(algorithm, shapes, dict(how), dtype)
    return Function(name, shapes, {"result": inputs[0][1]}, kernel)


def _count(name: str, array: Any, element: Shape) -> int:
    """The n of an array (..., n, *element)."""
    shape = np.shape(array)
    cut = len(shape) - len(element)
    if cut < 1 or shape[cut:] != element:
        wanted = ", ".join(map(str, element))
        raise ValueError(f"{name} has shape {shape}, wanted (..., n, {wanted})")
    return shape[cut - 1]


def _listed(name: str, function: Combine, entries: int) -> Callable[[Any, Any], list[Any]]:
    """The function as one that returns a list of so many scalars."""

    def listed(a: Any, b: Any) -> list[Any]:
        result = list(function(a, b))
        if len(result) != entries:
            raise ValueError(f"{name} returns {len(result)} scalars, wanted {entries}")
        return result

    return listed


class ArrayScan(_Arrays):
    """`algorithms.scan.scan` and `path_scan` of arrays (..., n, entries).

    combine(a, b): an associative operation on lists of `entries` scalars, which returns as many;
    it uses nothing but its arguments and does not look at values. ValueError in the first call if
    it returns another number of scalars.
    """

    def __init__(self, combine: Combine, entries: int) -> None:
        super().__init__()
        self.entries = entries
        step = _listed("combine", combine, entries)
        self._forward = partial(scan, step)
        self._backward = partial(scan, _listed("combine", lambda a, b: combine(b, a), entries))
        self._paths = partial(path_scan, step)

    def __call__(
        self,
        elements: Any,
        method: str = "blocked",
        reverse: bool = False,
        **options: int,
    ) -> np.ndarray:
        """(..., n, entries): result[i] = elements[0] (+) ... (+) elements[i], or with `reverse`
        elements[i] (+) ... (+) elements[n - 1].

        elements: (..., n, entries); method, options: as `scan` takes them. `block` is by default
        what fills the lanes of a vector with blocks of one state. ValueError for other shapes and
        methods.
        """
        inputs = self._inputs(elements)
        if reverse:
            run = self._function("scan", self._backward, inputs, method=method, **options)
            return np.flip(run(np.flip(elements, -2)), -2)
        return self._function("scan", self._forward, inputs, method=method, **options)(elements)

    def paths(
        self,
        elements: Any,
        parent: Sequence[int],
        method: str = "blocked",
        **options: int,
    ) -> np.ndarray:
        """(..., n, entries): result[i] is the product along the path from the root to i.

        elements: (..., n, entries); parent, method, options: as `path_scan` takes them. ValueError
        as there, and for other shapes.
        """
        how = {"parent": _tuple(parent), "method": method, **options}
        return self._function("paths", self._paths, self._inputs(elements), **how)(elements)

    def _inputs(self, elements: Any) -> dict[str, Shape]:
        return {"elements": (_count("elements", elements, (self.entries,)), self.entries)}


class ArraySubtreeSum(_Arrays):
    """`algorithms.scan.subtree_sum` of arrays: add(x, y) and act(m, x) on lists of `entries`
    scalars, m and compose(a, b) with `moves` scalars; what they may do: as in `ArrayScan`.
    """

    def __init__(
        self, add: Combine, act: Combine, compose: Combine, entries: int, moves: int
    ) -> None:
        super().__init__()
        self.entries, self.moves = entries, moves
        self._sum = partial(
            subtree_sum,
            _listed("add", add, entries),
            _listed("act", act, entries),
            _listed("compose", compose, moves),
        )

    def __call__(
        self,
        elements: Any,
        moves: Any,
        parent: Sequence[int],
        method: str = "blocked",
        **options: int,
    ) -> np.ndarray:
        """(..., n, entries): result[i] = elements[i] + the moved results of i's children.

        elements: (..., n, entries), moves: (..., n, moves); parent, method, options: as
        `subtree_sum` takes them. ValueError as there, and for other shapes.
        """
        n = _count("elements", elements, (self.entries,))
        inputs = {"elements": (n, self.entries), "moves": (n, self.moves)}
        how = {"parent": _tuple(parent), "method": method, **options}
        return self._function("subtree_sum", self._sum, inputs, **how)(elements, moves)


def _tuple(parent: Sequence[int]) -> tuple[int, ...]:
    return parent if isinstance(parent, tuple) else tuple(map(int, parent))


class ArrayElimination(_Arrays):
    """`algorithms.elimination.eliminate` of arrays: blocks are size x size, with so many right
    sides.
    """

    def __init__(self, size: int, rights: int = 1) -> None:
        super().__init__()
        self.size, self.rights = size, rights
        self._solve = partial(_solved, size, rights)

    def __call__(
        self, diagonal: Any, off_diagonal: Any, right: Any, method: str = "cyclic_reduction"
    ) -> np.ndarray:
        """The solution of a symmetric block-tridiagonal system, in the shape of `right`.

        diagonal: (..., n, size, size), positive definite, only lower triangles are read;
        off_diagonal: (..., n - 1, size, size); right: (..., n, size), or (..., n, size, rights)
        for several; method: a key of `ELIMINATIONS`. ValueError for others. A singular system gives
        NaN, as `algorithms.elimination.eliminate` says.
        """
        size = self.size
        n = _count("diagonal", diagonal, (size, size))
        column = (size,) if self.rights == 1 else (size, self.rights)
        inputs = {
            "right": (n, *column),
            "diagonal": (n, size, size),
            "off_diagonal": (max(n - 1, 0), size, size),
        }
        run = self._function("eliminate", self._solve, inputs, method=method)
        return run(right, diagonal, off_diagonal)


def _solved(
    size: int,
    rights: int,
    right: Sequence[Any],
    diagonal: Sequence[Any],
    off_diagonal: Sequence[Any],
    method: str,
) -> list[Any]:
    """`eliminate` with blocks as lists of scalars, row after row."""
    D, U = ([_cut(x, size) for x in blocks] for blocks in (diagonal, off_diagonal))
    if rights == 1:
        return eliminate(D, U, right, method)
    x = eliminate(D, U, [_cut(x, rights) for x in right], method)
    return [[entry for row in block for entry in row] for block in x]


def _cut(flat: Sequence[Any], width: int) -> list[Sequence[Any]]:
    """The rows of a matrix."""
    return [flat[i : i + width] for i in range(0, len(flat), width)]
