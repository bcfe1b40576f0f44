"""Checks of what users pass to functions: arrays and their dtypes, leading dimensions, `out=`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from featherlane.backends.cpu.strides import overlaps_itself
from featherlane.errors import shown, wrong_dtype, wrong_shape
from featherlane.functions.foreign_arrays import ForeignArrayError, is_foreign
from featherlane.program.array import is_traced, traced_array

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
TRACED = np.dtype(object)  # the dtype of traced arrays
LEADING = 32  # leading dimensions: NumPy's broadcasting takes no more
TO_NUMPY = {  # how an array of another package becomes NumPy's, wherever its memory is
    "torch": "pass {}.detach().cpu().numpy()",
    "cupy": "pass {}.get()",
    "numba": "pass {}.copy_to_host()",
}
TRACER = "a tracer has no numbers: call it outside of jit, grad and vmap, or by jax.pure_callback"
Shapes = Mapping[str, tuple[int, ...]]
Explain = Callable[[str, tuple[int, ...]], str]


def as_array(name: str, value: Any) -> np.ndarray:
    """Returns the value as a NumPy array of its own dtype.

    Raises TypeError for masked arrays and arrays of other packages, ValueError for ragged lists.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array: masks have no meaning here, fill it first")
        return value
    package, kind = type(value).__module__.split(".")[0], type(value).__name__
    traced = package.startswith("jax") and "Tracer" in kind
    if traced or hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
        other = "pass np.asarray({})" if hasattr(value, "__array__") else "pass np.from_dlpack({})"
        hint = TRACER if traced else TO_NUMPY.get(package, other).format(name)
        raise ForeignArrayError(
            f"{name} is a {package}.{kind}: this function takes NumPy arrays; {hint}"
        )
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None


def _has_dtype(value: Any) -> bool:
    """Whether the numbers are stored in a dtype, as those of Python and of lists are not."""
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def alike(values: Mapping[str, Any]) -> tuple[np.dtype, dict[str, np.ndarray]]:
    """Returns float32 if all arrays of floats are float32, float64 if none is, while integers and
    lists follow them; and the values as arrays of that dtype, or object if one holds traced
    scalars. Raises TypeError for both together, and for other than real numbers.
    """
    arrays = {name: as_array(name, value) for name, value in values.items()}
    single, other = None, None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            if array.dtype == TRACED and is_traced(array):
                return TRACED, {name: traced_array(name, value) for name, value in values.items()}
            message = wrong_dtype(name, values[name], array.dtype)
            if isinstance(values[name], str):
                message += "; options such as integrator= and reference= go by keyword"
            raise TypeError(message)
        if array.dtype.type is np.float32:  # in any byte order
            single = single or name
        elif array.dtype.kind == "f" and _has_dtype(values[name]):
            other = other or name
    if single and other:
        raise TypeError(
            f"{single} is float32 but {other} is {arrays[other].dtype}: float32 is not promoted "
            "silently, convert one of them with .astype(...)"
        )
    dtype = F32 if single else F64
    return dtype, {name: np.asarray(array, dtype) for name, array in arrays.items()}


def lead_of(
    arrays: Iterable[Any], inputs: Shapes, explain: Explain, most: int = LEADING
) -> tuple[int, ...]:
    """Returns the leading dimensions before the core shapes, broadcast, of whatever has a shape.
    explain(name, shape): the likely confusion behind a wrong shape. Raises ValueError for wrong
    core shapes, and for leading dimensions that do not broadcast or are more than `most`.
    """
    shapes = dict(zip(inputs, (array.shape for array in arrays), strict=True))

    def hint(name: str, shape: tuple[int, ...]) -> str:
        return _exchanged(name, shapes, inputs) or explain(name, shape)

    leads = [_lead(name, shapes[name], core, hint, most) for name, core in inputs.items()]
    if all(lead == leads[0] for lead in leads):  # saves a microsecond
        return leads[0] if leads else ()
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        leads_text = ", ".join(f"{name} {lead}" for name, lead in zip(inputs, leads, strict=True))
        raise ValueError(f"the leading dimensions do not broadcast: {leads_text}") from None


def check_quaternion(arrays: Mapping[str, np.ndarray], number: int, entry: int) -> None:
    """Raises ValueError if four entries of an input are 0 in the first state."""
    name, array = [*arrays.items()][number]
    if array.size and not array[(0,) * (array.ndim - 1)][entry : entry + 4].any():
        first = f"{name}[{', '.join('0' * (array.ndim - 1))}]" if array.ndim > 1 else name
        raise ValueError(
            f"{first} has a quaternion of length 0 in entries {entry} to {entry + 3}, wanted "
            "[x, y, z, w] of length 1: model.neutral() is the configuration of zeros"
        )


def _exchanged(name: str, shapes: Shapes, inputs: Shapes) -> str:
    """Says so where an array with a wrong shape has the shape of another input, and that one's
    array has the shape that was wanted here.
    """

    def fits(array: str, core: tuple[int, ...]) -> bool:
        shape = shapes[array]
        return shape[len(shape) - len(core) :] == core if core else not shape

    for other, core in inputs.items():
        if other != name and fits(name, core) and fits(other, inputs[name]):
            return f"{name} and {other} seem to be exchanged: the order is {', '.join(inputs)}"
    return ""


def _lead(
    name: str, shape: tuple[int, ...], core: tuple[int, ...], explain: Explain, most: int
) -> tuple[int, ...]:
    cut = len(shape) - len(core)
    if cut < 0 or shape[cut:] != core:
        raise ValueError(wrong_shape(name, shape, core, explain(name, shape)))
    if cut > most:
        raise ValueError(f"{name} has {cut} leading dimensions, wanted at most {most}: reshape it")
    return shape[:cut]


def one_each(out: Any, outputs: Shapes) -> tuple[Any, ...]:
    """Returns the arrays of `out=`. Raises ValueError unless there is one for each result."""
    results = tuple(out) if isinstance(out, tuple | list) else (out,)
    if len(results) != len(outputs):
        wanted = f"wanted {len(outputs)}: {', '.join(outputs)}"
        raise ValueError(f"out has {len(results)} arrays, {wanted}")
    return results


def results(
    out: Any, outputs: Shapes, lead: tuple[int, ...], dtype: np.dtype
) -> tuple[np.ndarray, ...]:
    """Returns the caller's arrays for the results, checked."""
    arrays = one_each(out, outputs)
    for array, (name, core) in zip(arrays, outputs.items(), strict=True):
        _check_result(name, array, lead + core, dtype)
    for i, array in enumerate(arrays):
        if any(np.may_share_memory(array, other) for other in arrays[:i]):
            raise ValueError(
                "out names the same memory twice: each result needs an array of its own"
            )
    return arrays


def _check_result(name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if not isinstance(array, np.ndarray):
        error = ForeignArrayError if is_foreign(array) else TypeError
        raise error(f"out for {name} is {type(array).__name__}: wanted a NumPy array")
    if array.dtype != dtype:
        raise TypeError(f"out for {name} has dtype {array.dtype}, the result is {dtype}")
    if array.shape != shape:
        raise ValueError(f"out for {name} has shape {array.shape}, the result has {shape}")
    if not array.flags.writeable:
        raise ValueError(f"out for {name} is read-only")
    if overlaps_itself(array):
        wanted = "each number of the result needs a place of its own"
        shared = "entries that share memory, as a broadcast array"
        raise ValueError(f"out for {name} has {shared}: {wanted}")


def threads_asked(asked: Any) -> int | None:
    """Returns `threads=`, checked: a whole number from 1 on, or None."""
    if asked is None:
        return None
    if not is_count(asked):
        raise ValueError(f"threads is {asked!r}: wanted a whole number, 1 or more")
    return int(asked)


def rows(name: str, array: Any) -> int:
    """Returns the length of the axis of time of an array (..., T, n)."""
    shape = tuple((array if hasattr(array, "shape") else as_array(name, array)).shape)
    if len(shape) < 2 or not shape[-2]:
        raise ValueError(f"{name} has shape {shape}: wanted (..., T, n) for T steps, one or more")
    return int(shape[-2])


def numbers_of(x: Any) -> np.ndarray | None:
    """Returns an array or lists of numbers as an array; None for traced ones, arrays of other
    libraries, and lists of unequal lengths.
    """
    if not _plain(x):
        return None
    try:
        numbers = np.asarray(x)
    except ValueError:
        return None
    return numbers if numbers.dtype.kind in "biuf" else None


def _plain(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return all(map(_plain, x))
    return isinstance(x, Real | np.ndarray)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from 1 on; True, which Python counts as 1, is none."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(value >= 1)


def counted(name: str, value: Any) -> int:
    """Returns how many there shall be. Raises ValueError, which names it, unless it `is_count`."""
    if not is_count(value):
        raise ValueError(f"{name} is {shown(value)}: wanted a whole number, 1 or more")
    return int(value)


def is_real(value: Any, least: float, most: float) -> bool:
    """Whether a value is a real number, of Python or NumPy, within ends; True is none."""
    if isinstance(value, np.integer | np.floating):
        value = value.item()  # ends may be beyond what its dtype holds
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and bool(least <= value <= most)


def whole(name: str, value: Any, least: int, most: int) -> int:
    """Returns a whole number within ends. Raises ValueError, which names it, for anything else."""
    number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        raise ValueError(f"{name} is {shown(value)}: wanted a whole number from {least} to {most}")
    return int(value)


def check_every(every: Any, steps: int) -> int:
    """Returns the steps from one state that is kept to the next, checked."""
    if not is_count(every) or steps % every:
        raise ValueError(f"every is {every!r}: wanted a whole number that divides {steps} steps")
    return int(every)


def steps_of(name: str, arguments: Mapping[str, Any]) -> dict[str, int]:
    """Returns the options of a function that the shapes of its arrays say: of a rollout."""
    if name != "rollout":
        return {}
    steps = rows("tau", arguments["tau"])
    return {"steps": steps, "every": check_every(arguments.get("every", 1), steps)}
