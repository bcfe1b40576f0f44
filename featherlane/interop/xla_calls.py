"""Evaluates a function of a model in XLA: on the CPU by a handler in machine code, on GPUs by one
that puts kernels into XLA's stream. Python evaluates it, on the CPU, where XLA has another version
of its foreign function interface, on other devices, and for functions without kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.backends import xla_interface
from featherlane.errors import CompileError
from featherlane.functions.differentiated import function_of
from featherlane.functions.operations import Operation
from featherlane.interop.texts import text_of, text_of_model
from featherlane.interop.wrapped import lead_of, lead_ranks, required

jax = required("jax", "jax")
jnp, ffi = jax.numpy, jax.ffi
HEADER = "xla/ffi/api/c_api.h"


def checked_lead(op: Operation, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The leading dimensions of results. Raises ValueError for arrays of other shapes."""
    ranks = lead_ranks(shapes, op.inputs)
    for (name, wanted), shape, n in zip(op.inputs.items(), shapes, ranks, strict=True):
        if n < 0 or tuple(shape[n:]) != wanted:
            listed = ", ".join(["...", *map(str, wanted)])
            raise ValueError(f"{name} has shape {tuple(shape)}, wanted ({listed})")
    return lead_of(shapes, op.inputs)


def compute(*arrays: Any, op: Operation, platform: str = "") -> list[Any]:
    """Calls XLA's handler, whose inputs have all leading dimensions or none; or Python. platform:
    one of `PLATFORMS`, or none of them.
    """
    lead = checked_lead(op, [x.shape for x in arrays])
    pairs = zip(arrays, op.inputs.values(), strict=True)
    whole = [x if x.shape == c else jnp.broadcast_to(x, (*lead, *c)) for x, c in pairs]
    dtype = np.dtype(arrays[0].dtype)
    results = [jax.ShapeDtypeStruct((*lead, *c), dtype) for c in op.outputs.values()]
    target = target_of(op, dtype, platform) if platform else None
    if target is not None:
        return ffi.ffi_call(target, results, vmap_method="broadcast_all")(*whole)
    return jax.pure_callback(_in_python(op), results, *whole, vmap_method="broadcast_all")


def _in_python(op: Operation) -> Any:
    def run(*arrays: Any) -> tuple[Any, ...]:
        results = function_of(op)(*map(np.asarray, arrays))
        return results if isinstance(results, tuple) else (results,)

    return run


PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}  # JAX's names and XLA's
# By platform and name, for good: XLA keeps their addresses
_handlers: dict[tuple[str, str], Any] = {}


@cache
def target_of(op: Operation, dtype: np.dtype, platform: str) -> str | None:
    """The name of a function among XLA's targets; None where XLA cannot call it."""
    if not xla_interface.is_known(xla_interface.versions(Path(ffi.include_dir()) / HEADER)):
        return None
    steps = [f"{step.mode} {' '.join(step.wrt)}" for step in op.steps]
    name = "\n".join([text_of(text_of_model(op.model), op.variant), *steps, dtype.name])
    if (platform, name) in _handlers:  # of an equal model
        return name
    handler = HANDLERS[platform](op, dtype)
    if handler is None:
        return None
    try:
        capsule = ffi.pycapsule(handler.address)
        ffi.register_ffi_target(name, capsule, platform=PLATFORMS[platform])
    except jax.errors.JaxRuntimeError:  # a version that XLA does not take
        return None
    _handlers[platform, name] = handler
    return name


def _on_cpu(op: Operation, dtype: np.dtype) -> Any:
    """A handler in machine code; None for long robots, which are evaluated step by step."""
    return function_of(op).xla_handler(dtype)


def _on_cuda(op: Operation, dtype: np.dtype) -> Any:
    """A handler for GPUs, which makes its kernels at the first call; None if there are none."""
    from featherlane.backends.cuda.xla import DeviceHandler

    function = function_of(op)
    try:
        return DeviceHandler(function.on_gpu(dtype), function.inputs, function.outputs)
    except CompileError:
        return None


HANDLERS = {"cpu": _on_cpu, "cuda": _on_cuda}
