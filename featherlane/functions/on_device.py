"""Arrays in the memory of a GPU: they are read and written where they lie, on the caller's stream.

Whatever has `__cuda_array_interface__` or `__dlpack__` is taken: CuPy, PyTorch, Numba, JAX. Results
are allocated by the package of the inputs, or are those of `out=`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from featherlane.functions import arguments
from featherlane.functions.foreign_arrays import is_foreign, package_of, shown, without_gradient
from featherlane.functions.tensor_calls import (
    NUMBERS,
    TensorCalls,
    TensorPlan,
    current_stream,
    layouts_of,
)

if TYPE_CHECKING:
    from featherlane.backends.cuda.calls import DeviceFunction, Rows

ON_GPU = (2, 13)  # kDLCUDA and kDLCUDAManaged in dlpack.h
JAX = ("jax", "jaxlib")
OF_JAX = (
    "{} is a JAX array on a GPU, and JAX arrays do not change: use "
    "featherlane.interop.jax.wrap(model), inside of jit or not"
)


class DeviceView(NamedTuple):
    """An array on a device. strides: in bytes; stream: that of its package, on which its numbers
    come to be, None if our stream waits for them already; alive: keeps what was read of it.
    """

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    device: int | None
    writable: bool
    stream: int | None
    alive: object = None

    @property
    def relative_span(self) -> tuple[int, int]:
        """The bytes from the first number to the lowest one, and to behind the highest."""
        return _span(self.shape, self.strides, self.dtype.itemsize)

    @property
    def span(self) -> tuple[int, int]:
        """The lowest address, and the one behind the highest number."""
        first, end = self.relative_span
        return self.address + first, self.address + end


@lru_cache(maxsize=1024)  # calls with arrays of the same layout come again and again
def _span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The bytes from the first number of an array to the lowest one, and to behind the highest."""
    if not math.prod(shape):
        return 0, 0
    far = [s * (n - 1) for n, s in zip(shape, strides, strict=True)]
    return sum(min(x, 0) for x in far), sum(max(x, 0) for x in far) + itemsize


def is_on_device(value: Any) -> bool:
    """Whether a value is an array in the memory of a GPU."""
    if not is_foreign(value):
        return False
    if hasattr(value, "__dlpack_device__"):
        return value.__dlpack_device__()[0] in ON_GPU
    return hasattr(value, "__cuda_array_interface__")


def any_on_device(values: Iterable[Any]) -> bool:
    """Whether one of these values lies on a GPU."""
    return any(map(is_on_device, values))


def _has_stream(value: Any) -> Any:
    """The module of a value's package if that has a current stream."""
    package = package_of(value)
    return sys.modules.get(package) if package in ("torch", "cupy") else None


def _own_stream(value: Any) -> int | None:
    """The stream of a value's package on its device now, or the one that the value names; None if
    it has none.
    """
    from featherlane.backends.cuda.driver import LEGACY

    module: Any = _has_stream(value)
    if module is not None and package_of(value) == "torch":
        return current_stream(value.device.index)
    if module is not None:
        with value.device:
            return int(module.cuda.get_current_stream().ptr) or LEGACY
    if hasattr(value, "__dlpack__"):  # which lets our stream wait
        return None
    stream = value.__cuda_array_interface__.get("stream")
    return None if stream is None else int(stream) or LEGACY


def _stream(values: Sequence[Any]) -> int:
    """The stream for a call: the current one of the first package that has one, or the one that an
    array names.
    """
    from featherlane.backends.cuda.driver import LEGACY

    first = sorted(values, key=lambda x: _has_stream(x) is None)
    return next((s for s in map(_own_stream, first) if s is not None), LEGACY)


def _view(name: str, value: Any, stream: int) -> DeviceView:
    """An array on a device, whose numbers the stream may read if it waits for the view's stream."""
    try:
        plain = without_gradient(name, value)
        if _has_stream(value) is None and hasattr(value, "__dlpack__"):
            return _by_dlpack(name, plain, stream)
        interface = plain.__cuda_array_interface__
    except (AttributeError, BufferError, RuntimeError) as error:
        raise TypeError(f"{name} is a {shown(value)} that cannot be read: {error}") from None
    from featherlane.backends.cuda.driver import driver

    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    address, read_only = interface["data"]
    device = driver().device_of(address) if address else None  # it has no numbers
    strides = tuple(interface.get("strides") or _dense(shape, dtype))
    return DeviceView(
        name, address, shape, strides, dtype, device, not read_only, _own_stream(value), plain
    )


def _by_dlpack(name: str, value: Any, stream: int) -> DeviceView:
    from featherlane.backends.cuda import dlpack

    try:
        x = dlpack.read(value, stream)
    except TypeError as error:
        raise TypeError(f"{name} is a {shown(value)} that cannot be read: {error}") from None
    strides = _dense(x.shape, x.dtype) if x.strides is None else x.strides
    device = x.device if math.prod(x.shape) else None
    return DeviceView(
        name, x.address, x.shape, strides, x.dtype, device, x.writable, None, x.capsule
    )


@lru_cache(maxsize=1024)
def _dense(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """The strides of an array in C order."""
    return tuple(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _maker(arrays: Mapping[str, Any]) -> Callable[..., Any]:
    """A function that allocates arrays of a shape, full of a number if there is one, on the device
    of these arrays: the first of their packages that can be asked for some.
    """
    on_device = {name: x for name, x in arrays.items() if is_on_device(x)}
    name, value = min(on_device.items(), key=lambda pair: _has_stream(pair[1]) is None)
    module = _has_stream(value)
    if module is None:
        _check_not_jax(name, value)
        raise TypeError(
            f"{name} is a {shown(value)} on a GPU, whose package is not asked for arrays: pass "
            "arrays for the results as out=, and arrays for single numbers"
        )
    is_torch = package_of(value) == "torch"
    options = {"dtype": value.dtype, **({"device": value.device} if is_torch else {})}

    def make(shape: tuple[int, ...], *number: float) -> Any:
        with nullcontext() if is_torch else value.device:
            return (module.full if number else module.empty)(shape, *number, **options)

    return make


def _check_not_jax(name: str, value: Any) -> None:
    if package_of(value) in JAX:
        raise TypeError(OF_JAX.format(name))


def _with_numbers(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, with single numbers put where the others are."""
    numbers = {k: x for k, x in arrays.items() if isinstance(x, NUMBERS) and np.ndim(x) == 0}
    if not numbers or not any_on_device(arrays.values()):
        return dict(arrays)
    make = _maker(arrays)
    return {**arrays, **{name: make((), float(x)) for name, x in numbers.items()}}


def _views(
    arrays: Mapping[str, Any], stream: int, first: DeviceView | None = None
) -> dict[str, DeviceView]:
    """All arrays, which must lie on one device and have one dtype, float32 or float64: those of the
    first one.
    """
    views: dict[str, DeviceView] = {}
    for name, value in arrays.items():
        if not is_on_device(value):
            usual = first.name if first else "out"  # if no array of these is on one
            other = next((x for x, y in arrays.items() if is_on_device(y)), usual)
            raise TypeError(
                f"{other} is on a GPU but {name} is a {type(value).__name__} on the CPU: wanted "
                "all arrays on one device"
            )
        views[name] = _view(name, value, stream)
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


@lru_cache(maxsize=1024)
def _stride(
    name: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    itemsize: int,
    core: tuple[int, ...],
    lead: tuple[int, ...],
) -> int:
    """The bytes from state to state of an array, 0 where all have the same one. Raises ValueError
    where the numbers of a state, or the states, do not follow each other evenly.
    """
    cut = len(shape) - len(core)
    dense = [itemsize * math.prod(core[k + 1 :]) for k in range(len(core))]
    pairs = zip(core, strides[cut:], dense, strict=True)
    if any(n > 1 and stride != wanted for n, stride, wanted in pairs):
        raise ValueError(f"the numbers of a state of {name} do not follow each other: copy it")
    leading = shape[:cut]
    if math.prod(lead) == 1:  # as if others followed: kernels are the fastest then
        return itemsize * math.prod(core)
    if math.prod(leading) <= 1:
        return 0
    axes = [(n, s) for n, s in zip(leading, strides[:cut], strict=True) if n > 1]
    even = all(s == t * m for (_, s), (m, t) in pairwise(axes))
    if math.prod(leading) != math.prod(lead) or not even:
        raise ValueError(
            f"the states of {name}, shape {shape}, do not lie evenly in memory, or are "
            f"broadcast along some of the axes {lead}: copy it"
        )
    return axes[-1][1]


def _rows(view: DeviceView, core: tuple[int, ...], lead: tuple[int, ...]) -> Rows:
    """The rows of an array for all states, in their order."""
    from featherlane.backends.cuda.calls import Rows

    layout = view.name, view.shape, view.strides, view.dtype.itemsize
    stride = _stride(*layout, core, lead)
    if (view.address | stride) % view.dtype.itemsize:
        size = view.dtype.itemsize
        raise ValueError(f"{view.name} has numbers at addresses that are no multiples of {size}")
    return Rows(view.address, stride)


def _check_apart(
    rows: Sequence[Rows], results: Mapping[str, DeviceView], cores: Sequence[Any]
) -> None:
    """Raises ValueError for results of which states share memory, as those of `expand` do."""
    for (name, view), row, core in zip(results.items(), rows, cores, strict=True):
        if abs(row.stride) < math.prod(core) * view.dtype.itemsize:
            raise ValueError(f"{name}: its states share memory, wanted an array of its own")


def call(
    arrays: Mapping[str, Any],
    out: Any,
    inputs: arguments.Shapes,
    outputs: arguments.Shapes,
    explain: arguments.Explain,
    kernels: Callable[[np.dtype], DeviceFunction],
    before: TensorCalls,
) -> tuple[Any, ...]:
    """Calls kernels with arrays on a GPU: puts them into the current stream of the arrays' package,
    and returns arrays whose numbers will be there in the stream's order.

    inputs, outputs: core shapes by name; explain: says the likely confusion behind a wrong shape;
    kernels: returns the kernels of a dtype; before: earlier calls with tensors.
    """
    layouts = layouts_of((*arrays.values(), *outs(out)))
    if layouts is not None:
        done = before.call(layouts, [*arrays.values()], outs(out))
        if done is not None:
            return done
    stream = _stream([x for x in (*arrays.values(), *outs(out)) if is_on_device(x)])
    given, arrays = arrays, _with_numbers(arrays)
    views = _views(arrays, stream)
    first = next(iter(views.values()))
    lead = arguments.lead_of(views.values(), inputs, explain)
    shapes = {x: lead + core for x, core in outputs.items()}
    if out is None:
        filled = tuple(map(_maker(arrays), shapes.values()))
    else:
        filled = arguments.one_each(out, shapes)
    named = {f"out for {x}": array for x, array in zip(shapes, filled, strict=True)}
    for name, array in named.items():
        _check_not_jax(name, array)
    results = _views(named, stream, first)
    _check_results(views, results, shapes.values())
    cores = (*inputs.values(), *outputs.values())
    pairs = zip((*views.values(), *results.values()), cores, strict=True)
    rows = [_rows(x, core, lead) for x, core in pairs]
    if states := math.prod(lead):
        _check_apart(rows[len(views) :], results, [*outputs.values()])
        every = [*views.values(), *results.values()]
        with _ordered(stream, every) as device:
            function = kernels(first.dtype)
            function.call(device, stream, rows, states)
        if layouts is not None:
            pairs_of = enumerate(zip(given.values(), arrays.values(), strict=True))
            numbers = {k: y for k, (x, y) in pairs_of if x is not y}
            strides, spans = [x.stride for x in rows], [x.relative_span for x in every]
            plan = function, device, states, first.dtype.itemsize, numbers, strides, spans
            before.remember(layouts, TensorPlan(*plan, [*shapes.values()]))
    return filled


def outs(out: Any) -> tuple[Any, ...]:
    """The arrays of `out=`."""
    return tuple(out) if isinstance(out, tuple | list) else () if out is None else (out,)


@contextmanager
def _ordered(stream: int, views: Sequence[DeviceView]) -> Iterator[int]:
    """The device of the arrays. The stream waits for the streams of all arrays, and those for what
    it is given meanwhile.
    """
    from featherlane.backends.cuda.driver import driver

    device = next((x.device for x in views if x.device is not None), 0)
    others = {x.stream for x in views if x.stream not in (None, stream)}
    for other in others:
        driver().follow(device, stream, other)  # type: ignore[arg-type]
    yield device
    for other in others:
        driver().follow(device, other, stream)  # type: ignore[arg-type]


def _check_results(
    views: Mapping[str, DeviceView],
    results: Mapping[str, DeviceView],
    shapes: Iterable[tuple[int, ...]],
) -> None:
    """Raises ValueError for results of another shape, that are read-only, or in the memory of other
    arrays, which the kernels may read again after they have written.
    """
    for result, shape in zip(results.values(), shapes, strict=True):
        if result.shape != shape:
            raise ValueError(f"{result.name} has shape {result.shape}, wanted {shape}")
        if not result.writable:
            raise ValueError(f"{result.name} is read-only")
    pairs = [(result, other) for result in results.values() for other in views.values()]
    for result, other in [*pairs, *combinations(results.values(), 2)]:
        (first, end), (begin, last) = result.span, other.span
        if first < last and begin < end:
            raise ValueError(
                f"{result.name} shares memory with {other.name}: wanted an array of its own"
            )
