"""The arrays of users' traces: arrays of NumPy whose entries are scalars of a trace, or numbers.

NumPy asks the arrays themselves what its functions do with them (NEP 13 and NEP 18). A universal
function has one meaning for scalars here, which NumPy's loops over objects apply entry by entry
with broadcasting; all others are NumPy's, on arrays of objects, except those that read values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.program import array_algebra
from featherlane.program.graph import Graph
from featherlane.program.node import Node
from featherlane.program.refusal import no_value, refused
from featherlane.program.trace import FLAT, Shape, call, program_of
from featherlane.program.ufuncs import (
    INSTEAD,
    LOGICAL,
    NOT_UNIVERSAL,
    check_dtype,
    loop,
    matrix_product,
    not_in_traces,
    object_array,
    reduction,
)


def _wrapped(x: Any) -> Any:
    """A result of NumPy's functions, with arrays of objects as traced arrays."""
    if type(x) in (list, tuple):
        return type(x)(map(_wrapped, x))
    if isinstance(x, np.ndarray) and x.dtype == object:
        return x[()] if not x.ndim else x.view(TracedArray)
    return x


def _ufunc(
    self: Any, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any
) -> Any:
    """NEP 13: a universal function of traced values, or a reduction with it."""
    if options.pop("where", True) is not True:
        raise refused(f"where= of np.{ufunc.__name__}: use np.where(condition, x, y) on traces")
    options.pop("casting", None), options.pop("subok", None)
    dtype = options.pop("dtype", None)
    check_dtype(None if ufunc.__name__ in LOGICAL else dtype)
    if ufunc.signature is not None:
        result = matrix_product(ufunc, *inputs)
    elif method == "__call__":
        result = loop(ufunc)(*map(object_array, inputs))
    elif method == "reduce":
        result = reduction(ufunc, *inputs, **options)
    elif method in ("accumulate", "outer"):
        result = getattr(loop(ufunc), method)(*map(object_array, inputs), **options)
    else:
        raise refused(f"np.{ufunc.__name__}.{method} of traced values: write a loop in Python")
    return _wrapped(result) if out is None or out[0] is None else _stored(out[0], result)


def _stored(out: Any, result: Any) -> Any:
    if out.dtype != object:
        raise refused(
            f"traced values cannot be stored in an array of {out.dtype}: write x = x + y for "
            "x += y, or make the array with np.zeros_like(q), np.stack or np.concatenate"
        )
    out[...] = result
    return out


# Functions of NumPy that are no universal functions


def _where(condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        raise not_in_traces("nonzero")
    return _chosen(*map(object_array, (condition, *branches)))


def _choose(condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, Node):
        return a if condition else b
    return condition.select(a, b)


_chosen = np.frompyfunc(_choose, 3, 1)


def _select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Any:
    """The choice of the first condition that holds."""
    result = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = np.where(condition, choice, result)
    return result


def _like(fill: Any) -> Callable[..., Any]:
    """Arrays of numbers in which traced values can be stored."""

    def filled(a: Any, fill_value: Any = fill, dtype: Any = None, **options: Any) -> Any:
        check_dtype(dtype)
        shape = options.get("shape")
        array = np.empty(np.shape(a) if shape is None else shape, object)
        array[...] = fill_value
        return array

    return filled


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norms of vectors, and of matrices those that need no singular values."""
    x = _wrapped(object_array(x))
    vector = np.ndim(x) == 1 if axis is None else np.ndim(axis) == 0
    where = {"axis": axis, "keepdims": keepdims}
    if ord is None or ord == "fro" or (ord == 2 and vector):
        return np.sqrt(np.sum(x * x, **where))
    size = np.abs(x)
    if vector and ord == 1:
        return np.sum(size, **where)
    if vector and abs(ord) == np.inf:
        return np.max(size, **where) if ord > 0 else np.min(size, **where)
    if vector and ord:
        return np.sum(size**ord, **where) ** (1 / ord)
    if np.ndim(x) == 2 and axis is None and not keepdims and ord in (1, np.inf):
        return np.max(np.sum(size, axis=0 if ord == 1 else 1))
    raise refused(
        f"np.linalg.norm of traced values with ord={ord!r}: wanted None, of vectors any number "
        "but 0, of matrices 1 or inf"
    )


def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    return np.abs(np.subtract(a, b)) <= atol + rtol * np.abs(b)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.linalg.norm: _norm,
    np.linalg.solve: array_algebra.solve,
    np.linalg.inv: array_algebra.inv,
    np.linalg.det: array_algebra.det,
    np.linalg.slogdet: array_algebra.slogdet,
    np.linalg.cholesky: array_algebra.cholesky,
    np.isclose: _isclose,
    np.where: _where,
    np.select: _select,
    np.zeros_like: lambda a, dtype=None, **options: _like(0.0)(a, 0.0, dtype, **options),
    np.empty_like: lambda prototype, dtype=None, **o: _like(0.0)(prototype, 0.0, dtype, **o),
    np.ones_like: lambda a, dtype=None, **options: _like(1.0)(a, 1.0, dtype, **options),
    np.full_like: lambda a, fill_value, dtype=None, **o: _like(0.0)(a, fill_value, dtype, **o),
}


assert {function.__name__ for function in FUNCTIONS} == {*NOT_UNIVERSAL}


def _function(self: Any, function: Any, types: Any, arguments: Any, options: Any) -> Any:
    """NEP 18: another function of NumPy, which runs on arrays of objects."""
    arguments = [_scalar_array(x) if isinstance(x, Node) else x for x in arguments]
    if function in FUNCTIONS:
        return _wrapped(FUNCTIONS[function](*arguments, **options))
    name = function.__name__
    if name in INSTEAD:
        where = "linalg." if function.__module__.endswith("linalg") else ""
        raise not_in_traces(where + name)
    return _wrapped(function._implementation(*arguments, **options))


OF_FRAMEWORKS = {  # attributes of the arrays of JAX and PyTorch
    "at": "x[k] = y writes into it",
    "numpy": "it is one of NumPy's already",
    "detach": "leave it out, or compute what has no derivatives outside of the trace",
}


class TracedArray(np.ndarray):
    """An array of NumPy with traced scalars, and numbers, as its entries."""

    __array_ufunc__ = _ufunc
    __array_function__ = _function  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<TracedArray of shape {self.shape}>"

    __str__ = __repr__

    def __getattr__(self, name: str) -> Any:
        advice = OF_FRAMEWORKS.get(name, "it has what NumPy's arrays have")
        raise AttributeError(f"a traced array has no {name!r}: {advice}", name=name)

    def __bool__(self) -> bool:
        raise no_value()

    __float__ = __int__ = __index__ = __complex__ = __bool__  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        _check_index(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _check_index(index)
        super().__setitem__(index, value)

    def astype(self, dtype: Any, *arguments: Any, **options: Any) -> Any:
        """The array itself: its dtype is chosen by the inputs of the compiled function."""
        check_dtype(dtype)
        return self.copy()

    def argmax(self, *arguments: Any, **options: Any) -> Any:
        raise not_in_traces("argmax")

    def argmin(self, *arguments: Any, **options: Any) -> Any:
        raise not_in_traces("argmin")

    def argsort(self, *arguments: Any, **options: Any) -> Any:
        raise not_in_traces("argsort")

    def sort(self, *arguments: Any, **options: Any) -> Any:
        raise not_in_traces("sort")

    def nonzero(self) -> Any:
        raise not_in_traces("nonzero")


def _check_index(index: Any) -> None:
    """Raises TypeError for an index that is a traced value."""
    for part in index if type(index) is tuple else (index,):
        if isinstance(part, Node | TracedArray):
            raise refused(
                "an index is a traced value: write np.where(condition, x, y) instead of "
                "x[condition], and np.sum(np.where(k == np.arange(n), x, 0.0)) instead of x[k]"
            )


def _scalar_array(scalar: Node) -> TracedArray:
    """A traced scalar as an array without dimensions."""
    return object_array(scalar).view(TracedArray)


OF_SCALARS = frozenset(  # what traced scalars have of arrays, as NumPy's scalars do
    (
        *("T", "shape", "ndim", "size", "all", "any", "astype", "clip", "copy", "dot", "flatten"),
        *("max", "mean", "min", "prod", "ravel", "reshape", "round", "squeeze", "sum"),
    )
)


def _of_scalar(self: Node, name: str) -> Any:
    if name not in OF_SCALARS:
        advice = ": leave it out, traced values count as numbers" if name == "item" else ""
        raise AttributeError(f"a traced scalar has no {name!r}{advice}")
    attribute = getattr(_scalar_array(self), name)
    if not callable(attribute):
        return _wrapped(attribute)
    return lambda *arguments, **options: _wrapped(attribute(*arguments, **options))


Node.__array_ufunc__ = _ufunc
Node.__array_function__ = _function
Node.__getattr__ = _of_scalar  # type: ignore[attr-defined]


def array_of(scalars: Sequence[Any], shape: Sequence[int]) -> Any:
    """An array of these scalars in C order; the scalar itself for the shape ()."""
    if not shape:
        return scalars[0]
    array = np.empty(len(scalars), object)
    array[:] = scalars
    return array.reshape(shape).view(TracedArray)


def is_traced(value: Any) -> bool:
    """Whether a value holds traced scalars: one of them, an array or a nested list."""
    if isinstance(value, Node | TracedArray):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(isinstance(x, Node) for x in value.flat)
    return isinstance(value, list | tuple) and any(map(is_traced, value))


def traced_array(name: str, value: Any) -> np.ndarray:
    """The value as a traced array, of numbers too. Raises TypeError for other than real numbers."""
    array = object_array(value)
    for x in array.flat:
        if not isinstance(x, Node | float | int | np.floating | np.integer | np.bool_):
            raise refused(f"{name} holds {type(x).__name__} {x!r}: wanted real numbers")
    return array.view(TracedArray)


def trace(function: Callable[..., Any], inputs: Mapping[str, Shape]) -> Graph:
    """Returns the graph of `function`, which is called once on arrays of symbolic scalars.

    docs/traces.md lists the functions and operators of NumPy that work on symbolic scalars. Raises
    TypeError or ValueError if the function branches on a value or returns anything else.

    Arguments:
        function: takes arrays in the order of `inputs`, and a scalar for (); returns an array, a
            scalar or nested lists, which become the output "out", or a dict or named tuple of
            these, which become outputs by name
        inputs: the name and shape of each argument, as in `{"q": 7, "A": (3, 3), "s": ()}`

    Examples:
        >>> graph = fl.trace(lambda q, v: q @ q + 0.1 * (v @ v), {"q": 2, "v": 2})
        >>> graph
        <Graph (q[2], v[2]) -> (out[]): 13 nodes>
        >>> fl.compile(graph)([1.0, 2.0], [0.0, 10.0])
        array(15.)
    """
    return program_of(function, inputs, FLAT, array_of).main


def call_graph(graph: Graph, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a graph, as traced arrays, for arguments by name of which one is traced."""
    values = call(graph, **{name: _lists(name, x) for name, x in arguments.items()})
    outputs = graph.outputs.items()
    return {name: array_of(_entries(values[name], shape), shape) for name, (shape, _) in outputs}


def _lists(name: str, value: Any) -> Any:
    """The value as nested lists of scalars."""
    return value if isinstance(value, Node) else traced_array(name, value).tolist()


def _entries(value: Any, shape: Sequence[int]) -> list[Any]:
    """The scalars of nested lists of a shape, in C order."""
    for _ in shape[1:]:
        value = [x for part in value for x in part]
    return value if shape else [value]


def call_states(graph: Graph, arrays: Mapping[str, np.ndarray], lead: tuple[int, ...]) -> list[Any]:
    """The outputs of a graph for each state of arrays with leading dimensions, which broadcast."""
    whole = {
        name: np.broadcast_to(x, lead + graph.inputs[name], subok=True)
        for name, x in arrays.items()
    }
    if not lead:
        return [*call_graph(graph, whole).values()]
    results = [np.empty(lead + out.shape, object) for out in graph.outputs.values()]
    for state in np.ndindex(lead):
        outputs = call_graph(graph, {name: x[state] for name, x in whole.items()})
        for result, value in zip(results, outputs.values(), strict=True):
            result[state] = value
    return [result.view(TracedArray) for result in results]
