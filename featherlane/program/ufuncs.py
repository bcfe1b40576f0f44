"""The universal functions of NumPy on traced scalars, and what to write in place of those that no
graph can compute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from featherlane.program.node import Node
from featherlane.program.op import elementary
from featherlane.program.refusal import refused

Scalars = Callable[..., Any]  # of scalars, of which one is traced at least

# Universal functions of one argument, by NumPy's name: the method of `Node`
UNARY = (
    *(op.numpy_name for op in elementary(1)),
    *("tan", "sqrt", "arctan", "fabs", "square", "reciprocal", "conjugate", "floor", "ceil"),
    *("trunc", "rint", "sign", "signbit", "isfinite", "isnan", "isinf"),
    *("deg2rad", "radians", "rad2deg", "degrees"),
)
# Those of two: the methods for a traced first argument, and for a number before a traced one
BINARY = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "power": ("__pow__", "__rpow__"),
    "float_power": ("__pow__", "__rpow__"),
    "remainder": ("__mod__", "__rmod__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    **{op.numpy_name: (op.name, f"r{op.name}") for op in elementary(2)},
    "copysign": ("copysign", "rcopysign"),
    "hypot": ("hypot", "hypot"),
    "minimum": ("minimum", "minimum"),
    "maximum": ("maximum", "maximum"),
    "fmin": ("fmin", "fmin"),
    "fmax": ("fmax", "fmax"),
    "less": ("__lt__", "__gt__"),
    "greater": ("__gt__", "__lt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "bitwise_and": ("__and__", "__and__"),
    "bitwise_or": ("__or__", "__or__"),
    "bitwise_xor": ("__xor__", "__xor__"),
}
# Functions of NumPy that are no universal functions and that traces have: `program.array`
NOT_UNIVERSAL = (
    *("norm", "solve", "inv", "det", "slogdet", "cholesky", "isclose", "where", "select"),
    *("zeros_like", "empty_like", "ones_like", "full_like"),
)
INSTEAD = {  # what to write for functions that no graph can compute, or that have no polynomial
    **dict.fromkeys(
        ("lstsq", "pinv", "qr", "lu", "matrix_rank"),
        "ranks are decided by value; use np.linalg.solve of the normal equations, as "
        "J.T @ np.linalg.solve(J @ J.T + damping * np.eye(6), x)",
    ),
    **dict.fromkeys(
        ("eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals", "cond"),
        "iterations end by value; compute it outside the trace, from the arrays of the result",
    ),
    **dict.fromkeys(
        ("argmax", "argmin", "argsort", "sort", "argpartition", "partition", "lexsort", "median"),
        "the order of traced values is not known; use np.minimum, np.maximum, np.min, np.max",
    ),
    **dict.fromkeys(
        ("nonzero", "flatnonzero", "argwhere", "unique", "searchsorted", "digitize", "compress"),
        "shapes cannot depend on traced values; use np.where(condition, x, y)",
    ),
    **dict.fromkeys(
        ("allclose", "array_equal", "array_equiv"),
        "the answer is not known while tracing; use np.all(np.abs(x - y) < limit) in np.where",
    ),
    "interp": "use np.where(x < x1, y0 + (x - x0) * slope, ...) over the intervals",
    "piecewise": "use np.where(condition, x, y) or np.select",
    "sinh": "write (np.exp(x) - np.exp(-x)) / 2",
    "cosh": "write (np.exp(x) + np.exp(-x)) / 2",
    "arcsinh": "write np.log(x + np.sqrt(x * x + 1))",
    "arccosh": "write np.log(x + np.sqrt(x * x - 1))",
    "arctanh": "write np.log((1 + x) / (1 - x)) / 2",
    "log2": "write np.log(x) / np.log(2.0)",
    "log10": "write np.log(x) / np.log(10.0)",
    "exp2": "write np.exp(x * np.log(2.0))",
    "cbrt": "write np.copysign(np.exp(np.log(np.abs(x)) / 3), x)",
    "logaddexp": "write m + np.log(np.exp(a - m) + np.exp(b - m)), m = np.maximum(a, b)",
    "fmod": "write np.copysign(np.mod(np.abs(x), np.abs(y)), x)",
    "divmod": "write x // y and x % y",
    "heaviside": "write np.where(x < 0, 0.0, np.where(x > 0, 1.0, h))",
    "modf": "write np.trunc(x) and x - np.trunc(x)",
}


def not_in_traces(name: str) -> TypeError:
    exist = f"traces have {', '.join(sorted({*SCALARS, *NOT_UNIVERSAL}))}"
    advice = INSTEAD.get(name.split(".")[-1], f"docs/traces.md has the operations; {exist}")
    return refused(f"np.{name} of traced values: {advice}")


# What universal functions are for scalars


def _method(name: str) -> Scalars:
    return lambda x: getattr(x, name)()


def _either(method: str, reflected: str) -> Scalars:
    def of_two(x: Any, y: Any) -> Any:
        return getattr(x, method)(y) if isinstance(x, Node) else getattr(y, reflected)(x)

    return of_two


def _truth(x: Any) -> Any:
    """A condition, or what Python takes a number for."""
    return x.condition() if isinstance(x, Node) else bool(x)


def _both(x: Any, y: Any) -> Any:
    return _either("__and__", "__and__")(_truth(x), _truth(y))


def _one_of(x: Any, y: Any) -> Any:
    return _either("__or__", "__or__")(_truth(x), _truth(y))


def _differing(x: Any, y: Any) -> Any:
    return _either("__xor__", "__xor__")(_truth(x), _truth(y))


def _clipped(x: Any, low: Any, high: Any) -> Any:
    return apply("minimum", apply("maximum", x, low), high)


def _inverted(x: Any) -> Any:
    if not hasattr(x, "holds"):
        raise refused("~ of a traced number: wanted a condition, as in ~(x < 0)")
    return ~x


LOGICAL = ("logical_and", "logical_or")  # np.all and np.any ask for bool
SCALARS: dict[str, Scalars] = {
    **{name: _method(name) for name in UNARY},
    **{name: _either(*methods) for name, methods in BINARY.items()},
    "negative": lambda x: -x,
    "positive": lambda x: x,
    "absolute": abs,
    "logical_and": _both,
    "logical_or": _one_of,
    "logical_xor": _differing,
    "logical_not": lambda x: ~_truth(x),
    "invert": _inverted,
    "clip": _clipped,
}


def _of_any(ufunc: Any, function: Scalars) -> Scalars:
    """A universal function of scalars of any kind: of numbers it is NumPy's."""

    def of_scalars(*scalars: Any) -> Any:
        if any(isinstance(x, Node) for x in scalars):
            return function(*scalars)
        with np.errstate(all="ignore"):
            return ufunc(*scalars)

    return of_scalars


_loops: dict[str, Any] = {}


def loop(ufunc: Any) -> Any:
    """NumPy's loop over arrays of objects that applies a universal function to their entries."""
    name = ufunc.__name__
    if name not in SCALARS:
        raise not_in_traces(name)
    if name not in _loops:
        of_scalars = _of_any(ufunc, SCALARS[name])
        _loops[name] = np.frompyfunc(of_scalars, ufunc.nin, 1, identity=None)
    return _loops[name]


def apply(name: str, *scalars: Any) -> Any:
    return _of_any(getattr(np, name), SCALARS[name])(*scalars)


def object_array(x: Any) -> Any:
    """A plain array of objects, with which NumPy itself computes."""
    if isinstance(x, Node):  # NumPy would dispatch a traced scalar as it does traced arrays
        array = np.empty((), object)
        array[()] = x
        return array
    return np.asarray(x).astype(object, copy=False)


def check_dtype(dtype: Any) -> None:
    """Raises TypeError for other dtypes than float64 and object: the compiled function's inputs
    choose.
    """
    if dtype is not None and np.dtype(dtype) not in (np.dtype(float), np.dtype(object)):
        raise refused(f"dtype={dtype} of traced values: leave it out, inputs choose the dtype")


def reduction(
    ufunc: Any,
    a: Any,
    axis: Any = 0,
    keepdims: bool = False,
    initial: Any = np._NoValue,  # type: ignore[attr-defined]
) -> Any:
    a = object_array(a)
    if initial is np._NoValue or initial is None:  # type: ignore[attr-defined]
        more = {} if a.size or ufunc.identity is None else {"initial": ufunc.identity}
    else:
        more = {"initial": initial}
    return loop(ufunc).reduce(a, axis=axis, keepdims=keepdims, **more)


def matrix_product(ufunc: Any, *inputs: Any) -> Any:
    """Products of matrices and vectors, which NumPy computes of objects too."""
    a, b = map(object_array, inputs)
    if ufunc.__name__ == "vecdot":
        return np.add.reduce(loop(np.multiply)(a, b), axis=-1)
    if ufunc.__name__ == "matvec":
        return np.matmul(a, b[..., None])[..., 0]
    if ufunc.__name__ == "vecmat":
        return np.matmul(a[..., None, :], b)[..., 0, :]
    if ufunc.__name__ != "matmul":
        raise not_in_traces(ufunc.__name__)
    return np.matmul(a, b)
