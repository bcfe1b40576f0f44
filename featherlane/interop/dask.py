"""Dask: `wrap(model)` has every function of a model on Dask arrays and Zarr stores, chunk by chunk.

Results are lazy arrays with the chunks of the states. A function of several results is evaluated
once for each chunk, whichever of them are used. One task compiles it, and all chunks wait
for it: one worker compiles, the others load the code from the cache on disk (docs/scale.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from featherlane.api.model import Model
from featherlane.functions.arguments import alike, counted, lead_of
from featherlane.functions.function import Function
from featherlane.interop.packed import PackedFunction, prepared
from featherlane.interop.wrapped import WrappedModel, required

dask, da = required("dask", "dask"), required("dask.array", "dask")


def wrap(model: Model, *, threads: int = 1) -> WrappedModel[Any]:
    """Returns the functions of a model on Dask arrays, whose leading dimensions may be chunked in
    any way.

    Arrays of Zarr, h5py and NumPy, and numbers, are also accepted.

    Arguments:
        model: the robot
        threads: threads of the kernel in each chunk; 1 leaves the cores to Dask, which computes a
            chunk on each of its threads

    Examples:
        >>> import dask.array as da
        >>> from featherlane.interop import dask as interop
        >>> states = da.zeros((1000, arm.nv), chunks=(250, arm.nv))
        >>> interop.wrap(arm).mass_matrix(states).sum(axis=0).compute().shape
        (2, 2)
    """
    threads = counted("threads", threads)
    run = lambda variant, arrays: _results(model._function(variant), arrays, threads)
    return WrappedModel(model, run, partial(wrap, threads=threads))


def apply(function: Function, *arrays: Any, threads: int = 1) -> Any:
    """Applies a compiled function, from `featherlane.compile` or `model.function`, to Dask arrays.

    Returns a lazy array, or the function's tuple if it has several results. Raises TypeError for
    another number of arrays, and for anything but a compiled function.

    Arguments:
        function: a compiled function
        arrays: its inputs in their order, with leading dimensions that broadcast
        threads: threads of the kernel in each chunk, as in `wrap`

    Examples:
        >>> import dask.array as da
        >>> from featherlane.interop import dask as interop
        >>> power = fl.compile(lambda v, tau: v @ tau, {"v": 2, "tau": 2})
        >>> speeds = da.ones((1000, 2), chunks=(250, 2))
        >>> float(interop.apply(power, speeds, 3 * speeds).sum())
        6000.0
    """
    if not isinstance(function, Function):
        message = "wanted a Function, as featherlane.compile and model.function give it"
        raise TypeError(f"function is {function!r}: {message}")
    results = _results(function, arrays, counted("threads", threads))
    if len(results) == 1:
        return results[0]
    return results if function.packed is tuple else function.packed(*results)


def _results(function: Function, arrays: Sequence[Any], threads: int) -> tuple[Any, ...]:
    """The lazy results of a function, in a tuple."""
    if len(arrays) != len(function.inputs):
        wanted = f"wanted {len(function.inputs)}: {', '.join(function.inputs)}"
        raise TypeError(f"{function.name} got {len(arrays)} arrays, {wanted}")
    lazy = _alike({name: _lazy(x) for name, x in zip(function.inputs, arrays, strict=True)})
    _check_chunks_are_known(lazy)
    lead_of(lazy.values(), function.inputs, function.explain)
    even, single = _evenly_chunked(lazy, function.inputs)
    packed, dtype = PackedFunction.of(function), even[0].dtype
    key = f"compile-{function.name}-{packed.digest}-{dtype}{'-single' * single}"
    compiled = dask.delayed(prepared, pure=True)(packed, dtype, single, dask_key_name=key)
    signature, sizes = _signature(function)
    computed = da.apply_gufunc(
        _evaluate,
        signature,
        *even,
        output_dtypes=(dtype,) * len(function.outputs),
        output_sizes=sizes,
        allow_rechunk=True,  # chunks within one state are joined
        function=compiled,
        threads=threads,
    )
    return computed if isinstance(computed, tuple) else (computed,)


def _evaluate(*arrays: np.ndarray, function: PackedFunction, threads: int) -> Any:
    """The results of a chunk."""
    return function.unpacked()(*arrays, threads=threads)


def _lazy(x: Any) -> Any:
    """A stored array as Dask's: one with chunks, such as Zarr's, is not read yet."""
    stored = hasattr(x, "chunks") and hasattr(x, "dtype") and not isinstance(x, da.Array)
    return da.from_array(x, chunks=x.chunks or "auto", inline_array=True) if stored else x


def _alike(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as Dask arrays of one dtype, chosen as in calls with NumPy's arrays."""
    lazy = {name: x for name, x in values.items() if isinstance(x, da.Array)}
    dtype, known = alike({**values, **{name: np.empty(0, x.dtype) for name, x in lazy.items()}})
    return {
        name: x.astype(dtype) if name in lazy else da.asarray(known[name])
        for name, x in values.items()
    }


def _check_chunks_are_known(arrays: Mapping[str, Any]) -> None:
    for name, x in arrays.items():
        if any(np.isnan(size) for size in x.shape):
            message = f"{name} has chunks of unknown sizes, shape {x.shape}"
            raise ValueError(f"{message}: call {name}.compute_chunk_sizes() first")


def _evenly_chunked(
    arrays: Mapping[str, Any], cores: Mapping[str, tuple[int, ...]]
) -> tuple[Sequence[Any], bool]:
    """The arrays with the same chunks along leading dimensions, each state in one of them; and
    whether some chunk has one state only.
    """
    operands = []
    for name, x in arrays.items():
        lead = x.ndim - len(cores[name])
        joined = x.rechunk(dict.fromkeys(range(lead, x.ndim), -1))
        operands += [joined, (*range(-lead, 0), *((name, k) for k in range(lead, x.ndim)))]
    chunks, even = da.core.unify_chunks(*operands)
    return even, all(min(sizes) == 1 for k, sizes in chunks.items() if isinstance(k, int))


def _signature(function: Function) -> tuple[str, dict[str, int]]:
    """The signature of a generalised ufunc, in which every dimension has another name, and the
    sizes of the outputs' dimensions.
    """
    sizes: dict[str, int] = {}

    def dimensions(prefix: str, shapes: Sequence[tuple[int, ...]]) -> str:
        parts = []
        for k, shape in enumerate(shapes):
            names = [f"{prefix}{k}_{axis}" for axis in range(len(shape))]
            if prefix == "out":
                sizes.update(zip(names, shape, strict=True))
            parts.append(f"({','.join(names)})")
        return ",".join(parts)

    inputs = dimensions("in", [*function.inputs.values()])
    outputs = dimensions("out", [*function.outputs.values()])
    return f"{inputs}->{outputs}", sizes
