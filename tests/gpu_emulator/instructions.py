"""The types of PTX, and what its instructions compute, as NumPy arrays with an entry a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from featherlane.program.evaluation import fma

Array = Any
TYPES: dict[str, Any] = {
    **dict.fromkeys(("u32", "b32"), np.uint32),
    **dict.fromkeys(("u64", "b64"), np.uint64),
    "f32": np.float32,
    "f64": np.float64,
    "pred": np.bool_,
}


def _quiet(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(*operands)

    return run


def wide_product(a: Array, b: Array) -> Array:
    return a.astype(np.uint64) * b.astype(np.uint64)


# Instructions by their names without type and rounding; how operands become the result
COMPUTE: dict[str, Callable[..., Array]] = {
    "mov": lambda a: a,
    "add": _quiet(np.add),
    "sub": _quiet(np.subtract),
    "mul": _quiet(np.multiply),
    "mul.lo": _quiet(np.multiply),
    "mad.lo": _quiet(lambda a, b, c: a * b + c),
    "div": _quiet(np.divide),
    "fma": fma,
    "sqrt": _quiet(np.sqrt),
    "neg": np.negative,
    "abs": np.abs,
    "copysign": lambda a, b: np.copysign(b, a),
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
COMPARE: dict[str, Callable[..., Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
