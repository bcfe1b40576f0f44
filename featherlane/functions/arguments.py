"""What a user passes to a function: arrays and their dtypes, leading dimensions, `out=`, and errors
that teach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.backends.cpu.strides import overlaps_itself

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
Shapes = Mapping[str, tuple[int, ...]]
Explain = Callable[[str, tuple[int, ...]], str]


def as_array(name: str, value: Any) -> np.ndarray:
    """The user's array, or one of the same numbers."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: masks have no meaning here, fill it first")
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
        kind = f"{type(value).__module__.split('.')[0]}.{type(value).__name__}"
        raise TypeError(
            f"{name} is a {kind}: this version takes NumPy arrays, pass np.asarray({name})"
        )
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None


def common_dtype(arrays: Mapping[str, Any]) -> np.dtype:
    """float32 if every array of floats is float32, float64 if none is; integers and lists
    follow.
    """
    single, other = None, None
    for name, value in arrays.items():
        array = as_array(name, value)
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            raise TypeError(
                f"{name} has dtype {array.dtype}: wanted real numbers, float32 or float64"
            )
        if array.dtype.type is np.float32:  # in any byte order
            single = single or name
        elif array.dtype.kind == "f" and isinstance(value, np.ndarray):
            other = other or name
    if single and other:
        have = as_array(other, arrays[other]).dtype
        raise TypeError(
            f"{single} is float32 but {other} is {have}: float32 is not promoted silently, "
            f"convert one of them with .astype(...)"
        )
    return F32 if single else F64


def lead_of(arrays: Sequence[np.ndarray], inputs: Shapes, explain: Explain) -> tuple[int, ...]:
    """The leading dimensions before core shapes, broadcast. explain: the likely confusion behind a
    wrong shape of a name.
    """
    leads = [
        _lead(name, array.shape, core, explain)
        for array, (name, core) in zip(arrays, inputs.items(), strict=True)
    ]
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        told = ", ".join(f"{name} {lead}" for name, lead in zip(inputs, leads, strict=True))
        raise ValueError(f"the leading dimensions do not broadcast: {told}") from None


def _lead(
    name: str, shape: tuple[int, ...], core: tuple[int, ...], explain: Explain
) -> tuple[int, ...]:
    cut = len(shape) - len(core)
    if cut < 0 or shape[cut:] != core:
        wanted = ", ".join(["...", *map(str, core)])
        hint = explain(name, shape)
        raise ValueError(f"{name} has shape {shape}, wanted ({wanted}){hint and ': ' + hint}")
    return shape[:cut]


def results(
    out: Any, outputs: Shapes, lead: tuple[int, ...], dtype: np.dtype
) -> tuple[np.ndarray, ...]:
    """The caller's arrays for the results, checked."""
    given = tuple(out) if isinstance(out, tuple | list) else (out,)
    if len(given) != len(outputs):
        raise ValueError(
            f"out has {len(given)} arrays, wanted {len(outputs)}: {', '.join(outputs)}"
        )
    for array, (name, core) in zip(given, outputs.items(), strict=True):
        _check_result(name, array, lead + core, dtype)
    for i, array in enumerate(given):
        if any(np.may_share_memory(array, other) for other in given[:i]):
            raise ValueError(
                "out names the same memory twice: each result needs an array of its own"
            )
    return given


def _check_result(name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"out for {name} is {type(array).__name__}: wanted a NumPy array")
    if array.dtype != dtype:
        raise TypeError(f"out for {name} has dtype {array.dtype}, the result is {dtype}")
    if array.shape != shape:
        raise ValueError(f"out for {name} has shape {array.shape}, the result has {shape}")
    if not array.flags.writeable:
        raise ValueError(f"out for {name} is read-only")
    if overlaps_itself(array):
        raise ValueError(
            f"out for {name} has entries that share memory, as a broadcast array: "
            "each number of the result needs a place of its own"
        )


def threads_asked(asked: Any) -> int | None:
    """`threads=`, checked: a whole number from 1 on, or None."""
    if asked is None:
        return None
    if not isinstance(asked, int | np.integer) or asked < 1:
        raise ValueError(f"threads is {asked!r}: wanted a whole number, 1 or more")
    return int(asked)
