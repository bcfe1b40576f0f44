"""Arrays in the memory of a GPU: they are read and written where they lie, on the caller's stream.

Whatever has `__cuda_array_interface__` is taken: CuPy, PyTorch, Numba, JAX. Results are made by the
package of the inputs, or are those of `out=`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from featherlane.functions import arguments
from featherlane.functions.foreign import is_foreign, package_of, shown, without_gradient

if TYPE_CHECKING:
    from featherlane.backends.cuda.calls import Rows
    from featherlane.functions.function import Function

ON_GPU = 2  # kDLCUDA in dlpack.h


class View(NamedTuple):
    """An array on a device. strides: in bytes."""

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    device: int | None

    @property
    def end(self) -> int:
        """The address behind the last number."""
        spans = (s * (n - 1) for n, s in zip(self.shape, self.strides, strict=True))
        return self.address + (sum(spans) + self.dtype.itemsize) * (math.prod(self.shape) > 0)


def is_on_device(value: Any) -> bool:
    """Whether a value is an array in the memory of a GPU."""
    if not is_foreign(value):
        return False
    if hasattr(value, "__dlpack_device__"):
        return value.__dlpack_device__()[0] == ON_GPU
    return hasattr(value, "__cuda_array_interface__")


def any_on_device(values: Iterable[Any]) -> bool:
    """Whether one of these values lies on a GPU."""
    return any(map(is_on_device, values))


def _view(name: str, value: Any) -> View:
    from featherlane.backends.cuda.driver import driver

    try:
        told = without_gradient(name, value).__cuda_array_interface__
    except (AttributeError, RuntimeError) as error:
        raise TypeError(f"{name} is a {shown(value)} that cannot be read: {error}") from None
    shape, dtype = tuple(told["shape"]), np.dtype(told["typestr"])
    address = told["data"][0]
    dense = tuple(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))
    device = driver().device_of(address) if address else None  # it has no numbers
    return View(name, address, shape, tuple(told.get("strides") or dense), dtype, device)


def _stream(value: Any) -> int:
    """The stream that the package of a value works on now."""
    package = package_of(value)
    module = sys.modules.get(package)
    if package == "torch" and module is not None:
        return int(module.cuda.current_stream(value.device).cuda_stream)
    if package == "cupy" and module is not None:
        return int(module.cuda.get_current_stream().ptr)
    return int(value.__cuda_array_interface__.get("stream") or 0)


def _maker(value: Any) -> Callable[..., Any]:
    """What makes arrays of a shape, full of a number if one is given, in the package of a value and
    on its device.
    """
    package = package_of(value)
    module: Any = sys.modules.get(package)
    if package == "torch" and module is not None:
        options = {"dtype": value.dtype, "device": value.device}
    elif package == "cupy" and module is not None:
        options = {"dtype": value.dtype}
    else:
        raise TypeError(f"results for {shown(value)} on a GPU: pass arrays for them as out=")
    return lambda shape, *number: (module.full if number else module.empty)(
        shape, *number, **options
    )


def _with_numbers(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, with single numbers put where the others are."""
    first = next(x for x in arrays.values() if is_on_device(x))
    numbers = {k: x for k, x in arrays.items() if not is_foreign(x) and np.ndim(x) == 0}
    return {**arrays, **{k: _maker(first)((), float(x)) for k, x in numbers.items()}}


def _views(arrays: Mapping[str, Any], first: View | None = None) -> dict[str, View]:
    """All arrays, which must lie on one device and have one dtype, float32 or float64: those of the
    first one.
    """
    views: dict[str, View] = {}
    for name, value in arrays.items():
        if not is_on_device(value):
            other = next(x for x, y in arrays.items() if is_on_device(y))
            raise TypeError(
                f"{other} is on a GPU but {name} is a {type(value).__name__} on the CPU: wanted "
                "all arrays on one device"
            )
        views[name] = _view(name, value)
    first = first or next(iter(views.values()))
    if first.dtype not in (arguments.F32, arguments.F64):
        raise TypeError(f"{first.name} has dtype {first.dtype}: wanted float32 or float64 on a GPU")
    for view in views.values():
        if view.dtype != first.dtype:
            raise TypeError(
                f"{first.name} is {first.dtype} but {view.name} is {view.dtype}: wanted one dtype"
            )
        if None not in (view.device, first.device) and view.device != first.device:
            raise TypeError(
                f"{first.name} is on GPU {first.device} but {view.name} is on GPU {view.device}: "
                "wanted all arrays on one device"
            )
    return views


def _rows(view: View, core: tuple[int, ...], lead: tuple[int, ...]) -> Rows:
    """The rows of an array for all states, in their order. Raises ValueError where the numbers of
    a state, or the states, do not follow each other evenly.
    """
    from featherlane.backends.cuda.calls import Rows

    cut, size = len(view.shape) - len(core), view.dtype.itemsize
    dense = [size * math.prod(core[k + 1 :]) for k in range(len(core))]
    pairs = zip(core, view.strides[cut:], dense, strict=True)
    if any(n > 1 and stride != wanted for n, stride, wanted in pairs):
        raise ValueError(f"the numbers of a state of {view.name} do not follow each other: copy it")
    own = view.shape[:cut]
    if math.prod(own) <= 1:
        return Rows(view.address, 0)
    axes = [(n, s) for n, s in zip(own, view.strides[:cut], strict=True) if n > 1]
    even = all(s == t * m for (_, s), (m, t) in pairwise(axes))
    if math.prod(own) != math.prod(lead) or not even:
        raise ValueError(
            f"the states of {view.name}, shape {view.shape}, do not lie evenly in memory, or are "
            f"broadcast along some of the axes {lead}: copy it"
        )
    return Rows(view.address, axes[-1][1])


def call(function: Function, arrays: Mapping[str, Any], out: Any) -> Any:
    """Calls a function of arrays on a GPU: puts its kernels into the current stream of their
    package, and returns arrays whose numbers will be there in the stream's order.
    """
    arrays = _with_numbers(arrays)
    views, one = _views(arrays), next(iter(arrays.values()))
    first = next(iter(views.values()))
    lead = arguments.lead_of(views.values(), function.inputs, function.explain)
    shapes = [lead + core for core in function.outputs.values()]
    made = [*map(_maker(one), shapes)] if out is None else arguments.one_each(out, function.outputs)
    results = _views(dict(zip(function.outputs, made, strict=True)), first)
    _check_results(views, results, shapes)
    rows = [_rows(views[x], core, lead) for x, core in function.inputs.items()]
    rows += [_rows(results[x], core, lead) for x, core in function.outputs.items()]
    if math.prod(lead):
        kernels = function.on_gpu(first.dtype)
        kernels.call(first.device or 0, _stream(one), rows, math.prod(lead))
    if len(made) == 1:
        return made[0]
    return tuple(made) if function.packed is tuple else function.packed(*made)


def _check_results(
    views: Mapping[str, View], results: Mapping[str, View], shapes: Iterable[tuple[int, ...]]
) -> None:
    """Raises ValueError for results of another shape, or in the memory of other arrays, which the
    kernels may read again after they have written.
    """
    for (name, result), shape in zip(results.items(), shapes, strict=True):
        if result.shape != shape:
            raise ValueError(f"out for {name} has shape {result.shape}, wanted {shape}")
    pairs = [(result, other) for result in results.values() for other in views.values()]
    for result, other in [*pairs, *combinations(results.values(), 2)]:
        if result.address < other.end and other.address < result.end:
            raise ValueError(
                f"out for {result.name} shares memory with {other.name}: wanted an array of its own"
            )
